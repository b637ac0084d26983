//! The reconciler against the stand-in: each verdict, its cause, the repair, the evidence.
//!
//! Goal: a difference is found, explained, repaired and proven, and nothing is concluded from an
//! incomplete ledger or a meter of another period.
//! Method: the routes of the contract on a whole native machine.

use counterfoil::native::machine::{Machine, request};
use counterfoil::units::SAFE_MAX;
use serde_json::{Value, json};

use crate::feed::number;
use crate::meters::{Bench, MINUTE, OPERATOR, account, items, meter_of, run_sql};

const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

fn reported(units: i64, settings: &[(&str, &str)]) -> Bench {
    let bench = Bench::new(settings);
    bench.use_clicks("one", units);
    bench.run("reporter");
    bench.run("reconciler");
    bench
}

#[test]
fn a_meter_moved_behind_our_back_is_found_explained_repaired_and_read_back() {
    let bench = reported(1000, &[]);
    let rows = bench.evidence().len();
    for (moved_to, verdict) in [(574, "under_billed"), (1426, "over_billed")] {
        for _ in 0..2 {
            let before = bench.evidence().len();
            bench.move_meter(moved_to);
            let found = bench.run("reconciler");
            assert_eq!(
                (&found["drifted"], &found["repaired"]),
                (&json!(1), &json!(1))
            );
            assert_eq!(bench.meter(), 1000);
            let evidence = bench.evidence();
            assert_eq!(evidence.len(), before + 1, "each drift has its row");
            let row = &evidence[0];
            assert_eq!(row["verdict"], verdict);
            assert_eq!(row["cause"], "meter_moved_by_other");
            assert_eq!(
                (&row["ledger"], &row["provider"]),
                (&json!(1000), &json!(moved_to))
            );
            assert_eq!(
                (&row["repaired_to"], &row["read_back"]),
                (&json!(1000), &json!(1000))
            );
            let again = bench.run("reconciler");
            assert_eq!(
                (&again["matched"], &again["drifted"]),
                (&json!(2), &json!(0))
            );
            assert_eq!(
                bench.evidence().len(),
                before + 1,
                "a match at the read-back adds none"
            );
        }
    }
    assert_eq!(bench.evidence().len(), rows + 4);
}

#[test]
fn a_dry_run_says_the_same_and_writes_nothing() {
    let bench = reported(1000, &[]);
    bench.move_meter(574);
    let before = bench.evidence();
    let dry = bench.ok("POST", "/v1/run/reconciler", &json!({"dry_run": true}));
    assert_eq!((&dry["drifted"], &dry["repaired"]), (&json!(1), &json!(0)));
    assert_eq!((bench.meter(), bench.evidence()), (574, before));
    assert!(bench.reviews().is_empty());
    let real = bench.ok("POST", "/v1/run/reconciler", &json!({"account": "a"}));
    assert_eq!(real["repaired"], 1);
}

#[test]
fn what_was_never_reported_is_no_drift_but_is_repaired() {
    let bench = Bench::new(&[]);
    bench.use_clicks("one", 9);
    let found = bench.run("reconciler");
    assert_eq!(
        (&found["drifted"], &found["repaired"]),
        (&json!(0), &json!(1)),
        "{found}"
    );
    let row = &bench.evidence()[0];
    assert_eq!(
        (&row["verdict"], &row["cause"]),
        (&json!("under_billed"), &json!("not_yet_reported"))
    );
    assert_eq!(bench.meter(), 9);
    bench.use_clicks("two", 1);
    bench.run("reconciler");
    assert_eq!(bench.evidence()[0]["cause"], "changed_after_report");
    bench.use_clicks("three", 1);
    bench.fault("meter_write", "error", 1);
    bench.run("reporter");
    bench.machine.advance(2 * MINUTE);
    bench.run("reconciler");
    assert_eq!(bench.evidence()[0]["cause"], "last_report_failed");
    assert_eq!(bench.meter(), 11);
}

