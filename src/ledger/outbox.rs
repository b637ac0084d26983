//! The object's side of its feed, in the object's own SQLite: rows that wait, the batches that
//! they were frozen into, and how far the ledger has taken them.
//!
//! A row is written in the same transaction as the change that it tells of. A batch is a range of
//! row numbers: once frozen, neither its rows nor its tallies change. Delivered batches are kept
//! for a while, so that a restored ledger can be filled again.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use super::batch;
use super::entry::{Entry, booking_id};
use super::review::Review;
use crate::fault::{Fault, FaultKind};
use crate::params;
use crate::ports::{Row, Sql};
use crate::units::{AccountId, CycleName, Delta, EntryId, FeatureName, JobId, Millis};

/// The most entries in one batch.
pub const BATCH_ROWS_MAX: i64 = 1000;
/// The most bytes of entries in one batch.
pub const BATCH_BYTES_MAX: usize = 512 * 1024;
/// The form of a batch's rows; a release reads its own and the one before.
const BATCH_VERSION: i64 = 1;
/// Batches that one visit forgets at most.
const PRUNE_MAX: i64 = 100;

/// The tables of an object that has a feed: its first schema step, or part of it.
pub const STEP: &[&str] = &[
    // Entries that were put together travel together: `row` is their JSON list, or one finding.
    "create table outbox (seq integer primary key autoincrement, row_id text not null unique, \
     kind text not null, row text not null) strict",
    "create table outbox_tally (name text primary key, total integer not null) \
     strict, without rowid",
    "create table booking (job_id text not null, feature text not null, cycle text not null, \
     number integer not null, seq integer not null, \
     primary key (job_id, feature, cycle)) strict, without rowid",
    "create table feed_batch (number integer primary key, batch_id text not null, \
     version integer not null, from_seq integer not null, to_seq integer not null, \
     tallies text not null, due_at_ms integer, frozen_at_ms integer not null, \
     confirmed_at_ms integer) strict",
    "create table feed_state (one integer primary key check (one = 1), epoch text not null, \
     confirmed integer not null, best integer not null, frozen integer not null, \
     frozen_to_seq integer not null, told_due_at_ms integer, stopped_by text) strict",
];

/// A later step: how many entries stand in a row, so that nobody has to read the row to know it.
pub const COUNTED: &[&str] = &["alter table outbox add column entries integer"];

/// How far the stream has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Which life of this storage; random.
    pub epoch: String,
    /// Every batch up to here is delivered.
    pub confirmed: i64,
    /// The highest batch that was ever confirmed in this epoch: more than `confirmed` while a
    /// restored ledger is being filled again.
    pub best: i64,
    /// The last batch that was frozen.
    pub frozen: i64,
    /// Rows up to here are frozen.
    pub frozen_to_seq: i64,
    /// The due time that the last frozen batch tells.
    pub told_due_at: Option<Millis>,
    /// The review item that names the gap, where the feed has stopped.
    pub stopped_by: Option<String>,
}

/// A frozen batch, as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// One more than the batch before.
    pub number: i64,
    /// Random.
    pub batch_id: String,
    /// The entries, a JSON list.
    pub rows_json: String,
    /// The findings for review.
    pub reviews: Vec<Review>,
    /// What to add to sums.
    pub tallies: Vec<(String, i64)>,
    /// When the object next owes something.
    pub due_at: Option<Millis>,
}

/// One booking of a job's use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    /// Whose.
    pub account_id: AccountId,
    /// Which job.
    pub job_id: JobId,
    /// Of what.
    pub feature: FeatureName,
    /// In which cycle.
    pub cycle: CycleName,
    /// How much.
    pub units: Delta,
    /// When.
    pub at: Millis,
}

/// The object's tables of its feed.
#[derive(Clone, Copy)]
pub struct Outbox<'a> {
    sql: &'a dyn Sql,
}

