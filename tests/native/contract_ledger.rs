//! What api.md says of links, usage, entries, meters and the review, where no other test of the
//! area says it.

use std::collections::BTreeSet;

use counterfoil::native::machine::{Machine, request};
use serde_json::{Value, json};

use crate::meters::{Bench, MINUTE, account, items, meter_of, run_sql};

const NONE: Value = Value::Null;
const TO: &str = "https://d.example/";
const CHROME: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
    Chrome/149.0 Safari/537.36";

fn visit(machine: &Machine, path: &str, headers: &[(&str, &str)]) -> u16 {
    let mut asked = request("GET", path, "", &NONE);
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    asked.headers = headers.iter().map(own).collect();
    machine.handle(asked).status
}

fn link(bench: &Bench, code: &str) -> Value {
    let body = json!({"code": code, "destination": TO});
    bench.ok("POST", "/v1/links?account=a", &body)
}

#[test]
fn a_redirect_is_answered_past_every_limit() {
    let bench = Bench::new(&[]);
    let limits = json!({"limits": {"clicks": 1, "tokens": 0}});
    bench.ok("PUT", "/standin/customers/customer_a", &limits);
    link(&bench, "x");
    for _ in 0..3 {
        assert_eq!(visit(&bench.machine, "/x", &[("user-agent", CHROME)]), 302);
    }
    bench.machine.advance(MINUTE);
    let usage = bench.ok("GET", "/v1/usage?account=a&feature=clicks", &NONE);
    assert_eq!(usage["total"], 3);
}

#[test]
fn what_is_no_redirect_may_be_kept_by_nobody_either() {
    let bench = Bench::new(&[]);
    link(&bench, "off");
    let change = json!({"disabled": true});
    bench.ok("PATCH", "/v1/links/off?account=a", &change);
    link(&bench, "on");
    for (path, headers, status) in [
        ("/nobody", vec![], 404),
        ("/off", vec![], 410),
        ("/on", vec![("purpose", "prefetch")], 503),
    ] {
        let mut asked = request("GET", path, "", &NONE);
        for (name, value) in headers {
            asked.headers.push((name.to_owned(), value.to_owned()));
        }
        let answer = bench.machine.handle(asked.clone());
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        asked.method = counterfoil::http::request::Method::Head;
        let head = bench.machine.handle(asked);
        assert_eq!((head.status, head.body.len()), (status, 0), "{path}");
    }
}

#[test]
fn a_code_is_never_given_again() {
    let bench = Bench::new(&[]);
    link(&bench, "x");
    let gone = bench.call("DELETE", "/v1/links/x?account=a", &NONE);
    assert_eq!(gone.0, 405);
    let off = json!({"disabled": true, "expires_at": "2020-01-01T00:00:00Z"});
    bench.ok("PATCH", "/v1/links/x?account=a", &off);
    account(&bench.machine, "b");
    let body = json!({"code": "x", "destination": "https://e.example/"});
    for id in ["a", "b"] {
        let answer = bench.call("POST", &format!("/v1/links?account={id}"), &body);
        assert_eq!((answer.0, &answer.1["code"]), (409, &json!("code_taken")));
    }
}

