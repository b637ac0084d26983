//! One run: a world of a seed, so many moments of trouble, then rest, then the audit.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::json;

use super::auditor;
use super::books::AccountBook;
use super::rest::come_to_rest;
use super::stats::Stats;
use super::trouble;
use super::twin;
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
    /// What is stored, where a rule was broken.
    pub stored: String,
    /// What was exercised.
    pub stats: Rc<Stats>,
}

/// Short leases and frequent flushes, so that a short run sees their ends.
const SETTINGS: &[(&str, &str)] = &[
    ("LEASE_SECONDS", "20"),
    ("JOBS_PER_MINUTE", "6"),
    ("FLUSH_MS", "200"),
    ("SHARDS", "2"),
    ("LIMIT_FRESH_SECONDS", "30"),
    ("LIMIT_STALE_SECONDS", "120"),
    (
        "FEATURES",
        "clicks=clicks:counted tokens=tokens:gated images=images:gated",
    ),
];

/// One seed in so many is compared with its undisturbed twin.
const TWINS: u64 = 3;

/// Some seeds correct double clicks, some carry tails by themselves.
fn settings_of(seed: u64) -> Vec<(&'static str, &'static str)> {
    let mut settings = SETTINGS.to_vec();
    if seed.is_multiple_of(3) {
        settings.push(("DOUBLE_CLICK_MS", "60000"));
    }
    if seed.is_multiple_of(4) {
        settings.push(("CARRY_TAIL", "auto"));
    }
    settings
}

/// Runs a seed. The same seed does the same again, to the last statement.
pub fn run(seed: u64, size: Size) -> Result<Outcome, Fault> {
    let world = World::of_seed(seed, &settings_of(seed))?;
    found_accounts(&world, size.accounts);
    auditor::billing::watch_writes(&world);
    world.chaos.calm.set(false);
    for moment in 0..size.moments {
        trouble::happen(&world, size, moment)?;
        let steps = world.draw(60);
        for _ in 0..steps {
            world.step();
        }
        if moment % 4 == 0 {
            auditor::always(&world)?;
        }
        if !world.books.borrow().broken.is_empty() {
            break;
        }
    }
    world.chaos.calm.set(true);
    world.chaos.skews.borrow_mut().clear();
    if world.books.borrow().broken.is_empty() {
        come_to_rest(&world)?;
    }
    if world.books.borrow().broken.is_empty() && seed.is_multiple_of(TWINS) {
        twin::compare(&world)?;
    }
    let broken = world.books.borrow().broken.clone();
    let stored = if broken.is_empty() {
        String::new()
    } else {
        auditor::stored(&world)?
    };
    let stats = Rc::clone(&world.chaos.stats);
    world.chaos.forget_watcher();
    world.machine.objects.forget_world();
    Ok(Outcome {
        broken,
        stored,
        stats,
    })
}

/// The name of an account of the simulation.
pub fn account_name(number: u64) -> String {
    format!("sim-{number}")
}

fn found_accounts(world: &Rc<World>, accounts: u64) {
    for number in 0..accounts {
        let id = account_name(number);
        let customer_id = format!("customer_{number}");
        let call = |method: &str, target: &str, body| {
            let (status, answer) = world.machine.call(method, target, OPERATOR, &body);
            if !(200..300).contains(&status) {
                world.complain(format!("{method} {target}: {status} {answer}"));
            }
        };
        call(
            "PUT",
            &format!("/standin/customers/{customer_id}"),
            json!({"limits": {"images": 3_000}}),
        );
        call(
            "POST",
            "/v1/accounts",
            json!({"id": id, "customer_id": customer_id}),
        );
        let link = json!({"code": format!("code-{number}"), "destination": "https://example.com/"});
        call("POST", &format!("/v1/links?account={id}"), link);
        let limits = [("tokens", 10_000), ("images", 3_000)];
        let book = AccountBook {
            customer_id,
            limits: BTreeMap::from(limits.map(|(name, limit)| (name.to_owned(), limit))),
            plans: vec![(world.now().get(), "free".to_owned())],
            lost_at: None,
            period_began: 0,
            has_other_period: false,
        };
        world.books.borrow_mut().accounts.insert(id, book);
    }
}
