//! Everything arrives again; time passes, crons run and a person looks at what is open, until
//! nothing is owed. Then the audit.

use std::rc::Rc;

use serde_json::json;

use super::auditor;
use super::clients::operators;
use super::trouble::start;
use super::world::World;
use crate::fault::Fault;
use crate::provider::standin::faults::Operation;

/// Longer than every lease, retry and follow-up.
const PAUSES_MS: [i64; 4] = [61_000, 400_000, 3_700_000, 3_700_000];
/// A day, so that nightly work comes too.
const DAY_MS: i64 = 86_400_000;

/// The whole of it.
pub fn come_to_rest(world: &Rc<World>) -> Result<(), Fault> {
    for operation in Operation::ALL {
        let body = json!({"operation": operation.name(), "mode": "ok"});
        start(world, |world| async move {
            drop(world.send("PUT", "/standin/faults", &body).await);
        });
    }
    // What was put back is filled again first: no batch is old enough yet to be forgotten.
    let is_quiet = quiet(world) && pass(world, 61_000) && pass(world, 61_000) && look(world);
    if !is_quiet || !pass(world, 61_000) || !pass(world, 61_000) {
        return Ok(());
    }
    auditor::ledger::what_was_owed_is_back(world)?;
    let is_quiet = PAUSES_MS.iter().all(|ms| pass(world, *ms)) && pass(world, DAY_MS);
    // A person closes what is open; what follows from that is told and compared.
    if !is_quiet || !by_hand_all(world) || !(0..2).all(|_| look(world) && by_hand_all(world)) {
        return Ok(());
    }
    auditor::harvest(world)?;
    auditor::at_rest(world)
}

/// Time passes, and cron comes twice.
fn pass(world: &Rc<World>, ms: i64) -> bool {
    world.advance(ms);
    (0..2).all(|_| {
        world.start_cron();
        let is_quiet = quiet(world);
        world.advance(60_000);
        is_quiet
    })
}

/// A person looks at every open review.
fn look(world: &Rc<World>) -> bool {
    start(world, operators::review);
    quiet(world)
}

fn by_hand_all(world: &Rc<World>) -> bool {
    let jobs = [
        "sweeper",
        "inbox",
        "plans",
        "reporter",
        "reconciler",
        "reporter",
    ];
    jobs.iter().all(|job| {
        world.advance(61_000);
        by_hand(world, job)
    })
}

fn by_hand(world: &Rc<World>, job: &'static str) -> bool {
    start(world, |world| operators::run(world, job));
    quiet(world)
}

fn quiet(world: &Rc<World>) -> bool {
    match world.settle_down() {
        Ok(()) => true,
        Err(what) => {
            world.complain(what);
            false
        }
    }
}
