//! Accounts: made once, changed by rule, with keys and an audit (api.md, "Accounts").

use counterfoil::accounts::store;
use counterfoil::http::request::Method;
use counterfoil::http::route::{Access, ROUTES};
use counterfoil::native::executor::block_on;
use counterfoil::native::machine::{Machine, request};
use counterfoil::ports::{Db, Statement};
use counterfoil::units::AccountId;
use serde_json::{Value, json};

const OPERATOR: &str = "dev-operator";
const BACKEND: &str = "dev-backend";
const NONE: Value = Value::Null;

fn machine() -> Machine {
    Machine::new(&[]).expect("it starts")
}

fn make(machine: &Machine, body: &Value) -> (u16, Value) {
    machine.call("POST", "/v1/accounts", BACKEND, body)
}

fn code(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["code"].as_str().unwrap_or(""))
}

fn audited(machine: &Machine) -> Vec<String> {
    let audit = machine.call("GET", "/v1/audit", OPERATOR, &NONE).1;
    let items = audit["items"].as_array().expect("items").clone();
    items
        .iter()
        .map(|row| format!("{} {}", row["actor"], row["action"]).replace('"', ""))
        .collect()
}

#[test]
fn an_account_without_a_customer_has_calendar_months_and_the_free_plan() {
    let machine = machine();
    let (status, body) = make(&machine, &json!({"id": "acme", "name": "Acme"}));
    assert_eq!(status, 201);
    assert!(
        body["api_key"]
            .as_str()
            .is_some_and(|key| key.starts_with("cfk_"))
    );
    let one = machine.call("GET", "/v1/accounts/acme", BACKEND, &NONE).1;
    assert_eq!(one["plan"], "free");
    assert_eq!(one["plan_since"], NONE);
    assert_eq!(one["customer_id"], NONE);
    assert_eq!(one["payment"], "ok");
    assert_eq!(one["anchor"]["source"], "calendar_month");
    let cycle = json!({"name": "2026-11", "starts_at": "2026-11-01T00:00:00.000Z",
        "ends_at": "2026-12-01T00:00:00.000Z"});
    assert_eq!(one["cycle"], cycle);
    assert_eq!(one.get("api_key"), None);
    assert_eq!(one["budgets"][0]["feature"], "tokens");
    assert_eq!(one["budgets"][0]["limit_state"], "unknown");
}

#[test]
fn the_same_body_again_is_the_same_account_and_another_is_refused() {
    let machine = machine();
    let body = json!({"id": "a", "name": "A", "starts_at": "2026-10-20T15:29:00Z"});
    assert_eq!(make(&machine, &body).0, 201);
    // The same wish in other words.
    let again = json!({"starts_at": "2026-10-20T17:29:00.000+02:00", "name": "A", "id": "a",
        "jobs_per_minute": null});
    let (status, answer) = make(&machine, &again);
    assert_eq!(status, 200);
    assert_eq!(answer.get("api_key"), None);
    for other in [
        json!({"id": "a"}),
        json!({"id": "a", "name": "B", "starts_at": "2026-10-20T15:29:00Z"}),
        json!({"id": "a", "name": "A", "starts_at": "2026-10-20T15:29:00.001Z"}),
        json!({"id": "a", "name": "A", "starts_at": "2026-10-20T15:29:00Z", "jobs_per_minute": 1}),
    ] {
        assert_eq!(
            code(&make(&machine, &other)),
            (409, "account_exists"),
            "{other}"
        );
    }
    // A change of the account does not make the body another.
    machine.call("PATCH", "/v1/accounts/a", BACKEND, &json!({"name": "New"}));
    let (status, answer) = make(&machine, &body);
    assert_eq!((status, &answer["name"]), (200, &json!("New")));
    assert_eq!(audited(&machine), ["dev-backend key.create"]);
}

#[test]
fn an_id_is_made_up_where_none_is_given_and_each_is_another() {
    let machine = machine();
    let first = make(&machine, &NONE).1;
    let second = make(&machine, &json!({})).1;
    assert!(
        first["id"]
            .as_str()
            .is_some_and(|id| id.starts_with("acc_"))
    );
    assert_ne!(first["id"], second["id"]);
}