impl<'a> Outbox<'a> {
    /// Over an object's own SQLite.
    pub fn new(sql: &'a dyn Sql) -> Self {
        Self { sql }
    }

    /// How far the stream has come; none before the first batch.
    pub fn state(self) -> Result<Option<State>, Fault> {
        let sql = "select epoch, confirmed, best, frozen, frozen_to_seq, told_due_at_ms, \
            stopped_by from feed_state";
        let rows = self.sql.query(sql, &[])?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        Ok(Some(State {
            epoch: row.text("epoch")?.to_owned(),
            confirmed: row.int("confirmed")?,
            best: row.int("best")?,
            frozen: row.int("frozen")?,
            frozen_to_seq: row.int("frozen_to_seq")?,
            told_due_at: row.opt_millis("told_due_at_ms")?,
            stopped_by: row.opt_text("stopped_by")?.map(str::to_owned),
        }))
    }

    /// Begins the stream of a new storage.
    pub fn begin(self, epoch: &str) -> Result<(), Fault> {
        self.sql.query(
            "insert into feed_state (one, epoch, confirmed, best, frozen, frozen_to_seq) \
             values (1, ?1, 0, 0, 0, 0) on conflict (one) do nothing",
            &params![epoch],
        )?;
        Ok(())
    }

    /// Puts entries that travel together in one batch, under the id of the first one. Where that
    /// waits or was delivered a while ago nothing is done: they are the same again.
    pub fn put(self, entries: &[Entry]) -> Result<(), Fault> {
        let Some(first) = entries.first() else {
            return Ok(());
        };
        self.sql.query(
            "insert into outbox (row_id, kind, row, entries) values (?1, 'entries', ?2, ?3) \
             on conflict (row_id) do nothing",
            &params![
                first.entry_id.as_str(),
                batch::rows_json(entries)?,
                i64::try_from(entries.len()).unwrap_or(i64::MAX)
            ],
        )?;
        Ok(())
    }

    /// Whether entries that begin with this one wait or were delivered a while ago.
    pub fn is_known(self, first: &EntryId) -> Result<bool, Fault> {
        let rows = self.sql.query(
            "select 1 as known from outbox where row_id = ?1",
            &params![first.as_str()],
        )?;
        Ok(!rows.is_empty())
    }

    /// Puts a booking: added to the job's last one of that feature and cycle while that is not yet
    /// frozen, else a new one with the next number.
    pub fn book(self, booking: &Booking) -> Result<(), Fault> {
        if booking.units == Delta::ZERO {
            return Ok(());
        }
        let frozen_to = self.state()?.map_or(0, |state| state.frozen_to_seq);
        let (job, feature, cycle) = (&booking.job_id, &booking.feature, &booking.cycle);
        let names = params![job.as_str(), feature.as_str(), cycle.as_str()];
        let last = self.sql.query(
            "select number, seq from booking where job_id = ?1 and feature = ?2 and cycle = ?3",
            &names,
        )?;
        let mut number = 1;
        if let Some(row) = last.first() {
            number = row.int("number")? + 1;
            let seq = row.int("seq")?;
            if seq > frozen_to && self.add_to(seq, booking.units)? {
                return Ok(());
            }
        }
        let owner = (booking.account_id.clone(), feature.clone(), cycle.clone());
        let id = booking_id(&booking.account_id, job, (feature, cycle), number);
        let mut entry = Entry::new(
            id,
            super::entry::EntryKind::Job,
            owner,
            booking.units,
            booking.at,
        );
        entry.job_id = Some(job.clone());
        self.put(std::slice::from_ref(&entry))?;
        self.sql.query(
            "insert into booking (job_id, feature, cycle, number, seq) \
             values (?1, ?2, ?3, ?4, (select max(seq) from outbox)) \
             on conflict (job_id, feature, cycle) do update set number = excluded.number, \
             seq = excluded.seq",
            &params![job.as_str(), feature.as_str(), cycle.as_str(), number],
        )?;
        Ok(())
    }

