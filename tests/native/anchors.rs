//! The first admission fixes the anchor, before the job is written; nothing else of the gate does.

use std::rc::Rc;

use counterfoil::native::executor::block_on;
use counterfoil::native::faulty::{Faults, FaultyGear, Then, When};
use counterfoil::native::machine::Machine;
use counterfoil::ports::{Db, ObjectName, Sql, Statement};
use counterfoil::units::AccountId;
use serde_json::{Value, json};

use crate::desk::{BACKEND, Desk, OPERATOR, at_once};

fn is_fixed(desk: &Desk) -> bool {
    desk.get("/v1/account")["anchor"]["fixed"] == json!(true)
}

fn move_start(desk: &Desk, to: &str) -> (u16, Value) {
    let change = json!({ "starts_at": to });
    desk.machine
        .call("PATCH", "/v1/accounts/a", OPERATOR, &change)
}

#[test]
fn a_refused_job_leaves_the_start_movable_and_an_admitted_one_fixes_it() {
    let desk = Desk::with(100, &[("JOBS_PER_MINUTE", "1")]);
    desk.provider_is_down(true);
    assert_eq!(desk.admit("k", 1).0, 503);
    desk.provider_is_down(false);
    desk.seconds(5);
    assert_eq!(desk.admit("k", 101).0, 402);
    let images = json!({"key": "k", "feature": "images", "hold": 1});
    assert_eq!(desk.post("/v1/jobs", &images).0, 403);
    let both = json!({"key": "k", "holds": {"tokens": 1, "images": 1}});
    assert_eq!(desk.post("/v1/jobs", &both).0, 403);
    assert!(!is_fixed(&desk));
    let (status, moved) = move_start(&desk, "2026-01-05T00:00:00Z");
    assert_eq!(status, 200, "{moved}");
    let (status, job) = desk.admit("k", 1);
    assert_eq!((status, &job["cycle"]), (201, &json!("2026-11")));
    assert!(is_fixed(&desk));
    let (status, problem) = move_start(&desk, "2026-01-06T00:00:00Z");
    assert_eq!((status, &problem["code"]), (409, &json!("anchor_fixed")));
    assert_eq!(desk.admit("l", 1).0, 429);
}

#[test]
fn a_cheap_feature_whose_limit_turns_out_to_be_absent_fixes_nothing() {
    let desk = Desk::new(100);
    let hints = json!({"key": "k", "feature": "hints", "hold": 1});
    assert_eq!(desk.post("/v1/jobs", &hints).0, 403);
    assert!(!is_fixed(&desk));
}

#[test]
fn refusals_before_the_first_admission_are_counted_once() {
    let desk = Desk::new(10);
    let ask = |key: &str, hold: i64| {
        let body = json!({"key": key, "feature": "tokens", "hold": hold});
        desk.on_its_way("/v1/jobs", &body)
    };
    let told = at_once(vec![ask("x", 11), ask("y", 12), ask("z", 4), ask("w", 7)]);
    let statuses: Vec<u16> = told.into_iter().map(|told| told.unwrap().0).collect();
    assert_eq!(statuses, [402, 402, 201, 402]);
    assert_eq!(desk.taken(), (0, 4));
    let name = ObjectName::Account(AccountId::new("a").unwrap());
    let storage = desk.machine.objects.storage(&name).unwrap();
    let rows = Sql::query(&storage, "select count(*) as n from refusal", &[]).unwrap();
    assert_eq!(rows[0].int("n").unwrap(), 3);
}

/// The start is moved by somebody between the question and the answer.
#[test]
fn a_job_runs_in_the_cycle_of_the_start_that_was_fixed_for_it() {
    let desk = Desk::new(100);
    desk.hold_back_provider(true);
    let body = json!({"key": "k", "feature": "tokens", "hold": 1});
    let mut work = vec![Some(desk.on_its_way("/v1/jobs", &body))];
    let mut done = vec![None];
    crate::desk::advance_all(&mut work, &mut done);
    assert!(done[0].is_none());
    assert_eq!(move_start(&desk, "2026-10-20T00:00:00Z").0, 200);
    desk.hold_back_provider(false);
    crate::desk::advance_all(&mut work, &mut done);
    let (status, job) = done.remove(0).expect("it is answered");
    assert_eq!((status, &job["cycle"]), (201, &json!("2026-10")));
}

fn geared() -> (Machine, Rc<Faults>) {
    let faults = Rc::new(Faults::default());
    let gear = Rc::new(FaultyGear(Rc::clone(&faults)));
    let machine = Machine::geared(&[], gear).expect("it starts");
    let account = json!({"id": "a", "customer_id": "customer_a"});
    let (status, body) = machine.call("POST", "/v1/accounts", BACKEND, &account);
    assert_eq!(status, 201, "{body}");
    faults.mend();
    (machine, faults)
}

fn first_job(machine: &Machine) -> u16 {
    let body = json!({"key": "first", "feature": "tokens", "hold": 10});
    machine.call("POST", "/v1/jobs?account=a", BACKEND, &body).0
}

fn fixed_anchors(machine: &Machine) -> i64 {
    let sql = "select count(*) as n from anchor where fixed_at_ms is not null";
    let rows = block_on(Db::query(&machine.control, Statement::new(sql, Vec::new())));
    rows.unwrap()[0].int("n").unwrap()
}

fn jobs(machine: &Machine) -> i64 {
    let name = ObjectName::Account(AccountId::new("a").unwrap());
    let Some(storage) = machine.objects.storage(&name) else {
        return 0;
    };
    let rows = Sql::query(&storage, "select count(*) as n from job", &[]);
    rows.map_or(0, |rows| rows[0].int("n").unwrap())
}

#[test]
fn a_crash_at_any_statement_of_the_first_admission_leaves_no_job_under_a_start_that_may_move() {
    let (machine, faults) = geared();
    assert_eq!(first_job(&machine), 201);
    let statements = faults.seen();
    assert!(statements > 10, "{statements} statements were counted");
    for nth in 1..=statements {
        for when in [When::Before, When::After] {
            let said = format!("statement {nth} failed {when:?}");
            let (machine, faults) = geared();
            faults.fail_at(nth, when, Then::Stands);
            first_job(&machine);
            assert!(jobs(&machine) <= fixed_anchors(&machine), "{said}");
            faults.mend();
            machine.restart();
            let status = first_job(&machine);
            assert!(matches!(status, 200 | 201), "{said}: {status}");
            let now = (jobs(&machine), fixed_anchors(&machine));
            assert_eq!(now, (1, 1), "{said}");
        }
    }
}
