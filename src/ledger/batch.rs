//! The one SQL text by which entries reach a ledger database: batches of feeds, the direct path of
//! a click, plain usage, corrections and carries.
//!
//! In one D1 batch, in this order: the feed moves by exactly one (or everything fails); the same
//! id with other content goes to review; the counters grow by what those rows say that the ledger
//! does not have yet; then these rows are inserted. Whoever repeats a batch changes nothing.

use serde_json::{Map, Value as Json, json};

use super::entry::Entry;
use crate::fault::Fault;
use crate::params;
use crate::ports::Statement;
use crate::units::Millis;

/// Names what the fields of an entry on its way are; `ledger::entry::EntryWire` writes them. Each
/// row's text is made once: every look at `value` would make it anew.
macro_rules! rows {
    () => {
        "with packed as materialized (select value as row from json_each(?1)), \
         sent as (select row ->> 'id' as entry_id, row ->> 'account' as account_id, \
         row ->> 'feature' as feature, row ->> 'cycle' as cycle, row ->> 'units' as units, \
         row ->> 'kind' as kind, row ->> 'code' as code, row ->> 'job' as job_id, \
         row ->> 'key' as key, row ->> 'corrects' as corrects, row ->> 'reason' as reason, \
         row ->> 'rule' as rule, row ->> 'actor' as actor, row ->> 'country' as country, \
         row ->> 'referrer' as referrer_host, row ->> 'at' as occurred_at_ms, \
         row ->> 'undated' as undated from packed) "
    };
}

/// What makes the same id another fact. A caller who named no time means the same fact at whatever
/// time the repeat comes, so time and cycle are compared only where one was named.
macro_rules! differs {
    () => {
        "(e.account_id is not s.account_id or e.feature is not s.feature \
         or e.units is not s.units or e.kind is not s.kind or e.code is not s.code \
         or e.job_id is not s.job_id or e.key is not s.key or e.corrects is not s.corrects \
         or e.reason is not s.reason \
         or (s.undated is null \
             and (e.cycle is not s.cycle or e.occurred_at_ms is not s.occurred_at_ms)))"
    };
}

/// A row that the ledger does not have yet. A rule takes back only what is left of its click: one
/// that came by another way first may have been taken back by a person before the rule's own
/// correction arrives.
macro_rules! is_new {
    () => {
        "not exists (select 1 from entry e where e.entry_id = s.entry_id) \
         and (s.rule is null or 0 <= coalesce(s.units \
           + (select c.units from entry c where c.entry_id = s.corrects) \
           + (select coalesce(sum(d.units), 0) from entry d where d.corrects = s.corrects), 0))"
    };
}

const CONFLICTS: &str = concat!(
    "insert into review (review_id, kind, account_id, feature, cycle, numbers, opened_at_ms) ",
    rows!(),
    "select 'rev_' || s.entry_id, 'conflict', s.account_id, s.feature, s.cycle, \
     json_object('entry_id', s.entry_id, 'stored_units', e.units, 'sent_units', s.units, \
       'stored_cycle', e.cycle, 'sent_cycle', s.cycle), cast(?2 as integer) \
     from sent s join entry e on e.entry_id = s.entry_id where ",
    differs!(),
    " on conflict (review_id) do nothing"
);

const NO_CONFLICT: &str = concat!(
    "insert into guard (held) ",
    rows!(),
    "select null from sent s join entry e on e.entry_id = s.entry_id where ",
    differs!()
);

const CONFLICTING: &str = concat!(
    rows!(),
    "select s.entry_id, s.key from sent s join entry e on e.entry_id = s.entry_id where ",
    differs!(),
    " order by s.entry_id"
);

const COUNTERS: &str = concat!(
    "insert into counter (account_id, feature, cycle, total, version, changed_at_ms) ",
    rows!(),
    "select s.account_id, s.feature, s.cycle, sum(s.units), sum(s.units) <> 0, \
     cast(?2 as integer) from sent s where ",
    is_new!(),
    " group by s.account_id, s.feature, s.cycle \
     on conflict (account_id, feature, cycle) do update set total = total + excluded.total, \
     version = version + excluded.version, changed_at_ms = excluded.changed_at_ms"
);

