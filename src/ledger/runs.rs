//! The tokens of runs and senders, by which a `LEDGER_0` that was put back is recognised.
//!
//! A reporter run when it begins, and whoever claims a meter, writes a random token first to
//! `LEDGER_0`, behind all that were given before it, and then to DB; nothing is sent before that.
//! So the ledger has the last token that DB knows, and with it everything that any meter was ever
//! told, unless it was put back. In DB a token only ever follows one that `LEDGER_0` gave before
//! it, so none hides that one was lost. Nothing is written until every object has handed the
//! ledger what it lacks. The number of a run is written the same way: a release that knew no
//! tokens is recognised by it.

use super::meter_rules::{Recorded, recorded, was_restored};
use crate::fault::Fault;
use crate::params;
use crate::ports::Statement;
use crate::units::Millis;
use crate::world::World;

/// The token that stands for all that was sent before there were tokens.
const FIRST: &str = "none";
/// Tokens are kept so long at least: no pass lasts longer. The last one that DB knows stays.
const KEEP_MS: i64 = 3_600_000;
/// Once in so many runs older ones are forgotten: once an hour.
const FORGET_RUNS: i64 = 60;

/// Where the runs stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The last run's number, as `LEDGER_0` has it.
    pub number: i64,
    /// The last token that DB knows.
    pub token: String,
    /// Whether `LEDGER_0` was put back.
    pub restored: bool,
    /// Nothing is sent before then.
    pub not_before: Millis,
}

/// Reads both. DB first: what is given in between is then only ever ahead in `LEDGER_0`.
pub async fn standing(world: &World) -> Result<Standing, Fault> {
    let (in_control, token) = control(world).await?;
    let sql = "select number, not_before_ms, \
        exists (select 1 from meter_token where token = ?1) as has_token from meter_run";
    let read = Statement::new(sql, params![token.as_str()]);
    let rows = world.ledger.query(read).await?;
    let row = rows
        .first()
        .ok_or_else(|| Fault::unreadable("read the number of the last run", "no row"))?;
    let in_ledger = row.int("number")?;
    let has_token = row.int("has_token")? != 0;
    Ok(Standing {
        number: in_ledger,
        token,
        restored: was_restored(in_ledger, in_control, has_token),
        not_before: row.millis("not_before_ms")?,
    })
}

/// The last run's number and the last token, as DB has them.
async fn control(world: &World) -> Result<(i64, String), Fault> {
    let sql = "select number, token from cron where name = 'reporter'";
    let rows = world.db.query(Statement::new(sql, vec![])).await?;
    let Some(row) = rows.first() else {
        return Ok((0, FIRST.to_owned()));
    };
    let token = row.opt_text("token")?.unwrap_or(FIRST);
    Ok((row.int("number")?, token.to_owned()))
}

/// How a run begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Under this number and token.
    Run(i64, String),
    /// `LEDGER_0` was put back since [`standing`] looked.
    Restored,
    /// `LEDGER_0` was put back since it gave the token. The next run begins in it.
    Overtaken,
}

/// Begins a reporter run: its number and token, in `LEDGER_0` and then in DB. None begins in a
/// `LEDGER_0` that lies behind what was seen of it.
pub async fn begin(world: &World, standing: &Standing) -> Result<Begun, Fault> {
    let (token, now) = (world.mint("run_")?, world.now());
    let known = standing.token.as_str();
    let earlier = given_since("?3");
    let sql = format!(
        "update meter_run set number = number + 1, token = ?1, began_at_ms = ?2 \
         where number >= ?4 returning number, {earlier} as earlier"
    );
    let step = params![token.as_str(), now, known, standing.number];
    let rows = world.ledger.query(Statement::new(sql, step)).await?;
    let Some(row) = rows.first() else {
        return Ok(Begun::Restored);
    };
    let number = row.int("number")?;
    match record(world, number, &token, row.text("earlier")?).await? {
        Recorded::Yes => {
            if number % FORGET_RUNS == 0 {
                world.ledger.query(forget(known, now)).await?;
            }
            Ok(Begun::Run(number, token))
        }
        Recorded::Restored => Ok(Begun::Restored),
        Recorded::Lost => Ok(Begun::Overtaken),
    }
}

