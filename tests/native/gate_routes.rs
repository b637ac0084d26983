//! The gate's routes to the letter of the contract: what each answers, refuses and names.

use counterfoil::http::reply::Response;
use counterfoil::native::machine::request;
use counterfoil::ports::{ObjectName, Sql};
use counterfoil::units::AccountId;
use serde_json::{Value, json};

use crate::desk::{BACKEND, Desk, OPERATOR};

fn code(body: &Value) -> &str {
    body["code"].as_str().unwrap_or_default()
}

fn raw(desk: &Desk, path: &str, body: &Value) -> Response {
    let target = format!("{path}?account=a");
    desk.machine.handle(request("POST", &target, BACKEND, body))
}

fn retry_after(response: &Response) -> Option<&str> {
    response.header("retry-after")
}

fn json_of(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap_or(Value::Null)
}

#[test]
fn a_key_whose_job_is_over_is_told_its_state_and_what_was_charged() {
    let desk = Desk::new(100);
    let job = desk.job("settles", 10);
    desk.settle(&job, &json!({"used": 7}));
    let (status, body) = desk.admit("settles", 10);
    assert_eq!((status, code(&body)), (409, "job_over"));
    assert_eq!(
        (&body["state"], &body["charged"]),
        (&json!("settled"), &json!({"tokens": 7}))
    );
    let job = desk.job("expires", 10);
    desk.charge(&job, &json!({"units": 3}));
    desk.silently(120);
    let (status, body) = desk.admit("expires", 10);
    assert_eq!((status, code(&body)), (409, "job_over"));
    assert_eq!(
        (&body["state"], &body["charged"]),
        (&json!("expired"), &json!({"tokens": 3}))
    );
}

#[test]
fn a_request_is_the_same_however_it_names_its_one_feature() {
    let desk = Desk::new(100);
    let job = desk.job("k", 5);
    let (status, same) = desk.post("/v1/jobs", &json!({"key": "k", "holds": {"tokens": 5}}));
    assert_eq!((status, &same["id"]), (200, &json!(job)));
    for other in [
        json!({"key": "k", "holds": {"tokens": 5, "images": 1}}),
        json!({"key": "k", "feature": "images", "hold": 5}),
        json!({"key": "k", "feature": "tokens", "hold": 5, "lease_seconds": 60}),
    ] {
        let (status, body) = desk.post("/v1/jobs", &other);
        assert_eq!((status, code(&body)), (409, "key_conflict"), "{other}");
    }
}

#[test]
fn the_default_lease_left_out_and_spelled_out_are_the_same_request() {
    let desk = Desk::new(100);
    let body = |key: &str, lease: Value| {
        let mut body = json!({"key": key, "feature": "tokens", "hold": 5});
        if !lease.is_null() {
            body["lease_seconds"] = lease;
        }
        body
    };
    let said = |key: &str, lease: Value| desk.post("/v1/jobs", &body(key, lease)).0;
    assert_eq!(said("short", Value::Null), 201);
    assert_eq!(said("short", json!(120)), 200);
    assert_eq!(said("long", json!(120)), 201);
    assert_eq!(said("long", Value::Null), 200);
    assert_eq!(said("other", json!(60)), 201);
    assert_eq!(said("other", Value::Null), 409);
    // As if the setting had been 60 when it was started: the job's own lease counts.
    let account = ObjectName::Account(AccountId::new("a").unwrap());
    let storage = desk.machine.objects.storage(&account).unwrap();
    let earlier = "update job set lease_seconds = 60 where key = 'short'";
    storage.query(earlier, &[]).unwrap();
    assert_eq!(said("short", Value::Null), 200);
    assert_eq!(said("short", json!(60)), 200);
    assert_eq!(said("short", json!(120)), 409);
}

