//! Plain usage, entries, sums and corrections over the router.

use counterfoil::native::executor::block_on;
use counterfoil::native::machine::Machine;
use counterfoil::ports::{Db, Statement};
use serde_json::{Value, json};

const OPERATOR: &str = "dev-operator";
const FEATURES: (&str, &str) = (
    "FEATURES",
    "clicks=clicks:counted mails=mails:counted tokens=tokens:gated",
);

fn machine() -> Machine {
    let machine = Machine::new(&[FEATURES]).expect("it starts");
    for id in ["a", "b"] {
        let (status, body) = machine.call("POST", "/v1/accounts", OPERATOR, &json!({"id": id}));
        assert_eq!(status, 201, "{body}");
    }
    machine
}

fn post(machine: &Machine, body: &Value) -> (u16, Value) {
    machine.call("POST", "/v1/usage?account=a", OPERATOR, body)
}

fn get(machine: &Machine, target: &str) -> Value {
    let (status, body) = machine.call("GET", target, OPERATOR, &Value::Null);
    assert_eq!(status, 200, "{target}: {body}");
    body
}

fn correct(machine: &Machine, id: &str, body: &Value) -> (u16, Value) {
    let target = format!("/v1/entries/{id}/correction?account=a");
    machine.call("POST", &target, OPERATOR, body)
}

fn numbers(machine: &Machine, sql: &str) -> Vec<i64> {
    let rows = block_on(Db::query(&machine.ledger, Statement::new(sql, vec![]))).unwrap();
    rows.iter().map(|row| row.int("n").unwrap()).collect()
}

fn number(machine: &Machine, sql: &str) -> i64 {
    numbers(machine, sql)[0]
}

/// Counters that are not the sum of their entries.
fn counters_that_lie(machine: &Machine) -> i64 {
    number(
        machine,
        "select count(*) as n from (select account_id, feature, cycle, sum(units) as units \
         from (select account_id, feature, cycle, units from entry union all \
         select account_id, feature, cycle, - total from counter) \
         group by 1, 2, 3 having sum(units) <> 0)",
    )
}

#[test]
fn a_fact_is_recorded_once_and_answered_alike_however_often_it_comes() {
    let machine = machine();
    let fact = json!({"key": "k1", "feature": "mails", "units": 5,
        "occurred_at": "2026-11-10T11:00:00+01:00"});
    let (status, first) = post(&machine, &fact);
    assert_eq!(status, 201, "{first}");
    assert_eq!(first["occurred_at"], "2026-11-10T10:00:00.000Z");
    assert_eq!(
        (&first["units"], &first["kind"]),
        (&json!(5), &json!("usage"))
    );
    let (status, again) = post(&machine, &fact);
    assert_eq!((status, &again), (200, &first));
    let usage = get(&machine, "/v1/usage?account=a&feature=mails");
    assert_eq!((&usage["total"], &usage["gross"]), (&json!(5), &json!(5)));
    assert_eq!(counters_that_lie(&machine), 0);
}

#[test]
fn without_a_time_the_first_time_wins_also_in_the_next_cycle() {
    let machine = machine();
    let fact = json!({"key": "k1", "feature": "mails", "units": 5});
    let (_, first) = post(&machine, &fact);
    machine.advance(1000);
    assert_eq!(post(&machine, &fact), (200, first.clone()));
    machine.advance(30 * 86_400_000);
    assert_eq!(post(&machine, &fact), (200, first));
    let usage = get(&machine, "/v1/usage?account=a&feature=mails");
    assert_eq!(
        (&usage["cycle"], &usage["total"]),
        (&json!("2026-12"), &json!(0))
    );
    assert_eq!(number(&machine, "select count(*) as n from counter"), 1);
}

#[test]
fn a_repeat_in_a_cycle_that_has_closed_since_is_still_the_same_fact() {
    let machine = machine();
    let fact = json!({"key": "k1", "feature": "mails", "units": 5,
        "occurred_at": "2026-11-10T10:00:00Z"});
    let (_, first) = post(&machine, &fact);
    machine.advance(30 * 86_400_000);
    assert_eq!(post(&machine, &fact), (200, first));
    let late = json!({"key": "k2", "feature": "mails", "units": 5,
        "occurred_at": "2026-11-10T10:00:00Z"});
    let (status, problem) = post(&machine, &late);
    assert_eq!((status, &problem["field"]), (422, &json!("occurred_at")));
    assert_eq!(number(&machine, "select count(*) as n from entry"), 1);
}

