//! The same asked many times at once: the loser of a race is told what the winner wrote.
//!
//! Goal: no caller is sent away because another was quicker, and what is there is there once.
//! Method: each call to a database lets everybody else go on first; a seed says who does.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use counterfoil::http::app;
use counterfoil::native::machine::{Machine, request};
use counterfoil::ports::Later;
use serde_json::{Value, json};

use crate::interleave::{Turns, run_all};

const OPERATOR: &str = "dev-operator";
const SEEDS: u64 = 25;

/// A machine with the account `a` whose calls let others go on while `turns` says so.
fn machine() -> (Machine, Turns) {
    let turns = Turns::default();
    let machine = Machine::geared(&[], Rc::new(turns.clone())).expect("it starts");
    let body = json!({"id": "a", "customer_id": "customer_a"});
    assert_eq!(machine.call("POST", "/v1/accounts", OPERATOR, &body).0, 201);
    (machine, turns)
}

/// Posts all of them at once, in an order made of the seed; gives the answers in theirs.
fn at_once(
    machine: &Machine,
    turns: &Turns,
    asked: &[(String, Value)],
    seed: u64,
) -> Vec<(u16, Value)> {
    let answers = RefCell::new(BTreeMap::new());
    let tasks = asked
        .iter()
        .enumerate()
        .map(|(place, (target, body))| -> Later<'_, ()> {
            let answers = &answers;
            Box::pin(async move {
                let asked = request("POST", target, OPERATOR, body);
                let response = app::handle(machine.world(), asked).await;
                let body = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
                answers.borrow_mut().insert(place, (response.status, body));
            })
        })
        .collect();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    turns.0.set(true);
    run_all(tasks, |running| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(state >> 33).unwrap_or(0) % running
    });
    turns.0.set(false);
    machine.finish_background();
    answers.into_inner().into_values().collect()
}

/// Records so many units and gives the entry's id.
fn used(machine: &Machine, key: &str, units: i64) -> String {
    let body = json!({"key": key, "feature": "clicks", "units": units});
    let (status, entry) = machine.call("POST", "/v1/usage?account=a", OPERATOR, &body);
    assert_eq!(status, 201, "{entry}");
    entry["id"].as_str().expect("an id").to_owned()
}

fn items(machine: &Machine, target: &str) -> Vec<Value> {
    let (status, list) = machine.call("GET", target, OPERATOR, &Value::Null);
    assert_eq!(status, 200, "{list}");
    list["items"].as_array().expect("items").clone()
}

#[test]
fn identical_corrections_at_once_are_one_row_that_all_are_answered() {
    for seed in 0..SEEDS {
        let (machine, turns) = machine();
        let entry = used(&machine, "u", 5);
        let target = format!("/v1/entries/{entry}/correction?account=a");
        let asked = vec![(target, json!({"reason": "twice"})); 8];
        let answers = at_once(&machine, &turns, &asked, seed);
        let made = answers.iter().filter(|(status, _)| *status == 201).count();
        let again = answers.iter().filter(|(status, _)| *status == 200).count();
        assert_eq!((made, again), (1, 7), "seed {seed}: {answers:?}");
        assert!(
            answers
                .iter()
                .all(|(_, row)| row["id"] == answers[0].1["id"])
        );
        let rows = items(&machine, "/v1/entries?account=a&kind=correction");
        assert_eq!(rows.len(), 1, "seed {seed}");
        let told = items(&machine, "/v1/audit?account=a");
        let told = told.iter().filter(|row| row["action"] == "entry.correct");
        assert_eq!(told.count(), 1, "seed {seed}");
    }
}

#[test]
fn corrections_of_many_kinds_at_once_take_what_is_there_and_no_caller_is_sent_away() {
    for seed in 0..SEEDS {
        let (machine, turns) = machine();
        let entry = used(&machine, "u", 6);
        let target = format!("/v1/entries/{entry}/correction?account=a");
        let part = |name: usize| json!({"reason": format!("part {name}"), "units": 1});
        let mut asked: Vec<(String, Value)> =
            (0..8).map(|name| (target.clone(), part(name))).collect();
        asked
            .extend((0..3).map(|name| (target.clone(), json!({"reason": format!("rest {name}")}))));
        let answers = at_once(&machine, &turns, &asked, seed);
        for (status, answer) in &answers {
            let is_told = matches!(status, 201 | 409 | 422);
            assert!(is_told, "seed {seed}: {status} {answer}");
        }
        let rows = items(&machine, "/v1/entries?account=a&kind=correction");
        let taken: i64 = rows.iter().filter_map(|row| row["units"].as_i64()).sum();
        assert_eq!(taken, -6, "seed {seed}: {answers:?}");
    }
}

#[test]
fn of_many_syncs_of_one_account_at_once_each_is_answered_the_plan() {
    for seed in 0..SEEDS {
        let (machine, turns) = machine();
        let plan = json!({"plan": "pro"});
        let customer = "/standin/customers/customer_a";
        assert_eq!(machine.call("PUT", customer, OPERATOR, &plan).0, 200);
        let asked = vec![("/v1/account/sync?account=a".to_owned(), Value::Null); 20];
        for (status, answer) in at_once(&machine, &turns, &asked, seed) {
            assert_eq!(
                (status, &answer["plan"]),
                (200, &json!("pro")),
                "seed {seed}"
            );
        }
    }
}
