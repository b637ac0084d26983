//! Counterfoil: usage billing that is exact at the edge.
//!
//! A **gate** holds part of a limit before an expensive job starts; a **ledger** keeps one row for
//! each fact of usage and proves the provider's meter against it; an **inbox** applies the
//! provider's webhooks once in effect, in any order. `ARCHITECTURE.md` is the map.
//!
//! Decisions are pure functions (`*/rules.rs`), the world is behind ports (`ports`), and only
//! `edge` (the Worker) and `native` (tests, simulation) know what is on the other side.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(test, allow(clippy::indexing_slicing))]

pub mod accounts;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod counting;
pub mod cron;
pub mod cycle;
pub mod fault;
pub mod gate;
pub mod http;
pub mod inbox;
pub mod isolate;
pub mod ledger;
pub mod limits;
pub mod links;
pub mod moment;
pub mod object;
pub mod pages;
pub mod parallel;
pub mod plans;
pub mod ports;
pub mod provider;
pub mod reconciler;
pub mod reporter;
pub mod settings;
pub mod sweeper;
pub mod tally;
pub mod together;
pub mod units;
pub mod world;

#[cfg(target_arch = "wasm32")]
mod edge;
#[cfg(not(target_arch = "wasm32"))]
pub mod native;