/// `{cycle, starts_at, ends_at, total, gross, corrected:{reason:n}, carried}`.
#[test]
fn usage_names_every_reason_and_its_total_is_gross_less_corrected_plus_carried() {
    let bench = Bench::new(&[("DOUBLE_CLICK_MS", "10000")]);
    let machine = &bench.machine;
    link(&bench, "x");
    link(&bench, "y");
    for headers in [
        &[("user-agent", CHROME)][..],
        &[("user-agent", CHROME)],
        &[("user-agent", "some-new-bot/0.1")],
        &[("user-agent", "Twitterbot/1.0")],
        &[],
    ] {
        assert_eq!(visit(machine, "/x", headers), 302);
        machine.advance(10);
    }
    assert_eq!(visit(machine, "/y", &[("user-agent", CHROME)]), 302);
    machine.advance(MINUTE);
    let kind = "/v1/entries?account=a&kind=click&code=y";
    let clicks = items(&bench.ok("GET", kind, &NONE));
    assert_eq!(clicks.len(), 1, "only the other link's");
    let id = clicks[0]["id"].as_str().expect("an id");
    let target = format!("/v1/entries/{id}/correction?account=a");
    bench.ok("POST", &target, &json!({"reason": "a test of ours"}));

    let usage = bench.ok("GET", "/v1/usage?account=a", &NONE);
    let corrected = json!({"bot": 1, "preview_crawler": 1, "no_user_agent": 1,
        "double_click": 1, "manual": 1});
    let expected = json!({"cycle": "2026-11", "starts_at": "2026-11-01T00:00:00.000Z",
        "ends_at": "2026-12-01T00:00:00.000Z", "gross": 6, "corrected": corrected,
        "carried": 0, "total": 1});
    assert_eq!(usage, expected);
    let of_y = bench.ok("GET", "/v1/usage?account=a&code=Y", &NONE);
    assert_eq!((&of_y["gross"], &of_y["total"]), (&json!(1), &json!(0)));
    assert_eq!(of_y["corrected"], json!({"manual": 1}));
    for rule in ["bot", "preview_crawler", "no_user_agent", "double_click"] {
        let all = "/v1/entries?account=a&kind=correction";
        let found = items(&bench.ok("GET", all, &NONE));
        let one = found.iter().find(|entry| entry["reason"] == rule);
        let one = one.unwrap_or_else(|| panic!("{rule} in {found:?}"));
        assert_eq!(one["units"], -1);
        assert!(one["rule"].is_string() && one["corrects"].is_string());
        assert_eq!(one.get("actor"), None);
    }
}

#[test]
fn entries_are_found_by_link_and_job_and_have_the_contracts_fields() {
    let bench = Bench::new(&[]);
    link(&bench, "x");
    let headers = [
        ("user-agent", CHROME),
        ("referer", "https://news.example/page"),
    ];
    visit(&bench.machine, "/x", &headers);
    bench.use_clicks("k", 2);
    let body = json!({"key": "j", "feature": "tokens", "hold": 5});
    let job = bench.ok("POST", "/v1/jobs?account=a", &body);
    let job = job["id"].as_str().expect("an id");
    let settle = json!({"used": 5, "reason": "done"});
    bench.ok("POST", &format!("/v1/jobs/{job}/settle?account=a"), &settle);
    bench.machine.advance(MINUTE);
    let found = |query: &str| {
        let target = format!("/v1/entries?account=a&{query}");
        items(&bench.ok("GET", &target, &NONE))
    };
    let fields = |entry: &Value| -> BTreeSet<String> {
        entry.as_object().expect("one").keys().cloned().collect()
    };
    let common = [
        "id",
        "feature",
        "cycle",
        "units",
        "kind",
        "occurred_at",
        "recorded_at",
    ];
    let with = |more: &[&str]| -> BTreeSet<String> {
        let all = common.iter().chain(more);
        all.map(|name| (*name).to_owned()).collect()
    };
    let of_link = found("code=x");
    assert_eq!(of_link.len(), 1);
    let seen = with(&["code", "country", "referrer_host"]);
    assert_eq!(fields(&of_link[0]), seen);
    assert_eq!(of_link[0]["referrer_host"], "news.example");
    let of_job = found(&format!("job={job}"));
    assert_eq!(of_job.len(), 1);
    assert_eq!(fields(&of_job[0]), with(&["job_id"]));
    assert_eq!(
        (&of_job[0]["units"], &of_job[0]["kind"]),
        (&json!(5), &json!("job"))
    );
    let of_usage = found("kind=usage");
    assert_eq!(fields(&of_usage[0]), with(&["key"]));
    let id = of_job[0]["id"].as_str().expect("an id");
    let target = format!("/v1/entries/{id}/correction?account=a");
    let (status, corrected) = bench.call("POST", &target, &json!({"reason": "wrong", "units": 2}));
    assert_eq!(status, 201);
    let of_person = with(&["job_id", "corrects", "reason", "actor"]);
    assert_eq!(fields(&corrected), of_person);
    assert_eq!(found(&format!("job={job}")).len(), 2);
}

