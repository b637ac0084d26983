//! The auditor: looks at what is stored, with SQL of its own, and at what clients heard.
#![expect(
    clippy::indexing_slicing,
    reason = "a member that JSON lacks reads as null"
)]

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Value as Json, json};

use super::world::World;
use crate::fault::Fault;
use crate::native::sqlite::Sqlite;
use crate::ports::{ObjectName, Rows, Sql};
use crate::units::AccountId;

fn rows(database: &Sqlite, sql: &str) -> Result<Rows, Fault> {
    Sql::query(database, sql, &[])
}

/// Invariants that hold at every moment.
pub fn always(world: &World) -> Result<(), Fault> {
    counters_equal_entries(world)?;
    limits_hold(world)
}

/// Invariant 5, at every commit.
fn counters_equal_entries(world: &World) -> Result<(), Fault> {
    let drift = rows(
        &world.machine.ledger,
        "select c.account_id, c.feature, c.cycle, c.total, coalesce(e.total, 0) as entries \
         from counter c left join (select account_id, feature, cycle, sum(units) as total \
           from entry group by 1, 2, 3) e \
         on e.account_id = c.account_id and e.feature = c.feature and e.cycle = c.cycle \
         where c.total - c.archived <> coalesce(e.total, 0) \
         union all \
         select e.account_id, e.feature, e.cycle, 0, sum(e.units) from entry e \
         where not exists (select 1 from counter c where c.account_id = e.account_id \
           and c.feature = e.feature and c.cycle = e.cycle) group by 1, 2, 3",
    )?;
    for row in drift {
        let what = format!("counter differs from its entries: {row:?}");
        world.books.borrow_mut().complain(what);
    }
    Ok(())
}

/// Invariant 1: `used + held` never passes the highest limit that was in force, but for what a
/// cycle turn moved into the cycle.
fn limits_hold(world: &World) -> Result<(), Fault> {
    let accounts: Vec<(String, i64)> = {
        let books = world.books.borrow();
        books
            .accounts
            .iter()
            .map(|(id, book)| (id.clone(), book.limit_max))
            .collect()
    };
    for (account, limit_max) in accounts {
        let Some(storage) = storage(world, &account) else {
            continue;
        };
        if rows(
            &storage,
            "select 1 as one from sqlite_master where name = 'budget'",
        )?
        .is_empty()
        {
            continue;
        }
        let budgets = rows(
            &storage,
            "select b.feature, b.cycle, b.used, b.held, coalesce((select sum(h.held) from hold h \
               join job j on j.job_id = h.job_id, account a \
               where h.feature = b.feature and h.cycle = b.cycle and b.cycle = a.cycle \
               and j.created_ms < a.cycle_starts_ms), 0) as moved from budget b",
        )?;
        for row in budgets {
            let (used, held) = (row.int("used")?, row.int("held")?);
            if used + held > limit_max + row.int("moved")? {
                let what = format!("{account}: {used} + {held} > {limit_max}: {row:?}");
                world.books.borrow_mut().complain(what);
            }
        }
    }
    Ok(())
}

fn storage(world: &World, account: &str) -> Option<Sqlite> {
    let name = ObjectName::Account(AccountId::new(account)?);
    world.machine.objects.storage(&name)
}

/// What must be true once nothing is under way, every lease has run out and every cron has run.
pub fn at_rest(world: &Rc<World>) -> Result<(), Fault> {
    always(world)?;
    jobs_are_booked_once(world)?;
    usage_is_there_once(world)?;
    clicks_are_there_at_most_once(world)?;
    events_have_ended(world)?;
    plans_are_the_providers(world);
    meters_are_the_ledgers(world);
    Ok(())
}

/// The sum of units by one column of the entries of a kind.
fn sums(world: &World, key: &str, kind: &str) -> Result<BTreeMap<(String, String), i64>, Fault> {
    let found = rows(
        &world.machine.ledger,
        &format!(
            "select account_id, {key} as name, sum(units) as total from entry \
             where kind = '{kind}' and {key} is not null group by 1, 2"
        ),
    )?;
    found
        .iter()
        .map(|row| {
            let id = (
                row.text("account_id")?.to_owned(),
                row.text("name")?.to_owned(),
            );
            Ok((id, row.int("total")?))
        })
        .collect()
}

/// Invariants 2, 3 and 6 for jobs: the ledger has what was heard to be charged, and nothing that
/// nobody asked for; no hold is left.
fn jobs_are_booked_once(world: &World) -> Result<(), Fault> {
    let booked = sums(world, "job_id", "job")?;
    let jobs = world.books.borrow().jobs.clone();
    let mut broken = Vec::new();
    for ((account, key), book) in jobs {
        let Some(job_id) = &book.job_id else { continue };
        let total = booked
            .get(&(account.clone(), job_id.clone()))
            .copied()
            .unwrap_or(0);
        let settled = book.settle.as_ref().and_then(|(_, answer)| answer.as_ref());
        let said = settled.and_then(|answer| answer.get("charged")?.get("tokens")?.as_i64());
        let fits = match said {
            Some(charged) => total == charged,
            None => (book.heard()..=book.possible().min(book.held)).contains(&total),
        };
        if !fits {
            broken.push(format!(
                "{account} {key}: the ledger has {total} of {book:?}"
            ));
        }
    }
    for account in world.books.borrow().accounts.keys() {
        let Some(storage) = storage(world, account) else {
            continue;
        };
        for row in rows(
            &storage,
            "select feature, cycle, held from budget where held <> 0",
        )? {
            broken.push(format!("{account}: still held: {row:?}"));
        }
    }
    world.books.borrow_mut().broken.extend(broken);
    Ok(())
}

