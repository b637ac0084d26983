//! The clicks of one isolate on their way: which wait for the next message, which are written, who
//! carries and who watches.
//!
//! Those that arrive while a message is under way travel together in the next. Whoever carries may
//! be gone, so requests watch by timers of their own. A timer for each of thousands of clicks would
//! cost more than all else that is done for it, so some of each short while watch all clicks that
//! set out in it, and whatever is left of earlier ones; where fewer come, each watches. A click
//! stays known here until it is written or named as lost: whoever sends it may be gone as well.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::wire::ClickWire;
use crate::units::Millis;

/// Clicks that wait in one isolate at most; beyond, each sends itself.
const WAITING_MAX: usize = 5_000;
/// The same for those that are not known to be written.
const UNWRITTEN_MAX: usize = 20_000;
/// Without confirmation for so long, whoever watches a click sends it; and another one, where
/// nothing was heard of that either.
const PATIENCE_MS: u32 = 2_000;

/// The requests that watch the clicks of one window, at most.
const WATCHERS: u32 = 10;
/// For so long clicks set out in the same window.
const WINDOW_MS: i64 = 50;

/// A click's number in its isolate; they only grow.
pub type Ticket = u64;
/// A window's number in its isolate; they only grow.
pub type Window = u32;

/// Where a click has entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its window.
    pub window: Window,
    /// Whether its request is one of those that watch the window.
    pub watches: bool,
}

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
    window: Window,
    /// Since when clicks set out in that window.
    window_since: Millis,
    /// How many requests watch it.
    watchers: u32,
    /// Where this isolate's clicks go for now, and since when.
    shard: Option<(u32, Millis)>,
    /// Sums that could not be written yet.
    uncounted: BTreeMap<String, i64>,
}

struct Unwritten {
    parcel: Rc<ClickWire>,
    window: Window,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Carried,
    /// Whoever carried it could not write it.
    Failed,
    /// Somebody who watched sends it, since then.
    Sent(Millis),
}

/// What is known of the clicks of a window and of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// All are written.
    Written,
    /// Of some nothing yet.
    OnItsWay,
    /// Some were not written by whoever carried them, or not confirmed for too long.
    Overdue,
}

/// Clicks with their numbers.
pub type Numbered = Vec<(Ticket, Rc<ClickWire>)>;

impl Travelling {
    /// A click waits for whoever carries. `None` where too many wait.
    pub fn enter(&self, parcel: &Rc<ClickWire>, now: Millis) -> Option<Place> {
        let mut shared = self.0.borrow_mut();
        if shared.waiting.len() >= WAITING_MAX || shared.unwritten.len() >= UNWRITTEN_MAX {
            return None;
        }
        if now.since(shared.window_since).abs() >= WINDOW_MS {
            shared.window = shared.window.saturating_add(1);
            shared.window_since = now;
            shared.watchers = 0;
        }
        let watches = shared.watchers < WATCHERS;
        shared.watchers += u32::from(watches);
        shared.tickets += 1;
        let (ticket, window) = (shared.tickets, shared.window);
        shared.waiting.push_back(ticket);
        let unwritten = Unwritten {
            parcel: Rc::clone(parcel),
            window,
            stage: Stage::Waiting,
        };
        shared.unwritten.insert(ticket, unwritten);
        Some(Place { window, watches })
    }

    /// What became of the clicks of a window and of those before it, for somebody who has watched
    /// for `waited` milliseconds.
    pub fn fate(&self, window: Window, waited: u32, now: Millis) -> Fate {
        let mut fate = Fate::Written;
        for one in self.0.borrow().unwritten.values() {
            if one.window > window {
                break;
            }
            if one.is_overdue(waited, now) {
                return Fate::Overdue;
            }
            fate = Fate::OnItsWay;
        }
        fate
    }

    /// Whoever watched that window does so no longer: another request is to, where clicks still
    /// set out in it.
    pub fn stop_watching(&self, window: Window) {
        let mut shared = self.0.borrow_mut();
        if shared.window == window {
            shared.watchers = shared.watchers.saturating_sub(1);
        }
    }