#[test]
fn every_fault_while_repairing_leaves_a_mark_and_the_next_run_repairs() {
    for operation in ["meter_write", "meter_read"] {
        for mode in ["error", "timeout", "429", "garbage", "lost_answer", "late"] {
            let bench = reported(1000, &[]);
            bench.move_meter(574);
            bench.fault(operation, mode, 1);
            bench.run("reconciler");
            for _ in 0..3 {
                bench.machine.advance(2 * MINUTE);
                bench.run("reconciler");
            }
            bench.machine.advance(2 * MINUTE);
            assert_eq!(bench.meter(), 1000, "{operation} {mode}");
            bench.run("reporter");
            assert!(!bench.marked(), "{operation} {mode}");
            assert_eq!(bench.run("reconciler")["matched"], 2, "{operation} {mode}");
        }
    }
}

#[test]
fn a_meter_that_cannot_be_read_is_unreadable_never_a_guess() {
    let bench = reported(10, &[]);
    bench.move_meter(3);
    bench.fault("meter_read", "error", 2);
    let found = bench.run("reconciler");
    assert_eq!(
        (&found["unreadable"], &found["repaired"]),
        (&json!(2), &json!(0))
    );
    assert_eq!(bench.meter(), 3);
    assert_eq!(bench.evidence()[0]["verdict"], "unreadable");
    assert_eq!(bench.evidence()[0]["provider"], Value::Null);
}

/// A click takes the sum past the largest amount there is; it is redirected all the same.
#[test]
fn an_account_past_the_largest_amount_is_in_nobody_s_way_and_comes_back() {
    let bench = reported(7, &[]);
    account(&bench.machine, "b");
    let most = json!({"key": "most", "feature": "clicks", "units": SAFE_MAX});
    let (status, entry) = bench.call("POST", "/v1/usage?account=b", &most);
    assert_eq!(status, 201, "{entry}");
    let link = json!({"code": "beyond", "destination": "https://example.com/"});
    bench.ok("POST", "/v1/links?account=b", &link);
    let mut click = request("GET", "/beyond", "", &Value::Null);
    let agent = "Mozilla/5.0 (X11; Linux x86_64) Chrome/149.0 Safari/537.36";
    click
        .headers
        .push(("user-agent".to_owned(), agent.to_owned()));
    assert_eq!(bench.machine.handle(click).status, 302);
    bench.machine.advance(2_000);
    bench.move_meter(0);

    bench.run("reporter");
    let found = bench.run("reconciler");

    assert_eq!(found["done"], true, "{found}");
    assert_eq!(bench.meter(), 7, "{found}");
    bench.ok("GET", "/v1/meters", &Value::Null);
    for target in ["/v1/usage?account=b", "/v1/usage?account=b&by=day"] {
        let usage = bench.ok("GET", target, &Value::Null);
        assert_eq!(
            (&usage["total"], &usage["gross"]),
            (&json!(SAFE_MAX), &json!(SAFE_MAX))
        );
    }
    let target = format!(
        "/v1/entries/{}/correction?account=b",
        entry["id"].as_str().expect("an id")
    );
    bench.ok("POST", &target, &json!({"reason": "a mistake"}));
    bench.run("reporter");
    bench.run("reconciler");
    let usage = bench.ok("GET", "/v1/usage?account=b", &Value::Null);
    assert_eq!(
        usage["total"], 1,
        "what is stored is the exact sum: {usage}"
    );
}

/// More entries than any list gives at once, and another account's beside them.
#[test]
fn a_counter_is_rebuilt_from_every_entry_and_from_no_other_account() {
    let bench = Bench::new(&[]);
    account(&bench.machine, "b");
    for batch in 0..6 {
        for of in ["a", "b"] {
            let one =
                |n: i64| json!({"key": format!("{batch}-{n}"), "feature": "clicks", "units": n});
            let facts: Vec<Value> = (1..=50).map(one).collect();
            let target = format!("/v1/usage?account={of}");
            let body = json!({"items": facts});
            bench.ok("POST", &target, &body);
        }
    }
    run_sql(&bench.machine, "update counter set total = 4000");
    bench.run("reconciler");
    let usage = bench.ok("GET", "/v1/usage?account=a", &Value::Null);
    assert_eq!(usage["total"], 6 * 1275);
    assert_eq!(bench.meter(), 6 * 1275);
}

