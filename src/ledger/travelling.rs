//! The clicks of one isolate on their way: which wait for the next message, which are written, who
//! carries and who watches.
//!
//! Those that arrive while a message is under way travel together in the next: in bundles, which
//! stay what they are on every try, so that a shard knows a repeat. Whoever carries may be gone, so
//! requests watch by timers of their own. A timer for each of thousands of clicks would cost more
//! than all else that is done for it, so some of each short while watch all clicks that set out in
//! it, and whatever is left of earlier ones; where fewer come, each watches. A click stays known
//! here until it is written or named as lost: whoever sends it may be gone as well.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::wire::ClickWire;
use crate::units::Millis;

/// Clicks that wait in one isolate at most; beyond, each sends itself.
const WAITING_MAX: usize = 5_000;
/// The same for those that are in a bundle and not known to be written.
const BUNDLED_MAX: usize = 15_000;
/// Clicks of one bundle at most; with a correction each they are half of what a feed's batch
/// holds.
const BUNDLE_MAX: usize = 250;
/// Without confirmation for so long, whoever watches a click sends it; and another one, where
/// nothing was heard of that either.
const PATIENCE_MS: u32 = 2_000;

/// The requests that watch the clicks of one window, at most.
const WATCHERS: u32 = 10;
/// For so long clicks set out in the same window.
const WINDOW_MS: i64 = 50;

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

/// Clicks that travel together to one shard, or wherever they are then sent: always these.
#[derive(Debug)]
pub struct Bundle {
    /// Its number in its isolate.
    number: u64,
    /// That of its first click.
    window: Window,
    /// To which shard first.
    pub shard: u32,
    /// At least one.
    pub clicks: Vec<ClickWire>,
}

impl Bundle {
    /// A click that found no room among the others; whoever has it sends it.
    pub fn alone(click: ClickWire, shard: u32) -> Self {
        Self {
            number: 0,
            window: 0,
            shard,
            clicks: vec![click],
        }
    }
}

/// What one isolate knows of clicks on their way.
#[derive(Default)]
pub struct Travelling(RefCell<Shared>);

#[derive(Default)]
struct Shared {
    /// With their windows, in the order in which they set out.
    waiting: VecDeque<(Window, Box<ClickWire>)>,
    /// Bundles that are not known to be written, by their numbers.
    bundles: BTreeMap<u64, Unwritten>,
    numbers: u64,
    /// Clicks in these bundles.
    bundled: usize,
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
    bundle: Rc<Bundle>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
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

impl Travelling {
    /// A click waits for whoever carries; it is given back where too many do.
    pub fn enter(&self, click: Box<ClickWire>, now: Millis) -> Result<Place, Box<ClickWire>> {
        let mut shared = self.0.borrow_mut();
        if shared.waiting.len() >= WAITING_MAX || shared.bundled >= BUNDLED_MAX {
            return Err(click);
        }
        if now.since(shared.window_since).abs() >= WINDOW_MS {
            shared.window = shared.window.saturating_add(1);
            shared.window_since = now;
            shared.watchers = 0;
        }
        let watches = shared.watchers < WATCHERS;
        shared.watchers += u32::from(watches);
        let window = shared.window;
        shared.waiting.push_back((window, click));
        Ok(Place { window, watches })
    }

