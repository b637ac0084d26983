//! The cron tick, every minute, and the same jobs one by one for an operator or a test.
//!
//! In the order sweeper, inbox, reporter, nightly work, all within `CALLS_PER_RUN`; what is not
//! done goes on in the next minute. A job begins only where the calls that are left suffice for its
//! least piece of work. Where one tick has few of them, each minute begins with another job, so
//! that every one has all of them in its turn. After `LEDGER_0` was put back the reconciler does
//! not wait for the night. One job's failure stops no other, and two ticks at once do no harm:
//! whatever a job takes is taken by a conditional statement.

use std::rc::Rc;

use serde_json::{Value as Json, json};

use crate::accounts::Account;
use crate::counting::counted;
use crate::fault::Fault;
use crate::inbox::watchdog;
use crate::params;
use crate::plans::nightly;
use crate::ports::Statement;
use crate::provider::standin::clock;
use crate::reconciler::{self, PassName};
use crate::units::Millis;
use crate::world::{Calls, World};
use crate::{moment, reporter, sweeper};

/// The jobs that can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Job {
    /// Shards, and accounts that are overdue.
    Sweeper,
    /// Events, follow-ups, alerts.
    Inbox,
    /// Meters.
    Reporter,
    /// Ledger against provider.
    Reconciler,
    /// Plans against provider.
    Plans,
}

impl Job {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Sweeper,
        Self::Inbox,
        Self::Reporter,
        Self::Reconciler,
        Self::Plans,
    ];

    /// As in the route and the metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sweeper => "sweeper",
            Self::Inbox => "inbox",
            Self::Reporter => "reporter",
            Self::Reconciler => "reconciler",
            Self::Plans => "plans",
        }
    }

    /// From its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|job| job.name() == name)
    }

    /// What its least piece of work may cost in calls.
    fn least(self, world: &World) -> u32 {
        match self {
            Self::Sweeper => sweeper::CALLS_LEAST,
            Self::Inbox => watchdog::CALLS_LEAST,
            Self::Reporter => reporter::CALLS_LEAST,
            Self::Reconciler => CALLS_FOR_NIGHT + reconciler::calls_least(world),
            Self::Plans => CALLS_FOR_NIGHT + nightly::CALLS_LEAST,
        }
    }
}

/// What a run is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Only this account.
    pub account: Option<Account>,
    /// Write nothing: the reconciler.
    pub dry_run: bool,
}

/// With fewer calls than this, the jobs of a tick take turns in beginning it.
const CALLS_FOR_ALL: u32 = 250;
/// What it costs to know whether tonight's pass is done, and to say so.
const CALLS_FOR_NIGHT: u32 = 4;
/// What is kept for the note of what ran.
const CALLS_FOR_NOTE: u32 = 1;

/// The jobs of a tick in their order.
fn in_turn(calls_per_run: u32, now: Millis) -> impl Iterator<Item = Job> {
    let minute = usize::try_from(now.get().div_euclid(60_000)).unwrap_or(0);
    let first = if calls_per_run < CALLS_FOR_ALL {
        minute
    } else {
        0
    };
    let jobs = Job::ALL.into_iter().cycle();
    jobs.skip(first % Job::ALL.len()).take(Job::ALL.len())
}

/// Runs one job now, with calls of its own; gives its summary.
pub async fn run_job(world: &Rc<World>, job: Job, asked: &Asked) -> Result<Json, Fault> {
    let calls = Rc::new(Calls::new(world.settings.calls_per_run));
    let counted = Rc::new(counted(world, &calls));
    let only = asked.account.as_ref();
    let summary = match (job, only) {
        (Job::Reconciler, _) => return Ok(reconcile(world, asked).await?.json()),
        (Job::Sweeper, None) => sweeper::run(&counted, &calls).await?.json(),
        (Job::Sweeper, Some(one)) => sweeper::run_account(&counted, one).await?.json(),
        (Job::Inbox, None) => watchdog::run(&counted, &calls).await?.json(),
        (Job::Inbox, Some(one)) => watchdog::run_account(&counted, one).await?.json(),
        (Job::Reporter, None) => reporter::run(&counted, &calls).await?.json(),
        (Job::Reporter, Some(one)) => reporter::run_account(&counted, &calls, one).await?.json(),
        (Job::Plans, None) => nightly::run(&counted, &calls).await?.json(),
        (Job::Plans, Some(one)) => nightly::run_account(&counted, one).await?.json(),
    };
    // Where one account alone was asked for, everybody else still waits for theirs.
    if only.is_none() {
        world.db.query(ran(&[job.name()], world.now())).await?;
    }
    Ok(summary)
}

