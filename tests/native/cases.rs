//! Failures that other systems had, each with what is right instead; the numbers are those of the
//! collection they were taken from. Those of one feature alone stand beside it: `links`, `usage`,
//! `gate`, `reconciler`.

use std::cell::Cell;
use std::rc::Rc;

use counterfoil::ledger::clicks::{self, Click};
use counterfoil::ledger::wire::Visitor;
use counterfoil::native::executor::block_on;
use counterfoil::native::machine::{Machine, request};
use counterfoil::parallel;
use counterfoil::ports::{Db, Later, Sql, Statement};
use counterfoil::units::{AccountId, CycleName, LinkCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::feed::{assert_counters, click, entries, number, parcel, record};
use crate::meters::{Bench, MINUTE, OPERATOR, account, items};
use crate::quick::QuickSignatures;

const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const CHROME: &str =
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/149.0 Safari/537.36";

fn visit(machine: &Machine, agent: &str) -> u16 {
    let mut visit = request("GET", "/x", "", &Value::Null);
    visit.headers = vec![("user-agent".to_owned(), agent.to_owned())];
    machine.handle(visit).status
}

fn linked(settings: &[(&str, &str)]) -> Bench {
    let bench = Bench::new(settings);
    let link = json!({"code": "x", "destination": "https://d.example/"});
    bench.ok("POST", "/v1/links?account=a", &link);
    bench
}

/// Moves the machine's clock to that moment.
fn at(bench: &Bench, text: &str) {
    let to = counterfoil::moment::parse_millis(text).expect("a moment");
    bench.machine.advance(to.since(bench.machine.clock.0.get()));
}

fn total(bench: &Bench, query: &str) -> Value {
    let target = format!("/v1/usage?account=a&feature=clicks{query}");
    bench.ok("GET", &target, &Value::Null)["total"].clone()
}

fn list(bench: &Bench, target: &str) -> Vec<Value> {
    items(&bench.ok("GET", target, &Value::Null))
}

/// L4: an update of the list of machines changed yesterday's bill.
#[test]
fn what_a_rule_said_stands_with_its_version_and_is_never_judged_again() {
    let bench = linked(&[]);
    assert_eq!(visit(&bench.machine, "Twitterbot/1.0"), 302);
    bench.machine.advance(MINUTE);
    bench.run("reporter");
    // The row of a release whose list was another one.
    let older = "update entry set rule = 'crawler-user-agents 2019-01-01' where reason is not null \
        returning entry_id";
    assert_eq!(
        Sql::query(&bench.machine.ledger, older, &[])
            .expect("it runs")
            .len(),
        1
    );
    let before = list(&bench, "/v1/entries?account=a");
    bench.machine.restart();
    bench.machine.advance(DAY);
    for job in ["sweeper", "reporter", "reconciler"] {
        bench.run(job);
    }
    assert_eq!(list(&bench, "/v1/entries?account=a"), before);
    assert_eq!(total(&bench, ""), 0);
}

/// L5: opening the admin list fetched every listed link.
#[test]
fn our_own_pages_pictures_and_lists_of_fifty_links_are_no_clicks() {
    let bench = Bench::new(&[]);
    for number in 0..50 {
        let link = json!({"code": format!("l{number}"), "destination": "https://d.example/"});
        bench.ok("POST", "/v1/links?account=a", &link);
    }
    let mut targets = vec![
        "/app/links?account=a".to_owned(),
        "/app/links?account=a&code=l7".to_owned(),
        "/app/accounts/a".to_owned(),
        "/v1/links?account=a&limit=500".to_owned(),
    ];
    targets.extend((0..50).map(|number| format!("/v1/links/l{number}/qr.svg")));
    for target in &targets {
        let answer = bench
            .machine
            .handle(request("GET", target, OPERATOR, &Value::Null));
        assert_eq!(answer.status, 200, "{target}");
        let page = String::from_utf8_lossy(&answer.body);
        assert!(
            !page.contains("src=\"/l7\""),
            "{target} asks for the link itself"
        );
    }
    bench.machine.advance(MINUTE);
    assert_eq!(entries(&bench.machine), 0);
}

/// L8: two stores that were written one after the other drifted apart.
#[test]
fn every_figure_of_a_link_is_derived_from_the_same_rows() {
    let bench = linked(&[("DOUBLE_CLICK_MS", "1000")]);
    for agent in [
        CHROME,
        CHROME,
        "Twitterbot/1.0",
        "other browser 1.0",
        CHROME,
    ] {
        assert_eq!(visit(&bench.machine, agent), 302);
        bench.machine.advance(400);
    }
    bench.machine.advance(MINUTE);
    let rows = list(&bench, "/v1/entries?account=a&code=x&limit=500");
    let sum: i64 = rows.iter().filter_map(|row| row["units"].as_i64()).sum();
    let clicks = rows.iter().filter(|row| row["kind"] == "click").count();
    let usage = bench.ok(
        "GET",
        "/v1/usage?account=a&feature=clicks&code=x&by=day",
        &Value::Null,
    );
    let corrected: i64 = usage["corrected"]
        .as_object()
        .expect("reasons")
        .values()
        .filter_map(Value::as_i64)
        .sum();
    assert_eq!((clicks, &usage["gross"]), (5, &json!(5)));
    assert_eq!((&usage["total"], 5 - corrected), (&json!(sum), sum));
    assert_eq!(usage["days"][0]["total"], sum);
    assert_eq!(bench.meters()[0]["ledger"], sum);
    bench.run("reporter");
    assert_eq!(bench.meter(), sum);
}

/// L10: draining a buffer in memory raced with what was added to it.
#[test]
fn sixteen_writers_and_a_flush_at_every_turn_lose_and_double_nothing() {
    let bench = Bench::new(&[("FLUSH_MS", "1"), ("SHARDS", "2")]);
    let machine = &bench.machine;
    let least = Cell::new(0_i64);
    let total = "select coalesce(sum(total), 0) as n from counter";
    let writer = || -> Later<'_, ()> {
        Box::pin(async {
            for _ in 0..60 {
                clicks::record(machine.world(), a_click(machine)).await;
                machine.advance(1);
                least.set(least.get().min(number(&machine.ledger, total)));
            }
        })
    };
    block_on(parallel::all((0..16).map(|_| writer()).collect(), 16));
    machine.advance(1000);
    assert_eq!((entries(machine), least.get()), (960, 0));
    assert_eq!(number(&machine.ledger, total), 960);
    let batches = number(&machine.ledger, "select sum(last) as n from feed");
    assert!(batches > 100, "{batches} batches");
    let told = "select total as n from tally where name = 'counterfoil_clicks_recorded_total'";
    assert_eq!(number(&machine.ledger, told), 960);
    assert_counters(machine);
}

