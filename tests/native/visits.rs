//! Whose object the reconciler wakes.
//!
//! Goal: an account that never had a job costs no visit, and every object that may owe the ledger
//! something is handed its feed rows, whichever database was put back, whatever crashed.
//! Method: the routes of the contract on a machine that notes whose object is handed its rows, and
//! that can lose admissions on their way.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use counterfoil::fault::Fault;
use counterfoil::native::executor::block_on;
use counterfoil::native::machine::{Gear, Machine};
use counterfoil::ports::{Db, Later, ObjectName, Objects, Signatures, Statement};
use counterfoil::units::AccountId;
use serde_json::{Value, json};

use crate::meters::{Bench, MINUTE, account};
use crate::quick::Hashes;

#[derive(Clone, Default)]
struct Notes {
    visited: Rc<RefCell<Vec<String>>>,
    loses_admissions: Rc<Cell<bool>>,
}

impl Gear for Notes {
    fn objects(&self, plain: Rc<dyn Objects>) -> Rc<dyn Objects> {
        Rc::new(Noted(self.clone(), plain))
    }

    fn signatures(&self) -> Rc<dyn Signatures> {
        Rc::new(Hashes::default())
    }
}

struct Noted(Notes, Rc<dyn Objects>);

impl Objects for Noted {
    fn ask(&self, object: ObjectName, message: String) -> Later<'_, Result<String, Fault>> {
        if matches!(object, ObjectName::Account(_)) && message.contains("take_feed") {
            self.0.visited.borrow_mut().push(object.name());
        }
        if message.contains("admit") && self.0.loses_admissions.get() {
            return Box::pin(async { Err(Fault::unavailable("ask an object", "it is lost")) });
        }
        self.1.ask(object, message)
    }
}

/// Accounts `a` and `b`, each with clicks that its meter was told.
fn stage() -> (Bench, Notes) {
    let notes = Notes::default();
    let machine = Machine::geared(&[], Rc::new(notes.clone())).expect("it starts");
    let agreement = account(&machine, "a");
    account(&machine, "b");
    let bench = Bench { machine, agreement };
    bench.use_clicks("one", 5);
    bench.run("reporter");
    (bench, notes)
}

fn job(bench: &Bench, key: &str) -> u16 {
    let job = json!({"key": key, "feature": "tokens", "hold": 50});
    bench.call("POST", "/v1/jobs?account=a", &job).0
}

/// A job that used ten tokens and is over, with its entry in the ledger.
fn whole_job(bench: &Bench, key: &str) {
    let job = json!({"key": key, "feature": "tokens", "hold": 50});
    let job = bench.ok("POST", "/v1/jobs?account=a", &job);
    let id = job["id"].as_str().expect("an id");
    let used = json!({"used": 10, "reason": "by hand"});
    bench.ok("POST", &format!("/v1/jobs/{id}/settle?account=a"), &used);
    bench.machine.advance(MINUTE);
}

/// Runs the reconciler; whom it visited.
fn visited(bench: &Bench, notes: &Notes) -> Vec<String> {
    notes.visited.take();
    bench.run("reconciler");
    notes.visited.take()
}

fn may_have_jobs(bench: &Bench) -> bool {
    let sql = "select may_have_jobs from account where account_id = 'a'";
    let rows = bench.machine.control.query(Statement::new(sql, vec![]));
    block_on(rows).expect("it reads")[0].int("may_have_jobs") == Ok(1)
}

fn tokens(bench: &Bench) -> Value {
    bench.ok("GET", "/v1/usage?account=a&feature=tokens", &Value::Null)["total"].clone()
}

#[test]
fn an_account_that_never_had_a_job_is_compared_without_a_visit() {
    let (bench, notes) = stage();
    assert!(!may_have_jobs(&bench));
    notes.visited.take();
    let found = bench.run("reconciler");
    assert_eq!(
        (&found["checked"], &found["matched"], &found["incomplete"]),
        (&json!(4), &json!(4), &json!(0)),
        "{found}"
    );
    assert_eq!(notes.visited.take(), Vec::<String>::new());
    let one = bench.ok("POST", "/v1/run/reconciler", &json!({"account": "a"}));
    assert_eq!(one["matched"], 2);
    assert_eq!(notes.visited.take(), Vec::<String>::new());
}

