//! Two reporters, a reconciler and a click at once: every order in which their calls can fall.
//!
//! Goal: whatever the order, a meter that is not marked holds the ledger's total, and no older
//! total wins.
//! Method: each call to a database or the provider first lets everybody else go on; a schedule
//! says who does. Around one meter all schedules are walked; whole runs get schedules by seed.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use counterfoil::fault::Fault;
use counterfoil::ledger::billed;
use counterfoil::ledger::meter::{How, Pass, Subject};
use counterfoil::ledger::meter_store::{Pair, meters_of};
use counterfoil::ledger::runs::{self, Standing};
use counterfoil::ledger::turn_guard::write_guarded;
use counterfoil::native::executor::block_on;
use counterfoil::native::machine::{Gear, Machine};
use counterfoil::native::sqlite::Sqlite;
use counterfoil::ports::{Db, Later, ObjectName, Rows, Statement};
use counterfoil::provider::{Agreements, Limits, Provider, ProviderFault, SigningKey};
use counterfoil::units::{AccountId, AgreementId, CustomerId, Delta, FeatureName, Millis, Units};
use counterfoil::world::{Calls, World};
use counterfoil::{reconciler, reporter};
use serde_json::json;

use crate::meters::{Bench, MINUTE, account};

/// Whether calls let others go on; off while a test prepares and looks.
#[derive(Clone, Default)]
pub struct Turns(pub Rc<Cell<bool>>);

impl Turns {
    async fn yield_now(&self) {
        let mut is_first = self.0.get();
        poll_fn(move |_| {
            if is_first {
                is_first = false;
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }
}

impl Gear for Turns {
    fn db(&self, _: &'static str, plain: Rc<dyn Db>) -> Rc<dyn Db> {
        let turns = self.clone();
        Rc::new(TakingTurns { turns, plain })
    }

    fn provider(&self, plain: Rc<dyn Provider>) -> Rc<dyn Provider> {
        let turns = self.clone();
        Rc::new(TakingTurns { turns, plain })
    }
}

struct TakingTurns<T: ?Sized> {
    turns: Turns,
    plain: Rc<T>,
}

impl Db for TakingTurns<dyn Db> {
    fn query(&self, statement: Statement) -> Later<'_, Result<Rows, Fault>> {
        Box::pin(async move {
            self.turns.yield_now().await;
            self.plain.query(statement).await
        })
    }

    fn batch(&self, statements: Vec<Statement>) -> Later<'_, Result<Vec<Rows>, Fault>> {
        Box::pin(async move {
            self.turns.yield_now().await;
            self.plain.batch(statements).await
        })
    }
}

impl Provider for TakingTurns<dyn Provider> {
    fn limits<'a>(&'a self, customer: &'a CustomerId) -> Later<'a, Result<Limits, ProviderFault>> {
        self.plain.limits(customer)
    }

    fn agreements<'a>(
        &'a self,
        customer: &'a CustomerId,
    ) -> Later<'a, Result<Agreements, ProviderFault>> {
        self.plain.agreements(customer)
    }

    fn write_meter<'a>(
        &'a self,
        agreement: &'a AgreementId,
        feature_key: &'a str,
        total: Units,
        at: Millis,
    ) -> Later<'a, Result<(), ProviderFault>> {
        Box::pin(async move {
            self.turns.yield_now().await;
            self.plain
                .write_meter(agreement, feature_key, total, at)
                .await
        })
    }

    fn read_meter<'a>(
        &'a self,
        agreement: &'a AgreementId,
        feature_key: &'a str,
    ) -> Later<'a, Result<Delta, ProviderFault>> {
        Box::pin(async move {
            self.turns.yield_now().await;
            self.plain.read_meter(agreement, feature_key).await
        })
    }

    fn signing_keys(&self) -> Later<'_, Result<Vec<SigningKey>, ProviderFault>> {
        self.plain.signing_keys()
    }
}

/// Polls the tasks until all are done, each time the one that `choose` names of those that run.
pub fn run_all(mut tasks: Vec<Later<'_, ()>>, mut choose: impl FnMut(usize) -> usize) {
    let mut context = Context::from_waker(Waker::noop());
    while !tasks.is_empty() {
        let index = choose(tasks.len());
        if tasks[index].as_mut().poll(&mut context).is_ready() {
            drop(tasks.remove(index));
        }
    }
}

/// Every schedule, one after the other: the choices made and how many there were at each.
#[derive(Default)]
struct Schedules {
    choices: Vec<(usize, usize)>,
    at: usize,
}

impl Schedules {
    fn choose(&mut self, options: usize) -> usize {
        if self.at == self.choices.len() {
            self.choices.push((0, options));
        }
        self.at += 1;
        self.choices[self.at - 1].0
    }

    /// Goes on to the next schedule; `false` where all were walked.
    fn next(&mut self) -> bool {
        self.at = 0;
        while let Some((choice, options)) = self.choices.pop() {
            if choice + 1 < options {
                self.choices.push((choice + 1, options));
                return true;
            }
        }
        false
    }
}

/// A small generator, so that a schedule is its seed.
struct Seed(u64);

impl Seed {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }
}

/// A bench whose state can be put back.
struct Stage {
    bench: Bench,
    turns: Turns,
    saved: [Sqlite; 3],
}

impl Stage {
    fn new() -> Self {
        let turns = Turns::default();
        let machine = Machine::geared(&[], Rc::new(turns.clone())).expect("it starts");
        let agreement = account(&machine, "a");
        let bench = Bench { machine, agreement };
        bench.use_clicks("one", 5);
        bench.run("reporter");
        bench.use_clicks("two", 3);
        let standin = bench
            .machine
            .objects
            .storage(&ObjectName::StandIn)
            .expect("it is there");
        let save = |db: &Sqlite| db.snapshot().expect("a copy");
        let saved = [&bench.machine.control, &bench.machine.ledger, &standin].map(save);
        Self {
            bench,
            turns,
            saved,
        }
    }