/// Old tokens are forgotten, but none behind the last one that DB was seen to have.
fn forget(known: &str, now: Millis) -> Statement {
    Statement::new(
        "delete from meter_token where until_ms < ?1 \
         and number < (select k.number from meter_token k where k.token = ?2)",
        params![now.after(-KEEP_MS), known],
    )
}

/// A JSON list of the token in this parameter and of all that were given after it, for a statement
/// on `LEDGER_0`; empty where it was put back to before it.
pub fn given_since(parameter: &str) -> String {
    format!(
        "(select json_group_array(g.token) from meter_token g where g.number >= \
         (select k.number from meter_token k where k.token = {parameter}))"
    )
}

/// Writes a token to DB that `LEDGER_0` gave behind the `earlier` ones, before anything is sent
/// under it.
pub async fn record(
    world: &World,
    number: i64,
    token: &str,
    earlier: &str,
) -> Result<Recorded, Fault> {
    let sql = "insert into cron (name, number, token) values ('reporter', ?1, ?2) \
        on conflict (name) do update set number = max(number, excluded.number), \
        token = excluded.token \
        where coalesce(token, ?4) in (select value from json_each(?3)) returning token";
    let statement = Statement::new(sql, params![number, token, earlier, FIRST]);
    if !world.db.query(statement).await?.is_empty() {
        return Ok(Recorded::Yes);
    }
    // DB knows one that was not given before this one: another sender was quicker, or the ledger
    // was put back in between.
    let (_, latest) = control(world).await?;
    let sql = "select exists (select 1 from meter_token where token = ?1) as has_own, \
        exists (select 1 from meter_token where token = ?2) as has_latest";
    let look = Statement::new(sql, params![token, latest.as_str()]);
    let rows = world.ledger.query(look).await?;
    let row = rows
        .first()
        .ok_or_else(|| Fault::unreadable("look for a token", "no row"))?;
    Ok(recorded(
        row.int("has_own")? != 0,
        row.int("has_latest")? != 0,
    ))
}

/// Nothing is sent before then; a later 429 never shortens the wait.
pub fn not_before(until: Millis) -> Statement {
    Statement::new(
        "update meter_run set not_before_ms = max(not_before_ms, ?1)",
        params![until],
    )
}

/// A token of `LEDGER_0` alone, by which [`caught_up`] knows the ledger that a pass began to fill.
pub async fn begin_filling(world: &World) -> Result<String, Fault> {
    let token = world.mint("fill_")?;
    let sql = "insert into meter_token (token, until_ms) values (?1, ?2)";
    let give = Statement::new(sql, params![token.as_str(), world.now()]);
    world.ledger.query(give).await?;
    Ok(token)
}

/// `LEDGER_0` has everything again, unless it was put back once more since it was begun to be
/// filled: its number and its tokens catch up with DB's. The tokens that it gave meanwhile are
/// forgotten: who has one has read a total that lacks something.
pub async fn caught_up(world: &World, filling: &str) -> Result<(), Fault> {
    let (in_control, latest) = control(world).await?;
    let latest = latest.as_str();
    let statements = vec![
        Statement::new(
            "update meter_run set number = max(number, ?1) \
             where exists (select 1 from meter_token f where f.token = ?2)",
            params![in_control, filling],
        ),
        Statement::new(
            "insert into meter_token (token, until_ms) select ?1, ?3 \
             where exists (select 1 from meter_token f where f.token = ?2) \
             on conflict (token) do nothing",
            params![latest, filling, world.now()],
        ),
        Statement::new(
            "delete from meter_token \
             where number < (select k.number from meter_token k where k.token = ?1)",
            params![latest],
        ),
    ];
    world.ledger.batch(statements).await?;
    Ok(())
}
