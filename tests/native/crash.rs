//! A crash at every statement: each statement of a click's way, of plain usage and of a correction fails
//! once, before and after it took effect, with the machine going on or standing still; started
//! again and asked again, everything is in the ledger exactly once.

use std::rc::Rc;

use counterfoil::ledger::wire::{ShardAsk, VERSION};
use counterfoil::native::executor::block_on;
use counterfoil::native::faulty::{Faults, FaultyGear, Then, When};
use counterfoil::native::machine::Machine;
use counterfoil::ports::{ObjectName, Objects};

use serde_json::json;

use super::feed::{assert_counters, click, entries, number, parcel, record, visit};

const OPERATOR: &str = "dev-operator";

fn geared(settings: &[(&str, &str)]) -> (Machine, Rc<Faults>) {
    let faults = Rc::new(Faults::default());
    let gear = Rc::new(FaultyGear(Rc::clone(&faults)));
    (Machine::geared(settings, gear).expect("it starts"), faults)
}

/// Two messages to a shard with a flush after each. Failures are what the test is about.
fn work(machine: &Machine) {
    let at = counterfoil::units::Millis::new(1_794_312_000_000);
    for round in 0..2 {
        let clicks = (0..3).map(|n| {
            let mut click = click(&format!("clk_{round}{n}"), at);
            click.country = Some("NZ".to_owned());
            let mut wire = parcel(&click);
            if n == 0 {
                wire.correction = Some(click.corrected_by_rule("bot", "list 1").wire());
            }
            wire
        });
        let _ = record(machine, clicks.collect());
        machine.advance(1000);
        assert_counters(machine);
    }
}

#[test]
fn a_crash_at_any_statement_loses_and_doubles_nothing() {
    let ways = [
        (&[][..], &[Then::Stands][..]),
        (
            &[("DOUBLE_CLICK_MS", "1000")][..],
            &[Then::GoesOn, Then::Stands][..],
        ),
    ];
    for (settings, follows) in ways {
        let (machine, faults) = geared(settings);
        faults.mend();
        work(&machine);
        let statements = faults.seen();
        assert_eq!(entries(&machine), 8);
        assert!(statements > 30, "{statements} statements were counted");
        for nth in 1..=statements {
            for when in [When::Before, When::After] {
                for then in follows {
                    crash(settings, nth, when, *then);
                }
            }
        }
    }
}

fn crash(settings: &[(&str, &str)], nth: u32, when: When, then: Then) {
    let said = format!("{settings:?}: statement {nth} failed {when:?}, then {then:?}");
    let (machine, faults) = geared(settings);
    faults.fail_at(nth, when, then);
    work(&machine);
    faults.mend();
    machine.objects.evict_all();
    work(&machine);
    machine.advance(120_000);
    let state = visit(&machine).unwrap_or_else(|fault| panic!("{said}: {fault}"));
    assert!(!state.waits && !state.is_behind(), "{said}: {state:?}");
    assert_eq!(entries(&machine), 8, "{said}");
    let total = "select total as n from counter";
    assert_eq!(number(&machine.ledger, total), 4, "{said}");
    assert_counters(&machine);
    let reviews = "select count(*) as n from review";
    assert_eq!(number(&machine.ledger, reviews), 0, "{said}");
    let epochs = "select count(*) as n from feed";
    assert_eq!(number(&machine.ledger, epochs), 1, "{said}");
}

const FACTS: &str = "/v1/usage?account=a";

/// A machine with the account `a` and one fact of ten clicks; gives the fact's id.
fn with_fact() -> (Machine, Rc<Faults>, String) {
    let (machine, faults) = geared(&[]);
    let body = json!({"id": "a"});
    assert_eq!(machine.call("POST", "/v1/accounts", OPERATOR, &body).0, 201);
    let fact = json!({"key": "k0", "feature": "clicks", "units": 10});
    let (status, body) = machine.call("POST", FACTS, OPERATOR, &fact);
    assert_eq!(status, 201, "{body}");
    let id = body["id"].as_str().unwrap().to_owned();
    faults.mend();
    (machine, faults, id)
}

/// Asks once with the nth statement failing, then again until it is answered; gives the statuses.
fn ask_through_a_failure(
    (machine, faults): (&Machine, &Faults),
    (target, body): (&str, &serde_json::Value),
    (nth, when): (u32, When),
) -> (u16, u16) {
    faults.fail_at(nth, when, Then::Stands);
    let (first, _) = machine.call("POST", target, OPERATOR, body);
    faults.mend();
    let (second, said) = machine.call("POST", target, OPERATOR, body);
    assert!(
        [200, 201].contains(&second),
        "statement {nth} failed {when:?}: {said}"
    );
    (first, second)
}

