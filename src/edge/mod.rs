//! The Worker: the only code that names `worker`.