#[test]
fn the_same_key_with_other_content_is_a_conflict_and_changes_nothing() {
    let machine = machine();
    let fact = json!({"key": "k1", "feature": "mails", "units": 5,
        "occurred_at": "2026-11-10T10:00:00Z"});
    assert_eq!(post(&machine, &fact).0, 201);
    for (name, value) in [
        ("units", json!(6)),
        ("feature", json!("clicks")),
        ("occurred_at", json!("2026-11-10T10:00:00.001Z")),
    ] {
        let mut other = fact.clone();
        other[name] = value;
        let (status, problem) = post(&machine, &other);
        assert_eq!(
            (status, &problem["code"]),
            (409, &json!("key_conflict")),
            "{name}"
        );
        assert_eq!(problem["key"], "k1");
    }
    assert_eq!(number(&machine, "select total as n from counter"), 5);
    assert_eq!(number(&machine, "select count(*) as n from review"), 0);
    let other = machine.call("POST", "/v1/usage?account=b", OPERATOR, &fact);
    assert_eq!(other.0, 201, "another account's key is another fact");
}

#[test]
fn a_list_is_recorded_whole_or_not_at_all() {
    let machine = machine();
    let item = |key: &str, units: i64| json!({"key": key, "feature": "mails", "units": units});
    let (status, body) = post(&machine, &json!({"items": [item("k1", 1), item("k2", 2)]}));
    assert_eq!(status, 201, "{body}");
    assert_eq!(body["items"][1]["key"], "k2");
    let mixed = json!({"items": [item("k2", 2), item("k3", 3)]});
    assert_eq!(post(&machine, &mixed).0, 201, "one of them is new");
    assert_eq!(post(&machine, &mixed).0, 200);
    let clash = json!({"items": [item("k4", 4), item("k2", 3)]});
    assert_eq!(post(&machine, &clash).0, 409);
    let inner = json!({"items": [item("k5", 4), item("k5", 3)]});
    assert_eq!(post(&machine, &inner).0, 409);
    let twice = json!({"items": [item("k6", 6), item("k6", 6)]});
    assert_eq!(post(&machine, &twice).0, 201);
    assert_eq!(number(&machine, "select total as n from counter"), 12);
    assert_eq!(number(&machine, "select count(*) as n from entry"), 4);
    assert_eq!(counters_that_lie(&machine), 0);
}

#[test]
fn what_is_wrong_in_usage_is_named() {
    let machine = machine();
    let good = json!({"key": "k", "feature": "mails", "units": 1});
    for (field, value) in [
        ("key", json!("")),
        ("key", json!("with space")),
        ("key", json!("k".repeat(201))),
        ("feature", json!("tokens")),
        ("feature", json!("unknown")),
        ("units", json!(0)),
        ("units", json!(-1)),
        ("units", json!(1.5)),
        ("units", json!("10")),
        ("units", json!(9_007_199_254_740_992_u64)),
        ("occurred_at", json!("yesterday")),
        ("occurred_at", json!("2026-11-10T12:05:00.001Z")),
        ("occurred_at", json!("2026-10-31T23:59:59.999Z")),
        ("more", json!(1)),
    ] {
        let mut bad = good.clone();
        bad[field] = value.clone();
        let (status, problem) = post(&machine, &bad);
        assert_eq!(
            (status, &problem["field"]),
            (422, &json!(field)),
            "{value} {problem}"
        );
        let (status, problem) = post(&machine, &json!({"items": [good, bad]}));
        let named = format!("items[1].{field}");
        assert_eq!((status, &problem["field"]), (422, &json!(named)), "{value}");
    }
    let many: Vec<Value> = (0..101)
        .map(|n| json!({"key": format!("k{n}"), "feature": "mails", "units": 1}))
        .collect();
    for items in [json!([]), json!({}), json!(many)] {
        let (status, problem) = post(&machine, &json!({"items": items}));
        assert_eq!((status, &problem["field"]), (422, &json!("items")));
    }
    assert_eq!(number(&machine, "select count(*) as n from entry"), 0);
    let ahead = json!({"key": "k", "feature": "mails", "units": 1,
        "occurred_at": "2026-11-10T12:05:00Z"});
    assert_eq!(post(&machine, &ahead).0, 201);
}

