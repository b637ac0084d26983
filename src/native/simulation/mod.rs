//! The simulation: production code and production SQL in one process, with everything that can go
//! wrong between any two awaits going wrong, reproducible from a seed.

pub mod auditor;
pub mod books;
pub mod chance;
pub mod chaos;
pub mod clients;
pub mod run;
pub mod schedule;
pub mod stats;
pub mod world;
