//! Real answers of every route, each looked at by its own description (see `answers`).
//!
//! Goal: no answer, successful or refused, that its schema rejects or that is not described.
//! Method: one talk for each part of the API; at the end every described answer was given once.

use counterfoil::http::request::Body;
use counterfoil::native::machine::request;
use serde_json::json;

use crate::answers::{
    BACKEND, NONE, OPERATOR, Seen, Talk, account, first, form, text, with_header,
};

#[test]
fn every_route_answers_as_it_is_described_and_every_described_answer_is_given() {
    let seen = Seen::default();
    accounts(&seen);
    account_refusals(&seen);
    jobs(&seen);
    job_refusals(&seen);
    links(&seen);
    usage_and_entries(&seen);
    meters_and_evidence(&seen);
    reviews(&seen);
    runs(&seen);
    events(&seen);
    forgeries(&seen);
    stand_in(&seen);
    kindes_paths(&seen);
    pages(&seen);
    signing_in(&seen);
    what_every_route_may_refuse(&seen);
    let wrong: Vec<String> = seen.wrong().into_iter().collect();
    assert!(wrong.is_empty(), "not as described:\n{}", wrong.join("\n"));
    let missing = seen.missing();
    assert!(
        missing.is_empty(),
        "never answered:\n{}",
        missing.join("\n")
    );
}

fn accounts(seen: &Seen) {
    let talk = Talk::new(&[], seen);
    let key = account(&talk, "a", "pro");
    let body = json!({"id": "a", "customer_id": "customer_a"});
    talk.is(200, OPERATOR, "POST /v1/accounts", &body);
    talk.is(201, OPERATOR, "POST /v1/accounts", &json!({}));
    let named = json!({"id": "n", "name": "N", "jobs_per_minute": 3, "customer_id": null,
        "starts_at": "2026-10-05T01:02:03+02:00"});
    talk.is(201, OPERATOR, "POST /v1/accounts", &named);
    talk.is(200, OPERATOR, "GET /v1/accounts", &NONE);
    talk.is(200, OPERATOR, "GET /v1/accounts?limit=1", &NONE);
    talk.is(200, OPERATOR, "GET /v1/accounts/a", &NONE);
    let change = json!({"jobs_per_minute": 9, "name": null});
    talk.is(200, BACKEND, "PATCH /v1/accounts/a", &change);
    let made = talk.is(201, OPERATOR, "POST /v1/accounts/a/keys", &NONE);
    talk.is(
        201,
        OPERATOR,
        "POST /v1/accounts/a/keys",
        &json!({"name": "shop"}),
    );
    talk.is(200, OPERATOR, "GET /v1/accounts/a/keys", &NONE);
    let target = format!("DELETE /v1/accounts/a/keys/{}", text(&made, "id"));
    talk.is(204, OPERATOR, &target, &NONE);
    talk.is(200, OPERATOR, "GET /v1/accounts/a/keys", &NONE);
    talk.is(200, &key, "GET /v1/account", &NONE);
    talk.is(200, &key, "POST /v1/account/sync", &NONE);
    talk.is(200, OPERATOR, "GET /v1/audit", &NONE);
    talk.is(200, OPERATOR, "GET /v1/audit?account=a", &NONE);
    talk.is(200, "", "GET /healthz", &NONE);
    talk.is(200, OPERATOR, "GET /metrics", &NONE);
    talk.is(200, "", "GET /openapi.json", &NONE);
}

fn account_refusals(seen: &Seen) {
    let talk = Talk::new(&[], seen);
    let key = account(&talk, "a", "pro");
    let post =
        |status, code, body| talk.refused(status, code, OPERATOR, "POST /v1/accounts", &body);
    post(409, "account_exists", json!({"id": "a"}));
    post(409, "customer_taken", json!({"customer_id": "customer_a"}));
    post(
        422,
        "anchor_day",
        json!({"starts_at": "2026-10-31T00:00:00Z"}),
    );
    post(422, "invalid_field", json!({"name": ""}));
    post(422, "invalid_field", json!({"nonsense": 1}));
    let fault = json!({"operation": "plan", "mode": "garbage"});
    talk.is(200, OPERATOR, "PUT /standin/faults", &fault);
    post(
        503,
        "provider_unreadable",
        json!({"customer_id": "customer_b"}),
    );
    talk.is(201, OPERATOR, "POST /v1/accounts", &json!({"id": "b"}));
    let get_customer = json!({"customer_id": "customer_b"});
    let patch = "PATCH /v1/accounts/b";
    talk.refused(503, "provider_unreadable", OPERATOR, patch, &get_customer);
    talk.refused(
        503,
        "provider_unreadable",
        &key,
        "POST /v1/account/sync",
        &NONE,
    );
    let sync = "POST /v1/account/sync?account=b";
    talk.refused(409, "no_customer", BACKEND, sync, &NONE);
    talk.refused(
        422,
        "invalid_field",
        &key,
        "POST /v1/account/sync",
        &json!({"x": 1}),
    );
    talk.refused(403, "not_allowed", &key, "GET /v1/accounts", &NONE);
    let taken = json!({"customer_id": "customer_a"});
    talk.refused(409, "customer_taken", OPERATOR, patch, &taken);
    let other = json!({"customer_id": "customer_z"});
    talk.refused(
        409,
        "customer_fixed",
        OPERATOR,
        "PATCH /v1/accounts/a",
        &other,
    );
    let start = json!({"starts_at": "2026-10-05T00:00:00Z"});
    talk.refused(403, "not_allowed", BACKEND, patch, &start);
    let link = json!({"destination": "https://example.com/", "code": "go"});
    talk.is(201, OPERATOR, "POST /v1/links?account=b", &link);
    talk.is(302, "", "GET /go", &NONE);
    talk.refused(409, "anchor_fixed", OPERATOR, patch, &start);
    talk.refused(404, "not_found", OPERATOR, "GET /v1/accounts/nobody", &NONE);
    let revoke = "DELETE /v1/accounts/a/keys/none";
    talk.refused(404, "not_found", OPERATOR, revoke, &NONE);
}

