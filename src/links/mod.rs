//! Short links: destinations, codes, and what counts as a click.
//!
//! Promises. A redirect says byte for byte the destination that was stored, and is never refused
//! for a limit. A code belongs to one account for ever. A new link works at once, everywhere; a
//! change is in force everywhere within `LINK_CACHE_SECONDS`. A click is what a person's `GET`
//! was redirected for: one entry; a machine that says so gets its redirect and two entries, +1
//! and −1, with the reason and the list's name and version in the second.
//!
//! Not here: the visitor's address decides nothing about a machine (only what it says of itself
//! does), nothing of ours fetches a destination, and writing a click is `ledger::clicks`.
//!
//! `rules` decides, `destination` and `code` read what a caller gives, `crawlers` knows the list,
//! `store` has the SQL, `cache` is what an isolate remembers, `lookup` asks either, `qr` draws.

pub mod cache;
pub mod code;
pub mod crawlers;
pub mod destination;
pub mod lookup;
pub mod qr;
pub mod rules;
pub mod store;
pub mod verdicts;

pub use destination::{Destination, OwnHosts};
pub use rules::{Decision, decide};
