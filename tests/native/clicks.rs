//! How clicks of one isolate reach the ledger: together, past dead shards, past a dead carrier, and
//! named in the log where nothing took them.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use counterfoil::fault::Fault;
use counterfoil::ledger::clicks::{Click, record};
use counterfoil::ledger::wire::Visitor;
use counterfoil::native::executor::block_on;
use counterfoil::native::faulty::{Faults, FaultyGear, Then, When};
use counterfoil::native::machine::{Gear, Machine};
use counterfoil::parallel;
use counterfoil::ports::{Db, Later, ObjectName, Objects};
use counterfoil::units::{AccountId, LinkCode};
use serde_json::json;

use super::feed::{assert_counters, entries, number};

/// What becomes of a message to a shard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Arrives,
    /// It never arrives, and the caller knows.
    Refused,
    /// It arrives, the answer is lost.
    AnswerLost,
}

/// Calls to shards that take a few turns, are counted, and may fail.
struct Slow {
    way: Cell<Way>,
    /// How many looks at the clock an answer takes.
    takes: Cell<u32>,
    asked: RefCell<Vec<String>>,
}

struct SlowGear(Rc<Slow>);

impl Gear for SlowGear {
    fn objects(&self, plain: Rc<dyn Objects>) -> Rc<dyn Objects> {
        Rc::new(SlowObjects(Rc::clone(&self.0), plain))
    }
}

struct SlowObjects(Rc<Slow>, Rc<dyn Objects>);

impl Objects for SlowObjects {
    fn ask(&self, object: ObjectName, message: String) -> Later<'_, Result<String, Fault>> {
        if !matches!(object, ObjectName::LedgerShard(_)) {
            return self.1.ask(object, message);
        }
        Box::pin(async move {
            self.0.asked.borrow_mut().push(object.name());
            turns(self.0.takes.get()).await;
            let way = self.0.way.get();
            if way == Way::Refused {
                return Err(Fault::unavailable("ask a shard", "it is away"));
            }
            let answer = self.1.ask(object, message).await;
            if way == Way::AnswerLost {
                return Err(Fault::unanswered("ask a shard", "no answer"));
            }
            answer
        })
    }
}