#[test]
fn usage_whose_answer_was_lost_is_recorded_once_and_answered_200_when_it_comes_again() {
    let (machine, faults, _) = with_fact();
    let items = json!({"items": [
        {"key": "k1", "feature": "clicks", "units": 1},
        {"key": "k2", "feature": "clicks", "units": 2},
    ]});
    faults.mend();
    assert_eq!(machine.call("POST", FACTS, OPERATOR, &items).0, 201);
    let statements = faults.seen();
    for nth in 1..=statements {
        for when in [When::Before, When::After] {
            let (machine, faults, _) = with_fact();
            let asked = (FACTS, &items);
            let (first, second) = ask_through_a_failure((&machine, &faults), asked, (nth, when));
            let was_written = when == When::After && nth == statements;
            if first == 503 && !was_written {
                assert_eq!(second, 201, "statement {nth} failed {when:?}");
            }
            assert_eq!(entries(&machine), 3);
            let total = "select total as n from counter";
            assert_eq!(number(&machine.ledger, total), 13);
        }
    }
}

#[test]
fn a_correction_and_its_audit_row_are_there_once_after_any_crash() {
    let (machine, faults, id) = with_fact();
    let ask = json!({"reason": "r", "units": 4});
    let target = format!("/v1/entries/{id}/correction?account=a");
    faults.mend();
    assert_eq!(machine.call("POST", &target, OPERATOR, &ask).0, 201);
    for nth in 1..=faults.seen() {
        for when in [When::Before, When::After] {
            let (machine, faults, id) = with_fact();
            let target = format!("/v1/entries/{id}/correction?account=a");
            ask_through_a_failure((&machine, &faults), (&target, &ask), (nth, when));
            assert_eq!(entries(&machine), 2, "statement {nth} failed {when:?}");
            let total = "select total as n from counter";
            assert_eq!(number(&machine.ledger, total), 6);
            let audit = "select count(*) as n from audit where action = 'entry.correct'";
            assert_eq!(
                number(&machine.control, audit),
                1,
                "statement {nth} failed {when:?}"
            );
        }
    }
}

/// A machine with the account `a` and its link `x`, whose cycle is not known to any isolate yet.
fn with_link() -> (Machine, Rc<Faults>) {
    let (machine, faults) = geared(&[]);
    let body = json!({"id": "a"});
    assert_eq!(machine.call("POST", "/v1/accounts", OPERATOR, &body).0, 201);
    let link = json!({"code": "x", "destination": "https://d.example/"});
    assert_eq!(
        machine
            .call("POST", "/v1/links?account=a", OPERATOR, &link)
            .0,
        201
    );
    faults.mend();
    (machine, faults)
}

/// Everything that waits in a shard goes to the ledger.
fn settle(machine: &Machine, faults: &Faults) {
    faults.mend();
    machine.objects.evict_all();
    for shard in 0..4 {
        let name = ObjectName::LedgerShard(shard);
        if machine.objects.storage(&name).is_some() {
            let message: ShardAsk = ShardAsk::TakeFeed {
                v: VERSION,
                shard,
                rows: Vec::new(),
            };
            let asked = machine.objects.ask(name, json!(message).to_string());
            block_on(asked).expect("it answers");
        }
    }
    assert_counters(machine);
}

#[test]
fn a_redirect_has_its_row_whatever_fails_once_and_at_most_one_whatever_stands() {
    let (machine, faults) = with_link();
    let visit = |machine: &Machine| machine.call("GET", "/x", "", &serde_json::Value::Null).0;
    assert_eq!(visit(&machine), 302);
    for nth in 1..=faults.seen() {
        for when in [When::Before, When::After] {
            let (machine, faults) = with_link();
            faults.fail_at(nth, when, Then::GoesOn);
            let status = visit(&machine);
            settle(&machine, &faults);
            let rows = i64::from(status == 302);
            assert_eq!(entries(&machine), rows, "statement {nth} failed {when:?}");

            let (machine, faults) = with_link();
            faults.fail_at(nth, when, Then::Stands);
            let status = visit(&machine);
            settle(&machine, &faults);
            let log = machine.log.0.borrow();
            let told = |(_, event, _): &&(_, String, _)| {
                event == "click.lost" || event == "click.doubtful"
            };
            let told = log.iter().filter(told).count();
            let kept = usize::try_from(entries(&machine)).unwrap();
            assert!(kept <= 1, "statement {nth} failed {when:?}");
            let answered = usize::from(status == 302);
            assert!(
                kept + told >= answered,
                "statement {nth} failed {when:?}: nobody knows"
            );
        }
    }
}
