//! The description of the API says what the router does, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use counterfoil::http::openapi::{AREAS, Content, Operation, PROBLEMS, document, example};
use counterfoil::http::route::{Endpoint, ROUTES};
use counterfoil::native::machine::{Machine, request};
use serde_json::{Value, json};

fn operations() -> impl Iterator<Item = &'static Operation> {
    AREAS.iter().flat_map(|area| area.operations)
}

#[test]
fn every_route_is_described_once_and_nothing_else_is() {
    let routes: Vec<String> = ROUTES
        .iter()
        .map(|spec| format!("{} {}", spec.method.name(), spec.pattern))
        .collect();
    let described: Vec<String> = operations()
        .map(|one| format!("{} {}", one.method.name(), one.pattern))
        .collect();
    let set = |list: &[String]| list.iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(set(&described), set(&routes));
    assert_eq!(described.len(), routes.len());
}

#[test]
fn every_example_is_json_and_every_route_has_an_answer() {
    for operation in operations() {
        assert!(!operation.answers.is_empty(), "{}", operation.pattern);
        assert!(!operation.summary.ends_with('.'), "{}", operation.pattern);
        for answer in operation.answers {
            if let Content::Json(text) | Content::List(text) = answer.body {
                assert!(example(text).is_object(), "{}: {text}", operation.pattern);
            }
        }
    }
}

#[test]
fn the_document_is_whole() {
    let document = document("http://localhost:8787");
    assert_eq!(document["openapi"], "3.1.0");
    let mut ids = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let id = operation["operationId"].as_str().expect("an id").to_owned();
            assert!(ids.insert(id), "{method} {path} has another's id");
            assert!(
                !operation["responses"]
                    .as_object()
                    .expect("answers")
                    .is_empty()
            );
            let parameters = operation["parameters"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let in_path = parameters.iter().filter(|one| one["in"] == "path").count();
            assert_eq!(in_path, path.matches('{').count(), "{path}");
        }
    }
}

/// Every `code` that some source file gives a problem.
fn codes_in(folder: &Path, found: &mut BTreeMap<String, PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            codes_in(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for part in code
            .split("Problem::new(")
            .chain(code.split("Self::new("))
            .skip(1)
        {
            let mut words = part.split(',').map(str::trim);
            let status = words.next().and_then(|word| word.parse::<u16>().ok());
            let code = words
                .next()
                .and_then(|word| word.strip_prefix('"')?.split('"').next());
            if let (Some(_), Some(code)) = (status, code) {
                found.insert(code.to_owned(), path.clone());
            }
        }
    }
}

#[test]
fn every_code_of_a_problem_is_described_and_every_described_one_is_known() {
    let known: BTreeSet<&str> = PROBLEMS.iter().map(|problem| problem.code).collect();
    let mut found = BTreeMap::new();
    codes_in(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut found,
    );
    assert!(found.len() > 5);
    for (code, path) in found {
        assert!(
            known.contains(code.as_str()),
            "{code} of {} is not described",
            path.display()
        );
    }
    for operation in operations() {
        for code in operation.problems {
            assert!(known.contains(code), "{}: {code}", operation.pattern);
        }
    }
}

/// The fields that api.md promises of answers.
#[rustfmt::skip]
const PROMISED: &[(&str, &str, &[&str])] = &[
    ("POST", "/v1/accounts", &["id", "api_key"]),
    ("GET", "/v1/accounts", &["id", "name", "customer_id", "plan", "plan_since", "payment",
        "agreement_id", "anchor", "cycle", "balance"]),
    ("GET", "/v1/accounts/{id}", &["id", "anchor", "cycle", "balance", "budgets"]),
    ("POST", "/v1/account/sync", &["plan", "since", "changed", "source"]),
    ("GET", "/v1/audit", &["at", "actor", "action", "target", "reason"]),
    ("POST", "/v1/jobs", &["id", "key", "state", "capped", "cycle", "holds", "remaining",
        "lease_ends_at", "lease_seconds"]),
    ("POST", "/v1/jobs/{id}/charges", &["charged", "capped", "uncovered", "held", "used",
        "lease_ends_at"]),
    ("POST", "/v1/jobs/{id}/renew", &["lease_ends_at"]),
    ("POST", "/v1/jobs/{id}/settle", &["state", "charged", "released", "uncovered", "by_cycle"]),
    ("GET", "/v1/jobs/estimates", &["jobs", "capped", "expired", "held", "charged", "tenths"]),
    ("GET", "/v1/budget", &["feature", "cycle", "limit", "limit_state", "used", "held",
        "remaining"]),
    ("POST", "/v1/links", &["code", "url"]),
    ("GET", "/v1/usage", &["cycle", "starts_at", "ends_at", "total", "gross", "corrected",
        "carried"]),
    ("GET", "/v1/entries", &["id", "feature", "cycle", "units", "kind", "occurred_at",
        "recorded_at"]),
    ("GET", "/v1/meters", &["account", "feature", "cycle", "agreement_id", "ledger", "base",
        "sent", "provider", "read_at", "marked", "last_report"]),
    ("POST", "/v1/run/{job}", &["checked", "matched", "repaired", "drifted", "unreadable",
        "incomplete", "done"]),
    ("GET", "/v1/evidence", &["account", "feature", "cycle", "agreement_id", "ledger", "counters",
        "base", "sent", "provider", "verdict", "cause", "repaired_to", "read_back", "at"]),
    ("GET", "/v1/review", &["id", "kind", "account", "feature", "cycle", "numbers", "at"]),
    ("GET", "/v1/events/{id}", &["id", "event_id", "type", "account", "status", "result", "seen",
        "attempts", "next_at", "occurred_at", "received_at", "receipts", "payload"]),
    ("POST", "/v1/events/replay", &["queued"]),
    ("GET", "/healthz", &["ok", "version", "provider"]),
];

