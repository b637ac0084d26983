//! Plan sync against the stand-in: doorbell, tickets, proof before a downgrade, grants.

use serde_json::{Value as Json, json};

use super::inbox_desk::Desk;

fn desk() -> Desk {
    Desk::new(&[])
}

#[test]
fn the_first_sync_brings_plan_agreement_anchor_and_grant() {
    let desk = desk();
    desk.customer(
        "customer_a",
        &json!({"plan": "pro", "agreement_id": "agreement_7",
        "period_start": "2026-10-20T15:29:00Z", "period_end": "2026-11-20T15:29:00Z"}),
    );
    desk.account("a");
    let account = desk.ok("GET", "/v1/accounts/a", &Json::Null);
    assert_eq!(account["plan"], "pro");
    assert_eq!(account["agreement_id"], "agreement_7");
    assert_eq!(account["balance"], json!({"credits": 500}));
    assert_eq!(account["anchor"]["source"], "current_period_start");
    assert_eq!(account["cycle"]["starts_at"], "2026-10-20T15:29:00.000Z");
}

#[test]
fn a_customer_who_paid_is_on_pro_as_soon_as_the_event_is_answered() {
    let desk = desk();
    desk.account("a");
    assert_eq!(desk.plan("a"), ("free".to_owned(), 10));
    desk.customer("customer_a", &json!({"plan": "pro"}));
    let event = desk.send(
        "customer.plan_changed",
        "a",
        &json!({"data": {"plan": {"key": "pro"}}}),
    );
    assert_eq!(
        desk.end(&event),
        ("applied".to_owned(), "plan pro".to_owned())
    );
    assert_eq!(desk.plan("a"), ("pro".to_owned(), 500));
}

#[test]
fn a_sync_says_whether_it_changed_the_plan_and_needs_a_customer() {
    let desk = desk();
    desk.ok("POST", "/v1/accounts", &json!({"id": "none"}));
    let (status, problem) = desk.sync("none");
    assert_eq!(
        (status, problem["code"].as_str()),
        (409, Some("no_customer"))
    );
    desk.account("a");
    desk.customer("customer_a", &json!({"plan": "pro"}));
    let (status, first) = desk.sync("a");
    assert_eq!(status, 200, "{first}");
    assert_eq!(
        (first["plan"].as_str(), first["changed"].as_bool()),
        (Some("pro"), Some(true))
    );
    let (_, again) = desk.sync("a");
    assert_eq!(again["changed"], false);
    assert_eq!(again["since"], first["since"]);
    desk.fault("plan", "error");
    let (status, problem) = desk.sync("a");
    assert_eq!(
        (status, problem["code"].as_str()),
        (503, Some("provider_unreadable"))
    );
    assert_eq!(desk.plan("a").0, "pro");
}

#[test]
fn a_delayed_event_from_before_a_sync_is_ignored_as_older() {
    let desk = desk();
    desk.account("a");
    let late = desk.sign(
        "customer.plan_changed",
        "a",
        &json!({"data": {"plan": {"key": "free"}}}),
    );
    desk.machine.advance(60_000);
    desk.customer("customer_a", &json!({"plan": "pro"}));
    desk.sync("a");
    for mode in ["ok", "error"] {
        desk.fault("plan", mode);
        assert_eq!(desk.post(late.as_bytes(), "w").0, 200);
        let event = desk.events("&account=a")[0].clone();
        assert_eq!(event["status"], "ignored", "{mode}: {event}");
        assert_eq!(event["result"], "a newer plan change is already stored");
        assert_eq!(desk.plan("a"), ("pro".to_owned(), 500));
        desk.ok(
            "POST",
            &format!("/v1/events/{}/replay", event["id"].as_str().unwrap()),
            &Json::Null,
        );
    }
}