const TWO_GATED: &str = "clicks=clicks:counted tokens=tokens:gated images=images:gated";

fn jobs(seen: &Seen) {
    let talk = Talk::new(&[("FEATURES", TWO_GATED)], seen);
    let limits = json!({"plan": "pro", "limits": {"images": 10}});
    talk.is(200, OPERATOR, "PUT /standin/customers/customer_a", &limits);
    let body = json!({"id": "a", "customer_id": "customer_a"});
    let made = talk.is(201, OPERATOR, "POST /v1/accounts", &body);
    let key = text(&made, "api_key");
    let body = json!({"key": "k", "feature": "tokens", "hold": 100});
    let job = talk.is(201, key, "POST /v1/jobs", &body);
    talk.is(200, key, "POST /v1/jobs", &body);
    let of = |what: &str| format!("{what}?account=a").replace("{id}", text(&job, "id"));
    talk.is(
        200,
        OPERATOR,
        &of("POST /v1/jobs/{id}/charges"),
        &json!({"units": 40}),
    );
    let more = json!({"units": 5, "step": "s", "feature": "tokens"});
    talk.is(200, OPERATOR, &of("POST /v1/jobs/{id}/charges"), &more);
    talk.is(
        200,
        OPERATOR,
        &of("POST /v1/jobs/{id}/extend"),
        &json!({"units": 40}),
    );
    talk.is(200, OPERATOR, &of("POST /v1/jobs/{id}/renew"), &NONE);
    talk.is(200, OPERATOR, &of("GET /v1/jobs/{id}"), &NONE);
    talk.is(200, key, "GET /v1/jobs?state=running&feature=tokens", &NONE);
    talk.machine.advance(2_000);
    talk.is(200, OPERATOR, "GET /v1/jobs", &NONE);
    let settle = json!({"used": 60, "outcome": "done", "reason": "by hand"});
    talk.is(200, OPERATOR, &of("POST /v1/jobs/{id}/settle"), &settle);
    talk.is(200, OPERATOR, &of("GET /v1/jobs/{id}"), &NONE);
    let both = json!({"key": "two", "holds": {"tokens": 5, "images": 2}, "lease_seconds": 3});
    let two = talk.is(201, key, "POST /v1/jobs", &both);
    let of = |what: &str| format!("{what}/v1/jobs/{}", text(&two, "id"));
    let each = json!({"units": {"tokens": 9, "images": 1}});
    let charged = format!("{}/charges", of("POST "));
    talk.is(200, key, &charged, &each);
    talk.machine.advance(5_000);
    let settled = talk.is(200, key, &format!("{}/settle", of("POST ")), &json!({}));
    assert_eq!(settled["state"], "expired");
    talk.is(200, key, "GET /v1/jobs/estimates?feature=tokens", &NONE);
    for feature in ["tokens", "clicks", "images"] {
        talk.is(
            200,
            key,
            &format!("GET /v1/budget?feature={feature}"),
            &NONE,
        );
    }
}

