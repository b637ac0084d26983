//! Alerts: grouped, tried again, never blocking; a provider that fell silent is noticed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use counterfoil::fault::Fault;
use counterfoil::inbox::{alerts, watchdog};
use counterfoil::native::executor::block_on;
use counterfoil::ports::{Incoming, Later, Outgoing, Transport};
use counterfoil::world::{Calls, World};
use serde_json::{Value as Json, json};

use super::inbox_desk::Desk;

/// Whoever is at `ALERT_URL`.
#[derive(Default)]
struct Listener {
    heard: RefCell<Vec<(Json, Option<String>)>>,
    is_down: Cell<bool>,
}

impl Transport for Listener {
    fn send(&self, request: Outgoing) -> Later<'_, Result<Incoming, Fault>> {
        let token = request
            .headers
            .iter()
            .find(|(name, _)| name == "authorization");
        let token = token.map(|(_, value)| value.clone());
        if !self.is_down.get() {
            let body = serde_json::from_str(&request.body).expect("JSON");
            self.heard.borrow_mut().push((body, token));
        }
        let status = if self.is_down.get() { 500 } else { 204 };
        Box::pin(async move {
            Ok(Incoming {
                status,
                headers: Vec::new(),
                body: String::new(),
            })
        })
    }
}

fn desk() -> (Desk, Rc<Listener>, Rc<World>) {
    let settings = [
        ("ALERT_URL", "https://alerts.example/in"),
        ("ALERT_TOKEN", "s3cret"),
    ];
    let desk = Desk::new(&settings);
    let listener = Rc::new(Listener::default());
    let transport: Rc<dyn Transport> = Rc::<Listener>::clone(&listener);
    let world = Rc::new(World {
        transport,
        ..(*desk.machine.world()).clone()
    });
    (desk, listener, world)
}

fn tick(world: &Rc<World>) -> watchdog::Summary {
    block_on(watchdog::run(world, &Calls::new(100_000))).expect("it runs")
}

#[test]
fn many_dead_events_are_one_alert_that_is_sent_until_it_is_taken() {
    let (desk, listener, world) = desk();
    let raise = |number: i64| {
        alerts::raise(
            "dead",
            &format!("evt_{number}"),
            &json!({"type": "t"}),
            world.now(),
        )
    };
    block_on(world.db.batch((0..7).map(raise).collect())).expect("they are raised");
    listener.is_down.set(true);
    assert_eq!(tick(&world).alerts, 0);
    listener.is_down.set(false);
    // Not before its time, then all of them in one request.
    assert_eq!(tick(&world).alerts, 0);
    desk.machine.advance(60_000);
    assert_eq!(tick(&world).alerts, 7);
    desk.machine.advance(3_600_000);
    assert_eq!(tick(&world).alerts, 0);
    let heard = listener.heard.borrow();
    assert_eq!(heard.len(), 1);
    let (body, token) = &heard[0];
    assert_eq!(
        (body["kind"].as_str(), body["count"].as_i64()),
        (Some("dead"), Some(7))
    );
    assert_eq!(token.as_deref(), Some("Bearer s3cret"));
}

#[test]
fn a_provider_that_fell_silent_after_three_days_of_deliveries_is_alerted_once() {
    let (desk, listener, world) = desk();
    desk.account("a");
    desk.send("customer.payment_succeeded", "a", &json!({}));
    desk.machine.advance(50 * 3_600_000);
    tick(&world);
    // A single delivery is no habit.
    assert!(listener.heard.borrow().is_empty());
    for _ in 0..3 {
        desk.send("customer.payment_succeeded", "a", &json!({}));
        desk.machine.advance(24 * 3_600_000);
    }
    tick(&world);
    assert!(listener.heard.borrow().is_empty());
    desk.machine.advance(24 * 3_600_000);
    tick(&world);
    desk.machine.advance(24 * 3_600_000);
    tick(&world);
    let heard = listener.heard.borrow();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert_eq!(heard[0].0["kind"], "quiet");
}

#[test]
fn without_an_address_alerts_stay_where_they_can_be_seen() {
    let desk = Desk::new(&[]);
    let world = desk.machine.world();
    let alert = alerts::raise("dead", "evt_1", &json!({}), world.now());
    block_on(world.db.query(alert)).expect("it is raised");
    assert_eq!(desk.watchdog().alerts, 0);
    let text = desk.machine.handle(counterfoil::native::machine::request(
        "GET",
        "/metrics",
        super::inbox_desk::OPERATOR,
        &Json::Null,
    ));
    let text = String::from_utf8(text.body).expect("text");
    assert!(text.contains("counterfoil_alerts_waiting 1"), "{text}");
}
