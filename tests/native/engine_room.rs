//! The Engine Room's numbers, and that no order of the deliveries changes where they end.

use std::rc::Rc;

use counterfoil::http::request::Body;
use counterfoil::inbox::apply::Doorbell;
use counterfoil::inbox::engine::{Delivery, NINE, Report, STOPS_AT, run, run_order};
use counterfoil::native::executor::block_on;
use counterfoil::native::machine::{Machine, request};
use serde_json::Value;

use super::quick::QuickSignatures;

fn machine() -> Machine {
    Machine::new(&[]).expect("it starts")
}

fn sides(report: &Report, pipeline: bool) -> Vec<(String, i64)> {
    let side = |step: &counterfoil::inbox::engine::Step| {
        let side = if pipeline {
            &step.pipeline
        } else {
            &step.naive
        };
        (side.plan.clone(), side.balance)
    };
    report.steps.iter().map(side).collect()
}

/// As its page's form sends it, or a program.
#[test]
fn a_field_that_the_engine_room_does_not_have_is_refused_by_its_name() {
    let machine = Machine::geared(&[], Rc::new(QuickSignatures)).expect("it starts");
    for (text, wrong) in [
        ("", None),
        ("doorbell=1", None),
        ("doorbell=0", None),
        ("{}", None),
        ("{\"doorbell\":true}", None),
        ("doorbel=1", Some("doorbel")),
        ("doorbell=1&x=2", Some("x")),
        ("doorbell=yes", Some("doorbell")),
        ("{\"doorbell\":\"1\"}", Some("doorbell")),
        ("{\"scene\":1}", Some("scene")),
    ] {
        let mut asked = request("POST", "/app/engine-room/run", "dev-operator", &Value::Null);
        asked
            .headers
            .push(("accept".to_owned(), "application/json".to_owned()));
        asked.body = Body::Whole(text.as_bytes().to_vec());
        let answer = machine.handle(asked);
        let body: Value = serde_json::from_slice(&answer.body).expect("JSON");
        let told = (answer.status, body["field"].as_str());
        let expected = if wrong.is_some() { 422 } else { 200 };
        assert_eq!(told, (expected, wrong), "{text}: {body}");
    }
}

#[test]
fn the_naive_handler_ends_at_2950_and_stood_at_free_after_the_old_cancellation() {
    let report = block_on(run(&machine().world(), Doorbell::Silent)).expect("it runs");
    let naive = sides(&report, false);
    assert_eq!(naive[0], ("Free".to_owned(), 10));
    assert_eq!(naive[1], ("Pro".to_owned(), 10));
    assert_eq!(naive[6].0, "Free");
    assert_eq!(naive[8], ("Pro".to_owned(), 2950));
}

#[test]
fn the_pipeline_counts_nine_three_six_one_one_and_grants_once() {
    for doorbell in [Doorbell::Silent, Doorbell::Rings] {
        let report = block_on(run(&machine().world(), doorbell)).expect("it runs");
        let counts = (
            report.arrived,
            report.stored,
            report.dropped,
            report.finished,
        );
        assert_eq!(counts, (9, 3, 6, 1), "{doorbell:?}");
        assert_eq!(report.ignored, ["a newer plan change is already stored"]);
        assert_eq!(report.granted, 1);
        let pipeline = sides(&report, true);
        assert_eq!(pipeline[0], ("Free".to_owned(), 10));
        assert_eq!(pipeline[1], ("Free".to_owned(), 10));
        assert_eq!(pipeline[2], ("Pro".to_owned(), 500));
        assert_eq!(pipeline[6], ("Pro".to_owned(), 500));
        assert_eq!(pipeline[8], ("Pro".to_owned(), 500));
    }
}

/// Every different order of the nine deliveries: 9!/(5!·3!·1!) = 504.
fn orders() -> Vec<Vec<Delivery>> {
    fn extend(left: [usize; 3], so_far: &mut Vec<Delivery>, all: &mut Vec<Vec<Delivery>>) {
        let kinds = [Delivery::Payment, Delivery::Upgrade, Delivery::Cancellation];
        if left == [0, 0, 0] {
            all.push(so_far.clone());
        }
        for (index, kind) in kinds.into_iter().enumerate() {
            if left[index] > 0 {
                let mut rest = left;
                rest[index] -= 1;
                so_far.push(kind);
                extend(rest, so_far, all);
                so_far.pop();
            }
        }
    }
    let count = |kind| NINE.iter().filter(|one| **one == kind).count();
    let mut all = Vec::new();
    let left = [
        count(Delivery::Payment),
        count(Delivery::Upgrade),
        count(Delivery::Cancellation),
    ];
    extend(left, &mut Vec::new(), &mut all);
    all
}

#[test]
fn every_order_of_the_nine_deliveries_ends_at_pro_and_500() {
    let machine = Machine::geared(&[], Rc::new(QuickSignatures)).expect("it starts");
    let orders = orders();
    assert_eq!(orders.len(), 504);
    for (index, order) in orders.iter().enumerate() {
        let doorbell = if index % 8 == 0 {
            Doorbell::Rings
        } else {
            Doorbell::Silent
        };
        let report = block_on(run_order(&machine.world(), doorbell, order, STOPS_AT));
        let report = report.expect("it runs");
        let last = &report.steps[8].pipeline;
        assert_eq!(
            (last.plan.as_str(), last.balance),
            ("Pro", 500),
            "{order:?}"
        );
        assert_eq!((report.stored, report.dropped), (3, 6), "{order:?}");
    }
}