fn job_refusals(seen: &Seen) {
    let features = "clicks=clicks:counted tokens=tokens:gated images=images:gated";
    let talk = Talk::new(&[("FEATURES", features), ("JOBS_PER_MINUTE", "2")], seen);
    let key = account(&talk, "a", "free");
    let job =
        |key: &str, feature: &str, hold: i64| json!({"key": key, "feature": feature, "hold": hold});
    let post = |status, code, body| talk.refused(status, code, &key, "POST /v1/jobs", &body);
    let over = post(402, "over_limit", job("k", "tokens", 10_001));
    assert_eq!(over["reason"], "too_big");
    let first = talk.is(201, &key, "POST /v1/jobs", &job("k", "tokens", 9_000));
    let over = post(402, "over_limit", job("l", "tokens", 2_000));
    assert_eq!(over["reason"], "held");
    post(409, "key_conflict", job("k", "tokens", 9_001));
    post(403, "feature_not_in_plan", job("i", "images", 1));
    post(422, "invalid_field", job("c", "clicks", 1));
    post(
        422,
        "invalid_field",
        json!({"key": "k", "feature": "tokens", "hold": "10"}),
    );
    talk.is(201, &key, "POST /v1/jobs", &job("m", "tokens", 1));
    post(429, "rate_limited", job("n", "tokens", 1));
    let at = |what: &str| format!("POST /v1/jobs/{}/{what}", text(&first, "id"));
    talk.refused(
        402,
        "over_limit",
        &key,
        &at("extend"),
        &json!({"units": 5_000}),
    );
    let step = json!({"units": 5, "step": "s"});
    talk.is(200, &key, &at("charges"), &step);
    let other = json!({"units": 6, "step": "s"});
    talk.refused(409, "key_conflict", &key, &at("charges"), &other);
    talk.refused(422, "invalid_field", &key, &at("renew"), &json!({"x": 1}));
    talk.refused(
        422,
        "invalid_field",
        OPERATOR,
        &format!("{}?account=a", at("settle")),
        &json!({}),
    );
    talk.is(200, &key, &at("settle"), &json!({}));
    talk.refused(409, "job_over", &key, &at("renew"), &NONE);
    talk.refused(409, "job_over", &key, &at("charges"), &json!({"units": 1}));
    post(409, "job_over", job("k", "tokens", 9_000));
    talk.refused(404, "not_found", &key, "GET /v1/jobs/none", &NONE);
    talk.refused(422, "invalid_field", &key, "GET /v1/jobs?state=x", &NONE);
    talk.refused(422, "invalid_field", BACKEND, "GET /v1/jobs", &NONE);
    talk.refused(422, "invalid_field", &key, "GET /v1/budget", &NONE);
    talk.is(201, OPERATOR, "POST /v1/accounts", &json!({"id": "b"}));
    let body = job("k", "tokens", 1);
    talk.refused(
        503,
        "limit_unknown",
        OPERATOR,
        "POST /v1/jobs?account=b",
        &body,
    );
    talk.is(
        200,
        OPERATOR,
        "GET /v1/budget?account=b&feature=tokens",
        &NONE,
    );
}

fn links(seen: &Seen) {
    let talk = Talk::new(&[], seen);
    let key = account(&talk, "a", "pro");
    let body = json!({"destination": "https://example.com/", "code": "spring"});
    talk.is(201, &key, "POST /v1/links", &body);
    talk.is(200, &key, "POST /v1/links", &body);
    let made_up = json!({"destination": "https://example.com/é".replace('é', "e"),
        "expires_at": "2026-12-01T00:00:00Z"});
    talk.is(201, &key, "POST /v1/links", &made_up);
    talk.is(200, &key, "GET /v1/links?q=spring", &NONE);
    talk.is(200, &key, "GET /v1/links/spring", &NONE);
    let elsewhere = json!({"destination": "https://example.org/", "code": "spring"});
    talk.refused(409, "code_taken", &key, "POST /v1/links", &elsewhere);
    let refused = json!({"destination": "javascript:x"});
    talk.refused(422, "invalid_field", &key, "POST /v1/links", &refused);
    talk.is(200, "", "GET /v1/links/spring/qr.svg", &NONE);
    talk.is(200, "", "GET /v1/links/spring/qr.png?size=128", &NONE);
    talk.refused(
        422,
        "invalid_field",
        "",
        "GET /v1/links/spring/qr.png?size=1",
        &NONE,
    );
    talk.refused(404, "not_found", "", "GET /v1/links/none/qr.svg", &NONE);
    talk.is(302, "", "GET /spring", &NONE);
    talk.refused(404, "not_found", "", "GET /none", &NONE);
    let asked = request("GET", "/spring", "", &NONE);
    let ahead = talk.send(with_header(asked, "sec-purpose", "prefetch"));
    assert_eq!(ahead.status, 503);
    talk.is(302, "", "HEAD /spring", &NONE);
    talk.is(404, "", "HEAD /none", &NONE);
    let asked = request("HEAD", "/spring", "", &NONE);
    let ahead = talk.send(with_header(asked, "sec-purpose", "prefetch"));
    assert_eq!(ahead.status, 503);
    let off = json!({"disabled": true, "expires_at": null});
    talk.is(200, &key, "PATCH /v1/links/spring", &off);
    talk.refused(410, "gone", "", "GET /spring", &NONE);
    talk.is(410, "", "HEAD /spring", &NONE);
    talk.refused(404, "not_found", &key, "PATCH /v1/links/none", &off);
}