#[test]
fn a_refusal_is_not_remembered_and_the_same_key_may_be_admitted_later() {
    let desk = Desk::new(10);
    let first = desk.job("first", 6);
    let before = desk.stored();
    assert_eq!(desk.admit("later", 5).0, 402);
    assert_eq!(desk.stored(), before);
    desk.settle(&first, &json!({"used": 5}));
    assert_eq!(desk.admit("later", 5).0, 201);
}

#[test]
fn each_reason_for_too_little_room_comes_with_its_numbers() {
    let desk = Desk::new(10);
    let used = desk.job("used", 4);
    desk.settle(&used, &json!({"used": 4}));
    let refused = |hold: i64| {
        let body = json!({"key": "k", "feature": "tokens", "hold": hold});
        let response = raw(&desk, "/v1/jobs", &body);
        assert_eq!(response.status, 402);
        let after = retry_after(&response).map(str::to_owned);
        (json_of(&response), after)
    };
    let numbers = |body: &Value| {
        let names = ["reason", "asked", "remaining", "used", "held", "limit"];
        names.map(|name| body[name].clone())
    };
    let (body, after) = refused(11);
    assert_eq!(
        (code(&body), &body["feature"]),
        ("over_limit", &json!("tokens"))
    );
    let expected = [
        json!("too_big"),
        json!(11),
        json!(6),
        json!(4),
        json!(0),
        json!(10),
    ];
    assert_eq!(numbers(&body), expected);
    assert_eq!((&body["next_lease_ends_at"], after), (&Value::Null, None));
    let (body, after) = refused(7);
    assert_eq!(body["reason"], "used_up");
    assert_eq!(after, None);
    desk.job("held", 2);
    desk.seconds(20);
    let (body, after) = refused(5);
    let expected = [
        json!("held"),
        json!(5),
        json!(4),
        json!(4),
        json!(2),
        json!(10),
    ];
    assert_eq!(numbers(&body), expected);
    assert_eq!(body["next_lease_ends_at"], "2026-11-10T12:02:00.000Z");
    assert_eq!(after.as_deref(), Some("100"));
}

#[test]
fn a_full_minute_and_an_unknown_limit_say_when_to_ask_again() {
    let desk = Desk::with(100, &[("JOBS_PER_MINUTE", "1")]);
    let hold = |key: &str| json!({"key": key, "feature": "tokens", "hold": 1});
    desk.seconds(15);
    desk.job("one", 1);
    let full = raw(&desk, "/v1/jobs", &hold("two"));
    assert_eq!((full.status, retry_after(&full)), (429, Some("45")));
    desk.seconds(45);
    desk.provider_is_down(true);
    desk.silently(600);
    let unknown = raw(&desk, "/v1/jobs", &hold("two"));
    assert_eq!((unknown.status, retry_after(&unknown)), (503, Some("5")));
    assert_eq!(json_of(&unknown)["feature"], "tokens");
    desk.silently(2);
    let unknown = raw(&desk, "/v1/jobs", &hold("two"));
    assert_eq!(retry_after(&unknown), Some("3"));
}

#[test]
fn without_a_customer_a_job_is_told_to_come_again_and_the_budget_is_unknown() {
    let desk = Desk::new(100);
    let made = json!({"id": "alone"});
    assert_eq!(
        desk.machine.call("POST", "/v1/accounts", OPERATOR, &made).0,
        201
    );
    let hold = json!({"key": "k", "feature": "tokens", "hold": 1});
    let asked = request("POST", "/v1/jobs?account=alone", BACKEND, &hold);
    let answer = desk.machine.handle(asked);
    assert_eq!((answer.status, retry_after(&answer)), (503, Some("30")));
    assert_eq!(code(&json_of(&answer)), "limit_unknown");
    let target = "/v1/budget?feature=tokens&account=alone";
    let (status, budget) = desk.machine.call("GET", target, BACKEND, &Value::Null);
    let expected = json!({"feature": "tokens", "cycle": "2026-11", "limit": null,
        "limit_state": "unknown", "used": 0, "held": 0, "remaining": null});
    assert_eq!((status, budget), (200, expected));
    // The cheap feature is admitted all the same.
    let hints = json!({"key": "h", "feature": "hints", "hold": 1});
    assert_eq!(desk.post_as("alone", "/v1/jobs", &hints).0, 201);
    assert_eq!(desk.reads(), 0);
}

