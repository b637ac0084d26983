//! `LEDGER_0` is put back to an earlier state, at any moment of a run.
//!
//! Goal: no older total is ever written over a newer one, and once every object has handed in what
//! it keeps, everything is as it was.
//! Method: clicks through shards, which keep what they delivered; the ledger is put back before
//! each single statement of a run.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use counterfoil::fault::Fault;
use counterfoil::ledger::meter_rules::Recorded;
use counterfoil::ledger::runs::{self, Begun, Standing};
use counterfoil::native::executor::block_on;
use counterfoil::native::machine::{Gear, Machine, ObjectPool};
use counterfoil::native::sqlite::Sqlite;
use counterfoil::ports::{Db, Later, ObjectName, Rows, Signatures, Statement};
use serde_json::{Value, json};

use crate::meters::{Bench, MINUTE, account};
use crate::quick::{Hashes, QuickSignatures};

/// Puts the ledger back before the nth call to a database; may take the copy before an earlier one,
/// and lets what a shard has waiting reach the ledger right after that.
#[derive(Default)]
struct Restore {
    seen: Cell<u32>,
    copy_at: Cell<u32>,
    at: Cell<u32>,
    ledger: RefCell<Option<(Sqlite, Sqlite)>>,
    objects: RefCell<Option<Rc<ObjectPool>>>,
}

impl Restore {
    /// From now on the `nth` call (from 1) meets the ledger as it was.
    fn before(&self, nth: u32) {
        self.seen.set(0);
        self.at.set(nth);
    }

    /// The same with a copy that is taken before the call `copy_at`.
    fn within(&self, copy_at: u32, nth: u32) {
        self.before(nth);
        self.copy_at.set(copy_at);
    }

    async fn copy(&self) {
        if let Some((ledger, earlier)) = &mut *self.ledger.borrow_mut() {
            *earlier = ledger.snapshot().expect("a copy");
        }
        let objects = self.objects.borrow().clone().expect("objects");
        let sent = objects.alarm(&ObjectName::LedgerShard(0)).await;
        sent.expect("what waits is sent");
    }

    async fn pass(&self) {
        self.seen.set(self.seen.get() + 1);
        if self.seen.get() == self.copy_at.get() {
            // The shard's calls are not the run's.
            let (seen, at) = (self.seen.replace(0), self.at.replace(0));
            self.copy_at.set(0);
            self.copy().await;
            self.seen.set(seen);
            self.at.set(at);
        }
        if self.seen.get() == self.at.get() {
            self.put_back();
        }
    }

    fn put_back(&self) {
        if let Some((ledger, earlier)) = &*self.ledger.borrow() {
            ledger.restore(earlier).expect("it is put back");
        }
    }
}

#[derive(Clone)]
struct RestoringGear(Rc<Restore>);

impl Gear for RestoringGear {
    fn db(&self, _: &'static str, plain: Rc<dyn Db>) -> Rc<dyn Db> {
        Rc::new(RestoringDb(Rc::clone(&self.0), plain))
    }

    fn signatures(&self) -> Rc<dyn Signatures> {
        Rc::new(Hashes::default())
    }
}

struct RestoringDb(Rc<Restore>, Rc<dyn Db>);

impl Db for RestoringDb {
    fn query(&self, statement: Statement) -> Later<'_, Result<Rows, Fault>> {
        Box::pin(async move {
            self.0.pass().await;
            self.1.query(statement).await
        })
    }

    fn batch(&self, statements: Vec<Statement>) -> Later<'_, Result<Vec<Rows>, Fault>> {
        Box::pin(async move {
            self.0.pass().await;
            self.1.batch(statements).await
        })
    }
}

fn click(bench: &Bench, times: i64) {
    for _ in 0..times {
        let (status, _) = bench.machine.call("GET", "/x", "", &Value::Null);
        assert_eq!(status, 302);
    }
    bench.machine.advance(MINUTE);
}