/// Runs the reconciler now, with calls of its own.
pub async fn reconcile(world: &Rc<World>, asked: &Asked) -> Result<reconciler::Summary, Fault> {
    let calls = Rc::new(Calls::new(world.settings.calls_per_run));
    let counted = Rc::new(counted(world, &calls));
    let pass = if asked.dry_run {
        PassName::DryRun
    } else {
        PassName::Asked
    };
    let summary = match &asked.account {
        Some(account) => {
            reconciler::run_account(&counted, &calls, &account.account_id, asked.dry_run).await?
        }
        None => reconciler::run(&counted, &calls, pass).await?,
    };
    if !asked.dry_run && asked.account.is_none() {
        let name = Job::Reconciler.name();
        world.db.query(ran(&[name], world.now())).await?;
    }
    Ok(summary)
}

/// Everything that is due this minute. Never fails: a fault is one line in the log.
pub async fn tick(world: &Rc<World>) {
    clock::refresh(world).await;
    let limit = world.settings.calls_per_run;
    let calls = Rc::new(Calls::new(limit.saturating_sub(CALLS_FOR_NOTE)));
    let counted = Rc::new(counted(world, &calls));
    let mut done = vec!["tick"];
    let mut restored = false;
    for job in in_turn(limit, world.now()) {
        if !calls.suffice_for(job.least(world)) {
            continue;
        }
        let outcome = match job {
            Job::Sweeper => sweeper::run(&counted, &calls).await.map(|s| Some(s.json())),
            Job::Inbox => watchdog::run(&counted, &calls)
                .await
                .map(|s| Some(s.json())),
            Job::Reporter => reporter::run(&counted, &calls).await.map(|s| {
                restored = s.restored;
                Some(s.json())
            }),
            Job::Reconciler if restored => fill_again(&counted, &calls).await,
            Job::Reconciler => nightly_reconcile(&counted, &calls).await,
            Job::Plans => nightly_plans(&counted, &calls).await,
        };
        note(world, job, outcome, &mut done);
    }
    let fields = json!({"calls": calls.taken() + CALLS_FOR_NOTE, "limit": limit});
    world.log.line("info", "cron.tick", fields);
    if let Err(fault) = world.db.query(ran(&done, world.now())).await {
        let fields = json!({"cause": fault.to_string()});
        world.log.line("error", "cron.fault", fields);
    }
}

/// The row of the nightly plan reconcile.
const PLANS: &str = "plans_nightly";

/// `LEDGER_0` was put back: no meter is written, and an account whose row in `feed` and alarm are
/// both gone is swept by nobody, until a run has handed everybody their rows. So the night is not
/// waited for.
async fn fill_again(world: &Rc<World>, calls: &Calls) -> Result<Option<Json>, Fault> {
    let summary = reconciler::run(world, calls, PassName::Nightly).await?;
    Ok(Some(summary.json()))
}

/// Nothing where tonight's pass is done.
async fn nightly_reconcile(world: &Rc<World>, calls: &Calls) -> Result<Option<Json>, Fault> {
    if !night(world, PassName::Nightly.name()).await? {
        return Ok(None);
    }
    let summary = reconciler::run(world, calls, PassName::Nightly).await?;
    if summary.done {
        night_is_done(world, PassName::Nightly.name()).await?;
    }
    Ok(Some(summary.json()))
}

/// Nothing where tonight's pass is done.
async fn nightly_plans(world: &Rc<World>, calls: &Calls) -> Result<Option<Json>, Fault> {
    if !night(world, PLANS).await? {
        return Ok(None);
    }
    let summary = nightly::run(world, calls).await?;
    if summary.done {
        night_is_done(world, PLANS).await?;
    }
    Ok(Some(summary.json()))
}