async fn turns(mut count: u32) {
    poll_fn(|_| {
        count -= 1;
        if count == 0 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

fn slow_machine(way: Way) -> (Machine, Rc<Slow>) {
    let slow = Rc::new(Slow {
        way: Cell::new(Way::Arrives),
        takes: Cell::new(4),
        asked: RefCell::default(),
    });
    let machine = Machine::geared(&[], Rc::new(SlowGear(Rc::clone(&slow)))).expect("it starts");
    let account = json!({"id": "a"});
    assert_eq!(
        machine
            .call("POST", "/v1/accounts", "dev-operator", &account)
            .0,
        201
    );
    slow.way.set(way);
    (machine, slow)
}

fn click(machine: &Machine) -> Click {
    Click {
        account_id: AccountId::new("a").unwrap(),
        code: LinkCode::new("x").unwrap(),
        at: machine.clock.0.get(),
        country: None,
        referrer_host: None,
        visitor: Visitor::default(),
        correction: Some(("bot", "list 1".to_owned())),
    }
}

fn clicks(machine: &Machine, count: usize) -> Vec<Later<'static, ()>> {
    let one = || -> Later<'static, ()> { Box::pin(record(machine.world(), click(machine))) };
    (0..count).map(|_| one()).collect()
}

fn tally(db: &dyn Db, name: &str) -> i64 {
    let sql = format!("select coalesce(sum(total), 0) as n from tally where name = '{name}'");
    number(db, &sql)
}

#[test]
fn clicks_that_arrive_while_a_write_is_under_way_travel_together() {
    let (machine, slow) = slow_machine(Way::Arrives);
    block_on(parallel::all(clicks(&machine, 50), 50));
    machine.advance(1000);
    assert_eq!(entries(&machine), 100, "fifty clicks and their corrections");
    let messages = slow.asked.borrow().len();
    assert!(messages <= 5, "{messages} messages");
    assert_counters(&machine);
}

#[test]
fn past_shards_that_are_away_a_click_goes_straight_into_the_ledger() {
    let (machine, slow) = slow_machine(Way::Refused);
    block_on(parallel::all(clicks(&machine, 3), 3));
    assert_eq!(entries(&machine), 6);
    let asked = slow.asked.borrow();
    assert_ne!(asked[0], asked[1], "the second try is to another shard");
    assert_eq!(tally(&machine.ledger, "counterfoil_clicks_direct_total"), 3);
    assert_counters(&machine);
}

#[test]
fn a_click_whose_every_answer_was_lost_is_still_one_entry() {
    let (machine, slow) = slow_machine(Way::AnswerLost);
    block_on(parallel::all(clicks(&machine, 3), 3));
    slow.way.set(Way::Arrives);
    machine.advance(1000);
    assert_eq!(
        entries(&machine),
        6,
        "two shards and the direct path brought each of them"
    );
    assert_counters(&machine);
}

/// L18: the patience of whoever watches ends long before the shard answers.
#[test]
fn a_storage_that_takes_ever_so_long_still_has_one_row_for_each_click() {
    let (machine, slow) = slow_machine(Way::Arrives);
    slow.takes.set(2000);
    block_on(parallel::all(clicks(&machine, 5), 5));
    let messages = slow.asked.borrow().len();
    assert!(
        messages >= 2,
        "one by who carried, one by who watched: {messages}"
    );
    machine.advance(1000);
    assert_eq!(entries(&machine), 10);
    assert_counters(&machine);
    let log = machine.log.0.borrow();
    assert!(log.iter().all(|(_, event, _)| !event.starts_with("click.")));
}

#[test]
fn when_the_carrier_is_gone_another_request_sends_all() {
    let (machine, _) = slow_machine(Way::Arrives);
    let mut works = clicks(&machine, 5);
    let mut context = Context::from_waker(Waker::noop());
    let mut go_on = || works.retain_mut(|work| work.as_mut().poll(&mut context).is_pending());
    // All five wait for one message; the request that carries it ends without a word.
    while machine.world().isolate.cycles.is_empty() {
        go_on();
    }
    go_on();
    // All of the others but one are gone as well.
    works.drain(..4);
    block_on(parallel::all(works, 1));
    machine.advance(1000);
    assert_eq!(entries(&machine), 10);
    assert_counters(&machine);
}

#[test]
fn what_nothing_took_is_logged_in_full_and_counted() {
    for (then, event, name) in [
        (
            When::Before,
            "click.doubtful",
            "counterfoil_clicks_doubtful_total",
        ),
        (
            When::After,
            "click.doubtful",
            "counterfoil_clicks_doubtful_total",
        ),
    ] {
        let faults = Rc::new(Faults::default());
        let gear = Rc::new(FaultyGear(Rc::clone(&faults)));
        let machine = Machine::geared(&[], gear).expect("it starts");
        let account = json!({"id": "a"});
        assert_eq!(
            machine
                .call("POST", "/v1/accounts", "dev-operator", &account)
                .0,
            201
        );
        // The click's cycle is known before everything stands still.
        block_on(record(machine.world(), click(&machine)));
        machine.advance(1000);
        faults.fail_at(1, then, Then::Stands);
        block_on(record(machine.world(), click(&machine)));
        faults.mend();
        let lines = machine.log.0.borrow();
        let line = lines.iter().find(|(_, said, _)| said == event);
        let (_, _, fields) = line.expect("it is in the log");
        assert_eq!(
            (&fields["click"]["account"], &fields["click"]["code"]),
            (&json!("a"), &json!("x"))
        );
        drop(lines);
        // The count that could not be written then travels with the next click.
        block_on(record(machine.world(), click(&machine)));
        machine.advance(1000);
        let counted = tally(&machine.ledger, name) + tally(&machine.control, name);
        assert_eq!(counted, 1);
        assert_eq!(entries(&machine), 4);
    }
}
