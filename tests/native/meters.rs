//! Meters against the stand-in: what is sent, what is read back, what a fault leaves behind.
//!
//! Goal: after any fault the next runs heal, nothing is doubled and no older total wins.
//! Method: the routes of the contract on a whole native machine.

use std::rc::Rc;

use counterfoil::native::machine::Machine;
use serde_json::{Value, json};

use crate::quick::QuickSignatures;

pub const OPERATOR: &str = "dev-operator";
pub const MINUTE: i64 = 60_000;

/// A machine with one account `a` of customer `customer_a`, and its agreement.
pub struct Bench {
    pub machine: Machine,
    pub agreement: String,
}

impl Bench {
    pub fn new(settings: &[(&str, &str)]) -> Self {
        let machine = Machine::geared(settings, Rc::new(QuickSignatures)).expect("it starts");
        let agreement = account(&machine, "a");
        Self { machine, agreement }
    }

    pub fn call(&self, method: &str, target: &str, body: &Value) -> (u16, Value) {
        self.machine.call(method, target, OPERATOR, body)
    }

    pub fn ok(&self, method: &str, target: &str, body: &Value) -> Value {
        let (status, answer) = self.call(method, target, body);
        assert!(
            (200..300).contains(&status),
            "{method} {target}: {status} {answer}"
        );
        answer
    }

    /// Records usage of clicks.
    pub fn use_clicks(&self, key: &str, units: i64) {
        let body = json!({"key": key, "feature": "clicks", "units": units});
        self.ok("POST", "/v1/usage?account=a", &body);
    }

    pub fn run(&self, job: &str) -> Value {
        self.ok("POST", &format!("/v1/run/{job}"), &json!({}))
    }

    pub fn meter(&self) -> i64 {
        meter_of(&self.machine, &self.agreement)
    }

    pub fn move_meter(&self, total: i64) {
        let target = format!("/standin/meters/{}/clicks", self.agreement);
        self.ok("PUT", &target, &json!({"total": total}));
    }

    pub fn fault(&self, operation: &str, mode: &str, times: i64) {
        let body = json!({"operation": operation, "mode": mode, "times": times});
        self.ok("PUT", "/standin/faults", &body);
    }

    pub fn evidence(&self) -> Vec<Value> {
        items(&self.ok("GET", "/v1/evidence?account=a&feature=clicks", &Value::Null))
    }

    pub fn reviews(&self) -> Vec<Value> {
        items(&self.ok("GET", "/v1/review", &Value::Null))
    }

    /// The meters of clicks, in their order.
    pub fn meters(&self) -> Vec<Value> {
        let all = items(&self.ok("GET", "/v1/meters?account=a", &Value::Null));
        let clicks = |row: &Value| row["feature"] == "clicks";
        all.into_iter().filter(clicks).collect()
    }

    pub fn marked(&self) -> bool {
        self.meters().iter().any(|row| row["marked"] == true)
    }

    /// Runs the reporter until nothing is marked, a minute apart; how many runs it took.
    pub fn heal(&self) -> i64 {
        for runs in 1..=10 {
            self.machine.advance(MINUTE + 1);
            self.run("reporter");
            if !self.marked() {
                return runs;
            }
        }
        panic!("still marked: {:?}", self.meters());
    }
}

pub fn items(answer: &Value) -> Vec<Value> {
    answer["items"].as_array().expect("a list").clone()
}

/// Makes an account with a customer of its own; gives its agreement.
pub fn account(machine: &Machine, id: &str) -> String {
    let body = json!({"id": id, "customer_id": format!("customer_{id}")});
    let (status, made) = machine.call("POST", "/v1/accounts", OPERATOR, &body);
    assert_eq!(status, 201, "{made}");
    let (_, account) = machine.call("GET", &format!("/v1/accounts/{id}"), OPERATOR, &Value::Null);
    account["agreement_id"]
        .as_str()
        .expect("an agreement")
        .to_owned()
}

pub fn meter_of(machine: &Machine, agreement: &str) -> i64 {
    let target = format!("/standin/meters/{agreement}/clicks");
    let (status, answer) = machine.call("GET", &target, OPERATOR, &Value::Null);
    assert_eq!(status, 200, "{answer}");
    answer["total"].as_i64().expect("a total")
}