#[test]
fn the_old_agreement_that_ends_after_the_new_one_began_changes_nothing() {
    let desk = desk();
    desk.customer(
        "customer_a",
        &json!({"plan": "free", "agreement_id": "agreement_a"}),
    );
    desk.account("a");
    desk.customer(
        "customer_a",
        &json!({"plan": "pro", "agreement_id": "agreement_b"}),
    );
    desk.send(
        "customer.agreement_created",
        "a",
        &json!({"data": {"agreement_id": "agreement_b"}}),
    );
    let ended = json!({"data": {"agreement_id": "agreement_a"}});
    let event = desk.send("customer.agreement_cancelled", "a", &ended);
    let reason = "agreement agreement_a is not current".to_owned();
    assert_eq!(desk.end(&event), ("ignored".to_owned(), reason));
    assert_eq!(desk.plan("a"), ("pro".to_owned(), 500));
}

#[test]
fn two_events_of_one_moment_in_either_order_end_at_what_the_provider_says() {
    for pro_first in [true, false] {
        let desk = desk();
        desk.account("a");
        desk.customer("customer_a", &json!({"plan": "pro"}));
        let moment = "2026-11-10T12:00:00.000Z";
        let pro = json!({"event_timestamp": moment, "data": {"plan": {"key": "pro"}}});
        let free = json!({"event_timestamp": moment, "data": {"plan": {"key": "free"}}});
        let order = if pro_first {
            [&pro, &free]
        } else {
            [&free, &pro]
        };
        for event in order {
            desk.send("customer.plan_changed", "a", event);
        }
        desk.minutes(7);
        assert_eq!(desk.plan("a"), ("pro".to_owned(), 500));
    }
}

#[test]
fn while_the_provider_cannot_be_read_the_newer_payload_is_taken_and_a_read_is_owed() {
    let desk = desk();
    desk.account("a");
    desk.machine.advance(1000);
    desk.fault("plan", "timeout");
    let event = desk.send(
        "customer.plan_changed",
        "a",
        &json!({"data": {"plan": {"key": "pro"}}}),
    );
    assert_eq!(desk.end(&event).0, "applied");
    assert_eq!(desk.plan("a"), ("pro".to_owned(), 500));
    let dirty = "select dirty as n from plan_state where account_id = 'a'";
    assert_eq!(desk.count(dirty), 1);
    desk.fault("plan", "ok");
    desk.minutes(1);
    // The read says that it was wrong; a plan that was never bought does not stay.
    assert_eq!(desk.count(dirty), 0);
    assert_eq!(desk.plan("a").0, "free");
}

#[test]
fn a_real_cancellation_ends_at_free() {
    let desk = desk();
    desk.customer(
        "customer_a",
        &json!({"plan": "pro", "agreement_id": "agreement_a"}),
    );
    desk.account("a");
    desk.customer("customer_a", &json!({"plan": null}));
    let ended = json!({"data": {"agreement_id": "agreement_a"}});
    let event = desk.send("customer.agreement_cancelled", "a", &ended);
    assert_eq!(desk.end(&event).0, "applied");
    assert_eq!(desk.plan("a").0, "free");
}

#[test]
fn a_cancellation_that_never_came_is_found_by_night_and_named() {
    let desk = desk();
    desk.customer("customer_a", &json!({"plan": "pro"}));
    desk.account("a");
    desk.customer("customer_a", &json!({"plan": null}));
    let night = || {
        let calls = counterfoil::world::Calls::new(100_000);
        let world = desk.machine.world();
        let run = counterfoil::plans::nightly::run(&world, &calls);
        counterfoil::native::executor::block_on(run).expect("it runs")
    };
    let first = night();
    assert!(first.done);
    desk.machine.advance(3_600_000);
    let second = night();
    assert_eq!(desk.plan("a").0, "free");
    let missed = [first.missed, second.missed].concat();
    assert_eq!(missed.len(), 1, "{missed:?}");
    assert!(
        missed[0].contains("customer.agreement_cancelled"),
        "{missed:?}"
    );
    assert!(missed[0].contains("it never came"), "{missed:?}");
}

