//! The cron: its order and its summaries.

use counterfoil::cron;
use counterfoil::native::executor::block_on;
use counterfoil::native::machine::Machine;
use serde_json::{Value, json};

use crate::meters::{MINUTE, OPERATOR, account};

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
