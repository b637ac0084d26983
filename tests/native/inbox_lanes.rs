//! Lanes: one event of a customer at a time, what a lost worker leaves, crashes at every step,
//! random deliveries, upgrades behind a provider that lags.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use counterfoil::inbox::apply::{self, Doorbell};
use counterfoil::inbox::{lane, watchdog};
use counterfoil::native::executor::block_on;
use counterfoil::native::faulty::{Faults, FaultyGear, Then, When};
use counterfoil::native::machine::{Gear, ManualClock};
use counterfoil::native::simulation::chance::Chance;
use counterfoil::parallel;
use counterfoil::plans::sync::{Cause, sync};
use counterfoil::ports::{Db, Later, Rows, Signatures, Statement};
use counterfoil::provider::{Agreement, Agreements, Limits, Provider, ProviderFault, SigningKey};
use counterfoil::units::{AccountId, AgreementId, CustomerId, Delta, Millis, PlanCode, Units};
use counterfoil::world::{Calls, World};
use serde_json::{Value as Json, json};

use super::inbox_desk::Desk;
use super::quick::QuickSignatures;

/// Faults around the databases, quick signatures.
struct Faulty(FaultyGear);

impl Gear for Faulty {
    fn db(&self, name: &'static str, plain: Rc<dyn Db>) -> Rc<dyn Db> {
        self.0.db(name, plain)
    }
    fn signatures(&self) -> Rc<dyn Signatures> {
        QuickSignatures.signatures()
    }
}

fn faulty() -> (Rc<Faults>, Desk) {
    let faults = Rc::new(Faults::default());
    let gear = Faulty(FaultyGear(Rc::clone(&faults)));
    (faults, Desk::geared(&[], Rc::new(gear)))
}

/// A customer that bought Pro, and three events of it that are stored and not yet applied.
fn pro_with_three_events(desk: &Desk) -> Vec<String> {
    desk.account("a");
    desk.machine.advance(1000);
    desk.customer("customer_a", &json!({"plan": "pro"}));
    let plan = json!({"data": {"plan": {"key": "pro"}}});
    let tokens = [
        desk.sign("customer.agreement_created", "a", &json!({})),
        desk.sign("customer.plan_changed", "a", &plan),
        desk.sign("customer.payment_succeeded", "a", &json!({})),
    ];
    let world = desk.machine.world();
    tokens
        .iter()
        .map(|jwt| {
            let body = counterfoil::http::request::Body::Whole(jwt.clone().into_bytes());
            let intake = counterfoil::inbox::receive::intake(&world, &body, None);
            block_on(intake)
                .expect("it is stored")
                .expect("it is taken")
                .id
        })
        .collect()
}

/// Goal: whichever statement of an apply fails, before or after it took effect, and whether or not
/// the process lives on, the same end is reached. Method: fail the n-th one for n = 1, 2, … until a
/// run passes without meeting it.
#[test]
fn a_crash_at_any_statement_of_an_apply_ends_at_the_same_plan_and_balance() {
    let (faults, desk) = faulty();
    pro_with_three_events(&desk);
    let stored = desk.machine.control.snapshot().expect("a copy");
    let mut crashes = 0;
    for then in [Then::GoesOn, Then::Stands] {
        for when in [When::Before, When::After] {
            for nth in 1..200 {
                desk.machine
                    .control
                    .restore(&stored)
                    .expect("it is put back");
                faults.fail_at(nth, when, then);
                let run = block_on(lane::run(&desk.machine.world(), "customer_a"));
                let met = faults.seen() >= nth;
                faults.mend();
                assert!(met || run.is_ok());
                desk.minutes(3);
                let case = format!("{then:?} {when:?} {nth}");
                assert_eq!(desk.plan("a"), ("pro".to_owned(), 500), "{case}");
                let open = "select count(*) as n from event where next_at_ms is not null";
                assert_eq!(desk.count(open), 0, "{case}");
                let pro = "select count(*) as n from grant_row where plan = 'pro'";
                assert_eq!(desk.count(pro), 1, "{case}");
                if !met {
                    break;
                }
                crashes += 1;
            }
        }
    }
    assert!(crashes > 45, "{crashes}");
}

/// The control database, one turn of waiting and one millisecond for each statement.
struct Slow {
    inner: Rc<dyn Db>,
    clock: Rc<RefCell<Option<Rc<ManualClock>>>>,
}

