//! The clicks of one isolate on their way: which wait for the next message, which are written, and
//! who carries.
//!
//! Those that arrive while a message is under way travel together in the next. Each request
//! watches its own click, because the request that carries the others may be gone: a click stays
//! known here until it is written, or until nobody can watch it any more.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::wire::ClickWire;
use crate::units::Millis;

/// Clicks that wait in one isolate at most; beyond, each sends itself.
const WAITING_MAX: usize = 5_000;
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
    watched: BTreeMap<Ticket, Watched>,
    /// Who carries, and since when: it may be gone without a word.
    carrier: Option<(u64, Millis)>,
    carriers: u64,
    /// Where this isolate's clicks go for now, and since when.
    shard: Option<(u32, Millis)>,
    /// Sums that could not be written yet.
    uncounted: BTreeMap<String, i64>,
}

struct Watched {
    parcel: Rc<ClickWire>,
    since: Millis,
    has_failed: bool,
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
        if shared.waiting.len() >= WAITING_MAX {
            return None;
        }
        shared.tickets = shared.tickets.wrapping_add(1);
        let ticket = shared.tickets;
        shared.waiting.push_back(ticket);
        let watched = Watched {
            parcel: Rc::clone(parcel),
            since: now,
            has_failed: false,
        };
        shared.watched.insert(ticket, watched);
        Some(ticket)
    }

    /// What became of a click.
    pub fn fate(&self, ticket: Ticket) -> Fate {
        match self.0.borrow().watched.get(&ticket) {
            None => Fate::Written,
            Some(watched) if watched.has_failed => Fate::Failed,
            Some(_) => Fate::OnItsWay,
        }
    }

    /// Nobody watches this click any more. One that waits goes on waiting.
    pub fn leave(&self, ticket: Ticket) {
        let mut shared = self.0.borrow_mut();
        if shared.watched.contains_key(&ticket) && !shared.waiting.contains(&ticket) {
            shared.watched.remove(&ticket);
        }
    }

    /// Whoever watches this click sends it itself: nobody else is to begin to.
    pub fn take_back(&self, ticket: Ticket) -> Option<Rc<ClickWire>> {
        let mut shared = self.0.borrow_mut();
        shared.waiting.retain(|waiting| *waiting != ticket);
        shared.watched.remove(&ticket).map(|one| one.parcel)
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
        let is_old = |one: &Watched| now.since(one.since) > WATCHED_MS_MAX;
        while shared
            .watched
            .first_entry()
            .is_some_and(|first| is_old(first.get()))
        {
            shared.watched.pop_first();
        }
        let count = shared.waiting.len().min(most);
        let tickets: Vec<Ticket> = shared.waiting.drain(..count).collect();
        let parcel = |ticket: Ticket| {
            let watched = shared.watched.get(&ticket)?;
            Some((ticket, Rc::clone(&watched.parcel)))
        };
        tickets.into_iter().filter_map(parcel).collect()
    }

    /// These clicks are written, or whoever carried them could not write them.
    pub fn tell(&self, tickets: impl Iterator<Item = Ticket>, are_written: bool) {
        let mut shared = self.0.borrow_mut();
        for ticket in tickets {
            if are_written {
                shared.watched.remove(&ticket);
            } else if let Some(watched) = shared.watched.get_mut(&ticket) {
                watched.has_failed = true;
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