#[test]
fn a_counter_that_lost_its_way_is_made_the_sum_of_its_entries_again() {
    let bench = reported(10, &[]);
    run_sql(&bench.machine, "update counter set total = 4000");
    let found = bench.run("reconciler");
    assert_eq!(found["matched"], 2, "{found}");
    assert_eq!(bench.evidence()[0]["counters"], 4000);
    assert_eq!(bench.meters()[0]["ledger"], 10);
    bench.run("reporter");
    assert_eq!((bench.meter(), bench.marked()), (10, false));
    run_sql(&bench.machine, "delete from counter");
    bench.run("reconciler");
    bench.run("reporter");
    assert_eq!((bench.meter(), bench.marked()), (10, false));
}

#[test]
fn where_entries_were_exported_and_dropped_no_counter_is_repaired_downward() {
    let bench = reported(1000, &[]);
    let drop = "delete from entry; ";
    run_sql(&bench.machine, drop);
    run_sql(&bench.machine, "update counter set archived = 1000");
    let found = bench.run("reconciler");
    assert_eq!(
        (&found["repaired"], &found["drifted"]),
        (&json!(0), &json!(0)),
        "{found}"
    );
    assert_eq!(
        (bench.meter(), &bench.meters()[0]["ledger"]),
        (1000, &json!(1000))
    );
}

#[test]
fn an_account_with_an_agreement_and_no_entry_is_looked_at_too() {
    let bench = Bench::new(&[]);
    bench.move_meter(12);
    let found = bench.run("reconciler");
    assert_eq!(
        (&found["checked"], &found["drifted"]),
        (&json!(2), &json!(1)),
        "{found}"
    );
    assert_eq!(
        bench.meter(),
        12,
        "a total that we did not write waits for a person"
    );
    assert_eq!(bench.reviews()[0]["kind"], "foreign_total");
    bench.run("reconciler");
    assert_eq!(bench.reviews().len(), 1);
}

#[test]
fn a_confirmed_write_that_the_provider_did_not_keep_is_sent_again() {
    let bench = Bench::new(&[]);
    bench.use_clicks("one", 50);
    bench.run("reporter");
    // Accepted with 200, and yet nothing is there.
    bench.move_meter(0);
    assert!(!bench.marked());
    bench.run("reconciler");
    assert_eq!(bench.meter(), 50);
}

/// The account `a` from 20 October, 15:29, in a period of the provider that is the same.
fn anchored(settings: &[(&str, &str)]) -> Bench {
    let machine = Machine::new(settings).expect("it starts");
    let period = json!({"period_start": "2026-10-20T15:29:00Z",
        "period_end": "2026-11-20T15:29:00Z"});
    let (status, put) = machine.call("PUT", "/standin/customers/customer_a", OPERATOR, &period);
    assert_eq!(status, 200, "{put}");
    let agreement = account(&machine, "a");
    Bench { machine, agreement }
}

/// Moves the machine's clock to that moment.
fn at(bench: &Bench, text: &str) {
    let to = counterfoil::moment::parse_millis(text).expect("a moment");
    let now = bench.machine.clock.0.get();
    assert!(to > now);
    bench.machine.advance(to.since(now));
}

#[test]
fn usage_counts_in_the_cycle_of_its_own_millisecond_and_no_total_lands_in_the_wrong_period() {
    let bench = anchored(&[]);
    at(&bench, "2026-11-19T12:00:00Z");
    bench.use_clicks("first", 10);
    bench.run("reporter");
    assert_eq!(bench.meter(), 10);
    at(&bench, "2026-11-20T15:28:59.999Z");
    bench.use_clicks("last", 2);
    bench.run("reporter");
    assert_eq!(
        bench.meter(),
        10,
        "half a minute before the turn nothing is sent"
    );
    at(&bench, "2026-11-20T15:29:00Z");
    bench.use_clicks("next", 5);
    bench.run("reporter");
    let meters = bench.meters();
    assert_eq!(
        meters
            .iter()
            .map(|row| row["cycle"].clone())
            .collect::<Vec<_>>(),
        ["2026-10", "2026-11"]
    );
    assert_eq!(
        (&meters[0]["ledger"], &meters[1]["ledger"]),
        (&json!(12), &json!(5))
    );
    at(&bench, "2026-11-21T12:00:00Z");
    bench.run("reporter");
    assert_eq!(
        bench.meter(),
        5,
        "the new period holds the new cycle's total alone"
    );
    assert!(!bench.marked());
}

