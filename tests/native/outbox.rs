//! The object's side of a feed by itself: what is merged, what is frozen, what the ledger is told
//! of due times.

use std::rc::Rc;

use counterfoil::fault::Fault;
use counterfoil::ledger::feed::{COUNTED, Feed, STEP};
use counterfoil::ledger::outbox::Booking;
use counterfoil::ledger::review::{Review, ReviewKind};
use counterfoil::native::executor::block_on;
use counterfoil::native::machine::Machine;
use counterfoil::native::sqlite::Sqlite;
use counterfoil::object::Object;
use counterfoil::ports::{Alarm, Later, ObjectName, Sql, transact};
use counterfoil::units::{AccountId, CycleName, Delta, FeatureName, JobId, Millis};
use serde_json::json;

use super::feed::number;

struct NoAlarm;

impl Alarm for NoAlarm {
    fn set(&self, _at: Option<Millis>) -> Later<'_, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }
}

struct Account {
    machine: Machine,
    object: Object,
    feed: Rc<Feed>,
}

fn account() -> Account {
    let machine = Machine::new(&[]).expect("it starts");
    let object = Object {
        sql: Rc::new(Sqlite::memory().unwrap()),
        alarm: Rc::new(NoAlarm),
        world: machine.world(),
        memory: Rc::default(),
    };
    object.wake(&[STEP, COUNTED]).unwrap();
    let feed = Feed::new(object.clone());
    feed.tell_name(&ObjectName::Account(AccountId::new("a").unwrap()))
        .unwrap();
    Account {
        machine,
        object,
        feed,
    }
}

impl Account {
    fn book(&self, job: &str, cycle: u8, units: i64) {
        let booking = Booking {
            account_id: AccountId::new("a").unwrap(),
            job_id: JobId::new(job).unwrap(),
            feature: FeatureName::new("tokens").unwrap(),
            cycle: CycleName::of(2026, cycle, 1),
            units: Delta::new(units).unwrap(),
            at: self.now(),
        };
        transact(&*self.object.sql, || {
            self.feed.put_merged(&booking, self.now())
        })
        .unwrap();
    }

    fn now(&self) -> Millis {
        self.object.now().unwrap()
    }

    fn flush(&self) {
        block_on(self.feed.flush()).unwrap();
    }

    fn waiting(&self) -> i64 {
        let rows = Sql::query(&*self.object.sql, "select count(*) as n from outbox", &[]);
        rows.unwrap()[0].int("n").unwrap()
    }

    fn ledger(&self, sql: &str) -> i64 {
        number(&self.machine.ledger, sql)
    }
}

#[test]
fn bookings_of_one_job_feature_and_cycle_are_merged_until_they_are_frozen() {
    let account = account();
    for units in [5, 7, 1] {
        account.book("job_1", 11, units);
    }
    account.book("job_2", 11, 2);
    account.book("job_1", 12, 3);
    assert_eq!(account.waiting(), 3);
    account.flush();
    account.book("job_1", 11, 4);
    account.flush();
    assert_eq!(account.ledger("select count(*) as n from entry"), 4);
    let first = "select sum(units) as n from entry where job_id = 'job_1' and cycle = '2026-11'";
    assert_eq!(account.ledger(first), 17);
    let largest = "select max(units) as n from entry where job_id = 'job_1'";
    assert_eq!(account.ledger(largest), 13);
}

#[test]
fn a_booking_of_nothing_is_no_entry_and_one_that_cancels_another_stands_beside_it() {
    let account = account();
    account.book("job_1", 11, 0);
    assert_eq!(account.waiting(), 0);
    account.book("job_1", 11, 5);
    account.book("job_1", 11, -5);
    account.flush();
    assert_eq!(account.ledger("select count(*) as n from entry"), 2);
    assert_eq!(account.ledger("select total as n from counter"), 0);
}

