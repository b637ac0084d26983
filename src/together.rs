//! Requests of one isolate that want the same kind of call while one is under way travel together
//! in the next: admissions of one account, deliveries of webhooks, reads of links.
//!
//! I/O that one request began completes for that request alone, so nobody awaits another's call:
//! each looks at the shared result in pauses of its own, the first of them until about when it
//! should be there. Whoever carried goes on behind its answer while others wait. Whoever is not
//! told in time, because the request that carried it is gone, asks alone; what is asked must be
//! safe to repeat. A combined call that faults is repeated one by one.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use crate::fault::Fault;
use crate::ports::Later;
use crate::units::Millis;
use crate::world::World;

/// Those that wait at most; beyond, each asks alone.
const WAITING_MAX: usize = 1_000;

/// The second pause between two looks; doubled up to the longest.
const LOOK_MS: u32 = 1;
const LOOK_MS_MAX: u32 = 8;
/// The first pause at most.
const FIRST_LOOK_MS_MAX: i64 = 100;
/// Calls that one request makes for others behind its answer.
const CALLS_BEHIND_MAX: u32 = 10;
/// Without an answer for so long, a request asks alone.
const PATIENCE_MS: u32 = 2_000;

/// A kind of call, and whom it is about.
pub trait Journey: Clone + 'static {
    /// Those of one key travel together.
    type Key: Ord + Clone;
    /// What one request asks.
    type Ask: Clone;
    /// What it is told.
    type Told;
    /// So many travel together at most.
    const TOGETHER_MAX: usize;

    /// The isolate's memory of this kind of call.
    fn travelling(world: &World) -> &Travelling<Self>;

    /// Which line it is.
    fn key(&self) -> &Self::Key;

    /// One call for all of `asks`; as many answers, in their order.
    fn call<'a>(
        &'a self,
        world: &'a World,
        asks: Vec<Self::Ask>,
    ) -> Later<'a, Result<Vec<Self::Told>, Fault>>;
}

/// The requests of one isolate that are on their way.
pub struct Travelling<J: Journey>(RefCell<BTreeMap<J::Key, Line<J>>>);

/// Those of one key. It is forgotten with its last request, but never under a call: a ticket that
/// was given again would be told what another one asked for.
struct Line<J: Journey> {
    tickets: u64,
    present: BTreeSet<u64>,
    waiting: VecDeque<(u64, J::Ask)>,
    told: BTreeMap<u64, Fate<J::Told>>,
    under_way: bool,
    /// When the call that is under way began, and how long the last one took.
    began: Option<Millis>,
    took_ms: i64,
}

impl<J: Journey> Default for Travelling<J> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<J: Journey> Default for Line<J> {
    fn default() -> Self {
        Self {
            tickets: 0,
            present: BTreeSet::new(),
            waiting: VecDeque::new(),
            told: BTreeMap::new(),
            under_way: false,
            began: None,
            took_ms: 0,
        }
    }
}

impl<J: Journey> Line<J> {
    fn is_over(&self) -> bool {
        self.present.is_empty() && !self.under_way
    }
}

/// What became of a request that another one carried.
enum Fate<T> {
    Told(T),
    Failed(Fault),
    /// The combined call faulted: ask alone.
    Alone,
}

/// One request's place in its line; given up when it is dropped.
struct Place<'a, J: Journey> {
    travelling: &'a Travelling<J>,
    key: &'a J::Key,
    ticket: u64,
}

impl<J: Journey> Drop for Place<'_, J> {
    fn drop(&mut self) {
        let mut lines = self.travelling.0.borrow_mut();
        let Some(line) = lines.get_mut(self.key) else {
            return;
        };
        line.present.remove(&self.ticket);
        line.told.remove(&self.ticket);
        line.waiting.retain(|(ticket, _)| *ticket != self.ticket);
        if line.is_over() {
            lines.remove(self.key);
        }
    }
}

