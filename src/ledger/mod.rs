//! The ledger: every fact of usage is one row; the meter is a copy that is sent as a total, read
//! back and proven.

pub mod shard;
