//! A machine with one provider that a test turns by hand, and the calls of a client of the gate.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use counterfoil::http::app;
use counterfoil::http::reply::Response;
use counterfoil::native::executor::block_on;
use counterfoil::native::machine::{Gear, Machine, request};
use counterfoil::ports::{Db, Later, ObjectName, Row, Sql, Statement};
use counterfoil::provider::{
    Agreement, Agreements, FeatureLimit, Limits, Provider, ProviderFault, SigningKey,
};
use counterfoil::units::{AccountId, AgreementId, CustomerId, Delta, Millis, PlanCode, Units};
use serde_json::{Value, json};

pub const BACKEND: &str = "dev-backend";
pub const OPERATOR: &str = "dev-operator";

/// What the provider says, and how often it was asked.
#[derive(Default)]
pub struct Script {
    limits: RefCell<Limits>,
    down: Cell<bool>,
    held_back: Cell<bool>,
    reads: Cell<u32>,
}

impl Provider for Script {
    fn limits<'a>(&'a self, _: &'a CustomerId) -> Later<'a, Result<Limits, ProviderFault>> {
        Box::pin(async move {
            self.reads.set(self.reads.get() + 1);
            let answer = if self.down.get() {
                Err(ProviderFault::Unknown("500".to_owned()))
            } else {
                Ok(self.limits.borrow().clone())
            };
            poll_fn(|_| {
                if self.held_back.get() {
                    Poll::Pending
                } else {
                    Poll::Ready(())
                }
            })
            .await;
            answer
        })
    }

    fn agreements<'a>(&'a self, c: &'a CustomerId) -> Later<'a, Result<Agreements, ProviderFault>> {
        Box::pin(async move {
            let agreement = Agreement {
                agreement_id: AgreementId::new(format!("agreement_{c}")).unwrap(),
                plan: PlanCode::new("pro").unwrap(),
                expires_at: None,
                period_start: None,
                period_end: None,
                feature_keys: vec!["tokens".to_owned()],
            };
            Ok(Agreements {
                agreements: vec![agreement],
                subscribed_on: BTreeMap::new(),
            })
        })
    }

    fn signing_keys(&self) -> Later<'_, Result<Vec<SigningKey>, ProviderFault>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn write_meter<'a>(
        &'a self,
        _: &'a AgreementId,
        _: &'a str,
        _: Units,
        _: Millis,
    ) -> Later<'a, Result<(), ProviderFault>> {
        Box::pin(async { Ok(()) })
    }

    fn read_meter<'a>(
        &'a self,
        _: &'a AgreementId,
        _: &'a str,
    ) -> Later<'a, Result<Delta, ProviderFault>> {
        Box::pin(async { Ok(Delta::ZERO) })
    }
}

struct Turned(Rc<Script>);

impl Gear for Turned {
    fn provider(&self, _: Rc<dyn Provider>) -> Rc<dyn Provider> {
        Rc::<Script>::clone(&self.0)
    }
}

/// A machine at 2026-11-10T12:00:00Z with the account `a`, and `b` beside it.
pub struct Desk {
    pub machine: Machine,
    pub provider: Rc<Script>,
}

impl Desk {
    /// `tokens` are limited to that many.
    pub fn new(limit: i64) -> Self {
        Self::with(limit, &[])
    }

    pub fn with(limit: i64, settings: &[(&str, &str)]) -> Self {
        let features = "clicks=clicks:counted tokens=tokens:gated images=images:gated \
            hints=hints:gated-open";
        let mut all = vec![("FEATURES", features), ("JOBS_PER_MINUTE", "100000")];
        all.extend(settings);
        let provider = Rc::new(Script::default());
        let gear = Rc::new(Turned(Rc::clone(&provider)));
        let machine = Machine::geared(&all, gear).expect("it starts");
        let desk = Self { machine, provider };
        desk.limit("tokens", Some(limit));
        for id in ["a", "b"] {
            let body = json!({"id": id, "customer_id": format!("customer_{id}"),
                "starts_at": "2026-01-01T00:00:00Z"});
            let (status, body) = desk.machine.call("POST", "/v1/accounts", OPERATOR, &body);
            assert_eq!(status, 201, "{body}");
        }
        desk
    }

    /// The provider's limit of a feature; `None` is unlimited.
    pub fn limit(&self, feature: &str, limit: Option<i64>) {
        let limit = limit.map_or(FeatureLimit::Unlimited, |units| {
            FeatureLimit::Known(Units::new(units).unwrap())
        });
        let mut limits = self.provider.limits.borrow_mut();
        limits.insert(feature.to_owned(), limit);
    }

    pub fn no_limits_at_all(&self) {
        self.provider.limits.borrow_mut().clear();
    }

    pub fn provider_is_down(&self, down: bool) {
        self.provider.down.set(down);
    }

    pub fn hold_back_provider(&self, held_back: bool) {
        self.provider.held_back.set(held_back);
    }

    pub fn reads(&self) -> u32 {
        self.provider.reads.get()
    }

