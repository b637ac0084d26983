//! Conditions that stand in the statement itself, for the moment between a decision and its write:
//! whatever has changed since then, the statement changes nothing.

use counterfoil::accounts::AnchorSource;
use counterfoil::cycle::Anchor;
use counterfoil::ledger::batch::{rows_json, statements};
use counterfoil::ledger::carry::look_at_closed;
use counterfoil::ledger::meter_store::{Pair, claim};
use counterfoil::ledger::totals::{ledger_total, rebuild, sums};
use counterfoil::native::executor::block_on;
use counterfoil::native::sqlite::Sqlite;
use counterfoil::plans::store::anchor_row;
use counterfoil::ports::{Db, Statement};
use counterfoil::units::{AccountId, CycleName, FeatureName, Millis};
use serde_json::json;

use crate::feed::click;
use crate::meters::{Bench, MINUTE};

fn sql(db: &Sqlite, sql: &str) {
    block_on(db.query(Statement::new(sql, vec![]))).expect(sql);
}

/// The last token that the ledger gave.
fn last_token(ledger: &Sqlite) -> String {
    let last = "select token from meter_token order by number desc limit 1";
    let rows = block_on(ledger.query(Statement::new(last, vec![]))).expect(last);
    rows[0].text("token").expect("a token").to_owned()
}

/// The account's clicks in its current cycle.
fn clicks_of(bench: &Bench) -> Pair {
    let account = bench.ok("GET", "/v1/accounts/a", &json!(null));
    let cycle = account["cycle"]["name"].as_str().expect("a cycle");
    Pair {
        account_id: AccountId::new("a").unwrap(),
        feature: FeatureName::new("clicks").unwrap(),
        cycle: CycleName::new(cycle).unwrap(),
    }
}

#[test]
fn a_meter_is_claimed_only_while_nothing_holds_it() {
    let bench = Bench::new(&[]);
    bench.use_clicks("k", 3);
    bench.machine.advance(MINUTE);
    bench.run("reporter");
    let ledger = &bench.machine.ledger;
    let pair = clicks_of(&bench);
    let now = bench.machine.clock.0.get();
    let known = last_token(ledger);
    let taken_of = |known: &str| {
        let rows = block_on(ledger.query(claim(&pair, 1, None, "mine", (now, known)))).unwrap();
        sql(
            ledger,
            "update meter set token = null, lease_until_ms = 0 where token = 'mine'",
        );
        rows.len()
    };
    let taken = || taken_of(&known);
    assert_eq!(taken(), 1, "nothing holds it");
    let later = now.after(1).get();
    for (what, hold, release) in [
        (
            "an item is open",
            "update meter set review_id = 'rev_1'".to_owned(),
            "update meter set review_id = null",
        ),
        (
            "another sender has it",
            format!("update meter set token = 'other', lease_until_ms = {later}"),
            "update meter set token = null",
        ),
        (
            "a later meter exists",
            "insert into meter (account_id, feature, cycle, number, agreement_id) \
             select account_id, feature, cycle, 2, 'other' from meter where feature = 'clicks'"
                .to_owned(),
            "delete from meter where number = 2",
        ),
        (
            "the provider asked us to wait",
            format!("update meter_run set not_before_ms = {later}"),
            "update meter_run set not_before_ms = 0",
        ),
    ] {
        sql(ledger, &hold);
        assert_eq!(taken(), 0, "{what}");
        sql(ledger, release);
        assert_eq!(taken(), 1, "no longer: {what}");
    }
    assert_eq!(taken_of("another"), 0, "the ledger was put back");
    // Whoever let a lease lapse may have written: the next one has it in doubt.
    let in_doubt = || {
        let rows = block_on(ledger.query(claim(&pair, 1, None, "mine", (now, &known)))).unwrap();
        rows[0].int("in_doubt").unwrap()
    };
    assert_eq!(in_doubt(), 0);
    let lapsed = format!(
        "update meter set token = 'gone', lease_until_ms = {}",
        now.get()
    );
    sql(ledger, &lapsed);
    assert_eq!(in_doubt(), 1);
}

