//! Everything that runs natively and is larger than a unit test: one binary, a module per area.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]
#![allow(missing_docs)]

mod accounts;
mod alerts;
mod anchors;
mod answers;
mod answers_made;
mod auth;
mod bases;
mod cases;
mod ceiling;
mod claims;
mod clicks;
mod clocks;
mod contract;
mod contract_ledger;
mod contract_table;
mod crash;
mod cron;
mod desk;
mod engine_room;
mod feed;
mod fences;
mod gate;
mod gate_books;
mod gate_crash;
mod gate_limits;
mod gate_routes;
mod inbox;
mod inbox_desk;
mod inbox_door;
mod inbox_lanes;
mod inbox_replay;
mod inbox_routes;
mod inbox_turns;
mod interleave;
mod json_schema;
mod jwt_simple;
mod links;
mod meters;
mod openapi;
mod operations;
mod outbox;
mod parsers;
mod plans;
mod quick;
mod races;
mod reconciler;
mod redirects_at_once;
mod refused_values;
mod reporter;
mod restored;
mod simulation;
mod terminal;
mod tidy;
mod twice;
mod usage;
mod visits;
