//! Meters, carries and closed cycles: what the provider bills is what the ledger says.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value as Json;

use super::inbox::account;
use super::ledger::{has, rows};
use crate::fault::Fault;
use crate::moment;
use crate::native::simulation::books::text;
use crate::native::simulation::world::{OPERATOR, World};
use crate::native::sqlite::Sqlite;
use crate::ports::{ObjectName, Row};

/// A period belongs to a cycle where they begin within this.
const SAME_MS: i64 = 60_000;

fn stand_in(world: &World) -> Option<Sqlite> {
    world.machine.objects.storage(&ObjectName::StandIn)
}

/// Invariant 11: looks at each total that is about to be sent.
pub fn watch_writes(world: &Rc<World>) {
    let weak = Rc::downgrade(world);
    world
        .chaos
        .watch(Box::new(move |agreement, feature, total| {
            if let Some(world) = weak.upgrade()
                && let Err(fault) = look_at_write(&world, agreement, feature, total)
            {
                world.complain(fault.to_string());
            }
        }));
}

/// No meter is written lower than what it holds while the ledger lacks what objects will hand in.
fn look_at_write(world: &World, agreement: &str, feature: &str, total: i64) -> Result<(), Fault> {
    world.stats().count("meter_write_seen");
    let Some(stand_in) = stand_in(world) else {
        return Ok(());
    };
    let sql = format!(
        "select m.total as total from meter m join agreement a on a.agreement_id = m.agreement_id \
         join customer c on c.customer_id = a.customer_id \
         and c.period_start_ms = m.period_start_ms \
         where m.agreement_id = '{agreement}' and m.feature = '{feature}'"
    );
    let found = rows(&stand_in, &sql)?;
    let holds = found.first().map_or(Ok(0), |row| row.int("total"))?;
    if total >= holds {
        return Ok(());
    }
    world.stats().count("meter_lowered");
    let lacking = lacking(world, agreement, feature)?;
    if lacking.is_empty() {
        return Ok(());
    }
    // What was claimed before the ledger was put back is complete; what it says now is not.
    let told = format!(
        "select 1 as one from meter m join counter c on c.account_id = m.account_id \
         and c.feature = m.feature and c.cycle = m.cycle where m.agreement_id = '{agreement}' \
         and m.feature = '{feature}' and m.token is not null and c.total - m.base = {total}"
    );
    if !rows(&world.machine.ledger, &told)?.is_empty() {
        let what = format!("{agreement} {feature}: {holds} lowered to {total} without {lacking:?}");
        world.complain(what);
    }
    Ok(())
}

/// What objects that knew it to be delivered have to hand in again of what the agreement's meter
/// is about.
fn lacking(world: &World, agreement: &str, feature: &str) -> Result<Vec<String>, Fault> {
    let sql = format!("select account_id from agreement where agreement_id = '{agreement}'");
    let found = rows(&world.machine.control, &sql)?;
    let Some(account) = found.first().map(|row| row.text("account_id")) else {
        return Ok(Vec::new());
    };
    let account = account?.to_owned();
    let owed: Vec<_> = {
        let books = world.books.borrow();
        let is_its = |row: &Row| {
            row.text("account_id") == Ok(account.as_str()) && row.text("feature") == Ok(feature)
        };
        let owed = books.owed.iter();
        let owed = owed.filter(|(_, owed)| owed.is_confirmed && is_its(&owed.row));
        owed.map(|(id, _)| id.clone()).collect()
    };
    let mut lacking = Vec::new();
    for id in owed {
        if !has(world, &id)? {
            lacking.push(id);
        }
    }
    Ok(lacking)
}

/// What was carried out of a cycle was carried into another.
pub fn carries_cancel_out(world: &World) -> Result<(), Fault> {
    let sql = "select account_id, feature, sum(units) as units from entry where kind = 'carry' \
        group by 1, 2 having sum(units) <> 0";
    for row in rows(&world.machine.ledger, sql)? {
        world.complain(format!("carried one way only: {row:?}"));
    }
    Ok(())
}

/// What a closed cycle's meters lack was left by a person, carried, or is still under review.
pub fn closed_cycles_are_settled(world: &World) -> Result<(), Fault> {
    let now = world.now().get();
    let sql = format!(
        "select c.account_id, c.feature, c.cycle, c.total, c.left_as_is, \
         sum(coalesce(m.held, 0)) as held from counter c join meter m \
         on m.account_id = c.account_id and m.feature = c.feature and m.cycle = c.cycle \
         where c.ends_at_ms <= {now} and c.looked = c.version \
         and not exists (select 1 from review r \
           where r.account_id = c.account_id and r.feature = c.feature and r.cycle = c.cycle \
           and r.kind in ('tail', 'closed_cycle') and r.closed_at_ms is null) \
         group by 1, 2, 3, 4, 5"
    );
    for row in rows(&world.machine.ledger, &sql)? {
        world.stats().count("closed_cycle_settled");
        if row.int("total")? != row.int("held")? + row.int("left_as_is")? {
            world.complain(format!("a closed cycle nobody looks at: {row:?}"));
        }
    }
    Ok(())
}

