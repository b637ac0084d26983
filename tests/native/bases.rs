//! The base of a cycle's current meter: agreements that are replaced and taken up again, periods
//! that begin anew, and doubts that no read can end.
//!
//! Goal: the meters of a cycle add up to the ledger, nobody is asked without need, and what nobody
//! can know is asked.
//! Method: the routes of the contract on a whole native machine; then the same with a failure at
//! each statement.

use std::rc::Rc;

use counterfoil::native::faulty::{Faults, FaultyGear, Then, When};
use counterfoil::native::machine::Machine;
use counterfoil::native::sqlite::Sqlite;
use counterfoil::ports::ObjectName;
use serde_json::{Value, json};

use crate::meters::{Bench, MINUTE, account, meter_of};
use crate::quick::QuickAndFaulty;

fn put(bench: &Bench, fields: &Value) -> Value {
    let set = bench.ok("PUT", "/standin/customers/customer_a", fields);
    bench.machine.advance(MINUTE);
    bench.ok("POST", "/v1/account/sync?account=a", &json!({}));
    set
}

/// The customer changes to that plan, under that agreement or a new one; gives the agreement.
fn change(bench: &Bench, plan: &str, agreement: Option<&str>) -> String {
    let mut fields = json!({"plan": plan});
    if let Some(id) = agreement {
        fields["agreement_id"] = json!(id);
    }
    let set = put(bench, &fields);
    set["agreement_id"].as_str().expect("one").to_owned()
}

fn use_and_report(bench: &Bench, key: &str, units: i64) {
    bench.use_clicks(key, units);
    bench.machine.advance(MINUTE);
    bench.run("reporter");
}

fn holds(bench: &Bench, agreement: &str) -> i64 {
    meter_of(&bench.machine, agreement)
}

fn sum_of(bench: &Bench, agreements: &[&str]) -> i64 {
    agreements.iter().map(|id| holds(bench, id)).sum()
}

/// The ledger's total of clicks in the running cycle.
fn ledger(bench: &Bench) -> i64 {
    bench.meters()[0]["ledger"].as_i64().expect("a total")
}

#[test]
fn an_agreement_taken_up_again_is_the_same_meter_and_all_add_up_to_the_ledger() {
    let bench = Bench::new(&[]);
    let first = bench.agreement.clone();
    use_and_report(&bench, "one", 100);
    let second = change(&bench, "pro", None);
    use_and_report(&bench, "two", 20);
    assert_eq!((holds(&bench, &first), holds(&bench, &second)), (100, 20));
    assert_eq!(change(&bench, "free", Some(&first)), first);
    let dry = bench.ok("POST", "/v1/run/reconciler", &json!({"dry_run": true}));
    assert_eq!(dry["drifted"], 0, "nobody has moved anything: {dry}");
    use_and_report(&bench, "three", 5);
    assert_eq!((holds(&bench, &first), holds(&bench, &second)), (105, 20));
    assert_eq!(
        bench.reviews(),
        Vec::<Value>::new(),
        "its own total is not foreign"
    );
    let meters = bench.meters();
    let rows: Vec<_> = meters
        .iter()
        .map(|row| {
            (
                row["agreement_id"].as_str().unwrap(),
                &row["base"],
                &row["sent"],
            )
        })
        .collect();
    let (hundred, twenty, last) = (json!(100), json!(20), json!(105));
    assert_eq!(
        rows,
        [
            (second.as_str(), &hundred, &twenty),
            (first.as_str(), &twenty, &last)
        ]
    );
    assert!(!bench.marked());
    let found = bench.run("reconciler");
    assert_eq!(
        (&found["matched"], &found["drifted"]),
        (&json!(2), &json!(0))
    );
    // To and fro once more, and on to a third.
    change(&bench, "pro", Some(&second));
    use_and_report(&bench, "four", 3);
    assert_eq!((holds(&bench, &first), holds(&bench, &second)), (105, 23));
    let third = change(&bench, "free", None);
    use_and_report(&bench, "five", 7);
    assert_eq!(holds(&bench, &third), 7);
    assert_eq!(sum_of(&bench, &[&first, &second, &third]), 135);
    assert_eq!(ledger(&bench), 135);
    assert_eq!(bench.run("reconciler")["matched"], 2);
    assert_eq!((bench.meters().len(), bench.reviews().len()), (3, 0));
    // Once the cycle is over its meters are still its entries.
    bench.machine.advance(31 * 24 * 60 * MINUTE);
    assert_eq!(bench.run("reconciler")["drifted"], 0);
    assert_eq!(bench.reviews(), Vec::<Value>::new());
}