#[test]
fn a_wrong_field_is_named_and_nothing_is_made() {
    let machine = machine();
    for (body, field) in [
        (json!({"id": ".a"}), "id"),
        (json!({"id": "a/b"}), "id"),
        (json!({"id": ""}), "id"),
        (json!({"id": 7}), "id"),
        (json!({"id": "a".repeat(65)}), "id"),
        (json!({"name": ""}), "name"),
        (json!({"name": "a\nb"}), "name"),
        (json!({"name": "a".repeat(201)}), "name"),
        (json!({"customer_id": "a b"}), "customer_id"),
        (json!({"starts_at": "2026-10-20"}), "starts_at"),
        (json!({"starts_at": "2026-02-30T00:00:00Z"}), "starts_at"),
        (json!({"starts_at": 1}), "starts_at"),
        (json!({"jobs_per_minute": 0}), "jobs_per_minute"),
        (json!({"jobs_per_minute": 1.5}), "jobs_per_minute"),
        (json!({"jobs_per_minute": "10"}), "jobs_per_minute"),
        (json!({"demo": true}), "demo"),
        (json!({"api_key": "cfk_a_b"}), "api_key"),
    ] {
        let (status, answer) = make(&machine, &body);
        assert_eq!((status, &answer["field"]), (422, &json!(field)), "{body}");
    }
    let list = machine.call("GET", "/v1/accounts", BACKEND, &NONE).1;
    assert_eq!(list, json!({"items": [], "next": null}));
}

#[test]
fn a_late_anchor_is_refused_or_clamped_as_the_setting_says() {
    let late = json!({"id": "a", "starts_at": "2026-10-31T10:00:00Z"});
    let refusing = machine();
    let refused = make(&refusing, &late);
    assert_eq!(code(&refused), (422, "anchor_day"));
    assert_eq!(refused.1["field"], "starts_at");
    assert_eq!(
        refusing.call("GET", "/v1/accounts/a", BACKEND, &NONE).0,
        404
    );
    // The day counts in UTC.
    let utc = json!({"id": "b", "starts_at": "2026-10-29T01:00:00+02:00"});
    assert_eq!(make(&refusing, &utc).0, 201);

    let clamping = Machine::new(&[("LATE_ANCHOR", "clamp")]).expect("it starts");
    let made = make(&clamping, &late).1;
    assert_eq!(made["cycle"]["starts_at"], "2026-10-31T10:00:00.000Z");
    assert_eq!(made["cycle"]["ends_at"], "2026-11-30T10:00:00.000Z");
}

#[test]
fn where_the_provider_cannot_be_read_no_account_is_made() {
    // Nothing is reachable from here, and without credentials nothing is asked.
    let machine = Machine::new(&[("PROVIDER", "kinde")]).expect("it starts");
    let answer = make(&machine, &json!({"id": "a", "customer_id": "customer_1"}));
    assert_eq!(answer.0, 503, "{}", answer.1);
    assert_eq!(machine.call("GET", "/v1/accounts/a", BACKEND, &NONE).0, 404);
    make(&machine, &json!({"id": "b"}));
    let change = json!({"customer_id": "customer_1", "name": "B"});
    assert_eq!(
        machine.call("PATCH", "/v1/accounts/b", BACKEND, &change).0,
        503
    );
    let one = machine
        .call("GET", "/v1/account?account=b", BACKEND, &NONE)
        .1;
    assert_eq!((&one["name"], &one["customer_id"]), (&NONE, &NONE));
}

