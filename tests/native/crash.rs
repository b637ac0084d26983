//! A crash at every statement: each statement of a click's way fails once, before and after it
//! took effect, with the machine going on or standing still; started again and asked again, every
//! click is in the ledger exactly once.

use std::rc::Rc;

use counterfoil::native::faulty::{Faults, FaultyGear, Then, When};
use counterfoil::native::machine::Machine;

use super::feed::{assert_counters, click, entries, number, parcel, record, visit};

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
