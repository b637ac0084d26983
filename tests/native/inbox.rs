//! What the intake takes, what it refuses, and how an event is known again.

use std::collections::BTreeSet;
use std::rc::Rc;

use counterfoil::http::request::Body;
use counterfoil::inbox::receive::receive;
use counterfoil::native::executor::block_on;
use counterfoil::native::machine::{Gear, Plain, request};
use counterfoil::parallel;
use counterfoil::params;
use counterfoil::ports::{Later, ObjectName, Sql};
use ct_codecs::{Base64UrlSafeNoPadding, Encoder};
use serde_json::{Value as Json, json};

use super::inbox_desk::{Desk, OPERATOR};
use super::quick::QuickSignatures;

fn encode(bytes: &[u8]) -> String {
    Base64UrlSafeNoPadding::encode_to_string(bytes).expect("it encodes")
}

/// The stand-in's newest private key and its name.
fn signing_key(desk: &Desk) -> (String, String) {
    let storage = desk
        .machine
        .objects
        .storage(&ObjectName::StandIn)
        .expect("it was asked");
    let sql = "select kid, jwk from signing_key order by number desc limit 1";
    let rows = Sql::query(&storage, sql, &params![]).expect("it reads");
    let text = |name: &str| rows[0].text(name).expect("text").to_owned();
    (text("kid"), text("jwk"))
}

/// Signs any header and payload with the stand-in's key.
fn forge(desk: &Desk, header: &Json, payload: &str) -> String {
    let (_, jwk) = signing_key(desk);
    let message = format!(
        "{}.{}",
        encode(header.to_string().as_bytes()),
        encode(payload.as_bytes())
    );
    let signatures = Rc::clone(&desk.machine.world().signatures);
    let signature = block_on(signatures.sign(&jwk, message.as_bytes())).expect("it signs");
    format!("{message}.{}", encode(&signature))
}

fn header(desk: &Desk) -> Json {
    json!({"alg": "RS256", "kid": signing_key(desk).0, "typ": "JWT"})
}

fn payload(event_id: &str, timestamp: &str, more: &str) -> String {
    format!(
        r#"{{"type":"customer.plan_changed","event_id":"{event_id}","timestamp":"{timestamp}",{more}
        "data":{{"customer_id":"customer_a"}}}}"#
    )
}

const NOW: &str = "2026-11-10T12:00:00.000Z";

/// How often the stand-in was asked for its keys.
fn key_fetches(desk: &Desk) -> usize {
    let calls = desk.ok("GET", "/standin/calls?limit=500", &Json::Null);
    let calls = calls["items"].as_array().expect("a list").clone();
    calls
        .iter()
        .filter(|call| call.to_string().contains("jwks"))
        .count()
}

