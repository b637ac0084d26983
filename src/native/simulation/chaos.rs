//! What happens to a statement or message on its way: it arrives, is lost before or after it took
//! effect, is repeated, or lands late. Between any two awaits of one task every other may run.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Poll;

use super::chance::Chance;
use super::stats::Stats;
use crate::fault::Fault;
use crate::native::machine::Gear;
use crate::ports::{Db, Later, ObjectName, Objects, Rows, Sql, Statement, Timer, Value};

/// Work that nobody waits for any more: a batch that lands late, a message that was delayed.
type Straggler = Later<'static, ()>;

/// The source of all misfortune of one run.
pub struct Chaos {
    /// The run's random numbers.
    pub chance: RefCell<Chance>,
    /// What really happened.
    pub stats: Rc<Stats>,
    /// While calm, everything arrives.
    pub calm: Cell<bool>,
    stragglers: RefCell<VecDeque<Straggler>>,
}

/// What becomes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Normal,
    LostBefore,
    LostAfter,
    Repeated,
    Late,
}

impl Fate {
    const fn name(self) -> &'static str {
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
            stragglers: RefCell::default(),
        })
    }

    /// True in so many of a thousand cases, never while calm.
    pub fn strikes(&self, in_thousand: usize) -> bool {
        !self.calm.get() && self.chance.borrow_mut().in_thousand(in_thousand)
    }

    /// The oldest straggler.
    pub fn take_straggler(&self) -> Option<Straggler> {
        self.stragglers.borrow_mut().pop_front()
    }

    /// How many stragglers are on their way.
    pub fn stragglers(&self) -> usize {
        self.stragglers.borrow().len()
    }

    fn fate(&self, what: &str, fates: &[(usize, Fate)]) -> Fate {
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

/// Puts [`Chaos`] around every port of a machine.
pub struct ChaosGear(pub Rc<Chaos>);

impl Gear for ChaosGear {
    fn db(&self, name: &'static str, plain: Rc<dyn Db>) -> Rc<dyn Db> {
        Rc::new(ChaosDb {
            name,
            plain,
            chaos: Rc::clone(&self.0),
        })
    }

    fn sql(&self, _object: &ObjectName, plain: Rc<dyn Sql>) -> Rc<dyn Sql> {
        Rc::new(ChaosSql {
            plain,
            chaos: Rc::clone(&self.0),
        })
    }

    fn objects(&self, plain: Rc<dyn Objects>) -> Rc<dyn Objects> {
        Rc::new(ChaosObjects {
            plain,
            chaos: Rc::clone(&self.0),
        })
    }

    fn timer(&self) -> Rc<dyn Timer> {
        Rc::new(Turns(Rc::clone(&self.0)))
    }
}

/// A pause is a few turns.
struct Turns(Rc<Chaos>);

impl Timer for Turns {
    fn pause(&self, ms: u32) -> Later<'static, ()> {
        let turns = 1 + ms / 100;
        let turns = if self.0.calm.get() { 1 } else { turns.min(8) };
        Box::pin(async move {
            for _ in 0..turns {
                turn().await;
            }
        })
    }
}

struct ChaosDb {
    name: &'static str,
    plain: Rc<dyn Db>,
    chaos: Rc<Chaos>,
}

impl ChaosDb {
    async fn run<T: 'static>(
        &self,
        work: impl Fn(&dyn Db) -> Later<'_, Result<T, Fault>> + 'static,
    ) -> Result<T, Fault> {
        turn().await;
        let fates = [(8, Fate::LostBefore), (8, Fate::LostAfter), (4, Fate::Late)];
        let fate = self.chaos.fate(self.name, &fates);
        let lost = || Fault::unavailable("ask D1", fate.name());
        let outcome = match fate {
            Fate::LostBefore => Err(lost()),
            Fate::LostAfter => work(&*self.plain).await.and_then(|_| Err(lost())),
            Fate::Late => {
                let plain = Rc::clone(&self.plain);
                let landing = async move {
                    // What a batch that lands late did is nobody's to know.
                    drop(work(&*plain).await);
                };
                self.chaos
                    .stragglers
                    .borrow_mut()
                    .push_back(Box::pin(landing));
                Err(lost())
            }
            Fate::Normal | Fate::Repeated => work(&*self.plain).await,
        };
        turn().await;
        outcome
    }
}

impl Db for ChaosDb {
    fn query(&self, statement: Statement) -> Later<'_, Result<Rows, Fault>> {
        Box::pin(self.run(move |db| db.query(statement.clone())))
    }

    fn batch(&self, statements: Vec<Statement>) -> Later<'_, Result<Vec<Rows>, Fault>> {
        Box::pin(self.run(move |db| db.batch(statements.clone())))
    }
}

struct ChaosSql {
    plain: Rc<dyn Sql>,
    chaos: Rc<Chaos>,
}

impl Sql for ChaosSql {
    fn query(&self, sql: &str, params: &[Value]) -> Result<Rows, Fault> {
        if self.chaos.strikes(1) {
            self.chaos.stats.count("sql_failed_before");
            return Err(Fault::unavailable(sql, "failed before it took effect"));
        }
        let rows = self.plain.query(sql, params)?;
        if self.chaos.strikes(1) {
            self.chaos.stats.count("sql_failed_after");
            return Err(Fault::unavailable(sql, "failed after it took effect"));
        }
        Ok(rows)
    }

    fn transaction(&self, body: &mut dyn FnMut() -> Result<(), Fault>) -> Result<(), Fault> {
        self.plain.transaction(body)
    }
}

struct ChaosObjects {
    plain: Rc<dyn Objects>,
    chaos: Rc<Chaos>,
}

impl Objects for ChaosObjects {
    fn ask(&self, object: ObjectName, message: String) -> Later<'_, Result<String, Fault>> {
        Box::pin(async move {
            turn().await;
            let fates = [
                (8, Fate::LostBefore),
                (8, Fate::LostAfter),
                (6, Fate::Repeated),
                (4, Fate::Late),
            ];
            let fate = self.chaos.fate("message", &fates);
            let lost = || match fate {
                Fate::LostBefore => Fault::unavailable("ask an object", fate.name()),
                _ => Fault::unanswered("ask an object", fate.name()),
            };
            let outcome = match fate {
                Fate::Normal => self.plain.ask(object, message).await,
                Fate::LostBefore => Err(lost()),
                Fate::LostAfter => self
                    .plain
                    .ask(object, message)
                    .await
                    .and_then(|_| Err(lost())),
                Fate::Repeated => {
                    drop(self.plain.ask(object.clone(), message.clone()).await);
                    turn().await;
                    self.plain.ask(object, message).await
                }
                Fate::Late => {
                    let plain = Rc::clone(&self.plain);
                    let arrival = async move { drop(plain.ask(object, message).await) };
                    self.chaos
                        .stragglers
                        .borrow_mut()
                        .push_back(Box::pin(arrival));
                    Err(lost())
                }
            };
            turn().await;
            outcome
        })
    }
}
