//! Facts of usage: each is in the ledger once, and nothing else is; budgets and holds of accounts.

use std::collections::{BTreeMap, BTreeSet};

use super::ledger::{job_sums, rows};
use crate::fault::Fault;
use crate::native::simulation::books::{VisitBook, Visited};
use crate::native::simulation::world::World;
use crate::native::sqlite::Sqlite;
use crate::ports::{ObjectName, Row};
use crate::units::AccountId;

/// The storage of an account's object, where it has its tables.
fn storage(world: &World, account: &str) -> Result<Option<Sqlite>, Fault> {
    let Some(id) = AccountId::new(account) else {
        return Ok(None);
    };
    let Some(storage) = world.machine.objects.storage(&ObjectName::Account(id)) else {
        return Ok(None);
    };
    let sql = "select 1 as one from sqlite_master where name = 'budget'";
    let is_made = !rows(&storage, sql)?.is_empty();
    Ok(is_made.then_some(storage))
}

/// Invariant 1: `used + held` never passes the highest limit that was in force, but for what a
/// cycle turn moved into the cycle.
pub fn limits_hold(world: &World) -> Result<(), Fault> {
    let mut broken = Vec::new();
    for (account, book) in &world.books.borrow().accounts {
        let Some(storage) = storage(world, account)? else {
            continue;
        };
        let budgets = rows(
            &storage,
            "select b.feature, b.cycle, b.used, b.held, coalesce((select sum(h.held) from hold h \
               join job j on j.job_id = h.job_id, account a \
               where h.feature = b.feature and h.cycle = b.cycle and b.cycle = a.cycle \
               and j.created_ms < a.cycle_starts_ms), 0) as moved from budget b",
        )?;
        for row in budgets {
            let limit = book.limits.get(row.text("feature")?).copied().unwrap_or(0);
            let (used, held) = (row.int("used")?, row.int("held")?);
            if used + held > limit + row.int("moved")? {
                broken.push(format!("{account}: {used} + {held} > {limit}: {row:?}"));
            }
        }
    }
    world.books.borrow_mut().broken.extend(broken);
    Ok(())
}

/// Invariants 2, 3 and 6 for jobs: the ledger has what was heard to be charged, and nothing that
/// nobody asked for.
pub fn jobs_are_booked_once(world: &World) -> Result<(), Fault> {
    let booked = job_sums(world)?;
    let mut broken = Vec::new();
    for ((account, key), job) in &world.books.borrow().jobs {
        let Some(job_id) = &job.job_id else { continue };
        for (feature, line) in &job.lines {
            let place = (job_id.clone(), feature.clone());
            let total = booked.get(&place).copied().unwrap_or(0);
            if !(line.least()..=line.most()).contains(&total) {
                broken.push(format!("{account} {key} {feature}: {total} of {line:?}"));
            }
        }
    }
    world.books.borrow_mut().broken.extend(broken);
    Ok(())
}

/// What was used beyond an expired job's charges is kept once, for a person.
pub fn late_use_is_under_review(world: &World) -> Result<(), Fault> {
    let sql = "select numbers ->> 'job' as job, feature from review where kind = 'late_use'";
    let mut found = BTreeSet::new();
    for row in rows(&world.machine.ledger, sql)? {
        found.insert((row.text("job")?.to_owned(), row.text("feature")?.to_owned()));
    }
    let books = world.books.borrow();
    let mut broken = Vec::new();
    let expired = |job: &&super::super::books::JobBook| job.state.as_deref() == Some("expired");
    for job in books.jobs.values().filter(expired) {
        for (feature, line) in &job.lines {
            let late = line.used.unwrap_or(0) - line.said.unwrap_or(0);
            let place = (job.job_id.clone().unwrap_or_default(), feature.clone());
            let is_sure = line.floor.is_none() && books.restores == 0;
            if late > 0 && is_sure && !found.contains(&place) {
                broken.push(format!("late use of nobody's concern: {place:?} {line:?}"));
            }
        }
    }
    drop(books);
    world.books.borrow_mut().broken.extend(broken);
    Ok(())
}

