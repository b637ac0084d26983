//! An account's books, open within one storage transaction: time is read, what is due is swept,
//! the cycle turned, before any request is looked at. What changed is written at the close, once,
//! however many requests travelled together.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::account::{self, AccountRow, LimitsRow};
use super::rules::{self, Budget, Hold, State};
use super::store::{self, HoldRow, JobRow, sum};
use super::wire::{About, RefusalView};
use crate::cycle::{Anchor, Cycle, cycle_at};
use crate::fault::Fault;
use crate::ledger::feed::{DEMO, Feed};
use crate::ledger::outbox::Booking;
use crate::limits::PRUNE_JOBS_MAX;
use crate::object::Object;
use crate::params;
use crate::ports::transact;
use crate::units::{CycleName, FeatureName, Millis, Units};
use crate::world;

/// What the object owes when a lease ends.
pub const SWEEP: &str = "sweep";
/// What the object owes when counts wait to travel with a batch.
pub const TALLY: &str = "tally";
/// What the object owes when the oldest ended job may be forgotten.
pub const PRUNE: &str = "prune";

/// Counts wait this long for a batch that takes them along.
const TALLY_WAIT_MS: i64 = 60_000;
const DAY_MS: i64 = 86_400_000;

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    budget: Budget,
    booked: Units,
    changed: bool,
}

/// The open books.
pub struct Books<'a> {
    /// The object whose storage they are in.
    pub object: &'a Object,
    /// Its way to the ledger.
    pub feed: &'a Feed,
    /// This object's own time, read once for the call.
    pub now: Millis,
    /// Its row.
    pub account: AccountRow,
    /// The stored limits.
    pub limits: LimitsRow,
    /// The current cycle.
    pub cycle: Cycle,
    lines: BTreeMap<(FeatureName, CycleName), Line>,
    due: BTreeMap<String, Millis>,
    due_before: BTreeMap<String, Millis>,
    changed: bool,
}

impl<'a> Books<'a> {
    /// Runs `work` on the open books in one storage transaction. `None` where nothing is stored
    /// and nothing was said of the account.
    pub fn during<T>(
        (object, feed): (&'a Object, &'a Rc<Feed>),
        about: Option<&About>,
        work: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        let mut became_busy = false;
        let outcome = transact(&*object.sql, || {
            let Some(mut books) = Self::open(object, feed, about)? else {
                return Ok(None);
            };
            let outcome = work(&mut books)?;
            became_busy = books.became_busy();
            books.close()?;
            Ok(Some(outcome))
        })?;
        if became_busy {
            feed.announce()?;
        }
        Ok(outcome)
    }

    /// Reads the time, sweeps, turns the cycle.
    fn open(
        object: &'a Object,
        feed: &'a Feed,
        about: Option<&About>,
    ) -> Result<Option<Self>, Fault> {
        let (stored, limits) = account::load(object)?;
        let Some(mut account) = (match (stored, about) {
            (Some(account), _) => Some(account),
            (None, Some(about)) => Some(account::new_account(about)?),
            (None, None) => None,
        }) else {
            return Ok(None);
        };
        let now = object.now()?.max(account.last_now);
        let learned = about.is_some_and(|about| account::learn(&mut account, about));
        if learned && account.demo {
            object.set_meta(DEMO, "1")?;
        }
        let anchors: Vec<Anchor> = match about.filter(|_| account.anchors.is_empty()) {
            Some(about) => about.anchors.iter().map(|a| a.anchor()).collect(),
            None => account.anchors.clone(),
        };
        let next = cycle_at(&anchors, now);
        let cycle = account.cycle.clone().unwrap_or_else(|| next.clone());
        let due = due_times(object)?;
        let mut books = Self {
            object,
            feed,
            now,
            account,
            limits,
            cycle,
            lines: BTreeMap::new(),
            due_before: due.clone(),
            due,
            changed: learned,
        };
        books.sweep()?;
        if next.starts_at >= books.cycle.starts_at && next != books.cycle {
            books.turn(next)?;
        }
        Ok(Some(books))
    }