#[test]
fn a_replaced_meter_that_only_the_reconciler_has_written_is_marked_as_any_other() {
    let bench = Bench::new(&[]);
    bench.use_clicks("one", 100);
    assert_eq!(bench.run("reconciler")["repaired"], 1);
    let second = change(&bench, "pro", None);
    bench.run("reporter");
    let meters = bench.meters();
    assert_eq!(
        (&meters[1]["agreement_id"], &meters[1]["base"]),
        (&json!(second), &json!(100))
    );
}

#[test]
fn what_a_replaced_meter_is_moved_to_before_it_is_taken_up_again_is_repaired() {
    let bench = Bench::new(&[]);
    let first = bench.agreement.clone();
    use_and_report(&bench, "one", 100);
    let second = change(&bench, "pro", None);
    use_and_report(&bench, "two", 20);
    bench.move_meter(70);
    change(&bench, "free", Some(&first));
    let found = bench.run("reconciler");
    assert_eq!(
        (&found["repaired"], &found["failed"]),
        (&json!(1), &json!(0)),
        "{found}"
    );
    assert_eq!((holds(&bench, &first), holds(&bench, &second)), (100, 20));
    assert!(bench.reviews().is_empty());
}

/// A machine that may fail, with what it stores put back as often as one likes.
struct Stage {
    bench: Bench,
    faults: Rc<Faults>,
    saved: Vec<Sqlite>,
}

impl Stage {
    /// The machine as `prepare` leaves it.
    fn new(prepare: impl FnOnce(&Bench)) -> Self {
        let faults = Rc::new(Faults::default());
        let gear = Rc::new(QuickAndFaulty(FaultyGear(Rc::clone(&faults))));
        let machine = Machine::geared(&[], gear).expect("it starts");
        let agreement = account(&machine, "a");
        let bench = Bench { machine, agreement };
        prepare(&bench);
        let mut stage = Self {
            bench,
            faults,
            saved: Vec::new(),
        };
        let save = |db: &Sqlite| db.snapshot().expect("a copy");
        stage.saved = stage.stored().iter().map(save).collect();
        stage
    }

    fn stored(&self) -> [Sqlite; 3] {
        let machine = &self.bench.machine;
        let standin = machine.objects.storage(&ObjectName::StandIn);
        let standin = standin.expect("it is there");
        [machine.control.clone(), machine.ledger.clone(), standin]
    }

    fn put_back(&self) {
        self.faults.mend();
        for (db, saved) in self.stored().iter().zip(&self.saved) {
            db.restore(saved).expect("it is put back");
        }
        self.bench.machine.restart();
    }

    /// Does `work` with a failure at each of its statements, then lets `look` see what is left
    /// after a restart.
    fn fail_everywhere(&self, work: impl Fn(&Bench), look: impl Fn(&Bench, &str)) {
        self.put_back();
        work(&self.bench);
        let statements = self.faults.seen();
        assert!(statements > 10, "{statements} statements were counted");
        look(&self.bench, "no failure");
        for nth in 1..=statements {
            // Standing still before a statement is standing still after the one before it.
            for (when, then) in [(When::Before, Then::GoesOn), (When::After, Then::Stands)] {
                self.put_back();
                self.faults.fail_at(nth, when, then);
                work(&self.bench);
                self.faults.mend();
                self.bench.machine.restart();
                let said = format!("statement {nth} failed {when:?}, then {then:?}");
                look(&self.bench, &said);
            }
        }
    }
}

/// Asks for a run whatever comes of it: failures are what the test is about.
fn try_run(bench: &Bench, job: &str) {
    let _ = bench.call("POST", &format!("/v1/run/{job}"), &json!({}));
}

#[test]
fn a_failure_anywhere_while_an_agreement_is_taken_up_again_doubles_and_asks_nothing() {
    let stage = Stage::new(|bench| {
        use_and_report(bench, "one", 100);
        let second = change(bench, "pro", None);
        use_and_report(bench, "two", 20);
        assert_eq!(holds(bench, &second), 20);
        let first = bench.agreement.clone();
        change(bench, "free", Some(&first));
        bench.use_clicks("three", 5);
    });
    for job in ["reporter", "reconciler"] {
        stage.fail_everywhere(
            |bench| try_run(bench, job),
            |bench, said| {
                bench.heal();
                bench.machine.advance(2 * MINUTE);
                let rows = bench.meters();
                let meters: i64 = rows
                    .iter()
                    .map(|row| holds(bench, row["agreement_id"].as_str().unwrap()))
                    .sum();
                assert_eq!((rows.len(), meters), (2, 125), "{job}: {said}");
                assert_eq!(bench.meter(), 105, "{job}: {said}");
                assert_eq!(bench.run("reconciler")["matched"], 2, "{job}: {said}");
                assert_eq!(bench.reviews(), Vec::<Value>::new(), "{job}: {said}");
            },
        );
    }
}

