//! The client against the stand-in, and against answers that the stand-in never gives.

use std::cell::RefCell;
use std::collections::VecDeque;

use serde_json::json;

use super::*;
use crate::fault::Fault;
use crate::native::executor::block_on;
use crate::native::machine::{Machine, NoWaiting};

fn machine() -> Machine {
    Machine::new(&[]).expect("it starts")
}

fn customer() -> CustomerId {
    CustomerId::new("customer_1").expect("an id")
}

fn control(machine: &Machine, method: &str, target: &str, body: &Value) -> Value {
    let (status, answer) = machine.call(method, target, "dev-operator", body);
    assert_eq!(status, 200, "{target}: {answer}");
    answer
}

#[test]
fn a_customer_that_nobody_set_is_on_free_with_an_agreement_and_the_calendar_month() {
    let machine = machine();
    let provider = Rc::clone(&machine.world().provider);
    let limits = block_on(provider.limits(&customer())).expect("limits");
    assert_eq!(limits.get("clicks"), Some(&FeatureLimit::Unlimited));
    let tokens = Units::new(10_000).map(FeatureLimit::Known);
    assert_eq!(limits.get("tokens").copied(), tokens);
    let agreements = block_on(provider.agreements(&customer())).expect("agreements");
    let agreement = agreements.agreements.first().expect("one");
    assert_eq!(agreement.plan.as_str(), "free");
    assert_eq!(agreement.feature_keys, ["clicks", "tokens"]);
    let start = agreement.period_start.map(crate::moment::format);
    assert_eq!(start.as_deref(), Some("2026-11-01T00:00:00.000Z"));
    assert!(agreements.subscribed_on.is_empty());
}

#[test]
fn a_meter_holds_the_last_total_that_was_set_and_no_record_is_zero() {
    let machine = machine();
    let provider = Rc::clone(&machine.world().provider);
    let agreements = block_on(provider.agreements(&customer())).expect("agreements");
    let agreement = &agreements.agreements.first().expect("one").agreement_id;
    let read = || block_on(provider.read_meter(agreement, "tokens"));
    assert_eq!(read(), Ok(Delta::ZERO));
    let now = machine.world().now();
    for total in [500, 700, 600] {
        let total = Units::new(total).expect("an amount");
        let written = block_on(provider.write_meter(agreement, "tokens", total, now));
        assert_eq!(written, Ok(()));
        assert_eq!(read(), Ok(Delta::from(total)));
    }
    let target = format!("/standin/meters/{agreement}/tokens");
    control(&machine, "PUT", &target, &json!({"total": 9}));
    assert_eq!(read(), Ok(Delta::new(9).expect("an amount")));
}

/// Answers in turn, whatever is asked; keeps what was asked.
#[derive(Default)]
struct Script {
    answers: RefCell<VecDeque<Result<Incoming, Fault>>>,
    asked: RefCell<Vec<Outgoing>>,
}

impl Transport for Script {
    fn send(&self, request: Outgoing) -> Later<'_, Result<Incoming, Fault>> {
        self.asked.borrow_mut().push(request);
        Box::pin(async move {
            // An answer never comes at once: others of the same request go on meanwhile.
            NoWaiting.pause(1).await;
            let next = self.answers.borrow_mut().pop_front();
            next.unwrap_or_else(|| Err(Fault::unavailable("send", "no more answers")))
        })
    }
}

impl Script {
    fn add(&self, status: u16, body: &Value) {
        self.answers.borrow_mut().push_back(Ok(Incoming {
            status,
            headers: Vec::new(),
            body: body.to_string(),
        }));
    }

    fn add_token(&self, token: &str, seconds: i64) {
        self.add(200, &json!({"access_token": token, "expires_in": seconds}));
    }

    fn count(&self, path: &str) -> usize {
        let asked = self.asked.borrow();
        asked.iter().filter(|ask| ask.url.contains(path)).count()
    }

    fn last_bearer(&self) -> String {
        let asked = self.asked.borrow();
        let headers = &asked.last().expect("something was asked").headers;
        let found = headers.iter().find(|(name, _)| name == "authorization");
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    }
}