fn usage_and_entries(seen: &Seen) {
    let talk = Talk::new(&[], seen);
    let key = account(&talk, "a", "pro");
    let link = json!({"destination": "https://example.com/", "code": "spring"});
    talk.is(201, &key, "POST /v1/links", &link);
    let bot = request("GET", "/spring", "", &NONE);
    let click = |agent: &str| {
        let mut asked = bot.clone();
        asked.headers = vec![("user-agent".to_owned(), agent.to_owned())];
        talk.send(with_header(asked, "referer", "https://news.example.org/x"));
    };
    click("Mozilla/5.0 (X11; Linux) Test");
    click("curl/8.0");
    let job = json!({"key": "k", "feature": "tokens", "hold": 10});
    let job = talk.is(201, &key, "POST /v1/jobs", &job);
    let settle = format!("POST /v1/jobs/{}/settle", text(&job, "id"));
    talk.is(200, &key, &settle, &json!({"used": 5}));
    talk.machine.advance(5_000);
    let one = json!({"key": "u1", "feature": "clicks", "units": 5});
    let used = talk.is(201, &key, "POST /v1/usage", &one);
    talk.is(200, &key, "POST /v1/usage", &one);
    let several = json!({"items": [{"key": "u2", "feature": "clicks", "units": 1,
        "occurred_at": "2026-11-10T12:00:00Z"}]});
    talk.is(201, &key, "POST /v1/usage", &several);
    talk.is(200, &key, "POST /v1/usage", &several);
    let other = json!({"key": "u1", "feature": "clicks", "units": 6});
    talk.refused(409, "key_conflict", &key, "POST /v1/usage", &other);
    let gated = json!({"key": "u3", "feature": "tokens", "units": 6});
    talk.refused(422, "invalid_field", &key, "POST /v1/usage", &gated);
    talk.is(200, &key, "GET /v1/usage", &NONE);
    talk.is(
        200,
        &key,
        "GET /v1/usage?feature=clicks&by=day&code=spring",
        &NONE,
    );
    let correct = |entry: &str| format!("POST /v1/entries/{entry}/correction?account=a");
    let target = correct(text(&used, "id"));
    let why = json!({"reason": "wrong", "units": 2});
    let done = talk.is(201, OPERATOR, &target, &why);
    talk.is(200, OPERATOR, &target, &why);
    let more = json!({"reason": "other", "units": 9});
    talk.refused(422, "invalid_field", OPERATOR, &target, &more);
    talk.is(201, OPERATOR, &target, &json!({"reason": "rest"}));
    talk.refused(
        409,
        "nothing_left",
        OPERATOR,
        &target,
        &json!({"reason": "again"}),
    );
    let of_correction = correct(text(&done, "id"));
    talk.refused(422, "not_correctable", OPERATOR, &of_correction, &why);
    talk.refused(404, "not_found", OPERATOR, &correct("none"), &why);
    let entries = talk.is(200, &key, "GET /v1/entries", &NONE);
    let kinds = ["click", "usage", "job", "correction"];
    for kind in kinds {
        let items = entries["items"].as_array().expect("items");
        assert!(items.iter().any(|entry| entry["kind"] == kind), "{kind}");
    }
    talk.refused(422, "invalid_field", &key, "GET /v1/entries?kind=x", &NONE);
}

fn meters_and_evidence(seen: &Seen) {
    let talk = Talk::new(&[], seen);
    let key = account(&talk, "a", "pro");
    let usage = json!({"key": "u1", "feature": "clicks", "units": 5});
    talk.is(201, &key, "POST /v1/usage", &usage);
    talk.is(200, OPERATOR, "GET /v1/meters", &NONE);
    let dry = json!({"dry_run": true});
    talk.is(200, OPERATOR, "POST /v1/run/reconciler", &dry);
    talk.is(200, OPERATOR, "POST /v1/run/reporter", &NONE);
    let meters = talk.is(200, OPERATOR, "GET /v1/meters?account=a", &NONE);
    let agreement = text(first(&meters), "agreement_id");
    let moved = format!("PUT /standin/meters/{agreement}/clicks");
    talk.is(200, OPERATOR, &moved, &json!({"total": 999}));
    talk.is(200, OPERATOR, "POST /v1/run/reconciler?account=a", &NONE);
    let evidence = talk.is(200, OPERATOR, "GET /v1/evidence", &NONE);
    assert!(
        evidence["items"]
            .as_array()
            .is_some_and(|items| { items.iter().any(|row| row["verdict"] == "over_billed") })
    );
    talk.is(
        200,
        OPERATOR,
        "GET /v1/evidence?account=a&feature=clicks&cycle=2026-11",
        &NONE,
    );
    let fault = json!({"operation": "meter_read", "mode": "error"});
    talk.is(200, OPERATOR, "PUT /standin/faults", &fault);
    talk.is(200, OPERATOR, "POST /v1/run/reconciler", &NONE);
    talk.is(200, OPERATOR, "GET /v1/evidence", &NONE);
    talk.is(200, OPERATOR, "GET /v1/meters", &NONE);
}

