//! A world that fails at the n-th statement, before or after it took effect: for crash tests.
//!
//! Counted are the statements of every object's SQLite, the ends of its transactions, and the
//! queries and batches of both databases. What fails once may go on at once, or everything after
//! it fails too until the machine is started again.

use std::cell::Cell;
use std::rc::Rc;

use super::machine::Gear;
use crate::fault::Fault;
use crate::ports::{Db, Later, ObjectName, Rows, Sql, Statement, Value};

/// Whether the statement that fails took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// It did not.
    Before,
    /// It did; its answer is lost.
    After,
}

/// What follows the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The next statement works.
    GoesOn,
    /// Nothing works until [`Faults::mend`].
    Stands,
}

/// Counts statements and fails one of them.
#[derive(Default)]
pub struct Faults {
    seen: Cell<u32>,
    at: Cell<Option<(u32, When, Then)>>,
    stands: Cell<bool>,
}

impl Faults {
    /// From now on the `nth` statement (from 1) fails.
    pub fn fail_at(&self, nth: u32, when: When, then: Then) {
        self.mend();
        self.at.set(Some((nth, when, then)));
    }

    /// Nothing fails any more; counting begins anew.
    pub fn mend(&self) {
        self.seen.set(0);
        self.at.set(None);
        self.stands.set(false);
    }

    /// How many statements there were since the last beginning.
    pub fn seen(&self) -> u32 {
        self.seen.get()
    }

    /// Counts a statement; says how it fails, if it does.
    fn next(&self) -> Option<When> {
        if self.stands.get() {
            return Some(When::Before);
        }
        self.seen.set(self.seen.get() + 1);
        let (nth, when, then) = self.at.get()?;
        if nth != self.seen.get() {
            return None;
        }
        self.stands.set(then == Then::Stands);
        Some(when)
    }

    fn pass<T>(&self, run: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
        let failing = self.next();
        if failing == Some(When::Before) {
            return Err(lost("before it took effect"));
        }
        let outcome = run()?;
        if failing == Some(When::After) {
            return Err(lost("after it took effect"));
        }
        Ok(outcome)
    }
}

fn lost(when: &str) -> Fault {
    Fault::unanswered("run a statement", when)
}

/// The gear of a machine that may fail.
pub struct FaultyGear(pub Rc<Faults>);

impl Gear for FaultyGear {
    fn db(&self, _name: &'static str, plain: Rc<dyn Db>) -> Rc<dyn Db> {
        Rc::new(FaultyDb(Rc::clone(&self.0), plain))
    }

    fn sql(&self, _object: &ObjectName, plain: Rc<dyn Sql>) -> Rc<dyn Sql> {
        Rc::new(FaultySql(Rc::clone(&self.0), plain))
    }
}

struct FaultySql(Rc<Faults>, Rc<dyn Sql>);

impl Sql for FaultySql {
    fn query(&self, sql: &str, params: &[Value]) -> Result<Rows, Fault> {
        self.0.pass(|| self.1.query(sql, params))
    }

    /// Failing "before" is failing to commit.
    fn transaction(&self, body: &mut dyn FnMut() -> Result<(), Fault>) -> Result<(), Fault> {
        let mut at_the_end = None;
        let outcome = self.1.transaction(&mut || {
            body()?;
            at_the_end = self.0.next();
            match at_the_end {
                Some(When::Before) => Err(lost("before it was committed")),
                Some(When::After) | None => Ok(()),
            }
        });
        match at_the_end {
            Some(When::After) => outcome.and(Err(lost("after it was committed"))),
            Some(When::Before) | None => outcome,
        }
    }
}

struct FaultyDb(Rc<Faults>, Rc<dyn Db>);

impl FaultyDb {
    async fn pass<T>(&self, work: Later<'_, Result<T, Fault>>) -> Result<T, Fault> {
        let failing = self.0.next();
        if failing == Some(When::Before) {
            return Err(lost("before it took effect"));
        }
        let outcome = work.await?;
        if failing == Some(When::After) {
            return Err(lost("after it took effect"));
        }
        Ok(outcome)
    }
}

impl Db for FaultyDb {
    fn query(&self, statement: Statement) -> Later<'_, Result<Rows, Fault>> {
        Box::pin(self.pass(self.1.query(statement)))
    }

    fn batch(&self, statements: Vec<Statement>) -> Later<'_, Result<Vec<Rows>, Fault>> {
        Box::pin(self.pass(self.1.batch(statements)))
    }
}
