//! The inbox: the provider's webhooks are verified, stored, answered, and then applied, each once
//! in effect, in any order, after any crash.
//!
//! * `receive`: a delivery is verified (`token`, `keys`) and stored with its receipt in one batch;
//!   200 means stored, never applied; what does nothing beyond being stored is at its end with
//!   that. A refusal leaves nothing but a counter.
//! * `lane`: one event of a customer at a time. A claim puts a random token into the customer's
//!   lane; every batch of an apply begins with a guard on it, so a worker that lost its lease
//!   changes nothing. The table is the schedule: object, alarm and cron only wake it.
//! * `rules`: what an event does, given what is stored and what the provider says now. Pure.
//! * `apply`: effects and the mark in one batch.
//! * `watchdog`: what is due and nobody woke, follow-up reads, old bodies, alerts.
//!
//! An event says *that* something changed; what, the provider is asked (`crate::plans`). The
//! identity of an event is the signed `event_id`, never the header `webhook-id`.

pub mod alerts;
pub mod apply;
pub mod canonical;
pub mod engine;
pub mod facts;
pub mod keys;
pub mod lane;
pub mod listing;
pub mod receive;
pub mod replay;
pub mod rules;
pub mod token;
pub mod waking;
pub mod watchdog;