    /// Writes what changed.
    fn close(mut self) -> Result<(), Fault> {
        let sql = &*self.object.sql;
        for ((feature, cycle), line) in self.lines.iter().filter(|(_, line)| line.changed) {
            self.changed = true;
            sql.query(
                "insert into budget (feature, cycle, used, held, booked) \
                 values (?1, ?2, ?3, ?4, ?5) on conflict (feature, cycle) do update set \
                 used = excluded.used, held = excluded.held, booked = excluded.booked",
                &params![
                    feature.as_str(),
                    cycle.as_str(),
                    line.budget.used,
                    line.budget.held,
                    line.booked
                ],
            )?;
        }
        for name in [SWEEP, PRUNE, TALLY] {
            if self.due.get(name) != self.due_before.get(name) {
                self.object.owe(name, self.due.get(name).copied())?;
            }
        }
        if self.changed {
            account::save(self.object, &self.account, self.now, &self.cycle)?;
        }
        Ok(())
    }

    /// Says that the account's row has to be written at the close.
    pub fn touch(&mut self) {
        self.changed = true;
    }

    /// Adds to a sum for `/metrics`; nothing for the accounts of Lab and Engine Room.
    pub fn tally(&mut self, name: &str, by: i64) {
        if !self.account.demo {
            *self.account.tallies.entry(name.to_owned()).or_default() += by;
            self.changed = true;
            self.owe_by(TALLY, self.now.after(TALLY_WAIT_MS));
        }
    }

    /// What is used and held of a feature in the current cycle.
    pub fn budget(&mut self, feature: &FeatureName) -> Result<Budget, Fault> {
        let cycle = self.cycle.name.clone();
        Ok(self.line(feature, &cycle)?.budget)
    }

    fn line(&mut self, feature: &FeatureName, cycle: &CycleName) -> Result<&mut Line, Fault> {
        let place = (feature.clone(), cycle.clone());
        if !self.lines.contains_key(&place) {
            let rows = self.object.sql.query(
                "select used, held, booked from budget where feature = ?1 and cycle = ?2",
                &params![feature.as_str(), cycle.as_str()],
            )?;
            let line = rows.first().map_or(Ok(Line::default()), |row| {
                let (used, held) = (row.units("used")?, row.units("held")?);
                Ok::<_, Fault>(Line {
                    budget: Budget { used, held },
                    booked: row.units("booked")?,
                    changed: false,
                })
            })?;
            self.lines.insert(place.clone(), line);
        }
        self.lines
            .get_mut(&place)
            .ok_or_else(|| Fault::unreadable("read a budget", "it is gone"))
    }

    /// Holds more of a feature in the current cycle.
    pub fn hold(&mut self, feature: &FeatureName, units: Units) -> Result<(), Fault> {
        let cycle = self.cycle.name.clone();
        let line = self.line(feature, &cycle)?;
        line.budget.held = sum(line.budget.held, units)?;
        line.changed = true;
        Ok(())
    }

    /// Gives back what a row holds and counts what it was charged as used.
    fn finish(&mut self, row: &HoldRow, held: Units) -> Result<(), Fault> {
        let line = self.line(&row.feature, &row.cycle)?;
        if line.budget.held < held {
            let cause = format!("{} is held, {held} comes back", line.budget.held);
            return Err(Fault::unreadable("give back a hold", cause));
        }
        line.budget.held = line.budget.held.less(held);
        line.budget.used = sum(line.budget.used, row.hold.charged)?;
        line.changed = true;
        Ok(())
    }

    /// Takes a charge of a running job's row in the current cycle.
    pub fn charge(&mut self, job: &JobRow, row: &mut HoldRow, units: Units) -> Result<(), Fault> {
        if units == Units::ZERO {
            return Ok(());
        }
        row.hold.charged = sum(row.hold.charged, units)?;
        let line = self.line(&row.feature, &row.cycle)?;
        line.booked = sum(line.booked, units)?;
        line.changed = true;
        let booking = Booking {
            account_id: self.account.account_id.clone(),
            job_id: job.job_id.clone(),
            feature: row.feature.clone(),
            cycle: row.cycle.clone(),
            units: units.into(),
            at: self.now,
        };
        self.feed.put_merged(&booking, self.now)
    }

