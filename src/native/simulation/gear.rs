//! [`Chaos`] around every port of a machine.

use std::rc::Rc;

use super::chaos::{Chaos, Fate, turn};
use super::provider::ChaosProvider;
use crate::fault::Fault;
use crate::native::hashes::Hashes;
use crate::native::machine::Gear;
use crate::ports::{
    Clock, Db, Later, ObjectName, Objects, Rows, Signatures, Sql, Statement, Timer, Value,
};
use crate::provider::Provider;
use crate::units::Millis;

/// Puts [`Chaos`] around every port of a machine.
pub struct ChaosGear(pub Rc<Chaos>);

impl Gear for ChaosGear {
    fn db(&self, name: &'static str, plain: Rc<dyn Db>) -> Rc<dyn Db> {
        let chaos = Rc::clone(&self.0);
        Rc::new(ChaosDb { name, plain, chaos })
    }

    fn sql(&self, object: &ObjectName, plain: Rc<dyn Sql>) -> Rc<dyn Sql> {
        let mut lives = self.0.lives.borrow_mut();
        let life = lives.entry(object.clone()).or_default();
        *life += 1;
        Rc::new(ChaosSql {
            object: object.clone(),
            life: *life,
            plain,
            chaos: Rc::clone(&self.0),
        })
    }

    fn objects(&self, plain: Rc<dyn Objects>) -> Rc<dyn Objects> {
        let chaos = Rc::clone(&self.0);
        Rc::new(ChaosObjects { plain, chaos })
    }

    fn signatures(&self) -> Rc<dyn Signatures> {
        Rc::new(Hashes::default())
    }

    fn provider(&self, plain: Rc<dyn Provider>) -> Rc<dyn Provider> {
        Rc::new(ChaosProvider::new(plain, Rc::clone(&self.0)))
    }

    fn timer(&self) -> Rc<dyn Timer> {
        Rc::new(Turns(Rc::clone(&self.0)))
    }

    fn clock(&self, object: &ObjectName, plain: Rc<dyn Clock>) -> Rc<dyn Clock> {
        Rc::new(SkewedClock {
            object: object.clone(),
            plain,
            chaos: Rc::clone(&self.0),
        })
    }
}

/// One object's clock, which may run behind or ahead of the machine's.
struct SkewedClock {
    object: ObjectName,
    plain: Rc<dyn Clock>,
    chaos: Rc<Chaos>,
}

impl Clock for SkewedClock {
    fn read(&self) -> Millis {
        let skew = self.chaos.skews.borrow().get(&self.object).copied();
        self.plain.read().after(skew.unwrap_or(0))
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
                self.chaos.delay(Box::pin(landing));
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

/// The storage as one instance of an object reaches it. Once another instance is awake, whatever
/// the first one still does is cut off from it.
struct ChaosSql {
    object: ObjectName,
    life: u64,
    plain: Rc<dyn Sql>,
    chaos: Rc<Chaos>,
}

impl ChaosSql {
    fn is_awake(&self) -> Result<(), Fault> {
        if self.chaos.lives.borrow().get(&self.object) == Some(&self.life) {
            return Ok(());
        }
        self.chaos.stats.count("evicted_at_work");
        Err(Fault::unavailable(
            "use an object's storage",
            "it was evicted",
        ))
    }
}

impl Sql for ChaosSql {
    fn query(&self, sql: &str, params: &[Value]) -> Result<Rows, Fault> {
        self.is_awake()?;
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
        self.is_awake()?;
        self.plain.transaction(body)
    }
}

struct ChaosObjects {
    plain: Rc<dyn Objects>,
    chaos: Rc<Chaos>,
}

impl ChaosObjects {
    fn fate(&self, object: &ObjectName) -> Fate {
        if matches!(object, ObjectName::LedgerShard(_)) && self.chaos.storms() {
            self.chaos.stats.count("shard_answer_lost_in_storm");
            return Fate::LostAfter;
        }
        let fates = [
            (8, Fate::LostBefore),
            (8, Fate::LostAfter),
            (6, Fate::Repeated),
            (4, Fate::Late),
        ];
        self.chaos.fate("message", &fates)
    }
}

impl Objects for ChaosObjects {
    fn ask(&self, object: ObjectName, message: String) -> Later<'_, Result<String, Fault>> {
        Box::pin(async move {
            turn().await;
            let fate = self.fate(&object);
            let lost = || match fate {
                Fate::LostBefore => Fault::unavailable("ask an object", fate.name()),
                _ => Fault::unanswered("ask an object", fate.name()),
            };
            let plain = Rc::clone(&self.plain);
            let outcome = match fate {
                Fate::Normal => plain.ask(object, message).await,
                Fate::LostBefore => Err(lost()),
                Fate::LostAfter => plain.ask(object, message).await.and_then(|_| Err(lost())),
                Fate::Repeated => {
                    drop(plain.ask(object.clone(), message.clone()).await);
                    turn().await;
                    plain.ask(object, message).await
                }
                Fate::Late => {
                    let arrival = async move { drop(plain.ask(object, message).await) };
                    self.chaos.delay(Box::pin(arrival));
                    Err(lost())
                }
            };
            turn().await;
            outcome
        })
    }
}