#[test]
fn from_its_first_admission_on_an_account_is_visited_also_where_the_admission_was_lost() {
    let (bench, notes) = stage();
    notes.loses_admissions.set(true);
    assert_eq!(job(&bench, "one"), 503);
    assert!(may_have_jobs(&bench), "before the object is asked");
    assert_eq!(visited(&bench, &notes), ["account/a"]);
    notes.loses_admissions.set(false);
    assert_eq!(job(&bench, "one"), 201);
    assert_eq!(visited(&bench, &notes), ["account/a"]);
}

/// `LEDGER_0` has forgotten the feed and does not know that it was put back: nothing but DB says
/// that there is an object that keeps what is lacking.
#[test]
fn what_a_forgotten_feed_brought_is_handed_in_again_because_the_control_database_knows_of_jobs() {
    let (bench, notes) = stage();
    let before = bench.machine.ledger.snapshot().expect("a copy");
    whole_job(&bench, "one");
    bench.machine.ledger.restore(&before).expect("put back");
    assert_eq!(tokens(&bench), 0);
    assert_eq!(visited(&bench, &notes), ["account/a"]);
    assert_eq!(tokens(&bench), 10);
}

#[test]
fn where_the_control_database_forgot_the_jobs_the_feed_tells_and_the_next_admission_says_it_again()
{
    let (bench, notes) = stage();
    let before = bench.machine.control.snapshot().expect("a copy");
    whole_job(&bench, "one");
    bench.machine.control.restore(&before).expect("put back");
    bench.machine.restart();
    assert!(!may_have_jobs(&bench));
    assert_eq!(visited(&bench, &notes), ["account/a"], "it has a feed");
    assert_eq!(job(&bench, "two"), 201);
    assert!(may_have_jobs(&bench));
}

/// Both forgot, each at its own time, and `LEDGER_0` is known to be the older one.
#[test]
fn after_a_restore_everybody_is_visited_whatever_is_known_of_jobs() {
    let (bench, notes) = stage();
    let copies = [&bench.machine.ledger, &bench.machine.control]
        .map(|database| database.snapshot().expect("a copy"));
    whole_job(&bench, "one");
    bench.machine.ledger.restore(&copies[0]).expect("put back");
    bench.machine.control.restore(&copies[1]).expect("put back");
    bench.machine.restart();
    let ahead = "update cron set number = number + 1 where name = 'reporter'";
    let ahead = bench.machine.control.query(Statement::new(ahead, vec![]));
    block_on(ahead).expect("it runs");
    assert_eq!(bench.run("reporter")["restored"], true);
    assert_eq!(visited(&bench, &notes), ["account/a", "account/b"]);
    assert_eq!(tokens(&bench), 10);
    assert_eq!(bench.run("reporter")["restored"], false);
    assert_eq!(visited(&bench, &notes), ["account/a"], "its feed is back");
}

/// A release that knows nothing of jobs in DB makes rows without saying anything of them.
#[test]
fn an_account_of_an_older_release_is_visited() {
    let (bench, notes) = stage();
    let id = AccountId::new("c").expect("an id");
    let rows = [
        "insert into account (account_id, plan, created_with, created_at_ms) \
         values ('c', 'free', '{}', 0)",
        "insert into anchor (account_id, number, at_ms, day, source) \
         values ('c', 1, 0, 1, 'calendar_month')",
    ];
    let rows = rows.map(|sql| Statement::new(sql, vec![])).to_vec();
    block_on(bench.machine.control.batch(rows)).expect("it is made");
    assert_eq!(visited(&bench, &notes), [ObjectName::Account(id).name()]);
}
