//! The inbox's routes to the letter of the contract: lists, one event, replay, skip, answers to the
//! sender.

use counterfoil::inbox::lane;
use counterfoil::native::executor::block_on;
use counterfoil::native::machine::request;
use counterfoil::params;
use counterfoil::ports::Statement;
use serde_json::{Value as Json, json};

use super::inbox_desk::{Desk, OPERATOR};

const BACKEND: &str = "dev-backend";

fn run(desk: &Desk, sql: &str) {
    let statement = Statement::new(sql, params![]);
    block_on(desk.machine.world().db.query(statement)).expect("it runs");
}

fn text_of(desk: &Desk, target: &str, token: &str) -> String {
    let answer = desk
        .machine
        .handle(request("GET", target, token, &Json::Null));
    assert_eq!(answer.status, 200, "{target}");
    String::from_utf8(answer.body).expect("text")
}

#[test]
fn an_event_is_answered_with_all_that_the_contract_names_and_its_payload_to_the_operator() {
    let desk = Desk::new(&[]);
    desk.account("a");
    let happened = json!({"event_timestamp": "2026-11-10T22:59:59.123456789+11:00",
        "data": {"id": 1_524_831_183_200_260_097_i64}});
    let event_id = desk.send("customer.payment_succeeded", "a", &happened);
    let list = desk.ok("GET", "/v1/events", &Json::Null);
    let event = list["items"][0].clone();
    let id = event["id"].as_str().expect("an id");
    assert_eq!(event["event_id"], json!(event_id));
    assert_eq!(event["type"], "customer.payment_succeeded");
    assert_eq!(
        (&event["account"], &event["status"]),
        (&json!("a"), &json!("applied"))
    );
    assert_eq!(event["result"], "paid; plan free granted for 2026-11");
    assert_eq!((&event["seen"], &event["attempts"]), (&json!(1), &json!(1)));
    assert_eq!(event["next_at"], Json::Null);
    assert_eq!(event["occurred_at"], "2026-11-10T11:59:59.123Z");
    assert_eq!(event["received_at"], "2026-11-10T12:00:00.000Z");
    let receipt = &event["receipts"][0];
    assert_eq!(
        (&receipt["at"], &receipt["outcome"]),
        (&event["received_at"], &json!("stored"))
    );
    assert!(receipt["webhook_id"].is_string() && receipt["kid"].is_string());
    let one = desk.ok("GET", &format!("/v1/events/{id}"), &Json::Null);
    assert_eq!(one["payload"]["event_id"], json!(event_id));
    assert_eq!(one["payload"], event["payload"]);
    // Digit by digit, in the list too.
    let listed = text_of(&desk, "/v1/events", OPERATOR);
    assert!(listed.contains("1524831183200260097"), "{listed}");
    let (_, backend) = desk.machine.call("GET", "/v1/events", BACKEND, &Json::Null);
    assert_eq!(backend["items"][0]["id"], json!(id));
    assert_eq!(backend["items"][0].get("payload"), None);
    let by_backend = format!("/v1/events/{id}");
    let (status, shown) = desk.machine.call("GET", &by_backend, BACKEND, &Json::Null);
    assert_eq!((status, shown.get("payload")), (200, None));
    for (target, status) in [
        ("/v1/events/evt_nobody", 404),
        ("/v1/events?account=no", 404),
    ] {
        assert_eq!(
            desk.machine.call("GET", target, OPERATOR, &Json::Null).0,
            status
        );
    }
}

#[test]
fn a_payload_too_long_for_a_list_is_shown_with_its_event_alone() {
    let desk = Desk::new(&[]);
    desk.account("a");
    let long = json!({"data": {"text": "x".repeat(17_000)}});
    let event = desk.send("customer.payment_succeeded", "a", &long);
    let listed = desk.event(&event);
    assert_eq!(listed["payload"], Json::Null);
    let id = listed["id"].as_str().expect("an id");
    let one = desk.ok("GET", &format!("/v1/events/{id}"), &Json::Null);
    assert_eq!(
        one["payload"]["data"]["text"].as_str().map(str::len),
        Some(17_000)
    );
}

