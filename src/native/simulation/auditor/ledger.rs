//! The ledger database as the auditor reads it.

use std::collections::BTreeMap;

use crate::fault::Fault;
use crate::native::simulation::world::World;
use crate::native::sqlite::Sqlite;
use crate::params;
use crate::ports::{Row, Rows, Sql};

/// Runs SQL of the auditor's own.
pub fn rows(database: &Sqlite, sql: &str) -> Result<Rows, Fault> {
    Sql::query(database, sql, &[])
}

/// Every entry by its id.
pub fn entries(world: &World) -> Result<BTreeMap<String, Row>, Fault> {
    let sql = "select entry_id, account_id, feature, cycle, kind, units, key, job_id, \
        referrer_host, corrects, reason, rule, recorded_at_ms from entry";
    rows(&world.machine.ledger, sql)?
        .into_iter()
        .map(|row| Ok((row.text("entry_id")?.to_owned(), row)))
        .collect()
}

/// Whether the ledger has an entry.
pub fn has(world: &World, id: &str) -> Result<bool, Fault> {
    let sql = "select 1 as one from entry where entry_id = ?1";
    Ok(!Sql::query(&world.machine.ledger, sql, &params![id])?.is_empty())
}

/// What the ledger has of each job's features.
pub fn job_sums(world: &World) -> Result<BTreeMap<(String, String), i64>, Fault> {
    let sql = "select job_id, feature, sum(units) as total from entry where kind = 'job' \
        group by 1, 2";
    rows(&world.machine.ledger, sql)?
        .iter()
        .map(|row| {
            let place = (
                row.text("job_id")?.to_owned(),
                row.text("feature")?.to_owned(),
            );
            Ok((place, row.int("total")?))
        })
        .collect()
}

/// Invariant 5, at every commit.
pub fn counters_equal_entries(world: &World) -> Result<(), Fault> {
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
        world.complain(format!("counter differs from its entries: {row:?}"));
    }
    Ok(())
}

/// Invariant 6 after a restore: what objects keep is handed in again.
pub fn what_was_owed_is_back(world: &World) -> Result<(), Fault> {
    let owed: Vec<_> = world.books.borrow().owed.clone().into_iter().collect();
    for (id, owed) in owed {
        if has(world, &id)? {
            world.stats().count("entry_back_after_restore");
        } else {
            world.complain(format!("{id} was not handed in again: {:?}", owed.row));
        }
    }
    Ok(())
}

/// Every cycle that an entry names has its row in the control database.
pub fn cycles_have_rows(world: &World) -> Result<(), Fault> {
    let known: Vec<_> = rows(&world.machine.control, "select account_id, name from cycle")?
        .iter()
        .map(|row| {
            Ok((
                row.text("account_id")?.to_owned(),
                row.text("name")?.to_owned(),
            ))
        })
        .collect::<Result<_, Fault>>()?;
    let sql = "select distinct account_id, cycle from counter where changed_at_ms > 0 \
        and ends_at_ms > 0";
    for row in rows(&world.machine.ledger, sql)? {
        let place = (
            row.text("account_id")?.to_owned(),
            row.text("cycle")?.to_owned(),
        );
        if !known.contains(&place) {
            world.complain(format!("a cycle without a row: {place:?}"));
        }
    }
    Ok(())
}