#[test]
fn a_known_budget_is_answered_whole() {
    let desk = Desk::new(100);
    let job = desk.job("k", 30);
    desk.charge(&job, &json!({"units": 10}));
    let budget = desk.get("/v1/budget?feature=tokens");
    let expected = json!({"feature": "tokens", "cycle": "2026-11", "limit": 100,
        "limit_state": "known", "used": 0, "held": 30, "remaining": 70});
    assert_eq!(budget, expected);
    for (query, field) in [("", "feature"), ("feature=nothing", "feature")] {
        let target = format!("/v1/budget?account=a&{query}");
        let (status, body) = desk.machine.call("GET", &target, BACKEND, &Value::Null);
        assert_eq!((status, &body["field"]), (422, &json!(field)), "{query}");
    }
}

/// G14: a counter that is cold in memory is read, never filled by whoever comes first.
#[test]
fn six_readers_of_a_cold_object_see_the_same_budget() {
    let desk = Desk::new(100);
    let job = desk.job("k", 100);
    desk.settle(&job, &json!({"used": 100}));
    desk.machine.restart();
    for _ in 0..6 {
        assert_eq!(desk.taken(), (100, 0));
    }
}

#[test]
fn an_extension_is_answered_as_the_job_and_renews_its_lease() {
    let desk = Desk::new(100);
    let job = desk.job("k", 10);
    desk.seconds(60);
    let (status, more) = desk.extend(&job, &json!({"units": 5, "feature": "tokens"}));
    assert_eq!(status, 200);
    assert_eq!(more["lease_ends_at"], "2026-11-10T12:03:00.000Z");
    assert_eq!(more["holds"], json!({"tokens": {"held": 15, "used": 0}}));
    assert_eq!(more["remaining"], json!({"tokens": 85}));
    assert_eq!(more, desk.get(&format!("/v1/jobs/{job}")));
    let (status, refused) = desk.extend(&job, &json!({"units": 101}));
    assert_eq!((status, &refused["reason"]), (402, &json!("too_big")));
    desk.silently(61);
    desk.provider_is_down(true);
    desk.silently(55);
    desk.renew(&job);
    // A running job asks for more under the same rules: with an old limit, then not at all.
    assert_eq!(desk.extend(&job, &json!({"units": 1})).0, 200);
    for _ in 0..6 {
        desk.silently(100);
        assert_eq!(desk.renew(&job).0, 200);
    }
    let (status, refused) = desk.extend(&job, &json!({"units": 1}));
    assert_eq!((status, code(&refused)), (503, "limit_unknown"));
    assert_eq!(desk.charge(&job, &json!({"units": 16})).0, 200);
}

#[test]
fn a_settled_job_shows_how_it_ended() {
    let desk = Desk::new(100);
    let job = desk.job("k", 10);
    desk.charge(&job, &json!({"units": 4}));
    let (status, end) = desk.settle(&job, &json!({"outcome": "failed", "reason": "no matter"}));
    assert_eq!(status, 200);
    let expected = json!({"state": "settled", "charged": {"tokens": 4},
        "released": {"tokens": 6}, "uncovered": {"tokens": 0},
        "by_cycle": {"2026-11": {"tokens": 4}}});
    assert_eq!(end, expected);
    let shown = desk.get(&format!("/v1/jobs/{job}"));
    assert_eq!(
        (&shown["state"], &shown["outcome"]),
        (&json!("settled"), &json!("failed"))
    );
    assert_eq!(shown["holds"], json!({"tokens": {"held": 10, "used": 4}}));
}