#[test]
fn the_tail_of_a_closed_cycle_is_carried_once() {
    let bench = anchored(&[]);
    at(&bench, "2026-11-19T12:00:00Z");
    bench.use_clicks("first", 10);
    bench.run("reporter");
    at(&bench, "2026-11-20T15:28:50Z");
    bench.use_clicks("last", 2);
    bench.run("reporter");
    at(&bench, "2026-11-20T15:40:00Z");
    bench.use_clicks("next", 5);
    bench.run("reporter");
    let found = bench.run("reconciler");
    assert_eq!(found["drifted"], 1, "{found}");
    let reviews = bench.reviews();
    assert_eq!((reviews.len(), &reviews[0]["kind"]), (1, &json!("tail")));
    assert_eq!(reviews[0]["numbers"]["difference"], 2);
    let closed = |row: &&Value| row["cycle"] == "2026-10";
    let evidence = bench.evidence();
    assert_eq!(
        evidence.iter().find(closed).unwrap()["verdict"],
        "closed_cycle_drift"
    );
    assert_eq!(
        bench.run("reconciler")["drifted"],
        0,
        "it is looked at once"
    );
    let target = format!("/v1/review/{}/carry", reviews[0]["id"].as_str().unwrap());
    let carried = bench.ok("POST", &target, &json!({}));
    assert_eq!(carried["state"], "carried");
    assert_eq!(bench.ok("POST", &target, &json!({}))["state"], "carried");
    bench.run("reporter");
    assert_eq!(bench.meter(), 7);
    let totals: Vec<_> = bench
        .meters()
        .iter()
        .map(|row| row["ledger"].clone())
        .collect();
    assert_eq!(totals, [10, 7]);
    let found = bench.run("reconciler");
    assert_eq!(
        (&found["drifted"], &found["checked"]),
        (&json!(0), &json!(3)),
        "{found}"
    );
    assert!(bench.reviews().is_empty());
    let close = target.replace("carry", "close");
    assert_eq!(bench.call("POST", &close, &json!({"reason": "x"})).0, 409);
}

#[test]
fn after_a_turn_the_first_run_compares_every_feature_of_an_account() {
    let bench = anchored(&[]);
    at(&bench, "2026-11-20T15:40:00Z");
    let found = bench.run("reconciler");
    assert_eq!(found["unreadable"], 0, "{found}");
    assert_eq!(found["matched"], found["checked"], "{found}");
    assert!(found["checked"].as_i64() > Some(1), "{found}");
}

#[test]
fn with_carry_tail_auto_nobody_has_to_carry_it() {
    let bench = anchored(&[("CARRY_TAIL", "auto")]);
    at(&bench, "2026-11-20T15:28:50Z");
    bench.use_clicks("last", 2);
    bench.run("reporter");
    at(&bench, "2026-11-20T15:40:00Z");
    bench.run("reconciler");
    assert!(bench.reviews().is_empty());
    bench.run("reporter");
    assert_eq!(bench.meter(), 2);
    bench.run("reconciler");
    bench.run("reporter");
    assert_eq!((bench.meter(), bench.reviews().len()), (2, 0));
}

#[test]
fn what_a_person_left_as_it_is_stays_so_when_more_is_found() {
    let bench = anchored(&[]);
    at(&bench, "2026-11-20T15:28:50Z");
    bench.use_clicks("last", 2);
    at(&bench, "2026-11-20T15:40:00Z");
    bench.run("reconciler");
    let id = bench.reviews()[0]["id"].as_str().unwrap().to_owned();
    bench.ok(
        "POST",
        &format!("/v1/review/{id}/close"),
        &json!({"reason": "written off"}),
    );
    // A correction of the closed cycle arrives.
    let entries = items(&bench.ok("GET", "/v1/entries?account=a", &Value::Null));
    let entry = entries[0]["id"].as_str().unwrap();
    let target = format!("/v1/entries/{entry}/correction?account=a");
    bench.ok("POST", &target, &json!({"reason": "wrong", "units": 1}));
    bench.run("reconciler");
    let reviews = bench.reviews();
    assert_eq!(reviews[0]["numbers"]["difference"], -1);
    let target = format!("/v1/review/{}/carry", reviews[0]["id"].as_str().unwrap());
    bench.use_clicks("next", 5);
    bench.ok("POST", &target, &json!({}));
    bench.run("reporter");
    assert_eq!(bench.meter(), 4);
}

