//! The clicks of one isolate on their way: which wait for the next message, which are written, and
//! who carries.
//!
//! Those that arrive while a message is under way travel together in the next. Each request
//! watches its own click, because the request that carries the others may be gone. A click stays
//! known here until it is written: one that nobody seems to watch any more waits again.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::wire::ClickWire;
use crate::units::Millis;

/// Clicks that wait in one isolate at most; beyond, each sends itself.
const WAITING_MAX: usize = 5_000;
/// The same for those that are not known to be written.
const UNWRITTEN_MAX: usize = 20_000;
/// The platform ends what a request does after its answer long before this.
const WATCHED_MS_MAX: i64 = 60_000;

/// A click's number in its isolate.
pub type Ticket = u32;

/// What one isolate knows of clicks on their way.
#[derive(Default)]
pub struct Travelling(RefCell<Shared>);

#[derive(Default)]
struct Shared {
    tickets: Ticket,
    waiting: VecDeque<Ticket>,
    /// Clicks that are not known to be written.
    unwritten: BTreeMap<Ticket, Unwritten>,
    /// Who carries, and since when: it may be gone without a word.
    carrier: Option<(u64, Millis)>,
    carriers: u64,
    /// Where this isolate's clicks go for now, and since when.
    shard: Option<(u32, Millis)>,
    /// Sums that could not be written yet.
    uncounted: BTreeMap<String, i64>,
}

struct Unwritten {
    parcel: Rc<ClickWire>,
    since: Millis,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Carried,
    Failed,
}

/// What is known of a click.
pub enum Fate {
    /// Nothing yet.
    OnItsWay,
    /// It is written.
    Written,
    /// Whoever carried it could not write it.
    Failed,
}

impl Travelling {
    /// A click waits for whoever carries; its number. `None` where too many wait.
    pub fn enter(&self, parcel: &Rc<ClickWire>, now: Millis) -> Option<Ticket> {
        let mut shared = self.0.borrow_mut();
        if shared.waiting.len() >= WAITING_MAX || shared.unwritten.len() >= UNWRITTEN_MAX {
            return None;
        }
        shared.tickets = shared.tickets.wrapping_add(1);
        let ticket = shared.tickets;
        shared.waiting.push_back(ticket);
        let unwritten = Unwritten {
            parcel: Rc::clone(parcel),
            since: now,
            stage: Stage::Waiting,
        };
        shared.unwritten.insert(ticket, unwritten);
        Some(ticket)
    }

    /// What became of a click.
    pub fn fate(&self, ticket: Ticket) -> Fate {
        match self.0.borrow().unwritten.get(&ticket).map(|one| one.stage) {
            None => Fate::Written,
            Some(Stage::Failed) => Fate::Failed,
            Some(Stage::Waiting | Stage::Carried) => Fate::OnItsWay,
        }
    }

    /// Whoever watches this click sends it itself: nobody else is to begin to.
    pub fn take_back(&self, ticket: Ticket) -> Option<Rc<ClickWire>> {
        let mut shared = self.0.borrow_mut();
        shared.waiting.retain(|waiting| *waiting != ticket);
        shared.unwritten.remove(&ticket).map(|one| one.parcel)
    }

    /// Whether clicks wait and nobody carries, or whoever did has not been heard of for so long.
    pub fn lacks_carrier(&self, now: Millis, patience_ms: i64) -> bool {
        let shared = self.0.borrow();
        let carries = |(_, since): (u64, Millis)| now.since(since).abs() < patience_ms;
        !shared.waiting.is_empty() && !shared.carrier.is_some_and(carries)
    }

    /// Becomes the one who carries; the number of this turn.
    pub fn take_the_lead(&self, now: Millis) -> u64 {
        let mut shared = self.0.borrow_mut();
        shared.carriers += 1;
        let number = shared.carriers;
        shared.carrier = Some((number, now));
        number
    }

    /// Ends that turn, unless another has begun.
    pub fn give_up_the_lead(&self, number: u64) {
        let mut shared = self.0.borrow_mut();
        if shared.carrier.is_some_and(|(carrier, _)| carrier == number) {
            shared.carrier = None;
        }
    }