/// Every wrong field of the routes of one job, and that nothing changed.
#[test]
fn what_is_wrong_in_a_charge_an_extension_or_a_settle_is_named_and_changes_nothing() {
    let desk = Desk::new(100);
    let job = desk.job("k", 10);
    let before = desk.stored();
    let bad_amounts = [
        json!(0),
        json!(-1),
        json!(1.5),
        json!("10"),
        json!(9_007_199_254_740_992_i64),
        json!(true),
        json!([1]),
    ];
    let wrong = |path: &str, body: &Value, field: &str| {
        let (status, answer) = desk.post(&format!("/v1/jobs/{job}/{path}"), body);
        let told = (status, answer["field"].as_str().unwrap_or_default());
        assert_eq!(told, (422, field), "{path} {body}");
    };
    for amount in &bad_amounts {
        wrong("charges", &json!({"units": amount}), "units");
        wrong("extend", &json!({"units": amount}), "units");
        wrong(
            "charges",
            &json!({"units": {"tokens": amount}}),
            "units.tokens",
        );
        if *amount != json!(0) {
            wrong("settle", &json!({"used": amount}), "used");
        }
    }
    wrong("charges", &json!({}), "units");
    wrong("charges", &json!({"units": {}}), "units");
    wrong("charges", &json!({"units": {"nothing": 1}}), "feature");
    wrong("charges", &json!({"units": {"images": 1}}), "feature");
    wrong(
        "charges",
        &json!({"units": 1, "feature": "nothing"}),
        "feature",
    );
    wrong(
        "charges",
        &json!({"units": 1, "feature": "images"}),
        "feature",
    );
    wrong(
        "charges",
        &json!({"units": {"tokens": 1}, "feature": "tokens"}),
        "feature",
    );
    wrong("charges", &json!({"units": 1, "step": ""}), "step");
    wrong("charges", &json!({"units": 1, "step": "a b"}), "step");
    let long = "s".repeat(201);
    wrong("charges", &json!({"units": 1, "step": long}), "step");
    wrong("charges", &json!({"units": 1, "more": 1}), "more");
    wrong(
        "extend",
        &json!({"units": 1, "feature": "images"}),
        "feature",
    );
    wrong("renew", &json!({"units": 1}), "units");
    wrong("settle", &json!({"used": {"nothing": 1}}), "feature");
    wrong("settle", &json!({"used": {"images": 1}}), "used");
    wrong("settle", &json!({"outcome": "over"}), "outcome");
    let long = "r".repeat(501);
    wrong("settle", &json!({"reason": long}), "reason");
    assert_eq!(desk.stored(), before);
    let (status, body) = desk.post("/v1/jobs", &json!({"key": "x", "holds": {"nothing": 1}}));
    assert_eq!((status, &body["field"]), (422, &json!("feature")));
    let (status, body) = desk.post("/v1/jobs", &json!({"key": "x", "holds": {"clicks": 1}}));
    assert_eq!((status, &body["field"]), (422, &json!("feature")));
}

#[test]
fn the_bounds_themselves_are_taken() {
    let desk = Desk::new(100);
    let key: String = ('!'..='~').chain('!'..='~').chain('!'..=',').collect();
    assert_eq!(key.len(), 200);
    let step = key.clone();
    for (key, lease) in [(key.as_str(), 1), ("longest", 3600)] {
        let body = json!({"key": key, "feature": "tokens", "hold": 1, "lease_seconds": lease});
        let (status, job) = desk.post("/v1/jobs", &body);
        assert_eq!((status, &job["key"]), (201, &json!(key)));
        assert_eq!(job["lease_seconds"], lease);
        let id = job["id"].as_str().unwrap();
        assert_eq!(desk.charge(id, &json!({"units": 1, "step": step})).0, 200);
        assert_eq!(desk.settle(id, &json!({"used": 0})).0, 200);
    }
    assert_eq!(desk.taken(), (2, 0));
}

