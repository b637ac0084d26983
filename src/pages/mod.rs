//! The pages: view structs in, HTML out. No queries, no decisions; maud escapes everything.
//!
//! Every page is [`frame`]d. Pages work without script; `script.js` sends a form that has
//! `data-api="POST /v1/…"` as JSON with the session's cookie and reloads, or shows the problem.

mod account;
mod docs;
mod engine_room;
mod events;
mod frame;
mod jobs;
mod lab;
mod links;
mod overview;
mod reconcile;
mod signin;

pub use account::{AccountView, BudgetLine, KeyLine, account};
pub use docs::docs;
pub use engine_room::engine_room;
pub use events::{EventsView, event_table, events};
pub use frame::{Viewer, frame, moment, number};
pub use jobs::{BusyLine, JobLine, JobsView, RefusalLine, busy_accounts, jobs};
pub use lab::{LabLine, LabView, lab};
pub use links::{DayLine, LinkLine, LinksView, links, links_of_whom};
pub use overview::{AccountLine, Counts, Overview, overview};
pub use reconcile::{EvidenceLine, MeterLine, ReconcileView, ReviewLine, reconcile};
pub use signin::{no_page, sign_in};

/// `/app/style.css`
pub const STYLE: &str = include_str!("style.css");
/// `/app/script.js`
pub const SCRIPT: &str = include_str!("script.js");
