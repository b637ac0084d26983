//! The pages: view structs in, HTML out. No queries, no decisions; maud escapes everything.
//!
//! Every page is framed by `frame.rs`, lists with `sheet.rs` and writes figures with `figures.rs`.
//! What is read needs no script; `script.js` sends a form that has `data-api="POST /v1/…"` as JSON
//! with the session's cookie and reloads, or says beside the field what is wrong.

mod account;
mod dead_link;
mod docs;
mod engine_room;
mod events;
mod figures;
mod frame;
mod jobs;
mod lab;
mod links;
mod overview;
mod reconcile;
mod sheet;
mod signin;

pub use account::{AccountView, BudgetLine, KeyLine, account};
pub use dead_link::dead_link;
pub use docs::docs;
pub use engine_room::engine_room;
pub use events::{EventsView, event_table, events};
pub use figures::{
    Tone, badge, bar, duration, moment, number, number_or_dash, or_dash, tile, words,
};
pub use frame::{Viewer, frame, frame_of};
pub use jobs::{BusyLine, JobLine, JobsView, RefusalLine, budget_table, busy_accounts, jobs};
pub use lab::{LabLine, LabView, lab};
pub use links::{DayLine, LinkLine, LinksView, links, links_of_whom};
pub use overview::{AccountLine, AlertLine, Counts, Overview, overview};
pub use reconcile::{EvidenceLine, MeterLine, ReconcileView, ReviewLine, RunView, reconcile};
pub use signin::{no_page, sign_in};

/// `/app/style.css`
pub const STYLE: &str = include_str!("style.css");
/// `/app/script.js`
pub const SCRIPT: &str = include_str!("script.js");