impl Slow {
    async fn turn(&self) {
        if let Some(clock) = &*self.clock.borrow() {
            clock.0.set(clock.0.get().after(1));
        }
        let mut waited = false;
        std::future::poll_fn(|_| {
            if std::mem::replace(&mut waited, true) {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
    }
}

impl Db for Slow {
    fn query(&self, statement: Statement) -> Later<'_, Result<Rows, counterfoil::fault::Fault>> {
        Box::pin(async move {
            self.turn().await;
            self.inner.query(statement).await
        })
    }
    fn batch(
        &self,
        statements: Vec<Statement>,
    ) -> Later<'_, Result<Vec<Rows>, counterfoil::fault::Fault>> {
        Box::pin(async move {
            self.turn().await;
            self.inner.batch(statements).await
        })
    }
}

struct SlowGear(Rc<RefCell<Option<Rc<ManualClock>>>>);

impl Gear for SlowGear {
    fn db(&self, name: &'static str, plain: Rc<dyn Db>) -> Rc<dyn Db> {
        if name != "DB" {
            return plain;
        }
        Rc::new(Slow {
            inner: plain,
            clock: Rc::clone(&self.0),
        })
    }
    fn signatures(&self) -> Rc<dyn Signatures> {
        QuickSignatures.signatures()
    }
}

fn slow() -> Desk {
    let clock = Rc::new(RefCell::new(None));
    let desk = Desk::geared(&[], Rc::new(SlowGear(Rc::clone(&clock))));
    clock.replace(Some(Rc::clone(&desk.machine.clock)));
    desk
}

#[test]
fn two_events_of_one_customer_never_overlap_and_customers_run_in_parallel() {
    let desk = slow();
    let customers = 100;
    for number in 0..customers {
        desk.account(&format!("c{number}"));
        for _ in 0..3 {
            let jwt = desk.sign(
                "customer.payment_succeeded",
                &format!("c{number}"),
                &json!({}),
            );
            let body = counterfoil::http::request::Body::Whole(jwt.into_bytes());
            let world = desk.machine.world();
            let intake = counterfoil::inbox::receive::intake(&world, &body, None);
            block_on(intake)
                .expect("it is stored")
                .expect("it is taken");
        }
    }
    let world = desk.machine.world();
    let names: Vec<String> = (0..customers).map(|n| format!("customer_c{n}")).collect();
    // Three workers for each lane, all at once.
    let works = (0..3)
        .flat_map(|_| &names)
        .map(|name| -> Later<'_, _> { Box::pin(lane::run(&world, name)) })
        .collect();
    for ran in parallel::all(works, 300).await_now() {
        ran.expect("it runs");
    }
    desk.minutes(2);
    assert_eq!(
        desk.count("select count(*) as n from event where status = 'applied'"),
        300
    );
    let overlaps = "select count(*) as n from run a join run b on a.lane = b.lane \
        and a.token < b.token and a.began_at_ms < b.ended_at_ms and b.began_at_ms < a.ended_at_ms";
    assert_eq!(desk.count(overlaps), 0);
    let parallel = "select count(*) as n from run a join run b on a.lane < b.lane \
        and a.began_at_ms < b.ended_at_ms and b.began_at_ms < a.ended_at_ms";
    assert!(desk.count(parallel) > 1000);
}

trait AwaitNow {
    type Output;
    fn await_now(self) -> Self::Output;
}

impl<F: Future> AwaitNow for F {
    type Output = F::Output;
    fn await_now(self) -> F::Output {
        block_on(self)
    }
}

#[test]
fn a_worker_that_lost_its_lease_changes_nothing() {
    let desk = Desk::new(&[]);
    let ids = pro_with_three_events(&desk);
    let world = desk.machine.world();
    let first = block_on(lane::claim(&world, "customer_a"))
        .expect("no fault")
        .expect("a claim");
    assert!(
        block_on(lane::claim(&world, "customer_a"))
            .expect("no fault")
            .is_none()
    );
    // Its lease runs out, another worker takes the event and finishes it.
    desk.machine
        .clock
        .0
        .set(desk.machine.clock.0.get().after(30_000));
    let second = block_on(lane::claim(&world, "customer_a"))
        .expect("no fault")
        .expect("a claim");
    assert_eq!((&second.id, second.attempts), (&first.id, 2));
    block_on(apply::apply(&world, &second, Doorbell::Rings)).expect("it applies");
    let before = desk.machine.control.snapshot().expect("a copy");
    let stale = lane::Claimed {
        give_up_at: Millis::new(i64::MAX),
        ..first.clone()
    };
    let mine = lane::End {
        status: "dead",
        result: "late".to_owned(),
        next_at: None,
        attempts: 9,
        outages: 9,
    };
    let effect = Statement::new("update account set plan = 'late'", Vec::new());
    let late = block_on(lane::commit(&world, &stale, vec![effect], &mine));
    assert_eq!(late, Ok(lane::Committed::Lost));
    block_on(apply::apply(&world, &stale, Doorbell::Rings)).expect("it gives up quietly");
    let rows = |db: &counterfoil::native::sqlite::Sqlite| {
        let sql = "select e.id, e.status, e.result, e.attempts, a.plan from event e join account a";
        block_on(Db::query(db, Statement::new(sql, Vec::new()))).expect("it reads")
    };
    assert_eq!(rows(&before), rows(&desk.machine.control));
    let lost = format!(
        "select count(*) as n from run where id = '{}' and outcome = 'lost'",
        ids[0]
    );
    assert_eq!(desk.count(&lost), 1);
}

/// A fence on the event alone would let it through: the event is being processed, by another.
#[test]
fn a_batch_that_lands_while_the_next_worker_has_the_same_event_changes_nothing() {
    let desk = Desk::new(&[]);
    pro_with_three_events(&desk);
    let world = desk.machine.world();
    let claim = || block_on(lane::claim(&world, "customer_a")).expect("no fault");
    let first = claim().expect("a claim");
    let clock = &desk.machine.clock.0;
    clock.set(clock.get().after(30_000));
    let second = claim().expect("a claim");
    assert_eq!(second.id, first.id);
    let end = lane::End {
        status: "applied",
        result: "late".to_owned(),
        next_at: None,
        attempts: 1,
        outages: 0,
    };
    let effect = Statement::new("update account set plan = 'late'", Vec::new());
    let late = block_on(lane::commit(&world, &first, vec![effect], &end));
    assert_eq!(late, Ok(lane::Committed::Lost));
    assert_eq!(desk.plan("a").0, "free");
    // The next worker still has the lane, and finishes.
    block_on(apply::apply(&world, &second, Doorbell::Rings)).expect("it applies");
    assert_eq!(desk.plan("a").0, "pro");
    let applied = format!(
        "select count(*) as n from event where id = '{}' and status = 'applied' \
        and result <> 'late'",
        second.id
    );
    assert_eq!(desk.count(&applied), 1);
}

#[test]
fn an_apply_gives_up_by_itself_after_two_thirds_of_its_lease() {
    let desk = Desk::new(&[]);
    pro_with_three_events(&desk);
    let world = desk.machine.world();
    let claimed = block_on(lane::claim(&world, "customer_a"))
        .expect("no fault")
        .expect("a claim");
    desk.machine
        .clock
        .0
        .set(desk.machine.clock.0.get().after(20_001));
    let outcome = block_on(apply::apply(&world, &claimed, Doorbell::Rings));
    assert!(outcome.is_err_and(|fault| fault.to_string().contains("too long")));
    assert_eq!(desk.plan("a").0, "free");
}

#[test]
fn failures_follow_the_schedule_then_the_event_is_dead_alerted_and_blocks_nobody() {
    let desk = Desk::new(&[]);
    desk.account("a");
    let poison = desk.sign("user.deleted", "a", &json!({}));
    desk.post(poison.as_bytes(), "w");
    // Make it fail for ever: its review cannot be written.
    let drop = Statement::new("alter table review rename to gone", Vec::new());
    block_on(Db::query(&desk.machine.ledger, drop)).expect("it is renamed");
    let id = desk.events("")[0]["id"].as_str().unwrap().to_owned();
    desk.ok("POST", &format!("/v1/events/{id}/replay"), &Json::Null);
    let mut waits = Vec::new();
    for _ in 0..5 {
        let event = desk.ok("GET", &format!("/v1/events/{id}"), &Json::Null);
        assert_eq!(event["status"], "failed");
        let next = counterfoil::moment::parse_millis(event["next_at"].as_str().unwrap()).unwrap();
        let wait = next.since(desk.machine.clock.0.get());
        waits.push((event["attempts"].as_i64().unwrap(), wait));
        desk.machine.clock.0.set(next);
        desk.machine.fire_alarms();
        desk.watchdog();
    }
    for ((attempt, wait), (number, seconds)) in
        waits
            .into_iter()
            .zip([(1, 5), (2, 30), (3, 120), (4, 600), (5, 3600)])
    {
        assert_eq!(attempt, number);
        assert!(
            (seconds * 1000..=seconds * 1100).contains(&wait),
            "{attempt}: {wait}"
        );
    }
    let event = desk.ok("GET", &format!("/v1/events/{id}"), &Json::Null);
    assert_eq!(
        (event["status"].as_str(), event["attempts"].as_i64()),
        (Some("dead"), Some(6))
    );
    assert_eq!(
        desk.count("select count(*) as n from alert where kind = 'dead'"),
        1
    );
    let later = desk.send("customer.payment_succeeded", "a", &json!({}));
    assert_eq!(desk.end(&later).0, "applied");
}

#[test]
fn a_hundred_dead_events_do_not_keep_a_new_one_waiting() {
    let desk = Desk::new(&[]);
    desk.account("a");
    for _ in 0..100 {
        desk.send("customer.payment_succeeded", "a", &json!({}));
    }
    let dead = Statement::new("update event set status = 'dead'", Vec::new());
    block_on(Db::query(&desk.machine.control, dead)).expect("it is written");
    let event = desk.send("customer.payment_succeeded", "a", &json!({}));
    assert_eq!(desk.end(&event).0, "applied");
    assert_eq!(desk.watchdog().lanes, 0);
}

#[test]
fn an_outage_uses_up_no_try_and_all_are_applied_soon_after_it() {
    let desk = Desk::new(&[]);
    for number in 0..50 {
        desk.account(&format!("c{number}"));
    }
    desk.machine.advance(1000);
    desk.fault("plan", "error");
    let mut events = Vec::new();
    for number in 0..50 {
        desk.customer(&format!("customer_c{number}"), &json!({"plan": "pro"}));
        // Names no plan: only the provider can say.
        events.push(desk.send(
            "customer.agreement_created",
            &format!("c{number}"),
            &json!({}),
        ));
    }
    desk.minutes(20);
    for event in &events {
        let stored = desk.event(event);
        assert_eq!(
            (stored["status"].as_str(), stored["attempts"].as_i64()),
            (Some("failed"), Some(0))
        );
    }
    desk.fault("plan", "ok");
    desk.minutes(2);
    for (number, event) in events.iter().enumerate() {
        assert_eq!(desk.end(event).0, "applied");
        assert_eq!(desk.plan(&format!("c{number}")).0, "pro");
    }
}

#[test]
fn an_event_of_an_unknown_customer_waits_and_applies_once_the_account_exists() {
    let desk = Desk::new(&[]);
    desk.customer("customer_a", &json!({"plan": "pro"}));
    let event = desk.send(
        "customer.plan_changed",
        "a",
        &json!({"data": {"plan": {"key": "pro"}}}),
    );
    let (status, result) = desk.end(&event);
    assert_eq!(
        (status.as_str(), result.as_str()),
        ("waiting", "no account has this customer yet")
    );
    assert_eq!(desk.event(&event)["attempts"], 0);
    desk.account("a");
    desk.minutes(1);
    assert_eq!(desk.end(&event).0, "applied");
    let never = desk.send("customer.plan_changed", "b", &json!({}));
    for _ in 0..31 {
        desk.machine.advance(86_400_000);
        desk.watchdog();
    }
    let (status, result) = desk.end(&never);
    assert_eq!(status, "ignored");
    assert!(
        result.starts_with("no account had this customer until"),
        "{result}"
    );
}

#[test]
fn a_copy_makes_a_waiting_event_due_at_once() {
    let desk = Desk::new(&[]);
    desk.account("a");
    desk.machine.advance(1000);
    desk.fault("plan", "error");
    let jwt = desk.sign("customer.agreement_created", "a", &json!({}));
    desk.post(jwt.as_bytes(), "w");
    assert_eq!(desk.events("")[0]["status"], "failed");
    desk.fault("plan", "ok");
    desk.post(jwt.as_bytes(), "w");
    assert_eq!(desk.events("")[0]["status"], "applied");
}

#[test]
fn every_replay_runs_and_is_seen_while_effects_stay_once() {
    let desk = Desk::new(&[]);
    desk.customer("customer_a", &json!({"plan": "pro"}));
    desk.account("a");
    desk.account("b");
    let event = desk.send("customer.payment_succeeded", "a", &json!({}));
    let id = desk.event(&event)["id"].as_str().unwrap().to_owned();
    for _ in 0..3 {
        let (status, _) = desk.machine.call(
            "POST",
            &format!("/v1/events/{id}/replay?account=a"),
            "dev-backend",
            &Json::Null,
        );
        assert_eq!(status, 202);
    }
    let shown = desk.ok("GET", &format!("/v1/events/{id}"), &Json::Null);
    assert_eq!(shown["runs"].as_array().unwrap().len(), 4);
    assert_eq!(desk.plan("a"), ("pro".to_owned(), 500));
    assert_eq!(
        desk.count("select count(*) as n from grant_row where account_id = 'a'"),
        1
    );
    let other = format!("/v1/events/{id}/replay?account=b");
    assert_eq!(
        desk.machine
            .call("POST", &other, "dev-operator", &Json::Null)
            .0,
        404
    );
    let target = format!("/v1/events/{id}?account=b");
    assert_eq!(
        desk.machine
            .call("GET", &target, "dev-operator", &Json::Null)
            .0,
        404
    );
    let (status, answer) = desk.machine.call(
        "POST",
        "/v1/events/replay",
        "dev-operator",
        &json!({"status": "applied", "type": "customer.payment_succeeded"}),
    );
    assert_eq!((status, answer["queued"].as_i64()), (202, Some(1)));
    assert_eq!(desk.end(&event).0, "applied");
}

#[test]
fn replaying_the_older_event_after_the_newer_is_ignored_with_its_reason() {
    let desk = Desk::new(&[]);
    desk.account("a");
    desk.machine.advance(1000);
    desk.customer("customer_a", &json!({"plan": "pro"}));
    let older = desk.send(
        "customer.plan_changed",
        "a",
        &json!({"data": {"plan": {"key": "pro"}}}),
    );
    desk.machine.advance(1000);
    let newer = desk.send(
        "customer.plan_assigned",
        "a",
        &json!({"data": {"plan": {"key": "pro"}}}),
    );
    assert_eq!(
        (desk.end(&older).0, desk.end(&newer).0),
        ("applied".to_owned(), "applied".to_owned())
    );
    let id = desk.event(&older)["id"].as_str().unwrap().to_owned();
    desk.ok("POST", &format!("/v1/events/{id}/replay"), &Json::Null);
    let reason = "a newer plan change is already stored".to_owned();
    assert_eq!(desk.end(&older), ("ignored".to_owned(), reason));
}

#[test]
fn only_the_operator_skips_with_a_reason_and_never_what_was_applied() {
    let desk = Desk::new(&[]);
    let event = desk.send("customer.plan_changed", "nobody", &json!({}));
    let id = desk.event(&event)["id"].as_str().unwrap().to_owned();
    let skip = format!("/v1/events/{id}/skip");
    let reason = json!({"reason": "a test tenant"});
    assert_eq!(
        desk.machine.call("POST", &skip, "dev-backend", &reason).0,
        403
    );
    assert_eq!(
        desk.machine
            .call("POST", &skip, "dev-operator", &json!({}))
            .0,
        422
    );
    let replay = format!("/v1/events/{id}/replay");
    assert_eq!(
        desk.machine
            .call("POST", &replay, "dev-operator", &Json::Null)
            .0,
        202
    );
    assert_eq!(
        desk.machine.call("POST", &skip, "dev-operator", &reason).0,
        202
    );
    assert_eq!(
        desk.end(&event),
        ("skipped".to_owned(), "a test tenant".to_owned())
    );
    desk.minutes(2);
    assert_eq!(desk.end(&event).0, "skipped");
    desk.account("a");
    let done = desk.send("customer.payment_succeeded", "a", &json!({}));
    let id = desk.event(&done)["id"].as_str().unwrap().to_owned();
    assert_eq!(
        desk.machine
            .call(
                "POST",
                &format!("/v1/events/{id}/skip"),
                "dev-operator",
                &reason
            )
            .0,
        409
    );
    let audit = desk.ok("GET", "/v1/audit", &Json::Null);
    let skipped = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .any(|row| row["action"] == "event.skip");
    assert!(skipped);
}

#[test]
fn bodies_go_after_thirty_days_and_ids_and_results_stay() {
    let desk = Desk::new(&[]);
    desk.account("a");
    let event = desk.send("customer.payment_succeeded", "a", &json!({}));
    desk.machine.advance(30 * 86_400_000 - 1000);
    assert_eq!(desk.watchdog().emptied, 0);
    desk.machine.advance(1000);
    assert_eq!(desk.watchdog().emptied, 1);
    let id = desk.event(&event)["id"].as_str().unwrap().to_owned();
    let shown = desk.ok("GET", &format!("/v1/events/{id}"), &Json::Null);
    assert_eq!(
        (shown["payload"].clone(), shown["status"].as_str()),
        (Json::Null, Some("applied"))
    );
    desk.ok("POST", &format!("/v1/events/{id}/replay"), &Json::Null);
    assert_eq!(desk.end(&event).0, "applied");
}

/// Goal: whatever is lost, repeated, reordered or cut off at any statement, the last word is the
/// provider's. Method: seeds; 40 deliveries of five events each, crashes at a random statement.
#[test]
fn forty_random_deliveries_with_losses_copies_and_crashes_end_alike() {
    let (mut crashed, mut refused) = (0, 0);
    for seed in 0..40 {
        let mut chance = Chance::of_seed(seed);
        let (faults, desk) = faulty();
        desk.account("a");
        desk.machine.advance(60_000);
        let cancelled = desk.sign("customer.agreement_cancelled", "a", &json!({}));
        desk.machine.advance(180_000);
        desk.customer("customer_a", &json!({"plan": "pro"}));
        let plan = json!({"data": {"plan": {"key": "pro"}}});
        let tokens = [
            desk.sign("customer.payment_succeeded", "a", &json!({})),
            desk.sign("customer.plan_changed", "a", &plan),
            desk.sign("customer.agreement_created", "a", &json!({})),
            desk.sign("customer.plan_assigned", "a", &plan),
            cancelled,
        ];
        let mut arrived = [false; 5];
        for _ in 0..40 {
            let which = chance.below(tokens.len());
            if chance.below(4) == 0 {
                let when = if chance.below(2) == 0 {
                    When::Before
                } else {
                    When::After
                };
                let then = if chance.below(2) == 0 {
                    Then::GoesOn
                } else {
                    Then::Stands
                };
                faults.fail_at(u32::try_from(chance.below(25)).unwrap() + 1, when, then);
            }
            let (status, _) = desk.post(tokens[which].as_bytes(), "w");
            crashed += u32::from(faults.seen() > 0);
            faults.mend();
            arrived[which] |= status == 200;
            refused += u32::from(status != 200);
            desk.machine.advance(chance.between(0, 20_000));
        }
        // The sender repeats what was never answered 200.
        for (token, _) in tokens.iter().zip(arrived).filter(|(_, arrived)| !arrived) {
            assert_eq!(desk.post(token.as_bytes(), "w").0, 200);
        }
        desk.minutes(8);
        assert_eq!(desk.plan("a"), ("pro".to_owned(), 500), "seed {seed}");
        assert_eq!(
            desk.count("select count(*) as n from event where next_at_ms is not null"),
            0
        );
        assert_eq!(
            desk.count("select count(*) as n from event"),
            5,
            "seed {seed}"
        );
        assert_eq!(
            desk.count("select count(*) as n from grant_row where plan = 'pro'"),
            1
        );
    }
    assert!(crashed > 100 && refused > 10, "{crashed} {refused}");
}

/// A provider whose reads lag behind what was bought.
#[derive(Default)]
struct Lagging {
    /// Customer → (plan, reads that still show Free).
    bought: RefCell<BTreeMap<String, Cell<u32>>>,
}

impl Provider for Lagging {
    fn limits<'a>(&'a self, _: &'a CustomerId) -> Later<'a, Result<Limits, ProviderFault>> {
        Box::pin(async { Err(ProviderFault::Unknown("not asked".to_owned())) })
    }
    fn agreements<'a>(
        &'a self,
        customer: &'a CustomerId,
    ) -> Later<'a, Result<Agreements, ProviderFault>> {
        let bought = self.bought.borrow();
        let lag = bought.get(customer.as_str());
        let is_pro = lag.is_some_and(|lag| {
            let left = lag.get();
            lag.set(left.saturating_sub(1));
            left == 0
        });
        let (id, plan) = if is_pro {
            ("agreement_pro", "pro")
        } else {
            ("agreement_free", "free")
        };
        let agreement = Agreement {
            agreement_id: AgreementId::new(id).expect("an id"),
            plan: PlanCode::new(plan).expect("a plan"),
            expires_at: None,
            period_start: Some(Millis::new(1_793_491_200_000)),
            period_end: None,
            feature_keys: Vec::new(),
        };
        let found = Agreements {
            agreements: vec![agreement],
            subscribed_on: BTreeMap::new(),
        };
        Box::pin(async move { Ok(found) })
    }
    fn write_meter<'a>(
        &'a self,
        _: &'a AgreementId,
        _: &'a str,
        _: Units,
        _: Millis,
    ) -> Later<'a, Result<(), ProviderFault>> {
        Box::pin(async { Err(ProviderFault::Unknown("not asked".to_owned())) })
    }
    fn read_meter<'a>(
        &'a self,
        _: &'a AgreementId,
        _: &'a str,
    ) -> Later<'a, Result<Delta, ProviderFault>> {
        Box::pin(async { Err(ProviderFault::Unknown("not asked".to_owned())) })
    }
    fn signing_keys(&self) -> Later<'_, Result<Vec<SigningKey>, ProviderFault>> {
        Box::pin(async { Err(ProviderFault::Unknown("not asked".to_owned())) })
    }
}

