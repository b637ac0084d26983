//! The description of the API says what the router does, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use counterfoil::http::metrics::ABOUT;
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
        for part in code.split("pub const fn code(").skip(1) {
            let body = part.split("\n    }\n").next().unwrap_or_default();
            for code in body.split('"').skip(1).step_by(2) {
                found.insert(code.to_owned(), path.clone());
            }
        }
    }
}

#[test]
fn every_code_of_a_problem_is_described_and_every_described_one_is_known() {
    let known: BTreeSet<&str> = PROBLEMS.iter().map(|problem| problem.code).collect();
    assert_eq!(known.len(), PROBLEMS.len(), "a code is described twice");
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

/// Whether every field of an answer is described; inside objects whose fields have fixed names.
fn described(answer: &Value, sample: &Value, place: &str) {
    let by_feature = [
        "holds",
        "remaining",
        "balance",
        "numbers",
        "corrected",
        "limits",
        "charged",
        "released",
        "uncovered",
        "by_cycle",
        "payload",
        "body",
    ];
    if by_feature.iter().any(|name| place.ends_with(name)) {
        return;
    }
    match (answer, sample) {
        (Value::Object(members), Value::Object(known)) => {
            for (name, value) in members {
                let known = known.get(name);
                let known = known.unwrap_or_else(|| panic!("{place}.{name} is not described"));
                described(value, known, &format!("{place}.{name}"));
            }
        }
        (Value::Array(items), Value::Array(known)) => {
            for (item, known) in items.iter().zip(known.iter().cycle()) {
                described(item, known, place);
            }
        }
        (Value::Null, _) | (_, Value::Null) => {}
        (answer, sample) => {
            let kind = |value: &Value| match value {
                Value::Bool(_) => "true or false",
                Value::Number(number) if number.is_i64() => "a whole number",
                Value::Number(_) => "another number",
                Value::String(_) => "text",
                Value::Array(_) => "a list",
                Value::Object(_) | Value::Null => "an object",
            };
            assert_eq!(kind(answer), kind(sample), "{place}: {answer}");
        }
    }
}

/// Whether an answer has every field that api.md promises of it.
fn kept(method: &str, pattern: &str, answer: &Value) {
    let promised = PROMISED
        .iter()
        .filter(|(of, at, _)| (*of, *at) == (method, pattern));
    let items = answer["items"].as_array();
    let one = items.map_or(Some(answer), |items| items.first());
    for (_, _, fields) in promised {
        for field in *fields {
            let there = one.is_none_or(|one| one.get(field).is_some());
            assert!(there, "{method} {pattern}: {field} is not in {answer}");
        }
    }
}

/// Asks, and compares what is answered with the description. Gives the answer.
fn ask(machine: &Machine, method: &str, pattern: &str, target: &str, body: &Value) -> Value {
    let token = if pattern.starts_with("/webhooks") {
        ""
    } else {
        "dev-operator"
    };
    let (status, answer) = machine.call(method, target, token, body);
    let operation = operations()
        .find(|one| one.method.name() == method && one.pattern == pattern)
        .expect("it is described");
    let sample = operation
        .answers
        .iter()
        .find(|sample| sample.status == status)
        .unwrap_or_else(|| panic!("{method} {target}: {status} is not described: {answer}"));
    let place = format!("{method} {pattern} {status}");
    // The same again is answered without the key.
    if status == operation.answers[0].status {
        kept(method, pattern, &answer);
    }
    match sample.body {
        Content::Json(text) => described(&answer, &example(text), &place),
        Content::List(text) => {
            described(
                &answer,
                &json!({"items": [example(text)], "next": null}),
                &place,
            );
        }
        Content::Empty | Content::Other(_) => {}
    }
    answer
}

#[test]
fn accounts_and_jobs_are_answered_as_they_are_described() {
    let machine = Machine::new(&[]).expect("it starts");
    let none = Value::Null;
    let ask = |method: &str, pattern: &str, target: &str, body: &Value| {
        ask(&machine, method, pattern, target, body)
    };
    let of_a = |path: &str| format!("{path}?account=a");
    let customer = json!({"plan": "pro"});
    ask(
        "PUT",
        "/standin/customers/{customer_id}",
        "/standin/customers/customer_1",
        &customer,
    );
    let body = json!({"id": "a", "name": "A", "customer_id": "customer_1"});
    ask("POST", "/v1/accounts", "/v1/accounts", &body);
    ask("POST", "/v1/accounts", "/v1/accounts", &body);
    ask(
        "PATCH",
        "/v1/accounts/{id}",
        "/v1/accounts/a",
        &json!({"jobs_per_minute": 9}),
    );
    ask(
        "POST",
        "/v1/accounts/{id}/keys",
        "/v1/accounts/a/keys",
        &none,
    );
    ask(
        "GET",
        "/v1/accounts/{id}/keys",
        "/v1/accounts/a/keys",
        &none,
    );
    ask("GET", "/v1/account", &of_a("/v1/account"), &none);
    ask("POST", "/v1/account/sync", &of_a("/v1/account/sync"), &none);
    ask("GET", "/v1/audit", "/v1/audit", &none);

    let body = json!({"key": "k", "feature": "tokens", "hold": 100});
    let job = ask("POST", "/v1/jobs", &of_a("/v1/jobs"), &body);
    ask("POST", "/v1/jobs", &of_a("/v1/jobs"), &body);
    let id = job["id"].as_str().expect("an id");
    let of_job = |what: &str| format!("/v1/jobs/{id}{what}?account=a");
    let units = json!({"units": 40});
    ask("POST", "/v1/jobs/{id}/charges", &of_job("/charges"), &units);
    ask("POST", "/v1/jobs/{id}/extend", &of_job("/extend"), &units);
    ask("POST", "/v1/jobs/{id}/renew", &of_job("/renew"), &none);
    ask("GET", "/v1/jobs/{id}", &of_job(""), &none);
    ask("GET", "/v1/jobs", &of_a("/v1/jobs"), &none);
    ask(
        "POST",
        "/v1/jobs/{id}/settle",
        &of_job("/settle"),
        &json!({"reason": "x"}),
    );
    let target = "/v1/jobs/estimates?account=a&feature=tokens";
    ask("GET", "/v1/jobs/estimates", target, &none);
    ask(
        "GET",
        "/v1/budget",
        "/v1/budget?account=a&feature=tokens",
        &none,
    );
    ask("GET", "/v1/accounts", "/v1/accounts", &none);
    ask("GET", "/v1/accounts/{id}", "/v1/accounts/a", &none);
    ask("GET", "/healthz", "/healthz", &none);
}

#[test]
fn links_usage_and_meters_are_answered_as_they_are_described() {
    let machine = Machine::new(&[]).expect("it starts");
    let none = Value::Null;
    let ask = |method: &str, pattern: &str, target: &str, body: &Value| {
        ask(&machine, method, pattern, target, body)
    };
    ask(
        "POST",
        "/v1/accounts",
        "/v1/accounts",
        &json!({"id": "a", "customer_id": "customer_1"}),
    );
    let body = json!({"destination": "https://example.com/", "code": "spring"});
    ask("POST", "/v1/links", "/v1/links?account=a", &body);
    ask("POST", "/v1/links", "/v1/links?account=a", &body);
    ask("GET", "/v1/links", "/v1/links?account=a", &none);
    ask(
        "GET",
        "/v1/links/{code}",
        "/v1/links/spring?account=a",
        &none,
    );
    ask(
        "PATCH",
        "/v1/links/{code}",
        "/v1/links/spring?account=a",
        &json!({"disabled": false}),
    );
    ask("GET", "/{code}", "/spring", &none);
    machine.advance(5_000);
    let usage = json!({"key": "u1", "feature": "clicks", "units": 5});
    let used = ask("POST", "/v1/usage", "/v1/usage?account=a", &usage);
    ask("POST", "/v1/usage", "/v1/usage?account=a", &usage);
    ask(
        "GET",
        "/v1/usage",
        "/v1/usage?account=a&feature=clicks&by=day",
        &none,
    );
    let entry = used["id"].as_str().expect("an id");
    let target = format!("/v1/entries/{entry}/correction?account=a");
    let body = json!({"reason": "wrong", "units": 2});
    ask("POST", "/v1/entries/{id}/correction", &target, &body);
    let entries = ask("GET", "/v1/entries", "/v1/entries?account=a", &none);
    assert!(
        entries["items"]
            .as_array()
            .is_some_and(|items| items.len() >= 3)
    );
    ask("POST", "/v1/run/{job}", "/v1/run/reconciler", &none);
    let evidence = ask("GET", "/v1/evidence", "/v1/evidence", &none);
    assert!(!evidence["items"].as_array().expect("items").is_empty());
    let meters = ask("GET", "/v1/meters", "/v1/meters?account=a", &none);
    let agreement = meters["items"][0]["agreement_id"]
        .as_str()
        .expect("an agreement");
    let target = format!("/standin/meters/{agreement}/clicks");
    ask(
        "GET",
        "/standin/meters/{agreement_id}/{feature}",
        &target,
        &none,
    );
    let total = json!({"total": 999});
    ask(
        "PUT",
        "/standin/meters/{agreement_id}/{feature}",
        &target,
        &total,
    );
    ask("GET", "/standin/calls", "/standin/calls?limit=3", &none);
    // A total that nobody here wrote waits for a person.
    let body = json!({"id": "b", "customer_id": "customer_2"});
    let other = ask("POST", "/v1/accounts", "/v1/accounts", &body);
    let agreement = other["agreement_id"].as_str().expect("an agreement");
    ask(
        "PUT",
        "/standin/meters/{agreement_id}/{feature}",
        &format!("/standin/meters/{agreement}/clicks"),
        &total,
    );
    ask("POST", "/v1/usage", "/v1/usage?account=b", &usage);
    machine.call("POST", "/v1/run/reporter", "dev-operator", &none);
    let reviews = ask("GET", "/v1/review", "/v1/review", &none);
    let review = reviews["items"][0]["id"].as_str().expect("an item");
    let why = json!({"reason": "ours is right"});
    for (pattern, target, body) in [
        (
            "/v1/review/close",
            "/v1/review/close".to_owned(),
            json!({"ids": [review], "reason": "x"}),
        ),
        (
            "/v1/review/{id}/close",
            format!("/v1/review/{review}/close"),
            why,
        ),
    ] {
        ask("POST", pattern, &target, &body);
    }
    ask("GET", "/v1/audit", "/v1/audit", &none);
}

#[test]
fn events_are_answered_as_they_are_described() {
    let machine = Machine::new(&[]).expect("it starts");
    let none = Value::Null;
    let ask = |method: &str, pattern: &str, target: &str, body: &Value| {
        ask(&machine, method, pattern, target, body)
    };
    ask(
        "POST",
        "/v1/accounts",
        "/v1/accounts",
        &json!({"id": "a", "customer_id": "customer_1"}),
    );
    let event = json!({"type": "customer.plan_changed", "customer_id": "customer_1"});
    ask("POST", "/standin/events", "/standin/events", &event);
    machine.advance(60_000);
    let events = ask("GET", "/v1/events", "/v1/events", &none);
    let id = events["items"][0]["id"].as_str().expect("an event");
    ask("GET", "/v1/events/{id}", &format!("/v1/events/{id}"), &none);
    ask(
        "POST",
        "/v1/events/{id}/replay",
        &format!("/v1/events/{id}/replay"),
        &none,
    );
    let body = json!({"status": "applied"});
    ask("POST", "/v1/events/replay", "/v1/events/replay", &body);
    for operation in ["limit", "plan"] {
        let fault = json!({"operation": operation, "mode": "ok"});
        ask("PUT", "/standin/faults", "/standin/faults", &fault);
    }
    ask(
        "POST",
        "/standin/keys/rotate",
        "/standin/keys/rotate",
        &none,
    );
    ask(
        "PUT",
        "/standin/clock",
        "/standin/clock",
        &json!({"offset_ms": 1000}),
    );
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

/// Every `counterfoil_…` that stands in quotes in a source file.
fn names_in(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            names_in(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for part in code.split("\"counterfoil_").skip(1) {
            let word = |c: char| c.is_ascii_lowercase() || c == '_';
            let name: String = part.chars().take_while(|c| word(*c)).collect();
            found.insert(format!("counterfoil_{name}"));
        }
    }
}

#[test]
fn every_number_of_the_metrics_is_explained() {
    let mut found = BTreeSet::new();
    names_in(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut found,
    );
    found.remove("counterfoil_session"); // the cookie
    found.remove("counterfoil_"); // where a name is taken apart
    let known: BTreeSet<String> = ABOUT.iter().map(|(name, _)| (*name).to_owned()).collect();
    let unexplained: Vec<&String> = found.difference(&known).collect();
    assert!(unexplained.is_empty(), "{unexplained:?}");
    let unused: Vec<&String> = known.difference(&found).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn the_metrics_begin_at_zero_and_count_what_happens() {
    let machine = Machine::new(&[]).expect("it starts");
    let value = |name: &str| {
        let answer = machine.handle(request("GET", "/metrics", "dev-operator", &Value::Null));
        let text = String::from_utf8(answer.body).expect("text");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.and_then(|value| value.parse::<i64>().ok())
    };
    let recorded = "counterfoil_clicks_recorded_total";
    assert_eq!(value(recorded), Some(0));
    let call = |method: &str, target: &str, body: &Value| {
        machine.call(method, target, "dev-operator", body).0
    };
    call(
        "POST",
        "/v1/accounts",
        &json!({"id": "a", "customer_id": "customer_1"}),
    );
    let link = json!({"destination": "https://example.com/", "code": "spring"});
    call("POST", "/v1/links?account=a", &link);
    machine.call("GET", "/spring", "", &Value::Null);
    for (key, hold) in [("k1", 10), ("k2", 1_000_000)] {
        let job = json!({"key": key, "feature": "tokens", "hold": hold});
        call("POST", "/v1/jobs?account=a", &job);
    }
    // An account's sums wait a minute at most for a batch that takes them along.
    for _ in 0..3 {
        machine.advance(61_000);
    }
    assert_eq!(value(recorded), Some(1));
    assert_eq!(value("counterfoil_accounts"), Some(1));
    assert_eq!(
        value("counterfoil_admissions_total{result=\"admitted\"}"),
        Some(1)
    );
    assert_eq!(
        value("counterfoil_admissions_total{result=\"too_big\"}"),
        Some(1)
    );
    assert_eq!(value("counterfoil_review_open"), Some(0));
}