/// `{account, feature, cycle, agreement_id, ledger, base, sent, provider, read_at, marked,
/// last_report:{at, outcome}}`, one for each feature, cycle and agreement.
#[test]
fn meters_are_told_for_all_or_for_one_account() {
    let bench = Bench::new(&[]);
    let other = account(&bench.machine, "b");
    bench.use_clicks("one", 5);
    let usage = json!({"key": "one", "feature": "clicks", "units": 7});
    bench.ok("POST", "/v1/usage?account=b", &usage);
    let waiting = items(&bench.ok("GET", "/v1/meters?account=b", &NONE));
    let expected = json!({"account": "b", "feature": "clicks", "cycle": "2026-11",
        "agreement_id": null, "ledger": 7, "base": 0, "sent": null, "provider": null,
        "read_at": null, "marked": true, "last_report": null});
    assert_eq!(waiting, [expected]);
    bench.run("reporter");
    bench.run("reconciler");
    let told = items(&bench.ok("GET", "/v1/meters?account=b", &NONE));
    let now = "2026-11-10T12:00:00.000Z";
    let expected = json!({"account": "b", "feature": "clicks", "cycle": "2026-11",
        "agreement_id": other, "ledger": 7, "base": 0, "sent": 7, "provider": 7,
        "read_at": now, "marked": false, "last_report": {"at": now, "outcome": "confirmed"}});
    assert_eq!(told, [expected]);
    let all = items(&bench.ok("GET", "/v1/meters", &NONE));
    assert_eq!(all.len(), 2);
    assert_eq!(bench.call("GET", "/v1/meters?account=nobody", &NONE).0, 404);
}

#[test]
fn the_reconciler_of_one_account_leaves_the_others_alone() {
    let bench = Bench::new(&[]);
    let other = account(&bench.machine, "b");
    bench.use_clicks("one", 5);
    let usage = json!({"key": "one", "feature": "clicks", "units": 7});
    bench.ok("POST", "/v1/usage?account=b", &usage);
    bench.run("reporter");
    let target = format!("/standin/meters/{other}/clicks");
    bench.move_meter(1);
    bench.ok("PUT", &target, &json!({"total": 1}));
    let dry = json!({"account": "b", "dry_run": true});
    let found = bench.ok("POST", "/v1/run/reconciler", &dry);
    assert_eq!(
        (&found["checked"], &found["drifted"], &found["repaired"]),
        (&json!(2), &json!(1), &json!(0))
    );
    assert_eq!(
        meter_of(&bench.machine, &other),
        1,
        "a dry run writes nothing"
    );
    for ask in [
        ("/v1/run/reconciler", json!({"account": "b"})),
        ("/v1/run/reconciler?account=b", json!({})),
    ] {
        bench.ok("PUT", &target, &json!({"total": 1}));
        let found = bench.ok("POST", ask.0, &ask.1);
        let counts = [
            "checked",
            "matched",
            "repaired",
            "drifted",
            "unreadable",
            "incomplete",
        ]
        .map(|name| found[name].as_i64().expect("a count"));
        assert_eq!(counts, [2, 1, 1, 1, 0, 0], "{found}");
        assert_eq!(found["done"], true);
        assert_eq!(meter_of(&bench.machine, &other), 7);
    }
    assert_eq!(bench.meter(), 1, "nobody looked at the other account");
}

#[test]
fn evidence_comes_newest_first_and_by_account_feature_and_cycle() {
    let bench = Bench::new(&[]);
    account(&bench.machine, "b");
    bench.use_clicks("one", 5);
    bench.run("reporter");
    for total in [1, 2, 3] {
        bench.move_meter(total);
        bench.run("reconciler");
        bench.machine.advance(MINUTE);
    }
    let found = |query: &str| items(&bench.ok("GET", &format!("/v1/evidence?{query}"), &NONE));
    let seen: Vec<Value> = found("account=a&feature=clicks")
        .iter()
        .map(|row| row["provider"].clone())
        .collect();
    assert_eq!(seen[..3], [json!(3), json!(2), json!(1)]);
    let every = |query: &str, name: &str, value: &str| {
        let rows = found(query);
        assert!(!rows.is_empty(), "{query}");
        assert!(rows.iter().all(|row| row[name] == value), "{query}");
    };
    every("account=b", "account", "b");
    every("feature=tokens", "feature", "tokens");
    every("cycle=2026-11", "cycle", "2026-11");
    assert!(found("cycle=2026-10").is_empty());
    let row = &found("account=a&feature=clicks")[0];
    let expected = json!({"number": row["number"], "account": "a", "feature": "clicks",
        "cycle": "2026-11", "agreement_id": bench.agreement, "ledger": 5, "counters": 5,
        "base": 0, "sent": 5, "provider": 3, "verdict": "under_billed",
        "cause": "meter_moved_by_other", "repaired_to": 5, "read_back": 5,
        "at": "2026-11-10T12:02:00.000Z"});
    assert_eq!(row, &expected);
}

