//! The cron: its order, its summaries, and that a tick keeps to its calls.

use std::rc::Rc;

use counterfoil::cron;
use counterfoil::native::executor::block_on;
use counterfoil::native::machine::Machine;
use counterfoil::params;
use counterfoil::ports::{Db, ObjectName, Statement};
use counterfoil::units::AccountId;
use serde_json::{Value, json};

use crate::meters::{MINUTE, OPERATOR, account};
use crate::quick::QuickSignatures;

const DAY: i64 = 24 * 60 * MINUTE;

fn tick(machine: &Machine) {
    block_on(cron::tick(&machine.world()));
    machine.finish_background();
}

fn ok(machine: &Machine, method: &str, target: &str, body: &Value) -> Value {
    let (status, answer) = machine.call(method, target, OPERATOR, body);
    assert!((200..300).contains(&status), "{method} {target}: {answer}");
    answer
}

/// The jobs that ticks have done, in their order.
fn jobs_done(machine: &Machine) -> Vec<String> {
    let lines = machine.log.0.borrow();
    let done = lines.iter().filter(|(_, event, _)| event == "cron.job");
    let name = |fields: &Value| fields["job"].as_str().expect("a name").to_owned();
    done.map(|(_, _, fields)| name(fields)).collect()
}

/// What the other account owes is still owed: a later run for everybody finds it.
#[test]
fn a_job_that_is_run_for_one_account_leaves_the_others_alone() {
    let machine = Machine::geared(&[], Rc::new(QuickSignatures)).expect("it starts");
    for id in ["a", "b"] {
        account(&machine, id);
        let usage = json!({"key": "k", "feature": "clicks", "units": 5});
        let target = format!("/v1/usage?account={id}");
        ok(&machine, "POST", &target, &usage);
        let plan = json!({"plan": "pro"});
        let target = format!("/standin/customers/customer_{id}");
        ok(&machine, "PUT", &target, &plan);
    }
    let failing = "insert into event (id, provider, event_id, type, lane, customer_id, \
        received_at_ms, next_at_ms, status, content) select 'evt_' || value, 'kinde', value, 'x', \
        'customer_' || value, 'customer_' || value, 0, 0, 'received', '{}' \
        from json_each('[\"a\", \"b\"]')";
    block_on(machine.control.query(Statement::new(failing, params![]))).expect("stored");
    let run = |job: &str, query: &str| {
        let target = format!("/v1/run/{job}{query}");
        ok(&machine, "POST", &target, &json!({}))
    };
    for (job, count) in [
        ("sweeper", "accounts"),
        ("inbox", "lanes"),
        ("plans", "changed"),
        ("reporter", "tried"),
    ] {
        let done = run(job, "?account=a");
        assert_eq!(
            (&done[count], &done["done"]),
            (&json!(1), &json!(true)),
            "{job}: {done}"
        );
    }
    for (job, count) in [
        ("inbox", "lanes"),
        ("plans", "changed"),
        ("reporter", "tried"),
    ] {
        assert_eq!(run(job, "")[count], 1, "{job}");
    }
}

#[test]
fn a_tick_does_its_jobs_in_the_contracts_order() {
    let machine = Machine::new(&[]).expect("it starts");
    tick(&machine);
    assert_eq!(jobs_done(&machine), ["sweeper", "inbox", "reporter"]);
    machine.log.0.borrow_mut().clear();
    machine.advance(DAY);
    tick(&machine);
    let all = ["sweeper", "inbox", "reporter", "reconciler", "plans"];
    assert_eq!(jobs_done(&machine), all, "a night has begun");
}

#[test]
fn every_job_can_be_run_by_hand_and_answers_its_summary() {
    let machine = Machine::new(&[]).expect("it starts");
    account(&machine, "a");
    for (job, fields) in [
        ("sweeper", &["shards", "accounts", "behind", "done"][..]),
        ("reporter", &["tried", "reported", "failed", "held", "done"]),
        ("inbox", &["lanes", "events", "followups", "alerts", "done"]),
        (
            "reconciler",
            &[
                "checked",
                "matched",
                "repaired",
                "drifted",
                "unreadable",
                "incomplete",
                "done",
            ],
        ),
        ("plans", &["checked", "changed", "unreadable", "done"]),
    ] {
        let summary = ok(&machine, "POST", &format!("/v1/run/{job}"), &Value::Null);
        for field in fields {
            assert!(!summary[*field].is_null(), "{job}: {field} in {summary}");
        }
        assert_eq!(summary["done"], true, "{job}");
        let backend = machine.call("POST", &format!("/v1/run/{job}"), "dev-backend", &json!({}));
        assert_eq!(backend.0, 403, "{job}");
    }
}

