//! What is lost and what is put back: the machine's power, one request, an alarm, an object's
//! storage, `LEDGER_0`. Each tells the books what may be missing from then on, and nothing else
//! may be.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::auditor::ledger::{self, rows};
use super::books::Owed;
use super::chaos::turn;
use super::clients::operators;
use super::trouble::start;
use super::world::World;
use crate::fault::Fault;
use crate::native::sqlite::Sqlite;
use crate::ports::ObjectName;

/// Delivered batches are kept at least so long (`BATCH_KEEP_HOURS`).
pub const KEEP_MS: i64 = 24 * 3_600_000;

/// An object's clock differs from the machine's by so much at most.
const SKEW_MS: i64 = 9_000;

/// So often at most is waited before a copy is taken or put back under way.
const MOMENTS_MAX: usize = 30;

/// An earlier state of `LEDGER_0`.
pub struct LedgerCopy {
    ledger: Sqlite,
    /// When it was taken.
    at: i64,
    /// Who had told meters by then.
    told: Told,
}

/// Who has told meters so far, as both databases know it.
struct Told {
    /// The last token under which a meter may have been told, as DB knows it.
    token: String,
    /// The number of the last reporter run that has begun in `LEDGER_0`.
    in_ledger: i64,
    /// The same, as DB knows it.
    in_control: i64,
    /// How often meters were claimed.
    claims: i64,
    /// When a reporter last tried one.
    tried_at: i64,
}

impl Told {
    fn of(world: &World) -> Result<Self, Fault> {
        let (ledger, control) = (&world.machine.ledger, &world.machine.control);
        let last = "select coalesce(token, 'none') as token from cron where name = 'reporter'";
        let last = rows(control, last)?;
        let token = last.first().map_or(Ok("none"), |row| row.text("token"))?;
        Ok(Self {
            token: token.to_owned(),
            in_ledger: number(ledger, "select number from meter_run")?,
            in_control: number(control, "select number from cron where name = 'reporter'")?,
            claims: number(
                ledger,
                "select coalesce(sum(claims), 0) as number from meter",
            )?,
            tried_at: number(
                ledger,
                "select coalesce(sum(tried_at_ms), 0) as number from counter",
            )?,
        })
    }

    /// What a ledger that is put back to `earlier` cannot see by its runs' number.
    fn since(&self, earlier: &Self) -> Vec<&'static str> {
        let is_same_run = self.in_control == earlier.in_ledger;
        let claimed = self.claims > earlier.claims;
        let mut seen = Vec::new();
        if is_same_run && claimed && self.tried_at > earlier.tried_at {
            seen.push("restored_within_the_last_run");
        }
        if is_same_run && claimed && self.tried_at == earlier.tried_at {
            seen.push("restored_after_claims_alone");
        }
        if self.in_ledger > self.in_control && self.in_ledger > earlier.in_ledger {
            seen.push("restored_under_runs_that_begin");
        }
        seen
    }
}

fn number(database: &Sqlite, sql: &str) -> Result<i64, Fault> {
    let found = rows(database, sql)?;
    found.first().map_or(Ok(0), |row| row.int("number"))
}

impl World {
    /// The machine loses its power: whatever is under way ends where it stands, what is stored
    /// stays. Clients hear nothing and may ask again.
    pub fn kill(&self) -> Result<(), Fault> {
        self.stats().count("killed");
        let ended = u64::try_from(self.end_isolate()).unwrap_or(0);
        self.stats().add("killed_tasks", ended);
        self.excuse_unsafe_clicks()
    }

    /// One request is given up where it stands: by its client, or by the platform.
    pub fn give_one_up(&self) -> Result<(), Fault> {
        if self.cut_one() {
            self.stats().count("request_given_up");
            self.excuse_unsafe_clicks()?;
        }
        Ok(())
    }

    /// Clicks that neither a shard nor the ledger has yet: also those whose answer is on its way.
    fn excuse_unsafe_clicks(&self) -> Result<(), Fault> {
        let safe = self.safe_clicks()?;
        let mut books = self.books.borrow_mut();
        for (host, visit) in &mut books.visits {
            if !safe.contains(host) {
                visit.excused = true;
            }
        }
        Ok(())
    }

    /// The referring hosts of the clicks that the ledger has or that a shard will send.
    fn safe_clicks(&self) -> Result<BTreeSet<String>, Fault> {
        let sql = "select referrer_host from entry where referrer_host is not null";
        let mut safe: BTreeSet<String> = rows(&self.machine.ledger, sql)?
            .iter()
            .map(|row| row.text("referrer_host").map(str::to_owned))
            .collect::<Result<_, _>>()?;
        for (name, storage) in self.outboxes() {
            if !matches!(name, ObjectName::LedgerShard(_)) {
                continue;
            }
            let sql = "select e.value ->> 'referrer' as host from outbox o, json_each(o.row) e \
                where o.kind = 'entries'";
            for row in rows(&storage, sql)? {
                safe.extend(row.opt_text("host")?.map(str::to_owned));
            }
        }
        Ok(safe)
    }

