//! Events whose type alone says how they end: they are stored with that end, counted once, and
//! judged again by the lane where they are replayed.

use std::rc::Rc;

use counterfoil::http::request::Body;
use counterfoil::inbox::lane;
use counterfoil::inbox::receive::{Outcome, intake, receive};
use counterfoil::native::executor::block_on;
use counterfoil::native::faulty::{Faults, FaultyGear, Then, When};
use counterfoil::native::machine::Gear;
use counterfoil::parallel;
use counterfoil::ports::{Db, Later, Signatures};
use serde_json::{Value as Json, json};

use super::inbox_desk::Desk;
use super::quick::QuickSignatures;

const USAGE: &str = "customer.meter_usage_updated";
const KEPT: (&str, &str) = ("applied", "kept as information");

/// Stores a delivery and wakes nothing.
fn stored(desk: &Desk, jwt: &str) -> counterfoil::inbox::receive::Received {
    let body = Body::Whole(jwt.as_bytes().to_vec());
    let outcome = block_on(intake(&desk.machine.world(), &body, None));
    outcome.expect("it is stored").expect("it is taken")
}

/// How often an end of that type was counted.
fn ends(desk: &Desk, type_name: &str) -> i64 {
    let sql = "select coalesce(sum(total), 0) as n from tally \
        where name like 'counterfoil_event_runs_total{%type=\"{}\"}'";
    desk.count(&sql.replace("{}", type_name))
}

fn end(desk: &Desk, event: &str) -> (String, String) {
    let event = desk.event(event);
    let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(event["next_at"], Json::Null);
    (text("status"), text("result"))
}

fn replay(desk: &Desk, event: &str) {
    let id = desk.event(event)["id"].as_str().expect("an id").to_owned();
    desk.ok("POST", &format!("/v1/events/{id}/replay"), &Json::Null);
}

#[test]
fn what_has_no_effect_is_stored_with_its_end_and_no_lane_is_claimed_for_it() {
    let desk = Desk::new(&[]);
    let sign = |type_name: &str, id: &str| desk.sign(type_name, "a", &json!({"event_id": id}));
    for (id, type_name) in [("event_1", USAGE), ("event_2", "passkey.added")] {
        let received = stored(&desk, &sign(type_name, id));
        assert!(!received.is_due, "nothing is left to do for it");
    }
    let (status, result) = KEPT;
    assert_eq!(
        end(&desk, "event_1"),
        (status.to_owned(), result.to_owned())
    );
    let ignored = "type passkey.added has no effect here".to_owned();
    assert_eq!(end(&desk, "event_2"), ("ignored".to_owned(), ignored));
    assert_eq!(desk.count("select count(*) as n from lane"), 0);
    assert_eq!(desk.count("select count(*) as n from run"), 0);
    assert_eq!((ends(&desk, USAGE), ends(&desk, "other")), (1, 1));
    // A deleted user is somebody's work.
    assert!(stored(&desk, &sign("user.deleted", "event_3")).is_due);
}

#[test]
fn a_copy_of_it_is_a_copy_and_is_not_counted_again() {
    let desk = Desk::new(&[]);
    let jwt = desk.sign(USAGE, "a", &json!({"event_id": "event_1"}));
    let copies = [false, true, true].map(|is_copy| (stored(&desk, &jwt).is_copy, is_copy));
    assert!(copies.iter().all(|(seen, wanted)| seen == wanted));
    let event = desk.event("event_1");
    assert_eq!(
        (&event["seen"], &event["conflict"]),
        (&json!(3), &json!(false))
    );
    assert_eq!(event["receipts"][2]["outcome"], "copy");
    assert_eq!(ends(&desk, USAGE), 1);
}

/// What came first stays, whichever of the two has an effect, and a copy that has none does not
/// take its next try from an event that waits.
#[test]
fn an_event_that_comes_again_under_another_type_keeps_its_first_one() {
    let desk = Desk::new(&[]);
    let happened = |id: &str| json!({"event_id": id});
    let usage_first = desk.sign(USAGE, "a", &happened("event_1"));
    let then_plan = desk.sign("customer.plan_changed", "a", &happened("event_1"));
    let plan_first = desk.sign("customer.plan_changed", "a", &happened("event_2"));
    let then_usage = desk.sign(USAGE, "a", &happened("event_2"));
    stored(&desk, &usage_first);
    assert!(!stored(&desk, &then_plan).is_due);
    assert_eq!(end(&desk, "event_1").0, "applied");
    stored(&desk, &plan_first);
    block_on(lane::run(&desk.machine.world(), "customer_a")).expect("it runs");
    assert_eq!(desk.end("event_2").0, "waiting", "nobody has the customer");
    assert!(
        stored(&desk, &then_usage).is_due,
        "a copy makes it due at once"
    );
    desk.account("a");
    desk.minutes(1);
    assert_eq!(end(&desk, "event_2").0, "applied");
    for event in ["event_1", "event_2"] {
        assert_eq!(desk.event(event)["conflict"], true);
    }
    assert_eq!(ends(&desk, USAGE), 1);
    assert_eq!(desk.plan("a").0, "free");
}