fn reviews(seen: &Seen) {
    let talk = Talk::new(&[], seen);
    let key = account(&talk, "a", "pro");
    let usage = |name: &str| json!({"key": name, "feature": "clicks", "units": 5});
    talk.is(201, &key, "POST /v1/usage", &usage("u1"));
    talk.is(200, OPERATOR, "POST /v1/run/reporter", &NONE);
    let fault = json!({"operation": "meter_write", "mode": "error"});
    talk.is(200, OPERATOR, "PUT /standin/faults", &fault);
    talk.is(201, &key, "POST /v1/usage", &usage("u2"));
    // The cycle ends with five clicks that no report told of: a tail.
    talk.machine.advance(31 * 86_400_000);
    talk.is(
        200,
        OPERATOR,
        "PUT /standin/faults",
        &json!({"operation": "meter_write", "mode": "ok"}),
    );
    talk.is(200, OPERATOR, "POST /v1/run/reconciler", &NONE);
    let open = talk.is(200, OPERATOR, "GET /v1/review?account=a", &NONE);
    let tail = text(first(&open), "id").to_owned();
    let carry = format!("POST /v1/review/{tail}/carry");
    talk.is(200, OPERATOR, &carry, &json!({"reason": "late"}));
    let close = format!("POST /v1/review/{tail}/close");
    talk.refused(
        409,
        "review_closed",
        OPERATOR,
        &close,
        &json!({"reason": "x"}),
    );
    talk.refused(422, "invalid_field", OPERATOR, &close, &json!({}));
    talk.refused(
        404,
        "not_found",
        OPERATOR,
        "POST /v1/review/none/carry",
        &NONE,
    );
    talk.refused(
        404,
        "not_found",
        OPERATOR,
        &format!("{close}?account=b"),
        &json!({"reason": "x"}),
    );
    // A total that nobody here wrote waits for a person.
    let other = account(&talk, "b", "pro");
    let made = talk.is(200, &other, "GET /v1/account", &NONE);
    let moved = format!("PUT /standin/meters/{}/clicks", text(&made, "agreement_id"));
    talk.is(200, OPERATOR, &moved, &json!({"total": 999}));
    talk.is(201, &other, "POST /v1/usage", &usage("u3"));
    talk.is(200, OPERATOR, "POST /v1/run/reporter", &NONE);
    let open = talk.is(200, OPERATOR, "GET /v1/review?kind=foreign_total", &NONE);
    let foreign = text(first(&open), "id").to_owned();
    let carry = format!("POST /v1/review/{foreign}/carry");
    talk.refused(409, "not_carried", OPERATOR, &carry, &NONE);
    let both = json!({"ids": [foreign, "none"]});
    talk.is(
        200,
        OPERATOR,
        "POST /v1/review/carry",
        &json!({"ids": [tail, "none"]}),
    );
    let mut closing = both;
    closing["reason"] = json!("ours is right");
    talk.is(200, OPERATOR, "POST /v1/review/close", &closing);
    let close = format!("POST /v1/review/{foreign}/close");
    talk.is(200, OPERATOR, &close, &json!({"reason": "ours is right"}));
    talk.refused(
        422,
        "invalid_field",
        OPERATOR,
        "POST /v1/review/close",
        &json!({"ids": []}),
    );
    talk.refused(
        422,
        "invalid_field",
        OPERATOR,
        "GET /v1/review?kind=x",
        &NONE,
    );
    talk.is(200, OPERATOR, "GET /v1/audit", &NONE);
}

fn runs(seen: &Seen) {
    let talk = Talk::new(&[], seen);
    account(&talk, "a", "pro");
    for job in ["sweeper", "reporter", "inbox", "reconciler", "plans"] {
        talk.is(200, OPERATOR, &format!("POST /v1/run/{job}"), &NONE);
        let unknown = json!({"x": 1});
        let target = format!("POST /v1/run/{job}");
        talk.refused(422, "invalid_field", OPERATOR, &target, &unknown);
    }
    let one = json!({"account": "a", "dry_run": true});
    talk.is(200, OPERATOR, "POST /v1/run/reconciler", &one);
    let nobody = json!({"account": "nobody"});
    talk.refused(
        404,
        "not_found",
        OPERATOR,
        "POST /v1/run/reconciler",
        &nobody,
    );
    talk.refused(403, "not_allowed", BACKEND, "POST /v1/run/reporter", &NONE);
}