    /// Ends a running job: its rows of the current cycle are final, what they hold comes back.
    /// The rows of earlier cycles were finished when the cycle turned.
    pub fn end(&mut self, job: &mut JobRow, state: State) -> Result<(), Fault> {
        job.state = state;
        job.ended_at = Some(self.now);
        for row in &job.holds {
            if row.cycle == self.cycle.name {
                self.finish(row, row.hold.held)?;
            }
        }
        let sql = &*self.object.sql;
        for (feature, total) in job.totals()? {
            let tenth = rules::tenth(total.hold);
            let ended = (job.capped, state);
            store::add_estimate(sql, &feature, &self.cycle.name, tenth, ended, total.hold)?;
        }
        store::update_job(sql, job)?;
        self.tally(
            &format!("counterfoil_jobs_ended_total{{state=\"{}\"}}", state.name()),
            1,
        );
        let keep_ms = self.object.world.settings.key_days.saturating_mul(DAY_MS);
        self.owe_by(PRUNE, self.now.after(keep_ms));
        Ok(())
    }

    /// Expires the running jobs whose lease has run out.
    fn sweep(&mut self) -> Result<(), Fault> {
        if self.due.get(SWEEP).is_none_or(|at| *at > self.now) {
            return Ok(());
        }
        let mut next: Option<Millis> = None;
        for mut job in store::running_jobs(&*self.object.sql)? {
            if rules::running(job.state, job.lease_ends_at, self.now).is_err() {
                self.end(&mut job, State::Expired)?;
            } else {
                next = Some(next.map_or(job.lease_ends_at, |at| at.min(job.lease_ends_at)));
            }
        }
        self.owe(SWEEP, next);
        Ok(())
    }

    /// The cycle has turned: splits all running jobs.
    fn turn(&mut self, next: Cycle) -> Result<(), Fault> {
        let old = self.cycle.name.clone();
        if next.name != old {
            for job in store::running_jobs(&*self.object.sql)? {
                for row in job.holds.iter().filter(|row| row.cycle == old) {
                    self.split(&job, row, &next.name)?;
                }
            }
        }
        self.changed |= self.account.cycle.is_some();
        self.cycle = next;
        Ok(())
    }

    fn split(&mut self, job: &JobRow, row: &HoldRow, next: &CycleName) -> Result<(), Fault> {
        let (before, after) = rules::split(row.hold);
        self.finish(row, row.hold.held)?;
        let line = self.line(&row.feature, next)?;
        line.budget.held = sum(line.budget.held, after.held)?;
        line.changed = true;
        let sql = &*self.object.sql;
        let closed = HoldRow {
            hold: before,
            ..row.clone()
        };
        let moved = HoldRow {
            cycle: next.clone(),
            hold: after,
            uncovered: Units::ZERO,
            ..row.clone()
        };
        store::put_hold(sql, &job.job_id, &closed)?;
        store::put_hold(sql, &job.job_id, &moved)
    }

    /// Owes something at that moment, in place of any other; nothing with `None`.
    pub fn owe(&mut self, name: &str, at: Option<Millis>) {
        match at {
            Some(at) => self.due.insert(name.to_owned(), at),
            None => self.due.remove(name),
        };
    }

    /// Owes something at that moment at the latest.
    pub fn owe_by(&mut self, name: &str, at: Millis) {
        let at = self.due.get(name).map_or(at, |owed| at.min(*owed));
        self.due.insert(name.to_owned(), at);
    }

    /// Whether the ledger database must hear of a sweep that it does not know of: running jobs
    /// keep an account busy that was idle, or a lease ends before all that it was told of.
    fn became_busy(&self) -> bool {
        match (self.due_before.get(SWEEP), self.due.get(SWEEP)) {
            (None, Some(_)) => true,
            (Some(before), Some(at)) => at < before,
            (_, None) => false,
        }
    }

