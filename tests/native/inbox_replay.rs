//! Replay and skip: only what is being applied right now is in work; what failed or waits is taken
//! up at once. And what people read of it are sentences.

use counterfoil::inbox::{apply, apply::Doorbell, lane, receive};
use counterfoil::native::executor::block_on;
use counterfoil::units::Millis;
use serde_json::{Value as Json, json};

use super::inbox_desk::{Desk, OPERATOR};

fn id_of(desk: &Desk, event: &str) -> String {
    desk.event(event)["id"].as_str().unwrap().to_owned()
}

fn post(desk: &Desk, path: &str, body: &Json) -> (u16, String) {
    let (status, answer) = desk.machine.call("POST", path, OPERATOR, body);
    let code = answer["code"].as_str().unwrap_or_default().to_owned();
    (status, code)
}

fn replay(desk: &Desk, id: &str) -> (u16, String) {
    post(desk, &format!("/v1/events/{id}/replay"), &Json::Null)
}

/// An account whose cancellation waits for a provider that cannot be read.
fn failed(desk: &Desk, id: &str) -> String {
    desk.fault("plan", "ok");
    desk.customer(&format!("customer_{id}"), &json!({"plan": "pro"}));
    desk.account(id);
    desk.customer(&format!("customer_{id}"), &json!({"plan": null}));
    desk.machine.advance(1000);
    desk.fault("plan", "error");
    desk.send("customer.agreement_cancelled", id, &json!({}))
}

#[test]
fn a_failed_event_is_taken_up_at_once_and_applied_where_its_cause_is_mended() {
    let desk = Desk::new(&[]);
    let event = failed(&desk, "a");
    let (id, cause) = (
        id_of(&desk, &event),
        "the provider cannot be read: it answered 500",
    );
    assert_eq!(desk.end(&event), ("failed".to_owned(), cause.to_owned()));
    assert_eq!(replay(&desk, &id), (202, String::new()));
    assert_eq!(desk.end(&event).0, "failed", "the cause is not mended");
    desk.fault("plan", "ok");
    assert_eq!(replay(&desk, &id).0, 202);
    assert_eq!(desk.end(&event).0, "applied");
    assert_eq!(desk.plan("a").0, "free");
    let sql = "select count(*) as n from audit where action = 'event.replay'";
    assert_eq!(desk.count(sql), 2);
}

#[test]
fn failed_and_waiting_events_are_taken_up_together() {
    let desk = Desk::new(&[]);
    let events = [failed(&desk, "a"), failed(&desk, "b")];
    let waits = desk.send("customer.plan_changed", "nobody", &json!({}));
    assert_eq!(desk.end(&waits).0, "waiting");
    desk.fault("plan", "ok");
    let many = |status: &str| {
        let body = json!({ "status": status });
        desk.ok("POST", "/v1/events/replay", &body)["queued"].clone()
    };
    assert_eq!(many("failed"), json!(2));
    for event in &events {
        assert_eq!(desk.end(event).0, "applied");
    }
    assert_eq!(many("failed"), json!(0));
    assert_eq!(many("waiting"), json!(1));
    assert_eq!(desk.end(&waits).0, "waiting", "nobody has the customer yet");
    assert_eq!(replay(&desk, &id_of(&desk, &waits)).0, 202);
    for status in ["processing", "received", "x"] {
        let body = json!({ "status": status });
        assert_eq!(post(&desk, "/v1/events/replay", &body).0, 422, "{status}");
    }
}

/// An event that is claimed, and its claim.
fn claimed(desk: &Desk) -> (String, lane::Claimed) {
    desk.account("a");
    let jwt = desk.sign("customer.payment_succeeded", "a", &json!({}));
    let body = counterfoil::http::request::Body::Whole(jwt.into_bytes());
    let world = desk.machine.world();
    let stored = block_on(receive::intake(&world, &body, None)).expect("no fault");
    let stored = stored.expect("it is stored");
    let claim = block_on(lane::claim(&world, &stored.lane)).expect("no fault");
    (stored.id, claim.expect("a claim"))
}

#[test]
fn in_work_is_what_is_claimed_under_a_lease_that_runs() {
    let desk = Desk::new(&[]);
    let (id, _) = claimed(&desk);
    let clock = &desk.machine.clock.0;
    let in_work = (409, "event_in_work".to_owned());
    let skip = format!("/v1/events/{id}/skip");
    clock.set(clock.get().after(29_999));
    assert_eq!(replay(&desk, &id), in_work);
    assert_eq!(post(&desk, &skip, &json!({"reason": "x"})), in_work);
    let sql = "select count(*) as n from audit where action like 'event.%'";
    assert_eq!(desk.count(sql), 0);
    clock.set(clock.get().after(1));
    assert_eq!(replay(&desk, &id), (202, String::new()));
    let shown = desk.ok("GET", &format!("/v1/events/{id}"), &Json::Null);
    assert_eq!(shown["status"], "applied");
}

#[test]
fn a_worker_whose_event_was_skipped_behind_its_lease_applies_nothing() {
    let desk = Desk::new(&[]);
    let (id, claim) = claimed(&desk);
    let clock = &desk.machine.clock.0;
    clock.set(clock.get().after(30_000));
    let skip = format!("/v1/events/{id}/skip");
    assert_eq!(post(&desk, &skip, &json!({"reason": "a test"})).0, 202);
    let late = lane::Claimed {
        give_up_at: Millis::new(i64::MAX),
        ..claim
    };
    let world = desk.machine.world();
    block_on(apply::apply(&world, &late, Doorbell::Rings)).expect("it gives up quietly");
    let shown = desk.ok("GET", &format!("/v1/events/{id}"), &Json::Null);
    assert_eq!(
        (&shown["status"], &shown["result"]),
        (&json!("skipped"), &json!("a test"))
    );
    let sql = "select count(*) as n from grant_row where granted_by = 'payment'";
    assert_eq!(desk.count(sql), 0);
}