#[test]
fn a_job_is_delivered_when_its_last_booking_is() {
    let account = account();
    let job = JobId::new("job_1").unwrap();
    assert!(
        account.feed.is_delivered(&job).unwrap(),
        "nothing was booked"
    );
    account.book("job_1", 11, 5);
    assert!(!account.feed.is_delivered(&job).unwrap());
    account.flush();
    assert!(account.feed.is_delivered(&job).unwrap());
    account.book("job_1", 11, 1);
    assert!(!account.feed.is_delivered(&job).unwrap());
}

#[test]
fn findings_and_sums_travel_with_the_batch_once() {
    let account = account();
    let late = json!({"units": 7});
    let item = Review::new(ReviewKind::LateUse, &["a", "job_1"], late, account.now());
    transact(&*account.object.sql, || {
        let item = item.of("a", Some("tokens"), Some("2026-11"));
        account.feed.put_review(&item, account.now())?;
        account.feed.put_review(&item, account.now())?;
        account
            .feed
            .count("counterfoil_admissions_total", 2, account.now())?;
        account
            .feed
            .count("counterfoil_admissions_total", 3, account.now())
    })
    .unwrap();
    account.flush();
    account.flush();
    assert_eq!(
        account.ledger("select count(*) as n from review where kind = 'late_use'"),
        1
    );
    let sum = "select total as n from tally where name = 'counterfoil_admissions_total'";
    assert_eq!(account.ledger(sum), 5);
    assert_eq!(account.ledger("select last as n from feed"), 1);
}

#[test]
fn an_idle_object_that_becomes_busy_tells_the_ledger_with_an_empty_batch() {
    let account = account();
    account.feed.announce().unwrap();
    account.machine.finish_background();
    assert_eq!(
        account.ledger("select count(*) as n from feed"),
        0,
        "there is nothing to tell"
    );
    let due = account.now().after(120_000);
    account.object.owe("lease", Some(due)).unwrap();
    account.feed.announce().unwrap();
    account.machine.finish_background();
    assert_eq!(account.ledger("select due_at_ms as n from feed"), due.get());
    // Later is told with whatever comes next, earlier at once.
    account
        .object
        .owe("lease", Some(due.after(60_000)))
        .unwrap();
    account.feed.announce().unwrap();
    account.machine.finish_background();
    assert_eq!(account.ledger("select last as n from feed"), 1);
    account
        .object
        .owe("lease", Some(due.after(-60_000)))
        .unwrap();
    account.feed.announce().unwrap();
    account.machine.finish_background();
    assert_eq!(
        account.ledger("select due_at_ms as n from feed"),
        due.get() - 60_000
    );
    account.object.owe("lease", None).unwrap();
    account.book("job_1", 11, 1);
    account.flush();
    let idle = "select count(*) as n from feed where due_at_ms is null";
    assert_eq!(account.ledger(idle), 1);
}

#[test]
fn a_due_time_that_has_passed_and_is_owed_no_more_is_taken_back() {
    let account = account();
    account
        .object
        .owe("lease", Some(account.now().after(1000)))
        .unwrap();
    account.flush();
    account.object.owe("lease", None).unwrap();
    account.flush();
    assert_eq!(
        account.ledger("select last as n from feed"),
        1,
        "it costs nothing until then"
    );
    account.machine.advance(1000);
    account.flush();
    assert_eq!(
        account.ledger("select count(*) as n from feed where due_at_ms is null"),
        1
    );
}

#[test]
fn only_the_present_life_of_an_object_owes_anything() {
    let before = account();
    before
        .object
        .owe("lease", Some(before.now().after(1000)))
        .unwrap();
    before.flush();
    let object = Object {
        sql: Rc::new(Sqlite::memory().unwrap()),
        ..before.object.clone()
    };
    object.wake(&[STEP, COUNTED]).unwrap();
    let after = Feed::new(object.clone());
    after
        .tell_name(&ObjectName::Account(AccountId::new("a").unwrap()))
        .unwrap();
    object.owe("lease", Some(before.now().after(5000))).unwrap();
    block_on(after.flush()).unwrap();
    let owed = "select count(*) as n from feed where due_at_ms is not null";
    assert_eq!(before.ledger(owed), 1);
    assert_eq!(before.ledger("select count(*) as n from feed"), 2);
}
