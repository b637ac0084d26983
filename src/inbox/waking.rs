//! Lanes that deliveries wake behind their answers: a few at once in one isolate, the others wait
//! for their turn; and each behind the deliveries that are on their way, because storing comes
//! first: a sender waits for its answer, nobody waits for a lane.
//!
//! Whoever has a turn takes the lanes of those that wait as well. Each request watches its own
//! lane by pauses of its own, because the request that has the turn may be gone. What nobody came
//! to in time is left to cron: the table is the schedule.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

use serde_json::json;

use super::lane;
use super::receive::Deliveries;
use crate::units::{AccountId, Millis};
use crate::world::World;

/// Lanes at work at once.
const TURNS_MAX: usize = 4;
/// A lane looks so often whether deliveries are on their way, once in any case: where a database
/// answers without a wait, as on one machine, no request is read until somebody pauses.
const BEHIND_MS: u32 = 4;
/// So long a lane stays behind them at most: deliveries without an end do not keep it from its
/// work.
const BEHIND_MS_MAX: u32 = 200;
/// A turn takes no further lane after so long, and one that was not heard of for so long is over:
/// the platform ends what a request does after its answer after half a minute.
const TURN_MS_MAX: i64 = 15_000;
/// See [`TURN_MS_MAX`].
const SILENT_MS_MAX: i64 = 30_000;
/// The first pause between two looks, doubled up to the longest; and for how long one looks.
const LOOK_MS: u32 = 200;
/// See [`LOOK_MS`].
const LOOK_MS_MAX: u32 = 1_600;
/// See [`LOOK_MS`].
const PATIENCE_MS: u32 = 20_000;

/// What one isolate knows of lanes that wait to be woken.
#[derive(Default)]
pub struct Waiting(RefCell<Queue>);

#[derive(Default)]
struct Queue {
    /// Each with the account in whose object it runs, where there is one.
    lanes: BTreeMap<String, Option<AccountId>>,
    /// Lanes come in the order of their names, and begin anew behind the last.
    last: String,
    turns: u64,
    /// Who has a turn, and when it was last heard of.
    at_work: BTreeMap<u64, Millis>,
}

impl Waiting {
    fn enter(&self, lane: &str, account_id: Option<AccountId>) {
        let mut queue = self.0.borrow_mut();
        queue.lanes.insert(lane.to_owned(), account_id);
    }

    fn leave(&self, lane: &str) {
        self.0.borrow_mut().lanes.remove(lane);
    }

    fn has(&self, lane: &str) -> bool {
        self.0.borrow().lanes.contains_key(lane)
    }

    /// A turn, where one is free.
    fn begin(&self, now: Millis) -> Option<u64> {
        let mut queue = self.0.borrow_mut();
        let is_heard_of = |at: &Millis| now.since(*at).abs() < SILENT_MS_MAX;
        queue.at_work.retain(|_, at| is_heard_of(at));
        if queue.at_work.len() >= TURNS_MAX {
            return None;
        }
        queue.turns += 1;
        let turn = queue.turns;
        queue.at_work.insert(turn, now);
        Some(turn)
    }

    /// The next lane for that turn.
    fn take(&self, turn: u64, now: Millis) -> Option<(String, Option<AccountId>)> {
        let mut queue = self.0.borrow_mut();
        queue.at_work.insert(turn, now);
        let behind = (Bound::Excluded(queue.last.clone()), Bound::Unbounded);
        let mut next = queue.lanes.range(behind).chain(&queue.lanes);
        let name = next.next()?.0.clone();
        queue.last.clone_from(&name);
        queue.lanes.remove_entry(&name)
    }

    fn end(&self, turn: u64) {
        self.0.borrow_mut().at_work.remove(&turn);
    }
}

/// Wakes a lane behind the answer, when its turn comes: in the account's object, which wakes again
/// for the next try by itself; here where there is no account.
pub fn wake_behind(world: &Rc<World>, lane: &str, account_id: Option<AccountId>) {
    world.isolate.waking.enter(lane, account_id);
    let (behind, lane) = (Rc::clone(world), lane.to_owned());
    world.background.spawn(Box::pin(async move {
        watch(&behind, &lane).await;
    }));
}

async fn watch(world: &Rc<World>, lane: &str) {
    let waiting = &world.isolate.waking;
    let (mut waited, mut look) = (0, LOOK_MS);
    while waiting.has(lane) && waited < PATIENCE_MS {
        if let Some(turn) = waiting.begin(world.now()) {
            work(world, turn).await;
            waiting.end(turn);
        } else {
            world.timer.pause(look).await;
            waited += look;
            look = (look * 2).min(LOOK_MS_MAX);
        }
    }
    waiting.leave(lane);
}

/// Lets deliveries go first.
async fn stay_behind(world: &World) {
    let mut waited = 0;
    while waited == 0 || waited < BEHIND_MS_MAX && Deliveries::are_stored_now(world) {
        world.timer.pause(BEHIND_MS).await;
        waited += BEHIND_MS;
    }
}

async fn work(world: &Rc<World>, turn: u64) {
    let began = world.now();
    while world.now().since(began).abs() < TURN_MS_MAX {
        stay_behind(world).await;
        let Some((lane, account_id)) = world.isolate.waking.take(turn, world.now()) else {
            return;
        };
        let woken = match account_id {
            Some(account_id) => lane::wake_account(world, &account_id).await,
            None => lane::run(world, &lane).await.map(|_| ()),
        };
        if let Err(fault) = woken {
            // The table is the schedule: cron takes the lane up again.
            let fields = json!({"lane": lane, "cause": fault.to_string()});
            world.log.line("error", "inbox.lane_fault", fields);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis::new(1_000);

    #[test]
    fn lanes_come_in_turn_and_begin_anew_behind_the_last() {
        let waiting = Waiting::default();
        for lane in ["b", "a", "b"] {
            waiting.enter(lane, None);
        }
        let turn = waiting.begin(NOW).expect("a turn is free");
        let take = || waiting.take(turn, NOW).map(|(lane, _)| lane);
        assert_eq!(take().as_deref(), Some("a"));
        waiting.enter("a", None);
        assert_eq!(take().as_deref(), Some("b"), "twice woken, once run");
        assert_eq!(take().as_deref(), Some("a"));
        assert_eq!(take(), None);
    }

    #[test]
    fn a_turn_that_nobody_hears_of_is_free_again() {
        let waiting = Waiting::default();
        for _ in 0..TURNS_MAX {
            assert!(waiting.begin(NOW).is_some());
        }
        assert_eq!(waiting.begin(NOW), None);
        let late = NOW.after(SILENT_MS_MAX);
        assert!(waiting.begin(late).is_some());
    }
}