/// Invariants 4 and 6 for plain usage.
fn usage_is_there_once(world: &World) -> Result<(), Fault> {
    let stored = sums(world, "key", "usage")?;
    let usage = world.books.borrow().usage.clone();
    for (id, book) in usage {
        let total = stored.get(&id).copied().unwrap_or(0);
        if total != book.units && (book.heard || total != 0) {
            let what = format!("{id:?}: the ledger has {total} of {book:?}");
            world.books.borrow_mut().complain(what);
        }
    }
    Ok(())
}

/// Invariant 6 for clicks: every redirect at most once; only what was lost with the machine or is
/// counted as lost may be missing.
fn clicks_are_there_at_most_once(world: &World) -> Result<(), Fault> {
    let stored = sums(world, "code", "click")?;
    let links = world.books.borrow().links.clone();
    let lost = rows(
        &world.machine.ledger,
        "select coalesce(sum(total), 0) as total from tally where name like '%click%lost%' \
         or name like '%click%doubtful%'",
    )?;
    let lost = lost.first().map_or(Ok(0), |row| row.int("total"))?;
    let killed = world
        .stats()
        .all()
        .get("killed_tasks")
        .copied()
        .unwrap_or(0);
    let mut missing = 0;
    for (id, book) in links {
        let total = stored.get(&id).copied().unwrap_or(0);
        let answered = book.people + book.machines;
        if total > answered + book.unheard {
            let what = format!("{id:?}: {total} clicks of {book:?}");
            world.books.borrow_mut().complain(what);
        }
        missing += (answered - total).max(0);
    }
    world
        .stats()
        .add("clicks_missing", u64::try_from(missing).unwrap_or(0));
    if missing > lost + i64::try_from(killed).unwrap_or(i64::MAX) {
        let what = format!("{missing} clicks are missing; {lost} were lost, {killed} tasks died");
        world.books.borrow_mut().complain(what);
    }
    Ok(())
}

/// Invariant 8.
fn events_have_ended(world: &World) -> Result<(), Fault> {
    let open = rows(
        &world.machine.control,
        "select event_id, type, status from event \
         where status not in ('applied', 'ignored', 'skipped', 'dead')",
    )?;
    for row in open {
        world
            .books
            .borrow_mut()
            .complain(format!("an event has not ended: {row:?}"));
    }
    Ok(())
}

/// Invariant 9, and the promise that a customer who paid is not left on the wrong plan. What the
/// provider holds is asked of the provider: a change that came late is a change too.
fn plans_are_the_providers(world: &World) {
    let accounts = world.books.borrow().accounts.clone();
    let call = |method: &str, target: &str, body: &Json| {
        world
            .machine
            .call(method, target, super::world::OPERATOR, body)
            .1
    };
    for (account, book) in accounts {
        let target = format!("/standin/customers/{}", book.customer_id);
        let held = call("PUT", &target, &json!({}))["plan"].clone();
        let answer = call("GET", &format!("/v1/accounts/{account}"), &Json::Null);
        let mut broken = Vec::new();
        if answer["plan"] != held {
            broken.push(format!(
                "{account} is on {} and not on {held}",
                answer["plan"]
            ));
        }
        let granted = answer["balance"]["credits"].as_i64().unwrap_or(0);
        if (held == json!("pro") && granted != 500) || ![10, 500].contains(&granted) {
            broken.push(format!("{account} has {granted} credits on {held}"));
        }
        world.books.borrow_mut().broken.extend(broken);
    }
}

/// Invariant 7: in the running cycle what the earlier meters of a feature hold and the current one
/// add up to the ledger, but where a person must look first.
fn meters_are_the_ledgers(world: &World) {
    let accounts: Vec<String> = world.books.borrow().accounts.keys().cloned().collect();
    let list = |target: &str| {
        let (_, body) = world
            .machine
            .call("GET", target, super::world::OPERATOR, &Json::Null);
        body["items"].as_array().cloned().unwrap_or_default()
    };
    for account in accounts {
        let target = format!("/v1/accounts/{account}");
        let (_, own) = world
            .machine
            .call("GET", &target, super::world::OPERATOR, &Json::Null);
        let reviews = list(&format!("/v1/review?account={account}"));
        for meter in list(&format!("/v1/meters?account={account}")) {
            let is_current = meter["agreement_id"] == own["agreement_id"];
            if meter["cycle"] != own["cycle"]["name"] || !is_current {
                continue;
            }
            let number = |name: &str| meter[name].as_i64().unwrap_or(0);
            let (ledger, base, provider) = (number("ledger"), number("base"), number("provider"));
            if reviews
                .iter()
                .any(|item| item["feature"] == meter["feature"])
            {
                world.stats().count("meters_held_for_review");
            } else if base > ledger {
                // Somebody moved a replaced meter above the ledger: no total below zero is sent.
                world.stats().count("meters_below_zero");
            } else if base + provider == ledger {
                world.stats().count("meters_proven");
            } else {
                let what = format!("{account}: the meter does not prove the ledger: {meter}");
                world.books.borrow_mut().complain(what);
            }
        }
    }
}