#[test]
fn events_are_filtered_by_account_status_type_and_time_newest_first_page_by_page() {
    let desk = Desk::new(&[]);
    desk.account("a");
    desk.account("b");
    let mut sent = Vec::new();
    for (id, kind) in [
        ("a", "customer.payment_succeeded"),
        ("b", "customer.payment_succeeded"),
        ("a", "customer.payment_failed"),
        ("a", "passkey.added"),
    ] {
        sent.push(desk.send(kind, id, &json!({})));
        desk.machine.advance(60_000);
    }
    let ids = |query: &str| -> Vec<String> {
        let events = desk.events(query);
        let ids = events
            .iter()
            .map(|event| event["event_id"].as_str().expect("text"));
        ids.map(str::to_owned).collect()
    };
    let picked = |places: &[usize]| -> Vec<String> {
        places.iter().map(|place| sent[*place].clone()).collect()
    };
    assert_eq!(ids(""), picked(&[3, 2, 1, 0]));
    assert_eq!(ids("&account=a"), picked(&[3, 2, 0]));
    assert_eq!(ids("&status=ignored"), picked(&[3]));
    assert_eq!(ids("&type=customer.payment_succeeded"), picked(&[1, 0]));
    assert_eq!(
        ids("&account=a&status=applied&type=customer.payment_failed"),
        picked(&[2])
    );
    // From then on, before then; an offset also where its `+` was not escaped.
    assert_eq!(
        ids("&from=2026-11-10T12:01:00Z&to=2026-11-10T12:03:00Z"),
        picked(&[2, 1])
    );
    assert_eq!(ids("&from=2026-11-10T14:02:00+02:00"), picked(&[3, 2]));
    assert_eq!(ids("&from=&to=&status=&type="), picked(&[3, 2, 1, 0]));
    let page = desk.ok("GET", "/v1/events?limit=3", &Json::Null);
    let next = page["next"].as_str().expect("more follow");
    let rest = desk.ok(
        "GET",
        &format!("/v1/events?limit=3&after={next}"),
        &Json::Null,
    );
    assert_eq!(rest["items"][0]["event_id"], json!(sent[0]));
    assert_eq!(
        (rest["items"].as_array().map(Vec::len), &rest["next"]),
        (Some(1), &Json::Null)
    );
    for (query, field) in [
        ("status=over", "status"),
        ("from=yesterday", "from"),
        ("to=1", "to"),
        ("limit=501", "limit"),
    ] {
        let target = format!("/v1/events?{query}");
        let (status, answer) = desk.machine.call("GET", &target, OPERATOR, &Json::Null);
        assert_eq!((status, &answer["field"]), (422, &json!(field)), "{query}");
    }
}