    /// The storages of the objects that have an outbox.
    fn outboxes(&self) -> Vec<(ObjectName, Sqlite)> {
        let names = self.machine.objects.names().into_iter();
        let storages =
            names.filter_map(|name| Some((name.clone(), self.machine.objects.storage(&name)?)));
        storages
            .filter(|(_, storage)| has_outbox(storage))
            .collect()
    }

    /// The entries that objects know to be delivered: the ledger is incomplete without them.
    fn confirmed(&self) -> Result<BTreeSet<String>, Fault> {
        let sql = "select e.value ->> 'id' as id from outbox o, json_each(o.row) e \
            where o.kind = 'entries' \
            and o.seq <= (select max(b.to_seq) from feed_batch b, feed_state s \
              where b.number <= s.best)";
        let mut ids = BTreeSet::new();
        for (_, storage) in self.outboxes() {
            for row in rows(&storage, sql)? {
                ids.insert(row.text("id")?.to_owned());
            }
        }
        Ok(ids)
    }

    /// An armed alarm never fires.
    pub fn lose_an_alarm(&self) {
        let names = self.machine.objects.names();
        let armed: Vec<_> = names
            .into_iter()
            .filter(|name| {
                *name != ObjectName::StandIn && self.machine.objects.alarm_at(name).is_some()
            })
            .collect();
        if let Some(name) = armed.get(self.draw(armed.len())) {
            self.machine.objects.lose_alarm(name);
            self.stats().count("alarm_lost");
        }
    }

    /// An object's clock steps away from the machine's, or back to it.
    pub fn skew_a_clock(&self) {
        let names = self.machine.objects.names();
        let Some(name) = names.get(self.draw(names.len())).cloned() else {
            return;
        };
        let by_ms = self.chaos.chance.borrow_mut().between(-SKEW_MS, SKEW_MS);
        let mut skews = self.chaos.skews.borrow_mut();
        let ahead = skews.iter().find(|(_, ms)| **ms > 0);
        if let Some(ahead) = ahead.map(|(name, _)| name.clone()) {
            skews.remove(&ahead);
            self.stats().count("clock_stepped_back");
        } else {
            skews.insert(name, by_ms);
            self.stats().count("clock_skewed");
        }
    }

    /// An object's storage is lost while the machine is down: what it had accepted and not yet
    /// delivered is gone for good.
    pub fn lose_a_storage(&self) -> Result<(), Fault> {
        let names = self.machine.objects.names();
        let names: Vec<_> = names
            .into_iter()
            .filter(|name| *name != ObjectName::StandIn)
            .collect();
        let Some(name) = names.get(self.draw(names.len())).cloned() else {
            return Ok(());
        };
        self.kill()?;
        let known = format!("select 1 as one from feed where object = '{}'", name.name());
        if rows(&self.machine.ledger, &known)?.is_empty() {
            let mut books = self.books.borrow_mut();
            books.lost_unknown.insert(name.name());
        }
        self.machine.objects.lose(&name);
        match &name {
            ObjectName::Account(id) => {
                self.stats().count("account_storage_lost");
                self.account_is_lost(id.as_str())?;
            }
            ObjectName::LedgerShard(_) => self.stats().count("shard_storage_lost"),
            ObjectName::StandIn => {}
        }
        self.excuse_unsafe_clicks()?;
        self.excuse_owed_without_owner()
    }

    /// What the ledger has of the account's jobs is the least that it must have.
    fn account_is_lost(&self, account: &str) -> Result<(), Fault> {
        let booked = ledger::job_sums(self)?;
        let mut books = self.books.borrow_mut();
        for ((owner, _), job) in &mut books.jobs {
            if owner != account {
                continue;
            }
            for (feature, line) in &mut job.lines {
                let place = (job.job_id.clone().unwrap_or_default(), feature.clone());
                line.floor = Some(booked.get(&place).copied().unwrap_or(0));
                line.lost = 0;
            }
        }
        books.owed.retain(|_, owed| {
            let is_its = owed.row.text("account_id") == Ok(account);
            !(is_its && owed.row.text("kind") == Ok("job"))
        });
        if let Some(book) = books.accounts.get_mut(account) {
            book.lost_at = Some(self.now().get());
        }
        Ok(())
    }

    /// Owed clicks that no shard keeps any more.
    fn excuse_owed_without_owner(&self) -> Result<(), Fault> {
        let safe = self.safe_clicks()?;
        let mut books = self.books.borrow_mut();
        let gone = |owed: &Owed| {
            let host = owed.row.opt_text("referrer_host").ok().flatten();
            host.is_some_and(|host| !safe.contains(host))
        };
        let ids: Vec<String> = books
            .owed
            .iter()
            .filter(|(_, owed)| gone(owed))
            .map(|(id, _)| id.clone())
            .collect();
        for id in ids {
            if let Some(owed) = books.owed.remove(&id) {
                books.excuse(&owed.row);
            }
        }
        Ok(())
    }