/// Sixteen clicks, of which the meter was told fifteen, and a ledger of when it was to be told twelve.
fn stage() -> (Bench, Rc<Restore>) {
    let restore = Rc::new(Restore::default());
    let gear = Rc::new(RestoringGear(Rc::clone(&restore)));
    let machine = Machine::geared(&[("SHARDS", "1")], gear).expect("it starts");
    let agreement = account(&machine, "a");
    let bench = Bench { machine, agreement };
    let link = json!({"code": "x", "destination": "https://d.example/"});
    bench.ok("POST", "/v1/links?account=a", &link);
    click(&bench, 10);
    bench.run("reporter");
    click(&bench, 2);
    assert!(bench.marked());
    let earlier = bench.machine.ledger.snapshot().expect("a copy");
    click(&bench, 3);
    bench.run("reporter");
    click(&bench, 1);
    assert_eq!((bench.meter(), bench.marked()), (15, true));
    let ledger = bench.machine.ledger.clone();
    restore.ledger.replace(Some((ledger, earlier)));
    let objects = Rc::clone(&bench.machine.objects);
    restore.objects.replace(Some(objects));
    (bench, restore)
}

/// Everything that objects keep comes back, and no run on the way writes a lower total.
fn come_to_rest(bench: &Bench, least: i64, said: &str) {
    assert!(bench.meter() >= least, "{said}: {}", bench.meter());
    for round in 0.. {
        assert!(round < 8, "{said}: it does not come to rest");
        bench.machine.advance(MINUTE + 1);
        let summary = bench.run("reporter");
        assert!(bench.meter() >= least, "{said}: {}", bench.meter());
        if summary["restored"] == false && !bench.marked() {
            break;
        }
        bench.run("sweeper");
        bench.run("reconciler");
        assert!(bench.meter() >= least, "{said}: {}", bench.meter());
    }
}

#[test]
fn a_ledger_put_back_at_any_moment_of_a_run_lets_no_older_total_be_written() {
    for job in ["reporter", "reconciler"] {
        let run = |bench: &Bench| {
            // It may fail: the lease that it held is gone.
            let _ = bench.call("POST", &format!("/v1/run/{job}"), &json!({}));
        };
        let (bench, restore) = stage();
        restore.before(0);
        run(&bench);
        let calls = restore.seen.get();
        assert!(calls > 10, "{job}: {calls} calls");
        for nth in 1..=calls {
            let (bench, restore) = stage();
            restore.before(nth);
            run(&bench);
            restore.before(0);
            let said = format!("{job}: put back before call {nth}");
            come_to_rest(&bench, 15, &said);
            assert_eq!(bench.meter(), 16, "{said}");
            assert_eq!(bench.meters()[0]["ledger"], 16, "{said}");
            assert_eq!(bench.run("reconciler")["matched"], 2, "{said}");
            assert_eq!(bench.reviews(), Vec::<Value>::new(), "{said}");
        }
    }
}

/// Goal: a ledger that is put back to a moment within the run that is under way, or to one after
/// which only the reconciler wrote, is recognised once a meter was told anything that it lacks.
/// Method: the copy is taken before each call of the run, two clicks reach the ledger right after
/// it, and it is put back before each later call, or after the run. The next to write is another
/// run, of the reporter or the reconciler, before anybody was handed what the ledger lacks.
#[test]
fn a_ledger_put_back_to_a_moment_within_a_run_lets_no_older_total_be_written() {
    let mut told = 0;
    for (job, next) in [("reporter", "reconciler"), ("reconciler", "reporter")] {
        let run = |bench: &Bench, job: &str| {
            // It may fail: the lease that it held is gone.
            let _ = bench.call("POST", &format!("/v1/run/{job}"), &json!({}));
        };
        let staged = || {
            let (bench, restore) = stage();
            for _ in 0..2 {
                bench.machine.call("GET", "/x", "", &Value::Null);
            }
            let clock = &bench.machine.clock.0;
            clock.set(clock.get().after(2_000));
            (bench, restore)
        };
        let (bench, restore) = staged();
        restore.before(0);
        run(&bench, job);
        let calls = restore.seen.get();
        assert!(calls > 10, "{job}: {calls} calls");
        for copied in 1..=calls {
            for nth in copied + 1..=calls + 1 {
                let (bench, restore) = staged();
                restore.within(copied, nth);
                run(&bench, job);
                restore.within(0, 0);
                if nth > calls {
                    restore.put_back();
                }
                let least = bench.meter();
                told += i64::from(least == 18);
                let said = format!("{job}: copied before call {copied}, put back before {nth}");
                run(&bench, next);
                come_to_rest(&bench, least, &said);
                bench.run("reconciler");
                come_to_rest(&bench, 18, &said);
                assert_eq!(bench.meter(), 18, "{said}");
                assert_eq!(bench.meters()[0]["ledger"], 18, "{said}");
                assert_eq!(bench.reviews(), Vec::<Value>::new(), "{said}");
            }
        }
    }
    assert!(told > 50, "{told}");
}

