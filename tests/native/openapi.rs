//! The description of the API says what the router does, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use counterfoil::http::metrics::ABOUT;
use counterfoil::http::openapi::{AREAS, Content, Operation, PROBLEMS, Thing, document, example};
use counterfoil::http::route::{Endpoint, ROUTES};
use counterfoil::native::machine::{Machine, request};
use serde_json::{Value, json};

use crate::json_schema::wrong;

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

/// Everything that some answer holds, by name.
fn things() -> BTreeMap<&'static str, &'static Thing> {
    let answers = operations().flat_map(|operation| operation.answers);
    let all = answers.filter_map(|answer| match answer.body {
        Content::Json(things) | Content::List(things) => Some(things),
        Content::Empty | Content::Other(_) => None,
    });
    all.flatten().map(|thing| (thing.name, *thing)).collect()
}

#[test]
fn every_example_is_what_its_schema_says_and_every_route_has_an_answer() {
    let document = document("http://localhost:8787");
    for (name, thing) in things() {
        let schema = &document["components"]["schemas"][name];
        let example = example(thing);
        assert_eq!(wrong(&document, schema, &example), None, "{name}");
    }
    for operation in operations() {
        assert!(!operation.answers.is_empty(), "{}", operation.pattern);
        assert!(!operation.summary.ends_with('.'), "{}", operation.pattern);
    }
}

/// Every text in quotes between a start and the next line that is only `    }`.
fn words_after(file: &str, start: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
    let text = fs::read_to_string(path).expect("a source file");
    let rest = text.split_once(start).expect("it is there").1;
    let body = rest.split("\n    }\n").next().expect("a body");
    body.split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_word_that_the_code_answers_is_one_that_the_schema_lists() {
    let document = document("http://localhost:8787");
    let sources = [
        (
            "ledger/meter_rules.rs",
            "impl Verdict",
            "/Evidence/properties/verdict",
        ),
        (
            "ledger/meter_rules.rs",
            "impl Cause",
            "/Evidence/properties/cause",
        ),
        (
            "ledger/meter_rules.rs",
            "impl Outcome",
            "/Meter/properties/last_report/properties/outcome",
        ),
        (
            "ledger/review.rs",
            "impl ReviewKind",
            "/ReviewItem/properties/kind",
        ),
        (
            "ledger/entry.rs",
            "pub const fn name(self)",
            "/Entry/properties/kind",
        ),
        ("gate/rules.rs", "impl State", "/Job/properties/state"),
        ("gate/rules.rs", "impl Reason", "/Problem/properties/reason"),
        (
            "accounts/mod.rs",
            "pub const fn name(self)",
            "/Account/properties/anchor/properties/source",
        ),
    ];
    for (file, start, place) in sources {
        let schema = document["components"]["schemas"]
            .pointer(place)
            .unwrap_or_else(|| panic!("{place} is not there"));
        let listed = schema["enum"].as_array().expect("a list of words");
        let listed: BTreeSet<String> = (listed.iter().filter_map(Value::as_str))
            .map(str::to_owned)
            .collect();
        assert_eq!(words_after(file, start), listed, "{place}");
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

#[test]
fn a_short_link_s_head_is_its_get_without_a_body() {
    let document = document("http://localhost:8787");
    let paths = document["paths"].as_object().expect("paths");
    let with_head = paths.iter().filter(|(_, one)| one.get("head").is_some());
    let with_head: Vec<&String> = with_head.map(|(path, _)| path).collect();
    assert_eq!(with_head, ["/{code}"], "others are told of once, for all");
    let about = document["info"]["description"].as_str().expect("text");
    assert!(about.contains("HEAD"), "{about}");
    let statuses = |method: &str| -> Vec<String> {
        let responses = document["paths"]["/{code}"][method]["responses"].as_object();
        responses.expect("answers").keys().cloned().collect()
    };
    assert_eq!(statuses("head"), statuses("get"));
    let head = &document["paths"]["/{code}"]["head"]["responses"];
    for (status, response) in head.as_object().expect("answers") {
        assert_eq!(response.get("content"), None, "{status}");
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

#[test]
fn the_answers_have_the_fields_of_the_contract() {
    for (method, pattern, fields) in PROMISED {
        let operation = operations()
            .find(|one| one.method.name() == *method && one.pattern == *pattern)
            .expect("it is described");
        let answer = operation.answers.first().expect("an answer");
        let (Content::Json(things) | Content::List(things)) = answer.body else {
            panic!("{method} {pattern} answers no JSON");
        };
        let thing = things.first().expect("a thing");
        for field in *fields {
            let mut known = thing.fields.iter().copied().flatten();
            assert!(
                known.any(|known| known.name == *field),
                "{method} {pattern}: {field}"
            );
        }
    }
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
    let ticks = text
        .split("<pre>")
        .filter_map(|part| part.rsplit("</pre>").next());
    assert_eq!(
        ticks.filter(|part| part.contains('`')).count(),
        0,
        "a backtick is shown"
    );
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