fn items(world: &World, target: &str) -> Vec<Json> {
    let (_, body) = world.machine.call("GET", target, OPERATOR, &Json::Null);
    let items = body.get("items").and_then(Json::as_array);
    items.cloned().unwrap_or_default()
}

fn number(json: &Json, name: &str) -> i64 {
    json.get(name).and_then(Json::as_i64).unwrap_or(0)
}

/// What the agreement's meter holds in its current period, asked of the provider.
fn held_now(world: &World, agreement: &str, feature: &str) -> i64 {
    let target = format!("/standin/meters/{agreement}/{feature}");
    let (_, body) = world.machine.call("GET", &target, OPERATOR, &Json::Null);
    number(&body, "total")
}

/// What the last meter that was opened holds, with the current agreement's where that is another
/// and nothing was to be told to it yet.
fn held_together(world: &World, last: &str, current: &str, feature: &str) -> i64 {
    let held = held_now(world, last, feature);
    if last == current {
        held
    } else {
        held + held_now(world, current, feature)
    }
}

/// Invariant 7: in the running cycle what the meters of a feature hold at the provider adds up to
/// the ledger, but where a person must look first or the provider's period is another.
pub fn meters_are_the_ledgers(world: &World) -> Result<(), Fault> {
    let accounts = world.books.borrow().accounts.clone();
    for (id, book) in accounts {
        let own = account(world, &id);
        let reviews = items(world, &format!("/v1/review?account={id}&limit=500"));
        let agreement = text(&own, "agreement_id");
        let Some(cycle) = own.get("cycle").filter(|_| !agreement.is_empty()) else {
            world.stats().count("meters_without_agreement");
            continue;
        };
        for (feature, meter) in current_meters(world, &id, text(cycle, "name")) {
            let is_held = |item: &Json| {
                text(item, "feature") == feature || text(item, "kind") == "period_mismatch"
            };
            let (ledger, base) = (number(&meter, "ledger"), number(&meter, "base"));
            if reviews.iter().any(is_held) {
                world.stats().count("meters_held_for_review");
            } else if base > ledger {
                // Somebody moved a replaced meter above the ledger: no total below zero is sent.
                world.stats().count("meters_below_zero");
            } else if base + held_together(world, text(&meter, "agreement_id"), agreement, &feature)
                == ledger
            {
                world.stats().count("meters_proven");
                // Periods that lie across cycles belong to none.
                if !book.has_other_period {
                    prove(world, &book.customer_id, (cycle, &feature), (&id, ledger))?;
                }
            } else if book.has_other_period {
                world.stats().count("meters_held_by_turn_guard");
            } else {
                let what = format!("{id}: the meter does not prove the ledger: {meter}");
                world.complain(what);
            }
        }
    }
    Ok(())
}

/// The last meter of each feature in a cycle, as it is answered.
fn current_meters(world: &World, account: &str, cycle: &str) -> BTreeMap<String, Json> {
    let meters = items(world, &format!("/v1/meters?account={account}"));
    let of_cycle = meters.into_iter().filter(|row| text(row, "cycle") == cycle);
    of_cycle
        .map(|row| (text(&row, "feature").to_owned(), row))
        .collect()
}

/// The same without the ledger's own word of its meters: every meter of the customer whose period
/// began in the cycle, as the provider holds it.
fn prove(
    world: &World,
    customer: &str,
    (cycle, feature): (&Json, &str),
    (account, ledger): (&str, i64),
) -> Result<(), Fault> {
    let (Some(stand_in), Some(start)) = (
        stand_in(world),
        moment::parse_millis(text(cycle, "starts_at")),
    ) else {
        return Ok(());
    };
    let name = text(cycle, "name");
    let asked = format!(
        "select 1 as one from review where kind = 'base_in_doubt' and account_id = '{account}' \
         and feature = '{feature}' and cycle = '{name}'"
    );
    if !rows(&world.machine.ledger, &asked)?.is_empty() {
        // A person has said what an earlier meter counts as.
        world.stats().count("meters_decided_by_a_person");
        return Ok(());
    }
    let sql = format!(
        "select m.agreement_id, m.period_start_ms, m.total from meter m \
         join agreement a on a.agreement_id = m.agreement_id \
         where a.customer_id = '{customer}' and m.feature = '{feature}' \
         and m.period_start_ms >= {}",
        start.get() - SAME_MS
    );
    let books = world.books.borrow();
    let (mut held, found) = (0, rows(&stand_in, &sql)?);
    for row in &found {
        if books.meddled.contains(row.text("agreement_id")?) {
            // Whoever moved it may have done so after it was replaced and read for the last time.
            world.stats().count("meters_meddled_with");
            return Ok(());
        }
        held += row.int("total")?;
    }
    drop(books);
    world.stats().count("meters_proven_at_provider");
    if held != ledger {
        world.complain(format!(
            "{account} {feature}: {ledger} is billed as {found:?}"
        ));
    }
    Ok(())
}