#[test]
fn no_more_is_left_as_it_is_than_differs_when_a_person_says_so() {
    for (held, left) in [(10, 2), (11, 1), (12, 0), (13, 0)] {
        let bench = anchored(&[]);
        at(&bench, "2026-11-20T15:20:00Z");
        bench.use_clicks("first", 10);
        bench.run("reporter");
        at(&bench, "2026-11-20T15:28:50Z");
        bench.use_clicks("last", 2);
        at(&bench, "2026-11-20T15:40:00Z");
        bench.run("reconciler");
        let id = bench.reviews()[0]["id"].as_str().unwrap().to_owned();
        // The ledger was put back to a copy that knows of a write which the other one did not.
        let sql = format!("update meter set held = {held} where cycle = '2026-10'");
        run_sql(&bench.machine, &sql);
        let target = format!("/v1/review/{id}/close");
        bench.ok("POST", &target, &json!({"reason": "written off"}));
        let sql = "select left_as_is as n from counter where cycle = '2026-10'";
        assert_eq!(number(&bench.machine.ledger, sql), left, "{held}");
    }
}

#[test]
fn a_closed_cycle_with_a_write_in_doubt_is_not_carried() {
    let bench = anchored(&[]);
    at(&bench, "2026-11-20T15:20:00Z");
    bench.use_clicks("one", 10);
    bench.run("reporter");
    bench.use_clicks("two", 3);
    bench.fault("meter_write", "lost_answer", 1);
    bench.run("reporter");
    at(&bench, "2026-11-20T15:40:00Z");
    bench.run("reconciler");
    let reviews = bench.reviews();
    assert_eq!(reviews[0]["kind"], "closed_cycle");
    let target = format!("/v1/review/{}/carry", reviews[0]["id"].as_str().unwrap());
    let (status, refused) = bench.call("POST", &target, &json!({}));
    assert_eq!((status, &refused["code"]), (409, &json!("in_doubt")));
}

#[test]
fn a_provider_that_turns_seconds_before_or_after_us_never_gets_the_wrong_total() {
    for seconds in [-20_i64, 20] {
        let machine = Machine::new(&[]).expect("it starts");
        let turn = counterfoil::moment::parse_millis("2026-11-20T15:29:00Z").unwrap();
        let theirs = counterfoil::moment::format(turn.after(seconds * 1000));
        let start = "2026-10-20T15:29:00Z";
        let period = json!({"period_start": start, "period_end": theirs});
        let (status, put) = machine.call("PUT", "/standin/customers/customer_a", OPERATOR, &period);
        assert_eq!(status, 200, "{put}");
        let agreement = account(&machine, "a");
        let bench = Bench { machine, agreement };
        at(&bench, "2026-11-20T15:20:00Z");
        bench.use_clicks("one", 1000);
        bench.run("reporter");
        assert_eq!(bench.meter(), 1000, "{seconds}");
        at(&bench, "2026-11-20T15:27:00Z");
        for step in 0..60 {
            bench.machine.advance(5_000);
            bench.use_clicks(&format!("k{step}"), 1);
            bench.run("reporter");
            let now = bench.machine.clock.0.get();
            if now >= turn.after(seconds * 1000) {
                assert!(
                    bench.meter() < 100,
                    "{seconds} {step}: the old total is in the new period"
                );
            }
        }
    }
}