/// Says that no call is under way any more, also where its request was given up.
struct Lead<'a, J: Journey> {
    travelling: &'a Travelling<J>,
    key: &'a J::Key,
}

impl<J: Journey> Drop for Lead<'_, J> {
    fn drop(&mut self) {
        let mut lines = self.travelling.0.borrow_mut();
        let Some(line) = lines.get_mut(self.key) else {
            return;
        };
        line.under_way = false;
        if line.is_over() {
            lines.remove(self.key);
        }
    }
}

impl<J: Journey> Travelling<J> {
    fn enter<'a>(&'a self, key: &'a J::Key, ask: &J::Ask) -> Option<Place<'a, J>> {
        let mut lines = self.0.borrow_mut();
        let line = lines.entry(key.clone()).or_default();
        if line.waiting.len() >= WAITING_MAX {
            return None;
        }
        line.tickets += 1;
        line.present.insert(line.tickets);
        line.waiting.push_back((line.tickets, ask.clone()));
        Some(Place {
            travelling: self,
            key,
            ticket: line.tickets,
        })
    }

    fn fate(&self, place: &Place<'_, J>) -> Option<Fate<J::Told>> {
        let mut lines = self.0.borrow_mut();
        lines.get_mut(place.key)?.told.remove(&place.ticket)
    }

    /// Becomes the one who calls, where somebody waits and nobody does.
    fn lead<'a>(&'a self, key: &'a J::Key) -> Option<Lead<'a, J>> {
        let mut lines = self.0.borrow_mut();
        let line = lines.get_mut(key)?;
        if line.under_way || line.waiting.is_empty() {
            return None;
        }
        line.under_way = true;
        Some(Lead {
            travelling: self,
            key,
        })
    }

    /// Those that wait, for the next call.
    fn take(&self, key: &J::Key, now: Millis) -> Vec<(u64, J::Ask)> {
        let mut lines = self.0.borrow_mut();
        let Some(line) = lines.get_mut(key) else {
            return Vec::new();
        };
        let count = line.waiting.len().min(J::TOGETHER_MAX);
        line.began = Some(now);
        line.waiting.drain(..count).collect()
    }

    /// Whether anybody is on the way.
    pub fn is_busy(&self, key: &J::Key) -> bool {
        self.0.borrow().contains_key(key)
    }

    fn has_waiting(&self, key: &J::Key) -> bool {
        let lines = self.0.borrow();
        lines.get(key).is_some_and(|line| !line.waiting.is_empty())
    }

    /// How long the next answer for somebody who has just entered will take: the rest of the call
    /// that is under way, and the next one.
    fn first_look_ms(&self, key: &J::Key, now: Millis) -> u32 {
        let lines = self.0.borrow();
        let expected = lines.get(key).map_or(0, |line| {
            let since = line.began.map_or(0, |began| now.since(began).abs());
            2 * line.took_ms - since
        });
        u32::try_from(expected.clamp(i64::from(LOOK_MS), FIRST_LOOK_MS_MAX)).unwrap_or(LOOK_MS)
    }

    fn tell(&self, key: &J::Key, tickets: &[u64], fates: Vec<Fate<J::Told>>, now: Millis) {
        if let Some(line) = self.0.borrow_mut().get_mut(key) {
            let told = tickets.iter().copied().zip(fates);
            let is_present = |ticket| line.present.contains(&ticket);
            line.told
                .extend(told.filter(|(ticket, _)| is_present(*ticket)));
            line.took_ms = line.began.map_or(0, |began| now.since(began).abs());
        }
    }
}

