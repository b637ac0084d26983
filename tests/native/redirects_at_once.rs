//! Redirects that are answered before the router: by the same rules, with the same click, and left
//! to the router wherever anything else is to be said.

use counterfoil::http::redirect::{Asked, AtOnce, at_once};
use counterfoil::ledger::clicks;
use counterfoil::native::executor::block_on;
use counterfoil::native::machine::{Machine, request};
use serde_json::{Value, json};

use super::feed::{assert_counters, entries, number};

const TO: &str = "https://d.example/?a=%2f";
const BROWSER: Asked<'static> = Asked {
    head: false,
    prefetch: false,
    country: Some("NZ"),
    address: "203.0.113.7",
    user_agent: "Mozilla/5.0 (X11; Linux) AppleWebKit/537.36",
    referrer: "",
};

/// An account with the link `x`, which this isolate has seen once.
fn machine(settings: &[(&str, &str)]) -> Machine {
    let machine = Machine::new(settings).expect("it starts");
    for (target, body) in [
        ("/v1/accounts", json!({"id": "a"})),
        (
            "/v1/links?account=a",
            json!({"code": "x", "destination": TO}),
        ),
    ] {
        assert_eq!(
            machine.call("POST", target, "dev-operator", &body).0,
            201,
            "{target}"
        );
    }
    assert_eq!(by_router(&machine, "/x"), 302);
    machine.advance(1_500);
    assert_eq!(entries(&machine), 1);
    machine
}

fn by_router(machine: &Machine, path: &str) -> u16 {
    machine
        .handle(request("GET", path, "", &Value::Null))
        .status
}

fn ask(machine: &Machine, code: &str, asked: Asked<'_>) -> Option<AtOnce> {
    at_once(&machine.world(), code, asked)
}

fn watch_of(answer: AtOnce) -> Option<u32> {
    answer.click.and_then(|click| click.watch)
}

#[test]
fn a_known_link_is_answered_at_once_and_its_click_is_one_entry() {
    let machine = machine(&[]);
    by_router(&machine, "/healthz");
    let answer = ask(&machine, "X", BROWSER).expect("it is known");
    assert_eq!(answer.target.destination.as_str(), TO);
    let watch = watch_of(answer).expect("it is a click");
    assert!(clicks::lack_carrier(&machine.world()), "it waits");
    block_on(clicks::watch(machine.world(), watch, 0));
    assert!(!clicks::lack_carrier(&machine.world()));
    machine.advance(1_500);
    let sum = |sql: &str| number(&machine.ledger, sql);
    assert_eq!(sum("select count(*) as n from entry"), 2);
    let distinct = "select count(*) as n from (select distinct account_id, feature, cycle, units, \
        kind, code, reason, country from entry)";
    assert_eq!(sum(distinct), 1, "as the router's click");
    assert_counters(&machine);
}

#[test]
fn what_is_no_plain_redirect_is_left_to_the_router_and_nothing_has_happened() {
    let machine = machine(&[("LINK_CACHE_SECONDS", "30")]);
    by_router(&machine, "/x");
    let prefetch = Asked {
        prefetch: true,
        ..BROWSER
    };
    for (code, asked) in [
        ("y", BROWSER),
        ("x/", BROWSER),
        ("%78", BROWSER),
        ("", BROWSER),
        ("x", prefetch),
    ] {
        assert!(ask(&machine, code, asked).is_none(), "{code:?} {asked:?}");
    }
    machine.advance(30_000);
    by_router(&machine, "/healthz");
    assert!(ask(&machine, "x", BROWSER).is_none(), "the bound is over");
    let target = "/v1/links/x?account=a";
    let body = json!({"disabled": true});
    assert_eq!(machine.call("PATCH", target, "dev-operator", &body).0, 200);
    assert_eq!(by_router(&machine, "/x"), 410);
    assert!(ask(&machine, "x", BROWSER).is_none(), "it was switched off");
    machine.advance(1_500);
    assert_eq!(entries(&machine), 2, "the router's two");
}

#[test]
fn a_head_is_answered_at_once_and_is_no_click() {
    let machine = machine(&[]);
    by_router(&machine, "/healthz");
    let head = Asked {
        head: true,
        ..BROWSER
    };
    let answer = ask(&machine, "x", head).expect("it is known");
    assert!(answer.click.is_none());
    assert!(!clicks::lack_carrier(&machine.world()));
}

#[test]
fn a_machines_click_is_taken_back_also_where_it_was_answered_at_once() {
    let machine = machine(&[]);
    by_router(&machine, "/healthz");
    let bot = Asked {
        user_agent: "Mozilla/5.0 (compatible; Googlebot/2.1)",
        ..BROWSER
    };
    let watch = ask(&machine, "x", bot).and_then(watch_of);
    block_on(clicks::watch(machine.world(), watch.expect("a click"), 0));
    machine.advance(1_500);
    let sum = "select sum(units) as n from entry where kind = 'correction' and reason = 'bot'";
    assert_eq!(number(&machine.ledger, sum), -1);
    assert_counters(&machine);
}

#[test]
fn clicks_whose_carrier_is_gone_are_sent_by_whoever_watches() {
    let machine = machine(&[]);
    by_router(&machine, "/healthz");
    let click = || ask(&machine, "x", BROWSER).and_then(|answer| answer.click);
    let clicks: Vec<_> = (0..5).map(|_| click().expect("a click")).collect();
    // The first request took the lead and ended without a word.
    let now = machine.world().now();
    machine.world().isolate.clicks.take_the_lead(now);
    let watches: Vec<_> = clicks.iter().filter_map(|click| click.watch).collect();
    assert_eq!(watches.len(), 5, "nobody carried when they set out");
    block_on(clicks::watch(machine.world(), watches[1], 0));
    machine.advance(1_500);
    assert_eq!(entries(&machine), 6);
    assert_counters(&machine);
}

#[test]
fn where_somebody_carries_two_of_many_watch_for_all() {
    let machine = machine(&[]);
    machine.advance(1_000);
    by_router(&machine, "/healthz");
    let now = machine.world().now();
    machine.world().isolate.clicks.take_the_lead(now);
    let click = || ask(&machine, "x", BROWSER).and_then(|answer| answer.click);
    let clicks: Vec<_> = (0..5).map(|_| click().expect("a click")).collect();
    let watches: Vec<_> = clicks.iter().filter_map(|click| click.watch).collect();
    assert_eq!(watches.len(), 2);
    // Who carried and one who watched are gone.
    block_on(clicks::watch(machine.world(), watches[1], 0));
    machine.advance(1_500);
    assert_eq!(entries(&machine), 6);
    assert_counters(&machine);
}

#[test]
fn what_whoever_carried_could_not_write_is_sent_by_whoever_watches_next() {
    let machine = machine(&[]);
    by_router(&machine, "/healthz");
    let click = || watch_of(ask(&machine, "x", BROWSER).expect("it is known"));
    assert!(click().is_some());
    // Everybody who watched is gone; a click that comes a minute later brings who looks after it.
    machine.advance(61_000);
    by_router(&machine, "/x");
    machine.advance(1_500);
    assert_eq!(entries(&machine), 3);
    assert_counters(&machine);
}