#[test]
fn a_run_number_that_is_given_twice_begins_no_run_and_tells_of_the_restored_ledger() {
    let (bench, _) = stage();
    let world = bench.machine.world();
    let look = || block_on(runs::standing(&world)).expect("it reads");
    let begin = |standing: &_| match block_on(runs::begin(&world, standing)).expect("it begins") {
        Begun::Run(number, _) => Some(number),
        Begun::Restored => None,
        Begun::Overtaken => panic!("it was put back once, to before the other run"),
    };
    let (seen, before) = (look(), bench.machine.ledger.snapshot().expect("a copy"));
    assert_eq!(begin(&seen), Some(seen.number + 1));
    bench.machine.ledger.restore(&before).expect("put back");
    assert_eq!(begin(&seen), None);
    assert!(look().restored);
    assert_eq!(begin(&look()), None);
    // Two runs that begin at once are both runs.
    let filling = block_on(runs::begin_filling(&world)).expect("a token");
    block_on(runs::caught_up(&world, &filling)).expect("it catches up");
    let seen = look();
    assert!(!seen.restored);
    assert_eq!(begin(&seen), Some(seen.number + 1));
    assert_eq!(begin(&seen), Some(seen.number + 2));
}

/// Goal: a sender that was overtaken by another one still sends, one whose ledger was put back does
/// not.
/// Method: three tokens are given one after the other and written to DB in the wrong order.
#[test]
fn a_token_is_good_where_a_later_one_is_known_and_not_where_the_ledger_lost_either() {
    let (bench, _) = stage();
    let (world, ledger) = (bench.machine.world(), &bench.machine.ledger);
    let known = block_on(runs::standing(&world)).expect("it reads").token;
    let give = |token: &str| {
        let list = runs::given_since("?2");
        let sql = format!(
            "insert into meter_token (token, until_ms) values (?1, 0) returning {list} as earlier"
        );
        let give = Statement::new(sql, vec![token.into(), known.as_str().into()]);
        let rows = block_on(Db::query(ledger, give)).expect("it is given");
        rows[0].text("earlier").expect("a list").to_owned()
    };
    let record = |token: &str, earlier: &str| {
        block_on(runs::record(&world, 0, token, earlier)).expect("it is looked at")
    };
    let restored = || block_on(runs::standing(&world)).expect("it reads").restored;
    let before = ledger.snapshot().expect("a copy");
    let (one, two) = (give("one"), give("two"));
    let with_two = ledger.snapshot().expect("a copy");
    assert_eq!(record("two", &two), Recorded::Yes);
    assert_eq!(record("one", &one), Recorded::Yes, "two was given after it");
    let three = give("three");
    ledger.restore(&with_two).expect("put back");
    assert!(!restored(), "three was never told of");
    assert_eq!(
        record("three", &three),
        Recorded::Yes,
        "in the ledger that was"
    );
    assert!(restored());
    let other = give("other");
    assert_eq!(record("other", &other), Recorded::Restored);
    ledger.restore(&before).expect("put back");
    assert_eq!(record("other", &other), Recorded::Restored);
    // Filled again, the ledger has everything; who read it meanwhile sends nothing.
    let meanwhile = give("meanwhile");
    let filling = block_on(runs::begin_filling(&world)).expect("a token");
    block_on(runs::caught_up(&world, "of another ledger")).expect("nothing happens");
    assert!(restored());
    block_on(runs::caught_up(&world, &filling)).expect("it catches up");
    assert!(!restored());
    assert_eq!(record("meanwhile", &meanwhile), Recorded::Lost);
}

