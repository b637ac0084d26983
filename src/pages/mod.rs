//! Pages: view structs in, HTML out; no queries.