    /// Takes a copy of `LEDGER_0`.
    pub fn copy_ledger(&self) -> Result<(), Fault> {
        self.copy.replace(Some(self.take_copy()?));
        Ok(())
    }

    fn take_copy(&self) -> Result<LedgerCopy, Fault> {
        Ok(LedgerCopy {
            ledger: self.machine.ledger.snapshot()?,
            at: self.now().get(),
            told: Told::of(self)?,
        })
    }

    /// Puts `LEDGER_0` back to the last copy, if there is one.
    pub fn restore_ledger(&self) -> Result<(), Fault> {
        match self.copy.take() {
            Some(copy) => self.put_back(&copy),
            None => Ok(()),
        }
    }

    /// Puts `LEDGER_0` back to the copy, at whatever moment of whoever is at work, where anything
    /// was told to a meter since: what else it then lacks nobody can see, and no meter holds it.
    fn put_back(&self, copy: &LedgerCopy) -> Result<(), Fault> {
        let now = Told::of(self)?;
        let knows = format!(
            "select 1 as one from meter_token where token = '{}'",
            now.token
        );
        if !rows(&copy.ledger, &knows)?.is_empty() {
            return Ok(());
        }
        let before = ledger::entries(self)?;
        self.machine.ledger.restore(&copy.ledger)?;
        self.stats().count("ledger_restored");
        for what in now.since(&copy.told) {
            self.stats().count(what);
        }
        let after = ledger::entries(self)?;
        let gone = before
            .into_iter()
            .filter(|(id, _)| !after.contains_key(id))
            .collect();
        self.books.borrow_mut().restores += 1;
        self.sort_gone(gone, copy.at)
    }

    /// What objects must hand in again, and what nobody will.
    fn sort_gone(&self, gone: BTreeMap<String, crate::ports::Row>, at: i64) -> Result<(), Fault> {
        let (kept, confirmed) = (self.safe_clicks()?, self.confirmed()?);
        let mut books = self.books.borrow_mut();
        for (id, row) in gone {
            let recorded_at = row.int("recorded_at_ms")?;
            let account = books.accounts.get(row.text("account_id")?);
            let lost_since = account
                .and_then(|book| book.lost_at)
                .is_some_and(|lost| lost >= at);
            let is_kept = match row.text("kind")? {
                "job" => !lost_since,
                "click" => row
                    .opt_text("referrer_host")?
                    .is_some_and(|h| kept.contains(h)),
                // It travels with its click.
                "correction" if row.opt_text("rule")?.is_some() => continue,
                _ => false,
            };
            if is_kept {
                let is_confirmed = confirmed.contains(&id);
                let owed = Owed {
                    recorded_at,
                    is_confirmed,
                    row,
                };
                books.owed.insert(id, owed);
                self.stats().count("entry_owed_after_restore");
            } else {
                // Perhaps it was owed after an earlier restore, and its object is lost since.
                books.owed.remove(&id);
                books.excuse(&row);
                self.stats().count("entry_lost_with_ledger");
            }
        }
        Ok(())
    }

    /// Batches are kept for a time: what was not handed in by then need not be.
    pub fn let_owed_lapse(&self) {
        let now = self.now().get();
        let mut books = self.books.borrow_mut();
        let is_over = |owed: &Owed| owed.recorded_at + KEEP_MS <= now;
        let over: Vec<String> = books
            .owed
            .iter()
            .filter(|(_, owed)| is_over(owed))
            .map(|(id, _)| id.clone())
            .collect();
        for id in over {
            let Some(owed) = books.owed.remove(&id) else {
                continue;
            };
            if ledger::has(self, &id) == Ok(true) {
                self.stats().count("entry_back_after_restore");
            } else {
                self.stats().count("entry_lost_with_old_batch");
                books.excuse(&owed.row);
            }
        }
    }
}

/// Somebody takes a copy of `LEDGER_0` and puts it back while others write meters: reporter runs
/// that begin, are under way or have ended, or the reconciler alone.
pub async fn put_back_under_way(world: Rc<World>) {
    let job = if world.draw(3) == 0 {
        "reconciler"
    } else {
        "reporter"
    };
    for _ in 0..=world.draw(3) {
        start(&world, |world| operators::run(world, job));
    }
    wait(&world).await;
    let outcome = match world.take_copy() {
        Ok(copy) => {
            wait(&world).await;
            world.put_back(&copy)
        }
        Err(fault) => Err(fault),
    };
    if let Err(fault) = outcome {
        world.complain(fault.to_string());
    }
}

/// While others do a few things.
async fn wait(world: &World) {
    for _ in 0..world.draw(MOMENTS_MAX) {
        turn().await;
    }
}

fn has_outbox(storage: &Sqlite) -> bool {
    let sql = "select 1 as one from sqlite_master where name = 'outbox'";
    rows(storage, sql).is_ok_and(|found| !found.is_empty())
}
