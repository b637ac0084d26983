//! An account's books, open within one storage transaction: time is read, what is due is swept,
//! the cycle turned, before any request is looked at. What changed is written at the close, once,
//! however many requests travelled together.

use std::collections::BTreeMap;

use super::rules::{self, Budget, Hold, State};
use super::store::{self, HoldRow, JobRow, sum};
use super::wire::{About, AnchorWire, RefusalView};
use crate::cycle::{Anchor, Cycle, cycle_at};
use crate::fault::Fault;
use crate::object::Object;
use crate::params;
use crate::ports::{Row, transact};
use crate::units::{AccountId, CustomerId, CycleName, FeatureName, Millis, Units};

/// What the object owes when a lease ends.
pub const SWEEP: &str = "sweep";
/// What the object owes when something was charged that is no entry yet.
pub const BOOK: &str = "book";
/// What the object owes when the oldest ended job may be forgotten.
pub const PRUNE: &str = "prune";

const DAY_MS: i64 = 86_400_000;

/// What the object knows of its account; one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRow {
    pub account_id: AccountId,
    pub customer_id: Option<CustomerId>,
    pub anchors: Vec<Anchor>,
    /// The current cycle; it never goes back.
    pub cycle: Option<Cycle>,
    /// The cycle whose row DB is known to have.
    pub cycle_stored: String,
    pub last_now: Millis,
    pub jobs_per_minute: Option<i64>,
    pub demo: bool,
    pub minute: i64,
    pub minute_jobs: i64,
    /// How many entries were booked.
    pub bookings: i64,
    /// Counts for `/metrics` that no batch has taken along yet.
    pub tallies: BTreeMap<String, i64>,
}