fn note(
    world: &World,
    job: Job,
    outcome: Result<Option<Json>, Fault>,
    done: &mut Vec<&'static str>,
) {
    match outcome {
        Ok(None) => {}
        Ok(Some(summary)) => {
            done.push(job.name());
            let fields = json!({"job": job.name(), "summary": summary});
            world.log.line("info", "cron.job", fields);
        }
        Err(fault) => {
            let fields = json!({"job": job.name(), "doing": fault.doing, "cause": fault.cause});
            world.log.line("error", "cron.fault", fields);
        }
    }
}

/// The number of the night that has begun last: nights begin at `NIGHTLY_AT`.
pub fn night_of(now: Millis, nightly_at_minutes: i64) -> i64 {
    let begun = now.get() - nightly_at_minutes * 60_000;
    begun.div_euclid(moment::DAY_MS)
}

/// Whether tonight's pass is still to be done. A first start does not make up for nights before.
async fn night(world: &World, name: &str) -> Result<bool, Fault> {
    let night = night_of(world.now(), world.settings.nightly_at_minutes);
    let first = Statement::new(
        "insert into cron (name, pass_day, pass_done) values (?1, ?2, 1) \
         on conflict (name) do update set pass_day = coalesce(pass_day, excluded.pass_day), \
         pass_done = case when pass_day is null then 1 else pass_done end",
        params![name, night],
    );
    let turn = Statement::new(
        "update cron set pass_day = ?2, pass_done = 0 where name = ?1 and pass_day < ?2",
        params![name, night],
    );
    let read = Statement::new("select pass_done from cron where name = ?1", params![name]);
    let results = world.db.batch(vec![first, turn, read]).await?;
    let row = results.last().and_then(|rows| rows.first());
    Ok(match row {
        Some(row) => row.int("pass_done")? == 0,
        None => false,
    })
}

async fn night_is_done(world: &World, name: &str) -> Result<(), Fault> {
    let sql = "update cron set pass_done = 1 where name = ?1";
    world.db.query(Statement::new(sql, params![name])).await?;
    Ok(())
}

/// When these jobs last ran to their end.
fn ran(names: &[&str], at: Millis) -> Statement {
    Statement::new(
        "insert into cron (name, finished_at_ms) \
         select value, cast(?2 as integer) from json_each(?1) where true \
         on conflict (name) do update set finished_at_ms = excluded.finished_at_ms",
        params![json!(names).to_string(), at],
    )
}

/// For `/metrics`: seconds since each job last ran.
pub async fn gauges(world: &World) -> Result<Vec<(String, i64)>, Fault> {
    let sql = "select name, finished_at_ms from cron where finished_at_ms is not null \
        order by name";
    let rows = world.db.query(Statement::new(sql, vec![])).await?;
    let now = world.now();
    rows.iter()
        .map(|row| {
            let seconds = now.since(row.millis("finished_at_ms")?) / 1000;
            let name = row.text("name")?;
            Ok((
                format!("counterfoil_cron_seconds_since{{job=\"{name}\"}}"),
                seconds,
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::parse_millis;

    #[test]
    fn with_few_calls_each_minute_begins_with_another_job() {
        let order = |calls, minute: i64| in_turn(calls, Millis::new(minute * 60_000));
        let firsts: Vec<_> = (0..5)
            .filter_map(|minute| order(45, minute).next())
            .collect();
        assert_eq!(firsts, Job::ALL);
        assert_eq!(order(45, 3).count(), 5);
        for minute in 0..5 {
            assert!(order(900, minute).eq(Job::ALL), "{minute}");
        }
    }

    #[test]
    fn a_night_begins_at_the_set_time_and_lasts_until_the_next() {
        let night = |text| night_of(parse_millis(text).expect("a moment"), 120);
        let before = night("2026-11-10T01:59:59.999Z");
        assert_eq!(night("2026-11-10T02:00:00Z"), before + 1);
        assert_eq!(night("2026-11-11T01:59:59Z"), before + 1);
        assert_eq!(night("2026-11-11T02:00:00Z"), before + 2);
    }
}