fn a_click(machine: &Machine) -> Click {
    Click {
        account_id: AccountId::new("a").expect("an id"),
        code: LinkCode::new("x").expect("a code"),
        at: machine.clock.0.get(),
        country: None,
        referrer_host: None,
        visitor: Visitor::default(),
        correction: None,
    }
}

/// L11: after an update a link showed fewer clicks than before.
#[test]
fn a_new_release_over_the_same_data_shows_the_same_totals() {
    let bench = linked(&[]);
    for _ in 0..25 {
        assert_eq!(visit(&bench.machine, CHROME), 302);
    }
    let body = json!({"destination": "https://e.example/"});
    bench.machine.advance(MINUTE);
    let before = total(&bench, "&code=x");
    bench.machine.restart();
    assert_eq!((&before, total(&bench, "&code=x")), (&json!(25), json!(25)));
    bench.ok("PATCH", "/v1/links/x?account=a", &body);
    bench.machine.restart();
    assert_eq!(
        total(&bench, "&code=x"),
        25,
        "another destination is the same link"
    );
    let id = list(&bench, "/v1/entries?account=a")[0]["id"].clone();
    let target = format!(
        "/v1/entries/{}/correction?account=a",
        id.as_str().expect("an id")
    );
    bench.ok("POST", &target, &json!({"reason": "a test of ours"}));
    assert_eq!(
        total(&bench, "&code=x"),
        24,
        "it falls only by a row that says why"
    );
}