#[test]
fn an_empty_or_partial_answer_alone_leaves_the_plan() {
    let desk = desk();
    desk.customer("customer_a", &json!({"plan": "pro"}));
    desk.account("a");
    desk.fault("plan", "partial");
    for _ in 0..3 {
        assert_eq!(desk.sync("a").0, 503);
        desk.machine.advance(120_000);
    }
    for mode in ["error", "garbage", "429", "timeout"] {
        desk.fault("plan", mode);
        assert_eq!(desk.sync("a").0, 503, "{mode}");
    }
    assert_eq!(desk.plan("a"), ("pro".to_owned(), 500));
}

#[test]
fn a_payment_grants_the_cycle_of_its_own_time_also_when_replayed_in_the_next() {
    let desk = desk();
    desk.customer(
        "customer_a",
        &json!({"plan": "pro", "period_start": "2026-11-10T12:00:00Z"}),
    );
    desk.account("a");
    let event = desk.send("customer.payment_succeeded", "a", &json!({}));
    assert_eq!(desk.end(&event).0, "applied");
    desk.machine.advance(31 * 86_400_000);
    let grants = "select count(*) as n from grant_row where account_id = 'a'";
    let before = desk.count(grants);
    let id = desk.event(&event)["id"].as_str().unwrap().to_owned();
    desk.ok("POST", &format!("/v1/events/{id}/replay"), &Json::Null);
    assert_eq!(desk.end(&event).0, "applied");
    assert_eq!(desk.count(grants), before);
    assert_eq!(desk.plan("a").1, 0);
}

#[test]
fn a_failed_payment_is_overdue_changes_no_plan_and_a_later_success_clears_it() {
    let desk = desk();
    desk.customer("customer_a", &json!({"plan": "pro"}));
    desk.account("a");
    let payment = |desk: &Desk| desk.ok("GET", "/v1/accounts/a", &Json::Null)["payment"].clone();
    let early = desk.sign("customer.invoice_overdue", "a", &json!({}));
    desk.machine.advance(1000);
    desk.send("customer.payment_failed", "a", &json!({}));
    assert_eq!(payment(&desk), "overdue");
    assert_eq!(desk.plan("a").0, "pro");
    desk.machine.advance(1000);
    desk.send("customer.payment_succeeded", "a", &json!({}));
    assert_eq!(payment(&desk), "ok");
    desk.post(early.as_bytes(), "w");
    assert_eq!(payment(&desk), "ok");
}

/// Back from checkout as the operator, for account `a`; `more` follows in the query.
fn return_from_checkout(desk: &Desk, more: &str) {
    use counterfoil::http::request::Body;
    use counterfoil::native::machine::request;
    let mut form = request("POST", "/signin", "", &Json::Null);
    form.body = Body::Whole(b"dev=1".to_vec());
    form.headers
        .push(("origin".to_owned(), "http://localhost:8787".to_owned()));
    let signed = desk.machine.handle(form);
    let cookie = signed.header("set-cookie").expect("a cookie").to_owned();
    let target = format!("/billing/return?to=/done&account=a{more}");
    let mut asked = request("GET", &target, "", &Json::Null);
    asked.headers.push(("cookie".to_owned(), cookie));
    let answer = desk.machine.handle(asked);
    let there = Some("https://app.example.com/done");
    assert_eq!((answer.status, answer.header("location")), (303, there));
}

fn checkout_desk() -> Desk {
    let desk = Desk::new(&[("APP_URL", "https://app.example.com")]);
    desk.account("a");
    desk.machine.advance(1000);
    desk
}

/// How often the stand-in was asked for agreements.
fn plan_reads(desk: &Desk) -> usize {
    let calls = desk.ok("GET", "/standin/calls?limit=500", &Json::Null);
    let calls = calls["items"].as_array().expect("a list").clone();
    calls
        .iter()
        .filter(|call| call["operation"] == "plan")
        .count()
}

