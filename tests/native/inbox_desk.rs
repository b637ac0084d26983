//! What the inbox's tests stand at: a machine with the stand-in, customers, accounts, deliveries.

use std::cell::Cell;
use std::rc::Rc;

use counterfoil::inbox::watchdog;
use counterfoil::native::executor::block_on;
use counterfoil::native::machine::{Gear, Machine};
use counterfoil::params;
use counterfoil::ports::{Db, Rows, Statement};
use counterfoil::world::Calls;
use serde_json::{Value as Json, json};

use super::quick::QuickSignatures;

pub const OPERATOR: &str = "dev-operator";

pub struct Desk {
    pub machine: Machine,
    next: Cell<u64>,
}

impl Desk {
    pub fn new(settings: &[(&str, &str)]) -> Self {
        Self::geared(settings, Rc::new(QuickSignatures))
    }

    pub fn geared(settings: &[(&str, &str)], gear: Rc<dyn Gear>) -> Self {
        let machine = Machine::geared(settings, gear).expect("it starts");
        let next = Cell::new(0);
        Self { machine, next }
    }

    pub fn ok(&self, method: &str, target: &str, body: &Json) -> Json {
        let (status, answer) = self.machine.call(method, target, OPERATOR, body);
        assert!(
            (200..300).contains(&status),
            "{method} {target}: {status} {answer}"
        );
        answer
    }

    pub fn customer(&self, customer: &str, body: &Json) {
        self.ok("PUT", &format!("/standin/customers/{customer}"), body);
    }

    /// An account `a` of customer `customer_a`, and so on.
    pub fn account(&self, id: &str) {
        let body = json!({"id": id, "customer_id": format!("customer_{id}")});
        self.ok("POST", "/v1/accounts", &body);
    }

    pub fn fault(&self, operation: &str, mode: &str) {
        self.ok(
            "PUT",
            "/standin/faults",
            &json!({"operation": operation, "mode": mode}),
        );
    }

    /// A new event's id.
    pub fn event_id(&self) -> String {
        self.next.set(self.next.get() + 1);
        format!("event_{:032x}", self.next.get())
    }

    /// Signs and delivers an event for account `id`'s customer; gives the signed id.
    pub fn send(&self, type_name: &str, id: &str, more: &Json) -> String {
        let event_id = self.event_id();
        let mut body = json!({"type": type_name, "customer_id": format!("customer_{id}"),
            "event_id": event_id});
        let members = body.as_object_mut().expect("an object");
        for (name, value) in more.as_object().expect("an object") {
            members.insert(name.clone(), value.clone());
        }
        let event_id = members["event_id"].as_str().expect("text").to_owned();
        self.ok("POST", "/standin/events", &body);
        event_id
    }

    /// Signs an event without delivering it.
    pub fn sign(&self, type_name: &str, id: &str, more: &Json) -> String {
        let mut more = more.clone();
        more["deliver"] = json!(0);
        let event_id = more["event_id"]
            .as_str()
            .map_or_else(|| self.event_id(), str::to_owned);
        let mut body = json!({"type": type_name, "customer_id": format!("customer_{id}"),
            "event_id": event_id});
        let members = body.as_object_mut().expect("an object");
        for (name, value) in more.as_object().expect("an object") {
            members.insert(name.clone(), value.clone());
        }
        let answer = self.ok("POST", "/standin/events", &body);
        answer["jwt"].as_str().expect("a token").to_owned()
    }

    /// Posts a raw body to the intake; gives status and code.
    pub fn post(&self, body: &[u8], webhook_id: &str) -> (u16, String) {
        let mut request =
            counterfoil::native::machine::request("POST", "/webhooks/kinde", "", &Json::Null);
        request.body = counterfoil::http::request::Body::Whole(body.to_vec());
        request
            .headers
            .push(("webhook-id".to_owned(), webhook_id.to_owned()));
        let response = self.machine.handle(request);
        let answer: Json = serde_json::from_slice(&response.body).unwrap_or(Json::Null);
        let code = answer["code"].as_str().unwrap_or_default().to_owned();
        (response.status, code)
    }

    pub fn events(&self, query: &str) -> Vec<Json> {
        let answer = self.ok("GET", &format!("/v1/events?limit=500{query}"), &Json::Null);
        answer["items"].as_array().expect("a list").clone()
    }

    /// The event of a signed id.
    pub fn event(&self, event_id: &str) -> Json {
        let all = self.events("");
        let found = all.iter().find(|event| event["event_id"] == event_id);
        found
            .unwrap_or_else(|| panic!("{event_id} is not stored"))
            .clone()
    }

    /// Status and result of the event of a signed id.
    pub fn end(&self, event_id: &str) -> (String, String) {
        let event = self.event(event_id);
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        (text("status"), text("result"))
    }

    /// Plan and balance of an account.
    pub fn plan(&self, id: &str) -> (String, i64) {
        let account = self.ok("GET", &format!("/v1/accounts/{id}"), &Json::Null);
        let plan = account["plan"].as_str().expect("a plan").to_owned();
        (plan, account["balance"]["credits"].as_i64().unwrap_or(0))
    }

    pub fn sync(&self, id: &str) -> (u16, Json) {
        let target = format!("/v1/account/sync?account={id}");
        self.machine.call("POST", &target, OPERATOR, &Json::Null)
    }

    /// One cron tick's inbox part.
    pub fn watchdog(&self) -> watchdog::Summary {
        let world = self.machine.world();
        let summary = block_on(watchdog::run(&world, &Calls::new(100_000))).expect("it runs");
        self.machine.finish_background();
        summary
    }

    /// Minutes pass, a cron tick in each.
    pub fn minutes(&self, minutes: u32) {
        for _ in 0..minutes {
            self.machine.advance(60_000);
            self.watchdog();
        }
    }

    pub fn sql(&self, sql: &str) -> Rows {
        let statement = Statement::new(sql, params![]);
        block_on(Db::query(&self.machine.control, statement)).expect("it reads")
    }

    pub fn count(&self, sql: &str) -> i64 {
        self.sql(sql)[0].int("n").expect("a number")
    }
}