/// Invariant 2: no job runs and nothing is held; an account's budget is what its jobs booked.
pub fn nothing_is_held(world: &World) -> Result<(), Fault> {
    let mut broken = Vec::new();
    let books = world.books.borrow();
    for (account, book) in &books.accounts {
        let Some(storage) = storage(world, account)? else {
            continue;
        };
        for sql in [
            "select feature, cycle, held from budget where held <> 0",
            "select job_id from job where state = 'running'",
        ] {
            for row in rows(&storage, sql)? {
                broken.push(format!("{account}: not over: {row:?}"));
            }
        }
        let has_lost = |job: &super::super::books::JobBook| job.lines.values().any(|l| l.lost > 0);
        if book.lost_at.is_some() || books.jobs.values().any(has_lost) {
            continue;
        }
        let booked = booked_of(world, account)?;
        for row in rows(&storage, "select feature, cycle, used from budget")? {
            let place = (
                row.text("feature")?.to_owned(),
                row.text("cycle")?.to_owned(),
            );
            if booked.get(&place).copied().unwrap_or(0) != row.int("used")? {
                broken.push(format!("{account}: the ledger has {booked:?} of {row:?}"));
            }
        }
    }
    drop(books);
    world.books.borrow_mut().broken.extend(broken);
    Ok(())
}

fn booked_of(world: &World, account: &str) -> Result<BTreeMap<(String, String), i64>, Fault> {
    let sql = format!(
        "select feature, cycle, sum(units) as total from entry where kind = 'job' \
         and account_id = '{account}' group by 1, 2"
    );
    rows(&world.machine.ledger, &sql)?
        .iter()
        .map(|row| {
            let place = (
                row.text("feature")?.to_owned(),
                row.text("cycle")?.to_owned(),
            );
            Ok((place, row.int("total")?))
        })
        .collect()
}

/// Invariants 4 and 6 for plain usage.
pub fn usage_is_there_once(world: &World) -> Result<(), Fault> {
    let mut stored = BTreeMap::new();
    let sql = "select account_id, key, sum(units) as total from entry where kind = 'usage' \
        group by 1, 2";
    for row in rows(&world.machine.ledger, sql)? {
        let id = (
            row.text("account_id")?.to_owned(),
            row.text("key")?.to_owned(),
        );
        stored.insert(id, row.int("total")?);
    }
    let mut broken = Vec::new();
    for (id, book) in &world.books.borrow().usage {
        let total = stored.remove(id).unwrap_or(0);
        let must_be_there = book.heard && !book.excused;
        if total != book.units && (must_be_there || total != 0) {
            broken.push(format!("{id:?}: the ledger has {total} of {book:?}"));
        }
    }
    broken.extend(stored.keys().map(|id| format!("nobody sent {id:?}")));
    world.books.borrow_mut().broken.extend(broken);
    Ok(())
}

/// A click in the ledger, with what rules took back of it.
struct Click {
    account: String,
    corrections: Vec<String>,
}

fn clicks(world: &World) -> Result<BTreeMap<String, Vec<Click>>, Fault> {
    let sql = "select e.referrer_host as host, e.account_id as account_id, \
        (select json_group_array(c.reason) from entry c where c.corrects = e.entry_id \
          and c.rule is not null) as reasons from entry e where e.kind = 'click'";
    let mut clicks: BTreeMap<String, Vec<Click>> = BTreeMap::new();
    for row in rows(&world.machine.ledger, sql)? {
        let corrections: Vec<String> = serde_json::from_str(row.text("reasons")?)
            .map_err(|e| Fault::unreadable("read reasons", e))?;
        let account = row.text("account_id")?.to_owned();
        let host = row.opt_text("host")?.unwrap_or_default().to_owned();
        clicks.entry(host).or_default().push(Click {
            account,
            corrections,
        });
    }
    Ok(clicks)
}