/// Goal: every forgery is refused as the contract says, leaves no row, and makes strangers cause at
/// most one fetch of keys in 30 seconds. Method: the native RS256 verifier, the stand-in's own key.
#[test]
fn every_forgery_is_refused_without_a_row_and_with_one_fetch_of_keys() {
    let desk = Desk::geared(&[], Rc::new(Plain));
    let good = desk.sign("customer.plan_changed", "a", &json!({}));
    let head = header(&desk);
    let with = |name: &str, value: Json| {
        let mut header = head.clone();
        header[name] = value;
        forge(&desk, &header, &payload("event_1", NOW, ""))
    };
    let parts: Vec<&str> = good.split('.').collect();
    let unsigned = |alg: &str| {
        let header = json!({"alg": alg, "kid": head["kid"]}).to_string();
        format!("{}.{}.", encode(header.as_bytes()), parts[1])
    };
    let (_, jwk) = signing_key(&desk);
    let public: Json = serde_json::from_str(&jwk).expect("a key");
    let hs_head = encode(
        json!({"alg": "HS256", "kid": head["kid"]})
            .to_string()
            .as_bytes(),
    );
    let hs_text = format!("{hs_head}.{}", parts[1]);
    let mac = hmac_sha256::HMAC::mac(hs_text.as_bytes(), public["n"].as_str().unwrap().as_bytes());
    let reencoded = encode(payload("event_2", NOW, "").as_bytes());
    let access = r#"{"aud":["x"],"azp":"client","scp":["openid"],"sub":"kp_1","exp":1799999999}"#;
    let old = payload("event_3", "2026-11-06T11:59:59Z", "");
    let ahead = payload("event_4", "2026-11-10T12:05:01Z", "");
    let cases: Vec<(u16, &str, String)> = vec![
        (401, "wrong_algorithm", unsigned("none")),
        (401, "wrong_algorithm", unsigned("NONE")),
        (
            401,
            "wrong_algorithm",
            format!("{hs_text}.{}", encode(&mac)),
        ),
        (401, "unknown_key", with("kid", json!("another"))),
        (401, "unknown_key", with("kid", json!("k".repeat(10_000)))),
        (
            401,
            "unknown_key",
            with("kid", json!("../../.well-known/jwks")),
        ),
        (401, "wrong_algorithm", with("crit", json!(["exp"]))),
        (
            401,
            "bad_signature",
            format!("{}.{}.{}", parts[0], parts[1], encode(&[0; 256])),
        ),
        (
            401,
            "bad_signature",
            format!("{}.{reencoded}.{}", parts[0], parts[2]),
        ),
        (400, "not_a_jwt", format!("{}.{}", parts[0], parts[1])),
        (400, "not_a_jwt", "hello".to_owned()),
        (400, "not_a_jwt", String::new()),
        (
            400,
            "not_a_jwt",
            "{\"type\":\"customer.plan_changed\"}".to_owned(),
        ),
        (400, "not_a_jwt", forge(&desk, &head, "[1]")),
        (401, "wrong_token", forge(&desk, &head, access)),
        (401, "stale", forge(&desk, &head, &old)),
        (401, "stale", forge(&desk, &head, &ahead)),
    ];
    for (status, code, body) in &cases {
        assert_eq!(
            desk.post(body.as_bytes(), "w"),
            (*status, (*code).to_owned()),
            "{body:.90}"
        );
    }
    let mut large = request("POST", "/webhooks/kinde", "", &Json::Null);
    large.body = Body::TooLarge;
    assert_eq!(desk.machine.handle(large).status, 413);
    assert_eq!(desk.count("select count(*) as n from event"), 0);
    assert_eq!(desk.count("select count(*) as n from receipt"), 0);
    assert_eq!(key_fetches(&desk), 1);
    let refused = "select sum(total) as n from tally where name like '%deliveries_refused%'";
    assert_eq!(desk.count(refused), i64::try_from(cases.len()).unwrap() + 1);
    assert_eq!(desk.post(good.as_bytes(), "w").0, 200);
}

#[test]
fn no_key_name_of_a_stranger_causes_more_than_one_fetch_in_thirty_seconds() {
    let desk = Desk::new(&[]);
    desk.sign("customer.plan_changed", "a", &json!({}));
    let mut head = header(&desk);
    for (round, seconds) in [(1, 0), (1, 29), (2, 31), (2, 50), (3, 62)] {
        desk.machine
            .clock
            .0
            .set(desk.machine.clock.0.get().after(0));
        let start = counterfoil::units::Millis::new(1_794_312_000_000);
        desk.machine.clock.0.set(start.after(seconds * 1000));
        for number in 0..20 {
            head["kid"] = json!(format!("stranger-{seconds}-{number}"));
            let body = forge(&desk, &head, &payload("event_1", NOW, ""));
            assert_eq!(desk.post(body.as_bytes(), "w").0, 401);
        }
        assert_eq!(key_fetches(&desk), round, "after {seconds} s");
    }
}

#[test]
fn a_rotated_key_is_fetched_once_and_the_old_one_still_counts() {
    let desk = Desk::new(&[]);
    let old = desk.sign("customer.plan_changed", "a", &json!({}));
    assert_eq!(desk.post(old.as_bytes(), "w1").0, 200);
    desk.ok("POST", "/standin/keys/rotate", &json!({}));
    let new = desk.sign("customer.plan_changed", "a", &json!({}));
    assert_eq!(desk.post(new.as_bytes(), "w2").0, 200);
    let again = desk.sign("customer.plan_changed", "a", &json!({}));
    assert_eq!(desk.post(again.as_bytes(), "w3").0, 200);
    assert_eq!(desk.post(old.as_bytes(), "w1").0, 200);
    assert_eq!(key_fetches(&desk), 2);
    let keys = "select count(distinct kid) as n from receipt";
    assert_eq!(desk.count(keys), 2);
}

