//! What an isolate remembers of links, so that a warm redirect asks no database.
//!
//! Source: `store::target`. Staleness: `LINK_CACHE_SECONDS`. Only links that exist are kept: a code
//! that leads nowhere is asked for again each time, so that a new link works at once everywhere.
//! The damage of a stale read: a redirect to the destination of up to so many seconds ago, which
//! is billed as what it was.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::store::Target;
use crate::limits::LINKS_REMEMBERED_MAX;
use crate::units::{LinkCode, Millis};

/// The links of one isolate, and what it has counted but not yet written.
#[derive(Default)]
pub struct Remembered {
    links: RefCell<Generations>,
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
    target: Rc<Target>,
}

impl Remembered {
    /// A link that was read within `age_ms`.
    pub fn get(&self, code: &LinkCode, now: Millis, age_ms: i64) -> Option<Rc<Target>> {
        let links = self.links.borrow();
        let kept = links.young.get(code).or_else(|| links.old.get(code))?;
        // A clock that went back makes an age below zero, which proves nothing.
        let fresh = 0..age_ms;
        let age = now.since(kept.read_at);
        fresh.contains(&age).then(|| Rc::clone(&kept.target))
    }

    /// Keeps a link; `read_at` is when the reading began.
    pub fn keep(&self, code: &LinkCode, target: Rc<Target>, read_at: Millis) {
        let mut links = self.links.borrow_mut();
        if links.young.len() >= LINKS_REMEMBERED_MAX && !links.young.contains_key(code) {
            links.old = std::mem::take(&mut links.young);
        }
        links.young.insert(code.clone(), Kept { read_at, target });
    }

    /// Forgets a link, because it was changed here.
    pub fn forget(&self, code: &LinkCode) {
        let mut links = self.links.borrow_mut();
        links.young.remove(code);
        links.old.remove(code);
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

    #[test]
    fn a_link_is_remembered_for_the_bound_and_not_a_millisecond_longer() {
        let memory = Remembered::default();
        memory.keep(&code("x"), target(), Millis::new(1000));
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
            memory.keep(&code(&format!("c{number}")), target(), Millis::ZERO);
        }
        let links = memory.links.borrow();
        assert!(links.young.len() + links.old.len() <= LINKS_REMEMBERED_MAX * 2);
        drop(links);
        assert!(memory.get(&code("c0"), Millis::ZERO, 1000).is_none());
        let newest = code(&format!("c{}", LINKS_REMEMBERED_MAX * 2));
        assert!(memory.get(&newest, Millis::ZERO, 1000).is_some());
    }
}
