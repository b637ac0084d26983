//! The `LedgerShard` object: the durable buffer and sharded counters of clicks.
//!
//! One local transaction writes the rows, adds to the counters of rows taken in, and owes the
//! flush. Where the double-click rule is on, a shard knows a visitor by an HMAC under a random key
//! of its own that changes daily, and keeps it for the rule's window and for as long as a click may
//! be on its way. Clicks are judged by their own times, in whatever order they arrive.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::json;

use super::entry::{Entry, EntryWire};
use super::feed::{self, Feed};
use super::rules::is_double_click;
use super::wire::{ClickWire, Recorded, ShardAsk, VERSION, Visitor};
use crate::fault::{Fault, FaultKind};
use crate::object::Object;
use crate::params;
use crate::ports::{ObjectName, transact};
use crate::provider::standin::clock;
use crate::units::{AccountId, CycleName, FeatureName, Millis, hex};

const STEPS: &[&[&str]] = &[feed::STEP, STEP, VISITORS, feed::COUNTED];

const STEP: &[&str] = &[
    "create table taken (account_id text not null, feature text not null, cycle text not null, \
     entries integer not null, units integer not null, \
     primary key (account_id, feature, cycle)) strict, without rowid",
    "create table visitor (visitor text primary key, counted_at_ms integer not null) \
     strict, without rowid",
    "create index visitor_by_time on visitor (counted_at_ms)",
    "create table visitor_key (day integer primary key, key text not null) strict",
];

/// Every click of a visitor that counted, where only the last one was known before.
const VISITORS: &[&str] = &[
    "create table counted (visitor text not null, at_ms integer not null, \
     primary key (visitor, at_ms)) strict, without rowid",
    "create index counted_by_time on counted (at_ms)",
    "insert into counted (visitor, at_ms) select visitor, counted_at_ms from visitor",
    "delete from visitor",
];

/// A click reaches its shard within this of its own time, or goes another way.
const LATE_MS: i64 = 30_000;
/// Under this name a shard owes the forgetting of visitors.
const FORGET: &str = "~visitors";
const DAY_MS: i64 = 86_400_000;

/// One shard, awake.
pub struct ShardObject {
    object: Object,
    feed: Rc<Feed>,
    is_awake: Cell<bool>,
}

impl ShardObject {
    /// Wakes on its storage.
    pub fn new(object: Object) -> Self {
        Self {
            feed: Feed::new(object.clone()),
            object,
            is_awake: Cell::new(false),
        }
    }

    /// Answers a message.
    pub async fn ask(&self, message: &str) -> Result<String, Fault> {
        self.wake()?;
        clock::learn(&self.object).await?;
        let outcome = self.answer(message).await;
        self.object.arm().await?;
        outcome
    }

    /// Does what is due.
    pub async fn alarm(&self) -> Result<(), Fault> {
        self.object.alarm_fired();
        self.wake()?;
        clock::learn(&self.object).await?;
        let outcome = self.do_what_is_due().await;
        self.object.arm().await?;
        outcome
    }

    fn wake(&self) -> Result<(), Fault> {
        if !self.is_awake.get() {
            self.object.wake(STEPS)?;
            self.is_awake.set(true);
        }
        Ok(())
    }

    async fn do_what_is_due(&self) -> Result<(), Fault> {
        let now = self.object.now()?;
        if self.object.owed_at(FORGET)?.is_some_and(|at| at <= now) {
            transact(&*self.object.sql, || self.forget_visitors(now))?;
        }
        self.feed.flush_if_due().await
    }

    async fn answer(&self, message: &str) -> Result<String, Fault> {
        let ask = ShardAsk::of_json(message)?;
        if ask.version() > VERSION {
            return Err(Fault {
                kind: FaultKind::NewerSchema,
                doing: "read a message to a shard".to_owned(),
                cause: format!("its version is {}", ask.version()),
            });
        }
        match ask {
            ShardAsk::Record {
                shard,
                bundles,
                tallies,
                ..
            } => {
                self.feed.tell_name(&ObjectName::LedgerShard(shard))?;
                let taken = self.record(bundles, &tallies)?;
                Ok(json!(Recorded { taken }).to_string())
            }
            ShardAsk::TakeFeed { shard, rows, .. } => {
                self.feed.tell_name(&ObjectName::LedgerShard(shard))?;
                let state = self.feed.take_rows(&rows).await?;
                Ok(json!(state).to_string())
            }
            ShardAsk::Clock { offset_ms, .. } => {
                self.object.set_clock_offset(offset_ms)?;
                Ok(json!({}).to_string())
            }
        }
    }