#[test]
fn a_run_of_a_release_without_tokens_is_recognised_by_its_number() {
    let (bench, _) = stage();
    let count = "update cron set number = number + 1 where name = 'reporter'";
    block_on(Db::query(
        &bench.machine.control,
        Statement::new(count, vec![]),
    ))
    .expect("it counts");
    assert_eq!(bench.run("reporter")["restored"], true);
    bench.run("reconciler");
    assert_eq!(bench.run("reporter")["restored"], false);
}

/// A run looks while an older one has stepped in the ledger and not yet in DB, and then the ledger
/// is put back: a step there would give it the older run's number, whose writes would go on.
#[test]
fn a_run_that_looked_while_another_began_takes_no_step_in_a_ledger_put_back_since() {
    let (bench, _) = stage();
    let world = bench.machine.world();
    let look = || block_on(runs::standing(&world)).expect("it reads");
    let begin = |standing: &_| block_on(runs::begin(&world, standing)).expect("it begins");
    let (first, before) = (look(), bench.machine.ledger.snapshot().expect("a copy"));
    assert!(matches!(begin(&first), Begun::Run(number, _) if number == first.number + 1));
    let second = Standing {
        token: first.token.clone(),
        ..look()
    };
    bench.machine.ledger.restore(&before).expect("put back");
    assert_eq!(begin(&second), Begun::Restored);
    assert_eq!(look().number, first.number);
    assert!(look().restored);
}

/// Every table that a person or a bill looks at, as one text.
fn books(bench: &Bench) -> String {
    let sql = [
        "select entry_id, account_id, feature, cycle, units, kind, reason from entry order by 1",
        "select account_id, feature, cycle, total from counter order by 1, 2, 3",
    ];
    let rows = sql.map(|sql| {
        let rows = bench.machine.ledger.query(Statement::new(sql, vec![]));
        block_on(rows).expect("it reads")
    });
    format!("{rows:?}")
}