/// How many upgrades are simulated: `UPGRADES`, else so many that the tests stay quick.
fn upgrades() -> i64 {
    let set = std::env::var("UPGRADES").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(150)
}

/// Goal: nobody who paid stays on Free. Method: upgrades whose events come in random order, some
/// of them never, while the provider's read lags by up to three reads.
#[test]
fn of_many_upgrades_behind_a_lagging_provider_none_is_stuck() {
    let desk = Desk::new(&[]);
    let lagging = Rc::new(Lagging::default());
    let as_provider: Rc<dyn Provider> = Rc::<Lagging>::clone(&lagging);
    let plain = desk.machine.world();
    let world = Rc::new(World {
        provider: as_provider,
        ..(*plain).clone()
    });
    let mut chance = Chance::of_seed(7);
    for number in 0..upgrades() {
        let id = format!("u{number}");
        desk.account(&id);
        desk.machine
            .clock
            .0
            .set(desk.machine.clock.0.get().after(1000));
        let customer = format!("customer_{id}");
        let reads = u32::try_from(chance.below(4)).unwrap();
        lagging
            .bought
            .borrow_mut()
            .insert(customer.clone(), Cell::new(reads));
        let pro = json!({"data": {"plan": {"key": "pro"}, "agreement_id": "agreement_pro"}});
        let free = json!({"data": {"agreement_id": "agreement_free"}});
        let mut tokens = vec![
            desk.sign("customer.agreement_created", &id, &free),
            desk.sign("customer.plan_changed", &id, &pro),
            desk.sign("customer.payment_succeeded", &id, &json!({})),
            desk.sign("customer.agreement_cancelled", &id, &free),
        ];
        for _ in 0..chance.below(3) {
            let lost = chance.below(tokens.len());
            if lost != 1 {
                tokens.remove(lost.min(tokens.len() - 1));
                break;
            }
        }
        while !tokens.is_empty() {
            let jwt = tokens.remove(chance.below(tokens.len()));
            let body = counterfoil::http::request::Body::Whole(jwt.into_bytes());
            let intake = counterfoil::inbox::receive::intake(&plain, &body, None);
            block_on(intake)
                .expect("it is stored")
                .expect("it is taken");
            block_on(lane::run(&world, &customer)).expect("it runs");
        }
    }
    for _ in 0..7 {
        desk.machine
            .clock
            .0
            .set(desk.machine.clock.0.get().after(60_000));
        block_on(watchdog::run(&world, &Calls::new(1_000_000))).expect("it runs");
    }
    let stuck = "select count(*) as n from account where customer_id like 'customer_u%' \
        and plan <> 'pro'";
    assert_eq!(desk.count(stuck), 0);
    let granted = "select count(*) as n from grant_row where plan = 'pro' and units = 500";
    assert_eq!(desk.count(granted), upgrades());
}