    fn record(
        &self,
        bundles: Vec<Vec<ClickWire>>,
        tallies: &BTreeMap<String, i64>,
    ) -> Result<usize, Fault> {
        let now = self.object.now()?;
        let read = |bundle: Vec<ClickWire>| bundle.into_iter().map(Parcel::of_wire).collect();
        let bundles: Result<Vec<Vec<Parcel>>, Fault> = bundles.into_iter().map(read).collect();
        let bundles = bundles?;
        transact(&*self.object.sql, || {
            let mut taken = 0;
            let mut counts = Counts::default();
            for bundle in bundles {
                let clicks = bundle.len();
                if let Some(entries) = self.take_in(bundle, now)? {
                    taken += clicks;
                    counts.add(&entries);
                }
            }
            self.count(&counts, now)?;
            for (name, by) in tallies {
                self.feed.count(name, *by, now)?;
            }
            Ok(taken)
        })
    }

    /// Puts a bundle's entries; `None` where it was put before. A repeat is recognised first: the
    /// double-click rule would else take each of its clicks for a second one.
    fn take_in(&self, bundle: Vec<Parcel>, now: Millis) -> Result<Option<Vec<Entry>>, Fault> {
        let window_ms = self.object.world.settings.double_click_ms;
        let Some(first) = bundle.first() else {
            return Ok(None);
        };
        if self.feed.is_known(&first.entry.entry_id)? {
            return Ok(None);
        }
        let mut entries = Vec::with_capacity(bundle.len());
        for parcel in bundle {
            let correction = self.correction(&parcel, window_ms, now)?;
            entries.push(parcel.entry);
            entries.extend(correction);
        }
        if window_ms > 0 {
            self.object
                .owe_by(FORGET, now.after(kept_ms(window_ms) + 1))?;
        }
        self.feed.put(&entries, now)?;
        Ok(Some(entries))
    }

    /// The correction that a click came with, else that of a double click.
    fn correction(
        &self,
        parcel: &Parcel,
        window_ms: i64,
        now: Millis,
    ) -> Result<Option<Entry>, Fault> {
        let (entry, visitor) = (&parcel.entry, parcel.visitor.as_ref());
        match (&parcel.correction, visitor.filter(|_| window_ms > 0)) {
            (None, Some(visitor)) if self.is_second(entry, visitor, (window_ms, now))? => {
                let rule = format!("double_click/{window_ms}");
                Ok(Some(entry.corrected_by_rule("double_click", &rule)))
            }
            (correction, _) => Ok(correction.clone()),
        }
    }

    /// Whether a click of this visitor on the link that counted lies within the window; if not,
    /// this one counts. One that is to be forgotten by now is not looked at: it may be this very
    /// click, whose id is forgotten already.
    fn is_second(
        &self,
        entry: &Entry,
        visitor: &Visitor,
        (window_ms, now): (i64, Millis),
    ) -> Result<bool, Fault> {
        let day = entry.occurred_at.get().div_euclid(DAY_MS);
        let today = self.visitor_name(entry, visitor, day)?;
        // A pair around midnight is known by the key of the day before or after.
        let before = self.visitor_name(entry, visitor, day - 1)?;
        let after = self.visitor_name(entry, visitor, day + 1)?;
        let rows = self.object.sql.query(
            "select at_ms from counted where visitor in (?1, ?2, ?3) and at_ms > ?5 \
             order by abs(at_ms - ?4) limit 1",
            &params![
                today.as_str(),
                before.as_str(),
                after.as_str(),
                entry.occurred_at,
                now.after(-kept_ms(window_ms))
            ],
        )?;
        let nearest = rows.first().map(|row| row.millis("at_ms")).transpose()?;
        if is_double_click(nearest, entry.occurred_at, window_ms) {
            return Ok(true);
        }
        self.object.sql.query(
            "insert into counted (visitor, at_ms) values (?1, ?2) on conflict do nothing",
            &params![today.as_str(), entry.occurred_at],
        )?;
        Ok(false)
    }

