//! Meters against the stand-in: what is sent, what is read back, what a fault leaves behind.
//!
//! Goal: after any fault the next runs heal, nothing is doubled and no older total wins.
//! Method: the routes of the contract on a whole native machine.

use counterfoil::native::machine::Machine;
use serde_json::{Value, json};

pub const OPERATOR: &str = "dev-operator";
pub const MINUTE: i64 = 60_000;

/// A machine with one account `a` of customer `customer_a`, and its agreement.
pub struct Bench {
    pub machine: Machine,
    pub agreement: String,
}

impl Bench {
    pub fn new(settings: &[(&str, &str)]) -> Self {
        let machine = Machine::new(settings).expect("it starts");
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
