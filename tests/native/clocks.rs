//! An object whose clock lies behind the one by which its alarm fires.

use std::rc::Rc;

use counterfoil::native::hashes::Hashes;
use counterfoil::native::machine::{Gear, Machine};
use counterfoil::ports::{Clock, ObjectName, Signatures};
use counterfoil::units::{AccountId, Millis};
use serde_json::{Value, json};

use crate::meters::{OPERATOR, account};

/// Every object is a second late.
struct Late;

impl Gear for Late {
    fn signatures(&self) -> Rc<dyn Signatures> {
        Rc::new(Hashes::default())
    }

    fn clock(&self, _object: &ObjectName, plain: Rc<dyn Clock>) -> Rc<dyn Clock> {
        Rc::new(LateClock(plain))
    }
}

struct LateClock(Rc<dyn Clock>);

impl Clock for LateClock {
    fn read(&self) -> Millis {
        self.0.read().after(-1_000)
    }
}

#[test]
fn an_alarm_that_fires_before_its_object_thinks_it_due_is_armed_again() {
    let machine = Machine::geared(&[], Rc::new(Late)).expect("it starts");
    account(&machine, "a");
    let job = json!({"key": "one", "feature": "tokens", "hold": 5, "lease_seconds": 30});
    let (status, job) = machine.call("POST", "/v1/jobs?account=a", OPERATOR, &job);
    assert_eq!(status, 201);
    // What else is due meanwhile, the stand-in's list of calls for one, is done first.
    machine.advance(3_000);
    let name = ObjectName::Account(AccountId::new("a").expect("an id"));
    let due = machine.objects.alarm_at(&name).expect("it is armed");
    machine.clock.0.set(due);
    assert_eq!(machine.objects.take_due(due), Some(name.clone()));
    let fired = counterfoil::native::executor::block_on(machine.objects.alarm(&name));
    fired.expect("it does what is due");
    assert!(machine.objects.alarm_at(&name).is_some());
    machine.advance(60_000);
    let target = format!("/v1/jobs/{}?account=a", job["id"].as_str().expect("an id"));
    let (_, job) = machine.call("GET", &target, OPERATOR, &Value::Null);
    assert_eq!(job["state"], "expired");
}