#[test]
fn a_ledger_put_back_by_an_hour_is_filled_again_from_what_shards_and_accounts_kept() {
    let machine = Machine::geared(&[], Rc::new(QuickSignatures)).expect("it starts");
    let agreement = account(&machine, "a");
    let bench = Bench { machine, agreement };
    let link = json!({"code": "x", "destination": "https://d.example/"});
    bench.ok("POST", "/v1/links?account=a", &link);
    let work = |key: &str| {
        click(&bench, 3);
        let job = json!({"key": key, "feature": "tokens", "hold": 50, "lease_seconds": 3600});
        let job = bench.ok("POST", "/v1/jobs?account=a", &job);
        let id = job["id"].as_str().expect("an id");
        let target = |what: &str| format!("/v1/jobs/{id}/{what}?account=a");
        bench.ok("POST", &target("charges"), &json!({"units": 7}));
        let used = json!({"used": 30, "reason": "by hand"});
        bench.ok("POST", &target("settle"), &used);
        bench.machine.advance(10 * MINUTE);
        bench.run("sweeper");
        bench.run("reporter");
    };
    work("before");
    let an_hour_ago = bench.machine.ledger.snapshot().expect("a copy");
    for round in 0..5 {
        work(&format!("round-{round}"));
    }
    let before = books(&bench);
    assert_eq!(bench.meter(), 18);
    bench
        .machine
        .ledger
        .restore(&an_hour_ago)
        .expect("put back");
    assert_ne!(books(&bench), before);

    // Nothing is concluded and nothing is written while anything may be missing.
    let reported = bench.run("reporter");
    assert_eq!(
        (&reported["restored"], &reported["tried"]),
        (&json!(true), &json!(0))
    );
    let one = bench.ok("POST", "/v1/run/reconciler", &json!({"account": "a"}));
    assert_eq!(
        (&one["incomplete"], &one["repaired"]),
        (&json!(2), &json!(0))
    );
    assert_eq!(bench.run("reconciler")["incomplete"], 2);
    assert_eq!(bench.meter(), 18);
    // That run has handed everybody their rows, and everybody has caught up.
    assert_eq!(books(&bench), before, "the same rows, the same sums");
    let reported = bench.run("reporter");
    assert_eq!(
        (&reported["restored"], &reported["failed"]),
        (&json!(false), &json!(0))
    );
    let found = bench.run("reconciler");
    assert_eq!(
        (&found["matched"], &found["drifted"]),
        (&json!(2), &json!(0)),
        "{found}"
    );
    assert_eq!((bench.meter(), bench.reviews().len()), (18, 0));
    let budget = bench.ok("GET", "/v1/budget?account=a&feature=tokens", &Value::Null);
    assert_eq!((&budget["used"], &budget["held"]), (&json!(180), &json!(0)));
    let tokens = bench.ok("GET", "/v1/usage?account=a&feature=tokens", &Value::Null);
    assert_eq!(tokens["total"], 180);
}

/// A customer that changes plans after the copy was taken: the ledger that is put back knows the
/// meters of the agreements in `before`, and not those of the ones in `after`.
fn plans_changed(before: &[&str], after: &[&str]) -> (Bench, Vec<String>) {
    let machine = Machine::geared(&[], Rc::new(QuickSignatures)).expect("it starts");
    let agreement = account(&machine, "a");
    let mut bench = Bench { machine, agreement };
    let link = json!({"code": "x", "destination": "https://d.example/"});
    bench.ok("POST", "/v1/links?account=a", &link);
    let mut agreements = Vec::new();
    let mut change = |bench: &mut Bench, plan: &str| {
        let set = bench.ok(
            "PUT",
            "/standin/customers/customer_a",
            &json!({"plan": plan}),
        );
        bench.machine.advance(MINUTE);
        bench.ok("POST", "/v1/account/sync?account=a", &json!({}));
        let agreement = set["agreement_id"].as_str().expect("one").to_owned();
        agreements.push(agreement.clone());
        bench.agreement = agreement;
        click(bench, 5);
        bench.run("reporter");
        assert_eq!(bench.meter(), 5);
    };
    for plan in before {
        change(&mut bench, plan);
    }
    let copy = bench.machine.ledger.snapshot().expect("a copy");
    for plan in after {
        change(&mut bench, plan);
    }
    bench.machine.ledger.restore(&copy).expect("put back");
    (bench, agreements)
}

fn held(bench: &Bench, agreements: &[String]) -> i64 {
    let held = agreements
        .iter()
        .map(|id| crate::meters::meter_of(&bench.machine, id));
    held.sum()
}

#[test]
fn after_a_restore_meters_are_found_again_from_the_agreements_that_the_control_database_knows() {
    for (before, after) in [
        (&["free"][..], &["pro", "free"][..]),
        (&["free"], &["pro"]),
        (&[], &["free", "pro"]),
        (&["free", "pro"], &["free", "pro"]),
    ] {
        let (bench, agreements) = plans_changed(before, after);
        let said = format!("{before:?} {after:?}");
        let all = 5 * i64::try_from(agreements.len()).expect("few");
        assert_eq!(held(&bench, &agreements), all, "{said}");
        bench.run("sweeper");
        bench.run("reconciler");
        bench.run("reconciler");
        click(&bench, 1);
        bench.run("reporter");
        assert_eq!(bench.reviews(), Vec::<Value>::new(), "{said}");
        bench.machine.advance(2 * MINUTE);
        bench.run("reporter");
        assert_eq!(held(&bench, &agreements), all + 1, "{said}");
        assert_eq!(bench.meters()[0]["ledger"], all + 1, "{said}");
        assert_eq!(bench.run("reconciler")["matched"], 2, "{said}");
    }
}