#[test]
fn a_read_that_began_earlier_never_overwrites_a_later_one() {
    let desk = Desk::new(&[]);
    desk.account("a");
    let id = AccountId::new("a").unwrap();
    let customer = CustomerId::new("customer_a").unwrap();
    let world = desk.machine.world();
    // A slow read takes its ticket first and comes back last, with Free.
    let slow = block_on(counterfoil::plans::sync::ask(&world, &customer)).expect("a ticket");
    desk.customer("customer_a", &json!({"plan": "pro"}));
    block_on(sync(&world, &id, Cause::Asked)).expect("it syncs");
    let known = block_on(counterfoil::plans::store::known(&*world.db, &id))
        .unwrap()
        .unwrap();
    assert!(known.written > slow.ticket);
    let read = counterfoil::plans::sync::Read {
        ticket: slow.ticket,
        began: slow.began,
        found: slow.answer.expect("an answer"),
    };
    let prepared = counterfoil::plans::sync::prepare(&world.settings, known, &read, &Cause::Asked);
    assert_eq!(prepared.outcome.plan.as_str(), "free");
    assert!(block_on(world.db.batch(prepared.statements)).is_err());
    assert_eq!(desk.plan("a").0, "pro");
}

#[test]
fn one_fact_told_under_four_ids_is_four_events_and_one_effect() {
    let desk = Desk::new(&[]);
    desk.customer("customer_a", &json!({"plan": "pro"}));
    desk.account("a");
    for _ in 0..4 {
        let event = desk.send(
            "customer.payment_succeeded",
            "a",
            &json!({"data": {"amount": 7}}),
        );
        assert_eq!(desk.end(&event).0, "applied");
    }
    assert_eq!(desk.events("&account=a").len(), 4);
    let grants = "select count(*) as n from grant_row where account_id = 'a'";
    assert_eq!(desk.count(grants), 1);
}

