//! The clicks of one isolate on their way: which wait for the next message, which are written, who
//! carries and who watches.
//!
//! Those that arrive while a message is under way travel together in the next. Whoever carries may
//! be gone, so requests watch by timers of their own; a timer for each click would cost more than
//! all else that is done for it, so two of each short while watch all clicks that set out in it,
//! and whatever is left of earlier ones. A click stays known here until it is written: one that
//! nobody seems to watch any more waits again.

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

/// The requests that watch the clicks of one window.
const WATCHERS: u32 = 2;
/// For so long clicks set out in the same window.
const WINDOW_MS: i64 = 50;

/// A click's number in its isolate.
pub type Ticket = u32;
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
    since: Millis,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Carried,
    Failed,
}

/// What is known of the clicks of a window and of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Of some nothing yet.
    OnItsWay,
    /// All are written.
    Written,
    /// Whoever carried one of them could not write it.
    Failed,
}

impl Travelling {
    /// A click waits for whoever carries. `None` where too many wait.
    pub fn enter(&self, parcel: &Rc<ClickWire>, now: Millis) -> Option<Place> {
        let mut shared = self.0.borrow_mut();
        if shared.waiting.len() >= WAITING_MAX || shared.unwritten.len() >= UNWRITTEN_MAX {
            return None;
        }
        if now.since(shared.window_since).abs() >= WINDOW_MS {
            shared.window = shared.window.wrapping_add(1);
            shared.window_since = now;
            shared.watchers = 0;
        }
        let watches = shared.watchers < WATCHERS;
        shared.watchers += u32::from(watches);
        shared.tickets = shared.tickets.wrapping_add(1);
        let (ticket, window) = (shared.tickets, shared.window);
        shared.waiting.push_back(ticket);
        let unwritten = Unwritten {
            parcel: Rc::clone(parcel),
            window,
            since: now,
            stage: Stage::Waiting,
        };
        shared.unwritten.insert(ticket, unwritten);
        Some(Place { window, watches })
    }

    /// What became of the clicks of a window and of those before it.
    pub fn fate(&self, window: Window) -> Fate {
        let shared = self.0.borrow();
        let mut fate = Fate::Written;
        for one in shared.up_to(window) {
            match one.stage {
                Stage::Failed => return Fate::Failed,
                Stage::Waiting | Stage::Carried => fate = Fate::OnItsWay,
            }
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

    /// Whoever watches sends what is left of that window and of those before it: nobody else is
    /// to begin to.
    pub fn take_back(&self, window: Window) -> Vec<Rc<ClickWire>> {
        let mut shared = self.0.borrow_mut();
        let count = shared.up_to(window).count();
        let taken: Vec<Unwritten> = std::iter::from_fn(|| shared.unwritten.pop_first())
            .take(count)
            .map(|(_, one)| one)
            .collect();
        let Shared {
            waiting, unwritten, ..
        } = &mut *shared;
        waiting.retain(|ticket| unwritten.contains_key(ticket));
        taken.into_iter().map(|one| one.parcel).collect()
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
    /// What is not known to be written of a window and of those before it.
    fn up_to(&self, window: Window) -> impl Iterator<Item = &Unwritten> {
        let all = self.unwritten.values();
        all.take_while(move |one| one.window <= window)
    }

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
        let place = clicks.enter(&parcel(), NOW).expect("there is room");
        let fate = || clicks.fate(place.window);
        let mut at = NOW;
        assert_eq!(clicks.take(10, at).len(), 1);
        assert_eq!(clicks.take(10, at).len(), 0, "it is on its way");
        let mut ticket = 0;
        for jump in [3_600_000, -86_400_000, 3_600_000] {
            at = at.after(jump);
            assert_ne!(fate(), Fate::Written);
            let again = clicks.take(10, at);
            assert_eq!(again.len(), 1, "nobody watches it by now");
            ticket = again[0].0;
            clicks.tell([ticket].into_iter(), false);
            assert_eq!(fate(), Fate::Failed);
        }
        at = at.after(3_600_000);
        assert_eq!(clicks.take(10, at).len(), 1);
        clicks.tell([ticket].into_iter(), true);
        assert_eq!(fate(), Fate::Written);
        assert!(clicks.take_back(place.window).is_empty());
    }

    #[test]
    fn clicks_that_are_taken_back_are_carried_by_nobody() {
        let clicks = Travelling::default();
        let first = clicks.enter(&parcel(), NOW).expect("there is room");
        let later = NOW.after(WINDOW_MS);
        let second = clicks.enter(&parcel(), later).expect("there is room");
        assert!(clicks.lacks_carrier(later, 2_000));
        assert_eq!(clicks.take_back(first.window).len(), 1);
        assert!(clicks.lacks_carrier(later, 2_000), "the second waits");
        assert_eq!(clicks.take_back(second.window).len(), 1);
        assert!(!clicks.lacks_carrier(later, 2_000));
        assert!(clicks.take(10, later).is_empty());
    }

    #[test]
    fn two_requests_of_each_window_watch_it_and_what_is_left_of_those_before() {
        let clicks = Travelling::default();
        let enter = |at| clicks.enter(&parcel(), at).expect("there is room");
        let places = [NOW, NOW, NOW, NOW.after(WINDOW_MS - 1)].map(enter);
        assert_eq!(
            places.map(|place| place.watches),
            [true, true, false, false]
        );
        let next = enter(NOW.after(WINDOW_MS));
        assert!(next.watches && next.window > places[0].window);
        let carried = clicks.take(3, NOW);
        clicks.tell(carried.iter().map(|(ticket, _)| *ticket), true);
        assert_eq!(clicks.fate(places[0].window), Fate::OnItsWay, "one waits");
        assert_eq!(clicks.take_back(next.window).len(), 2, "both windows'");
        // One that has nothing left to watch goes; where clicks still set out, another comes.
        clicks.stop_watching(places[0].window);
        clicks.stop_watching(next.window);
        let more = [NOW, NOW].map(|at| enter(at.after(WINDOW_MS)));
        assert_eq!(more.map(|place| place.watches), [true, true]);
        assert!(!enter(NOW.after(WINDOW_MS)).watches);
    }
}
