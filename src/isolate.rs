//! What one isolate remembers between requests. All of it may be lost at any moment and all of it
//! is bounded; nothing here is the only place where a fact stands.

use std::cell::Cell;

use crate::accounts::memory::Remembered;
use crate::gate;
use crate::inbox;
use crate::ledger::{cycles, travelling};
use crate::links;
use crate::together::Travelling;
use crate::units::Millis;

/// The memory of one isolate.
#[derive(Default)]
pub struct Isolate {
    /// The stand-in's clock offset as last heard, in milliseconds; zero without the stand-in.
    pub clock_offset_ms: Cell<i64>,
    /// When that was heard, by the machine's clock.
    pub clock_heard_at: Cell<Option<Millis>>,
    /// API keys, accounts, and the session key that was made here.
    pub accounts: Remembered,
    /// The provider's signing keys.
    pub signing_keys: inbox::keys::Remembered,
    /// Lanes that wait to be woken.
    pub waking: inbox::waking::Waiting,
    /// New jobs that travel to their account's object together.
    pub admissions: Travelling<gate::together::Admissions>,
    /// Deliveries that are stored together.
    pub deliveries: Travelling<inbox::receive::Deliveries>,
    /// Links, for redirects that ask no database.
    pub links: links::cache::Remembered,
    /// Links that are read together.
    pub lookups: Travelling<links::lookup::Lookups>,
    /// Clicks on their way.
    pub clicks: travelling::Travelling,
    /// Fixed anchors, for the cycle of a fact.
    pub cycles: cycles::Remembered,
}