#[test]
fn another_accounts_job_is_not_there_on_any_route() {
    let desk = Desk::new(100);
    let job = desk.job("k", 10);
    let before = desk.stored();
    for (method, path, body) in [
        ("GET", "", Value::Null),
        ("POST", "/charges", json!({"units": 1})),
        ("POST", "/extend", json!({"units": 1})),
        ("POST", "/renew", json!({})),
        ("POST", "/settle", json!({"used": 1})),
    ] {
        let target = format!("/v1/jobs/{job}{path}?account=b");
        let (status, answer) = desk.machine.call(method, &target, BACKEND, &body);
        assert_eq!((status, code(&answer)), (404, "not_found"), "{path}");
    }
    assert_eq!(desk.stored(), before);
    let listed = desk
        .machine
        .call("GET", "/v1/jobs?account=b", BACKEND, &Value::Null);
    assert_eq!(listed.1["items"], json!([]));
}

#[test]
fn who_names_no_account_sees_accounts_with_live_holds_as_operator_only() {
    let desk = Desk::new(100);
    desk.job("k", 10);
    desk.seconds(2);
    let list = |token: &str| desk.machine.call("GET", "/v1/jobs", token, &Value::Null);
    let (status, all) = list(OPERATOR);
    assert_eq!(
        (status, all["items"].as_array().map(Vec::len)),
        (200, Some(1))
    );
    let (status, body) = list(BACKEND);
    assert_eq!((status, &body["field"]), (422, &json!("account")));
    for query in ["state=over", "feature=nothing", "limit=0"] {
        let target = format!("/v1/jobs?account=a&{query}");
        let (status, body) = desk.machine.call("GET", &target, BACKEND, &Value::Null);
        let field = query.split('=').next();
        assert_eq!((status, body["field"].as_str()), (422, field), "{query}");
    }
}

#[test]
fn estimates_count_capped_and_expired_jobs_and_tenths_of_what_was_held() {
    let desk = Desk::new(1000);
    for (key, used) in [("none", 0), ("half", 5), ("whole", 10)] {
        let job = desk.job(key, 10);
        desk.settle(&job, &json!({"used": used}));
    }
    let capped = desk.job("capped", 10);
    desk.charge(&capped, &json!({"units": 11}));
    desk.settle(&capped, &json!({}));
    let expires = desk.job("expires", 10);
    desk.charge(&expires, &json!({"units": 3}));
    desk.seconds(121);
    let view = desk.get("/v1/jobs/estimates?feature=tokens");
    let expected = json!({"feature": "tokens", "cycle": "2026-11", "jobs": 5, "capped": 1,
        "expired": 1, "held": 50, "charged": 28, "tenths": [1, 0, 0, 1, 0, 1, 0, 0, 0, 2]});
    assert_eq!(view, expected);
    let other = desk.get("/v1/jobs/estimates?feature=tokens&cycle=2026-10");
    assert_eq!(
        (&other["jobs"], &other["cycle"]),
        (&json!(0), &json!("2026-10"))
    );
    let target = "/v1/jobs/estimates?account=a";
    let (status, body) = desk.machine.call("GET", target, BACKEND, &Value::Null);
    assert_eq!((status, &body["field"]), (422, &json!("feature")));
}

/// A key may be used again only once its job's entries are in the ledger: otherwise a second job
/// could hide that the first was never booked.
#[test]
fn a_job_is_not_forgotten_before_its_entries_are_delivered() {
    let desk = Desk::new(100);
    let job = desk.job("k", 10);
    desk.settle(&job, &json!({"used": 7}));
    let run = |sql: &str| {
        counterfoil::ports::Sql::query(&desk.machine.ledger, sql, &[]).expect("it runs");
    };
    run("alter table entry rename to away");
    for _ in 0..9 {
        desk.seconds(86_400);
    }
    assert_eq!(desk.admit("k", 10).0, 409);
    run("alter table away rename to entry");
    for _ in 0..3 {
        desk.seconds(3600);
    }
    assert_eq!(desk.entries("a", "tokens", "2026-11"), 7);
    assert_eq!(desk.admit("k", 10).0, 201);
}