fn events(seen: &Seen) {
    let talk = Talk::new(&[], seen);
    let key = account(&talk, "a", "free");
    talk.is(
        200,
        OPERATOR,
        "PUT /standin/customers/customer_a",
        &json!({"plan": "pro"}),
    );
    let event = json!({"type": "customer.plan_changed", "customer_id": "customer_a",
        "data": {"plan": {"key": "pro"}}, "deliver": 2});
    talk.is(200, OPERATOR, "POST /standin/events", &event);
    let unknown = json!({"type": "customer.plan_changed", "customer_id": "customer_nobody"});
    talk.is(200, OPERATOR, "POST /standin/events", &unknown);
    talk.machine.advance(60_000);
    talk.is(200, OPERATOR, "POST /v1/run/inbox", &NONE);
    let events = talk.is(200, &key, "GET /v1/events", &NONE);
    let id = text(first(&events), "id").to_owned();
    talk.is(200, OPERATOR, "GET /v1/events", &NONE);
    talk.is(
        200,
        OPERATOR,
        "GET /v1/events?account=a&status=applied",
        &NONE,
    );
    for token in [&*key, BACKEND, OPERATOR] {
        talk.is(200, token, &format!("GET /v1/events/{id}"), &NONE);
    }
    let skip = format!("POST /v1/events/{id}/skip");
    talk.refused(
        409,
        "event_applied",
        OPERATOR,
        &skip,
        &json!({"reason": "x"}),
    );
    talk.refused(422, "invalid_field", OPERATOR, &skip, &json!({}));
    let waiting = talk.is(200, OPERATOR, "GET /v1/events?status=waiting", &NONE);
    let skip = format!("POST /v1/events/{}/skip", text(first(&waiting), "id"));
    let why = json!({"reason": "nobody's"});
    let of_a = format!("{skip}?account=a");
    talk.refused(404, "not_found", OPERATOR, &of_a, &why);
    talk.is(202, OPERATOR, &skip, &why);
    let replay = format!("POST /v1/events/{id}/replay");
    talk.is(202, &key, &replay, &NONE);
    talk.refused(422, "invalid_field", &key, &replay, &json!({"x": 1}));
    talk.refused(404, "not_found", &key, "POST /v1/events/none/replay", &NONE);
    talk.refused(
        404,
        "not_found",
        OPERATOR,
        &format!("{replay}?account=nobody"),
        &NONE,
    );
    let many = json!({"status": "applied", "type": null, "since": "2026-11-01T00:00:00Z"});
    account(&talk, "b", "free");
    let of_b = "POST /v1/events/replay?account=b";
    assert_eq!(talk.is(202, OPERATOR, of_b, &many)["queued"], 0);
    let of_a = "POST /v1/events/replay?account=a";
    assert_ne!(talk.is(202, OPERATOR, of_a, &many)["queued"], 0);
    talk.is(202, OPERATOR, "POST /v1/events/replay", &many);
    let none = json!({"status": "received"});
    talk.refused(
        422,
        "invalid_field",
        OPERATOR,
        "POST /v1/events/replay",
        &none,
    );
    talk.refused(
        422,
        "invalid_field",
        OPERATOR,
        "GET /v1/events?status=x",
        &NONE,
    );
    talk.refused(404, "not_found", &key, "GET /v1/events/none", &NONE);
    let signed = json!({"type": "customer.payment_failed", "customer_id": "customer_a",
        "deliver": 0});
    let signed = talk.is(200, OPERATOR, "POST /standin/events", &signed);
    let mut asked = request("POST", "/webhooks/kinde", "", &NONE);
    asked.body = Body::Whole(text(&signed, "jwt").as_bytes().to_vec());
    for _ in 0..2 {
        assert_eq!(talk.send(asked.clone()).status, 200);
    }
}

fn forgeries(seen: &Seen) {
    let talk = Talk::new(&[], seen);
    let event = json!({"type": "x", "customer_id": "c", "deliver": 0});
    let signed = talk.is(200, OPERATOR, "POST /standin/events", &event);
    let jwt = text(&signed, "jwt");
    let deliver = |body: Body| {
        let mut asked = request("POST", "/webhooks/kinde", "", &NONE);
        asked.body = body;
        talk.send(asked).status
    };
    let of_text = |text: &str| Body::Whole(text.as_bytes().to_vec());
    assert_eq!(deliver(of_text("no JWT")), 400);
    let (rest, _) = jwt.rsplit_once('.').expect("a signature");
    assert_eq!(deliver(of_text(&format!("{rest}.AAAA"))), 401);
    assert_eq!(deliver(Body::TooLarge), 413);
    let old = json!({"type": "x", "customer_id": "c", "deliver": 0,
        "timestamp": "2026-01-01T00:00:00Z"});
    let old = talk.is(200, OPERATOR, "POST /standin/events", &old);
    assert_eq!(deliver(of_text(text(&old, "jwt"))), 401);
    talk.machine.advance(86_400_000 * 2);
    let fault = json!({"operation": "jwks", "mode": "error"});
    talk.is(200, OPERATOR, "PUT /standin/faults", &fault);
    assert_eq!(deliver(of_text(jwt)), 503);
}

fn stand_in(seen: &Seen) {
    let talk = Talk::new(&[], seen);
    account(&talk, "a", "pro");
    let customer = "PUT /standin/customers/customer_a";
    let ended = json!({"plan": null});
    talk.is(200, OPERATOR, customer, &ended);
    let set = json!({"plan": "pro", "agreement_id": "agreement_x", "limits": {"tokens": 5,
        "clicks": null}, "period_start": "2026-11-01T00:00:00Z",
        "period_end": "2026-12-01T00:00:00Z"});
    talk.is(200, OPERATOR, customer, &set);
    talk.refused(
        422,
        "invalid_field",
        OPERATOR,
        customer,
        &json!({"limits": 1}),
    );
    let meter = "/standin/meters/agreement_x/tokens";
    talk.is(200, OPERATOR, &format!("GET {meter}"), &NONE);
    talk.is(200, OPERATOR, &format!("PUT {meter}"), &json!({"total": 7}));
    talk.refused(
        404,
        "not_found",
        OPERATOR,
        "GET /standin/meters/none/tokens",
        &NONE,
    );
    let fault = json!({"operation": "limit", "mode": "late", "times": 2});
    talk.is(200, OPERATOR, "PUT /standin/faults", &fault);
    let wrong = json!({"operation": "limit", "mode": "x"});
    talk.refused(
        422,
        "invalid_field",
        OPERATOR,
        "PUT /standin/faults",
        &wrong,
    );
    talk.is(200, OPERATOR, "POST /standin/keys/rotate", &NONE);
    talk.is(
        200,
        OPERATOR,
        "POST /standin/keys/rotate",
        &json!({"drop": true}),
    );
    talk.is(
        200,
        OPERATOR,
        "PUT /standin/clock",
        &json!({"offset_ms": 1000}),
    );
    let back = json!({"offset_ms": 999});
    talk.refused(422, "invalid_field", OPERATOR, "PUT /standin/clock", &back);
    talk.is(200, OPERATOR, "GET /standin/calls?limit=3", &NONE);
    talk.refused(401, "unauthorized", "", "GET /standin/calls", &NONE);
}