/// The provider's last answer about limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitsRow {
    pub rings: i64,
    pub read_at: Option<Millis>,
    pub failed_at: Option<Millis>,
    /// The provider's feature key → its limit, absent where there is no maximum.
    pub answer: BTreeMap<String, Option<i64>>,
}

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
        object: &'a Object,
        about: Option<&About>,
        work: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        transact(&*object.sql, || {
            let Some(mut books) = Self::open(object, about)? else {
                return Ok(None);
            };
            let outcome = work(&mut books)?;
            books.close()?;
            Ok(Some(outcome))
        })
    }

    /// Reads the time, sweeps, turns the cycle.
    fn open(object: &'a Object, about: Option<&About>) -> Result<Option<Self>, Fault> {
        let (stored, limits) = load(object)?;
        let Some(mut account) = (match (stored, about) {
            (Some(account), _) => Some(account),
            (None, Some(about)) => Some(new_account(about)?),
            (None, None) => None,
        }) else {
            return Ok(None);
        };
        let now = object.now()?.max(account.last_now);
        let learned = about.is_some_and(|about| learn(&mut account, about));
        let anchors: Vec<Anchor> = match about.filter(|_| account.anchors.is_empty()) {
            Some(about) => about.anchors.iter().map(|a| a.anchor()).collect(),
            None => account.anchors.clone(),
        };
        let next = cycle_at(&anchors, now);
        let cycle = account.cycle.clone().unwrap_or_else(|| next.clone());
        let due = due_times(object)?;
        let mut books = Self {
            object,
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
        for name in [SWEEP, BOOK, PRUNE] {
            if self.due.get(name) != self.due_before.get(name) {
                self.object.owe(name, self.due.get(name).copied())?;
            }
        }
        if self.changed {
            save(&self)?;
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

    /// Counts entries as booked.
    pub fn book(
        &mut self,
        feature: &FeatureName,
        cycle: &CycleName,
        units: Units,
    ) -> Result<(), Fault> {
        let line = self.line(feature, cycle)?;
        line.booked = sum(line.booked, units)?;
        line.changed = true;
        Ok(())
    }

    /// What was booked of a feature in a cycle, and what was used.
    pub fn booked(
        &mut self,
        feature: &FeatureName,
        cycle: &CycleName,
    ) -> Result<(Units, Units), Fault> {
        let line = self.line(feature, cycle)?;
        Ok((line.booked, line.budget.used))
    }

    /// Takes a charge of a running job's row in the current cycle.
    pub fn charge(&mut self, job: &JobRow, row: &mut HoldRow, units: Units) -> Result<(), Fault> {
        row.hold.charged = sum(row.hold.charged, units)?;
        if units > Units::ZERO {
            store::add_unbooked(&*self.object.sql, &job.job_id, row, units, self.now)?;
            self.owe_by(BOOK, self.now.after(self.object.world.settings.flush_ms));
        }
        Ok(())
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

    /// Whether running jobs keep the account busy, and whether they did when the books opened.
    pub fn became_busy(&self) -> bool {
        self.due.contains_key(SWEEP) && !self.due_before.contains_key(SWEEP)
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

fn new_account(about: &About) -> Result<AccountRow, Fault> {
    Ok(AccountRow {
        account_id: AccountId::new(about.account_id.clone())
            .ok_or_else(|| Fault::unreadable("read a message to an account", "its id"))?,
        customer_id: None,
        anchors: Vec::new(),
        cycle: None,
        cycle_stored: String::new(),
        last_now: Millis::new(i64::MIN),
        jobs_per_minute: None,
        demo: false,
        minute: 0,
        minute_jobs: 0,
        bookings: 0,
        tallies: BTreeMap::new(),
    })
}

/// Takes over what is new; says whether anything was. Anchors are only ever added to, and are
/// kept only once the first is fixed.
fn learn(account: &mut AccountRow, about: &About) -> bool {
    let before = account.clone();
    if let Some(customer_id) = about.customer_id.clone().and_then(CustomerId::new) {
        account.customer_id = Some(customer_id);
    }
    account.jobs_per_minute = about.jobs_per_minute;
    account.demo = about.demo;
    if about.anchors_fixed && about.anchors.len() > account.anchors.len() {
        account.anchors = about.anchors.iter().map(|a| a.anchor()).collect();
    }
    *account != before
}

fn load(object: &Object) -> Result<(Option<AccountRow>, LimitsRow), Fault> {
    let rows = object.sql.query(
        "select a.account_id, a.customer_id, a.anchors, a.cycle, a.cycle_starts_ms, \
         a.cycle_ends_ms, a.cycle_stored, a.last_now_ms, a.jobs_per_minute, a.demo, a.minute, \
         a.minute_jobs, a.bookings, a.tallies, l.rings, l.read_at_ms, l.failed_at_ms, l.answer \
         from (select 1 as one) o left join account a on a.one = o.one \
         left join limits l on l.one = o.one",
        &[],
    )?;
    let Some(row) = rows.first() else {
        return Ok((None, LimitsRow::default()));
    };
    let limits = LimitsRow {
        rings: row.opt_int("rings")?.unwrap_or(0),
        read_at: row.opt_millis("read_at_ms")?,
        failed_at: row.opt_millis("failed_at_ms")?,
        answer: match row.opt_text("answer")? {
            Some(text) => read_json(text)?,
            None => BTreeMap::new(),
        },
    };
    if row.opt_text("account_id")?.is_none() {
        return Ok((None, limits));
    }
    Ok((Some(account_of(row)?), limits))
}

fn account_of(row: &Row) -> Result<AccountRow, Fault> {
    let anchors: Vec<AnchorWire> = read_json(row.text("anchors")?)?;
    let cycle = match row.text("cycle")? {
        "" => None,
        _ => Some(Cycle {
            name: row.id("cycle", CycleName::new)?,
            starts_at: row.millis("cycle_starts_ms")?,
            ends_at: row.millis("cycle_ends_ms")?,
        }),
    };
    Ok(AccountRow {
        account_id: row.id("account_id", AccountId::new)?,
        customer_id: row.opt_text("customer_id")?.and_then(CustomerId::new),
        anchors: anchors.into_iter().map(AnchorWire::anchor).collect(),
        cycle,
        cycle_stored: row.text("cycle_stored")?.to_owned(),
        last_now: row.millis("last_now_ms")?,
        jobs_per_minute: row.opt_int("jobs_per_minute")?,
        demo: row.int("demo")? != 0,
        minute: row.int("minute")?,
        minute_jobs: row.int("minute_jobs")?,
        bookings: row.int("bookings")?,
        tallies: read_json(row.text("tallies")?)?,
    })
}

fn save(books: &Books<'_>) -> Result<(), Fault> {
    let account = &books.account;
    // A cycle computed from an anchor that may still change is not kept.
    let cycle = (!account.anchors.is_empty()).then_some(&books.cycle);
    let anchors: Vec<AnchorWire> = account.anchors.iter().map(AnchorWire::of).collect();
    books.object.sql.query(
        "insert into account (one, account_id, customer_id, anchors, cycle, cycle_starts_ms, \
         cycle_ends_ms, cycle_stored, last_now_ms, jobs_per_minute, demo, minute, minute_jobs, \
         bookings, tallies) values (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, \
         ?14) on conflict (one) do update set customer_id = excluded.customer_id, \
         anchors = excluded.anchors, cycle = excluded.cycle, \
         cycle_starts_ms = excluded.cycle_starts_ms, cycle_ends_ms = excluded.cycle_ends_ms, \
         cycle_stored = excluded.cycle_stored, last_now_ms = excluded.last_now_ms, \
         jobs_per_minute = excluded.jobs_per_minute, demo = excluded.demo, \
         minute = excluded.minute, minute_jobs = excluded.minute_jobs, \
         bookings = excluded.bookings, tallies = excluded.tallies",
        &params![
            account.account_id.as_str(),
            account.customer_id.as_ref().map(CustomerId::as_str),
            write_json(&anchors)?,
            cycle.map_or("", |cycle| cycle.name.as_str()),
            cycle.map_or(Millis::ZERO, |cycle| cycle.starts_at),
            cycle.map_or(Millis::ZERO, |cycle| cycle.ends_at),
            account.cycle_stored.as_str(),
            books.now,
            account.jobs_per_minute,
            account.demo,
            account.minute,
            account.minute_jobs,
            account.bookings,
            write_json(&account.tallies)?,
        ],
    )?;
    Ok(())
}

fn due_times(object: &Object) -> Result<BTreeMap<String, Millis>, Fault> {
    let rows = object.sql.query("select name, at_ms from due", &[])?;
    rows.iter()
        .map(|row| Ok((row.text("name")?.to_owned(), row.millis("at_ms")?)))
        .collect()
}

/// Reads a stored JSON text.
pub fn read_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|e| Fault::unreadable("read stored JSON", e))
}

/// Writes JSON to be stored.
pub fn write_json<T: serde::Serialize>(value: &T) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|e| Fault::unreadable("write JSON to be stored", e))
}