const ENTRIES: &str = concat!(
    "insert into entry (entry_id, account_id, feature, cycle, units, kind, code, job_id, key, \
     corrects, reason, rule, actor, country, referrer_host, occurred_at_ms, recorded_at_ms) ",
    rows!(),
    "select s.entry_id, s.account_id, s.feature, s.cycle, s.units, s.kind, s.code, s.job_id, \
     s.key, s.corrects, s.reason, s.rule, s.actor, s.country, s.referrer_host, \
     s.occurred_at_ms, cast(?2 as integer) from sent s where ",
    is_new!()
);

/// Null, and so a failed batch, unless the feed stands one before `?3`.
const FEED: &str = "insert into feed \
    (object, epoch, last, last_id, due_at_ms, first_at_ms, last_at_ms) \
    select ?1, ?2, case when cast(?3 as integer) = 1 + coalesce((select last from feed \
      where object = ?1 and epoch = ?2), 0) then cast(?3 as integer) end, \
    ?4, cast(?5 as integer), cast(?6 as integer), cast(?6 as integer) where true \
    on conflict (object, epoch) do update set last = excluded.last, last_id = excluded.last_id, \
    due_at_ms = excluded.due_at_ms, last_at_ms = excluded.last_at_ms";

/// Only the object's present life owes anything; it says so with its first batch.
const EARLIER_LIVES: &str = "update feed set due_at_ms = null \
    where object = ?1 and epoch <> ?2 and cast(?3 as integer) = 1";

const TALLIES: &str = "insert into tally (name, total) \
    select key, value from json_each(?1) where true \
    on conflict (name) do update set total = total + excluded.total";

/// The step of an object's feed that a batch takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedMove {
    /// The object's name in `feed`.
    pub object: String,
    /// Which life of its storage.
    pub epoch: String,
    /// The batch's number.
    pub number: i64,
    /// The batch's random id.
    pub batch_id: String,
    /// When the object next owes something.
    pub due_at: Option<Millis>,
}

/// Entries as the JSON list that [`statements`] takes. Each id stands in it at most once: a list
/// with one twice fails as a whole.
pub fn rows_json<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Result<String, Fault> {
    let wires: Vec<_> = entries.into_iter().map(Entry::wire).collect();
    serde_json::to_string(&wires).map_err(|e| Fault::unreadable("write entries", e))
}

/// The statements of one D1 batch, in their order. `tallies` are names with what to add to them.
pub fn statements(
    feed: Option<&FeedMove>,
    rows_json: &str,
    tallies: &[(String, i64)],
    now: Millis,
) -> Vec<Statement> {
    let mut all = Vec::new();
    if let Some(feed) = feed {
        let (object, epoch) = (feed.object.as_str(), feed.epoch.as_str());
        let step = params![
            object,
            epoch,
            feed.number,
            feed.batch_id.as_str(),
            feed.due_at,
            now
        ];
        all.push(Statement::new(FEED, step));
        all.push(Statement::new(
            EARLIER_LIVES,
            params![object, epoch, feed.number],
        ));
    }
    if rows_json != "[]" {
        for sql in [CONFLICTS, COUNTERS, ENTRIES] {
            let mut params = params![rows_json, now];
            params.truncate(if sql.contains("?2") { 2 } else { 1 });
            all.push(Statement::new(sql, params));
        }
    }
    if !tallies.is_empty() {
        let sums: Map<String, Json> = tallies
            .iter()
            .cloned()
            .map(|(k, v)| (k, json!(v)))
            .collect();
        all.push(Statement::new(
            TALLIES,
            params![Json::Object(sums).to_string()],
        ));
    }
    all
}

/// The rows that are stored with other content: their `entry_id` and `key`.
pub fn conflicting(rows_json: &str) -> Statement {
    Statement::new(CONFLICTING, params![rows_json])
}

/// Fails the batch that it begins where one of the rows is stored with other content.
pub fn no_conflict(rows_json: &str) -> Statement {
    Statement::new(NO_CONFLICT, params![rows_json])
}