fn kindes_paths(seen: &Seen) {
    let talk = Talk::new(&[], seen);
    account(&talk, "a", "pro");
    let own = talk.is(200, OPERATOR, "GET /v1/account?account=a", &NONE);
    let agreement = text(&own, "agreement_id").to_owned();
    let token_of = |scope: &str| {
        let granted = form(
            "/standin/oauth2/token",
            "",
            &format!(
                "grant_type=client_credentials&client_id=standin&client_secret=standin-secret\
             &audience=https%3A%2F%2Fx.kinde.com%2Fapi{scope}"
            ),
        );
        let answer = talk.send(granted);
        assert_eq!(
            answer.status,
            200,
            "{}",
            String::from_utf8_lossy(&answer.body)
        );
        let answer: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        text(&answer, "access_token").to_owned()
    };
    let whole = token_of("");
    let narrow = token_of("&scope=");
    for (text, status) in [
        ("grant_type=x", 400),
        ("grant_type=client_credentials", 401),
    ] {
        assert_eq!(
            talk.send(form("/standin/oauth2/token", "", text)).status,
            status
        );
    }
    let jwks = "/standin/.well-known/jwks";
    talk.is(200, "", &format!("GET {jwks}"), &NONE);
    talk.is(403, &whole, &format!("GET {jwks}"), &NONE);
    let write = json!({"customer_agreement_id": agreement, "billing_feature_code": "clicks",
        "meter_value": "5", "meter_type_code": "absolute"});
    let written = |token: &str, body: &serde_json::Value| {
        let asked = request("POST", "/standin/api/v1/billing/meter_usage", token, body);
        talk.send(with_header(asked, "content-type", "application/json"))
            .status
    };
    assert_eq!(written(&whole, &write), 200);
    assert_eq!(written(&whole, &json!({})), 400);
    assert_eq!(written("", &write), 401);
    assert_eq!(written(&narrow, &write), 403);
    let meter = format!(
        "/standin/api/v1/billing/meter_usage?customer_agreement_id={agreement}\
        &billing_feature_code=clicks"
    );
    let reads = [
        "/standin/api/v1/billing/entitlements?customer_id=customer_a&expand=plans".to_owned(),
        "/standin/api/v1/billing/agreements?customer_id=customer_a".to_owned(),
        meter.clone(),
    ];
    for path in &reads {
        talk.is(200, &whole, &format!("GET {path}"), &NONE);
        let without = path.split_once('?').expect("a query").0;
        talk.is(400, &whole, &format!("GET {without}"), &NONE);
        talk.is(401, "", &format!("GET {path}"), &NONE);
        talk.is(403, &narrow, &format!("GET {path}"), &NONE);
    }
    talk.is(200, &whole, &format!("GET {meter}&all_cycles=true"), &NONE);
    for (mode, status) in [("error", 500), ("429", 429), ("timeout", 504)] {
        for operation in [
            "limit",
            "plan",
            "meter_read",
            "meter_write",
            "jwks",
            "token",
        ] {
            let fault = json!({"operation": operation, "mode": mode, "times": 1});
            talk.is(200, OPERATOR, "PUT /standin/faults", &fault);
        }
        for path in &reads {
            talk.is(status, &whole, &format!("GET {path}"), &NONE);
        }
        assert_eq!(written(&whole, &write), status);
        talk.is(status, "", &format!("GET {jwks}"), &NONE);
        assert_eq!(
            talk.send(form("/standin/oauth2/token", "", "x=1")).status,
            status
        );
    }
}