/// L19: more than the main field took what is no address of the web.
#[test]
fn no_field_that_takes_an_address_takes_a_script_or_somebody_elses_place() {
    let bench = linked(&[("APP_URL", "https://app.example")]);
    let session = {
        let body = json!({"token": OPERATOR});
        let mut asked = request("POST", "/signin", "", &body);
        let origin = ("origin".to_owned(), asked.origin.clone());
        asked.headers.push(origin);
        let answer = bench.machine.handle(asked);
        let cookie = answer.header("set-cookie").expect("a session");
        cookie.split(';').next().expect("one").to_owned()
    };
    let before = list(&bench, "/v1/links?account=a");
    let calls = list(&bench, "/standin/calls");
    for bad in [
        "javascript:alert(1)",
        " JavaScript:alert(1)",
        "java\nscript:alert(1)",
        "\u{1}javascript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "vbscript:x",
        "file:///etc/passwd",
        "blob:https://d.example/x",
        "ftp://d.example/",
        "//evil.example",
        "\\\\evil.example",
        "https:evil",
        "https://u:p@evil.example/",
        "http://",
        "\0",
        "\u{1f4a5}",
    ] {
        let refused = |method: &str, target: &str, body: &Value, field: &str| {
            let (status, answer) = bench.call(method, target, body);
            let said = format!("{method} {target} {bad:?}: {answer}");
            assert_eq!((status, &answer["field"]), (422, &json!(field)), "{said}");
        };
        let link = json!({"destination": bad});
        if bad != "https:evil" {
            refused("POST", "/v1/links?account=a", &link, "destination");
            refused("PATCH", "/v1/links/x?account=a", &link, "destination");
        }
        let event = json!({"type": "x", "customer_id": "c", "to": bad});
        refused("POST", "/standin/events", &event, "to");
        for target in ["/billing/return?to=", "/signin?next="] {
            let coded = utf8_percent_encode(bad, NON_ALPHANUMERIC);
            let mut asked = request("GET", &format!("{target}{coded}"), "", &Value::Null);
            asked.headers.push(("cookie".to_owned(), session.clone()));
            let answer = bench.machine.handle(asked);
            assert_eq!(answer.status, 422, "{target} {bad:?}");
        }
    }
    assert_eq!(
        list(&bench, "/v1/links?account=a"),
        before,
        "nothing is stored"
    );
    assert_eq!(
        list(&bench, "/standin/calls").len(),
        calls.len(),
        "nothing is sent"
    );
}

/// G14: N readers of a cold counter left N times what was spent.
#[test]
fn six_readers_at_once_after_a_restart_all_see_what_was_spent() {
    let bench = Bench::new(&[]);
    bench.use_clicks("one", 100);
    bench.machine.restart();
    let reader = || -> Later<'_, Value> {
        let asked = request(
            "GET",
            "/v1/budget?account=a&feature=clicks",
            OPERATOR,
            &Value::Null,
        );
        let world = bench.machine.world();
        Box::pin(async move {
            let answer = counterfoil::http::app::handle(world, asked).await;
            let body: Value = serde_json::from_slice(&answer.body).expect("JSON");
            body["used"].clone()
        })
    };
    let seen = block_on(parallel::all((0..6).map(|_| reader()).collect(), 6));
    assert_eq!(seen, vec![json!(100); 6]);
    assert_eq!(total(&bench, ""), 100);
}

/// G15: a batch of counter updates failed half way, and the retry applied its first half again.
#[test]
fn a_batch_that_failed_half_way_is_applied_once_by_its_retry() {
    let machine = Machine::new(&[]).expect("it starts");
    let now = machine.clock.0.get();
    let of = |id: &str, account: &str| {
        let mut entry = click(id, now);
        entry.account_id = AccountId::new(account).expect("an id");
        parcel(&entry)
    };
    let run = |sql: &str| Sql::query(&machine.ledger, sql, &[]).expect("it runs");
    run(
        "create trigger third before insert on counter when new.account_id = 'c' \
        begin select raise(abort, 'the third write fails'); end",
    );
    let clicks = vec![of("clk_a", "a"), of("clk_b", "b"), of("clk_c", "c")];
    assert_eq!(record(&machine, clicks), Ok(3));
    machine.advance(1000);
    assert_eq!(
        number(&machine.ledger, "select count(*) as n from counter"),
        0
    );
    assert_eq!(entries(&machine), 0);
    run("drop trigger third");
    machine.advance(MINUTE);
    let once = "select count(*) as n from counter where total = 1 and version = 1";
    assert_eq!(number(&machine.ledger, once), 3);
    assert_eq!(entries(&machine), 3);
}

/// The account `a` with cycles from the 20th of each month, 15:29 UTC.
fn anchored(settings: &[(&str, &str)]) -> Bench {
    let gear = Rc::new(QuickSignatures);
    let machine = Machine::geared(settings, gear).expect("it starts");
    let period = json!({"period_start": "2026-10-20T15:29:00Z",
        "period_end": "2026-11-20T15:29:00Z"});
    let customer = "/standin/customers/customer_a";
    assert_eq!(machine.call("PUT", customer, OPERATOR, &period).0, 200);
    let agreement = account(&machine, "a");
    Bench { machine, agreement }
}

