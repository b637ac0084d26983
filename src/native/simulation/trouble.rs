//! What may happen at one moment of a run. Which of it does is the seed's.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::clients::jobs::JobPlan;
use super::clients::provider::Change;
use super::clients::visitors::Who;
use super::clients::{jobs, operators, provider, usage, visitors};
use super::disaster;
use super::run::{Size, account_name};
use super::world::World;
use crate::cycle::{Anchor, cycle_at};
use crate::fault::Fault;
use crate::provider::standin::faults::{Mode, Operation};

/// Messages to shards whose answers a storm takes.
const STORM: u32 = 24;

/// Something happens, or nothing.
pub fn happen(world: &Rc<World>, size: Size, moment: u64) -> Result<(), Fault> {
    let draw = |bound| world.draw(bound);
    let account = account_name(u64::try_from(draw(32)).unwrap_or(0) % size.accounts.max(1));
    match draw(1000) {
        0..200 => {
            let (key, plan) = (format!("job-{moment}"), job_plan(world));
            start(world, |world| jobs::work(world, account, key, plan));
        }
        200..380 => visit(world, account, moment),
        380..450 => {
            let units = i64::try_from(draw(9)).unwrap_or(0) + 1;
            let key = format!("usage-{moment}");
            start(world, |world| usage::count(world, account, key, units));
        }
        450..465 => start(world, usage::repeat),
        465..485 => start(world, |world| usage::correct(world, account, moment)),
        485..530 => world.start_plan_change(&account, plan_change(world), moment),
        530..540 => {
            if let Some(by_ms) = world.pick(&[-20_000, 20_000, 20_000, 864_000_000]) {
                start(world, |world| provider::move_period(world, account, by_ms));
            }
        }
        540..565 => {
            let total = i64::try_from(draw(500)).unwrap_or(0);
            start(world, |world| provider::meddle(world, account, total));
        }
        565..660 => operate(world, account),
        660..700 => fail(world),
        700..760 => world.start_cron(),
        760..900 => pass_time(world),
        900..930 => world.let_one_land(),
        _ => break_something(world)?,
    }
    Ok(())
}

/// Starts a client.
pub fn start<F: Future<Output = ()> + 'static>(
    world: &Rc<World>,
    client: impl FnOnce(Rc<World>) -> F,
) {
    world.start_client(Box::pin(client(Rc::clone(world))));
}

fn job_plan(world: &World) -> JobPlan {
    let mut chance = world.chaos.chance.borrow_mut();
    let mut holds = BTreeMap::from([("tokens", chance.between(1, 4000))]);
    if chance.in_thousand(200) {
        holds.insert("images", chance.between(1, 900));
    } else if chance.in_thousand(60) {
        holds = BTreeMap::from([("tokens", 200_000)]);
    }
    JobPlan {
        holds,
        charges: chance.between(0, 4),
        charge: chance.between(1, 900),
        extend: if chance.in_thousand(300) {
            chance.between(1, 3000)
        } else {
            0
        },
        renew: chance.in_thousand(200),
        abandon: chance.in_thousand(200),
        is_late: chance.in_thousand(150),
        lease_seconds: chance.between(1, 60),
    }
}

fn visit(world: &Rc<World>, account: String, moment: u64) {
    let who = match world.draw(10) {
        0..2 => Who::Machine,
        2..5 => Who::Twice,
        _ => Who::Person,
    };
    let code = account.replace("sim-", "code-");
    start(world, |world| {
        visitors::visit(world, account, code, who, moment)
    });
}

fn plan_change(world: &World) -> Change {
    Change {
        plan: match world.draw(10) {
            0..5 => Some("pro"),
            5..9 => Some("free"),
            _ => None,
        },
        again: world.draw(5) == 0,
        new_period: world.draw(6) == 0,
    }
}

fn operate(world: &Rc<World>, account: String) {
    match world.draw(14) {
        0..5 => {
            let jobs = ["sweeper", "reporter", "inbox", "reconciler", "plans"];
            if let Some(job) = world.pick(&jobs) {
                start(world, |world| operators::run(world, job));
            }
        }
        5..7 => start(world, |world| operators::sync(world, account)),
        7 => start(world, |world| operators::reconcile(world, account, false)),
        8 => start(world, |world| operators::reconcile(world, account, true)),
        9 => start(world, |world| operators::judge_event(world, account, true)),
        10..12 => start(world, |world| operators::judge_event(world, account, false)),
        _ => start(world, operators::review),
    }
}

fn fail(world: &Rc<World>) {
    if let (Some(operation), Some(mode)) = (world.pick(&Operation::ALL), world.pick(&Mode::ALL)) {
        let (operation, mode) = (operation.name(), mode.name());
        start(world, |world| provider::fail(world, operation, mode, 2));
    }
}

/// Mostly a moment; now and then past leases, minutes, hours, to the turn of a cycle.
fn pass_time(world: &Rc<World>) {
    let (name, ms) = match world.draw(100) {
        0..50 => ("clock_moment", 150),
        50..74 => ("clock_second", 1_100),
        74..84 => ("clock_lease", 21_000),
        84..94 => ("clock_minute", 61_000),
        94..97 => ("clock_hour", 3_700_000),
        97 => ("clock_day", 25 * 3_600_000),
        _ => {
            // Just before the month's end, so that what is under way meets the turn.
            let month = cycle_at(&[Anchor::calendar_months()], world.now());
            let left = month.ends_at.since(world.now());
            if left > 2_000 {
                ("clock_before_turn", left - 1_500)
            } else {
                ("clock_turn", 2_000)
            }
        }
    };
    world.stats().count(name);
    world.advance(ms);
}

fn break_something(world: &Rc<World>) -> Result<(), Fault> {
    match world.draw(100) {
        0..14 => world.kill(),
        14..26 => {
            world.machine.objects.evict_all();
            world.stats().count("evicted");
            Ok(())
        }
        26..40 => world.give_one_up(),
        40..48 => {
            world.lose_an_alarm();
            Ok(())
        }
        48..58 => {
            world.skew_a_clock();
            Ok(())
        }
        58..62 => world.lose_a_storage(),
        62..66 => {
            world.stats().count("storm");
            world.chaos.storm.set(STORM);
            Ok(())
        }
        66..78 => world.copy_ledger(),
        78..90 => world.restore_ledger(),
        _ => {
            start(world, disaster::put_back_under_way);
            Ok(())
        }
    }
}
