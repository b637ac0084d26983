//! The numbers of the runs, by which a `LEDGER_0` that was put back is recognised.
//!
//! Each reporter run writes its number first to `LEDGER_0`, then to DB. So the first is never
//! behind, unless it was restored: then meters it does not remember may have been written, and
//! entries may be missing. Nothing is written until every object has handed it what it lacks.

use super::meter_rules::was_restored;
use crate::fault::Fault;
use crate::params;
use crate::ports::{Db, Statement};
use crate::units::Millis;
use crate::world::World;

/// Where the runs stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The last run's number, as `LEDGER_0` has it.
    pub number: i64,
    /// Whether `LEDGER_0` lies behind DB.
    pub restored: bool,
    /// Nothing is sent before then.
    pub not_before: Millis,
}

/// Reads both. DB first: a run that begins in between is then only ever ahead in `LEDGER_0`.
pub async fn standing(world: &World) -> Result<Standing, Fault> {
    let in_control = number(&*world.db).await?;
    let sql = "select number, not_before_ms from meter_run";
    let rows = world.ledger.query(Statement::new(sql, vec![])).await?;
    let row = rows
        .first()
        .ok_or_else(|| Fault::unreadable("read the number of the last run", "no row"))?;
    let in_ledger = row.int("number")?;
    Ok(Standing {
        number: in_ledger,
        restored: was_restored(in_ledger, in_control),
        not_before: row.millis("not_before_ms")?,
    })
}

async fn number(db: &dyn Db) -> Result<i64, Fault> {
    let sql = "select number from cron where name = 'reporter'";
    let rows = db.query(Statement::new(sql, vec![])).await?;
    rows.first().map_or(Ok(0), |row| row.int("number"))
}

/// Begins a reporter run: its number, in `LEDGER_0` and then in DB.
pub async fn begin(world: &World) -> Result<i64, Fault> {
    let sql = "update meter_run set number = number + 1 returning number";
    let rows = world.ledger.query(Statement::new(sql, vec![])).await?;
    let number = rows
        .first()
        .ok_or_else(|| Fault::unreadable("begin a run", "no row"))?
        .int("number")?;
    write_number(&*world.db, number).await?;
    Ok(number)
}

async fn write_number(db: &dyn Db, number: i64) -> Result<(), Fault> {
    let sql = "insert into cron (name, number) values ('reporter', ?1) \
        on conflict (name) do update set number = max(number, excluded.number)";
    db.query(Statement::new(sql, params![number])).await?;
    Ok(())
}

/// `LEDGER_0` has everything again: its number catches up with DB's.
pub async fn caught_up(world: &World) -> Result<(), Fault> {
    let in_control = number(&*world.db).await?;
    let sql = "update meter_run set number = max(number, ?1)";
    world
        .ledger
        .query(Statement::new(sql, params![in_control]))
        .await?;
    Ok(())
}
