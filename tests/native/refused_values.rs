//! Values of a query that no list can use: told by the name of the parameter, never a fault.

use counterfoil::http::openapi::{AREAS, Operation};
use counterfoil::http::request::Method;
use counterfoil::native::machine::Machine;
use serde_json::{Value, json};

const OPERATOR: &str = "dev-operator";

/// A machine with something in every list of the account `a`.
fn machine() -> Machine {
    let machine = Machine::new(&[]).expect("it starts");
    let call = |target: &str, body: Value| {
        let (status, answer) = machine.call("POST", target, OPERATOR, &body);
        assert!((200..300).contains(&status), "{target}: {answer}");
    };
    call(
        "/v1/accounts",
        json!({"id": "a", "customer_id": "customer_a"}),
    );
    let link = json!({"destination": "https://example.com/", "code": "spring"});
    call("/v1/links?account=a", link);
    let usage = json!({"key": "u", "feature": "clicks", "units": 5});
    call("/v1/usage?account=a", usage);
    let job = json!({"key": "k", "feature": "tokens", "hold": 5});
    call("/v1/jobs?account=a", job);
    call("/v1/run/reconciler", json!({}));
    machine
}

/// The routes that are asked without a body, with the account named.
fn asked(chosen: impl Fn(&Operation) -> bool) -> Vec<String> {
    let all = AREAS.iter().flat_map(|area| area.operations);
    all.filter(|operation| operation.method == Method::Get && chosen(operation))
        .map(|operation| {
            let path = operation.pattern.replace("{id}", "a");
            let filters = if path.starts_with("/v1/accounts") || path.starts_with("/standin") {
                ""
            } else {
                "account=a&"
            };
            format!("{path}?{filters}")
        })
        .collect()
}

fn look(machine: &Machine, target: &str, name: &str) {
    let (status, answer) = machine.call("GET", target, OPERATOR, &Value::Null);
    match status {
        200 => {}
        422 => assert_eq!(answer["field"], name, "{target}: {answer}"),
        _ => panic!("{target}: {status} {answer}"),
    }
}

#[test]
fn a_place_or_a_time_that_no_list_has_is_refused_by_its_name_and_never_a_fault() {
    let machine = machine();
    let places = [
        "9007199254740992",
        "9223372036854775807",
        "99999999999999999999",
        "-1",
        "-9007199254740992",
        "1.5",
        "+1",
        "x",
        "/",
        "a/clicks/2026-11/9007199254740992",
        "a/clicks/2026-11/-1",
        "a/clicks/2026-11",
        "9223372036854775807.x",
        ".",
        "%00",
        "%F0%9F%98%80",
        "%27",
    ];
    let lists = asked(|operation| operation.list);
    assert!(lists.len() >= 15, "{lists:?}");
    for list in &lists {
        for place in places {
            look(&machine, &format!("{list}after={place}"), "after");
            look(&machine, &format!("{list}limit={place}"), "limit");
        }
    }
    let timed = asked(|operation| operation.query.iter().any(|field| field.name == "from"));
    assert!(timed.len() >= 3, "{timed:?}");
    for list in timed {
        for time in [
            "x",
            "9999-12-31T23:59:59.999999999Z",
            "0000-01-01T00:00:00Z",
            "2026-02-30T00:00:00Z",
            "9007199254740992",
            "99999-01-01T00:00:00Z",
        ] {
            look(&machine, &format!("{list}from={time}"), "from");
            look(&machine, &format!("{list}to={time}"), "to");
        }
    }
}

#[test]
fn evidence_after_a_number_beyond_the_exact_ones_is_422() {
    let machine = machine();
    for number in ["9007199254740992", "99999999999999999999", "-1", "x"] {
        let target = format!("/v1/evidence?after={number}");
        let (status, answer) = machine.call("GET", &target, OPERATOR, &Value::Null);
        assert_eq!(
            (status, &answer["field"]),
            (422, &json!("after")),
            "{answer}"
        );
    }
    let target = "/v1/evidence?after=9007199254740991";
    let (status, answer) = machine.call("GET", target, OPERATOR, &Value::Null);
    assert_eq!(status, 200, "{answer}");
    assert!(!answer["items"].as_array().expect("items").is_empty());
}

#[test]
fn a_feature_that_is_not_listed_is_422_wherever_a_feature_can_be_named() {
    let machine = machine();
    let lists = asked(|operation| operation.query.iter().any(|field| field.name == "feature"));
    assert!(lists.len() >= 6, "{lists:?}");
    for list in lists {
        for feature in ["nonsense", "", "%00"] {
            let target = format!("{list}feature={feature}");
            let (status, answer) = machine.call("GET", &target, OPERATOR, &Value::Null);
            let told = (status, answer["field"].as_str());
            assert_eq!(told, (422, Some("feature")), "{target}: {answer}");
        }
    }
}

#[test]
fn a_wrong_value_is_told_with_its_name_and_what_would_do() {
    let machine = machine();
    for (target, words) in [
        ("/v1/accounts?limit=501", ["limit", "1 to 500"]),
        ("/v1/evidence?cycle=x", ["cycle", "2026-10"]),
        ("/v1/jobs?account=a&feature=%20", ["feature", "1 to 64"]),
        ("/v1/events?from=x", ["from", "2026-10-20T15:29:00Z"]),
    ] {
        let (status, answer) = machine.call("GET", target, OPERATOR, &Value::Null);
        let detail = answer["detail"].as_str().unwrap_or_default();
        let all = words.iter().all(|word| detail.contains(word));
        assert!(status == 422 && all, "{target}: {answer}");
    }
    for (target, body, words) in [
        ("/v1/accounts", json!({"id": "a b"}), ["id", "1 to 64"]),
        (
            "/v1/accounts",
            json!({"jobs_per_minute": 0}),
            ["jobs_per_minute", "1 to"],
        ),
        (
            "/v1/jobs?account=a",
            json!({"key": ""}),
            ["key", "1 to 200"],
        ),
        ("/v1/jobs?account=a", json!({}), ["key", "required"]),
    ] {
        let (status, answer) = machine.call("POST", target, OPERATOR, &body);
        let detail = answer["detail"].as_str().unwrap_or_default();
        let all = words.iter().all(|word| detail.contains(word));
        assert!(status == 422 && all, "{target} {body}: {answer}");
    }
}
