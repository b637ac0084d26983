//! What every request, cron tick and object call is given: settings, ports and the clock.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::fault::Fault;
use crate::isolate::Isolate;
use crate::ports::{Background, Clock, Db, Ids, Log, Objects, Signatures, Timer, Transport};
use crate::provider::Provider;
use crate::settings::Settings;
use crate::units::Millis;

/// The ports and settings. Cheap to clone: everything is shared.
#[derive(Clone)]
pub struct World {
    /// Read and checked.
    pub settings: Rc<Settings>,
    /// The control database, `DB`.
    pub db: Rc<dyn Db>,
    /// The ledger database, `LEDGER_0`.
    pub ledger: Rc<dyn Db>,
    /// Calls to objects.
    pub objects: Rc<dyn Objects>,
    /// Calls to systems outside that are not the provider (alerts, keys).
    pub transport: Rc<dyn Transport>,
    /// The billing provider.
    pub provider: Rc<dyn Provider>,
    /// RS256.
    pub signatures: Rc<dyn Signatures>,
    /// The machine's clock; ask [`World::now`].
    pub clock: Rc<dyn Clock>,
    /// Random bits; ask [`World::mint`].
    pub ids: Rc<dyn Ids>,
    /// Work after the answer.
    pub background: Rc<dyn Background>,
    /// Pauses between tries.
    pub timer: Rc<dyn Timer>,
    /// One line of JSON each.
    pub log: Rc<dyn Log>,
    /// What this isolate remembers; may be lost at any moment.
    pub isolate: Rc<Isolate>,
}

impl World {
    /// Now: the machine's clock and, with the stand-in, its offset.
    pub fn now(&self) -> Millis {
        self.clock.read().after(self.isolate.clock_offset_ms.get())
    }

    /// A new id: the prefix, ten characters of time, sixteen random ones; sorts by time.
    pub fn mint(&self, prefix: &str) -> Result<String, Fault> {
        Ok(mint(prefix, self.now(), self.ids.random()?))
    }

    /// A new request's id.
    pub fn request_id(&self) -> String {
        self.mint("req_").unwrap_or_else(|_| "req_0".to_owned())
    }
}

/// 32 characters without `i l o u`, in the order of their bytes.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// An id from a prefix, a moment and 128 random bits, of which 80 are used.
pub fn mint(prefix: &str, at: Millis, random: [u8; 16]) -> String {
    let digit = |bits: u128| {
        let index = usize::try_from(bits & 31).unwrap_or(0);
        char::from(ALPHABET.get(index).copied().unwrap_or(b'0'))
    };
    let time = u128::from(at.get().unsigned_abs());
    let chance = u128::from_be_bytes(random);
    let mut id = prefix.to_owned();
    id.extend((0..10).rev().map(|place| digit(time >> (place * 5))));
    id.extend((0..16).map(|place| digit(chance >> (place * 5))));
    id
}

/// A counter of calls that a run may make; shared by the counting ports of one run.
#[derive(Debug)]
pub struct Calls {
    limit: u32,
    taken: Cell<u32>,
}

impl Calls {
    /// So many calls.
    pub const fn new(limit: u32) -> Self {
        Self {
            limit,
            taken: Cell::new(0),
        }
    }

    /// How many are left.
    pub fn left(&self) -> u32 {
        self.limit.saturating_sub(self.taken.get())
    }

    /// How many were made.
    pub fn taken(&self) -> u32 {
        self.taken.get()
    }

    /// Takes `calls` of them.
    pub fn take(&self, calls: u32) {
        self.taken.set(self.taken.get().saturating_add(calls));
    }

    /// Whether what may cost so many calls may begin. Who has all calls before him may: what costs
    /// more than there ever are would never be done.
    pub fn suffice_for(&self, calls: u32) -> bool {
        self.taken.get() == 0 || self.left() >= calls
    }
}

/// The memory of features that an isolate keeps, behind one borrow each.
pub type Memory<T> = RefCell<T>;
