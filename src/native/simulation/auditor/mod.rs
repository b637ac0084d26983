//! The auditor: looks at what is stored, with SQL of its own, and at what clients heard.

pub mod billing;
pub mod facts;
pub mod inbox;
pub mod ledger;

use std::rc::Rc;

use super::world::World;
use crate::fault::Fault;
use crate::ports::ObjectName;
use ledger::rows;

/// Invariants that hold at every moment.
pub fn always(world: &World) -> Result<(), Fault> {
    ledger::counters_equal_entries(world)?;
    facts::limits_hold(world)
}

/// What must be true once nothing is under way, every lease has run out and every cron has run.
pub fn at_rest(world: &Rc<World>) -> Result<(), Fault> {
    always(world)?;
    ledger::what_was_owed_is_back(world)?;
    facts::jobs_are_booked_once(world)?;
    facts::late_use_is_under_review(world)?;
    facts::nothing_is_held(world)?;
    facts::usage_is_there_once(world)?;
    facts::visits_are_there_once(world)?;
    facts::corrections_are_there_once(world)?;
    inbox::events_have_ended(world)?;
    inbox::plans_are_the_providers(world);
    inbox::lost_storages_are_alerted(world)?;
    ledger::cycles_have_rows(world)?;
    billing::carries_cancel_out(world)?;
    billing::closed_cycles_are_settled(world)?;
    billing::meters_are_the_ledgers(world)
}

/// What is stored of meters and agreements, to look at where a rule is broken.
pub fn stored(world: &World) -> Result<String, Fault> {
    let stand_in = world.machine.objects.storage(&ObjectName::StandIn);
    let (ledger, control) = (&world.machine.ledger, &world.machine.control);
    let mut lines = Vec::new();
    for (database, table) in [
        (Some(control), "account"),
        (Some(control), "agreement"),
        (Some(control), "anchor"),
        (stand_in.as_ref(), "customer"),
        (stand_in.as_ref(), "agreement"),
        (stand_in.as_ref(), "meter"),
        (Some(ledger), "counter"),
        (Some(ledger), "meter"),
        (Some(ledger), "feed"),
        (Some(ledger), "review"),
    ] {
        let Some(database) = database else { continue };
        for row in rows(database, &format!("select * from {table}"))? {
            lines.push(format!("{table}: {row:?}"));
        }
    }
    Ok(lines.join("\n"))
}

/// Counts what the production code noted of itself: what was found, repaired, refused, lost.
pub fn harvest(world: &World) -> Result<(), Fault> {
    for (name, sql) in [
        (
            "evidence",
            "select verdict as name, count(*) as n from evidence group by 1",
        ),
        (
            "cause",
            "select cause as name, count(*) as n from evidence where cause is not null group by 1",
        ),
        (
            "review",
            "select kind as name, count(*) as n from review group by 1",
        ),
        (
            "review_was",
            "select outcome as name, count(*) as n from review \
             where outcome is not null group by 1",
        ),
        (
            "entry",
            "select kind as name, count(*) as n from entry group by 1",
        ),
        (
            "corrected",
            "select reason as name, count(*) as n from entry where rule is not null group by 1",
        ),
    ] {
        count(world, name, &rows(&world.machine.ledger, sql)?)?;
    }
    for (name, sql) in [
        (
            "event_was",
            "select status as name, count(*) as n from event group by 1",
        ),
        (
            "alert",
            "select kind as name, count(*) as n from alert group by 1",
        ),
    ] {
        count(world, name, &rows(&world.machine.control, sql)?)?;
    }
    let taken = "select 'directly' as name, total as n from tally \
        where name = 'counterfoil_clicks_direct_total'";
    count(
        world,
        "clicks_written",
        &rows(&world.machine.ledger, taken)?,
    )?;
    let splits = "select count(*) as n from (select 1 from entry where kind = 'job' \
        group by account_id, job_id, feature having count(distinct cycle) > 1)";
    let splits = rows(&world.machine.ledger, splits)?;
    let splits = splits.first().map_or(Ok(0), |row| row.int("n"))?;
    world
        .stats()
        .add("job_split_at_the_turn", u64::try_from(splits).unwrap_or(0));
    for (_, event, _) in world.machine.log.0.borrow().iter() {
        world.stats().count(&format!("log_{event}"));
    }
    Ok(())
}

fn count(world: &World, what: &str, found: &crate::ports::Rows) -> Result<(), Fault> {
    for row in found {
        let n = u64::try_from(row.int("n")?).unwrap_or(0);
        world
            .stats()
            .add(&format!("{what}_{}", row.text("name")?), n);
    }
    Ok(())
}