/// Ten clicks told; then a write of five more whose outcome nobody knows, and a new period of the
/// same agreement, so that nobody can ever ask.
fn doubtful(bench: &Bench) {
    use_and_report(bench, "one", 10);
    bench.fault("meter_write", "lost_answer", 1);
    use_and_report(bench, "two", 5);
    assert_eq!(bench.meter(), 15, "it took effect");
    put(
        bench,
        &json!({"period_start": "2026-11-05T00:00:00Z",
        "period_end": "2026-12-01T00:00:00Z"}),
    );
    bench.machine.advance(2 * MINUTE);
    assert_eq!(bench.meter(), 0, "the period began anew");
}

#[test]
fn a_doubt_that_no_read_can_end_is_asked_once_and_closing_it_lets_the_meter_be_written() {
    let bench = Bench::new(&[]);
    doubtful(&bench);
    for _ in 0..3 {
        bench.machine.advance(MINUTE);
        bench.run("reporter");
        bench.run("reconciler");
        assert_eq!(bench.meter(), 0, "nothing is written over a doubt");
    }
    let reviews = bench.reviews();
    assert_eq!(reviews.len(), 1, "{reviews:?}");
    assert_eq!(reviews[0]["kind"], "base_in_doubt");
    assert_eq!(
        (
            &reviews[0]["account"],
            &reviews[0]["feature"],
            &reviews[0]["cycle"]
        ),
        (&json!("a"), &json!("clicks"), &json!("2026-11"))
    );
    assert_eq!(
        reviews[0]["numbers"],
        json!({"agreement_id": bench.agreement, "last_known": 10, "ledger": 15,
            "period_starts_at": "2026-11-01T00:00:00.000Z"})
    );
    let last = bench.meters().pop().expect("a meter");
    assert_eq!(last["last_report"]["outcome"], "base_in_doubt");
    let target = format!("/v1/review/{}/close", reviews[0]["id"].as_str().unwrap());
    let reason = json!({"reason": "the provider says ten"});
    assert_eq!(bench.ok("POST", &target, &reason)["state"], "closed");
    assert_eq!(bench.ok("POST", &target, &reason)["state"], "closed");
    use_and_report(&bench, "three", 1);
    assert_eq!(
        bench.meter(),
        6,
        "what the old period is last known to hold is its part"
    );
    let meters = bench.meters();
    assert_eq!(
        (&meters[1]["base"], &meters[1]["sent"]),
        (&json!(10), &json!(6))
    );
    assert!(!bench.marked());
    assert_eq!(bench.run("reconciler")["matched"], 2);
    assert!(bench.reviews().is_empty());
}

#[test]
fn a_failure_anywhere_while_a_doubt_is_asked_or_closed_leaves_one_item_and_one_write() {
    let asking = Stage::new(|bench| {
        doubtful(bench);
        bench.machine.advance(MINUTE);
    });
    for job in ["reporter", "reconciler"] {
        asking.fail_everywhere(
            |bench| try_run(bench, job),
            |bench, said| {
                for _ in 0..2 {
                    bench.machine.advance(2 * MINUTE);
                    bench.run("reporter");
                }
                assert_eq!(bench.reviews().len(), 1, "{job}: {said}");
                assert_eq!(bench.meter(), 0, "{job}: {said}");
            },
        );
    }
    let closing = Stage::new(|bench| {
        doubtful(bench);
        bench.run("reporter");
    });
    let close = |bench: &Bench| {
        let rows = bench.reviews();
        let Some(item) = rows.first() else { return };
        let target = format!("/v1/review/{}/close", item["id"].as_str().unwrap());
        bench.call("POST", &target, &json!({"reason": "known by telephone"}));
    };
    let id = closing.bench.reviews()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let close_it = |bench: &Bench| {
        let target = format!("/v1/review/{id}/close");
        let _ = bench.call("POST", &target, &json!({"reason": "known by telephone"}));
        try_run(bench, "reporter");
    };
    closing.fail_everywhere(close_it, |bench, said| {
        close(bench);
        bench.heal();
        assert_eq!(bench.meter(), 5, "{said}");
        assert!(bench.reviews().is_empty(), "{said}");
        assert_eq!(bench.run("reconciler")["matched"], 2, "{said}");
    });
}

