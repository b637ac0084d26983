//! Two quick clicks of a visitor while shards lose their answers: one of them counts.

use std::cell::RefCell;
use std::rc::Rc;

use counterfoil::fault::Fault;
use counterfoil::native::executor::block_on;
use counterfoil::native::hashes::Hashes;
use counterfoil::native::machine::{Gear, Machine};
use counterfoil::ports::{Later, ObjectName, Objects, Signatures, Sql};
use serde_json::{Value, json};

use crate::meters::{OPERATOR, account};

/// Messages that are held back, with whom they are for.
type Held = Rc<RefCell<Vec<(ObjectName, String)>>>;

/// The shard that is asked first does what it is asked, and its answer is lost; what is then sent
/// to the other one arrives only when it is let through.
#[derive(Default, Clone)]
struct LossyGear {
    first: Rc<RefCell<Option<ObjectName>>>,
    held: Held,
}

impl Gear for LossyGear {
    fn signatures(&self) -> Rc<dyn Signatures> {
        Rc::new(Hashes::default())
    }

    fn objects(&self, plain: Rc<dyn Objects>) -> Rc<dyn Objects> {
        Rc::new(Lossy(self.clone(), plain))
    }
}

struct Lossy(LossyGear, Rc<dyn Objects>);

impl Objects for Lossy {
    fn ask(&self, object: ObjectName, message: String) -> Later<'_, Result<String, Fault>> {
        if !matches!(object, ObjectName::LedgerShard(_)) || !message.contains("record") {
            return self.1.ask(object, message);
        }
        Box::pin(async move {
            let first = self
                .0
                .first
                .borrow_mut()
                .get_or_insert(object.clone())
                .clone();
            if object == first {
                self.1.ask(object, message).await?;
            } else {
                self.0.held.borrow_mut().push((object, message));
            }
            Err(Fault::unanswered("ask a shard", "its answer is lost"))
        })
    }
}

/// Lets every message through, and keeps what was told to shards.
#[derive(Default, Clone)]
struct Kept(Held);

impl Gear for Kept {
    fn signatures(&self) -> Rc<dyn Signatures> {
        Rc::new(Hashes::default())
    }

    fn objects(&self, plain: Rc<dyn Objects>) -> Rc<dyn Objects> {
        Rc::new(Keeping(self.clone(), plain))
    }
}

struct Keeping(Kept, Rc<dyn Objects>);

impl Objects for Keeping {
    fn ask(&self, object: ObjectName, message: String) -> Later<'_, Result<String, Fault>> {
        if message.contains("record") {
            let kept = (object.clone(), message.clone());
            self.0.0.borrow_mut().push(kept);
        }
        self.1.ask(object, message)
    }
}

/// Goal: a click that comes again is never a double click of itself.
/// Method: the shard's alarm is lost, so that it forgets the click's id, by the sweeper's visit,
/// before it forgets the visitor; then the click's message comes again.
#[test]
fn a_click_that_comes_again_a_day_later_is_no_second_click_of_its_visitor() {
    let gear = Kept::default();
    let settings = [("DOUBLE_CLICK_MS", "60000"), ("SHARDS", "1")];
    let machine = Machine::geared(&settings, Rc::new(gear.clone())).expect("it starts");
    account(&machine, "a");
    let link = json!({"code": "x", "destination": "https://d.example/"});
    machine.call("POST", "/v1/links?account=a", OPERATOR, &link);
    // The last batch is never forgotten, so another click follows.
    for wait_ms in [70_000, 10_000] {
        assert_eq!(machine.call("GET", "/x", "", &Value::Null).0, 302);
        machine.advance(wait_ms);
    }
    let (shard, message) = gear.0.borrow().first().cloned().expect("a click");
    machine.objects.lose_alarm(&shard);
    let now = machine.clock.0.get();
    machine.clock.0.set(now.after(25 * 3_600_000));
    machine.call("POST", "/v1/run/sweeper", OPERATOR, &json!({}));
    block_on(machine.objects.ask(shard, message)).expect("it takes it");
    machine.advance(60_000);
    let sum = "select sum(units) as units, count(*) as n from entry where feature = 'clicks'";
    let rows = Sql::query(&machine.ledger, sum, &[]).expect("it reads");
    assert_eq!(rows[0].int("n").expect("a count"), 2);
    assert_eq!(rows[0].int("units").expect("a sum"), 2);
}

#[test]
fn of_two_quick_clicks_one_counts_also_where_both_reach_two_shards_in_another_order() {
    let gear = LossyGear::default();
    let settings = [("DOUBLE_CLICK_MS", "60000"), ("SHARDS", "2")];
    let machine = Machine::geared(&settings, Rc::new(gear.clone())).expect("it starts");
    account(&machine, "a");
    let link = json!({"code": "x", "destination": "https://d.example/"});
    machine.call("POST", "/v1/links?account=a", OPERATOR, &link);
    for _ in 0..2 {
        assert_eq!(machine.call("GET", "/x", "", &Value::Null).0, 302);
        machine.clock.0.set(machine.clock.0.get().after(500));
    }
    // The other shard hears of the second click first.
    let held: Vec<_> = gear.held.borrow().iter().rev().cloned().collect();
    assert!(held.len() >= 2, "both were sent there too");
    for (object, message) in held {
        block_on(machine.objects.ask(object, message)).expect("it takes it");
    }
    machine.advance(60_000);
    let sum = "select sum(units) as units, count(*) as n from entry where feature = 'clicks'";
    let rows = Sql::query(&machine.ledger, sum, &[]).expect("it reads");
    assert_eq!(
        rows[0].int("n").expect("a count"),
        3,
        "two clicks and a correction"
    );
    assert_eq!(rows[0].int("units").expect("a sum"), 1);
}
