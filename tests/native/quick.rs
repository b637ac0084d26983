//! Signatures that cost nothing, for tests that look at what comes behind them.

use std::rc::Rc;

use counterfoil::native::faulty::FaultyGear;
pub use counterfoil::native::hashes::Hashes;
use counterfoil::native::machine::Gear;
use counterfoil::ports::{Db, ObjectName, Signatures, Sql};

/// A machine with quick signatures.
pub struct QuickSignatures;

impl Gear for QuickSignatures {
    fn signatures(&self) -> Rc<dyn Signatures> {
        Rc::new(Hashes::default())
    }
}

/// The same, where any statement may fail.
pub struct QuickAndFaulty(pub FaultyGear);

impl Gear for QuickAndFaulty {
    fn db(&self, name: &'static str, plain: Rc<dyn Db>) -> Rc<dyn Db> {
        self.0.db(name, plain)
    }

    fn sql(&self, object: &ObjectName, plain: Rc<dyn Sql>) -> Rc<dyn Sql> {
        self.0.sql(object, plain)
    }

    fn signatures(&self) -> Rc<dyn Signatures> {
        Rc::new(Hashes::default())
    }
}