    /// The clicks of the next message.
    pub fn take(&self, most: usize, now: Millis) -> Vec<(Ticket, Rc<ClickWire>)> {
        let mut shared = self.0.borrow_mut();
        shared.let_wait_again(now);
        let count = shared.waiting.len().min(most);
        let tickets: Vec<Ticket> = shared.waiting.drain(..count).collect();
        let mut together = Vec::with_capacity(tickets.len());
        for ticket in tickets {
            if let Some(one) = shared.unwritten.get_mut(&ticket) {
                one.stage = Stage::Carried;
                together.push((ticket, Rc::clone(&one.parcel)));
            }
        }
        together
    }

    /// These clicks are written, or whoever carried them could not write them.
    pub fn tell(&self, tickets: impl Iterator<Item = Ticket>, are_written: bool) {
        let mut shared = self.0.borrow_mut();
        for ticket in tickets {
            if are_written {
                shared.unwritten.remove(&ticket);
            } else if let Some(one) = shared.unwritten.get_mut(&ticket) {
                one.stage = Stage::Failed;
            }
        }
    }

    /// The shard to which this isolate's clicks go for now.
    pub fn shard(&self) -> Option<(u32, Millis)> {
        self.0.borrow().shard
    }

    /// They go to another one from now on; `None`: to any.
    pub fn set_shard(&self, shard: Option<(u32, Millis)>) {
        self.0.borrow_mut().shard = shard;
    }

    /// Sums that could not be written yet, for whoever writes next.
    pub fn take_sums(&self) -> BTreeMap<String, i64> {
        std::mem::take(&mut self.0.borrow_mut().uncounted)
    }

    /// Keeps sums that could not be written.
    pub fn keep_sums(&self, sums: BTreeMap<String, i64>) {
        let mut shared = self.0.borrow_mut();
        for (name, by) in sums {
            *shared.uncounted.entry(name).or_default() += by;
        }
    }
}

impl Shared {
    /// Clicks that failed, or were taken along, so long ago that nobody watches them any more wait
    /// again. Where somebody does, the click is sent twice under one id.
    fn let_wait_again(&mut self, now: Millis) {
        let is_old = |one: &Unwritten| now.since(one.since).abs() > WATCHED_MS_MAX;
        for (ticket, one) in &mut self.unwritten {
            if !is_old(one) {
                break;
            }
            if one.stage != Stage::Waiting {
                one.stage = Stage::Waiting;
                one.since = now;
                self.waiting.push_back(*ticket);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis::new(1_000);

    fn parcel() -> Rc<ClickWire> {
        let text = r#"{"entry": {"id": "clk_1", "account": "a", "feature": "clicks",
            "cycle": "2026-11", "units": 1, "kind": "click", "at": 1000}}"#;
        Rc::new(serde_json::from_str(text).expect("it reads"))
    }

    #[test]
    fn a_click_is_known_until_it_is_written_whatever_the_clock_does() {
        let clicks = Travelling::default();
        let ticket = clicks.enter(&parcel(), NOW).expect("there is room");
        let is_unwritten = || !matches!(clicks.fate(ticket), Fate::Written);
        let mut at = NOW;
        assert_eq!(clicks.take(10, at).len(), 1);
        assert_eq!(clicks.take(10, at).len(), 0, "it is on its way");
        for jump in [3_600_000, -86_400_000, 3_600_000] {
            at = at.after(jump);
            assert!(is_unwritten());
            assert_eq!(clicks.take(10, at).len(), 1, "nobody watches it by now");
            clicks.tell([ticket].into_iter(), false);
            assert!(matches!(clicks.fate(ticket), Fate::Failed));
        }
        at = at.after(3_600_000);
        assert_eq!(clicks.take(10, at).len(), 1);
        clicks.tell([ticket].into_iter(), true);
        assert!(!is_unwritten());
        assert!(clicks.take_back(ticket).is_none());
    }

    #[test]
    fn a_click_that_is_taken_back_is_carried_by_nobody() {
        let clicks = Travelling::default();
        let ticket = clicks.enter(&parcel(), NOW).expect("there is room");
        assert!(clicks.lacks_carrier(NOW, 2_000));
        assert!(clicks.take_back(ticket).is_some());
        assert!(!clicks.lacks_carrier(NOW, 2_000));
        assert!(clicks.take(10, NOW).is_empty());
    }
}