    /// Whoever watches sends what is overdue of that window and of those before it.
    pub fn take_overdue(&self, window: Window, waited: u32, now: Millis) -> Numbered {
        let mut shared = self.0.borrow_mut();
        let mut taken = Vec::new();
        for (ticket, one) in &mut shared.unwritten {
            if one.window > window {
                break;
            }
            if one.is_overdue(waited, now) {
                one.stage = Stage::Sent(now);
                taken.push((*ticket, Rc::clone(&one.parcel)));
            }
        }
        let Shared {
            waiting, unwritten, ..
        } = &mut *shared;
        let waits = |one: &Unwritten| one.stage == Stage::Waiting;
        waiting.retain(|ticket| unwritten.get(ticket).is_some_and(waits));
        taken
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
    pub fn take(&self, most: usize) -> Numbered {
        let mut shared = self.0.borrow_mut();
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

    /// These clicks are written, or named as lost: nobody is to do anything for them any more.
    pub fn forget(&self, tickets: impl Iterator<Item = Ticket>) {
        let mut shared = self.0.borrow_mut();
        for ticket in tickets {
            shared.unwritten.remove(&ticket);
        }
    }

    /// Whoever carried these clicks could not write them.
    pub fn give_back(&self, tickets: impl Iterator<Item = Ticket>) {
        let mut shared = self.0.borrow_mut();
        for ticket in tickets {
            if let Some(one) = shared.unwritten.get_mut(&ticket) {
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

impl Unwritten {
    fn is_overdue(&self, waited: u32, now: Millis) -> bool {
        match self.stage {
            Stage::Failed => true,
            Stage::Waiting | Stage::Carried => waited >= PATIENCE_MS,
            Stage::Sent(since) => now.since(since).abs() >= i64::from(PATIENCE_MS),
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

    const LATER: Millis = Millis::new(1_000 + WINDOW_MS);

    fn tickets(numbered: &Numbered) -> impl Iterator<Item = Ticket> {
        numbered.iter().map(|(ticket, _)| *ticket)
    }

    #[test]
    fn a_click_is_known_until_it_is_written_whatever_the_clock_does() {
        let clicks = Travelling::default();
        let window = clicks.enter(&parcel(), NOW).expect("there is room").window;
        assert_eq!(clicks.take(10).len(), 1);
        assert_eq!(clicks.take(10).len(), 0, "it is on its way");
        assert_eq!(clicks.fate(window, PATIENCE_MS - 1, NOW), Fate::OnItsWay);
        assert_eq!(clicks.fate(window, PATIENCE_MS, NOW), Fate::Overdue);
        let mut at = NOW;
        for jump in [0, 3_600_000, -86_400_000, 3_600_000] {
            at = at.after(jump);
            assert_eq!(clicks.take_overdue(window, PATIENCE_MS, at).len(), 1);
            assert_eq!(clicks.fate(window, PATIENCE_MS, at), Fate::OnItsWay);
            let again = clicks.take_overdue(window, PATIENCE_MS, at);
            assert!(again.is_empty(), "somebody sends it");
        }
        let taken = clicks.take_overdue(window, 0, at.after(3_600_000));
        clicks.give_back(tickets(&taken));
        assert_eq!(clicks.fate(window, 0, at), Fate::Overdue, "at once");
        clicks.forget(tickets(&clicks.take_overdue(window, 0, at)));
        assert_eq!(clicks.fate(window, 0, at), Fate::Written);
    }

    #[test]
    fn clicks_that_somebody_sends_who_watches_are_carried_by_nobody() {
        let clicks = Travelling::default();
        let first = clicks.enter(&parcel(), NOW).expect("there is room").window;
        let second = clicks.enter(&parcel(), LATER).expect("there is room");
        assert!(second.window > first);
        assert_eq!(clicks.take_overdue(first, PATIENCE_MS, LATER).len(), 1);
        assert!(clicks.lacks_carrier(LATER, 2_000), "the second waits");
        assert_eq!(clicks.take(10).len(), 1);
        assert!(!clicks.lacks_carrier(LATER, 2_000));
    }

    #[test]
    fn some_requests_of_each_window_watch_it_and_what_is_left_of_those_before() {
        let clicks = Travelling::default();
        let enter = |at| clicks.enter(&parcel(), at).expect("there is room");
        let window = enter(NOW).window;
        let watching = (0..20).filter(|_| enter(NOW).watches).count();
        assert_eq!(watching, 9, "and the first");
        let next = enter(LATER);
        assert!(next.watches && next.window > window);
        let taken = clicks.take_overdue(next.window, PATIENCE_MS, LATER);
        assert_eq!(taken.len(), 22, "whoever watched the others is gone");
        clicks.forget(tickets(&taken));
        assert_eq!(clicks.fate(next.window, 0, LATER), Fate::Written);
        // One that has nothing left to watch goes; where clicks still set out, another comes.
        clicks.stop_watching(next.window);
        let more = (0..20).filter(|_| enter(LATER).watches).count();
        assert_eq!(more, 10);
    }
}
