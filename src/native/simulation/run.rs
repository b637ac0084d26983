//! One run: a world of a seed, so many moments of trouble, then rest, then the audit.

use std::rc::Rc;

use serde_json::json;

use super::auditor;
use super::books::AccountBook;
use super::clients::{self, JobPlan};
use super::stats::Stats;
use super::world::{OPERATOR, World};
use crate::fault::Fault;

/// How large one run is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Accounts, each with a customer and a link.
    pub accounts: u64,
    /// Moments at which somebody may start something.
    pub moments: u64,
}

/// What a run found.
#[derive(Debug)]
pub struct Outcome {
    /// The rules that were broken, in words; none is good.
    pub broken: Vec<String>,
    /// What was exercised.
    pub stats: Rc<Stats>,
}

/// Short leases and frequent flushes, so that a short run sees their ends.
const SETTINGS: &[(&str, &str)] = &[
    ("LEASE_SECONDS", "20"),
    ("JOBS_PER_MINUTE", "30"),
    ("FLUSH_MS", "200"),
    ("SHARDS", "2"),
    ("LIMIT_FRESH_SECONDS", "30"),
    ("LIMIT_STALE_SECONDS", "120"),
];

/// Runs a seed. The same seed does the same again, to the last statement.
pub fn run(seed: u64, size: Size) -> Result<Outcome, Fault> {
    let world = World::of_seed(seed, SETTINGS)?;
    found_accounts(&world, size.accounts);
    world.chaos.calm.set(false);
    for moment in 0..size.moments {
        trouble(&world, size, moment);
        let steps = world.chaos.chance.borrow_mut().below(60);
        for _ in 0..steps {
            world.step();
        }
        if moment % 8 == 0 {
            auditor::always(&world)?;
        }
        if !world.books.borrow().broken.is_empty() {
            break;
        }
    }
    world.chaos.calm.set(true);
    if world.books.borrow().broken.is_empty() {
        come_to_rest(&world)?;
    }
    let broken = world.books.borrow().broken.clone();
    let stats = Rc::clone(&world.chaos.stats);
    world.machine.objects.forget_world();
    Ok(Outcome { broken, stats })
}

fn account_name(number: u64) -> String {
    format!("sim-{number}")
}

fn found_accounts(world: &Rc<World>, accounts: u64) {
    for number in 0..accounts {
        let id = account_name(number);
        let customer_id = format!("customer_{number}");
        let call = |method: &str, target: &str, body| {
            let (status, answer) = world.machine.call(method, target, OPERATOR, &body);
            if !(200..300).contains(&status) {
                let what = format!("{method} {target}: {status} {answer}");
                world.books.borrow_mut().complain(what);
            }
        };
        call(
            "POST",
            "/v1/accounts",
            json!({"id": id, "customer_id": customer_id}),
        );
        let link = json!({"code": format!("code-{number}"), "destination": "https://example.com/"});
        call("POST", &format!("/v1/links?account={id}"), link);
        let book = AccountBook {
            customer_id,
            limit_max: 10_000,
        };
        world.books.borrow_mut().accounts.insert(id, book);
    }
}

/// Something happens, or nothing.
fn trouble(world: &Rc<World>, size: Size, moment: u64) {
    let draw = |bound| world.chaos.chance.borrow_mut().below(bound);
    let account = account_name(u64::try_from(draw(32)).unwrap_or(0) % size.accounts.max(1));
    let shared = || Rc::clone(world);
    match draw(100) {
        0..20 => world.start_client(Box::pin(clients::worker(
            shared(),
            account,
            format!("job-{moment}"),
            job_plan(world),
        ))),
        20..40 => {
            let code = account.replace("sim-", "code-");
            world.start_client(Box::pin(clients::visitor(shared(), account, code, moment)));
        }
        40..48 => {
            let units = i64::try_from(draw(9)).unwrap_or(0) + 1;
            let key = format!("usage-{moment}");
            world.start_client(Box::pin(clients::counter(shared(), account, key, units)));
        }
        48..52 => {
            let plan = if draw(2) == 0 { "pro" } else { "free" };
            world.start_plan_change(&account, plan, moment);
        }
        52..55 => {
            let total = i64::try_from(draw(500)).unwrap_or(0);
            world.start_client(Box::pin(clients::meddler(shared(), account, total)));
        }
        55..62 => start_operator(world, draw(5)),
        62..66 => start_fault(world, draw(6), draw(6)),
        66..72 => world.start_cron(),
        72..92 => advance(world, draw(40)),
        92..94 => world.kill(),
        94..96 => {
            world.machine.objects.evict_all();
            world.stats().count("evicted");
        }
        _ => {}
    }
}