    /// Adds to the one entry of a row. A sum of zero cannot stand in the ledger, so that row goes.
    fn add_to(self, seq: i64, units: Delta) -> Result<bool, Fault> {
        let rows = self.sql.query(
            "update outbox set row = json_set(row, '$[0].units', \
             (row ->> '$[0].units') + cast(?2 as integer)) \
             where seq = cast(?1 as integer) and (row ->> '$[0].units') <> - cast(?2 as integer) \
             returning seq",
            &params![seq, units],
        )?;
        Ok(!rows.is_empty())
    }

    /// Whether every booking of the job is delivered.
    pub fn is_delivered(self, job_id: &JobId) -> Result<bool, Fault> {
        let rows = self.sql.query(
            "select 1 as waits from booking b where b.job_id = ?1 and b.seq > coalesce(\
             (select f.to_seq from feed_batch f, feed_state s where f.number <= s.confirmed \
              order by f.number desc limit 1), 0) limit 1",
            &params![job_id.as_str()],
        )?;
        Ok(rows.is_empty())
    }

    /// Forgets the numbers of a job's bookings; only when the job itself is forgotten.
    pub fn forget_job(self, job_id: &JobId) -> Result<(), Fault> {
        self.sql.query(
            "delete from booking where job_id = ?1",
            &params![job_id.as_str()],
        )?;
        Ok(())
    }

    /// Puts a finding for review.
    pub fn put_review(self, review: &Review) -> Result<(), Fault> {
        self.sql.query(
            "insert into outbox (row_id, kind, row) values (?1, 'review', ?2) \
             on conflict (row_id) do nothing",
            &params![review.review_id.as_str(), json!(review).to_string()],
        )?;
        Ok(())
    }

    /// Adds to a sum that travels with the next batch.
    pub fn count(self, name: &str, by: i64) -> Result<(), Fault> {
        self.sql.query(
            "insert into outbox_tally (name, total) values (?1, ?2) \
             on conflict (name) do update set total = total + excluded.total",
            &params![name, by],
        )?;
        Ok(())
    }

    /// Whether rows wait that no batch has taken yet.
    pub fn has_waiting(self, frozen_to_seq: i64) -> Result<bool, Fault> {
        let rows = self.sql.query(
            "select 1 as waits from outbox where seq > ?1 limit 1",
            &params![frozen_to_seq],
        )?;
        Ok(!rows.is_empty())
    }

    fn has_tallies(self) -> Result<bool, Fault> {
        let rows = self
            .sql
            .query("select 1 as waits from outbox_tally limit 1", &[])?;
        Ok(!rows.is_empty())
    }