#[test]
fn a_doubt_that_a_read_may_end_waits_for_it_and_is_asked_after_an_hour() {
    let bench = Bench::new(&[]);
    use_and_report(&bench, "one", 10);
    bench.fault("meter_write", "lost_answer", 1);
    use_and_report(&bench, "two", 5);
    let second = change(&bench, "pro", None);
    let unreadable = json!({"operation": "meter_read", "mode": "error"});
    bench.ok("PUT", "/standin/faults", &unreadable);
    for _ in 0..58 {
        bench.machine.advance(MINUTE);
        bench.run("reporter");
    }
    assert!(bench.reviews().is_empty(), "an hour is not over");
    for _ in 0..4 {
        bench.machine.advance(MINUTE);
        bench.run("reporter");
    }
    assert_eq!(bench.reviews().len(), 1);
    assert_eq!(bench.reviews()[0]["kind"], "base_in_doubt");
    assert_eq!(holds(&bench, &second), 0);
    // The other way round: a read that works again in time asks nobody.
    let bench = Bench::new(&[]);
    use_and_report(&bench, "one", 10);
    bench.fault("meter_write", "lost_answer", 1);
    use_and_report(&bench, "two", 5);
    let second = change(&bench, "pro", None);
    bench.ok("PUT", "/standin/faults", &unreadable);
    bench.machine.advance(2 * MINUTE);
    bench.run("reporter");
    assert_eq!(holds(&bench, &second), 0);
    bench.ok(
        "PUT",
        "/standin/faults",
        &json!({"operation": "meter_read", "mode": "ok"}),
    );
    use_and_report(&bench, "three", 4);
    assert_eq!((bench.meter(), holds(&bench, &second)), (15, 4));
    assert!(bench.reviews().is_empty());
}

#[test]
fn an_agreement_that_is_taken_up_again_while_its_own_write_was_in_doubt_asks_nobody() {
    let bench = Bench::new(&[]);
    let first = bench.agreement.clone();
    use_and_report(&bench, "one", 10);
    bench.fault("meter_write", "late", 1);
    use_and_report(&bench, "two", 5);
    let second = change(&bench, "pro", None);
    change(&bench, "free", Some(&first));
    bench.heal();
    assert_eq!((bench.meter(), holds(&bench, &second)), (15, 0));
    assert!(bench.reviews().is_empty());
    assert_eq!(bench.run("reconciler")["matched"], 2);
}

#[test]
fn a_replaced_agreement_is_not_read_for_the_meter_of_its_earlier_period() {
    let bench = Bench::new(&[]);
    let first = bench.agreement.clone();
    use_and_report(&bench, "one", 100);
    // Its period begins anew inside the cycle, and nothing is reported before it is replaced: what
    // it is read as from now on is the later period's total.
    put(
        &bench,
        &json!({"period_start": "2026-11-10T12:01:30Z", "period_end": "2026-12-01T00:00:00Z"}),
    );
    let second = change(&bench, "pro", None);
    assert_eq!(holds(&bench, &first), 0);
    use_and_report(&bench, "two", 20);
    assert_eq!(holds(&bench, &second), 20);
    let meters = bench.meters();
    let current = meters
        .iter()
        .find(|row| row["agreement_id"] == second.as_str());
    assert_eq!(current.expect("one")["base"], 100);
    assert_eq!(ledger(&bench), 120);
    assert!(bench.reviews().is_empty());
}

#[test]
fn a_total_that_was_confirmed_after_the_next_period_had_begun_is_asked_about() {
    let bench = Bench::new(&[]);
    use_and_report(&bench, "one", 100);
    // The period begins anew and we do not know it yet: what is sent now is booked to the new one.
    let fields =
        json!({"period_start": "2026-11-10T12:01:30Z", "period_end": "2026-12-01T00:00:00Z"});
    bench.ok("PUT", "/standin/customers/customer_a", &fields);
    use_and_report(&bench, "two", 5);
    assert_eq!(bench.meter(), 105);
    bench.ok("POST", "/v1/account/sync?account=a", &json!({}));
    use_and_report(&bench, "three", 1);
    let reviews = bench.reviews();
    assert_eq!(
        (reviews.len(), &reviews[0]["kind"]),
        (1, &json!("base_in_doubt"))
    );
    assert_eq!(
        bench.meter(),
        105,
        "nothing is sent before a person has looked"
    );
    let target = format!(
        "/v1/review/{}/close",
        reviews[0]["id"].as_str().expect("an id")
    );
    bench.ok(
        "POST",
        &target,
        &json!({"reason": "five are in the new period"}),
    );
    bench.run("reporter");
    assert_eq!(
        bench.reviews()[0]["kind"],
        "foreign_total",
        "asked once, and not again"
    );
}