#[test]
fn a_list_goes_page_by_page_in_the_order_of_ids() {
    let machine = machine();
    for id in ["c", "a", "e", "b", "d"] {
        make(&machine, &json!({"id": id}));
    }
    let mut seen = Vec::new();
    let mut target = "/v1/accounts?limit=2".to_owned();
    loop {
        let page = machine.call("GET", &target, OPERATOR, &NONE).1;
        let ids = page["items"].as_array().expect("items");
        seen.extend(
            ids.iter()
                .map(|item| item["id"].as_str().expect("an id").to_owned()),
        );
        let Some(next) = page["next"].as_str() else {
            break;
        };
        target = format!("/v1/accounts?limit=2&after={next}");
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
    for bad in ["limit=0", "limit=501", "limit=x"] {
        let answer = machine.call("GET", &format!("/v1/accounts?{bad}"), OPERATOR, &NONE);
        assert_eq!(answer.1["field"], "limit", "{bad}");
    }
}

#[test]
fn a_change_touches_what_it_names_and_null_takes_it_away() {
    let machine = machine();
    make(
        &machine,
        &json!({"id": "a", "name": "A", "jobs_per_minute": 7}),
    );
    let patch = |body: Value| machine.call("PATCH", "/v1/accounts/a", BACKEND, &body);
    let (status, one) = patch(json!({"name": "B"}));
    assert_eq!(
        (status, &one["name"], &one["jobs_per_minute"]),
        (200, &json!("B"), &json!(7))
    );
    let one = patch(json!({"jobs_per_minute": null})).1;
    assert_eq!(
        (&one["name"], &one["jobs_per_minute"]),
        (&json!("B"), &NONE)
    );
    assert_eq!(patch(json!({"name": null})).1["name"], NONE);
    assert_eq!(patch(json!({})).0, 200);
    assert_eq!(patch(json!({"id": "b"})).1["field"], "id");
    assert_eq!(patch(json!({"plan": "pro"})).1["field"], "plan");
    assert_eq!(
        machine
            .call("PATCH", "/v1/accounts/nobody", BACKEND, &json!({}))
            .0,
        404
    );
}

#[test]
fn the_start_moves_for_the_operator_only_and_never_once_it_is_fixed() {
    let machine = machine();
    make(&machine, &json!({"id": "a"}));
    let start = json!({"starts_at": "2026-10-20T15:29:00Z", "name": "A"});
    let by_backend = machine.call("PATCH", "/v1/accounts/a", BACKEND, &start);
    assert_eq!(code(&by_backend), (403, "not_allowed"));
    let late = json!({"starts_at": "2026-10-29T00:00:00Z"});
    let refused = machine.call("PATCH", "/v1/accounts/a", OPERATOR, &late);
    assert_eq!(code(&refused), (422, "anchor_day"));

    let moved = machine.call("PATCH", "/v1/accounts/a", OPERATOR, &start).1;
    assert_eq!(moved["anchor"]["source"], "starts_at");
    assert_eq!(moved["cycle"]["name"], "2026-10");
    assert_eq!(moved["cycle"]["ends_at"], "2026-11-20T15:29:00.000Z");
    assert_eq!(audited(&machine)[0], "dev-operator anchor.set");

    let id = AccountId::new("a").expect("an id");
    let db = &machine.world().db;
    let now = machine.world().now();
    let anchors = block_on(store::fix_anchor(&**db, &id, now)).expect("it is fixed");
    assert_eq!(anchors.len(), 1);
    let again = json!({"starts_at": "2026-10-21T00:00:00Z", "name": "Never"});
    let refused = machine.call("PATCH", "/v1/accounts/a", OPERATOR, &again);
    assert_eq!(code(&refused), (409, "anchor_fixed"));
    let one = machine
        .call("GET", "/v1/account?account=a", OPERATOR, &NONE)
        .1;
    assert_eq!(
        (&one["name"], &one["anchor"]["fixed"]),
        (&json!("A"), &json!(true))
    );
    assert_eq!(one["anchor"]["at"], "2026-10-20T15:29:00.000Z");
}

#[test]
fn the_first_redirect_fixes_the_start() {
    let machine = machine();
    make(&machine, &json!({"id": "a"}));
    let link = json!({"code": "x", "destination": "https://d.example/"});
    machine.call("POST", "/v1/links?account=a", BACKEND, &link);
    let move_to = |day: u8| {
        let start = json!({"starts_at": format!("2026-10-{day:02}T00:00:00Z")});
        machine.call("PATCH", "/v1/accounts/a", OPERATOR, &start)
    };
    assert_eq!(move_to(20).0, 200, "a link alone fixes nothing");
    let head = machine.handle(request("HEAD", "/x", "", &NONE));
    assert_eq!((head.status, move_to(21).0), (302, 200), "nor does a HEAD");
    assert_eq!(machine.handle(request("GET", "/x", "", &NONE)).status, 302);
    assert_eq!(code(&move_to(22)), (409, "anchor_fixed"));
}

#[test]
fn a_moved_start_brings_the_allowance_of_the_cycle_that_then_runs() {
    let machine = machine();
    set_customer(&machine, "customer_1", &json!({"plan": "pro"}));
    let made = make(&machine, &json!({"id": "a", "customer_id": "customer_1"})).1;
    assert_eq!(made["cycle"]["name"], "2026-11");
    let start = json!({"starts_at": "2026-10-20T00:00:00Z"});
    let moved = machine.call("PATCH", "/v1/accounts/a", OPERATOR, &start).1;
    assert_eq!(moved["cycle"]["name"], "2026-10");
    assert_eq!(moved["balance"], json!({"credits": 500}));
}

/// "For every correction, close, carry, skip, anchor, key, settled-by-hand job."
#[test]
fn whatever_is_done_by_hand_is_in_the_audit_with_who_what_and_why() {
    let tokens = ("OPERATOR_TOKEN", "ann=one");
    let machine = Machine::new(&[tokens, ("BACKEND_TOKEN", "shop=two")]).expect("it starts");
    let call = |method: &str, target: &str, token: &str, body: &Value| {
        let (status, answer) = machine.call(method, target, token, body);
        assert!((200..300).contains(&status), "{method} {target}: {answer}");
        answer
    };
    let text = |answer: &Value, name: &str| answer[name].as_str().expect("text").to_owned();
    let body = json!({"id": "a", "customer_id": "customer_1"});
    let first = text(&call("POST", "/v1/accounts", "two", &body), "api_key");
    let first = first.split('_').nth(1).expect("cfk_{id}_{secret}");
    let start = json!({"starts_at": "2026-10-20T15:29:00Z"});
    call("PATCH", "/v1/accounts/a", "one", &start);
    let period = json!({"period_start": "2026-10-20T15:29:00Z"});
    call("PUT", "/standin/customers/customer_1", "one", &period);
    call("POST", "/v1/account/sync?account=a", "two", &NONE);
    let key = text(&call("POST", "/v1/accounts/a/keys", "two", &NONE), "id");
    call(
        "DELETE",
        &format!("/v1/accounts/a/keys/{key}"),
        "one",
        &NONE,
    );

    let usage = json!({"key": "u", "feature": "clicks", "units": 9});
    let entry = text(&call("POST", "/v1/usage?account=a", "two", &usage), "id");
    let correction = format!("/v1/entries/{entry}/correction?account=a");
    let why = json!({"reason": "counted twice", "units": 2});
    call("POST", &correction, "one", &why);
    call("POST", &correction, "one", &why);

    let job = json!({"key": "j", "feature": "tokens", "hold": 5});
    let job = text(&call("POST", "/v1/jobs?account=a", "two", &job), "id");
    let settle = format!("/v1/jobs/{job}/settle?account=a");
    let (status, refused) = machine.call("POST", &settle, "one", &json!({}));
    assert_eq!((status, &refused["field"]), (422, &json!("reason")));
    call(
        "POST",
        &settle,
        "one",
        &json!({"reason": "its worker is gone"}),
    );

    let event = json!({"type": "customer.plan_changed", "customer_id": "customer_9"});
    call("POST", "/standin/events", "one", &event);
    let events = call("GET", "/v1/events", "one", &NONE);
    let event = text(&events["items"][0], "id");
    let skip = format!("/v1/events/{event}/skip");
    call("POST", &skip, "one", &json!({"reason": "not ours"}));

    // The cycle ends with a tail, twice; one is carried, one is left as it is.
    let mut reviews = Vec::new();
    for (key, days) in [("t1", 11), ("t2", 30)] {
        machine.advance(days * 86_400_000);
        let found = call("POST", "/v1/run/reconciler", "one", &NONE);
        assert_eq!(found["done"], true);
        let open = call("GET", "/v1/review?account=a", "one", &NONE);
        reviews.push(text(&open["items"][0], "id"));
        let act = if key == "t1" { "carry" } else { "close" };
        let target = format!("/v1/review/{}/{act}", reviews.last().expect("one"));
        call("POST", &target, "one", &json!({"reason": act}));
        let usage = json!({"key": key, "feature": "clicks", "units": 1});
        call("POST", "/v1/usage?account=a", "two", &usage);
    }
    let audit = call("GET", "/v1/audit", "one", &NONE);
    let mut rows: Vec<[String; 4]> = audit["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|row| {
            assert!(row["at"].as_str().is_some_and(|at| at.ends_with('Z')));
            ["actor", "action", "target", "reason"]
                .map(|name| row[name].as_str().unwrap_or("-").to_owned())
        })
        .collect();
    let expected = [
        ["shop", "key.create", first, "-"],
        ["ann", "anchor.set", "a", "2026-10-20T15:29:00.000Z"],
        ["shop", "key.create", &key, "-"],
        ["ann", "key.revoke", &key, "-"],
        ["ann", "entry.correct", &entry, "counted twice"],
        ["ann", "job.settle", &job, "its worker is gone"],
        ["ann", "event.skip", &event, "not ours"],
        ["ann", "review.carry", &reviews[0], "carry"],
        ["ann", "review.close", &reviews[1], "close"],
    ];
    rows.sort();
    let mut expected = expected.map(|row| row.map(str::to_owned));
    expected.sort();
    assert_eq!(rows, expected);
}