fn pages(seen: &Seen) {
    let talk = Talk::new(&[], seen);
    let key = account(&talk, "a", "pro");
    talk.is(303, "", "GET /", &NONE);
    talk.is(303, &key, "GET /app", &NONE);
    for path in [
        "/app",
        "/app/lab",
        "/app/reconcile",
        "/app/engine-room",
        "/app/links",
        "/app/jobs",
        "/app/accounts/a",
        "/app/events",
    ] {
        talk.is(200, OPERATOR, &format!("GET {path}"), &NONE);
        talk.is(303, "", &format!("GET {path}"), &NONE);
    }
    for path in [
        "/app/jobs?account=a",
        "/app/links?account=a&code=x",
        "/app/events?status=dead",
    ] {
        talk.is(200, OPERATOR, &format!("GET {path}"), &NONE);
    }
    for path in ["/app?limit=0", "/app/events?status=x", "/app/jobs?limit=x"] {
        talk.refused(
            422,
            "invalid_field",
            OPERATOR,
            &format!("GET {path}"),
            &NONE,
        );
    }
    talk.refused(
        404,
        "not_found",
        OPERATOR,
        "GET /app/accounts/nobody",
        &NONE,
    );
    talk.refused(
        404,
        "not_found",
        OPERATOR,
        "GET /app/jobs?account=nobody",
        &NONE,
    );
    talk.refused(403, "not_allowed", &key, "GET /app/reconcile", &NONE);
    for path in ["/app/style.css", "/app/script.js", "/docs"] {
        talk.is(200, "", &format!("GET {path}"), &NONE);
    }
    for (path, fields) in [
        ("/app/lab/run", "limit=10&amount=4&jobs=2&concurrency=2"),
        ("/app/engine-room/run", "doorbell=1"),
        ("/app/reconcile/run", "account=a&dry_run=1"),
    ] {
        let answer = talk.send(form(path, OPERATOR, fields));
        assert_eq!(answer.status, 200, "{path}");
        let asked = with_header(form(path, OPERATOR, "x=1"), "accept", "application/json");
        assert_eq!(talk.send(asked).status, 422, "{path}");
        assert_eq!(talk.send(form(path, "", fields)).status, 401, "{path}");
        assert_eq!(talk.send(form(path, &key, fields)).status, 403, "{path}");
        let asked = with_header(form(path, OPERATOR, "x=1"), "accept", "text/html");
        let refused = talk.send(asked);
        let kind = refused.header("content-type").unwrap_or_default();
        assert_eq!((refused.status, kind), (422, "text/html; charset=utf-8"));
    }
    for (path, body) in [
        ("/app/lab/run", json!({"limit": 10, "jobs": 2})),
        ("/app/engine-room/run", json!({"doorbell": true})),
    ] {
        let asked = request("POST", path, OPERATOR, &body);
        let answer = talk.send(with_header(asked, "accept", "application/json"));
        assert_eq!(answer.status, 200, "{path}");
    }
}

fn signing_in(seen: &Seen) {
    let talk = Talk::new(&[("APP_URL", "https://app.example.com")], seen);
    let key = account(&talk, "a", "pro");
    talk.is(200, "", "GET /signin", &NONE);
    talk.refused(422, "invalid_field", "", "GET /signin?next=//x", &NONE);
    let signed = talk.send(form("/signin", "", &format!("token={key}")));
    assert_eq!(signed.status, 303);
    assert_eq!(talk.send(form("/signin", "", "token=x")).status, 401);
    let asked = with_header(form("/signin", "", "token=x"), "accept", "text/html");
    assert_eq!(talk.send(asked).status, 401);
    talk.refused(403, "origin", "", "POST /signin", &json!({"token": key}));
    let cookie = signed.header("set-cookie").expect("a cookie");
    let cookie = cookie.split_once(';').expect("attributes").0.to_owned();
    let back = |target: &str| with_header(request("GET", target, "", &NONE), "cookie", &cookie);
    assert_eq!(talk.send(back("/billing/return?to=/x")).status, 303);
    assert_eq!(talk.send(back("/billing/return?to=//x")).status, 422);
    talk.is(303, "", "GET /billing/return", &NONE);
    let foreign = request("POST", "/v1/account/sync", "", &NONE);
    assert_eq!(
        talk.send(with_header(foreign, "cookie", &cookie)).status,
        403
    );
    let out = with_header(form("/signout", "", ""), "cookie", &cookie);
    assert_eq!(talk.send(out).status, 303);
    talk.refused(403, "origin", "", "POST /signout", &NONE);
}

/// Token, role, account, JSON and size, of every route that has them.
fn what_every_route_may_refuse(seen: &Seen) {
    use counterfoil::http::request::Method;
    use counterfoil::http::route::{Access, ROUTES};
    let talk = Talk::new(&[], seen);
    for spec in ROUTES {
        let path = spec.pattern.replace("{job}", "reporter");
        let path = path.replace(['{', '}'], "");
        let call = format!("{} {path}", spec.method.name());
        if matches!(spec.access, Access::Open | Access::Page) {
            continue;
        }
        talk.refused(401, "unauthorized", "wrong", &call, &NONE);
        if spec.access != Access::Servers {
            let (_, path) = call.split_once(' ').expect("a path");
            let filters = path.starts_with("/v1");
            if filters {
                let call = format!("{call}?account=nobody");
                talk.refused(404, "not_found", OPERATOR, &call, &NONE);
            }
        }
        if matches!(spec.method, Method::Post | Method::Put | Method::Patch) {
            for (body, status) in [
                (Body::Whole(b"[".to_vec()), 400),
                (Body::Whole(b"[]".to_vec()), 400),
                (Body::TooLarge, 413),
            ] {
                let mut asked = request(spec.method.name(), &path, OPERATOR, &NONE);
                asked.body = body;
                assert_eq!(talk.send(asked).status, status, "{call}");
            }
        }
    }
}