#[test]
fn a_key_that_changed_under_its_name_is_fetched_anew_and_accepted() {
    let desk = Desk::new(&[]);
    let first = desk.sign("customer.plan_changed", "a", &json!({}));
    assert_eq!(desk.post(first.as_bytes(), "w").0, 200);
    let kid = signing_key(&desk).0;
    desk.ok("POST", "/standin/keys/rotate", &json!({"drop": true}));
    let storage = desk
        .machine
        .objects
        .storage(&ObjectName::StandIn)
        .expect("it is there");
    Sql::query(&storage, "update signing_key set kid = ?1", &params![kid]).expect("it is written");
    let second = desk.sign("customer.plan_changed", "a", &json!({}));
    assert_eq!(desk.post(second.as_bytes(), "w").0, 200);
    assert_eq!(key_fetches(&desk), 2);
}

/// The one forced fetch of 30 seconds is used up: the set of then is believed, and the sender, who
/// was not told 200, comes again.
#[test]
fn a_key_younger_than_the_last_forced_fetch_is_nobodys_for_thirty_seconds() {
    let desk = Desk::new(&[]);
    let first = desk.sign("customer.plan_changed", "a", &json!({}));
    assert_eq!(desk.post(first.as_bytes(), "w").0, 200);
    let mut head = header(&desk);
    head["kid"] = json!("stranger");
    let stranger = forge(&desk, &head, &payload("event_1", NOW, ""));
    assert_eq!(desk.post(stranger.as_bytes(), "w").0, 401);
    assert_eq!(key_fetches(&desk), 2);
    desk.machine.advance(1000);
    desk.ok("POST", "/standin/keys/rotate", &json!({}));
    let young = desk.sign("customer.plan_changed", "a", &json!({}));
    let unknown = (401, "unknown_key".to_owned());
    assert_eq!(desk.post(young.as_bytes(), "w"), unknown);
    desk.machine.advance(28_999);
    assert_eq!(desk.post(young.as_bytes(), "w"), unknown);
    assert_eq!(key_fetches(&desk), 2);
    desk.machine.advance(1);
    assert_eq!(desk.post(young.as_bytes(), "w").0, 200);
    assert_eq!(key_fetches(&desk), 3);
}

#[test]
fn a_signature_that_fails_under_a_set_fetched_for_it_causes_no_second_fetch() {
    let desk = Desk::geared(&[], Rc::new(Plain));
    let good = desk.sign("customer.plan_changed", "a", &json!({}));
    let (signed, _) = good.rsplit_once('.').expect("three parts");
    let bad = format!("{signed}.{}", encode(&[0; 256]));
    let mut head = header(&desk);
    head["kid"] = json!("stranger");
    let stranger = forge(&desk, &head, &payload("event_1", NOW, ""));
    for _ in 0..3 {
        assert_eq!(
            desk.post(bad.as_bytes(), "w"),
            (401, "bad_signature".to_owned())
        );
        assert_eq!(desk.post(stranger.as_bytes(), "w").0, 401);
    }
    assert_eq!(key_fetches(&desk), 1);
    assert_eq!(desk.post(good.as_bytes(), "w").0, 200);
}

#[test]
fn where_a_forced_fetch_fails_an_unknown_name_is_503_and_not_401() {
    let desk = Desk::new(&[]);
    let first = desk.sign("customer.plan_changed", "a", &json!({}));
    assert_eq!(desk.post(first.as_bytes(), "w").0, 200);
    desk.machine.advance(1000);
    desk.ok("POST", "/standin/keys/rotate", &json!({}));
    let young = desk.sign("customer.plan_changed", "a", &json!({}));
    let unavailable = (503, "keys_unavailable".to_owned());
    for mode in ["error", "timeout", "garbage", "429", "lost_answer"] {
        desk.fault("jwks", mode);
        assert_eq!(desk.post(young.as_bytes(), "w"), unavailable, "{mode}");
        // No second try within 30 seconds, and what is known still counts.
        let asked = key_fetches(&desk);
        desk.machine.advance(1000);
        assert_eq!(desk.post(young.as_bytes(), "w"), unavailable, "{mode}");
        assert_eq!(desk.post(first.as_bytes(), "w").0, 200);
        assert_eq!(key_fetches(&desk), asked, "{mode}");
        desk.machine.advance(30_000);
    }
    desk.fault("jwks", "ok");
    assert_eq!(desk.post(young.as_bytes(), "w").0, 200);
}