    fn put_back(&self) {
        let machine = &self.bench.machine;
        let standin = machine
            .objects
            .storage(&ObjectName::StandIn)
            .expect("it is there");
        for (db, saved) in [&machine.control, &machine.ledger, &standin]
            .into_iter()
            .zip(&self.saved)
        {
            db.restore(saved).expect("it is put back");
        }
    }

    /// Runs the tasks by the schedule, then looks: what is not marked holds the ledger's total,
    /// and after the next runs everything does.
    fn play(
        &self,
        tasks: Vec<Later<'_, ()>>,
        choose: impl FnMut(usize) -> usize,
        (what, has_faults): (&str, bool),
    ) {
        self.turns.0.set(true);
        run_all(tasks, choose);
        self.turns.0.set(false);
        let bench = &self.bench;
        let ledger = bench.meters()[0]["ledger"].as_i64().expect("a total");
        let is_marked = bench.marked();
        if !is_marked {
            assert_eq!(bench.meter(), ledger, "{what}: told, and yet another total");
        }
        if is_marked || has_faults {
            bench.heal();
            assert_eq!(bench.meter(), ledger, "{what}: an older total won");
            bench.machine.advance(2 * MINUTE);
            assert_eq!(bench.meter(), ledger, "{what}: something came later");
        }
    }
}

/// The meter's subject, loaded before the senders begin.
async fn load(world: &World) -> Subject {
    let id = AccountId::new("a").expect("an id");
    let loaded = billed::load(&*world.db, std::slice::from_ref(&id)).await;
    let billed = loaded.expect("reads").remove(&id).expect("the account");
    let cycle = billed.account.cycle_at(world.now());
    let pair = Pair {
        account_id: id,
        feature: FeatureName::new("clicks").expect("a name"),
        cycle: cycle.name.clone(),
    };
    let meter = meters_of(&*world.ledger, &pair).await.expect("reads").pop();
    Subject {
        pair,
        provider_key: "clicks".to_owned(),
        cycle,
        agreement: billed.agreement.expect("an agreement"),
        agreements: billed.agreements,
        meter,
    }
}

async fn send(world: Rc<World>, standing: Standing, mut subject: Subject, how: How) {
    let pass = Pass::new(standing.number, standing.token);
    let sent = write_guarded(&world, &pass, &mut subject, how).await;
    sent.expect("no fault");
}

/// A fact of usage reaches the ledger, in one step.
async fn click(ledger: Sqlite, now: Millis) {
    let row = json!([{"id": "use_late", "account": "a", "feature": "clicks",
        "cycle": "2026-11", "units": 2, "kind": "usage", "key": "late", "at": now.get()}]);
    let batch = counterfoil::ledger::batch::statements(None, &row.to_string(), &[], now);
    Db::batch(&ledger, batch).await.expect("it is written");
}

#[test]
fn around_one_meter_and_one_click_no_order_of_two_senders_lets_an_older_total_win() {
    let stage = Stage::new();
    let machine = &stage.bench.machine;
    let world = machine.world();
    let mut walked = 0;
    for hows in [[How::Report, How::Report], [How::Report, How::Reconcile]] {
        let mut schedules = Schedules::default();
        loop {
            stage.put_back();
            let subject = block_on(load(&world));
            let standing = block_on(runs::standing(&world)).expect("reads");
            let sender = |how| -> Later<'_, ()> {
                let standing = standing.clone();
                Box::pin(send(Rc::clone(&world), standing, subject.clone(), how))
            };
            let tasks: Vec<Later<'_, ()>> = vec![
                sender(hows[0]),
                sender(hows[1]),
                Box::pin(click(machine.ledger.clone(), world.now())),
            ];
            stage.play(
                tasks,
                |options| schedules.choose(options),
                (&format!("{hows:?}"), false),
            );
            walked += 1;
            if !schedules.next() {
                break;
            }
        }
    }
    assert!(walked > 400, "{walked}");
}

#[test]
fn whole_runs_of_two_reporters_a_reconciler_and_clicks_end_in_the_ledger_s_total() {
    let stage = Stage::new();
    for seed in 0..120_u64 {
        stage.put_back();
        let modes = ["error", "timeout", "429", "garbage", "lost_answer", "late"];
        let number = usize::try_from(seed).expect("small");
        let mode = modes[number % modes.len()];
        let operation = ["meter_write", "meter_read"][number / modes.len() % 2];
        if seed % 7 > 0 {
            stage.bench.fault(operation, mode, 1);
        }
        let world = stage.bench.machine.world();
        let calls = Calls::new(10_000);
        let report = || -> Later<'_, ()> {
            Box::pin(async {
                reporter::run(&world, &calls).await.expect("it runs");
            })
        };
        let tasks: Vec<Later<'_, ()>> = vec![
            report(),
            report(),
            Box::pin(async {
                let pass = reconciler::PassName::Asked;
                reconciler::run(&world, &calls, pass)
                    .await
                    .expect("it runs");
            }),
            Box::pin(click(stage.bench.machine.ledger.clone(), world.now())),
        ];
        let mut chance = Seed(seed);
        stage.play(
            tasks,
            |options| chance.below(options),
            (&format!("seed {seed} {operation} {mode}"), true),
        );
        for operation in ["meter_write", "meter_read"] {
            let ok = json!({"operation": operation, "mode": "ok"});
            stage.bench.ok("PUT", "/standin/faults", &ok);
        }
        let found = stage.bench.run("reconciler");
        assert_eq!(
            found["matched"], 2,
            "seed {seed} {operation} {mode}: {found}"
        );
    }
}