#[test]
fn back_from_checkout_the_plan_is_there_before_the_redirect() {
    let desk = checkout_desk();
    desk.customer("customer_a", &json!({"plan": "pro"}));
    return_from_checkout(&desk, "&plan=pro");
    assert_eq!(desk.plan("a"), ("pro".to_owned(), 500));
    // It is as the checkout named it: nobody asks again.
    let reads = plan_reads(&desk);
    desk.minutes(10);
    assert_eq!(plan_reads(&desk), reads);
    return_from_checkout(&desk, "&plan=pro");
    desk.minutes(10);
    assert_eq!(plan_reads(&desk), reads + 1);
}

#[test]
fn a_plan_that_the_checkout_named_is_asked_for_again_after_30_s_and_5_min_and_then_the_word_stands()
{
    let desk = checkout_desk();
    return_from_checkout(&desk, "&plan=pro");
    assert_eq!(desk.plan("a").0, "free");
    let reads = plan_reads(&desk);
    desk.machine.advance(29_000);
    desk.watchdog();
    assert_eq!(plan_reads(&desk), reads);
    desk.machine.advance(1000);
    desk.watchdog();
    assert_eq!(plan_reads(&desk), reads + 1);
    desk.machine.advance(299_000);
    desk.watchdog();
    assert_eq!(plan_reads(&desk), reads + 1);
    desk.machine.advance(1000);
    desk.watchdog();
    assert_eq!(plan_reads(&desk), reads + 2);
    desk.minutes(30);
    assert_eq!(plan_reads(&desk), reads + 2);
    assert_eq!(desk.plan("a").0, "free");
    let waits = "select count(*) as n from plan_state where wanted_plan is not null";
    assert_eq!(desk.count(waits), 0);
}

#[test]
fn whoever_paid_while_the_provider_was_down_and_then_lagged_is_on_the_plan_within_minutes() {
    let desk = checkout_desk();
    desk.fault("plan", "error");
    return_from_checkout(&desk, "&plan=pro");
    desk.fault("plan", "ok");
    // The first read that succeeds is older than what was bought.
    desk.minutes(1);
    assert_eq!(desk.plan("a").0, "free");
    desk.customer("customer_a", &json!({"plan": "pro"}));
    desk.minutes(6);
    assert_eq!(desk.plan("a"), ("pro".to_owned(), 500));
}

#[test]
fn back_from_checkout_without_a_word_of_what_was_bought_a_plan_that_is_as_before_is_asked_again() {
    let desk = checkout_desk();
    return_from_checkout(&desk, "");
    desk.customer("customer_a", &json!({"plan": "pro"}));
    assert_eq!(desk.plan("a").0, "free");
    desk.minutes(1);
    assert_eq!(desk.plan("a"), ("pro".to_owned(), 500));
}

#[test]
fn an_event_of_before_the_checkout_does_not_change_what_is_waited_for() {
    let desk = checkout_desk();
    let older = desk.sign(
        "customer.plan_changed",
        "a",
        &json!({"data": {"plan": {"key": "free"}}}),
    );
    desk.machine.advance(1000);
    return_from_checkout(&desk, "&plan=pro");
    assert_eq!(desk.post(older.as_bytes(), "w").0, 200);
    let wanted = "select wanted_plan from plan_state where account_id = 'a'";
    assert_eq!(desk.sql(wanted)[0].opt_text("wanted_plan"), Ok(Some("pro")));
    desk.customer("customer_a", &json!({"plan": "pro"}));
    desk.minutes(6);
    assert_eq!(desk.plan("a").0, "pro");
}

#[test]
fn a_downgrade_inside_a_cycle_leaves_the_larger_grant_as_its_balance() {
    let desk = desk();
    desk.customer("customer_a", &json!({"plan": "pro"}));
    desk.account("a");
    desk.machine.advance(1000);
    desk.customer("customer_a", &json!({"plan": "free"}));
    let (_, synced) = desk.sync("a");
    assert_eq!(
        (&synced["plan"], &synced["source"]),
        (&json!("free"), &json!("provider"))
    );
    assert_eq!(desk.plan("a"), ("free".to_owned(), 500));
}