/// G17, G19: a click counts in the cycle of its own millisecond, half-open, whatever the zone that
/// a caller writes its time in.
#[test]
fn a_click_counts_in_the_half_open_cycle_of_its_own_millisecond() {
    let bench = anchored(&[]);
    let link = json!({"code": "x", "destination": "https://d.example/"});
    bench.ok("POST", "/v1/links?account=a", &link);
    let moments = [
        ("2026-11-19T00:00:00.000Z", "2026-10"),
        ("2026-11-20T15:28:59.999Z", "2026-10"),
        ("2026-11-20T15:29:00.000Z", "2026-11"),
        ("2026-11-21T00:00:00.000Z", "2026-11"),
    ];
    for (moment, _) in moments {
        at(&bench, moment);
        assert_eq!(visit(&bench.machine, CHROME), 302);
    }
    // The last batches come later; a click's own time decides.
    bench.machine.advance(2000);
    let rows = list(&bench, "/v1/entries?account=a");
    let said = rows.iter().map(|row| {
        (
            row["occurred_at"].as_str().unwrap(),
            row["cycle"].as_str().unwrap(),
        )
    });
    assert_eq!(said.collect::<Vec<_>>(), moments);
    for (cycle, starts_at, ends_at) in [
        (
            "2026-10",
            "2026-10-20T15:29:00.000Z",
            "2026-11-20T15:29:00.000Z",
        ),
        (
            "2026-11",
            "2026-11-20T15:29:00.000Z",
            "2026-12-20T15:29:00.000Z",
        ),
    ] {
        let target = format!("/v1/usage?account=a&feature=clicks&cycle={cycle}");
        let usage = bench.ok("GET", &target, &Value::Null);
        assert_eq!(
            (&usage["total"], &usage["starts_at"]),
            (&json!(2), &json!(starts_at))
        );
        assert_eq!(usage["ends_at"], ends_at);
    }
    // The same moment, as a caller in Los Angeles and one in Auckland write it.
    for (key, text) in [
        ("west", "2026-11-20T07:29:02-08:00"),
        ("east", "2026-11-21T04:29:02+13:00"),
    ] {
        let fact = json!({"key": key, "feature": "clicks", "units": 1, "occurred_at": text});
        let made = bench.ok("POST", "/v1/usage?account=a", &fact);
        assert_eq!(made["cycle"], "2026-11", "{made}");
        assert_eq!(made["occurred_at"], "2026-11-20T15:29:02.000Z");
    }
}

/// G18: "already done today?" was asked by date, and around midnight it was done twice.
#[test]
fn a_cycle_is_closed_once_however_many_days_its_closing_is_looked_at() {
    let bench = anchored(&[]);
    at(&bench, "2026-11-20T15:28:45Z");
    bench.use_clicks("tail", 2);
    for moment in [
        "2026-11-20T20:00:00Z",
        "2026-11-20T23:00:00Z",
        "2026-11-21T00:30:00Z",
        "2026-11-23T00:30:00Z",
    ] {
        at(&bench, moment);
        bench.run("reconciler");
    }
    let closed = list(
        &bench,
        "/v1/evidence?account=a&feature=clicks&cycle=2026-10",
    );
    assert_eq!((closed.len(), bench.reviews().len()), (1, 1), "{closed:?}");
}

/// G20: the last use was pushed after the boundary, and the subscription had ended.
#[test]
fn the_last_use_of_an_ended_subscription_is_the_tail_of_its_cycle_and_never_written() {
    let bench = anchored(&[]);
    at(&bench, "2026-11-20T15:00:00Z");
    bench.use_clicks("first", 10);
    bench.run("reporter");
    at(&bench, "2026-11-20T15:28:59Z");
    bench.use_clicks("last", 3);
    bench.ok(
        "PUT",
        "/standin/customers/customer_a",
        &json!({"plan": null}),
    );
    for minutes in [1, 2, 3] {
        bench.machine.advance(minutes * MINUTE);
        bench.ok("POST", "/v1/account/sync?account=a", &json!({}));
        bench.run("reporter");
    }
    let account = bench.ok("GET", "/v1/accounts/a", &Value::Null);
    assert_eq!(
        (&account["plan"], &account["agreement_id"]),
        (&json!("free"), &Value::Null)
    );
    bench.run("reconciler");
    assert_eq!(bench.meter(), 10, "a closed cycle's meter is never written");
    let reviews = bench.reviews();
    assert_eq!((reviews.len(), &reviews[0]["kind"]), (1, &json!("tail")));
    assert_eq!(reviews[0]["numbers"]["difference"], 3);
    let target = format!(
        "/v1/review/{}/carry",
        reviews[0]["id"].as_str().expect("an id")
    );
    for _ in 0..2 {
        assert_eq!(bench.ok("POST", &target, &json!({}))["state"], "carried");
    }
    let counts = (
        total(&bench, "&cycle=2026-10"),
        total(&bench, "&cycle=2026-11"),
    );
    assert_eq!(counts, (json!(10), json!(3)));
    bench.run("reporter");
    bench.run("reconciler");
    assert_eq!((bench.meter(), bench.reviews().len()), (10, 0));
}

