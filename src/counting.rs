//! Ports that count: what one run asks of databases, objects and provider is taken from its
//! `CALLS_PER_RUN`, because one invocation may make only so many.

use std::rc::Rc;

use crate::fault::Fault;
use crate::ports::{Db, Later, ObjectName, Objects, Rows, Statement};
use crate::provider::{Agreements, Limits, Provider, ProviderFault, SigningKey};
use crate::units::{AgreementId, CustomerId, Delta, Millis, Units};
use crate::world::{Calls, World};

/// The same world, its calls counted.
pub fn counted(world: &World, calls: &Rc<Calls>) -> World {
    World {
        db: Rc::new(Counted::new(&world.db, calls)),
        ledger: Rc::new(Counted::new(&world.ledger, calls)),
        objects: Rc::new(Counted::new(&world.objects, calls)),
        provider: Rc::new(Counted::new(&world.provider, calls)),
        ..world.clone()
    }
}

struct Counted<T: ?Sized> {
    inner: Rc<T>,
    calls: Rc<Calls>,
}

impl<T: ?Sized> Counted<T> {
    fn new(inner: &Rc<T>, calls: &Rc<Calls>) -> Self {
        Self {
            inner: Rc::clone(inner),
            calls: Rc::clone(calls),
        }
    }
}

impl Db for Counted<dyn Db> {
    fn query(&self, statement: Statement) -> Later<'_, Result<Rows, Fault>> {
        self.calls.take(1);
        self.inner.query(statement)
    }

    fn batch(&self, statements: Vec<Statement>) -> Later<'_, Result<Vec<Rows>, Fault>> {
        self.calls
            .take(u32::try_from(statements.len()).unwrap_or(u32::MAX));
        self.inner.batch(statements)
    }
}

impl Objects for Counted<dyn Objects> {
    fn ask(&self, object: ObjectName, message: String) -> Later<'_, Result<String, Fault>> {
        self.calls.take(1);
        self.inner.ask(object, message)
    }
}

impl Provider for Counted<dyn Provider> {
    fn limits<'a>(&'a self, customer: &'a CustomerId) -> Later<'a, Result<Limits, ProviderFault>> {
        self.calls.take(1);
        self.inner.limits(customer)
    }

    fn agreements<'a>(
        &'a self,
        customer: &'a CustomerId,
    ) -> Later<'a, Result<Agreements, ProviderFault>> {
        self.calls.take(1);
        self.inner.agreements(customer)
    }

    fn write_meter<'a>(
        &'a self,
        agreement: &'a AgreementId,
        feature_key: &'a str,
        total: Units,
        at: Millis,
    ) -> Later<'a, Result<(), ProviderFault>> {
        self.calls.take(1);
        self.inner.write_meter(agreement, feature_key, total, at)
    }

    fn read_meter<'a>(
        &'a self,
        agreement: &'a AgreementId,
        feature_key: &'a str,
    ) -> Later<'a, Result<Delta, ProviderFault>> {
        self.calls.take(1);
        self.inner.read_meter(agreement, feature_key)
    }

    fn signing_keys(&self) -> Later<'_, Result<Vec<SigningKey>, ProviderFault>> {
        self.calls.take(1);
        self.inner.signing_keys()
    }
}
