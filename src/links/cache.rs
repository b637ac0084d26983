//! What an isolate remembers of links, so that a warm redirect asks no database.
//!
//! Source: `store::targets`. Staleness: `LINK_CACHE_SECONDS`. Only links that exist are kept: a
//! code that leads nowhere is asked for again each time, so that a new link works at once
//! everywhere.
//! The damage of a stale read: a redirect to the destination of up to so many seconds ago, which
//! is billed as what it was.
//!
//! Every half of that time an isolate that is in use looks once which links were changed since it
//! last looked, and forgets these: what it remembers of all others is then as good as read anew.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::store::{Changes, Target};
use super::verdicts::Verdicts;
use crate::limits::LINKS_REMEMBERED_MAX;
use crate::units::{LinkCode, Millis};

/// A link is read again after so long, whatever the looks said: a database that was put back gives
/// numbers of changes a second time.
const KEPT_MS_MAX: i64 = 600_000;

/// The links of one isolate, and what it has counted but not yet written.
#[derive(Default)]
pub struct Remembered {
    links: RefCell<Generations>,
    looks: Cell<Looks>,
    /// Verdicts on user agents.
    pub verdicts: Verdicts,
    /// Prefetches that were answered and are not yet in the sum of `/metrics`.
    pub prefetched: Cell<i64>,
}

/// Two maps: when the young one is full it becomes the old one, and what was old is dropped.
#[derive(Default)]
struct Generations {
    young: BTreeMap<LinkCode, Kept>,
    old: BTreeMap<LinkCode, Kept>,
}

#[derive(Clone)]
struct Kept {
    read_at: Millis,
    /// Whether the looks since tell of every change of it.
    is_followed: bool,
    target: Rc<Target>,
}

/// Looks at what was changed.
#[derive(Clone, Copy, Default)]
struct Looks {
    /// When the last one began, also where it failed.
    tried_at: Option<Millis>,
    /// When the last one that was answered began: every link that is kept and followed was so then.
    began_at: Option<Millis>,
    /// How often this isolate heard of changes: by a look, or by making one.
    heard: u64,
    /// The last change of which this isolate knows.
    number: Option<i64>,
}

/// Since when a read of a link is under way. What was read before this isolate heard of a change
/// may not know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    began_at: Millis,
    heard: u64,
}

/// A look that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    began_at: Millis,
    /// Changes after this one are asked for; where none is known only the last one's number.
    pub after: Option<i64>,
}

impl Remembered {
    /// A link that was read, or looked after, within `age_ms`.
    pub fn get(&self, code: &LinkCode, now: Millis, age_ms: i64) -> Option<Rc<Target>> {
        let links = self.links.borrow();
        let kept = links.young.get(code).or_else(|| links.old.get(code))?;
        // A clock that went back makes an age below zero, which proves nothing.
        let is_within = |since: Millis, age_ms: i64| (0..age_ms).contains(&now.since(since));
        let is_looked_after = || {
            let looked_at = self.looks.get().began_at;
            kept.is_followed
                && looked_at.is_some_and(|at| is_within(at, age_ms))
                && is_within(kept.read_at, KEPT_MS_MAX)
        };
        let is_fresh = is_within(kept.read_at, age_ms) || is_looked_after();
        is_fresh.then(|| Rc::clone(&kept.target))
    }

    /// Begins to read a link.
    pub fn reading(&self, now: Millis) -> Reading {
        Reading {
            began_at: now,
            heard: self.looks.get().heard,
        }
    }

    /// Keeps a link that was read.
    pub fn keep(&self, code: &LinkCode, target: Rc<Target>, reading: Reading) {
        let looks = self.looks.get();
        if reading.heard != looks.heard {
            return;
        }
        let mut links = self.links.borrow_mut();
        if links.young.len() >= LINKS_REMEMBERED_MAX && !links.young.contains_key(code) {
            links.old = std::mem::take(&mut links.young);
        }
        let kept = Kept {
            read_at: reading.began_at,
            is_followed: looks.number.is_some(),
            target,
        };
        links.young.insert(code.clone(), kept);
    }

    /// Forgets a link, because it was changed here; also what is still being read of it.
    pub fn forget(&self, code: &LinkCode) {
        self.links.borrow_mut().forget(code);
        let looks = self.looks.get();
        self.looks.set(Looks {
            heard: looks.heard + 1,
            ..looks
        });
    }

    /// Whether it is time to look: half of `age_ms` after the last one began.
    pub fn look_is_due(&self, now: Millis, age_ms: i64) -> bool {
        let tried_at = self.looks.get().tried_at;
        age_ms > 0 && tried_at.is_none_or(|at| now.since(at).abs() >= age_ms / 2)
    }

    /// Begins a look.
    pub fn look(&self, now: Millis) -> Look {
        let looks = self.looks.get();
        self.looks.set(Looks {
            tried_at: Some(now),
            ..looks
        });
        Look {
            began_at: now,
            after: looks.number,
        }
    }

    /// What a look was answered. Another one that was answered meanwhile makes it worthless.
    pub fn looked(&self, look: Look, changes: &Changes) {
        let looks = self.looks.get();
        if looks.number != look.after {
            return;
        }
        let mut links = self.links.borrow_mut();
        match &changes.codes {
            Some(codes) => codes.iter().for_each(|code| links.forget(code)),
            None if look.after.is_some() => *links = Generations::default(),
            None => {}
        }
        self.looks.set(Looks {
            began_at: Some(look.began_at),
            heard: looks.heard + 1,
            number: Some(changes.last),
            ..looks
        });
    }
}