/// A release that knows more types judges what an older one ignored, and the other way round.
#[test]
fn what_was_ignored_is_judged_again_where_its_type_is_known_by_now() {
    let desk = Desk::new(&[]);
    desk.customer("customer_a", &json!({"plan": "pro"}));
    desk.account("a");
    let unknown = desk.sign(
        "customer.plan_upgraded",
        "a",
        &json!({"event_id": "event_1"}),
    );
    stored(&desk, &unknown);
    replay(&desk, "event_1");
    assert_eq!(end(&desk, "event_1").0, "ignored");
    assert_eq!(desk.count("select count(*) as n from run"), 1);
    assert_eq!(ends(&desk, "other"), 2);
    // The next release knows it.
    desk.sql("update event set type = 'customer.plan_changed'");
    let body = json!({"status": "ignored"});
    desk.ok("POST", "/v1/events/replay", &body);
    assert_eq!(end(&desk, "event_1").0, "applied");
    // The release before stored what has no effect for its lane.
    let usage = desk.sign(USAGE, "a", &json!({"event_id": "event_2"}));
    stored(&desk, &usage);
    desk.sql(
        "update event set status = 'received', result = null, next_at_ms = received_at_ms \
        where event_id = 'event_2'",
    );
    desk.minutes(1);
    let (status, result) = KEPT;
    assert_eq!(
        end(&desk, "event_2"),
        (status.to_owned(), result.to_owned())
    );
}

/// Faults around the databases, quick signatures.
struct Faulty(FaultyGear);

impl Gear for Faulty {
    fn db(&self, name: &'static str, plain: Rc<dyn Db>) -> Rc<dyn Db> {
        self.0.db(name, plain)
    }
    fn signatures(&self) -> Rc<dyn Signatures> {
        QuickSignatures.signatures()
    }
}

/// Goal: whichever call fails while deliveries are stored together, before or after it took effect,
/// what was answered 200 is stored, and once all were repeated each event is there once, at its
/// end, and counted once. Method: twins of two kinds, at once, for n = 1, 2, ….
#[test]
fn a_crash_at_any_statement_of_deliveries_that_travel_together_counts_none_twice() {
    let faults = Rc::new(Faults::default());
    let gear = Faulty(FaultyGear(Rc::clone(&faults)));
    let desk = Desk::geared(&[], Rc::new(gear));
    desk.account("a");
    let types = [
        USAGE,
        "customer.payment_succeeded",
        "passkey.added",
        USAGE,
        "user.updated",
    ];
    let tokens: Vec<String> = (types.into_iter())
        .map(|type_name| desk.sign(type_name, "a", &json!({})))
        .collect();
    // The keys are known from then on.
    let first = desk.sign(USAGE, "a", &json!({}));
    assert_eq!(desk.post(first.as_bytes(), "w").0, 200);
    desk.sql("delete from event");
    desk.sql("delete from tally");
    let empty = desk.machine.control.snapshot().expect("a copy");
    let mut crashes = 0;
    for (then, when) in [
        (Then::GoesOn, When::Before),
        (Then::GoesOn, When::After),
        (Then::Stands, When::Before),
        (Then::Stands, When::After),
    ] {
        for nth in 1..60 {
            let case = format!("{then:?} {when:?} {nth}");
            desk.machine
                .control
                .restore(&empty)
                .expect("it is put back");
            faults.fail_at(nth, when, then);
            let taken = at_once(&desk, &tokens);
            let met = faults.seen() >= nth;
            faults.mend();
            let stored = desk.count("select count(*) as n from event");
            assert!(
                stored >= taken,
                "{case}: {stored} stored, {taken} answered 200"
            );
            assert_eq!(at_once(&desk, &tokens), 5, "{case}");
            desk.minutes(1);
            assert_eq!(desk.count("select count(*) as n from event"), 5, "{case}");
            let open = "select count(*) as n from event where next_at_ms is not null";
            assert_eq!(desk.count(open), 0, "{case}");
            // A try of the payment's lane that failed is counted as well.
            assert_eq!((ends(&desk, USAGE), ends(&desk, "other")), (2, 2), "{case}");
            if !met {
                break;
            }
            crashes += 1;
        }
    }
    assert!(crashes > 20, "{crashes}");
}

/// Delivers all of them twice, at once; gives how many different events were answered 200.
fn at_once(desk: &Desk, tokens: &[String]) -> i64 {
    let world = desk.machine.world();
    let twice = tokens.iter().chain(tokens);
    let works = twice.map(|token| -> Later<'_, Outcome> {
        let body = Body::Whole(token.clone().into_bytes());
        let world = &world;
        Box::pin(async move { receive(world, &body, Some("w")).await })
    });
    let outcomes = block_on(parallel::all(works.collect(), 10));
    desk.machine.finish_background();
    let mut ids: Vec<String> = (outcomes.into_iter())
        .filter_map(|outcome| outcome.ok()?.ok().map(|received| received.id))
        .collect();
    ids.sort();
    ids.dedup();
    i64::try_from(ids.len()).expect("a few")
}
