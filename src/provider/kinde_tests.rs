//! The client against the stand-in, and against answers that the stand-in never gives.

use super::*;
use crate::native::executor::block_on;
use crate::native::machine::Machine;
use serde_json::json;

fn machine() -> Machine {
    Machine::new(&[]).expect("it starts")
}

fn customer() -> CustomerId {
    CustomerId::new("customer_1").expect("an id")
}

fn control(machine: &Machine, method: &str, target: &str, body: &Value) -> Value {
    let (status, answer) = machine.call(method, target, "dev-operator", body);
    assert_eq!(status, 200, "{target}: {answer}");
    answer
}

#[test]
fn a_customer_that_nobody_set_is_on_free_with_an_agreement_and_the_calendar_month() {
    let machine = machine();
    let provider = Rc::clone(&machine.world().provider);
    let limits = block_on(provider.limits(&customer())).expect("limits");
    assert_eq!(limits.get("clicks"), Some(&FeatureLimit::Unlimited));
    let tokens = Units::new(10_000).map(FeatureLimit::Known);
    assert_eq!(limits.get("tokens").copied(), tokens);
    let agreements = block_on(provider.agreements(&customer())).expect("agreements");
    let agreement = agreements.agreements.first().expect("one");
    assert_eq!(agreement.plan.as_str(), "free");
    assert_eq!(agreement.feature_keys, ["clicks", "tokens"]);
    let start = agreement.period_start.map(crate::moment::format);
    assert_eq!(start.as_deref(), Some("2026-11-01T00:00:00.000Z"));
    assert!(agreements.subscribed_on.is_empty());
}

#[test]
fn a_meter_holds_the_last_total_that_was_set_and_no_record_is_zero() {
    let machine = machine();
    let provider = Rc::clone(&machine.world().provider);
    let agreements = block_on(provider.agreements(&customer())).expect("agreements");
    let agreement = &agreements.agreements.first().expect("one").agreement_id;
    let read = || block_on(provider.read_meter(agreement, "tokens"));
    assert_eq!(read(), Ok(Delta::ZERO));
    let now = machine.world().now();
    for total in [500, 700, 600] {
        let total = Units::new(total).expect("an amount");
        let written = block_on(provider.write_meter(agreement, "tokens", total, now));
        assert_eq!(written, Ok(()));
        assert_eq!(read(), Ok(Delta::from(total)));
    }
    let target = format!("/standin/meters/{agreement}/tokens");
    control(&machine, "PUT", &target, &json!({"total": 9}));
    assert_eq!(read(), Ok(Delta::new(9).expect("an amount")));
}