#[test]
fn a_period_that_stays_different_for_an_hour_goes_to_review_and_closing_it_moves_the_end() {
    let bench = anchored(&[]);
    bench.use_clicks("one", 10);
    bench.run("reporter");
    let other = json!({"period_start": "2026-10-20T15:29:00Z",
        "period_end": "2026-11-25T00:00:00Z"});
    bench.ok("PUT", "/standin/customers/customer_a", &other);
    bench.ok("POST", "/v1/account/sync?account=a", &json!({}));
    bench.use_clicks("two", 1);
    for _ in 0..7 {
        bench.run("reporter");
        assert_eq!(
            bench.meter(),
            10,
            "a meter of another period is not written"
        );
        assert!(bench.reviews().is_empty());
        bench.machine.advance(10 * MINUTE - 1);
    }
    bench.machine.advance(MINUTE);
    bench.run("reporter");
    let reviews = bench.reviews();
    assert_eq!(
        (reviews.len(), &reviews[0]["kind"]),
        (1, &json!("period_mismatch"))
    );
    let target = format!("/v1/review/{}/close", reviews[0]["id"].as_str().unwrap());
    bench.ok("POST", &target, &json!({"reason": "the provider is right"}));
    let account = bench.ok("GET", "/v1/accounts/a", &Value::Null);
    assert_eq!(account["cycle"]["name"], "2026-10");
    assert_eq!(account["cycle"]["ends_at"], "2026-11-25T00:00:00.000Z");
    bench.machine.advance(MINUTE);
    bench.run("reporter");
    assert_eq!(bench.meter(), 11);
    at(&bench, "2026-11-25T00:00:01Z");
    let account = bench.ok("GET", "/v1/accounts/a", &Value::Null);
    assert_eq!(account["cycle"]["starts_at"], "2026-11-25T00:00:00.000Z");
}

#[test]
fn a_ledger_that_was_put_back_writes_no_meter_until_everything_is_in_it_again() {
    let bench = reported(10, &[]);
    let before = bench.machine.ledger.snapshot().expect("a copy");
    bench.use_clicks("two", 5);
    bench.run("reporter");
    assert_eq!(bench.meter(), 15);
    bench
        .machine
        .ledger
        .restore(&before)
        .expect("it is put back");
    bench.use_clicks("three", 1);
    let summary = bench.run("reporter");
    assert_eq!(
        (&summary["restored"], &summary["tried"]),
        (&json!(true), &json!(0))
    );
    assert_eq!(bench.meter(), 15, "the older total is not written");
    let one = bench.ok("POST", "/v1/run/reconciler", &json!({"account": "a"}));
    assert_eq!(
        (&one["incomplete"], &one["repaired"]),
        (&json!(2), &json!(0))
    );
    assert_eq!(
        bench.run("reporter")["restored"],
        true,
        "one account is not all"
    );
    let found = bench.run("reconciler");
    assert_eq!(found["incomplete"], 2);
    assert_eq!(bench.run("reporter")["restored"], false);
}

#[test]
fn a_run_whose_calls_are_used_up_goes_on_in_the_next() {
    let machine = Machine::new(&[("CALLS_PER_RUN", "60")]).expect("it starts");
    let mut agreements = Vec::new();
    for number in 0..12 {
        let id = format!("acc{number}");
        agreements.push(account(&machine, &id));
        let body = json!({"key": "one", "feature": "clicks", "units": number + 1});
        let target = format!("/v1/usage?account={id}");
        assert_eq!(machine.call("POST", &target, OPERATOR, &body).0, 201);
    }
    for job in ["reporter", "reconciler"] {
        let (mut runs, mut checked) = (0, 0);
        loop {
            runs += 1;
            assert!(runs < 40, "{job} never gets done");
            let target = format!("/v1/run/{job}");
            let (_, summary) = machine.call("POST", &target, OPERATOR, &json!({}));
            checked += summary["checked"].as_i64().unwrap_or(0);
            machine.advance(MINUTE);
            if summary["done"] == true {
                break;
            }
        }
        assert!(runs > 1, "{job}");
        if job == "reconciler" {
            assert_eq!(checked, 24);
        }
    }
    for (number, agreement) in agreements.iter().enumerate() {
        assert_eq!(
            meter_of(&machine, agreement),
            i64::try_from(number + 1).unwrap()
        );
    }
}

#[test]
fn nightly_work_begins_at_its_time_and_is_done_once_a_night() {
    let bench = reported(10, &[]);
    let tick = || {
        let world = bench.machine.world();
        counterfoil::native::executor::block_on(counterfoil::cron::tick(&world));
    };
    tick();
    bench.move_meter(3);
    tick();
    assert_eq!(bench.meter(), 3, "no night has begun");
    bench.machine.advance(DAY);
    tick();
    assert_eq!(bench.meter(), 10);
    bench.move_meter(3);
    bench.machine.advance(MINUTE);
    tick();
    assert_eq!(bench.meter(), 3, "once a night");
}