/// An item of the review as a finding leaves it.
fn opened(machine: &Machine, id: &str, kind: &str, account: &str) {
    run_sql(
        machine,
        &format!(
            "insert into review (review_id, kind, account_id, numbers, opened_at_ms) \
             values ('{id}', '{kind}', {account}, '{{\"n\": 1}}', 7)"
        ),
    );
}

#[test]
fn the_review_is_listed_by_account_and_kind_and_closed_one_by_one_or_in_bulk() {
    let bench = Bench::new(&[]);
    let machine = &bench.machine;
    account(machine, "b");
    for (id, kind, of) in [
        ("rev_1", "conflict", "'a'"),
        ("rev_2", "late_use", "'b'"),
        ("rev_3", "feed", "null"),
        ("rev_4", "conflict", "'b'"),
    ] {
        opened(machine, id, kind, of);
    }
    let found = |query: &str| -> Vec<String> {
        let rows = items(&bench.ok("GET", &format!("/v1/review{query}"), &NONE));
        let id = |row: &Value| row["id"].as_str().expect("an id").to_owned();
        rows.iter().map(id).collect()
    };
    assert_eq!(found(""), ["rev_1", "rev_2", "rev_3", "rev_4"]);
    assert_eq!(found("?account=b"), ["rev_2", "rev_4"]);
    assert_eq!(found("?kind=conflict"), ["rev_1", "rev_4"]);
    assert_eq!(
        bench.call("GET", "/v1/review?kind=x", &NONE).1["field"],
        "kind"
    );
    let rows = items(&bench.ok("GET", "/v1/review?kind=feed", &NONE));
    let expected = json!({"id": "rev_3", "kind": "feed", "numbers": {"n": 1},
        "at": "1970-01-01T00:00:00.007Z", "state": "open"});
    assert_eq!(rows, [expected], "what an item has not is left out");

    let why = json!({"reason": "seen"});
    for wrong in [json!({}), json!({"reason": ""}), json!({"reason": 7})] {
        let answer = bench.call("POST", "/v1/review/rev_1/close", &wrong);
        assert_eq!((answer.0, &answer.1["field"]), (422, &json!("reason")));
    }
    assert_eq!(bench.call("POST", "/v1/review/rev_9/close", &why).0, 404);
    let foreign = "/v1/review/rev_1/close?account=b";
    assert_eq!(bench.call("POST", foreign, &why).0, 404);
    let carried = bench.call("POST", "/v1/review/rev_1/carry", &why);
    assert_eq!(
        (carried.0, &carried.1["code"]),
        (409, &json!("not_carried"))
    );
    for _ in 0..2 {
        let closed = bench.ok("POST", "/v1/review/rev_1/close", &why);
        assert_eq!(
            (&closed["id"], &closed["state"]),
            (&json!("rev_1"), &json!("closed"))
        );
    }
    let many = json!({"ids": ["rev_2", "rev_9", "rev_3"], "reason": "seen"});
    let answer = bench.ok("POST", "/v1/review/close", &many);
    let states: Vec<&Value> = answer["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| &item["state"])
        .collect();
    assert_eq!(
        states,
        [&json!("closed"), &json!("refused"), &json!("closed")]
    );
    assert_eq!(found(""), ["rev_4"]);
    for (body, field) in [
        (json!({"reason": "x"}), "ids"),
        (json!({"ids": [], "reason": "x"}), "ids"),
        (json!({"ids": "rev_4", "reason": "x"}), "ids"),
        (json!({"ids": [7], "reason": "x"}), "ids"),
        (json!({"ids": ["rev_4"]}), "reason"),
        (json!({"ids": ["rev_4"], "reason": "x", "y": 1}), "y"),
    ] {
        let answer = bench.call("POST", "/v1/review/close", &body);
        assert_eq!(
            (answer.0, &answer.1["field"]),
            (422, &json!(field)),
            "{body}"
        );
    }
}