    pub fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.post_as("a", path, body)
    }

    pub fn post_as(&self, account: &str, path: &str, body: &Value) -> (u16, Value) {
        let target = format!("{path}?account={account}");
        self.machine.call("POST", &target, BACKEND, body)
    }

    pub fn get(&self, path: &str) -> Value {
        let joint = if path.contains('?') { '&' } else { '?' };
        let target = format!("{path}{joint}account=a");
        let (status, body) = self.machine.call("GET", &target, BACKEND, &Value::Null);
        assert_eq!(status, 200, "{body}");
        body
    }

    /// The same request on its way, for those that run at once.
    pub fn on_its_way(&self, path: &str, body: &Value) -> Later<'static, (u16, Value)> {
        let request = request("POST", &format!("{path}?account=a"), BACKEND, body);
        let world = self.machine.world();
        Box::pin(async move {
            let response = app::handle(world, request).await;
            (response.status, json_of(&response))
        })
    }

    pub fn admit(&self, key: &str, hold: i64) -> (u16, Value) {
        let body = json!({"key": key, "feature": "tokens", "hold": hold});
        self.post("/v1/jobs", &body)
    }

    /// Admits and gives the job's id.
    pub fn job(&self, key: &str, hold: i64) -> String {
        let (status, body) = self.admit(key, hold);
        assert_eq!(status, 201, "{body}");
        body["id"].as_str().expect("an id").to_owned()
    }

    pub fn charge(&self, job: &str, body: &Value) -> (u16, Value) {
        self.post(&format!("/v1/jobs/{job}/charges"), body)
    }

    pub fn extend(&self, job: &str, body: &Value) -> (u16, Value) {
        self.post(&format!("/v1/jobs/{job}/extend"), body)
    }

    pub fn renew(&self, job: &str) -> (u16, Value) {
        self.post(&format!("/v1/jobs/{job}/renew"), &json!({}))
    }

    pub fn settle(&self, job: &str, body: &Value) -> (u16, Value) {
        self.post(&format!("/v1/jobs/{job}/settle"), body)
    }

    /// Used and held of `tokens` in the current cycle.
    pub fn taken(&self) -> (i64, i64) {
        let budget = self.get("/v1/budget?feature=tokens");
        (number(&budget["used"]), number(&budget["held"]))
    }

    pub fn is_left(&self) -> i64 {
        number(&self.get("/v1/budget?feature=tokens")["remaining"])
    }

    pub fn seconds(&self, seconds: i64) {
        self.machine.advance(seconds * 1000);
    }

    /// Moves the clock without anything noticing.
    pub fn silently(&self, seconds: i64) {
        let clock = &self.machine.clock.0;
        clock.set(clock.get().after(seconds * 1000));
    }

    /// Moves the clock to that moment, firing what is due.
    pub fn until(&self, moment: &str) {
        let at = counterfoil::moment::parse_millis(moment).expect("a moment");
        self.machine.advance(at.since(self.machine.clock.0.get()));
    }

    /// Lets every batch arrive.
    pub fn deliver(&self) {
        for _ in 0..5 {
            self.seconds(2);
        }
    }

    /// Sum of the entries of a feature in a cycle.
    pub fn entries(&self, account: &str, feature: &str, cycle: &str) -> i64 {
        let sql = format!(
            "select coalesce(sum(units), 0) as n from entry where account_id = '{account}' \
             and feature = '{feature}' and cycle = '{cycle}'"
        );
        self.ledger(&sql)[0].int("n").unwrap()
    }

    pub fn ledger(&self, sql: &str) -> Vec<Row> {
        let statement = Statement::new(sql, Vec::new());
        block_on(Db::query(&self.machine.ledger, statement)).expect("it runs")
    }

    /// All that the account's object has stored, to see that nothing changed.
    pub fn stored(&self) -> String {
        let name = ObjectName::Account(AccountId::new("a").unwrap());
        let Some(storage) = self.machine.objects.storage(&name) else {
            return String::new();
        };
        let mut text = String::new();
        for table in [
            "budget", "job", "hold", "step", "booking", "outbox", "estimate",
        ] {
            let rows = Sql::query(&storage, &format!("select * from {table}"), &[]);
            writeln!(text, "{table}: {:?}", rows.expect("it runs")).expect("it is written");
        }
        text
    }

    /// The books balance, and no error was logged.
    pub fn in_order(&self) {
        let lines = self.machine.log.0.borrow();
        let errors: Vec<_> = lines
            .iter()
            .filter(|(level, ..)| *level == "error")
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
    }
}

fn json_of(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap_or(Value::Null)
}

pub fn number(value: &Value) -> i64 {
    value
        .as_i64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// Runs all of them at once, each a little further in turn; gives up on those that never end.
pub fn at_once<T>(work: Vec<Later<'static, T>>) -> Vec<Option<T>> {
    let mut work: Vec<Option<Pin<_>>> = work.into_iter().map(Some).collect();
    let mut done: Vec<Option<T>> = work.iter().map(|_| None).collect();
    advance_all(&mut work, &mut done);
    done
}

/// Polls each in turn until nothing moves any more.
pub fn advance_all<T>(work: &mut [Option<Later<'static, T>>], done: &mut [Option<T>]) {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..1000 {
        for (slot, outcome) in work.iter_mut().zip(done.iter_mut()) {
            let Some(future) = slot else { continue };
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                *outcome = Some(value);
                *slot = None;
            }
        }
        if work.iter().all(Option::is_none) {
            return;
        }
    }
}
