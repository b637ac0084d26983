//! The ledger: every fact of usage is one row; the meter is a copy that is sent as a total, read
//! back and proven.
//!
//! - The same fact, however often and by whatever way it comes, is one row: its id is made before
//!   anything is written.
//! - A counter is the sum of its entries at every commit.
//! - What an object accepted reaches the ledger exactly once.
//!
//! Read `entry` (a row), `batch` (the SQL that takes rows in), `outbox` and `feed` (an object's
//! stream of batches), `stream` (how far each has come), `shard` and `clicks` (how a click gets
//! here), `cycles` (in which cycle a fact counts), `usage`, `correction`, `entries` (how they are
//! read); then `meter_rules` (when a meter may be written), `base_rules` and `base` (what a
//! cycle's earlier meters hold), `meter` (the one function that writes it), `marks` (what is still
//! to be told), `restored` (what a ledger that was put back cannot know), `evidence` (what was
//! found), `review` and `closing` (what a person must look at),
//! `carry` (a difference moved into the open cycle).
//!
//! Not here: whether a redirect is a click (`links`), what a job may use (`gate`).

pub mod base;
pub mod base_rules;
pub mod batch;
pub mod billed;
pub mod carry;
pub mod clicks;
pub mod closing;
pub mod compare;
pub mod correction;
pub mod cycles;
pub mod entries;
pub mod entry;
pub mod evidence;
pub mod feed;
pub mod feeds;
pub mod marks;
pub mod meter;
pub mod meter_rules;
pub mod meter_store;
pub mod meters;
pub mod outbox;
pub mod restored;
pub mod review;
pub mod rules;
pub mod runs;
pub mod shard;
pub mod stream;
pub mod totals;
pub mod travelling;
pub mod turn_guard;
pub mod usage;
pub mod wire;