#[test]
fn an_unknown_job_or_account_is_404_and_an_unknown_field_422() {
    let bench = Bench::new(&[]);
    assert_eq!(bench.call("POST", "/v1/run/nothing", &json!({})).0, 404);
    let other = json!({"account": "nobody"});
    assert_eq!(bench.call("POST", "/v1/run/reconciler", &other).0, 404);
    assert_eq!(
        bench.call("POST", "/v1/run/reconciler", &json!({"x": 1})).0,
        422
    );
    assert_eq!(
        bench
            .call("POST", "/v1/run/reporter", &json!({"dry_run": true}))
            .0,
        422
    );
}

#[test]
fn the_page_shows_numbers_verdicts_and_what_waits_and_escapes_all_of_it() {
    let bench = reported(1000, &[]);
    bench.move_meter(574);
    bench.run("reconciler");
    let page = |target: &str| {
        let request = counterfoil::native::machine::request("GET", target, OPERATOR, &Value::Null);
        let answer = bench.machine.handle(request);
        (answer.status, String::from_utf8(answer.body).expect("text"))
    };
    let (status, text) = page("/app/reconcile?account=a");
    assert_eq!(status, 200, "{text}");
    for shown in [
        "under_billed",
        "meter_moved_by_other",
        "Dry run",
        "574",
        "Nothing waits",
    ] {
        assert!(text.contains(shown), "{shown}");
    }
    assert_eq!(page("/app/reconcile?account=").0, 200);
    assert_eq!(page("/app/reconcile?account=%3Cscript%3E").0, 404);
}

/// Shards that do not answer while they are cut off.
#[derive(Clone, Default)]
struct CutOff(std::rc::Rc<std::cell::Cell<bool>>);

struct Reach {
    cut_off: CutOff,
    plain: std::rc::Rc<dyn counterfoil::ports::Objects>,
}

impl counterfoil::native::machine::Gear for CutOff {
    fn objects(
        &self,
        plain: std::rc::Rc<dyn counterfoil::ports::Objects>,
    ) -> std::rc::Rc<dyn counterfoil::ports::Objects> {
        let cut_off = self.clone();
        std::rc::Rc::new(Reach { cut_off, plain })
    }
}

impl counterfoil::ports::Objects for Reach {
    fn ask(
        &self,
        object: counterfoil::ports::ObjectName,
        message: String,
    ) -> counterfoil::ports::Later<'_, Result<String, counterfoil::fault::Fault>> {
        let is_shard = matches!(object, counterfoil::ports::ObjectName::LedgerShard(_));
        if is_shard && self.cut_off.0.get() {
            let fault = counterfoil::fault::Fault::unavailable("ask a shard", "cut off");
            return Box::pin(async { Err(fault) });
        }
        self.plain.ask(object, message)
    }
}

#[test]
fn while_a_shard_cannot_say_what_it_delivered_nothing_is_written() {
    let cut_off = CutOff::default();
    let gear = std::rc::Rc::new(cut_off.clone());
    let machine = Machine::geared(&[], gear).expect("it starts");
    let agreement = account(&machine, "a");
    let bench = Bench { machine, agreement };
    bench.use_clicks("one", 10);
    bench.run("reporter");
    bench.move_meter(3);
    cut_off.0.set(true);
    let found = bench.run("reconciler");
    assert_eq!(
        (&found["incomplete"], &found["repaired"]),
        (&json!(2), &json!(0)),
        "{found}"
    );
    assert_eq!(bench.meter(), 3);
    assert_eq!(bench.evidence()[0]["verdict"], "incomplete");
    cut_off.0.set(false);
    assert_eq!(bench.run("reconciler")["repaired"], 1);
    assert_eq!(bench.meter(), 10);
}

/// Of what was checked, each pair has one place.
fn adds_up(found: &Value) -> bool {
    let count = |name: &str| found[name].as_i64().expect("a count");
    let places = [
        "matched",
        "repaired",
        "unreadable",
        "incomplete",
        "failed",
        "left",
    ];
    count("checked") == places.iter().map(|name| count(name)).sum::<i64>()
}