#[test]
fn while_keys_cannot_be_had_the_answer_is_503_and_nothing_is_lost() {
    let desk = Desk::new(&[]);
    desk.account("a");
    desk.fault("jwks", "error");
    desk.customer("customer_a", &json!({"plan": "pro"}));
    let answer = desk.ok(
        "POST",
        "/standin/events",
        &json!({"type": "customer.plan_changed",
        "customer_id": "customer_a", "data": {"plan": {"key": "pro"}}}),
    );
    assert_eq!(answer["answers"], json!([503]));
    assert_eq!(desk.count("select count(*) as n from event"), 0);
    desk.fault("jwks", "ok");
    // The sender comes again by its own schedule: 5 s, 30 s, 2 min.
    for _ in 0..6 {
        desk.machine.advance(30_000);
    }
    assert_eq!(desk.plan("a"), ("pro".to_owned(), 500));
}

#[test]
fn known_keys_serve_for_a_day_while_the_provider_is_out_of_reach() {
    let desk = Desk::new(&[("EVENT_MAX_AGE_HOURS", "1000")]);
    let one = desk.sign("customer.plan_changed", "a", &json!({}));
    let two = desk.sign("customer.plan_changed", "a", &json!({}));
    assert_eq!(desk.post(one.as_bytes(), "w").0, 200);
    desk.fault("jwks", "timeout");
    desk.machine.advance(23 * 3_600_000);
    assert_eq!(desk.post(two.as_bytes(), "w").0, 200);
    desk.machine.advance(2 * 3_600_000);
    let three = desk.sign("customer.plan_changed", "a", &json!({}));
    assert_eq!(
        desk.post(three.as_bytes(), "w"),
        (503, "keys_unavailable".to_owned())
    );
}