    /// What became of the clicks of a window and of those before it, for somebody who has watched
    /// for `waited` milliseconds.
    pub fn fate(&self, window: Window, waited: u32, now: Millis) -> Fate {
        let shared = self.0.borrow();
        let mut fate = Fate::Written;
        for one in shared.bundles.values() {
            if one.is_overdue(window, waited, now) {
                return Fate::Overdue;
            }
            if one.bundle.window <= window {
                fate = Fate::OnItsWay;
            }
        }
        match shared.waiting.front() {
            Some((first, _)) if *first <= window && waited >= PATIENCE_MS => Fate::Overdue,
            Some((first, _)) if *first <= window => Fate::OnItsWay,
            _ => fate,
        }
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
    pub fn take_overdue(
        &self,
        window: Window,
        waited: u32,
        now: Millis,
        shard_of: impl Fn(&ClickWire) -> u32,
    ) -> Vec<Rc<Bundle>> {
        let mut shared = self.0.borrow_mut();
        let mut taken = Vec::new();
        for one in shared.bundles.values_mut() {
            if one.is_overdue(window, waited, now) {
                one.stage = Stage::Sent(now);
                taken.push(Rc::clone(&one.bundle));
            }
        }
        if waited >= PATIENCE_MS {
            let count = shared
                .waiting
                .partition_point(|(set_out, _)| *set_out <= window);
            taken.extend(shared.bundle(count, Stage::Sent(now), shard_of));
        }
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

    /// The next clicks, at most so many, in their bundles.
    pub fn take(&self, most: usize, shard_of: impl Fn(&ClickWire) -> u32) -> Vec<Rc<Bundle>> {
        let mut shared = self.0.borrow_mut();
        let count = shared.waiting.len().min(most);
        shared.bundle(count, Stage::Carried, shard_of)
    }

    /// These clicks are written, or named as lost: nobody is to do anything for them any more.
    pub fn forget(&self, bundles: &[Rc<Bundle>]) {
        let mut shared = self.0.borrow_mut();
        for bundle in bundles {
            if shared.bundles.remove(&bundle.number).is_some() {
                shared.bundled -= bundle.clicks.len();
            }
        }
    }

    /// Whoever carried these clicks could not write them.
    pub fn give_back(&self, bundles: &[Rc<Bundle>]) {
        let mut shared = self.0.borrow_mut();
        for bundle in bundles {
            if let Some(one) = shared.bundles.get_mut(&bundle.number) {
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
    /// Puts the first clicks that wait into bundles, once and for all.
    fn bundle(
        &mut self,
        count: usize,
        stage: Stage,
        shard_of: impl Fn(&ClickWire) -> u32,
    ) -> Vec<Rc<Bundle>> {
        let mut open: BTreeMap<u32, Bundle> = BTreeMap::new();
        let mut bundles = Vec::new();
        for (window, click) in self.waiting.drain(..count) {
            let shard = shard_of(&click);
            let bundle = open.entry(shard).or_insert_with(|| Bundle {
                number: 0,
                window,
                shard,
                clicks: Vec::new(),
            });
            bundle.clicks.push(*click);
            if bundle.clicks.len() == BUNDLE_MAX {
                bundles.extend(open.remove(&shard));
            }
        }
        bundles.extend(open.into_values());
        let number = |mut bundle: Bundle| {
            self.numbers += 1;
            self.bundled += bundle.clicks.len();
            bundle.number = self.numbers;
            let bundle = Rc::new(bundle);
            let unwritten = Unwritten {
                bundle: Rc::clone(&bundle),
                stage,
            };
            self.bundles.insert(bundle.number, unwritten);
            bundle
        };
        bundles.into_iter().map(number).collect()
    }
}

impl Unwritten {
    fn is_overdue(&self, window: Window, waited: u32, now: Millis) -> bool {
        self.bundle.window <= window
            && match self.stage {
                Stage::Failed => true,
                Stage::Carried => waited >= PATIENCE_MS,
                Stage::Sent(since) => now.since(since).abs() >= i64::from(PATIENCE_MS),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis::new(1_000);
    const LATER: Millis = Millis::new(1_000 + WINDOW_MS);

    fn click(id: usize) -> Box<ClickWire> {
        let text = format!(
            r#"{{"entry": {{"id": "clk_{id}", "account": "a", "feature": "clicks",
            "cycle": "2026-11", "units": 1, "kind": "click", "at": 1000}}}}"#
        );
        Box::new(serde_json::from_str(&text).expect("it reads"))
    }

    fn enter(clicks: &Travelling, at: Millis) -> Place {
        clicks.enter(click(1), at).expect("there is room")
    }

    const fn one_shard(_: &ClickWire) -> u32 {
        0
    }

    #[test]
    fn a_click_is_known_until_it_is_written_whatever_the_clock_does() {
        let clicks = Travelling::default();
        let window = enter(&clicks, NOW).window;
        let overdue = |waited, at| clicks.take_overdue(window, waited, at, one_shard);
        assert_eq!(clicks.take(10, one_shard).len(), 1);
        assert_eq!(clicks.take(10, one_shard).len(), 0, "it is on its way");
        assert_eq!(clicks.fate(window, PATIENCE_MS - 1, NOW), Fate::OnItsWay);
        assert_eq!(clicks.fate(window, PATIENCE_MS, NOW), Fate::Overdue);
        let mut at = NOW;
        for jump in [0, 3_600_000, -86_400_000, 3_600_000] {
            at = at.after(jump);
            assert_eq!(overdue(PATIENCE_MS, at).len(), 1);
            assert_eq!(clicks.fate(window, PATIENCE_MS, at), Fate::OnItsWay);
            assert!(overdue(PATIENCE_MS, at).is_empty(), "somebody sends it");
        }
        clicks.give_back(&overdue(0, at.after(3_600_000)));
        assert_eq!(clicks.fate(window, 0, at), Fate::Overdue, "at once");
        clicks.forget(&overdue(0, at));
        assert_eq!(clicks.fate(window, 0, at), Fate::Written);
    }

    #[test]
    fn clicks_that_somebody_sends_who_watches_are_carried_by_nobody() {
        let clicks = Travelling::default();
        let first = enter(&clicks, NOW).window;
        let second = enter(&clicks, LATER);
        assert!(second.window > first);
        assert_eq!(clicks.fate(first, PATIENCE_MS - 1, LATER), Fate::OnItsWay);
        assert_eq!(clicks.fate(first, PATIENCE_MS, LATER), Fate::Overdue);
        let overdue = clicks.take_overdue(first, PATIENCE_MS, LATER, one_shard);
        assert_eq!(overdue.len(), 1);
        assert!(clicks.lacks_carrier(LATER, 2_000), "the second waits");
        assert_eq!(clicks.take(10, one_shard).len(), 1);
        assert!(!clicks.lacks_carrier(LATER, 2_000));
    }

    #[test]
    fn some_requests_of_each_window_watch_it_and_what_is_left_of_those_before() {
        let clicks = Travelling::default();
        let window = enter(&clicks, NOW).window;
        let watching = (0..20).filter(|_| enter(&clicks, NOW).watches).count();
        assert_eq!(watching, 9, "and the first");
        let next = enter(&clicks, LATER);
        assert!(next.watches && next.window > window);
        let taken = clicks.take_overdue(next.window, PATIENCE_MS, LATER, one_shard);
        let count: usize = taken.iter().map(|bundle| bundle.clicks.len()).sum();
        assert_eq!(count, 22, "whoever watched the others is gone");
        clicks.forget(&taken);
        assert_eq!(clicks.fate(next.window, 0, LATER), Fate::Written);
        // One that has nothing left to watch goes; where clicks still set out, another comes.
        clicks.stop_watching(next.window);
        let more = (0..20).filter(|_| enter(&clicks, LATER).watches).count();
        assert_eq!(more, 10);
    }

    #[test]
    fn a_bundle_is_for_one_shard_and_stays_what_it_is_on_every_try() {
        let clicks = Travelling::default();
        for id in 0..2 * BUNDLE_MAX + 20 {
            clicks.enter(click(id), NOW).expect("there is room");
        }
        let of_first = |click: &ClickWire| u32::from(click.entry.id == "clk_7");
        let ids = |bundles: &[Rc<Bundle>]| -> Vec<(u32, Vec<String>)> {
            let ids =
                |bundle: &Rc<Bundle>| bundle.clicks.iter().map(|c| c.entry.id.clone()).collect();
            bundles
                .iter()
                .map(|bundle| (bundle.shard, ids(bundle)))
                .collect()
        };
        let taken = ids(&clicks.take(usize::MAX, of_first));
        let sizes: Vec<_> = taken
            .iter()
            .map(|(shard, ids)| (*shard, ids.len()))
            .collect();
        assert_eq!(sizes, [(0, BUNDLE_MAX), (0, BUNDLE_MAX), (0, 19), (1, 1)]);
        // Others have set out since, and the shards have changed: it is sent as it was.
        let later = enter(&clicks, LATER).window;
        let again = clicks.take_overdue(later - 1, PATIENCE_MS, LATER, |_| 9);
        assert_eq!(ids(&again), taken);
        clicks.forget(&again);
        assert_eq!(clicks.fate(later - 1, PATIENCE_MS, LATER), Fate::Written);
    }

    #[test]
    fn a_click_that_finds_no_room_is_given_back_and_there_is_room_again() {
        let clicks = Travelling::default();
        while clicks.enter(click(1), NOW).is_ok() {}
        let all = clicks.take(usize::MAX, one_shard);
        assert_eq!(enter(&clicks, NOW).window, 1);
        for _ in 0..WAITING_MAX * 2 {
            if clicks.enter(click(1), NOW).is_err() {
                clicks.take(usize::MAX, one_shard);
            }
        }
        clicks.take(usize::MAX, one_shard);
        assert!(
            clicks.enter(click(1), NOW).is_err(),
            "too many are not known to be written"
        );
        clicks.forget(&all);
        assert!(clicks.enter(click(1), NOW).is_ok());
    }
}
