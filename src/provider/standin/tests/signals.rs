//! Signed events, their delivery, and the clock.

use ct_codecs::{Base64UrlSafeNoPadding, Decoder};
use serde_json::{Value, json};

use super::{Client, DAY, text};
use crate::moment;
use crate::native::executor::block_on;
use crate::native::machine::Machine;
use crate::ports::ObjectName;
use crate::units::AccountId;

fn payload(jwt: &str) -> Value {
    let part = jwt.split('.').nth(1).expect("a payload");
    let bytes = Base64UrlSafeNoPadding::decode_to_vec(part, None).expect("base64url");
    serde_json::from_slice(&bytes).expect("JSON")
}

#[test]
fn an_event_is_signed_with_a_key_of_the_jwks_and_says_what_it_was_told() {
    let client = Client::new();
    let body = json!({"type": "customer.plan_changed", "customer_id": "customer_1",
        "data": {"plan": {"key": "pro"}}, "deliver": 0});
    let (status, event) = client.control("POST", "/standin/events", &body);
    assert_eq!(status, 200, "{event}");
    let jwt = text(&event, "jwt");
    let read = payload(jwt);
    assert_eq!(read["event_id"], event["event_id"]);
    assert_eq!(
        read["data"],
        json!({"customer_id": "customer_1", "plan": {"key": "pro"}})
    );
    let id = text(&event, "event_id")
        .strip_prefix("event_")
        .expect("its prefix");
    assert!(id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()));
    for absent in ["iss", "aud", "exp", "iat", "jti"] {
        assert!(read.get(absent).is_none(), "{absent}");
    }
    let second = client.control("POST", "/standin/events", &body).1;
    let time = |read: &Value| moment::parse(text(read, "event_timestamp")).expect("a moment");
    assert!(time(&read) < time(&payload(text(&second, "jwt"))));
    let provider = std::rc::Rc::clone(&client.machine.world().provider);
    let keys = block_on(provider.signing_keys()).expect("keys");
    assert_eq!(keys[0].kid.split(':').count(), 16);
    let (message, signature) = jwt.rsplit_once('.').expect("a signature");
    let signature = Base64UrlSafeNoPadding::decode_to_vec(signature, None).expect("base64url");
    let world = client.machine.world();
    let verify = world
        .signatures
        .verify(&keys[0].n, &keys[0].e, message.as_bytes(), &signature);
    assert_eq!(block_on(verify), Ok(true));
}

#[test]
fn a_rotation_signs_with_a_new_key_and_keeps_the_old_one_for_a_while_unless_dropped() {
    let client = Client::new();
    let kids = || {
        let (_, jwks) = client.raw("GET", "/standin/.well-known/jwks", "", "", "");
        let keys = jwks["keys"].as_array().expect("a list").clone();
        keys.iter()
            .map(|key| text(key, "kid").to_owned())
            .collect::<Vec<_>>()
    };
    let rotate = |body: Value| client.control("POST", "/standin/keys/rotate", &body).1;
    let first = kids();
    let second = rotate(json!({}));
    assert_eq!(kids(), [text(&second, "kid"), first[0].as_str()]);
    client.machine.advance(3_700_000);
    assert_eq!(kids(), [text(&second, "kid")]);
    let third = rotate(json!({"drop": true}));
    assert_eq!(kids(), [text(&third, "kid")]);
}

#[test]
fn a_delivery_goes_to_this_worker_or_a_loopback_address_only() {
    let client = Client::new();
    let event = |to: &str| {
        let body = json!({"type": "x", "customer_id": "customer_1", "deliver": 0, "to": to});
        client.control("POST", "/standin/events", &body)
    };
    for own in [
        "/webhooks/kinde",
        "http://localhost:8787/webhooks/kinde",
        "http://127.0.0.1:9/x",
    ] {
        assert_eq!(event(own).0, 200, "{own}");
    }
    for other in [
        "https://example.com/x",
        "ftp://localhost/x",
        "//example.com",
        "x",
    ] {
        let (status, answer) = event(other);
        assert_eq!((status, text(&answer, "field")), (422, "to"), "{other}");
    }
}

#[test]
fn what_our_own_inbox_would_refuse_is_only_signed_and_never_delivered() {
    let client = Client::new();
    let event = |name: &str, value: &Value, deliver: u32| {
        let mut body = json!({"type": "x", "customer_id": "customer_1", "deliver": deliver});
        body[name] = value.clone();
        client.control("POST", "/standin/events", &body)
    };
    let long = "e".repeat(65);
    for (name, value) in [
        ("event_id", json!("event 1")),
        ("event_id", json!("../event")),
        ("event_id", json!(long)),
        ("type", json!("t".repeat(101))),
        ("timestamp", json!("yesterday")),
        ("data", json!({"text": "a".repeat(200 * 1024)})),
    ] {
        let (status, answer) = event(name, &value, 1);
        assert_eq!((status, text(&answer, "field")), (422, name), "{answer}");
        assert_eq!(event(name, &value, 0).0, 200, "a forgery may be signed");
    }
    for (name, value) in [
        ("event_id", json!("event-1.2_3")),
        ("type", json!("t".repeat(100))),
        ("timestamp", json!("2026-11-10T23:00:00.123456789+11")),
        ("event_timestamp", json!("its order is not known")),
        ("webhook_id", json!("w".repeat(200))),
        ("data", json!({"text": "a".repeat(190 * 1024)})),
    ] {
        let (status, answer) = event(name, &value, 1);
        assert_eq!(
            (status, &answer["answers"]),
            (200, &json!([200])),
            "{name}: {answer}"
        );
    }
}