#[test]
fn the_current_meter_is_found_again_too_and_asked_about_once_its_period_is_over() {
    let (bench, _) = plans_changed(&[], &["free"]);
    bench.run("sweeper");
    bench.run("reconciler");
    // Whatever the meter held belongs to a period that nobody can read any more.
    let period =
        json!({"period_start": "2026-11-10T12:01:30Z", "period_end": "2026-12-01T00:00:00Z"});
    bench.ok("PUT", "/standin/customers/customer_a", &period);
    bench.machine.advance(2 * MINUTE);
    bench.ok("POST", "/v1/account/sync?account=a", &json!({}));
    click(&bench, 3);
    bench.run("reporter");
    assert_eq!(bench.meter(), 0, "five may be billed already");
    let reviews = bench.reviews();
    assert_eq!(
        (reviews.len(), &reviews[0]["kind"]),
        (1, &json!("base_in_doubt"))
    );
}

#[test]
fn an_earlier_meter_that_was_written_after_the_copy_and_cannot_be_read_is_asked_about() {
    let machine = Machine::geared(&[], Rc::new(QuickSignatures)).expect("it starts");
    let agreement = account(&machine, "a");
    let bench = Bench { machine, agreement };
    bench.use_clicks("one", 10);
    bench.run("reporter");
    let copy = bench.machine.ledger.snapshot().expect("a copy");
    bench.use_clicks("two", 5);
    bench.machine.advance(MINUTE);
    bench.run("reporter");
    bench.ok(
        "PUT",
        "/standin/customers/customer_a",
        &json!({"plan": "pro"}),
    );
    bench.ok("POST", "/v1/account/sync?account=a", &json!({}));
    bench.machine.ledger.restore(&copy).expect("put back");
    bench.run("reconciler");
    bench.fault("meter_read", "error", 1_000);
    bench.use_clicks("two", 5);
    for _ in 0..70 {
        bench.machine.advance(MINUTE);
        bench.run("reporter");
    }
    let reviews = bench.reviews();
    assert_eq!(
        (reviews.len(), &reviews[0]["kind"]),
        (1, &json!("base_in_doubt"))
    );
}

#[test]
fn after_a_restore_cron_fills_the_ledger_again_and_sweeps_accounts_that_nobody_else_visits() {
    let machine = Machine::geared(&[], Rc::new(QuickSignatures)).expect("it starts");
    let agreement = account(&machine, "a");
    let bench = Bench { machine, agreement };
    let tick = || {
        block_on(counterfoil::cron::tick(&bench.machine.world()));
        bench.machine.finish_background();
    };
    tick();
    let copy = bench.machine.ledger.snapshot().expect("a copy");
    let job = json!({"key": "one", "feature": "tokens", "hold": 50, "lease_seconds": 30});
    bench.ok("POST", "/v1/jobs?account=a", &job);
    bench.machine.advance(1_000);
    tick();
    bench.machine.ledger.restore(&copy).expect("put back");
    let id = counterfoil::units::AccountId::new("a").expect("an id");
    let name = counterfoil::ports::ObjectName::Account(id);
    bench.machine.objects.lose_alarm(&name);
    bench.machine.advance(MINUTE);
    tick();
    let storage = bench.machine.objects.storage(&name).expect("its storage");
    let held = Statement::new("select sum(held) as held from budget", vec![]);
    let rows = block_on(Db::query(&storage, held)).expect("it reads");
    assert_eq!(
        rows[0].int("held").expect("a number"),
        0,
        "its lease is over"
    );
    bench.machine.advance(MINUTE);
    tick();
    let reported = bench.run("reporter");
    assert_eq!(reported["restored"], false);
}