#[test]
fn a_sum_never_passes_what_json_carries() {
    let machine = machine();
    let most = 9_007_199_254_740_991_i64;
    let item = |key: &str, units: i64| json!({"key": key, "feature": "mails", "units": units});
    assert_eq!(post(&machine, &item("k1", most)).0, 201);
    let (status, problem) = post(&machine, &item("k2", 1));
    assert_eq!((status, &problem["field"]), (422, &json!("units")));
    assert_eq!(post(&machine, &item("k1", most)).0, 200);
    assert_eq!(
        get(&machine, "/v1/usage?account=a&feature=mails")["total"],
        most
    );
}

#[test]
fn a_correction_takes_back_up_to_what_is_left_and_is_one_row() {
    let machine = machine();
    let fact = json!({"key": "k1", "feature": "mails", "units": 10});
    let id = post(&machine, &fact).1["id"].as_str().unwrap().to_owned();
    let some = json!({"reason": "double booked", "units": 4});
    let (status, first) = correct(&machine, &id, &some);
    assert_eq!(status, 201, "{first}");
    assert_eq!(
        (&first["units"], &first["kind"]),
        (&json!(-4), &json!("correction"))
    );
    assert_eq!(
        (&first["corrects"], &first["actor"]),
        (&json!(id), &json!("dev-operator"))
    );
    assert_eq!(correct(&machine, &id, &some), (200, first.clone()));
    let (status, problem) = correct(&machine, &id, &json!({"reason": "more", "units": 7}));
    assert_eq!((status, &problem["left"]), (422, &json!(6)));
    let rest = json!({"reason": "all of it"});
    assert_eq!(correct(&machine, &id, &rest).0, 201);
    assert_eq!(correct(&machine, &id, &rest).0, 200);
    let (status, problem) = correct(&machine, &id, &json!({"reason": "again"}));
    assert_eq!((status, &problem["code"]), (409, &json!("nothing_left")));
    let correction = first["id"].as_str().unwrap();
    let (status, problem) = correct(&machine, correction, &json!({"reason": "undo"}));
    assert_eq!((status, &problem["code"]), (422, &json!("not_correctable")));
    let usage = get(&machine, "/v1/usage?account=a&feature=mails");
    assert_eq!((&usage["total"], &usage["gross"]), (&json!(0), &json!(10)));
    assert_eq!(usage["corrected"], json!({"manual": 10}));
    assert_eq!(counters_that_lie(&machine), 0);
    let audit = get(&machine, "/v1/audit?account=a");
    let corrections = audit["items"].as_array().unwrap().iter();
    assert_eq!(
        corrections
            .filter(|row| row["action"] == "entry.correct")
            .count(),
        2
    );
}

#[test]
fn a_correction_stands_in_the_cycle_of_what_it_corrects() {
    let machine = machine();
    let fact = json!({"key": "k1", "feature": "mails", "units": 10});
    let id = post(&machine, &fact).1["id"].as_str().unwrap().to_owned();
    machine.advance(30 * 86_400_000);
    let (status, correction) = correct(&machine, &id, &json!({"reason": "late", "units": 1}));
    assert_eq!((status, &correction["cycle"]), (201, &json!("2026-11")));
    let usage = get(&machine, "/v1/usage?account=a&feature=mails&cycle=2026-11");
    assert_eq!(usage["total"], 9);
}

#[test]
fn only_the_operator_corrects_and_only_what_is_the_accounts_own() {
    let machine = machine();
    let fact = json!({"key": "k1", "feature": "mails", "units": 10});
    let id = post(&machine, &fact).1["id"].as_str().unwrap().to_owned();
    let ask = json!({"reason": "r"});
    let own = format!("/v1/entries/{id}/correction?account=a");
    assert_eq!(machine.call("POST", &own, "dev-backend", &ask).0, 403);
    let foreign = format!("/v1/entries/{id}/correction?account=b");
    assert_eq!(machine.call("POST", &foreign, OPERATOR, &ask).0, 404);
    for (body, field) in [
        (json!({}), "reason"),
        (json!({"reason": " "}), "reason"),
        (json!({"reason": "r", "units": 0}), "units"),
        (json!({"reason": "r", "x": 0}), "x"),
    ] {
        let (status, problem) = correct(&machine, &id, &body);
        assert_eq!((status, &problem["field"]), (422, &json!(field)), "{body}");
    }
    assert_eq!(number(&machine, "select count(*) as n from entry"), 1);
}