/// G25: a change of one plan reset what had been counted under another.
#[test]
fn a_change_of_plan_takes_nothing_from_what_was_counted() {
    let bench = Bench::new(&[]);
    bench.use_clicks("b", 3000);
    bench.run("reporter");
    let change = |plan: &str| {
        bench.ok(
            "PUT",
            "/standin/customers/customer_a",
            &json!({"plan": plan}),
        );
        bench.machine.advance(MINUTE);
        bench.ok("POST", "/v1/account/sync?account=a", &json!({}));
        bench.run("reporter");
    };
    change("pro");
    bench.use_clicks("a", 50);
    change("free");
    assert_eq!(total(&bench, ""), 3050);
    assert_eq!(bench.meter(), 3000, "the old meter keeps what it holds");
    assert_eq!(bench.run("reconciler")["matched"], 2);
}

/// G28: use from forty days ago was found today, and shifted into another period.
#[test]
fn use_that_is_found_forty_days_later_stays_in_its_cycle_and_is_carried_by_name() {
    let bench = anchored(&[]);
    at(&bench, "2026-11-10T12:00:00Z");
    bench.use_clicks("first", 5);
    bench.run("reporter");
    let then = bench.machine.clock.0.get();
    bench.machine.advance(41 * DAY);
    let late = json!({"key": "late", "feature": "clicks", "units": 2,
        "occurred_at": "2026-11-10T12:00:00Z"});
    let (status, answer) = bench.call("POST", "/v1/usage?account=a", &late);
    assert_eq!((status, &answer["field"]), (422, &json!("occurred_at")));
    assert_eq!(entries(&bench.machine), 1);
    // A click that a shard had kept to itself all the time.
    let mut found = click("clk_found", then);
    found.cycle = CycleName::new("2026-10").expect("a name");
    assert_eq!(record(&bench.machine, vec![parcel(&found)]), Ok(1));
    bench.machine.advance(2000);
    assert_eq!(total(&bench, "&cycle=2026-10"), 6);
    bench.run("reconciler");
    let evidence = list(
        &bench,
        "/v1/evidence?account=a&feature=clicks&cycle=2026-10",
    );
    assert_eq!(evidence[0]["verdict"], "closed_cycle_drift");
    assert_eq!(
        (&evidence[0]["ledger"], &evidence[0]["sent"]),
        (&json!(6), &json!(5))
    );
    let item = bench.reviews().remove(0);
    let target = format!("/v1/review/{}/carry", item["id"].as_str().expect("an id"));
    bench.ok("POST", &target, &json!({}));
    let carries = list(&bench, "/v1/entries?account=a&kind=carry");
    let said: Vec<_> = carries
        .iter()
        .map(|row| {
            (
                row["cycle"].as_str(),
                row["units"].as_i64(),
                row["reason"].as_str(),
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            (Some("2026-10"), Some(-1), Some("carried to 2026-12")),
            (Some("2026-12"), Some(1), Some("carried from 2026-10"))
        ]
    );
}

#[test]
fn a_batch_that_is_delivered_twice_fails_the_second_time_and_changes_nothing() {
    use counterfoil::ledger::batch::{FeedMove, rows_json, statements};
    let machine = Machine::new(&[]).expect("it starts");
    let now = machine.clock.0.get();
    let step = FeedMove {
        object: "shard/7".to_owned(),
        epoch: "epoch_1".to_owned(),
        number: 1,
        batch_id: "batch_1".to_owned(),
        due_at: None,
    };
    let entry = click("clk_1", now);
    let rows = rows_json([&entry]).unwrap();
    let tallies = [("counterfoil_clicks_recorded_total".to_owned(), 1)];
    let send = || {
        block_on(
            machine
                .ledger
                .batch(statements(Some(&step), &rows, &tallies, now)),
        )
    };
    assert!(send().is_ok());
    let look = || {
        let tables = ["entry", "counter", "feed", "tally", "review"];
        let all = tables.map(|table| {
            let sql = format!("select * from {table}");
            block_on(Db::query(&machine.ledger, Statement::new(sql, vec![]))).expect("rows")
        });
        format!("{all:?}")
    };
    let before = look();
    assert!(send().is_err());
    assert_eq!(look(), before);
}