/// Asks, together with others of the same line that ask meanwhile.
pub async fn ask<J: Journey>(
    world: &Rc<World>,
    journey: &J,
    ask: J::Ask,
) -> Result<J::Told, Fault> {
    let (travelling, key) = (J::travelling(world), journey.key());
    let Some(place) = travelling.enter(key, &ask) else {
        return alone(world, journey, ask).await;
    };
    let mut pause = travelling.first_look_ms(key, world.now());
    let (mut waited, mut look) = (0, LOOK_MS);
    loop {
        match travelling.fate(&place) {
            Some(Fate::Told(answer)) => return Ok(answer),
            Some(Fate::Failed(fault)) => return Err(fault),
            Some(Fate::Alone) => break,
            None => {}
        }
        if waited >= PATIENCE_MS {
            break;
        }
        if carry(world, journey).await {
            if travelling.has_waiting(key) {
                let behind = carry_behind(Rc::clone(world), journey.clone());
                world.background.spawn(Box::pin(behind));
            }
        } else {
            world.timer.pause(pause).await;
            waited += pause;
            pause = look;
            look = (look * 2).min(LOOK_MS_MAX);
        }
    }
    drop(place);
    alone(world, journey, ask).await
}

/// Calls for those that entered meanwhile.
async fn carry_behind<J: Journey>(world: Rc<World>, journey: J) {
    for _ in 0..CALLS_BEHIND_MAX {
        if !carry(&world, &journey).await {
            return;
        }
    }
}

/// One call for those that wait; none where nobody does, or where another is under way.
async fn carry<J: Journey>(world: &World, journey: &J) -> bool {
    let (travelling, key) = (J::travelling(world), journey.key());
    let Some(_lead) = travelling.lead(key) else {
        return false;
    };
    let together = travelling.take(key, world.now());
    let (tickets, asks): (Vec<u64>, Vec<J::Ask>) = together.into_iter().unzip();
    let count = asks.len();
    let fates = match journey.call(world, asks).await {
        Ok(answers) if answers.len() == count => answers.into_iter().map(Fate::Told).collect(),
        Err(fault) if count == 1 => vec![Fate::Failed(fault)],
        Ok(_) | Err(_) => tickets.iter().map(|_| Fate::Alone).collect(),
    };
    travelling.tell(key, &tickets, fates, world.now());
    true
}

async fn alone<J: Journey>(world: &World, journey: &J, ask: J::Ask) -> Result<J::Told, Fault> {
    let answers = journey.call(world, vec![ask]).await?;
    let first = answers.into_iter().next();
    first.ok_or_else(|| Fault::unreadable("read an answer for one of many", "no answer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct Letters;

    impl Journey for Letters {
        type Key = u8;
        type Ask = &'static str;
        type Told = &'static str;
        const TOGETHER_MAX: usize = 10;

        fn travelling(_: &World) -> &Travelling<Self> {
            Box::leak(Box::default())
        }

        fn key(&self) -> &u8 {
            &0
        }

        fn call<'a>(
            &'a self,
            _: &'a World,
            asks: Vec<&'static str>,
        ) -> Later<'a, Result<Vec<&'static str>, Fault>> {
            Box::pin(async move { Ok(asks) })
        }
    }

    /// Goal: nobody is told what somebody else asked for.
    /// Method: the only request of a line is given up while its call is under way, and another one
    /// comes before the answer.
    #[test]
    fn the_answer_of_a_request_that_was_given_up_is_nobody_elses() {
        let travelling = Travelling::<Letters>::default();
        let place = travelling.enter(&0, &"first").expect("there is room");
        let lead = travelling.lead(&0).expect("nobody else calls");
        let (tickets, _): (Vec<_>, Vec<_>) = travelling.take(&0, Millis::ZERO).into_iter().unzip();
        drop(place);
        let other = travelling.enter(&0, &"second").expect("there is room");
        assert!(travelling.lead(&0).is_none(), "one call at a time");
        travelling.tell(&0, &tickets, vec![Fate::Told("first")], Millis::ZERO);
        drop(lead);
        assert!(travelling.fate(&other).is_none());
        assert!(travelling.lead(&0).is_some(), "the second still waits");
        drop(other);
        assert!(travelling.0.borrow().is_empty(), "nothing is kept of them");
    }
}