fn job_plan(world: &World) -> JobPlan {
    let mut chance = world.chaos.chance.borrow_mut();
    JobPlan {
        hold: chance.between(1, 4000),
        charges: chance.between(0, 5),
        charge: chance.between(1, 900),
        abandon: chance.in_thousand(250),
        lease_seconds: chance.between(1, 60),
    }
}

fn start_operator(world: &Rc<World>, which: usize) {
    let jobs = ["sweeper", "reporter", "inbox", "reconciler", "plans"];
    if let Some(job) = jobs.get(which).copied() {
        world.start_client(Box::pin(clients::operator(Rc::clone(world), job)));
    }
}

fn start_fault(world: &Rc<World>, operation: usize, mode: usize) {
    let operations = [
        "limit",
        "plan",
        "meter_read",
        "meter_write",
        "jwks",
        "token",
    ];
    let modes = [
        "error",
        "timeout",
        "429",
        "garbage",
        "lost_answer",
        "partial",
        "late",
    ];
    if let (Some(operation), Some(mode)) = (operations.get(operation), modes.get(mode)) {
        let task = clients::fault(Rc::clone(world), operation, mode, 2);
        world.start_client(Box::pin(task));
    }
}

/// Mostly a moment; now and then past leases, minutes, an hour.
fn advance(world: &Rc<World>, kind: usize) {
    let (name, ms) = match kind {
        0..24 => ("clock_moment", 150),
        24..32 => ("clock_second", 1_100),
        32..36 => ("clock_lease", 21_000),
        36..39 => ("clock_minute", 61_000),
        _ => ("clock_hour", 3_700_000),
    };
    world.stats().count(name);
    world.advance(ms);
}

/// Everything arrives again; time passes, crons run, until nothing is owed; then the audit.
fn come_to_rest(world: &Rc<World>) -> Result<(), Fault> {
    let complain = |what: String| world.books.borrow_mut().complain(what);
    for operation in [
        "limit",
        "plan",
        "meter_read",
        "meter_write",
        "jwks",
        "token",
    ] {
        let body = json!({"operation": operation, "mode": "ok"});
        world.start_client(Box::pin({
            let world = Rc::clone(world);
            async move {
                drop(world.send("PUT", "/standin/faults", OPERATOR, &body).await);
            }
        }));
    }
    // Longer than every lease, retry and follow-up; a day, so that nightly work comes too.
    for ms in [
        0, 5_000, 61_000, 61_000, 400_000, 3_700_000, 3_700_000, 3_700_000, 86_400_000,
    ] {
        world.advance(ms);
        for _ in 0..3 {
            world.start_cron();
            if let Err(what) = world.settle_down() {
                complain(what);
                return Ok(());
            }
            world.advance(60_000);
        }
    }
    for job in [
        "sweeper",
        "inbox",
        "plans",
        "reporter",
        "reconciler",
        "reporter",
        "reconciler",
    ] {
        world.start_client(Box::pin(clients::operator(Rc::clone(world), job)));
        if let Err(what) = world.settle_down() {
            complain(what);
            return Ok(());
        }
        world.advance(1_000);
    }
    auditor::at_rest(world)
}