#[test]
fn an_event_in_work_is_neither_replayed_nor_skipped() {
    let desk = Desk::new(&[]);
    desk.account("a");
    let jwt = desk.sign("customer.payment_succeeded", "a", &json!({}));
    let body = counterfoil::http::request::Body::Whole(jwt.into_bytes());
    let world = desk.machine.world();
    let stored = block_on(counterfoil::inbox::receive::intake(&world, &body, None));
    let id = stored.expect("no fault").expect("it is taken").id;
    let code = |path: &str, body: &Json| {
        let target = format!("/v1/events/{id}/{path}");
        let (status, answer) = desk.machine.call("POST", &target, OPERATOR, body);
        (
            status,
            answer["code"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let in_work = (409, "event_in_work".to_owned());
    block_on(lane::claim(&world, "customer_a"))
        .expect("no fault")
        .expect("a claim");
    assert_eq!(code("replay", &Json::Null), in_work);
    assert_eq!(code("skip", &json!({"reason": "no"})), in_work);
    desk.machine.advance(31_000);
    desk.watchdog();
    assert_eq!(code("replay", &Json::Null).0, 202);
    assert_eq!(code("replay", &json!({"x": 1})).0, 422);
    let missing = "/v1/events/evt_nobody/skip";
    let body = json!({"reason": "no"});
    assert_eq!(desk.machine.call("POST", missing, OPERATOR, &body).0, 404);
}

#[test]
fn a_reason_to_skip_is_1_to_500_characters() {
    let desk = Desk::new(&[]);
    let event = desk.send("customer.plan_changed", "nobody", &json!({}));
    let id = desk.event(&event)["id"].as_str().expect("an id").to_owned();
    let target = format!("/v1/events/{id}/skip");
    for bad in [
        json!({}),
        json!({"reason": " "}),
        json!({"reason": 7}),
        json!({"reason": "x".repeat(501)}),
    ] {
        let (status, answer) = desk.machine.call("POST", &target, OPERATOR, &bad);
        assert_eq!((status, &answer["field"]), (422, &json!("reason")), "{bad}");
    }
    let reason = json!({"reason": "x".repeat(500)});
    assert_eq!(desk.machine.call("POST", &target, OPERATOR, &reason).0, 202);
}

/// All that fit go back in one statement: nothing of a later page is missed, nothing is queued twice.
#[test]
fn a_bulk_replay_takes_every_event_that_fits_at_once() {
    let desk = Desk::new(&[]);
    desk.account("a");
    let kept = desk.send("customer.payment_succeeded", "a", &json!({}));
    desk.machine.advance(60_000);
    run(
        &desk,
        "insert into event (id, provider, event_id, type, lane, received_at_ms, status, content) \
         select 'evt_x' || value, 'kinde', 'event_x' || value, 'passkey.added', '~' || (value % 8), \
         1794312060000, 'dead', '' from \
         (with recursive n(value) as (select 1 union all select value + 1 from n where value < 1200) \
         select value from n)",
    );
    let bulk = |body: &Json| {
        let (status, answer) = desk
            .machine
            .call("POST", "/v1/events/replay", OPERATOR, body);
        assert_eq!(status, 202, "{answer}");
        answer["queued"].as_i64().expect("a number")
    };
    assert_eq!(
        bulk(&json!({"status": "dead", "until": "2026-11-10T12:01:00Z"})),
        0
    );
    assert_eq!(
        bulk(&json!({"status": "dead", "type": "customer.payment_succeeded"})),
        0
    );
    assert_eq!(bulk(&json!({"status": "ignored"})), 0);
    let since = json!({"status": "dead", "type": "passkey.added", "since": "2026-11-10T12:01:00Z",
        "until": "2026-11-10T12:01:00.001Z"});
    assert_eq!(bulk(&since), 1200);
    for _ in 0..4 {
        desk.watchdog();
    }
    assert_eq!(
        desk.count("select count(*) as n from event where status = 'ignored'"),
        1200
    );
    let untouched =
        format!("select count(*) as n from event where event_id = '{kept}' and status = 'applied'");
    assert_eq!(desk.count(&untouched), 1);
    assert_eq!(
        desk.count("select count(*) as n from run where id like 'evt_x%'"),
        1200
    );
    for (body, field) in [
        (json!({}), "status"),
        (json!({"status": "processing"}), "status"),
        (json!({"status": "dead", "since": "x"}), "since"),
        (json!({"status": "dead", "account": "a"}), "account"),
    ] {
        let (status, answer) = desk
            .machine
            .call("POST", "/v1/events/replay", OPERATOR, &body);
        assert_eq!((status, &answer["field"]), (422, &json!(field)), "{body}");
    }
}

#[test]
fn the_sender_is_told_stored_or_copy_and_when_to_come_again() {
    let desk = Desk::new(&[]);
    desk.account("a");
    let jwt = desk.sign("customer.payment_succeeded", "a", &json!({}));
    let post = |body: &str| {
        let mut asked = request("POST", "/webhooks/kinde", "", &Json::Null);
        asked.body = counterfoil::http::request::Body::Whole(body.as_bytes().to_vec());
        let answer = desk.machine.handle(asked);
        let told: Json = serde_json::from_slice(&answer.body).expect("JSON");
        (
            answer.status,
            told,
            answer.header("retry-after").map(str::to_owned),
        )
    };
    desk.fault("jwks", "timeout");
    let (status, told, again) = post(&jwt);
    assert_eq!((status, &told["code"]), (503, &json!("keys_unavailable")));
    assert_eq!(again.as_deref(), Some("30"));
    desk.fault("jwks", "ok");
    desk.machine.advance(31_000);
    let (status, first, _) = post(&jwt);
    assert_eq!((status, &first["copy"]), (200, &json!(false)));
    let (status, copy, _) = post(&format!("\n{jwt} "));
    assert_eq!(
        (status, copy),
        (200, json!({"id": first["id"], "copy": true}))
    );
    let get = desk
        .machine
        .handle(request("GET", "/webhooks/kinde", "", &Json::Null));
    assert_eq!(
        (get.status, get.header("allow")),
        (405, Some("POST, OPTIONS"))
    );
}

/// W27: the table is the schedule, whoever forgot to wake the lane.
#[test]
fn what_is_due_is_taken_by_a_tick_whatever_was_lost() {
    let desk = Desk::new(&[]);
    desk.account("a");
    let event = desk.send("customer.payment_succeeded", "a", &json!({}));
    run(
        &desk,
        "update event set status = 'failed', next_at_ms = 1, attempts = 1",
    );
    desk.machine.objects.evict_all();
    desk.watchdog();
    assert_eq!(desk.end(&event).0, "applied");
}

/// W25: a worker that died after its claim; nobody else holds the lane once its lease is over.
#[test]
fn a_claim_whose_worker_died_is_taken_again_after_its_lease() {
    let desk = Desk::new(&[]);
    desk.account("a");
    let jwt = desk.sign("customer.payment_succeeded", "a", &json!({}));
    let body = counterfoil::http::request::Body::Whole(jwt.into_bytes());
    let world = desk.machine.world();
    let stored = block_on(counterfoil::inbox::receive::intake(&world, &body, None));
    let id = stored.expect("no fault").expect("it is taken").id;
    block_on(lane::claim(&world, "customer_a"))
        .expect("no fault")
        .expect("a claim");
    let status = || desk.ok("GET", &format!("/v1/events/{id}"), &Json::Null)["status"].clone();
    desk.machine.advance(29_999);
    desk.watchdog();
    assert_eq!(status(), "processing");
    desk.machine.advance(1);
    desk.watchdog();
    assert_eq!(status(), "applied");
}