#[test]
fn an_anchor_fixed_meanwhile_undoes_the_whole_change() {
    let machine = machine();
    make(&machine, &json!({"id": "a"}));
    let id = AccountId::new("a").expect("an id");
    let world = machine.world();
    // Read before somebody clicked, written after.
    let before = block_on(store::load(&*world.db, &id))
        .expect("reads")
        .expect("it is there");
    block_on(store::fix_anchor(&*world.db, &id, world.now())).expect("it is fixed");
    let change = counterfoil::accounts::change::Change {
        name: Some(Some("Never".to_owned())),
        starts_at: Some(world.now()),
        ..Default::default()
    };
    let outcome = block_on(counterfoil::accounts::change::change(
        &world, &before, &change, "x",
    ));
    let refused = outcome.expect("no fault").expect_err("it is refused");
    assert_eq!(refused.code(), "anchor_fixed");
    let after = block_on(store::load(&*world.db, &id))
        .expect("reads")
        .expect("it is there");
    assert_eq!((after.name, after.anchors), (None, before.anchors));
}

#[test]
fn keys_are_listed_without_secrets_and_revoked_once() {
    let machine = machine();
    make(&machine, &json!({"id": "a"}));
    make(&machine, &json!({"id": "b"}));
    let key = machine
        .call(
            "POST",
            "/v1/accounts/a/keys",
            BACKEND,
            &json!({"name": "app"}),
        )
        .1;
    let id = key["id"].as_str().expect("an id").to_owned();
    let keys = machine.call("GET", "/v1/accounts/a/keys", BACKEND, &NONE).1;
    assert_eq!(keys["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(keys["items"][1]["name"], "app");
    let revoke = |account: &str, key: &str| {
        machine
            .call(
                "DELETE",
                &format!("/v1/accounts/{account}/keys/{key}"),
                OPERATOR,
                &NONE,
            )
            .0
    };
    assert_eq!(revoke("b", &id), 404);
    assert_eq!(revoke("a", "nothing"), 404);
    assert_eq!(revoke("nobody", &id), 404);
    machine.advance(1000);
    assert_eq!(revoke("a", &id), 204);
    machine.advance(1000);
    assert_eq!(revoke("a", &id), 204);
    let keys = machine.call("GET", "/v1/accounts/a/keys", BACKEND, &NONE).1;
    assert_eq!(keys["items"][1]["revoked_at"], "2026-11-10T12:00:01.000Z");
    let expected = ["dev-operator key.revoke", "dev-backend key.create"];
    assert_eq!(audited(&machine)[..2], expected);
    let of_b = machine
        .call("GET", "/v1/audit?account=b", OPERATOR, &NONE)
        .1;
    assert_eq!(of_b["items"].as_array().map(Vec::len), Some(1));
}

#[test]
fn an_account_without_a_customer_cannot_be_synced() {
    let machine = machine();
    let key = make(&machine, &json!({"id": "a"})).1["api_key"].clone();
    let key = key.as_str().expect("a key");
    for token in [key, BACKEND, OPERATOR] {
        let answer = machine.call("POST", "/v1/account/sync?account=a", token, &NONE);
        assert_eq!(code(&answer), (409, "no_customer"));
    }
}

#[test]
fn the_return_from_checkout_leads_to_the_app_only() {
    let machine = Machine::new(&[("APP_URL", "https://app.example.com")]).expect("it starts");
    let key = make(&machine, &json!({"id": "a"})).1["api_key"].clone();
    let get = |token: &str, to: &str| {
        machine.handle(request(
            "GET",
            &format!("/billing/return?to={to}"),
            token,
            &NONE,
        ))
    };
    let away = get("", "/done");
    assert_eq!(
        away.header("location"),
        Some("/signin?next=%2Fbilling%2Freturn%3Fto%3D%2Fdone")
    );
    let mut form = request("POST", "/signin", "", &json!({"token": key}));
    form.headers
        .push(("origin".to_owned(), "http://localhost:8787".to_owned()));
    let signed = machine.handle(form);
    let cookie = signed
        .header("set-cookie")
        .and_then(|set| set.split(';').next());
    let back = |machine: &Machine, to: &str| {
        let mut asked = request("GET", &format!("/billing/return?to={to}"), "", &NONE);
        asked
            .headers
            .push(("cookie".to_owned(), cookie.expect("a cookie").to_owned()));
        machine.handle(asked)
    };
    let answer = back(&machine, "/done?x=1");
    assert_eq!(answer.status, 303);
    assert_eq!(
        answer.header("location"),
        Some("https://app.example.com/done?x=1")
    );
    for bad in [
        "//evil.test",
        "https://evil.test",
        "/\\evil.test",
        "done",
        "/a%0d%0ab",
        "/done&plan=no%20plan",
    ] {
        assert_eq!(back(&machine, bad).status, 422, "{bad}");
    }
    // What may not stand in a header is escaped, and what was escaped stays so.
    let answer = back(&machine, "/gr%C3%B6%C3%9Fe%20a%2520b");
    let there = "https://app.example.com/gr%C3%B6%C3%9Fe%20a%20b";
    assert_eq!(answer.header("location"), Some(there));
    let without = Machine::new(&[]).expect("it starts");
    let key = make(&without, &json!({"id": "a"})).1["api_key"].clone();
    let mut form = request("POST", "/signin", "", &json!({"token": key}));
    form.headers
        .push(("origin".to_owned(), "http://localhost:8787".to_owned()));
    let signed = without.handle(form);
    let cookie = signed.header("set-cookie").expect("a cookie").to_owned();
    let mut asked = request("GET", "/billing/return?to=/done", "", &NONE);
    asked.headers.push(("cookie".to_owned(), cookie));
    let answer = without.handle(asked);
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (503, Some("1"))
    );
}

#[test]
fn pages_and_metrics_answer_with_nothing_and_with_something_to_show() {
    let machine = machine();
    let page = |target: &str| {
        let answer = machine.handle(request("GET", target, OPERATOR, &NONE));
        assert_eq!(answer.status, 200, "{target}");
        String::from_utf8(answer.body).expect("text")
    };
    page("/app");
    make(&machine, &json!({"id": "a", "name": "<b>A</b>"}));
    let overview = page("/app");
    assert!(overview.contains("&lt;b&gt;A&lt;/b&gt;") && !overview.contains("<b>A</b>"));
    assert!(overview.contains("/app/accounts/a"));
    let account = page("/app/accounts/a");
    assert!(account.contains("calendar month") && account.contains("tokens"));
    let metrics = page("/metrics");
    assert!(metrics.contains("# TYPE counterfoil_accounts gauge\ncounterfoil_accounts 1\n"));
}

fn set_customer(machine: &Machine, customer: &str, body: &Value) {
    let target = format!("/standin/customers/{customer}");
    let (status, answer) = machine.call("PUT", &target, OPERATOR, body);
    assert_eq!(status, 200, "{answer}");
}

fn fail(machine: &Machine, operation: &str, mode: &str) {
    let body = json!({"operation": operation, "mode": mode});
    assert_eq!(
        machine.call("PUT", "/standin/faults", OPERATOR, &body).0,
        200
    );
}

#[test]
fn with_a_customer_plan_agreement_and_anchor_come_from_the_provider() {
    let machine = machine();
    let period = json!({"plan": "pro", "agreement_id": "agreement_7",
        "period_start": "2026-10-20T15:29:00Z", "period_end": "2026-11-20T15:29:00Z"});
    set_customer(&machine, "customer_1", &period);
    let (status, one) = make(&machine, &json!({"id": "a", "customer_id": "customer_1"}));
    assert_eq!(status, 201, "{one}");
    assert_eq!(
        (&one["plan"], &one["agreement_id"]),
        (&json!("pro"), &json!("agreement_7"))
    );
    assert_eq!(one["anchor"]["source"], "current_period_start");
    assert_eq!(one["cycle"]["starts_at"], "2026-10-20T15:29:00.000Z");
    assert_eq!(one["balance"], json!({"credits": 500}));
    assert!(one["plan_since"].is_string());
    let list = machine.call("GET", "/v1/accounts", OPERATOR, &NONE).1;
    assert_eq!(list["items"][0]["balance"], json!({"credits": 500}));
    let shown = machine.call("GET", "/v1/accounts/a", OPERATOR, &NONE).1;
    assert_eq!(shown["budgets"][0]["limit"], 100_000);
}

#[test]
fn a_given_start_wins_over_the_providers_period() {
    let machine = machine();
    set_customer(&machine, "customer_1", &json!({"plan": "pro"}));
    let body = json!({"id": "a", "customer_id": "customer_1", "starts_at": "2026-10-05T00:00:00Z"});
    let one = make(&machine, &body).1;
    assert_eq!(one["anchor"]["source"], "starts_at");
    assert_eq!(one["cycle"]["name"], "2026-11");
    assert_eq!(one["balance"], json!({"credits": 500}));
}

#[test]
fn a_customer_belongs_to_one_account() {
    let machine = machine();
    let body = json!({"id": "a", "customer_id": "customer_1"});
    assert_eq!(make(&machine, &body).0, 201);
    assert_eq!(make(&machine, &body).0, 200);
    let second = make(&machine, &json!({"id": "b", "customer_id": "customer_1"}));
    assert_eq!(code(&second), (409, "customer_taken"));
    assert_eq!(machine.call("GET", "/v1/accounts/b", BACKEND, &NONE).0, 404);
    make(&machine, &json!({"id": "c"}));
    let patch = |id: &str, customer: &str| {
        let target = format!("/v1/accounts/{id}");
        machine.call("PATCH", &target, BACKEND, &json!({"customer_id": customer}))
    };
    assert_eq!(code(&patch("c", "customer_1")), (409, "customer_taken"));
    let linked = patch("c", "customer_2");
    assert_eq!(
        (linked.0, &linked.1["customer_id"]),
        (200, &json!("customer_2"))
    );
    assert_eq!(code(&patch("c", "customer_3")), (409, "customer_fixed"));
    assert_eq!(patch("c", "customer_2").0, 200);
}

#[test]
fn a_customer_given_later_brings_plan_and_anchor_unless_a_start_was_given() {
    let machine = machine();
    let period = json!({"plan": "pro", "period_start": "2026-10-20T15:29:00Z"});
    set_customer(&machine, "customer_1", &period);
    set_customer(&machine, "customer_2", &period);
    make(&machine, &json!({"id": "a"}));
    make(
        &machine,
        &json!({"id": "b", "starts_at": "2026-10-05T00:00:00Z"}),
    );
    let link = |id: &str, customer: &str| {
        let body = json!({"customer_id": customer});
        machine
            .call("PATCH", &format!("/v1/accounts/{id}"), BACKEND, &body)
            .1
    };
    let one = link("a", "customer_1");
    assert_eq!(
        (&one["plan"], &one["anchor"]["source"]),
        (&json!("pro"), &json!("current_period_start"))
    );
    assert_eq!(one["cycle"]["name"], "2026-10");
    assert_eq!(one["balance"], json!({"credits": 500}));
    let other = link("b", "customer_2");
    assert_eq!(
        (&other["plan"], &other["anchor"]["source"]),
        (&json!("pro"), &json!("starts_at"))
    );
    assert_eq!(other["cycle"]["name"], "2026-11");
}

#[test]
fn nothing_is_made_while_the_standin_fails_and_it_is_made_once_it_answers() {
    let machine = machine();
    let body = json!({"id": "a", "customer_id": "customer_1"});
    for mode in ["error", "timeout", "429", "garbage", "partial"] {
        fail(&machine, "plan", mode);
        let response = machine.handle(request("POST", "/v1/accounts", BACKEND, &body));
        let answer: Value = serde_json::from_slice(&response.body).expect("JSON");
        let told = (response.status, &answer["code"]);
        assert_eq!(told, (503, &json!("provider_unreadable")), "{mode}");
        let detail = answer["detail"].as_str().expect("a sentence");
        assert!(
            detail.starts_with("The stand-in cannot be read"),
            "{mode}: {detail}"
        );
        assert!(response.header("retry-after").is_some(), "{mode}");
        assert_eq!(
            machine.call("GET", "/v1/accounts/a", BACKEND, &NONE).0,
            404,
            "{mode}"
        );
    }
    fail(&machine, "plan", "ok");
    machine.advance(120_000);
    assert_eq!(make(&machine, &body).0, 201);
}

#[test]
fn a_period_of_day_31_that_was_found_in_a_short_month_goes_on_at_the_31st() {
    let machine = machine();
    let customer = json!({"plan": "pro", "period_start": "2026-10-31T08:00:00Z"});
    set_customer(&machine, "customer_1", &customer);
    // The provider's period now runs from 30 November to 31 December; no subscription is of a 31st.
    machine.advance(25 * 86_400_000);
    let made = make(&machine, &json!({"id": "a", "customer_id": "customer_1"})).1;
    let cycle = |body: &Value| {
        (
            body["cycle"]["starts_at"].clone(),
            body["cycle"]["ends_at"].clone(),
        )
    };
    let (november, december) = ("2026-11-30T08:00:00.000Z", "2026-12-31T08:00:00.000Z");
    assert_eq!(cycle(&made), (json!(november), json!(december)), "{made}");
    machine.advance(30 * 86_400_000);
    let later = machine.call("GET", "/v1/accounts/a", BACKEND, &NONE).1;
    let january = "2027-01-31T08:00:00.000Z";
    assert_eq!(cycle(&later), (json!(december), json!(january)), "{later}");
}

#[test]
fn the_button_reads_the_plan_now() {
    let machine = machine();
    set_customer(&machine, "customer_1", &json!({"plan": "free"}));
    let key = make(&machine, &json!({"id": "a", "customer_id": "customer_1"})).1;
    let key = key["api_key"].as_str().expect("a key").to_owned();
    set_customer(&machine, "customer_1", &json!({"plan": "pro"}));
    machine.advance(60_000);
    let (status, synced) = machine.call("POST", "/v1/account/sync", &key, &NONE);
    assert_eq!(
        (status, &synced["plan"], &synced["changed"]),
        (200, &json!("pro"), &json!(true))
    );
    assert!(synced["since"].is_string() && synced["source"].is_string());
    let again = machine.call("POST", "/v1/account/sync", &key, &json!({})).1;
    assert_eq!(again["changed"], false);
    let own = machine.call("GET", "/v1/account", &key, &NONE).1;
    assert_eq!(
        (&own["plan"], &own["balance"]),
        (&json!("pro"), &json!({"credits": 500}))
    );
    fail(&machine, "plan", "error");
    assert_eq!(machine.call("POST", "/v1/account/sync", &key, &NONE).0, 503);
}

#[test]
fn what_is_remembered_of_an_account_never_stands_in_the_way_of_a_change() {
    let machine = machine();
    make(&machine, &json!({"id": "a"}));
    let job = |key: &str| {
        let body = json!({"key": key, "feature": "tokens", "hold": 1});
        machine.call("POST", "/v1/jobs?account=a", BACKEND, &body)
    };
    let patch = |body: Value| machine.call("PATCH", "/v1/accounts/a", OPERATOR, &body).0;
    assert_eq!(code(&job("k1")), (503, "limit_unknown"));
    // A customer works at once, although the account was asked about before.
    assert_eq!(patch(json!({"customer_id": "customer_1"})), 200);
    machine.advance(6_000);
    assert_eq!(job("k1").0, 201);
    // So does a rate, although the account is now remembered.
    assert_eq!(job("k2").0, 201);
    assert_eq!(patch(json!({"jobs_per_minute": 2})), 200);
    assert_eq!(code(&job("k3")), (429, "rate_limited"));
    assert_eq!(patch(json!({"jobs_per_minute": null})), 200);
    assert_eq!(job("k3").0, 201);
    // And the first admission has fixed the anchor for everybody.
    assert_eq!(patch(json!({"starts_at": "2026-10-20T00:00:00Z"})), 409);
}

#[test]
fn a_rate_changed_elsewhere_is_in_force_within_the_cache_time() {
    let machine = machine();
    make(&machine, &json!({"id": "a", "customer_id": "customer_1"}));
    let job = |key: &str| {
        let body = json!({"key": key, "feature": "tokens", "hold": 1});
        machine.call("POST", "/v1/jobs?account=a", BACKEND, &body).0
    };
    assert_eq!(job("k1"), 201);
    // The first job fixed the anchor; from now on the account is remembered.
    assert_eq!(job("k1"), 200);
    let sql = "update account set jobs_per_minute = 1 where account_id = 'a'";
    block_on(Db::query(&machine.control, Statement::new(sql, vec![]))).expect("it runs");
    assert_eq!(job("k2"), 201);
    machine.advance(30_000);
    assert_eq!(job("k3"), 429);
}

#[test]
fn every_page_is_whole_and_runs_no_script_but_our_own() {
    let machine = machine();
    make(&machine, &json!({"id": "id", "customer_id": "customer_1"}));
    let pages = ROUTES.iter().filter(|spec| {
        spec.method == Method::Get && (spec.access == Access::Page || spec.pattern == "/docs")
    });
    for spec in pages {
        let target = spec.pattern.replace(['{', '}'], "");
        let answer = machine.handle(request("GET", &target, OPERATOR, &NONE));
        assert_eq!(answer.status, 200, "{target}");
        let policy = answer.header("content-security-policy").unwrap_or_default();
        assert!(policy.contains("script-src 'self'"), "{target}: {policy}");
        let text = String::from_utf8(answer.body).expect("text");
        assert!(text.ends_with("</html>"), "{target}");
        assert!(
            !text.contains("<script>") && !text.contains("onclick"),
            "{target}"
        );
        assert!(
            !text.contains("style=\""),
            "{target}: the policy forbids inline style"
        );
    }
}