#[test]
fn an_accounts_own_rate_replaces_the_setting() {
    let desk = Desk::new(1000);
    let change = json!({"jobs_per_minute": 2});
    let (status, _) = desk
        .machine
        .call("PATCH", "/v1/accounts/a", BACKEND, &change);
    assert_eq!(status, 200);
    let told: Vec<u16> = (0..3).map(|n| desk.admit(&format!("k{n}"), 1).0).collect();
    assert_eq!(told, [201, 201, 429]);
}

#[test]
fn a_call_without_a_body_is_a_sign_of_life_and_a_settle_at_the_charges() {
    let desk = Desk::new(100);
    let job = desk.job("k", 10);
    desk.charge(&job, &json!({"units": 2}));
    let (status, renewed) = desk.post(&format!("/v1/jobs/{job}/renew"), &Value::Null);
    assert_eq!(
        (status, renewed),
        (200, json!({"lease_ends_at": "2026-11-10T12:02:00.000Z"}))
    );
    let (status, end) = desk.post(&format!("/v1/jobs/{job}/settle"), &Value::Null);
    assert_eq!((status, &end["charged"]), (200, &json!({"tokens": 2})));
}

/// Lab and Engine Room leave no trace in lists and metrics; whoever names their account sees it.
#[test]
fn the_accounts_of_lab_and_engine_room_are_in_no_list_and_no_number() {
    let machine = counterfoil::native::machine::Machine::new(&[]).expect("it starts");
    let get = |target: &str| {
        let asked = request("GET", target, OPERATOR, &Value::Null);
        let answer = machine.handle(asked);
        assert_eq!(answer.status, 200, "{target}");
        String::from_utf8(answer.body).expect("text")
    };
    let as_json = |path: &str, body: &Value| {
        let mut asked = request("POST", path, OPERATOR, body);
        let accept = ("accept".to_owned(), "application/json".to_owned());
        asked.headers.push(accept);
        let answer = machine.handle(asked);
        assert_eq!(answer.status, 200, "{path}");
        json_of(&answer)["account"].as_str().unwrap().to_owned()
    };
    let accounts = [
        as_json("/app/lab/run", &json!({})),
        as_json("/app/engine-room/run", &json!({})),
    ];
    machine.advance(60_000);
    for job in ["sweeper", "inbox", "reporter", "reconciler", "plans"] {
        let (status, _) = machine.call("POST", &format!("/v1/run/{job}"), OPERATOR, &json!({}));
        assert_eq!(status, 200, "{job}");
    }
    for list in [
        "/v1/accounts",
        "/v1/events",
        "/v1/jobs",
        "/v1/audit",
        "/v1/meters",
        "/v1/evidence",
        "/v1/review",
        "/app",
        "/app/events",
        "/app/jobs",
        "/app/reconcile",
    ] {
        let text = get(list);
        for account in &accounts {
            assert!(!text.contains(account.as_str()), "{list} shows {account}");
        }
    }
    assert!(get(&format!("/v1/meters?account={}", accounts[0])).contains("tokens"));
    let metrics = get("/metrics");
    for none in [
        "counterfoil_accounts 0",
        "counterfoil_charges_total 0",
        "counterfoil_marks_waiting 0",
        "counterfoil_review_open 0",
        "counterfoil_events{status=\"processing\"} 0",
    ] {
        assert!(
            metrics.contains(&format!("\n{none}\n")),
            "{none}: {metrics}"
        );
    }
    for absent in [
        "admissions_total{",
        "jobs_ended_total{",
        "event_runs_total{",
    ] {
        assert!(!metrics.contains(absent), "{absent}: {metrics}");
    }
}