#[test]
fn what_the_ledger_says_is_reported_and_the_reconciler_finds_a_match() {
    let bench = Bench::new(&[]);
    bench.use_clicks("one", 5);
    assert!(bench.marked());
    let summary = bench.run("reporter");
    assert_eq!(
        (&summary["reported"], &summary["done"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(bench.meter(), 5);
    let row = &bench.meters()[0];
    assert_eq!(
        (&row["ledger"], &row["base"], &row["sent"]),
        (&json!(5), &json!(0), &json!(5))
    );
    assert_eq!(row["marked"], false);
    assert_eq!(row["last_report"]["outcome"], "confirmed");
    let found = bench.run("reconciler");
    assert_eq!(
        (&found["checked"], &found["matched"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(found["done"], true);
    let evidence = bench.evidence();
    assert_eq!(evidence.len(), 1);
    assert_eq!(
        (&evidence[0]["verdict"], &evidence[0]["provider"]),
        (&json!("match"), &json!(5))
    );
    bench.run("reconciler");
    assert_eq!(bench.evidence().len(), 1, "the same again adds no row");
}

#[test]
fn every_fault_of_a_write_or_read_leaves_the_mark_and_the_next_runs_heal() {
    let modes = ["error", "timeout", "429", "garbage", "lost_answer", "late"];
    for operation in ["meter_write", "meter_read"] {
        for mode in modes {
            let bench = Bench::new(&[]);
            bench.use_clicks("one", 5);
            if mode == "lost_answer" || mode == "late" {
                // A meter that was written before, so that an older total could win.
                bench.run("reporter");
                bench.use_clicks("two", 3);
            }
            let total = bench.meters()[0]["ledger"].as_i64().expect("a total");
            bench.fault(operation, mode, 1);
            bench.run("reporter");
            let is_sent = operation == "meter_write" || bench.meters()[0]["sent"].is_null();
            assert_eq!(bench.marked(), is_sent, "{operation} {mode}");
            bench.use_clicks("three", 4);
            bench.heal();
            assert_eq!(bench.meter(), total + 4, "{operation} {mode}");
            bench.machine.advance(2 * MINUTE);
            assert_eq!(
                bench.meter(),
                total + 4,
                "{operation} {mode}: nothing comes later"
            );
            bench.ok(
                "PUT",
                "/standin/faults",
                &json!({"operation": operation, "mode": "ok"}),
            );
            let found = bench.run("reconciler");
            assert_eq!(found["matched"], 2, "{operation} {mode}: {found}");
        }
    }
}

#[test]
fn a_lost_answer_is_only_believed_after_a_later_write_was_read_back() {
    let bench = Bench::new(&[]);
    bench.use_clicks("one", 5);
    bench.fault("meter_write", "lost_answer", 1);
    bench.run("reporter");
    assert_eq!(bench.meter(), 5, "it took effect");
    assert_eq!(bench.meters()[0]["sent"], Value::Null);
    bench.machine.advance(MINUTE / 2);
    bench.run("reporter");
    assert!(bench.marked(), "the lease of the first write still runs");
    bench.machine.advance(MINUTE);
    bench.fault("meter_read", "error", 1);
    bench.run("reporter");
    assert!(bench.marked(), "it was confirmed, but not read back");
    bench.machine.advance(MINUTE);
    bench.run("reporter");
    assert!(!bench.marked());
    assert_eq!(bench.meters()[0]["provider"], 5);
}

#[test]
fn a_late_write_never_undoes_a_newer_total() {
    let bench = Bench::new(&[]);
    bench.use_clicks("one", 5);
    bench.run("reporter");
    bench.use_clicks("two", 5);
    bench.fault("meter_write", "late", 1);
    bench.run("reporter");
    bench.use_clicks("three", 5);
    for _ in 0..6 {
        bench.machine.advance(11_000);
        bench.run("reporter");
        assert!(bench.meter() == 5 || bench.meter() == 10 || bench.meter() == 15);
    }
    bench.heal();
    bench.machine.advance(10 * MINUTE);
    assert_eq!(bench.meter(), 15);
}

#[test]
fn a_429_stops_every_run_until_the_moment_that_the_provider_named() {
    let bench = Bench::new(&[]);
    bench.use_clicks("one", 5);
    bench.run("reporter");
    bench.use_clicks("two", 1);
    bench.fault("meter_write", "429", 1);
    bench.run("reporter");
    bench.machine.advance(1000);
    let waiting = bench.run("reporter");
    assert_eq!(
        (&waiting["tried"], &waiting["done"]),
        (&json!(0), &json!(true))
    );
    assert_eq!(bench.meter(), 5);
    bench.machine.advance(1500);
    bench.run("reporter");
    assert_eq!(bench.meter(), 6);
}

#[test]
fn a_failing_customer_makes_nobody_else_be_billed_again_or_late() {
    let machine = Machine::new(&[]).expect("it starts");
    let mut agreements = Vec::new();
    for number in 0..120 {
        let id = format!("acc{number}");
        agreements.push(account(&machine, &id));
        let body = json!({"key": "one", "feature": "clicks", "units": number + 1});
        let target = format!("/v1/usage?account={id}");
        assert_eq!(machine.call("POST", &target, OPERATOR, &body).0, 201);
    }
    // This agreement ends: the provider refuses it from now on.
    let gone = json!({"plan": null});
    let (status, _) = machine.call("PUT", "/standin/customers/customer_acc7", OPERATOR, &gone);
    assert_eq!(status, 200);
    let (_, summary) = machine.call("POST", "/v1/run/reporter", OPERATOR, &json!({}));
    assert_eq!(summary["tried"], 120, "{summary}");
    assert_eq!(summary["reported"], 119, "{summary}");
    assert_eq!(summary["done"], true);
    for (number, agreement) in agreements.iter().enumerate() {
        let expected = if number == 7 { 0 } else { number + 1 };
        assert_eq!(
            meter_of(&machine, agreement),
            i64::try_from(expected).expect("small")
        );
    }
    let (_, again) = machine.call("POST", "/v1/run/reporter", OPERATOR, &json!({}));
    assert_eq!(
        again["reported"], 0,
        "whoever was told is not told again: {again}"
    );
}

#[test]
fn a_total_below_zero_is_never_sent() {
    let bench = Bench::new(&[]);
    bench.use_clicks("one", 5);
    bench.run("reporter");
    // The counter of an account that was carried more out of than it has.
    let sql = "update counter set total = -3, version = version + 1";
    run_sql(&bench.machine, sql);
    bench.run("reporter");
    assert_eq!(bench.meter(), 5);
    assert!(bench.marked());
    assert_eq!(bench.meters()[0]["last_report"]["outcome"], "below_zero");
}

/// Runs one statement in the ledger database.
pub fn run_sql(machine: &Machine, sql: &str) {
    use counterfoil::ports::Sql;
    Sql::query(&machine.ledger, sql, &[]).expect("it runs");
}

#[test]
fn a_total_that_somebody_else_wrote_waits_for_a_person() {
    let bench = Bench::new(&[]);
    bench.move_meter(40);
    bench.use_clicks("one", 5);
    bench.run("reporter");
    bench.machine.advance(2 * MINUTE);
    bench.run("reporter");
    bench.run("reconciler");
    assert_eq!(bench.meter(), 40, "nothing is written over it");
    let reviews = bench.reviews();
    assert_eq!(reviews.len(), 1);
    assert_eq!(reviews[0]["kind"], "foreign_total");
    assert_eq!(reviews[0]["numbers"]["provider"], 40);
    let id = reviews[0]["id"].as_str().expect("an id");
    let target = format!("/v1/review/{id}/close");
    assert_eq!(
        bench.call("POST", &target, &json!({})).0,
        422,
        "a reason is required"
    );
    let closed = bench.ok("POST", &target, &json!({"reason": "a test of ours"}));
    assert_eq!(closed["state"], "closed");
    bench.ok("POST", &target, &json!({"reason": "a test of ours"}));
    bench.run("reporter");
    assert_eq!(bench.meter(), 5, "the ledger's total replaces it");
    assert!(bench.reviews().is_empty());
    let audit = items(&bench.ok("GET", "/v1/audit", &Value::Null));
    let closings = audit.iter().filter(|row| row["target"] == id).count();
    assert_eq!(closings, 1);
}

#[test]
fn a_replaced_agreement_and_the_one_before_add_up_to_the_ledger() {
    let bench = Bench::new(&[]);
    bench.use_clicks("one", 100);
    bench.run("reporter");
    bench.use_clicks("two", 7);
    bench.run("reporter");
    let put = bench.ok(
        "PUT",
        "/standin/customers/customer_a",
        &json!({"plan": "pro"}),
    );
    let second = put["agreement_id"]
        .as_str()
        .expect("an agreement")
        .to_owned();
    assert_ne!(second, bench.agreement);
    bench.machine.advance(MINUTE);
    bench.ok("POST", "/v1/account/sync?account=a", &json!({}));
    bench.run("reporter");
    bench.use_clicks("three", 20);
    bench.machine.advance(MINUTE);
    bench.run("reporter");
    assert_eq!(
        (bench.meter(), meter_of(&bench.machine, &second)),
        (107, 20)
    );
    let meters = bench.meters();
    assert_eq!(meters.len(), 2);
    assert_eq!(
        (&meters[1]["base"], &meters[1]["sent"]),
        (&json!(107), &json!(20))
    );
    assert_eq!(meters[1]["marked"], false);
    let causes: Vec<_> = bench
        .evidence()
        .iter()
        .map(|row| row["cause"].clone())
        .collect();
    assert!(causes.contains(&json!("base_changed")), "{causes:?}");
    let found = bench.run("reconciler");
    assert_eq!(
        (&found["matched"], &found["repaired"]),
        (&json!(2), &json!(0)),
        "{found}"
    );
    assert_eq!(
        (bench.meter(), meter_of(&bench.machine, &second)),
        (107, 20)
    );
}

#[test]
fn a_base_is_not_fixed_while_a_write_to_the_meter_before_is_in_doubt() {
    let bench = Bench::new(&[]);
    bench.use_clicks("one", 10);
    bench.run("reporter");
    bench.use_clicks("two", 5);
    bench.fault("meter_write", "late", 1);
    bench.run("reporter");
    let put = bench.ok(
        "PUT",
        "/standin/customers/customer_a",
        &json!({"plan": "pro"}),
    );
    let second = put["agreement_id"]
        .as_str()
        .expect("an agreement")
        .to_owned();
    bench.ok("POST", "/v1/account/sync?account=a", &json!({}));
    bench.run("reporter");
    assert_eq!(meter_of(&bench.machine, &second), 0);
    bench.machine.advance(2 * MINUTE);
    bench.run("reporter");
    let sum = bench.meter() + meter_of(&bench.machine, &second);
    assert_eq!(sum, 15);
    assert_eq!(bench.run("reconciler")["matched"], 2);
}