#[test]
fn a_counter_whose_entries_were_dropped_is_never_rebuilt() {
    let bench = Bench::new(&[]);
    bench.use_clicks("k", 3);
    let (ledger, pair) = (&bench.machine.ledger, clicks_of(&bench));
    let now = bench.machine.clock.0.get();
    for (archived, total) in [(1, 7), (0, 3)] {
        let wrong = format!("update counter set total = 7, archived = {archived}");
        sql(ledger, &wrong);
        block_on(ledger.query(rebuild(&pair, now))).unwrap();
        let stands = block_on(ledger_total(ledger, &pair)).unwrap();
        assert_eq!(stands.get(), total, "archived {archived}");
    }
}

/// Goal: what a person leaves as it is of a closed cycle counts once.
/// Method: the cycle moves and is read again; before it is looked at, the older item is closed.
#[test]
fn a_closed_cycle_is_looked_at_only_as_it_was_read() {
    let bench = Bench::new(&[]);
    bench.use_clicks("one", 3);
    bench.run("reporter");
    bench.use_clicks("two", 2);
    let pair = clicks_of(&bench);
    let before = bench.machine.clock.0.get();
    bench.machine.advance(31 * 24 * 60 * MINUTE);
    bench.run("reconciler");
    let item = bench.reviews()[0].clone();
    assert_eq!(item["numbers"]["difference"], 2);
    let ledger = &bench.machine.ledger;
    // A shard delivers a click of that cycle late.
    let late = rows_json([&click("clk_late", before)]).unwrap();
    let now = bench.machine.clock.0.get();
    block_on(ledger.batch(statements(None, &late, &[], now))).unwrap();
    let read = block_on(sums(ledger, std::slice::from_ref(&pair), &[])).unwrap();
    let id = item["id"].as_str().expect("an id");
    let close = format!("/v1/review/{id}/close");
    bench.ok("POST", &close, &json!({"reason": "left"}));
    let world = bench.machine.world();
    let account = block_on(counterfoil::accounts::store::load(
        &*world.db,
        &pair.account_id,
    ));
    let anchors = account.unwrap().expect("the account").anchors;
    let cycle = counterfoil::ledger::billed::cycle_named(&anchors, &pair.cycle).expect("a cycle");
    let since = Some(Millis::ZERO);
    let look = |read| block_on(look_at_closed(&world, read, since, &cycle, false));
    assert!(look(&read[0]).is_err(), "it is not as it was read");
    assert_eq!(bench.reviews().len(), 0);
    bench.run("reconciler");
    assert_eq!(bench.reviews()[0]["numbers"]["difference"], 1);
}

#[test]
fn an_anchor_that_a_person_gave_or_that_is_fixed_is_moved_by_no_read() {
    for (starts_at, fix, moves) in [
        (None, "select 1", true),
        (None, "update anchor set fixed_at_ms = 1", false),
        (Some("2026-01-05T00:00:00Z"), "select 1", false),
    ] {
        let bench = Bench::new(&[]);
        if let Some(starts_at) = starts_at {
            bench.ok("PATCH", "/v1/accounts/a", &json!({"starts_at": starts_at}));
        }
        let control = &bench.machine.control;
        sql(control, fix);
        let anchor =
            |bench: &Bench| bench.ok("GET", "/v1/accounts/a", &json!(null))["anchor"]["at"].clone();
        let before = anchor(&bench);
        let read = Anchor {
            at: bench.machine.clock.0.get().after(-5 * 86_400_000),
            day: 7,
            opens: None,
        };
        let id = AccountId::new("a").unwrap();
        let row = anchor_row(&id, read, AnchorSource::Period);
        block_on(control.query(row)).unwrap();
        assert_eq!(anchor(&bench) != before, moves, "{starts_at:?} {fix}");
    }
}