/// Somebody writes the meter of an agreement that nobody of ours has met, which then is replaced.
fn written_by_another(units: i64) -> (Bench, String, String) {
    let bench = Bench::new(&[]);
    let first = bench.agreement.clone();
    bench.move_meter(units);
    let second = change(&bench, "pro", None);
    (bench, first, second)
}

#[test]
fn a_replaced_agreement_whose_meter_was_never_met_is_part_of_the_base() {
    let (bench, first, second) = written_by_another(7);
    use_and_report(&bench, "one", 20);
    assert_eq!((holds(&bench, &first), holds(&bench, &second)), (7, 13));
    assert_eq!(bench.run("reconciler")["matched"], 2);
    assert_eq!((bench.meters().len(), bench.reviews().len()), (2, 0));
    // Taken up again it is a meter that somebody else wrote.
    change(&bench, "free", Some(&first));
    use_and_report(&bench, "two", 5);
    let reviews = bench.reviews();
    assert_eq!(reviews[0]["kind"], "foreign_total");
    let id = reviews[0]["id"].as_str().expect("an id");
    let why = json!({"reason": "a mistake"});
    bench.ok("POST", &format!("/v1/review/{id}/close"), &why);
    bench.heal();
    assert_eq!((holds(&bench, &first), holds(&bench, &second)), (12, 13));
    assert_eq!(bench.run("reconciler")["matched"], 2);
}

#[test]
fn what_somebody_else_wrote_to_a_replaced_agreement_is_found_also_where_nothing_was_used() {
    let (bench, first, second) = written_by_another(7);
    let found = bench.run("reconciler");
    assert_eq!(
        (&found["drifted"], &found["matched"]),
        (&json!(1), &json!(1)),
        "{found}"
    );
    assert_eq!(bench.evidence()[0]["verdict"], "over_billed");
    assert_eq!(bench.evidence()[0]["base"], 7);
    use_and_report(&bench, "one", 20);
    assert_eq!((holds(&bench, &first), holds(&bench, &second)), (7, 13));
    assert_eq!(bench.run("reconciler")["matched"], 2);
}

#[test]
fn a_meter_that_was_never_met_is_waited_for_while_it_cannot_be_read() {
    let (bench, first, second) = written_by_another(7);
    bench.fault("meter_read", "error", 2);
    use_and_report(&bench, "one", 20);
    assert_eq!(holds(&bench, &second), 0, "its base is not known");
    bench.heal();
    assert_eq!((holds(&bench, &first), holds(&bench, &second)), (7, 13));
    assert!(bench.reviews().is_empty());
}

#[test]
fn a_meter_that_was_never_met_and_cannot_be_read_for_an_hour_is_asked_about_once() {
    let (bench, _, second) = written_by_another(7);
    bench.fault("meter_read", "error", 1_000);
    bench.use_clicks("one", 20);
    for _ in 0..70 {
        bench.machine.advance(MINUTE);
        bench.run("reporter");
    }
    let reviews = bench.reviews();
    assert_eq!(
        (reviews.len(), &reviews[0]["kind"]),
        (1, &json!("base_in_doubt"))
    );
    let target = format!(
        "/v1/review/{}/close",
        reviews[0]["id"].as_str().expect("an id")
    );
    bench.ok("POST", &target, &json!({"reason": "nobody else writes it"}));
    bench.machine.advance(MINUTE);
    bench.run("reporter");
    assert!(bench.reviews().is_empty(), "asked once, and not again");
    bench.fault("meter_read", "ok", 1);
    bench.heal();
    assert_eq!(holds(&bench, &second), 13, "now it can be read");
}

#[test]
fn a_failure_anywhere_while_a_meter_that_was_never_met_is_found_bills_nothing_twice() {
    let stage = Stage::new(|bench| {
        bench.move_meter(7);
        change(bench, "pro", None);
        bench.use_clicks("one", 20);
    });
    for job in ["reporter", "reconciler"] {
        stage.fail_everywhere(
            |bench| try_run(bench, job),
            |bench, said| {
                bench.heal();
                let rows = bench.meters();
                assert_eq!(rows.len(), 2, "{job}: {said}");
                let second = rows[1]["agreement_id"].as_str().expect("an agreement");
                assert_eq!(
                    (bench.meter(), holds(bench, second)),
                    (7, 13),
                    "{job}: {said}"
                );
                assert_eq!(bench.run("reconciler")["matched"], 2, "{job}: {said}");
                assert_eq!(bench.reviews(), Vec::<Value>::new(), "{job}: {said}");
            },
        );
    }
}