#[test]
fn twin_deliveries_are_one_event_two_receipts_and_one_run() {
    let desk = Desk::new(&[]);
    desk.account("a");
    let event = desk.send("customer.payment_succeeded", "a", &json!({"deliver": 2}));
    let stored = desk.event(&event);
    assert_eq!(stored["seen"], 2);
    let outcomes: Vec<&str> = stored["receipts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(outcomes, ["stored", "copy"]);
    assert_eq!(desk.count("select count(*) as n from run"), 1);
}

#[test]
fn fresh_message_ids_of_one_event_are_noted_and_have_one_effect() {
    let desk = Desk::new(&[]);
    desk.account("a");
    let jwt = desk.sign("customer.payment_succeeded", "a", &json!({}));
    for webhook in ["webhook_1", "webhook_2"] {
        assert_eq!(desk.post(jwt.as_bytes(), webhook).0, 200);
    }
    let event = desk.events("")[0].clone();
    assert_eq!(event["receipts"][1]["note"], "two senders are configured");
    assert_eq!(desk.count("select count(*) as n from run"), 1);
}

#[test]
fn a_captured_message_id_on_another_event_swallows_nothing() {
    let desk = Desk::new(&[]);
    desk.account("a");
    let one = desk.sign("customer.payment_failed", "a", &json!({}));
    desk.machine.advance(1000);
    let two = desk.sign("customer.payment_succeeded", "a", &json!({}));
    assert_eq!(desk.post(one.as_bytes(), "captured").0, 200);
    assert_eq!(desk.post(two.as_bytes(), "captured").0, 200);
    let events = desk.events("");
    assert_eq!(events.len(), 2);
    assert!(
        events.iter().all(|event| event["status"] == "applied"),
        "{events:?}"
    );
    let notes: Vec<&Json> = events
        .iter()
        .map(|event| &event["receipts"][0]["note"])
        .collect();
    let odd = json!("this webhook-id came with another event too");
    assert!(notes.contains(&&odd), "{notes:?}");
}

#[test]
fn the_same_event_signed_anew_is_a_copy_and_with_other_data_a_conflict() {
    let desk = Desk::new(&[]);
    desk.account("a");
    let happened =
        json!({"event_id": "event_77", "event_timestamp": NOW, "data": {"b": 1, "a": 2}});
    let sent = |more: &Json, at: &str| {
        let mut body = more.clone();
        body["timestamp"] = json!(at);
        desk.sign("customer.payment_succeeded", "a", &body)
    };
    assert_eq!(desk.post(sent(&happened, NOW).as_bytes(), "w").0, 200);
    let mut reordered = happened.clone();
    reordered["data"] = json!({"a": 2, "b": 1});
    assert_eq!(
        desk.post(sent(&reordered, "2026-11-10T12:01:00Z").as_bytes(), "w")
            .0,
        200
    );
    let event = desk.event("event_77");
    assert_eq!(
        (event["seen"].as_i64(), event["conflict"].as_bool()),
        (Some(2), Some(false))
    );
    let mut other = happened.clone();
    other["data"] = json!({"a": 3, "b": 1});
    assert_eq!(desk.post(sent(&other, NOW).as_bytes(), "w").0, 200);
    let event = desk.event("event_77");
    assert_eq!(event["conflict"], true);
    assert_eq!(event["receipts"][2]["outcome"], "conflict");
    assert_eq!(desk.count("select count(*) as n from run"), 1);
    assert_eq!(
        desk.count("select count(*) as n from alert where kind = 'conflict'"),
        1
    );
}

#[test]
fn outside_the_window_only_a_known_event_is_taken() {
    let desk = Desk::new(&[]);
    desk.account("a");
    let known = desk.sign("customer.payment_succeeded", "a", &json!({}));
    let unknown = desk.sign("customer.payment_succeeded", "a", &json!({}));
    assert_eq!(desk.post(known.as_bytes(), "w").0, 200);
    desk.machine.advance(97 * 3_600_000);
    assert_eq!(desk.post(known.as_bytes(), "w").0, 200);
    assert_eq!(
        desk.post(unknown.as_bytes(), "w"),
        (401, "stale".to_owned())
    );
    // A retry two minutes later, byte for byte, is no replay attack.
    assert_eq!(desk.events("").len(), 1);
}

#[test]
fn strange_letters_and_large_numbers_come_through_unchanged() {
    let desk = Desk::new(&[]);
    desk.account("a");
    desk.sign("customer.plan_changed", "a", &json!({}));
    let text = "{\"type\":\"customer.meter_usage_updated\",\"event_id\":\"event_9\",\
        \"timestamp\":\"2026-11-10T12:00:00+0000\",\"data\":{\"customer_id\":\"customer_a\",\
        \"who\":\"😀 ñ \u{2028} \\u001B \\u001b\",\"id\":1524831183200260097,\
        \"huge\":123456789012345678901234567890,\"q\":0}}";
    let jwt = forge(&desk, &header(&desk), text);
    assert_eq!(desk.post(jwt.as_bytes(), "w").0, 200);
    let id = desk.event("event_9")["id"].as_str().unwrap().to_owned();
    let target = format!("/v1/events/{id}");
    let response = desk
        .machine
        .handle(request("GET", &target, OPERATOR, &Json::Null));
    let shown = String::from_utf8(response.body).expect("text");
    assert!(shown.contains(text), "{shown}");
    assert!(serde_json::from_str::<Json>(&shown).is_ok());
    let (status, backend) = desk
        .machine
        .call("GET", &target, "dev-backend", &Json::Null);
    assert_eq!((status, backend.get("payload")), (200, None));
}

#[test]
fn any_content_type_is_read_and_unknown_types_are_stored_and_ignored_with_a_reason() {
    let desk = Desk::new(&[]);
    desk.account("a");
    for type_name in ["passkey.added", "user.updated", "customer.invoice_due", "x"] {
        let event = desk.send(type_name, "a", &json!({}));
        let (status, result) = desk.end(&event);
        assert_eq!(status, "ignored", "{type_name}");
        assert!(result.contains(type_name), "{result}");
    }
    let usage = desk.send(
        "customer.meter_usage_updated",
        "a",
        &json!({"data": {"quantity": 0}}),
    );
    assert_eq!(
        desk.end(&usage),
        ("applied".to_owned(), "kept as information".to_owned())
    );
}

#[test]
fn a_billing_event_without_a_customer_is_ignored_and_alerted_once() {
    let desk = Desk::new(&[]);
    for _ in 0..2 {
        let data = json!({"data": {"customer_id": "kp_4940"}});
        let event = desk.send("customer.plan_changed", "x", &data);
        assert_eq!(
            desk.end(&event),
            ("ignored".to_owned(), "it names no customer".to_owned())
        );
    }
    assert_eq!(
        desk.count("select count(*) as n from alert where kind = 'no_customer'"),
        1
    );
}

#[test]
fn a_deleted_user_or_organisation_goes_to_review_once() {
    let desk = Desk::new(&[]);
    let event = desk.send(
        "user.deleted",
        "x",
        &json!({"data": {"user": {"id": "kp_1"}}}),
    );
    assert_eq!(
        desk.end(&event),
        ("applied".to_owned(), "in review".to_owned())
    );
    let id = desk.event(&event)["id"].as_str().unwrap().to_owned();
    desk.ok("POST", &format!("/v1/events/{id}/replay"), &Json::Null);
    let sql = "select count(*) as n from review where kind = 'customer_deleted'";
    let rows = Sql::query(&desk.machine.ledger, sql, &[]).expect("it reads");
    assert_eq!(rows[0].int("n"), Ok(1));
}

#[test]
fn where_the_database_fails_at_the_insert_the_answer_is_not_200() {
    use counterfoil::native::faulty::{Faults, FaultyGear, Then, When};
    struct Both(FaultyGear);
    impl Gear for Both {
        fn db(
            &self,
            name: &'static str,
            plain: Rc<dyn counterfoil::ports::Db>,
        ) -> Rc<dyn counterfoil::ports::Db> {
            self.0.db(name, plain)
        }
        fn signatures(&self) -> Rc<dyn counterfoil::ports::Signatures> {
            QuickSignatures.signatures()
        }
    }
    let faults = Rc::new(Faults::default());
    let desk = Desk::geared(&[], Rc::new(Both(FaultyGear(Rc::clone(&faults)))));
    desk.account("a");
    let warm = desk.sign("customer.payment_succeeded", "a", &json!({}));
    assert_eq!(desk.post(warm.as_bytes(), "w").0, 200);
    for when in [When::Before, When::After] {
        let jwt = desk.sign("customer.payment_succeeded", "a", &json!({}));
        faults.fail_at(1, when, Then::GoesOn);
        assert_eq!(desk.post(jwt.as_bytes(), "w").0, 503);
        faults.mend();
        // The sender tries again; also where the first try had been stored it is one event.
        assert_eq!(desk.post(jwt.as_bytes(), "w").0, 200);
    }
    assert_eq!(desk.events("").len(), 3);
    desk.minutes(1);
    assert!(
        desk.events("")
            .iter()
            .all(|event| event["status"] == "applied")
    );
}

#[test]
fn without_a_configured_tenant_nothing_is_ever_taken() {
    let desk = Desk::new(&[("PROVIDER", "kinde")]);
    for body in ["", "x", "e30.e30.e30"] {
        assert_eq!(
            desk.post(body.as_bytes(), "w"),
            (503, "not_configured".to_owned())
        );
    }
    assert_eq!(desk.count("select count(*) as n from event"), 0);
}

/// Nobody used its gate, so only the inbox has called its object; the feed works all the same.
#[test]
fn an_account_that_only_gets_webhooks_is_reconciled_while_an_event_waits() {
    let desk = Desk::new(&[]);
    desk.account("a");
    let fault = json!({"operation": "plan", "mode": "error"});
    desk.machine
        .call("PUT", "/standin/faults", "dev-operator", &fault);
    let event = json!({"type": "customer.plan_changed", "customer_id": "customer_a"});
    let (status, sent) = desk
        .machine
        .call("POST", "/standin/events", "dev-operator", &event);
    assert_eq!(status, 200, "{sent}");
    desk.machine.finish_background();
    desk.machine.advance(2_000);
    let run = json!({});
    let (status, found) = desk
        .machine
        .call("POST", "/v1/run/reconciler", "dev-operator", &run);
    assert_eq!((status, &found["incomplete"]), (200, &json!(0)), "{found}");
    let lines = desk.machine.log.0.borrow();
    assert!(
        !lines
            .iter()
            .any(|line| line.2.to_string().contains("not told")),
        "{lines:?}"
    );
}

#[test]
fn deliveries_at_once_are_each_stored_with_a_receipt_and_twins_are_copies() {
    let desk = Desk::new(&[]);
    desk.account("a");
    let tokens: Vec<String> = (0..20)
        .map(|_| desk.sign("customer.plan_changed", "a", &json!({})))
        .collect();
    let world = desk.machine.world();
    let works = tokens.iter().chain(&tokens).map(|token| -> Later<'_, _> {
        let body = Body::Whole(token.clone().into_bytes());
        let world = &world;
        Box::pin(async move { receive(world, &body, Some("w")).await })
    });
    let received: Vec<_> = block_on(parallel::all(works.collect(), 40))
        .into_iter()
        .map(|outcome| outcome.expect("it answers").expect("it is stored"))
        .collect();
    let ids: BTreeSet<&str> = received.iter().map(|one| one.id.as_str()).collect();
    let copies = received.iter().filter(|one| one.is_copy).count();
    assert_eq!((ids.len(), copies), (20, 20));
    let count = |sql: &str| desk.count(sql);
    assert_eq!(count("select count(*) as n from event where seen = 2"), 20);
    assert_eq!(count("select count(*) as n from receipt"), 40);
    let first = "select count(*) as n from receipt where outcome = 'stored'";
    assert_eq!(count(first), 20);
}
