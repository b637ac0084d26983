//! Redirects that are answered before the router: by the same rules, with the same click, and left
//! to the router wherever anything else is to be said; links that are read together.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use counterfoil::fault::Fault;
use counterfoil::http::app;
use counterfoil::http::redirect::{Asked, AtOnce, at_once};
use counterfoil::http::reply::Response;
use counterfoil::ledger::clicks;
use counterfoil::native::executor::block_on;
use counterfoil::native::machine::{Gear, Machine, request};
use counterfoil::parallel;
use counterfoil::ports::{Db, Later, Rows, Statement};
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

fn watch_of(answer: &AtOnce) -> Option<u32> {
    answer.click.and_then(|click| click.watch)
}

#[test]
fn a_known_link_is_answered_at_once_and_its_click_is_one_entry() {
    let machine = machine(&[]);
    by_router(&machine, "/healthz");
    let answer = ask(&machine, "X", BROWSER).expect("it is known");
    assert_eq!(answer.target.destination.as_str(), TO);
    let watch = watch_of(&answer).expect("it is a click");
    assert!(
        clicks::lack_carrier(&machine.world(), machine.world().now()),
        "it waits"
    );
    block_on(clicks::watch(machine.world(), watch, 0));
    assert!(!clicks::lack_carrier(
        &machine.world(),
        machine.world().now()
    ));
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
    assert!(!clicks::lack_carrier(
        &machine.world(),
        machine.world().now()
    ));
}

#[test]
fn a_machines_click_is_taken_back_also_where_it_was_answered_at_once() {
    let machine = machine(&[]);
    by_router(&machine, "/healthz");
    let bot = Asked {
        user_agent: "Mozilla/5.0 (compatible; Googlebot/2.1)",
        ..BROWSER
    };
    let watch = ask(&machine, "x", bot).as_ref().and_then(watch_of);
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
fn where_somebody_carries_some_of_many_watch_for_all() {
    let machine = machine(&[]);
    machine.advance(1_000);
    by_router(&machine, "/healthz");
    let now = machine.world().now();
    machine.world().isolate.clicks.take_the_lead(now);
    let click = || ask(&machine, "x", BROWSER).and_then(|answer| answer.click);
    let clicks: Vec<_> = (0..30).map(|_| click().expect("a click")).collect();
    let watches: Vec<_> = clicks.iter().filter_map(|click| click.watch).collect();
    assert_eq!(watches.len(), 10);
    // Who carried and all but one who watched are gone.
    block_on(clicks::watch(machine.world(), watches[9], 0));
    machine.advance(1_500);
    assert_eq!(entries(&machine), 31);
    assert_counters(&machine);
}

#[test]
fn what_whoever_carried_could_not_write_is_sent_by_whoever_watches_next() {
    let machine = machine(&[]);
    by_router(&machine, "/healthz");
    let click = || ask(&machine, "x", BROWSER).as_ref().and_then(watch_of);
    assert!(click().is_some());
    // Everybody who watched is gone; a click that comes later brings who looks after it.
    machine.advance(5_000);
    by_router(&machine, "/x");
    machine.advance(1_500);
    assert_eq!(entries(&machine), 3);
    assert_counters(&machine);
}

/// Calls to databases that let others go on first, and are counted.
#[derive(Clone, Default)]
struct Counted(Rc<Cell<u32>>);

struct CountedDb(Counted, Rc<dyn Db>);

impl Gear for Counted {
    fn db(&self, _: &'static str, plain: Rc<dyn Db>) -> Rc<dyn Db> {
        Rc::new(CountedDb(self.clone(), plain))
    }
}

impl CountedDb {
    async fn count(&self) {
        self.0.0.set(self.0.0.get() + 1);
        let mut is_first = true;
        poll_fn(move |_| {
            if std::mem::take(&mut is_first) {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }
}

impl Db for CountedDb {
    fn query(&self, statement: Statement) -> Later<'_, Result<Rows, Fault>> {
        Box::pin(async move {
            self.count().await;
            self.1.query(statement).await
        })
    }

    fn batch(&self, statements: Vec<Statement>) -> Later<'_, Result<Vec<Rows>, Fault>> {
        Box::pin(async move {
            self.count().await;
            self.1.batch(statements).await
        })
    }
}

#[test]
fn links_that_are_asked_for_at_once_are_read_together_and_each_leads_where_it_should() {
    let counted = Counted::default();
    let machine = Machine::geared(&[], Rc::new(counted.clone())).expect("it starts");
    let account = json!({"id": "a"});
    let made = machine.call("POST", "/v1/accounts", "dev-operator", &account);
    assert_eq!(made.0, 201);
    for number in 0..20 {
        let to = format!("https://d.example/{number}");
        let link = json!({"code": format!("l{number}"), "destination": to});
        let made = machine.call("POST", "/v1/links?account=a", "dev-operator", &link);
        assert_eq!(made.0, 201);
    }
    counted.0.set(0);
    let visit = |number: usize| -> Later<'_, Response> {
        let visit = request("GET", &format!("/l{number}"), "", &Value::Null);
        Box::pin(app::handle(machine.world(), visit))
    };
    let answers = block_on(parallel::all((0..21).map(visit).collect(), 21));
    assert!(counted.0.get() <= 3, "{} reads", counted.0.get());
    for (number, answer) in answers.iter().enumerate().take(20) {
        let to = format!("https://d.example/{number}");
        assert_eq!(answer.header("location"), Some(to.as_str()));
    }
    assert_eq!(
        answers[20].status, 404,
        "of one that there is not nothing is told"
    );
    machine.finish_background();
    machine.advance(1_500);
    assert_eq!(entries(&machine), 20);
}