/// A client of `x.kinde.com` on the machine's database and clock.
fn client(machine: &Machine, script: &Rc<Script>) -> Kinde {
    let settings = Settings::read(&|name| {
        let value = match name {
            "KINDE_DOMAIN" => "x.kinde.com",
            "KINDE_CLIENT_ID" => "id",
            "KINDE_CLIENT_SECRET" => "secret",
            _ => return None,
        };
        Some(value.to_owned())
    });
    let world = machine.world();
    let transport: Rc<dyn Transport> = Rc::<Script>::clone(script);
    Kinde::of_settings(
        &Rc::new(settings.expect("reads")),
        &world.db,
        &world.objects,
        &transport,
        &world.clock,
        &world.timer,
        &world.isolate,
    )
}

fn row(id: &str) -> Value {
    json!({"id": id, "feature_code": id, "entitlement_limit_max": 7})
}

fn entitlements(has_more: bool, ids: &[&str]) -> Value {
    let rows: Vec<Value> = ids.iter().map(|id| row(id)).collect();
    json!({"has_more": has_more, "entitlements": rows})
}

#[test]
fn a_list_is_followed_to_its_last_page() {
    let (machine, script) = (machine(), Rc::new(Script::default()));
    let kinde = client(&machine, &script);
    script.add_token("t1", 3600);
    script.add(200, &entitlements(true, &["a", "b"]));
    script.add(200, &entitlements(false, &["c"]));
    let limits = block_on(kinde.limits(&customer())).expect("complete");
    assert_eq!(limits.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    let asked = script.asked.borrow();
    assert!(
        asked
            .last()
            .is_some_and(|ask| ask.url.contains("starting_after=b"))
    );
}

#[test]
fn a_list_with_a_gap_or_without_an_end_is_incomplete() {
    let pages: [&[Value]; 4] = [
        &[entitlements(true, &[])],
        &[entitlements(true, &["a"]), entitlements(true, &["a"])],
        &[entitlements(true, &["a"]), entitlements(false, &["a"])],
        &[entitlements(true, &["a"]), json!({"errors": "garbage"})],
    ];
    for pages in pages {
        let (machine, script) = (machine(), Rc::new(Script::default()));
        let kinde = client(&machine, &script);
        script.add_token("t1", 3600);
        for page in pages {
            script.add(200, page);
        }
        let outcome = block_on(kinde.limits(&customer()));
        assert!(
            matches!(outcome, Err(ProviderFault::Incomplete(_))),
            "{outcome:?}"
        );
    }
    let (machine, script) = (machine(), Rc::new(Script::default()));
    let kinde = client(&machine, &script);
    script.add_token("t1", 3600);
    for page in 0..PAGES_MAX * 2 {
        script.add(200, &entitlements(true, &[&page.to_string()]));
    }
    let outcome = block_on(kinde.limits(&customer()));
    assert!(
        matches!(outcome, Err(ProviderFault::Incomplete(_))),
        "{outcome:?}"
    );
    assert_eq!(script.count("entitlements"), PAGES_MAX);
}

#[test]
fn of_two_entitlements_of_one_feature_the_larger_counts() {
    let (machine, script) = (machine(), Rc::new(Script::default()));
    let kinde = client(&machine, &script);
    script.add_token("t1", 3600);
    let named =
        |id: &str, max: Value| json!({"id": id, "feature_code": "x", "entitlement_limit_max": max});
    let rows = [
        named("1", json!(5)),
        named("2", json!(9)),
        named("3", json!(7)),
    ];
    script.add(200, &json!({"has_more": false, "entitlements": rows}));
    let limits = block_on(kinde.limits(&customer())).expect("complete");
    let nine = Units::new(9).map(FeatureLimit::Known);
    assert_eq!(limits.get("x").copied(), nine);
    let rows = [named("1", json!(null)), named("2", json!(9))];
    script.add(200, &json!({"has_more": false, "entitlements": rows}));
    let limits = block_on(kinde.limits(&customer())).expect("complete");
    assert_eq!(limits.get("x"), Some(&FeatureLimit::Unlimited));
}

#[test]
fn a_token_is_fetched_once_for_all_isolates_and_renewed_before_its_own_end() {
    let (machine, script) = (machine(), Rc::new(Script::default()));
    script.add_token("t1", 3600);
    for _ in 0..3 {
        script.add(200, &entitlements(false, &["a"]));
    }
    let first = client(&machine, &script);
    block_on(first.limits(&customer())).expect("limits");
    block_on(first.limits(&customer())).expect("limits");
    let second = client(&machine, &script);
    block_on(second.limits(&customer())).expect("limits");
    assert_eq!(script.count("oauth2/token"), 1);
    machine.advance(3_300_000);
    script.add_token("t2", 3600);
    script.add(200, &entitlements(false, &["a"]));
    block_on(second.limits(&customer())).expect("limits");
    assert_eq!(script.count("oauth2/token"), 2);
    assert_eq!(script.last_bearer(), "Bearer t2");
}

#[test]
fn ten_calls_at_once_fetch_one_token() {
    let (machine, script) = (machine(), Rc::new(Script::default()));
    script.add_token("t1", 3600);
    for _ in 0..10 {
        script.add(200, &entitlements(false, &["a"]));
    }
    let (kinde, customer) = (client(&machine, &script), customer());
    let works: Vec<Later<'_, _>> = (0..10).map(|_| kinde.limits(&customer)).collect();
    for outcome in block_on(crate::parallel::all(works, 10)) {
        assert!(outcome.is_ok(), "{outcome:?}");
    }
    assert_eq!(script.count("oauth2/token"), 1);
}

#[test]
fn a_renewal_that_fails_leaves_the_old_token_in_use() {
    let (machine, script) = (machine(), Rc::new(Script::default()));
    let kinde = client(&machine, &script);
    script.add_token("t1", 3600);
    script.add(200, &entitlements(false, &["a"]));
    block_on(kinde.limits(&customer())).expect("limits");
    machine.advance(3_360_000);
    script.add(500, &json!({}));
    script.add(200, &entitlements(false, &["a"]));
    block_on(kinde.limits(&customer())).expect("limits");
    assert_eq!(script.last_bearer(), "Bearer t1");
}

#[test]
fn a_401_drops_the_token_and_asks_once_more_with_a_new_one() {
    let (machine, script) = (machine(), Rc::new(Script::default()));
    let kinde = client(&machine, &script);
    script.add_token("t1", 3600);
    script.add(401, &json!({}));
    script.add_token("t2", 3600);
    script.add(200, &entitlements(false, &["a"]));
    block_on(kinde.limits(&customer())).expect("limits");
    assert_eq!(script.last_bearer(), "Bearer t2");
    script.add(401, &json!({}));
    script.add_token("t3", 3600);
    script.add(401, &json!({"errors": [{"code": "NO"}]}));
    let refused = ProviderFault::Refused {
        status: 401,
        code: "NO".to_owned(),
    };
    assert_eq!(block_on(kinde.limits(&customer())), Err(refused));
    assert_eq!(script.count("oauth2/token"), 3);
}

#[test]
fn wrong_credentials_are_a_refusal_and_a_later_call_asks_again() {
    let (machine, script) = (machine(), Rc::new(Script::default()));
    let kinde = client(&machine, &script);
    script.add(401, &json!({"error": "invalid_client"}));
    let refused = ProviderFault::Refused {
        status: 401,
        code: "invalid_client".to_owned(),
    };
    assert_eq!(block_on(kinde.limits(&customer())), Err(refused));
    script.add_token("t1", 3600);
    script.add(200, &entitlements(false, &["a"]));
    assert!(block_on(kinde.limits(&customer())).is_ok());
}

#[test]
fn what_is_not_configured_is_named() {
    let machine = Machine::new(&[("PROVIDER", "kinde")]).expect("it starts");
    let provider = Rc::clone(&machine.world().provider);
    let missing = ProviderFault::NotConfigured("KINDE_DOMAIN");
    assert_eq!(block_on(provider.limits(&customer())), Err(missing.clone()));
    assert_eq!(block_on(provider.signing_keys()), Err(missing));
}

#[test]
fn the_signing_keys_are_read_where_the_settings_say_and_without_a_token() {
    let (machine, script) = (machine(), Rc::new(Script::default()));
    let kinde = client(&machine, &script);
    let key = json!({"kty": "RSA", "use": "sig", "kid": "4c:fa", "n": "abc", "e": "AQAB"});
    script.add(200, &json!({"keys": [key]}));
    let keys = block_on(kinde.signing_keys()).expect("keys");
    assert_eq!(keys.first().map(|key| key.kid.as_str()), Some("4c:fa"));
    let asked = script.asked.borrow();
    let asked = asked.first().expect("one request");
    assert_eq!(asked.url, "https://x.kinde.com/.well-known/jwks");
    assert!(
        asked
            .headers
            .iter()
            .all(|(name, _)| name != "authorization")
    );
}

#[test]
fn subscribed_on_costs_a_call_only_where_an_anchor_may_depend_on_it() {
    let agreement = |start: Value| {
        json!({"has_more": false, "agreements": [
            {"id": "agreement_1", "plan_code": "pro", "current_period_start": start}]})
    };
    let plans = json!({"has_more": true, "entitlements": [row("a")],
        "plans": [{"code": "pro", "subscribed_on": "2027-01-31T10:00:00Z"}]});
    for (start, calls) in [
        (json!("2027-02-27T10:00:00Z"), 0),
        (json!("2027-02-28T10:00:00Z"), 1),
        (json!("2027-04-30T10:00:00Z"), 1),
        (json!("2027-05-31T10:00:00Z"), 0),
        (json!(null), 1),
    ] {
        let (machine, script) = (machine(), Rc::new(Script::default()));
        let kinde = client(&machine, &script);
        script.add_token("t1", 3600);
        script.add(200, &agreement(start.clone()));
        script.add(200, &plans);
        let read = block_on(kinde.agreements(&customer())).expect("complete");
        assert_eq!(read.subscribed_on.len(), calls, "{start}");
        assert_eq!(script.count("entitlements"), calls, "{start}");
    }
}

#[test]
fn each_way_to_fail_is_told_apart_and_leaves_the_meter_as_it_must() {
    let total = |number: i64| Delta::new(number).expect("an amount");
    for (mode, is_unknown, after) in [
        ("error", true, 1),
        ("timeout", true, 1),
        ("429", false, 1),
        ("garbage", true, 1),
        ("lost_answer", true, 2),
        ("partial", true, 2),
        ("late", true, 1),
    ] {
        let machine = machine();
        let provider = Rc::clone(&machine.world().provider);
        let agreements = block_on(provider.agreements(&customer())).expect("agreements");
        let agreement = &agreements.agreements.first().expect("one").agreement_id;
        let write = |number: i64| {
            let number = Units::new(number).expect("an amount");
            let now = machine.world().now();
            block_on(provider.write_meter(agreement, "tokens", number, now))
        };
        assert_eq!(write(1), Ok(()));
        let fault = json!({"operation": "meter_write", "mode": mode, "times": 1});
        control(&machine, "PUT", "/standin/faults", &fault);
        match write(2) {
            Err(ProviderFault::Unknown(_)) => assert!(is_unknown, "{mode}"),
            Err(ProviderFault::RateLimited { wait_ms }) => assert_eq!(wait_ms, 2000),
            other => panic!("{mode}: {other:?}"),
        }
        let read = || block_on(provider.read_meter(agreement, "tokens"));
        assert_eq!(read(), Ok(total(after)), "{mode}");
        machine.advance(6_000);
        let later = if mode == "late" { 2 } else { after };
        assert_eq!(read(), Ok(total(later)), "{mode}");
        assert_eq!(write(3), Ok(()), "{mode}: it was to fail once");
    }
}

#[test]
fn a_failing_list_is_never_taken_for_a_short_one() {
    let machine = machine();
    let provider = Rc::clone(&machine.world().provider);
    for operation in ["limit", "plan"] {
        for mode in [
            "error",
            "timeout",
            "429",
            "garbage",
            "lost_answer",
            "partial",
            "late",
        ] {
            let fault = json!({"operation": operation, "mode": mode});
            control(&machine, "PUT", "/standin/faults", &fault);
            let outcome = match operation {
                "limit" => block_on(provider.limits(&customer())).map(|_| ()),
                _ => block_on(provider.agreements(&customer())).map(|_| ()),
            };
            match (mode, outcome) {
                ("429", Err(ProviderFault::RateLimited { .. }))
                | ("partial", Err(ProviderFault::Incomplete(_)))
                | (_, Err(ProviderFault::Unknown(_))) => {}
                (_, other) => panic!("{operation} {mode}: {other:?}"),
            }
        }
        let fault = json!({"operation": operation, "mode": "ok"});
        control(&machine, "PUT", "/standin/faults", &fault);
    }
    assert!(block_on(provider.limits(&customer())).is_ok());
    assert!(block_on(provider.agreements(&customer())).is_ok());
}