/// The calls that the last tick made, as its line in the log says.
fn calls_of_tick(machine: &Machine) -> u64 {
    let lines = machine.log.0.borrow();
    let last = lines.iter().rfind(|(_, event, _)| event == "cron.tick");
    let (_, _, fields) = last.expect("a tick");
    fields["calls"].as_u64().expect("a number")
}

/// Accounts that are overdue, events that wait, meters to be told, and a night that has begun.
fn with_work_for_all(calls: u32) -> Machine {
    let calls = calls.to_string();
    let settings = [("CALLS_PER_RUN", calls.as_str()), ("SHARDS", "4")];
    let machine = Machine::geared(&settings, Rc::new(QuickSignatures)).expect("it starts");
    tick(&machine);
    for id in ["a", "b", "c"] {
        account(&machine, id);
        let usage = json!({"key": "u", "feature": "clicks", "units": 5});
        ok(&machine, "POST", &format!("/v1/usage?account={id}"), &usage);
        let job = json!({"key": "k", "feature": "tokens", "hold": 5});
        let job = ok(&machine, "POST", &format!("/v1/jobs?account={id}"), &job);
        let charge = format!(
            "/v1/jobs/{}/charges?account={id}",
            job["id"].as_str().expect("an id")
        );
        ok(&machine, "POST", &charge, &json!({"units": 2}));
    }
    machine.advance(2_000);
    // Every event fails while the provider does, and is due once it answers again.
    ok(
        &machine,
        "PUT",
        "/standin/faults",
        &json!({"operation": "plan", "mode": "error"}),
    );
    for id in ["a", "b", "c"] {
        let customer = format!("customer_{id}");
        let target = format!("/standin/customers/{customer}");
        ok(&machine, "PUT", &target, &json!({"plan": "pro"}));
        let event = json!({"type": "customer.plan_changed", "customer_id": customer,
            "data": {"plan": {"key": "pro"}}});
        ok(&machine, "POST", "/standin/events", &event);
    }
    ok(
        &machine,
        "PUT",
        "/standin/faults",
        &json!({"operation": "plan", "mode": "ok"}),
    );
    // A day later, with the accounts' alarms lost: leases have ended, and a night has begun.
    for id in ["a", "b", "c"] {
        machine
            .objects
            .lose_alarm(&ObjectName::Account(AccountId::new(id).expect("an id")));
    }
    machine.clock.0.set(machine.clock.0.get().after(DAY));
    machine
}

/// What is left to do of all that, in words.
fn left_to_do(machine: &Machine) -> Vec<String> {
    let mut left = Vec::new();
    let events = ok(machine, "GET", "/v1/events", &Value::Null);
    for event in events["items"].as_array().expect("items") {
        if event["status"] != "applied" && event["status"] != "ignored" {
            left.push(format!("event {}", event["status"]));
        }
    }
    let meters = ok(machine, "GET", "/v1/meters", &Value::Null);
    for meter in meters["items"].as_array().expect("items") {
        if meter["marked"] == true {
            left.push(format!("meter of {}", meter["account"]));
        }
    }
    let now = machine.clock.0.get();
    let sql =
        "select name from cron where pass_day is not null and (pass_done = 0 or pass_day < ?1)";
    let night = cron::night_of(now, 120);
    let rows = block_on(Db::query(
        &machine.control,
        Statement::new(sql, params![night]),
    ));
    for row in rows.expect("it runs") {
        left.push(format!("night: {}", row.text("name").expect("a name")));
    }
    let sql = "select object from feed where due_at_ms <= ?1 and object like 'account/%'";
    let rows = block_on(Db::query(
        &machine.ledger,
        Statement::new(sql, params![now]),
    ));
    for row in rows.expect("it runs") {
        left.push(row.text("object").expect("a name").to_owned());
    }
    left
}

#[test]
fn no_tick_makes_more_calls_than_it_may_and_ticks_finish_everything() {
    for calls in (45..=120).step_by(5).chain([46, 47, 180, 350, 900]) {
        let machine = with_work_for_all(calls);
        assert!(left_to_do(&machine).len() > 6, "there is work for all");
        let mut ticks = Vec::new();
        for _ in 0..60 {
            machine.advance(MINUTE);
            tick(&machine);
            ticks.push(calls_of_tick(&machine));
            if left_to_do(&machine).is_empty() {
                break;
            }
        }
        let most = ticks.iter().max().copied().unwrap_or_default();
        assert!(most <= u64::from(calls), "{calls}: {ticks:?}");
        let left = left_to_do(&machine);
        assert!(left.is_empty(), "{calls}: {left:?} after {ticks:?}");
    }
}