#[test]
fn a_backlog_of_two_hours_is_applied_and_not_passed_over_for_its_age() {
    let desk = Desk::new(&[]);
    desk.account("a");
    desk.machine.advance(1000);
    desk.customer("customer_a", &json!({"plan": "pro"}));
    let plan = desk.sign(
        "customer.plan_changed",
        "a",
        &json!({"data": {"plan": {"key": "pro"}}}),
    );
    let paid = desk.sign("customer.payment_succeeded", "a", &json!({}));
    desk.machine.advance(2 * 3_600_000);
    for jwt in [paid, plan] {
        assert_eq!(desk.post(jwt.as_bytes(), "w").0, 200);
    }
    assert!(
        desk.events("")
            .iter()
            .all(|event| event["status"] == "applied")
    );
    assert_eq!(desk.plan("a"), ("pro".to_owned(), 500));
}

#[test]
fn of_the_events_that_wait_in_a_lane_the_oldest_comes_first() {
    let desk = Desk::new(&[]);
    desk.account("a");
    desk.customer("customer_a", &json!({"plan": "pro"}));
    let plan = json!({"data": {"plan": {"key": "pro"}}});
    let mut tokens = Vec::new();
    for _ in 0..3 {
        desk.machine.advance(1000);
        tokens.push(desk.sign("customer.plan_changed", "a", &plan));
    }
    let world = desk.machine.world();
    for jwt in tokens.into_iter().rev() {
        let body = counterfoil::http::request::Body::Whole(jwt.into_bytes());
        let intake = counterfoil::inbox::receive::intake(&world, &body, None);
        block_on(intake)
            .expect("it is stored")
            .expect("it is taken");
    }
    block_on(lane::run(&world, "customer_a")).expect("it runs");
    // Behind a newer one the older ones would be ignored.
    let ends = desk.count("select count(*) as n from event where status = 'applied'");
    assert_eq!(ends, 3);
}

#[test]
fn an_apply_that_fails_once_stays_with_its_attempt_and_error_and_a_later_run_applies_it() {
    let (faults, desk) = faulty();
    let id = pro_with_three_events(&desk).remove(0);
    let others = "update event set status = 'skipped', next_at_ms = null where type <> \
        'customer.agreement_created'";
    desk.sql(others);
    // The claim passes, the first statement behind it does not.
    faults.fail_at(2, When::Before, Then::GoesOn);
    block_on(lane::run(&desk.machine.world(), "customer_a")).expect("it goes on");
    faults.mend();
    let first = desk.ok("GET", &format!("/v1/events/{id}"), &Json::Null);
    assert_eq!(
        (first["status"].as_str(), first["attempts"].as_i64()),
        (Some("failed"), Some(1))
    );
    assert!(
        first["result"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
    );
    assert!(first["next_at"].is_string());
    desk.minutes(1);
    let first = desk.ok("GET", &format!("/v1/events/{id}"), &Json::Null);
    assert_eq!(
        (first["status"].as_str(), first["attempts"].as_i64()),
        (Some("applied"), Some(2))
    );
}
