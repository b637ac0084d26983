//! The simulation: production code and production SQL in one process, with everything that can go
//! wrong between any two awaits going wrong, reproducible from a seed.
//!
//! Read `run` (a run from its first account to its audit), `trouble` (what may happen at each
//! moment), `clients` (who talks to the machine), `chaos` and `gear` (what happens to whatever
//! passes a port), `disaster` (what is lost and put back), `books` (what must be true, in plain
//! maps), `auditor` (which compares the two), `twin` (the same facts without trouble).

pub mod auditor;
pub mod books;
pub mod chance;
pub mod chaos;
pub mod clients;
pub mod disaster;
pub mod gear;
pub mod provider;
pub mod rest;
pub mod run;
pub mod schedule;
pub mod stats;
pub mod trouble;
pub mod twin;
pub mod world;