#[test]
fn a_delivery_that_is_not_answered_is_made_again_by_kinde_s_schedule() {
    let client = Client::new();
    let body = json!({"type": "customer.payment_succeeded", "customer_id": "customer_1",
        "to": "http://127.0.0.1:9/x", "deliver": 2});
    let (_, event) = client.control("POST", "/standin/events", &body);
    assert_eq!(event["answers"], json!([null, null]));
    let log = &client.machine.log;
    let attempts = || {
        let lines = log.0.borrow();
        lines
            .iter()
            .filter(|(_, event, _)| event == "standin.undelivered")
            .count()
    };
    let mut expected = 2;
    for pause in [5, 30, 120, 600, 3600, 14_400, 43_200, 43_200] {
        assert_eq!(attempts(), expected);
        client.machine.advance(pause * 1000 - 1);
        assert_eq!(attempts(), expected, "before {pause} s");
        client.machine.advance(1);
        expected += 2;
        assert_eq!(attempts(), expected, "after {pause} s");
    }
    client.machine.advance(10 * DAY);
    assert_eq!(attempts(), expected, "given up after 36 hours");
}

#[test]
fn the_clock_moves_worker_objects_and_stand_in_and_never_goes_back() {
    let client = Client::new();
    let made = client.control("POST", "/v1/accounts", &json!({"id": "a1"}));
    assert_eq!(made.0, 201, "{}", made.1);
    let world = client.machine.world();
    let before = world.now();
    assert_eq!(
        client.put("/standin/clock", &json!({"offset_ms": 40 * DAY})),
        json!({"offset_ms": 40 * DAY})
    );
    assert_eq!(world.now().since(before), 40 * DAY);
    let account = AccountId::new("a1").expect("an id");
    for object in [ObjectName::Account(account), ObjectName::LedgerShard(3)] {
        let storage = client
            .machine
            .objects
            .storage(&object)
            .expect("it was told");
        let sql = "select value from object_meta where name = 'clock_offset_ms'";
        let rows = crate::ports::Sql::query(&storage, sql, &[]).expect("a row");
        assert_eq!(rows[0].text("value"), Ok((40 * DAY).to_string().as_str()));
    }
    let set = client.customer(&json!({}));
    assert_eq!(text(&set, "period_start"), "2026-12-01T00:00:00.000Z");
    let (status, answer) = client.control("PUT", "/standin/clock", &json!({"offset_ms": 5}));
    assert_eq!((status, text(&answer, "field")), (422, "offset_ms"));
    let far = json!({"offset_ms": 101 * 366 * DAY});
    let (status, answer) = client.control("PUT", "/standin/clock", &far);
    assert_eq!((status, text(&answer, "field")), (422, "offset_ms"));
    client.put("/standin/clock", &json!({"offset_ms": 40 * DAY}));
}

#[test]
fn the_first_offset_may_be_negative_and_a_new_object_asks_for_it() {
    let client = Client::new();
    client.put("/standin/clock", &json!({"offset_ms": -40 * DAY}));
    let set = client.customer(&json!({}));
    assert_eq!(text(&set, "period_start"), "2026-10-01T00:00:00.000Z");
    let made = client.control("POST", "/v1/accounts", &json!({"id": "late"}));
    assert_eq!(made.0, 201, "{}", made.1);
    let (status, _) = client.control(
        "GET",
        "/v1/budget?account=late&feature=tokens",
        &Value::Null,
    );
    assert_ne!(status, 404);
    let account = ObjectName::Account(AccountId::new("late").expect("an id"));
    if let Some(storage) = client.machine.objects.storage(&account) {
        let sql = "select value from object_meta where name = 'clock_offset_ms'";
        let rows = crate::ports::Sql::query(&storage, sql, &[]).expect("a row");
        assert_eq!(rows[0].text("value"), Ok((-40 * DAY).to_string().as_str()));
    }
    assert_eq!(
        client
            .control("PUT", "/standin/clock", &json!({"offset_ms": 0}))
            .0,
        200
    );
}

#[test]
fn another_isolate_hears_of_the_clock_within_a_second() {
    let client = Client::new();
    client.put("/standin/clock", &json!({"offset_ms": DAY}));
    let world = client.machine.world();
    // As if the offset had been set by a request to another isolate.
    world.isolate.clock_offset_ms.set(0);
    client.machine.advance(999);
    client.control("GET", "/healthz", &Value::Null);
    assert_eq!(world.isolate.clock_offset_ms.get(), 0);
    client.machine.advance(1);
    client.control("GET", "/healthz", &Value::Null);
    assert_eq!(world.isolate.clock_offset_ms.get(), DAY);
}

#[test]
fn without_the_stand_in_none_of_its_paths_is_there_whoever_asks() {
    let machine = Machine::new(&[("PROVIDER", "kinde")]).expect("it starts");
    for (method, path) in [
        ("POST", "/standin/oauth2/token"),
        ("GET", "/standin/.well-known/jwks"),
        ("PUT", "/standin/clock"),
        ("GET", "/standin/clock"),
        ("OPTIONS", "/standin/clock"),
        ("GET", "/standin/calls"),
    ] {
        for token in ["", "dev-operator"] {
            assert_eq!(
                machine.call(method, path, token, &Value::Null).0,
                404,
                "{method} {path}"
            );
        }
    }
    let machine = Machine::new(&[]).expect("it starts");
    assert_eq!(
        machine.call("GET", "/standin/calls", "", &Value::Null).0,
        401
    );
    assert_eq!(
        machine
            .call("GET", "/standin/calls", "dev-backend", &Value::Null)
            .0,
        403
    );
}