#[test]
fn entries_come_oldest_first_page_by_page_and_by_every_filter() {
    let machine = machine();
    for minute in 0..7 {
        let fact = json!({"key": format!("k{minute}"), "feature": "mails", "units": 1,
            "occurred_at": format!("2026-11-10T10:0{}:00Z", 6 - minute)});
        assert_eq!(post(&machine, &fact).0, 201);
    }
    let click = json!({"key": "c", "feature": "clicks", "units": 1});
    assert_eq!(post(&machine, &click).0, 201);
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = get(&machine, &format!("/v1/entries?account=a&limit=3{after}"));
        for item in page["items"].as_array().unwrap() {
            seen.push(item["key"].as_str().unwrap().to_owned());
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["k6", "k5", "k4", "k3", "k2", "k1", "k0", "c"]);
    for (query, count) in [
        ("feature=clicks", 1),
        ("cycle=2026-11", 8),
        ("cycle=2026-10", 0),
        ("kind=usage", 8),
        ("kind=click", 0),
        ("from=2026-11-10T10:03:00Z", 5),
        ("to=2026-11-10T10:03:00Z", 3),
        (
            "from=2026-11-10T10:03:00Z&to=2026-11-10T10:04:00Z&feature=mails",
            1,
        ),
        ("code=x", 0),
        ("job=job_1", 0),
    ] {
        let page = get(&machine, &format!("/v1/entries?account=a&{query}"));
        assert_eq!(page["items"].as_array().unwrap().len(), count, "{query}");
    }
    for (query, field) in [("kind=x", "kind"), ("from=x", "from"), ("after=x", "after")] {
        let target = format!("/v1/entries?account=a&{query}");
        let (status, problem) = machine.call("GET", &target, OPERATOR, &Value::Null);
        assert_eq!((status, &problem["field"]), (422, &json!(field)));
    }
}

#[test]
fn sums_by_day_add_up_to_the_total() {
    let machine = machine();
    for (key, day, units) in [("k1", 8, 3), ("k2", 9, 4), ("k3", 9, 5)] {
        let fact = json!({"key": key, "feature": "mails", "units": units,
            "occurred_at": format!("2026-11-0{day}T23:59:59.999Z")});
        assert_eq!(post(&machine, &fact).0, 201);
    }
    let usage = get(&machine, "/v1/usage?account=a&feature=mails&by=day");
    assert_eq!(usage["total"], 12);
    assert_eq!(usage["days"][0]["day"], "2026-11-08");
    assert_eq!(
        (&usage["days"][0]["total"], &usage["days"][1]["total"]),
        (&json!(3), &json!(9))
    );
    assert_eq!(usage["starts_at"], "2026-11-01T00:00:00.000Z");
    for (query, field) in [
        ("by=hour", "by"),
        ("cycle=2026-13", "cycle"),
        ("feature=x", "feature"),
    ] {
        let target = format!("/v1/usage?account=a&{query}");
        let (status, problem) = machine.call("GET", &target, OPERATOR, &Value::Null);
        assert_eq!((status, &problem["field"]), (422, &json!(field)));
    }
}

#[test]
fn usage_fixes_the_anchor_that_its_cycle_is_computed_from() {
    let machine = machine();
    assert_eq!(
        post(
            &machine,
            &json!({"key": "k", "feature": "mails", "units": 1})
        )
        .0,
        201
    );
    let change = json!({"starts_at": "2026-11-05T00:00:00Z"});
    let (status, problem) = machine.call("PATCH", "/v1/accounts/a", OPERATOR, &change);
    assert_eq!((status, &problem["code"]), (409, &json!("anchor_fixed")));
}

#[test]
fn refused_usage_leaves_the_start_movable() {
    let machine = machine();
    let most =
        |key: &str| json!({"key": key, "feature": "mails", "units": 9_007_199_254_740_991_i64});
    let late = json!({"key": "k", "feature": "mails", "units": 1,
        "occurred_at": "2026-09-01T00:00:00Z"});
    for refused in [json!({"items": [most("k1"), most("k2")]}), late] {
        let (status, problem) = post(&machine, &refused);
        assert_eq!(status, 422, "{problem}");
    }
    let change = json!({"starts_at": "2026-11-05T00:00:00Z"});
    let (status, body) = machine.call("PATCH", "/v1/accounts/a", OPERATOR, &change);
    assert_eq!((status, &body["anchor"]["fixed"]), (200, &json!(false)));
}
