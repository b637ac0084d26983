//! A crash at any statement of a job's life: each statement of object and databases fails once,
//! before and after it took effect, and nothing works any more until the start; started again and
//! asked again under the same keys, the budget is exact and the ledger has everything once.

use std::rc::Rc;

use counterfoil::native::executor::block_on;
use counterfoil::native::faulty::{Faults, FaultyGear, Then, When};
use counterfoil::native::machine::Machine;
use counterfoil::ports::{Db, Statement};
use serde_json::{Value, json};

const BACKEND: &str = "dev-backend";

fn geared() -> (Machine, Rc<Faults>) {
    let faults = Rc::new(Faults::default());
    let gear = Rc::new(FaultyGear(Rc::clone(&faults)));
    let machine = Machine::geared(&[], gear).expect("it starts");
    let limits = json!({"plan": "pro", "limits": {"tokens": 100}});
    let path = "/standin/customers/customer_a";
    let (status, body) = machine.call("PUT", path, "dev-operator", &limits);
    assert_eq!(status, 200, "{body}");
    let account = json!({"id": "a", "customer_id": "customer_a"});
    let (status, body) = machine.call("POST", "/v1/accounts", BACKEND, &account);
    assert_eq!(status, 201, "{body}");
    (machine, faults)
}

fn post(machine: &Machine, path: &str, body: &Value) -> (u16, Value) {
    machine.call("POST", &format!("{path}?account=a"), BACKEND, body)
}

/// A job that charges, is cut, extends and settles at 45, and one that charges 5 and dies. What
/// cannot be done is left for the repeat.
fn story(machine: &Machine) {
    let hold = |key: &str, units: i64| {
        let body = json!({"key": key, "feature": "tokens", "hold": units, "lease_seconds": 600});
        let (_, job) = post(machine, "/v1/jobs", &body);
        job["id"].as_str().map(str::to_owned)
    };
    if let Some(job) = hold("settles", 30) {
        let call = |name: &str, body: &Value| {
            post(machine, &format!("/v1/jobs/{job}/{name}"), body);
        };
        call("charges", &json!({"units": 20, "step": "1"}));
        machine.advance(1500);
        call("extend", &json!({"units": 20, "step": "2"}));
        call("charges", &json!({"units": 15, "step": "3"}));
        call("settle", &json!({"used": 45}));
    }
    if let Some(job) = hold("dies", 10) {
        let body = json!({"units": 5, "step": "1"});
        post(machine, &format!("/v1/jobs/{job}/charges"), &body);
    }
    machine.advance(1500);
}

fn entries(machine: &Machine) -> i64 {
    let sql = "select coalesce(sum(units), 0) as n from entry where account_id = 'a'";
    let rows = block_on(Db::query(&machine.ledger, Statement::new(sql, Vec::new())));
    rows.unwrap()[0].int("n").unwrap()
}

fn crash(nth: u32, when: When) {
    let said = format!("statement {nth} failed {when:?}");
    let (machine, faults) = geared();
    faults.fail_at(nth, when, Then::Stands);
    story(&machine);
    faults.mend();
    machine.restart();
    story(&machine);
    machine.advance(700_000);
    machine.advance(2_000);
    let target = "/v1/budget?feature=tokens&account=a";
    let (status, budget) = machine.call("GET", target, BACKEND, &Value::Null);
    assert_eq!(status, 200, "{said}: {budget}");
    let taken = (&budget["used"], &budget["held"]);
    assert_eq!(taken, (&json!(50), &json!(0)), "{said}");
    assert_eq!(entries(&machine), 50, "{said}");
    let lines = machine.log.0.borrow();
    let differs = lines
        .iter()
        .any(|(_, event, _)| event == "gate.books_differ");
    assert!(!differs, "{said}");
}

#[test]
fn a_crash_at_any_statement_of_a_job_charges_nothing_twice_and_loses_nothing() {
    let (machine, faults) = geared();
    faults.mend();
    story(&machine);
    let statements = faults.seen();
    assert!(statements > 100, "{statements} statements were counted");
    // All of them take minutes; one in each dozen, and all where that is asked for.
    let stride = if std::env::var_os("EVERY_STATEMENT").is_some() {
        1
    } else {
        12
    };
    let chosen: Vec<u32> = (1..=statements).step_by(stride).collect();
    let (first, second) = chosen.split_at(chosen.len() / 2);
    std::thread::scope(|scope| {
        for part in [first, second] {
            scope.spawn(move || {
                for nth in part {
                    crash(*nth, When::Before);
                    crash(*nth, When::After);
                }
            });
        }
    });
}