#[test]
fn every_checked_pair_has_one_place_in_the_summary() {
    // A total of somebody else: the item is open, nothing is written.
    let bench = Bench::new(&[]);
    bench.move_meter(77);
    bench.use_clicks("one", 5);
    bench.run("reporter");
    for _ in 0..2 {
        let found = bench.run("reconciler");
        assert_eq!((&found["matched"], &found["left"]), (&json!(1), &json!(1)));
        assert!(adds_up(&found), "{found}");
    }
    // Marked, and looked at without writing.
    let bench = Bench::new(&[]);
    bench.use_clicks("one", 5);
    let dry = bench.ok("POST", "/v1/run/reconciler", &json!({"dry_run": true}));
    assert_eq!((&dry["drifted"], &dry["left"]), (&json!(0), &json!(1)));
    assert!(adds_up(&dry), "{dry}");
    // Each fault of the provider, and what it leaves behind.
    for operation in ["meter_write", "meter_read"] {
        for mode in ["error", "timeout", "429", "garbage", "lost_answer", "late"] {
            let bench = reported(1000, &[]);
            bench.move_meter(574);
            bench.fault(operation, mode, 1);
            for _ in 0..3 {
                let found = bench.run("reconciler");
                assert!(adds_up(&found), "{operation} {mode}: {found}");
                bench.machine.advance(MINUTE);
            }
        }
    }
    // A closed cycle that got an entry too late.
    let bench = reported(1000, &[]);
    bench.use_clicks("late", 3);
    bench.machine.advance(30 * DAY);
    let found = bench.run("reconciler");
    assert!(found["left"].as_i64() >= Some(1), "{found}");
    assert!(adds_up(&found), "{found}");
}

#[test]
fn a_pair_whose_comparison_fails_is_counted_as_failed_alone() {
    let bench = reported(1000, &[]);
    bench.move_meter(574);
    run_sql(&bench.machine, "alter table evidence rename to gone");
    let found = bench.run("reconciler");
    assert!(found["failed"].as_i64() >= Some(1), "{found}");
    assert!(adds_up(&found), "{found}");
}

#[test]
fn a_dry_run_names_what_does_not_match() {
    let bench = reported(1000, &[]);
    let all = json!({"dry_run": true});
    let clean = bench.ok("POST", "/v1/run/reconciler", &all);
    assert_eq!(clean["differs"], json!([]));
    bench.move_meter(574);
    let agreement = bench.evidence()[0]["agreement_id"].clone();
    let pair = json!({"account": "a", "feature": "clicks", "cycle": "2026-11",
        "agreement_id": agreement, "ledger": 1000, "counters": 1000, "base": 0, "sent": 1000,
        "provider": 574, "verdict": "under_billed", "cause": "meter_moved_by_other"});
    for body in [all, json!({"dry_run": true, "account": "a"})] {
        let dry = bench.ok("POST", "/v1/run/reconciler", &body);
        assert_eq!(dry["differs"], json!([pair]), "{body}");
    }
    let real = bench.run("reconciler");
    assert!(real["differs"].is_null(), "it stands in the evidence");
}

#[test]
fn a_dry_run_names_at_most_a_hundred_pairs_and_counts_all() {
    let bench = Bench::new(&[]);
    for n in 0..102 {
        account(&bench.machine, &format!("many{n:03}"));
        let usage = json!({"key": "one", "feature": "clicks", "units": 7});
        bench.ok("POST", &format!("/v1/usage?account=many{n:03}"), &usage);
    }
    let (mut left, mut named) = (0, 0);
    loop {
        let dry = bench.ok("POST", "/v1/run/reconciler", &json!({"dry_run": true}));
        let differs = dry["differs"].as_array().expect("a list").len();
        assert!(differs <= 100, "{differs}");
        named += differs;
        left += dry["left"].as_i64().expect("a count");
        if dry["done"] == true {
            break;
        }
    }
    assert_eq!(left, 102);
    assert!(named >= 100, "{named}");
}

#[test]
fn a_dry_pass_of_several_runs_looks_at_everybody_and_the_next_one_too() {
    let bench = Bench::new(&[("CALLS_PER_RUN", "100")]);
    for n in 0..9 {
        account(&bench.machine, &format!("many{n}"));
    }
    for pass in 0..2 {
        let (mut runs, mut checked) = (0, 0);
        loop {
            let dry = bench.ok("POST", "/v1/run/reconciler", &json!({"dry_run": true}));
            checked += dry["checked"].as_i64().expect("a count");
            runs += 1;
            if dry["done"] == true {
                break;
            }
        }
        assert!(runs > 1, "one run has calls enough");
        assert_eq!(checked, 20, "pass {pass}");
    }
}
