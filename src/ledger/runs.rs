//! The numbers of the runs, by which a `LEDGER_0` that was put back is recognised.
//!
//! Each run of the reporter, and of the reconciler where it may write, takes the next number and
//! writes it first to `LEDGER_0`, then to DB. So the first is never behind, unless it was restored:
//! then meters it does not remember may have been written, and entries may be missing. Nothing is
//! written until every object has handed it what it lacks.

use super::meter_rules::was_restored;
use crate::fault::Fault;
use crate::params;
use crate::ports::{Db, Statement};
use crate::units::Millis;
use crate::world::World;

/// So often a run is begun at most, where others begin meanwhile.
const BEGINS_MAX: u32 = 3;

/// Where the runs stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The last run's number, as `LEDGER_0` has it.
    pub number: i64,
    /// The same, as DB has it.
    pub in_control: i64,
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
        in_control,
        restored: was_restored(in_ledger, in_control),
        not_before: row.millis("not_before_ms")?,
    })
}

async fn number(db: &dyn Db) -> Result<i64, Fault> {
    let sql = "select number from cron where name = 'reporter'";
    let rows = db.query(Statement::new(sql, vec![])).await?;
    rows.first().map_or(Ok(0), |row| row.int("number"))
}

/// How a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Under this number, which `LEDGER_0` must have reached for anything to be written.
    Run(i64),
    /// `LEDGER_0` was put back since [`standing`] looked.
    Restored,
    /// DB knows of this run or a later one: another has begun in between, or `LEDGER_0` was put
    /// back and gave the number a second time. The next run knows which.
    Overtaken,
}

/// Begins a run: its number, in `LEDGER_0` and then in DB. None begins in a `LEDGER_0` that lies
/// behind what it or DB was seen to have: a step in one that was put back meanwhile would take it
/// to the number of a run that is under way. A number that DB has already was given twice, so DB
/// passes it over: then `LEDGER_0` is behind, and recognised.
pub async fn begin(world: &World, standing: Standing) -> Result<Begun, Fault> {
    let sql = "update meter_run set number = number + 1 where number >= ?1 returning number";
    let step = Statement::new(sql, params![standing.number.max(standing.in_control)]);
    let rows = world.ledger.query(step).await?;
    let Some(row) = rows.first() else {
        return Ok(Begun::Restored);
    };
    let number = row.int("number")?;
    let sql = "insert into cron (name, number) values ('reporter', ?1) \
        on conflict (name) do update set number = case when number = excluded.number \
        then number + 1 else max(number, excluded.number) end returning number";
    let rows = world.db.query(Statement::new(sql, params![number])).await?;
    match rows.first() {
        Some(row) if row.int("number")? == number => Ok(Begun::Run(number)),
        _ => Ok(Begun::Overtaken),
    }
}

/// Begins a run under a number of its own, also where others begin meanwhile. `None` where
/// `LEDGER_0` was put back.
pub async fn begin_beside_others(world: &World) -> Result<Option<i64>, Fault> {
    for _ in 0..BEGINS_MAX {
        let standing = standing(world).await?;
        if standing.restored {
            return Ok(None);
        }
        match begin(world, standing).await? {
            Begun::Run(number) => return Ok(Some(number)),
            // The next look says which it was.
            Begun::Restored | Begun::Overtaken => {}
        }
    }
    Err(Fault::unavailable("begin a run", "others kept beginning"))
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