    /// Freezes the oldest rows that wait into the next batch, also an empty one where the due time
    /// must be told; gives whether there is one. In a transaction of the caller's.
    pub fn freeze(
        self,
        batch_id: &str,
        due_at: Option<Millis>,
        must_tell: bool,
        now: Millis,
    ) -> Result<bool, Fault> {
        let state = self.begun()?;
        let to_seq = self.fitting(state.frozen_to_seq)?;
        let is_empty = to_seq == state.frozen_to_seq;
        if is_empty && !must_tell && !self.has_tallies()? {
            return Ok(false);
        }
        // What waits behind this batch is owed at once.
        let due_at = if self.has_waiting(to_seq)? {
            Some(due_at.map_or(now, |due| due.min(now)))
        } else {
            due_at
        };
        let sums = self
            .sql
            .query("delete from outbox_tally returning name, total", &[])?;
        let mut tallies = Map::new();
        for row in &sums {
            tallies.insert(row.text("name")?.to_owned(), json!(row.int("total")?));
        }
        let number = state.frozen + 1;
        self.sql.query(
            "insert into feed_batch (number, batch_id, version, from_seq, to_seq, tallies, \
             due_at_ms, frozen_at_ms) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            &params![
                number,
                batch_id,
                BATCH_VERSION,
                state.frozen_to_seq + 1,
                to_seq,
                Json::Object(tallies).to_string(),
                due_at,
                now
            ],
        )?;
        self.sql.query(
            "update feed_state set frozen = ?1, frozen_to_seq = ?2, told_due_at_ms = ?3",
            &params![number, to_seq, due_at],
        )?;
        Ok(true)
    }

    /// The last row that still fits into one batch, from the first that is not frozen.
    fn fitting(self, frozen_to_seq: i64) -> Result<i64, Fault> {
        let rows = self.sql.query(
            "select seq, length(cast(row as blob)) as bytes, case kind when 'entries' \
             then coalesce(entries, json_array_length(row)) else 1 end as entries \
             from outbox where seq > ?1 order by seq limit cast(?2 as integer)",
            &params![frozen_to_seq, BATCH_ROWS_MAX],
        )?;
        let (mut to_seq, mut entries, mut bytes) = (frozen_to_seq, 0, 0);
        for row in &rows {
            entries += row.int("entries")?;
            bytes += row.int("bytes")?;
            let fits = entries <= BATCH_ROWS_MAX
                && usize::try_from(bytes).is_ok_and(|bytes| bytes <= BATCH_BYTES_MAX);
            if !fits && to_seq > frozen_to_seq {
                break;
            }
            to_seq = row.int("seq")?;
        }
        Ok(to_seq)
    }

    fn begun(self) -> Result<State, Fault> {
        self.state()?
            .ok_or_else(|| Fault::unreadable("read the feed's state", "it was not begun"))
    }

    /// The first batch that is frozen and not confirmed.
    pub fn first_unconfirmed(self) -> Result<Option<Batch>, Fault> {
        let rows = self.sql.query(
            "select b.number, b.batch_id, b.version, b.from_seq, b.to_seq, b.tallies, \
             b.due_at_ms from feed_batch b, feed_state s where b.number > s.confirmed \
             order by b.number limit 1",
            &[],
        )?;
        rows.first().map(|row| self.batch_of(row)).transpose()
    }

    fn batch_of(self, batch: &Row) -> Result<Batch, Fault> {
        if batch.int("version")? > BATCH_VERSION {
            return Err(Fault {
                kind: FaultKind::NewerSchema,
                doing: "read a batch".to_owned(),
                cause: format!("its version is {}", batch.int("version")?),
            });
        }
        let range = params![batch.int("from_seq")?, batch.int("to_seq")?];
        // Each row is a JSON list: what stands between its brackets is a part of the batch's.
        let rows = self.sql.query(
            "select '[' || coalesce(group_concat(substr(row, 2, length(row) - 2)), '') || ']' \
             as rows from (select row from outbox where kind = 'entries' \
             and seq between ?1 and ?2 order by seq)",
            &range,
        )?;
        let rows_json = rows.first().map_or(Ok("[]"), |row| row.text("rows"))?;
        let found = self.sql.query(
            "select row from outbox where kind = 'review' and seq between ?1 and ?2 order by seq",
            &range,
        )?;
        let mut reviews = Vec::new();
        for row in &found {
            let review = serde_json::from_str(row.text("row")?);
            reviews.push(review.map_err(|e| Fault::unreadable("read a review item", e))?);
        }
        let tallies: BTreeMap<String, i64> = serde_json::from_str(batch.text("tallies")?)
            .map_err(|e| Fault::unreadable("read a batch's tallies", e))?;
        Ok(Batch {
            number: batch.int("number")?,
            batch_id: batch.text("batch_id")?.to_owned(),
            rows_json: rows_json.to_owned(),
            reviews,
            tallies: tallies.into_iter().collect(),
            due_at: batch.opt_millis("due_at_ms")?,
        })
    }

    /// The random id of our batch of that number, while it is kept.
    pub fn batch_id(self, number: i64) -> Result<Option<String>, Fault> {
        let sql = "select batch_id from feed_batch where number = ?1";
        let rows = self.sql.query(sql, &params![number])?;
        rows.first()
            .map(|row| row.text("batch_id").map(str::to_owned))
            .transpose()
    }

    /// The first batch that is kept.
    pub fn kept_from(self, state: &State) -> Result<i64, Fault> {
        let rows = self
            .sql
            .query("select min(number) as number from feed_batch", &[])?;
        let first = rows.first().map_or(Ok(None), |row| row.opt_int("number"))?;
        Ok(first.unwrap_or(state.frozen + 1))
    }

    /// The ledger stands at this batch: what is up to it is delivered, what follows is not.
    pub fn stand_at(self, number: i64, now: Millis) -> Result<(), Fault> {
        self.sql.query(
            "update feed_batch set confirmed_at_ms = case when number <= ?1 \
             then coalesce(confirmed_at_ms, ?2) end \
             where (number <= ?1) <> (confirmed_at_ms is not null)",
            &params![number, now],
        )?;
        self.sql.query(
            "update feed_state set confirmed = ?1, best = max(best, cast(?1 as integer))",
            &params![number],
        )?;
        Ok(())
    }

    /// Begins a new epoch with the batches after `number` as its first ones, all to be sent.
    /// Batches up to it are forgotten.
    pub fn new_epoch(self, epoch: &str, number: i64) -> Result<(), Fault> {
        self.sql.query(
            "delete from outbox where seq <= coalesce((select max(to_seq) from feed_batch \
             where number <= ?1), 0)",
            &params![number],
        )?;
        self.sql.query(
            "delete from feed_batch where number <= ?1",
            &params![number],
        )?;
        // In two steps, so that no number is ever taken twice.
        self.sql.query(
            "update feed_batch set number = - number, confirmed_at_ms = null",
            &[],
        )?;
        self.sql.query(
            "update feed_batch set number = - number - cast(?1 as integer)",
            &params![number],
        )?;
        self.sql.query(
            "update feed_state set epoch = ?1, confirmed = 0, best = 0, stopped_by = null, \
             frozen = coalesce((select max(number) from feed_batch), 0)",
            &params![epoch],
        )?;
        Ok(())
    }

    /// Stops the feed until that review item is closed.
    pub fn stop(self, review_id: &str) -> Result<(), Fault> {
        self.sql
            .query("update feed_state set stopped_by = ?1", &params![review_id])?;
        Ok(())
    }

    /// The feed is no longer stopped.
    pub fn resume(self) -> Result<(), Fault> {
        self.sql
            .query("update feed_state set stopped_by = null", &[])?;
        Ok(())
    }

    /// Forgets batches that were confirmed before that moment, but never the last one, by whose
    /// id a put-back storage is recognised. Gives when the oldest of the others was confirmed.
    pub fn prune(self, before: Millis) -> Result<Option<Millis>, Fault> {
        let old = self.sql.query(
            "select max(number) as number, max(to_seq) as to_seq from (\
             select b.number, b.to_seq from feed_batch b, feed_state s \
             where b.number < s.confirmed and b.confirmed_at_ms < ?1 \
             order by b.number limit cast(?2 as integer))",
            &params![before, PRUNE_MAX],
        )?;
        if let Some(row) = old.first()
            && let Some(number) = row.opt_int("number")?
        {
            let to_seq = row.int("to_seq")?;
            self.sql
                .query("delete from outbox where seq <= ?1", &params![to_seq])?;
            self.sql.query(
                "delete from feed_batch where number <= ?1",
                &params![number],
            )?;
        }
        let rows = self.sql.query(
            "select min(b.confirmed_at_ms) as at_ms from feed_batch b, feed_state s \
             where b.number < s.confirmed",
            &[],
        )?;
        rows.first().map_or(Ok(None), |row| row.opt_millis("at_ms"))
    }
}
