//! The gate: hold part of the limit before a job starts, charge each step, settle at the real
//! cost; the limit is never passed.

pub mod object;