/// The hosts of the clicks that were logged as lost or doubtful, in full.
fn logged(world: &World) -> BTreeSet<String> {
    let lines = world.machine.log.0.borrow();
    let lost = lines
        .iter()
        .filter(|(_, event, _)| matches!(event.as_str(), "click.lost" | "click.doubtful"));
    lost.filter_map(|(_, _, fields)| {
        let host = fields.get("click")?.get("referrer")?.as_str()?;
        Some(host.to_owned())
    })
    .collect()
}

/// Invariant 6 for clicks: every redirect that was heard is there once, unless it was lost with
/// the machine or logged as lost; and it counts as its visitor deserves.
pub fn visits_are_there_once(world: &World) -> Result<(), Fault> {
    let mut clicks = clicks(world)?;
    let logged = logged(world);
    let books = world.books.borrow();
    let mut broken = Vec::new();
    let mut corrected = BTreeSet::new();
    for (host, book) in &books.visits {
        let found = clicks.remove(host).unwrap_or_default();
        let is_safe = book.visited == Visited::Redirected && !book.excused;
        match found.as_slice() {
            [] if is_safe && !logged.contains(host) => {
                broken.push(format!("{host}: its click is missing: {book:?}"));
            }
            [] => world.stats().count("clicks_missing"),
            [click] => {
                if !counts_right(world, book, click) {
                    broken.push(format!("{host}: {:?}: {book:?}", click.corrections));
                }
                if !click.corrections.is_empty() {
                    corrected.insert(host.clone());
                }
            }
            _ => broken.push(format!("{host}: there {} times", found.len())),
        }
        if book.visited == Visited::Refused && !found.is_empty() {
            broken.push(format!("{host}: recorded though it was refused"));
        }
    }
    for (host, book) in &books.visits {
        let twin = book.twin.as_ref();
        if corrected.contains(host) && twin.is_some_and(|twin| corrected.contains(twin)) {
            broken.push(format!("{host}: neither of two clicks counts"));
        }
    }
    broken.extend(clicks.keys().map(|host| format!("{host}: nobody clicked")));
    drop(books);
    world.books.borrow_mut().broken.extend(broken);
    Ok(())
}

fn counts_right(world: &World, book: &VisitBook, click: &Click) -> bool {
    let reasons: Vec<&str> = click.corrections.iter().map(String::as_str).collect();
    let is_right = match reasons.as_slice() {
        [] => !book.is_machine,
        ["preview_crawler" | "bot"] => book.is_machine,
        ["double_click"] => world.corrects_double_clicks && book.twin.is_some(),
        _ => false,
    };
    is_right && click.account == book.account
}

/// Invariants 4 and 6 for corrections by people: each is there once, and never more is taken back
/// than there was.
pub fn corrections_are_there_once(world: &World) -> Result<(), Fault> {
    let mut broken = Vec::new();
    let sql = "select corrects, reason, count(*) as n, sum(units) as units from entry \
        where kind = 'correction' and rule is null group by 1, 2";
    let mut stored: BTreeMap<(String, String), Row> = BTreeMap::new();
    for row in rows(&world.machine.ledger, sql)? {
        let place = (
            row.text("corrects")?.to_owned(),
            row.text("reason")?.to_owned(),
        );
        stored.insert(place, row);
    }
    for (place, book) in &world.books.borrow().corrections {
        match stored.get(place) {
            None if !book.excused => broken.push(format!("{place:?} is missing: {book:?}")),
            None => {}
            Some(row) if row.int("n")? == 1 && row.int("units")? == -book.units => {}
            Some(row) => broken.push(format!("{place:?}: {row:?} of {book:?}")),
        }
    }
    let sql = "select e.entry_id, e.units, sum(c.units) as taken from entry e \
        join entry c on c.corrects = e.entry_id group by 1, 2 having e.units + sum(c.units) < 0";
    for row in rows(&world.machine.ledger, sql)? {
        broken.push(format!("more was taken back than there was: {row:?}"));
    }
    world.books.borrow_mut().broken.extend(broken);
    Ok(())
}