    /// The current cycle, where DB is not known to have its row as it is now.
    pub fn unstored_cycle(&self) -> Option<Cycle> {
        let is_kept = !self.account.anchors.is_empty();
        let mark = stored_mark(&self.cycle);
        (is_kept && mark != self.account.cycle_stored).then(|| self.cycle.clone())
    }

    /// DB has the row of that cycle.
    pub fn cycle_is_stored(&mut self, cycle: &Cycle) {
        self.account.cycle_stored = stored_mark(cycle);
        self.changed = true;
    }

    /// Hands the counts that wait to the feed, and forgets jobs whose keys may be used again.
    pub fn tidy(&mut self) -> Result<(), Fault> {
        if self.due.get(TALLY).is_some_and(|at| *at <= self.now) {
            for (name, by) in std::mem::take(&mut self.account.tallies) {
                self.feed.count(&name, by, self.now)?;
            }
            self.owe(TALLY, None);
            self.changed = true;
        }
        if self.due.get(PRUNE).is_some_and(|at| *at <= self.now) {
            self.prune()?;
        }
        Ok(())
    }

    /// Forgets the jobs that ended `KEY_DAYS` ago and whose entries are delivered.
    fn prune(&mut self) -> Result<(), Fault> {
        let sql = &*self.object.sql;
        let keep_ms = self.object.world.settings.key_days.saturating_mul(DAY_MS);
        let before = self.now.after(-keep_ms);
        let youngest = world::mint("job_", before.after(1), [0; 16]);
        let old = store::old_jobs(sql, &youngest, before, PRUNE_JOBS_MAX)?;
        let mut left = i64::try_from(old.len()).unwrap_or(0) == PRUNE_JOBS_MAX;
        for job_id in &old {
            if self.feed.is_delivered(job_id)? {
                self.feed.forget_job(job_id)?;
                store::delete_job(sql, job_id)?;
            } else {
                left = true;
            }
        }
        let next = store::oldest_end(sql)?.map(|at| at.after(keep_ms));
        let pause = if left { TALLY_WAIT_MS } else { 0 };
        self.owe(PRUNE, next.map(|at| at.max(self.now.after(pause.max(1)))));
        self.changed = true;
        Ok(())
    }

    /// Keeps a refusal for people and counts it.
    pub fn note_refusal(&mut self, refusal: &RefusalView) -> Result<(), Fault> {
        store::put_refusal(&*self.object.sql, refusal)?;
        let why = refusal.reason.as_deref().unwrap_or(&refusal.code);
        let name = match refusal.operation.as_str() {
            "admit" => format!("counterfoil_admissions_total{{result=\"{why}\"}}"),
            _ => format!("counterfoil_extensions_total{{result=\"{why}\"}}"),
        };
        self.tally(&name, 1);
        Ok(())
    }

    /// The row of the current cycle that a running job has of a feature.
    pub fn current_row<'j>(
        &self,
        job: &'j mut JobRow,
        feature: &FeatureName,
    ) -> Result<&'j mut HoldRow, Fault> {
        let cycle = &self.cycle.name;
        job.holds
            .iter_mut()
            .find(|row| row.feature == *feature && row.cycle == *cycle)
            .ok_or_else(|| Fault::unreadable("read a hold", "a running job has none in its cycle"))
    }
}

/// Name and end: an end that moved has to be stored anew.
fn stored_mark(cycle: &Cycle) -> String {
    format!("{}/{}", cycle.name, cycle.ends_at.get())
}

/// A new hold's row in a cycle.
pub fn new_hold(feature: &FeatureName, cycle: &CycleName, held: Units) -> HoldRow {
    HoldRow {
        feature: feature.clone(),
        cycle: cycle.clone(),
        hold: Hold {
            held,
            charged: Units::ZERO,
        },
        uncovered: Units::ZERO,
        late: Units::ZERO,
    }
}

fn due_times(object: &Object) -> Result<BTreeMap<String, Millis>, Fault> {
    let rows = object.sql.query("select name, at_ms from due", &[])?;
    rows.iter()
        .map(|row| Ok((row.text("name")?.to_owned(), row.millis("at_ms")?)))
        .collect()
}