impl Generations {
    fn forget(&mut self, code: &LinkCode) {
        self.young.remove(code);
        self.old.remove(code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::destination::{Destination, OwnHosts};
    use crate::links::rules::LinkState;
    use crate::units::AccountId;

    fn target() -> Rc<Target> {
        let to = Destination::parse("https://d.example/", &OwnHosts::default());
        Rc::new(Target {
            destination: to.expect("it is one"),
            state: LinkState {
                disabled: false,
                expires_at: None,
            },
            account_id: AccountId::new("a").expect("an id"),
        })
    }

    fn code(text: &str) -> LinkCode {
        LinkCode::new(text).expect("a code")
    }

    fn keep(memory: &Remembered, text: &str, at: Millis) {
        memory.keep(&code(text), target(), memory.reading(at));
    }

    fn looked(memory: &Remembered, at: i64, codes: Option<&[&str]>, last: i64) {
        let codes = codes.map(|codes| codes.iter().map(|text| code(text)).collect());
        memory.looked(memory.look(Millis::new(at)), &Changes { codes, last });
    }

    #[test]
    fn a_look_makes_all_but_what_it_names_as_good_as_read_anew() {
        let memory = Remembered::default();
        looked(&memory, 0, None, 7);
        keep(&memory, "x", Millis::new(10));
        keep(&memory, "y", Millis::new(10));
        looked(&memory, 900, Some(&["y"]), 8);
        let known = |text, at| memory.get(&code(text), Millis::new(at), 1000).is_some();
        assert!(
            known("x", 1_899) && !known("x", 1_900),
            "the bound itself is outside"
        );
        assert!(!known("y", 901), "it was changed");
        for at in (1_800..=KEPT_MS_MAX).step_by(900) {
            looked(&memory, at, Some(&[]), 8);
        }
        assert!(known("x", KEPT_MS_MAX + 9));
        assert!(!known("x", KEPT_MS_MAX + 10), "it is read again some day");
    }

    #[test]
    fn what_was_read_before_a_look_was_answered_is_not_kept_behind_it() {
        let memory = Remembered::default();
        looked(&memory, 0, None, 0);
        let before = memory.reading(Millis::new(10));
        looked(&memory, 20, Some(&["x"]), 1);
        memory.keep(&code("x"), target(), before);
        assert!(memory.get(&code("x"), Millis::new(21), 1000).is_none());
    }

    #[test]
    fn what_was_read_before_a_change_was_made_here_is_not_kept_behind_it() {
        let memory = Remembered::default();
        let before = memory.reading(Millis::new(10));
        memory.forget(&code("x"));
        memory.keep(&code("x"), target(), before);
        assert!(memory.get(&code("x"), Millis::new(11), 1000).is_none());
        keep(&memory, "x", Millis::new(12));
        assert!(memory.get(&code("x"), Millis::new(13), 1000).is_some());
    }

    #[test]
    fn what_no_look_tells_of_is_forgotten_in_time_and_at_once_where_a_look_cannot_say() {
        let memory = Remembered::default();
        let known = |at| memory.get(&code("x"), Millis::new(at), 1000).is_some();
        keep(&memory, "x", Millis::new(10));
        looked(&memory, 20, None, 3);
        looked(&memory, 900, Some(&[]), 3);
        assert!(
            known(1_009) && !known(1_010),
            "no look tells of its changes"
        );
        keep(&memory, "x", Millis::new(1_010));
        looked(&memory, 1_020, None, 3);
        assert!(!known(1_021));
        // Of two looks at once the one that is answered second says nothing any more.
        let [first, second] = [1_040, 1_041].map(|at| memory.look(Millis::new(at)));
        assert_eq!([first.after, second.after], [Some(3); 2]);
        let told = |last| Changes {
            codes: Some(Vec::new()),
            last,
        };
        memory.looked(second, &told(5));
        memory.looked(first, &told(4));
        assert_eq!(memory.look(Millis::new(1_050)).after, Some(5));
    }

    #[test]
    fn looks_come_every_half_of_the_bound_and_never_without_one() {
        let memory = Remembered::default();
        assert!(memory.look_is_due(Millis::new(0), 1000) && !memory.look_is_due(Millis::ZERO, 0));
        memory.look(Millis::new(0));
        assert!(
            !memory.look_is_due(Millis::new(499), 1000),
            "also where it failed"
        );
        assert!(memory.look_is_due(Millis::new(500), 1000));
    }

    #[test]
    fn a_link_is_remembered_for_the_bound_and_not_a_millisecond_longer() {
        let memory = Remembered::default();
        keep(&memory, "x", Millis::new(1000));
        let known = |at, age| memory.get(&code("x"), Millis::new(at), age).is_some();
        assert!(known(1000, 30_000) && known(30_999, 30_000));
        assert!(!known(31_000, 30_000), "the bound itself is outside");
        assert!(!known(999, 30_000), "a clock that went back");
        assert!(!known(1000, 0), "LINK_CACHE_SECONDS 0 remembers nothing");
        memory.forget(&code("x"));
        assert!(!known(1000, 30_000));
    }

    #[test]
    fn a_full_memory_drops_the_older_half() {
        let memory = Remembered::default();
        for number in 0..=LINKS_REMEMBERED_MAX * 2 {
            keep(&memory, &format!("c{number}"), Millis::ZERO);
        }
        let links = memory.links.borrow();
        assert!(links.young.len() + links.old.len() <= LINKS_REMEMBERED_MAX * 2);
        drop(links);
        assert!(memory.get(&code("c0"), Millis::ZERO, 1000).is_none());
        let newest = code(&format!("c{}", LINKS_REMEMBERED_MAX * 2));
        assert!(memory.get(&newest, Millis::ZERO, 1000).is_some());
    }
}