fn sample(method: &str, pattern: &str) -> Value {
    let operation = operations()
        .find(|one| one.method.name() == method && one.pattern == pattern)
        .expect("it is described");
    match operation.answers[0].body {
        Content::Json(text) | Content::List(text) => example(text),
        Content::Empty | Content::Other(_) => Value::Null,
    }
}

#[test]
fn the_samples_have_the_fields_of_the_contract() {
    for (method, pattern, fields) in PROMISED {
        let sample = sample(method, pattern);
        for field in *fields {
            assert!(sample.get(field).is_some(), "{method} {pattern}: {field}");
        }
    }
}

fn keys(value: &Value) -> Vec<&String> {
    value
        .as_object()
        .map(|members| members.keys().collect())
        .unwrap_or_default()
}

#[test]
fn accounts_are_answered_as_their_samples_say() {
    let machine = Machine::new(&[]).expect("it starts");
    let operator = "dev-operator";
    let made = machine
        .call("POST", "/v1/accounts", operator, &json!({"id": "a"}))
        .1;
    assert_eq!(keys(&made), keys(&sample("POST", "/v1/accounts")));
    let list = machine
        .call("GET", "/v1/accounts", operator, &Value::Null)
        .1;
    assert_eq!(
        keys(&list["items"][0]),
        keys(&sample("GET", "/v1/accounts"))
    );
    let one = machine
        .call("GET", "/v1/accounts/a", operator, &Value::Null)
        .1;
    assert_eq!(keys(&one), keys(&sample("GET", "/v1/accounts/{id}")));
    let budget = &one["budgets"][0];
    assert_eq!(keys(budget), keys(&sample("GET", "/v1/budget")));
    let key = machine
        .call("POST", "/v1/accounts/a/keys", operator, &json!({}))
        .1;
    assert_eq!(keys(&key), keys(&sample("POST", "/v1/accounts/{id}/keys")));
    let audit = machine.call("GET", "/v1/audit", operator, &Value::Null).1;
    assert_eq!(keys(&audit["items"][0]), keys(&sample("GET", "/v1/audit")));
    let health = machine.call("GET", "/healthz", "", &Value::Null).1;
    assert_eq!(keys(&health), keys(&sample("GET", "/healthz")));
}

#[test]
fn what_needs_the_stand_in_is_not_there_without_it() {
    let machine = Machine::new(&[("PROVIDER", "kinde")]).expect("it starts");
    for spec in ROUTES {
        let needs_it = spec.pattern.starts_with("/standin")
            || spec.pattern.contains("/lab")
            || spec.pattern.contains("/engine-room");
        if needs_it && !matches!(spec.endpoint, Endpoint::ShortLink) {
            let path = spec.pattern.replace(['{', '}'], "");
            let (status, body) =
                machine.call(spec.method.name(), &path, "dev-operator", &Value::Null);
            assert_eq!(
                (status, &body["code"]),
                (404, &json!("not_found")),
                "{path}"
            );
        }
    }
}

#[test]
fn the_docs_show_every_route_and_every_code() {
    let machine = Machine::new(&[]).expect("it starts");
    let page = machine.handle(request("GET", "/docs", "", &Value::Null));
    let text = String::from_utf8(page.body).expect("text");
    for spec in ROUTES {
        let line = format!("{} {}", spec.method.name(), spec.pattern);
        assert!(text.contains(&line), "{line}");
    }
    for problem in PROBLEMS {
        assert!(
            text.contains(&format!("id=\"{}\"", problem.code)),
            "{}",
            problem.code
        );
    }
    let served = machine.handle(request("GET", "/openapi.json", "", &Value::Null));
    let served: Value = serde_json::from_slice(&served.body).expect("JSON");
    assert_eq!(served, document("http://localhost:8787"));
}
