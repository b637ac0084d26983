//! Goal: a budget that is wrong is told, never made to look right.
//! Method: the stored budget is damaged behind the gate's back.

use counterfoil::native::executor::block_on;
use counterfoil::native::machine::Machine;
use counterfoil::ports::{ObjectName, Objects, Sql};
use counterfoil::units::AccountId;
use serde_json::{Value, json};

const BACKEND: &str = "dev-backend";

fn post(machine: &Machine, path: &str, body: &Value) -> (u16, Value) {
    machine.call("POST", &format!("{path}?account=a"), BACKEND, body)
}

#[test]
fn a_budget_that_holds_less_than_comes_back_is_a_fault_and_stays_as_it_is() {
    let machine = Machine::new(&[]).expect("it starts");
    let limits = json!({"plan": "pro", "limits": {"tokens": 100}});
    machine.call(
        "PUT",
        "/standin/customers/customer_a",
        "dev-operator",
        &limits,
    );
    let account = json!({"id": "a", "customer_id": "customer_a"});
    assert_eq!(
        machine.call("POST", "/v1/accounts", BACKEND, &account).0,
        201
    );
    let (status, job) = post(
        &machine,
        "/v1/jobs",
        &json!({"key": "k", "feature": "tokens", "hold": 40}),
    );
    assert_eq!(status, 201, "{job}");
    let id = AccountId::new("a").expect("an id");
    let storage = machine
        .objects
        .storage(&ObjectName::Account(id))
        .expect("it was asked");
    let sql: &dyn Sql = &storage;
    sql.query("update budget set held = 39", &[])
        .expect("it is damaged");

    let path = format!("/v1/jobs/{}/settle", job["id"].as_str().expect("an id"));
    let (status, problem) = post(&machine, &path, &json!({"used": 10}));

    assert!(status >= 500, "{status} {problem}");
    let rows = sql
        .query("select used, held from budget", &[])
        .expect("it reads");
    assert_eq!(
        (rows[0].int("used").unwrap(), rows[0].int("held").unwrap()),
        (0, 39)
    );
    let sql_state = "select state from job";
    let rows = sql.query(sql_state, &[]).expect("it reads");
    assert_eq!(rows[0].text("state").unwrap(), "running");
}

/// Goal: a call that fails still leaves the object awake for what it owes. Method: the alarm is
/// lost, the memory too, and the next message does not read.
#[test]
fn a_call_that_fails_arms_the_alarm_all_the_same() {
    let machine = Machine::new(&[]).expect("it starts");
    let limits = json!({"plan": "pro", "limits": {"tokens": 100}});
    let path = "/standin/customers/customer_a";
    machine.call("PUT", path, "dev-operator", &limits);
    let account = json!({"id": "a", "customer_id": "customer_a"});
    assert_eq!(
        machine.call("POST", "/v1/accounts", BACKEND, &account).0,
        201
    );
    let hold = json!({"key": "k", "feature": "tokens", "hold": 40});
    assert_eq!(post(&machine, "/v1/jobs", &hold).0, 201);
    let name = ObjectName::Account(AccountId::new("a").expect("an id"));
    machine.objects.lose_alarm(&name);
    machine.objects.evict_all();
    assert_eq!(machine.objects.alarm_at(&name), None);

    let asked = Objects::ask(&*machine.objects, name.clone(), "no message".to_owned());

    assert!(block_on(asked).is_err());
    assert!(machine.objects.alarm_at(&name).is_some());
}
