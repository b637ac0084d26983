//! Customers, meters, faults and calls.

use serde_json::{Value, json};

use super::{AGREEMENTS, Client, DAY, USAGE, text};
use crate::native::executor::block_on;
use crate::ports::{Db, ObjectName, Statement};

#[test]
fn a_delta_adds_each_time_and_an_absolute_sets() {
    let client = Client::new();
    client.customer(&json!({"agreement_id": "agreement_1"}));
    let token = client.token(None);
    let write = |value: &str, kind: Option<&str>| {
        let mut body = json!({"customer_agreement_id": "agreement_1",
            "billing_feature_code": "tokens", "meter_value": value});
        if let Some(kind) = kind {
            body["meter_type_code"] = json!(kind);
        }
        assert_eq!(client.write(&token, &body).0, 200);
    };
    write("10", None);
    write("5", Some("delta"));
    write("5", Some("delta"));
    assert_eq!(client.total("agreement_1"), 20);
    write("7", Some("absolute"));
    assert_eq!(client.total("agreement_1"), 7);
}

#[test]
fn usage_from_before_the_period_does_not_move_the_live_total() {
    let client = Client::new();
    client.customer(&json!({"agreement_id": "agreement_1"}));
    let token = client.token(None);
    let write = |value: &str, at: &str| {
        let body = json!({"customer_agreement_id": "agreement_1", "meter_value": value,
            "billing_feature_code": "tokens", "meter_usage_timestamp": at});
        assert_eq!(client.write(&token, &body).0, 200);
    };
    write("10", "2026-11-10T11:00:00Z");
    write("99", "2026-10-31T23:59:59Z");
    assert_eq!(client.total("agreement_1"), 10);
    write("8", "2026-11-10T10:00:00+00");
    assert_eq!(client.total("agreement_1"), 8);
    let target = format!(
        "{USAGE}?customer_agreement_id=agreement_1&billing_feature_code=tokens&all_cycles=true"
    );
    let (_, all) = client.raw("GET", &target, &token, "", "");
    assert_eq!(all["meter_usage"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_changed_plan_ends_the_agreement_and_begins_one_with_meters_at_zero() {
    let client = Client::new();
    let free = client.customer(&json!({}));
    assert_eq!(text(&free, "plan"), "free");
    assert_eq!(free["limits"], json!({"clicks": null, "tokens": 10_000}));
    let old = text(&free, "agreement_id").to_owned();
    client.put(
        &format!("/standin/meters/{old}/tokens"),
        &json!({"total": 40}),
    );
    let same = client.customer(&json!({"plan": "free"}));
    assert_eq!(text(&same, "agreement_id"), old);
    let pro = client.customer(&json!({"plan": "pro"}));
    let new = text(&pro, "agreement_id").to_owned();
    assert_ne!(new, old);
    assert_eq!(pro["limits"]["tokens"], 100_000);
    assert_eq!(pro["period_start"], free["period_start"]);
    assert_eq!((client.total(&old), client.total(&new)), (40, 0));
    let token = client.token(None);
    let target = format!("{AGREEMENTS}?customer_id=customer_1");
    let (_, list) = client.raw("GET", &target, &token, "", "");
    let ended: Vec<bool> = list["agreements"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| row["expires_on"].is_string())
        .collect();
    assert_eq!(ended, [true, false]);
    let none = client.customer(&json!({"plan": null}));
    assert_eq!(
        (&none["plan"], &none["agreement_id"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(none["limits"], json!({}));
    assert_eq!(client.customer(&json!({}))["plan"], Value::Null);
    let again = client.customer(&json!({"plan": "pro", "agreement_id": new}));
    assert_eq!(text(&again, "agreement_id"), new);
}

#[test]
fn a_named_agreement_takes_the_plan_and_belongs_to_one_customer() {
    let client = Client::new();
    let named = client.customer(&json!({"plan": "pro", "agreement_id": "agreement_x"}));
    assert_eq!(text(&named, "agreement_id"), "agreement_x");
    client.put("/standin/meters/agreement_x/tokens", &json!({"total": 5}));
    let down = client.customer(&json!({"plan": "free", "agreement_id": "agreement_x"}));
    assert_eq!(
        (text(&down, "plan"), client.total("agreement_x")),
        ("free", 5)
    );
    for (target, body, field) in [
        (
            "customer_2",
            json!({"agreement_id": "agreement_x"}),
            "agreement_id",
        ),
        (
            "customer_1",
            json!({"plan": null, "agreement_id": "a"}),
            "agreement_id",
        ),
        ("customer_1", json!({"plan": 7}), "plan"),
        (
            "customer_1",
            json!({"limits": {"tokens": -1}}),
            "limits.tokens",
        ),
        (
            "customer_1",
            json!({"limits": {"tokens": 1.5}}),
            "limits.tokens",
        ),
        ("customer_1", json!({"limits": []}), "limits"),
        (
            "customer_1",
            json!({"period_end": "2026-11-01T00:00:00Z"}),
            "period_end",
        ),
        (
            "customer_1",
            json!({"period_start": "soon"}),
            "period_start",
        ),
        ("customer_1", json!({"colour": "red"}), "colour"),
    ] {
        let target = format!("/standin/customers/{target}");
        let (status, answer) = client.control("PUT", &target, &body);
        assert_eq!((status, text(&answer, "field")), (422, field), "{body}");
    }
}

#[test]
fn limits_override_the_plan_s_feature_by_feature() {
    let client = Client::new();
    let set = client.customer(&json!({"limits": {"tokens": 7, "seats": null}}));
    let expected = json!({"clicks": null, "seats": null, "tokens": 7});
    assert_eq!(set["limits"], expected);
    let pro = client.customer(&json!({"plan": "pro"}));
    assert_eq!(pro["limits"]["tokens"], 7);
    let plain = client.customer(&json!({"limits": {}}));
    assert_eq!(plain["limits"], json!({"clicks": null, "tokens": 100_000}));
}

#[test]
fn periods_follow_each_other_monthly_and_meters_begin_anew_with_each() {
    let client = Client::new();
    let set = json!({"agreement_id": "agreement_1", "period_start": "2026-10-31T08:00:00Z"});
    let first = client.customer(&set);
    assert_eq!(text(&first, "period_end"), "2026-11-30T08:00:00.000Z");
    client.put("/standin/meters/agreement_1/tokens", &json!({"total": 5}));
    client.machine.advance(20 * DAY);
    assert_eq!(client.total("agreement_1"), 0);
    let second = client.customer(&json!({}));
    assert_eq!(text(&second, "period_start"), "2026-11-30T08:00:00.000Z");
    assert_eq!(text(&second, "period_end"), "2026-12-31T08:00:00.000Z");
    assert_eq!(text(&second, "agreement_id"), "agreement_1");
    client.put("/standin/meters/agreement_1/tokens", &json!({"total": 6}));
    let ends = json!({"period_end": "2026-12-05T00:00:00Z"});
    let cut = client.customer(&ends);
    assert_eq!(cut["period_start"], second["period_start"]);
    assert_eq!(client.total("agreement_1"), 6);
    client.machine.advance(5 * DAY);
    let third = client.customer(&json!({}));
    assert_eq!(text(&third, "period_start"), "2026-12-05T00:00:00.000Z");
    assert_eq!(text(&third, "period_end"), "2027-01-05T00:00:00.000Z");
    client.machine.advance(100 * DAY);
    let later = client.customer(&json!({}));
    assert_eq!(text(&later, "period_start"), "2027-03-05T00:00:00.000Z");
}

#[test]
fn an_unknown_agreement_has_no_meter_and_a_total_is_an_amount() {
    let client = Client::new();
    let target = "/standin/meters/agreement_9/tokens";
    assert_eq!(client.control("GET", target, &Value::Null).0, 404);
    assert_eq!(client.control("PUT", target, &json!({"total": 1})).0, 404);
    let (status, answer) = client.control("PUT", target, &json!({"total": -1}));
    assert_eq!((status, text(&answer, "field")), (422, "total"));
}

#[test]
fn a_fault_names_a_known_operation_and_mode_and_ends_with_ok() {
    let client = Client::new();
    for (body, field) in [
        (json!({"operation": "x", "mode": "error"}), "operation"),
        (json!({"operation": "limit", "mode": "x"}), "mode"),
        (json!({"operation": "limit"}), "mode"),
        (
            json!({"operation": "limit", "mode": "error", "times": 0}),
            "times",
        ),
    ] {
        let (status, answer) = client.control("PUT", "/standin/faults", &body);
        assert_eq!((status, text(&answer, "field")), (422, field), "{body}");
    }
    let jwks = || client.raw("GET", "/standin/.well-known/jwks", "", "", "").0;
    client.put(
        "/standin/faults",
        &json!({"operation": "jwks", "mode": "error"}),
    );
    assert_eq!((jwks(), jwks()), (500, 500));
    client.put(
        "/standin/faults",
        &json!({"operation": "jwks", "mode": "timeout", "times": 2}),
    );
    assert_eq!((jwks(), jwks(), jwks()), (504, 504, 200));
    client.put(
        "/standin/faults",
        &json!({"operation": "jwks", "mode": "429"}),
    );
    client.put(
        "/standin/faults",
        &json!({"operation": "jwks", "mode": "ok"}),
    );
    assert_eq!(jwks(), 200);
}

#[test]
fn calls_are_shown_newest_first_and_hold_no_secret() {
    let client = Client::new();
    client.customer(&json!({"agreement_id": "agreement_1"}));
    let token = client.token(None);
    let body = json!({"customer_agreement_id": "agreement_1", "meter_value": "5",
        "billing_feature_code": "tokens"});
    client.write(&token, &body);
    client.write("", &body);
    let list = |query: &str| {
        let target = format!("/standin/calls{query}");
        client.control("GET", &target, &Value::Null).1
    };
    let calls = list("");
    let shown: Vec<(&str, u64)> = calls["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|call| {
            (
                text(call, "operation"),
                call["status"].as_u64().unwrap_or(0),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [("meter_write", 401), ("meter_write", 200), ("token", 200)]
    );
    assert_eq!(calls["items"][1]["body"], body);
    assert!(!calls.to_string().contains("standin-secret"));
    let first = list("?limit=1");
    let rest = list(&format!("?limit=5&after={}", text(&first, "next")));
    assert_eq!(rest["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(rest["next"], Value::Null);
}

/// Goal: a read costs no commit of its own, and the list is whole and in order all the same.
#[test]
fn reads_wait_for_the_next_write_the_list_or_a_second() {
    let client = Client::new();
    client.customer(&json!({"agreement_id": "agreement_1"}));
    let token = client.token(None);
    let target = format!("{USAGE}?customer_agreement_id=agreement_1&billing_feature_code=tokens");
    let read = || assert_eq!(client.raw("GET", &target, &token, "", "").0, 200);
    let stored = || {
        let storage = client.machine.objects.storage(&ObjectName::StandIn);
        let storage = storage.expect("it was asked");
        let sql = "select operation from call order by number";
        let rows = block_on(Db::query(&storage, Statement::new(sql, vec![])));
        let rows = rows.expect("it reads");
        let names = rows
            .iter()
            .map(|row| row.text("operation").map(str::to_owned));
        names.collect::<Result<Vec<_>, _>>().expect("names")
    };
    read();
    read();
    assert_eq!(stored(), ["token"]);
    let body = json!({"customer_agreement_id": "agreement_1", "meter_value": "5",
        "billing_feature_code": "tokens"});
    client.write(&token, &body);
    let mut all = vec!["token", "meter_read", "meter_read", "meter_write"];
    assert_eq!(stored(), all);

    read();
    client.machine.advance(1_000);
    all.push("meter_read");
    assert_eq!(stored(), all);

    read();
    let (_, calls) = client.control("GET", "/standin/calls", &Value::Null);
    all.push("meter_read");
    let shown = calls["items"].as_array().expect("a list").iter();
    let shown: Vec<_> = shown.rev().map(|call| text(call, "operation")).collect();
    assert_eq!(shown, all);

    read();
    client.machine.objects.evict_all();
    client.machine.advance(1_000);
    assert_eq!(stored(), all, "the end of the process loses it");
    read();
    client.machine.advance(1_000);
    all.push("meter_read");
    assert_eq!(stored(), all);
}
