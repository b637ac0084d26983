//! The native side: the same SQL on rusqlite, and a whole Counterfoil in one process, for tests
//! and simulation. The only code that names `rusqlite`.

pub mod executor;
pub mod faulty;
pub mod hashes;
pub mod machine;
pub mod signatures;
pub mod simulation;
pub mod sqlite;
