//! What happens to whatever passes a port: it arrives, is lost before or after it took effect, is
//! repeated, or lands late. Between any two awaits of one task every other may run.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::Poll;

use super::chance::Chance;
use super::stats::Stats;
use crate::ports::{Later, ObjectName};
use crate::provider::{Agreements, Limits};

/// Work that nobody waits for any more: a batch that lands late, a message that was delayed.
pub type Straggler = Later<'static, ()>;

/// Told of each total that is about to be sent: agreement, feature, total.
type Watcher = Box<dyn Fn(&str, &str, i64)>;

/// The source of all misfortune of one run.
pub struct Chaos {
    /// The run's random numbers.
    pub chance: RefCell<Chance>,
    /// What really happened.
    pub stats: Rc<Stats>,
    /// While calm, everything arrives.
    pub calm: Cell<bool>,
    /// For so many messages more, shards take effect and their answers are lost.
    pub storm: Cell<u32>,
    /// How far an object's clock differs from the machine's.
    pub skews: RefCell<BTreeMap<ObjectName, i64>>,
    /// How often each object woke: only its last instance reaches its storage.
    pub lives: RefCell<BTreeMap<ObjectName, u64>>,
    /// What the provider said before, for reads that lag.
    pub agreements: RefCell<BTreeMap<String, Agreements>>,
    /// The same for limits.
    pub limits: RefCell<BTreeMap<String, Limits>>,
    watcher: RefCell<Option<Watcher>>,
    stragglers: RefCell<VecDeque<Straggler>>,
}

/// What becomes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives, and so does its answer.
    Normal,
    /// It never arrives.
    LostBefore,
    /// It arrives, its answer does not.
    LostAfter,
    /// It arrives twice.
    Repeated,
    /// It arrives when nobody waits for it any more.
    Late,
}

impl Fate {
    /// As counters name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::LostBefore => "lost_before",
            Self::LostAfter => "lost_after",
            Self::Repeated => "repeated",
            Self::Late => "late",
        }
    }
}

impl Chaos {
    /// Of a seed; calm at first.
    pub fn of_seed(seed: u64) -> Rc<Self> {
        Rc::new(Self {
            chance: RefCell::new(Chance::of_seed(seed)),
            stats: Rc::new(Stats::default()),
            calm: Cell::new(true),
            storm: Cell::new(0),
            skews: RefCell::default(),
            lives: RefCell::default(),
            agreements: RefCell::default(),
            limits: RefCell::default(),
            watcher: RefCell::default(),
            stragglers: RefCell::default(),
        })
    }

    /// True in so many of a thousand cases, never while calm.
    pub fn strikes(&self, in_thousand: usize) -> bool {
        !self.calm.get() && self.chance.borrow_mut().in_thousand(in_thousand)
    }

    /// Whether a storm takes this answer.
    pub fn storms(&self) -> bool {
        let left = self.storm.get();
        self.storm.set(left.saturating_sub(1));
        left > 0 && !self.calm.get()
    }

    /// The oldest straggler.
    pub fn take_straggler(&self) -> Option<Straggler> {
        self.stragglers.borrow_mut().pop_front()
    }

    /// One more straggler.
    pub fn delay(&self, straggler: Straggler) {
        self.stragglers.borrow_mut().push_back(straggler);
    }

    /// How many stragglers are on their way.
    pub fn stragglers(&self) -> usize {
        self.stragglers.borrow().len()
    }

    /// From now on `watcher` is told of each total that is about to be sent.
    pub fn watch(&self, watcher: Watcher) {
        self.watcher.replace(Some(watcher));
    }

    /// Nobody is told any more.
    pub fn forget_watcher(&self) {
        self.watcher.replace(None);
    }

    /// Tells of a total that is about to be sent.
    pub fn tell(&self, agreement: &str, feature: &str, total: i64) {
        if let Some(watcher) = &*self.watcher.borrow() {
            watcher(agreement, feature, total);
        }
    }

    /// The first of these fates that strikes.
    pub fn fate(&self, what: &str, fates: &[(usize, Fate)]) -> Fate {
        for (in_thousand, fate) in fates {
            if self.strikes(*in_thousand) {
                self.stats.count(&format!("{what}_{}", fate.name()));
                return *fate;
            }
        }
        Fate::Normal
    }
}

/// Ready at the second poll, so that another task may run in between.
pub fn turn() -> impl Future<Output = ()> {
    let mut passed = false;
    std::future::poll_fn(move |_| {
        if passed {
            return Poll::Ready(());
        }
        passed = true;
        Poll::Pending
    })
}