    fn visitor_name(&self, entry: &Entry, visitor: &Visitor, day: i64) -> Result<String, Fault> {
        let key = self.visitor_key(day)?;
        let code = entry.code.as_ref().map_or("", |code| code.as_str());
        let said = json!([
            entry.account_id.as_str(),
            code,
            visitor.address,
            visitor.user_agent
        ]);
        let mac = hmac_sha256::HMAC::mac(said.to_string(), key);
        Ok(hex(&mac))
    }

    fn visitor_key(&self, day: i64) -> Result<String, Fault> {
        let find = "select key from visitor_key where day = ?1";
        let rows = self.object.sql.query(find, &params![day])?;
        if let Some(row) = rows.first() {
            return Ok(row.text("key")?.to_owned());
        }
        let ids = &self.object.world.ids;
        let bits = [ids.random()?, ids.random()?];
        let key = hex(bits.iter().flatten());
        self.object.sql.query(
            "insert into visitor_key (day, key) values (?1, ?2)",
            &params![day, key.as_str()],
        )?;
        Ok(key)
    }

    /// A visitor is kept while one of its clicks may still arrive, a key while a visitor may stand
    /// under it.
    fn forget_visitors(&self, now: Millis) -> Result<(), Fault> {
        let kept_ms = kept_ms(self.object.world.settings.double_click_ms);
        let sql = &self.object.sql;
        sql.query(
            "delete from counted where at_ms <= ?1",
            &params![now.after(-kept_ms)],
        )?;
        let day = now.after(-kept_ms).get().div_euclid(DAY_MS);
        sql.query("delete from visitor_key where day < ?1", &params![day - 1])?;
        let rows = sql.query("select max(at_ms) as at_ms from counted", &[])?;
        let last = rows
            .first()
            .map_or(Ok(None), |row| row.opt_millis("at_ms"))?;
        let again = last.map(|at| at.after(kept_ms + 1).max(now.after(1)));
        self.object.owe(FORGET, again)
    }

    /// The counters of rows taken in, and the sums for `/metrics`.
    fn count(&self, counts: &Counts, now: Millis) -> Result<(), Fault> {
        for ((account, feature, cycle), (entries, units)) in &counts.sums {
            self.object.sql.query(
                "insert into taken (account_id, feature, cycle, entries, units) \
                 values (?1, ?2, ?3, ?4, ?5) on conflict (account_id, feature, cycle) \
                 do update set entries = entries + excluded.entries, \
                 units = units + excluded.units",
                &params![
                    account.as_str(),
                    feature.as_str(),
                    cycle.as_str(),
                    *entries,
                    *units
                ],
            )?;
        }
        for (name, by) in &counts.tallies {
            self.feed.count(name, *by, now)?;
        }
        Ok(())
    }
}

/// A click as it is taken in, every part of it checked.
struct Parcel {
    entry: Entry,
    correction: Option<Entry>,
    visitor: Option<Visitor>,
}

impl Parcel {
    fn of_wire(wire: ClickWire) -> Result<Self, Fault> {
        Ok(Self {
            entry: wire.entry.entry()?,
            correction: wire.correction.map(EntryWire::entry).transpose()?,
            visitor: wire.visitor,
        })
    }
}

/// What a message brought: entries and units by account, feature and cycle, and sums by name.
#[derive(Default)]
struct Counts {
    sums: BTreeMap<(AccountId, FeatureName, CycleName), (i64, i64)>,
    tallies: BTreeMap<String, i64>,
}

impl Counts {
    fn add(&mut self, entries: &[Entry]) {
        for entry in entries {
            let (account, feature) = (entry.account_id.clone(), entry.feature.clone());
            let sum = self.sums.entry((account, feature, entry.cycle.clone()));
            let sum = sum.or_default();
            *sum = (sum.0 + 1, sum.1 + entry.units.get());
            *self.tallies.entry(tally_name(entry)).or_default() += 1;
        }
    }
}

/// For so long a shard remembers that a visitor's click counted.
const fn kept_ms(window_ms: i64) -> i64 {
    window_ms + LATE_MS
}

/// The sum for `/metrics` that an entry adds one to.
pub fn tally_name(entry: &Entry) -> String {
    match &entry.reason {
        Some(reason) if entry.corrects.is_some() => {
            format!("counterfoil_clicks_corrected_total{{reason=\"{reason}\"}}")
        }
        _ => "counterfoil_clicks_recorded_total".to_owned(),
    }
}
