//! The Engine Room: nine deliveries of three events, through a handler that applies each message
//! on arrival and through the pipeline, step by step side by side.
//!
//! The pipeline side is the live intake and the live lane on a fresh account; only the clock is a
//! minute later at each step, and at the second one the database is taken away between claim and
//! effect, as if the process had stopped there. By default the events' payloads and times decide
//! alone, so that the guard is seen at work; with the doorbell the provider is asked, as always
//! elsewhere.

use std::cell::Cell;
use std::rc::Rc;

use serde_json::{Value as Json, json};

use super::apply::Doorbell;
use super::lane;
use super::receive::intake;
use crate::accounts::create::{Asked, Created, create};
use crate::accounts::{Account, store};
use crate::fault::Fault;
use crate::http::request::Body;
use crate::moment::format;
use crate::params;
use crate::plans::grants;
use crate::plans::sync::SyncFault;
use crate::ports::{Clock, Db, Later, Rows, Statement};
use crate::provider::standin;
use crate::provider::standin::wire::{Ask, EventAsk, PlanChange, PutCustomer, Reply};
use crate::units::{CustomerId, Millis, PlanCode, Units};
use crate::world::World;

/// The plan that is bought.
const PRO: &str = "pro";
/// What the customers of demonstrations are called: they are left out of the counts.
pub const DEMO_PREFIX: &str = "customer_demo";
/// Between two deliveries: longer than a lease.
const STEP_MS: i64 = 60_000;
/// The first delivery comes so long before now.
const BEFORE_MS: i64 = 20 * 60_000;
/// The old cancellation happened so long before the upgrade.
const CANCELLED_BEFORE_MS: i64 = 3 * 60_000;

/// One of the three events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// A payment.
    Payment,
    /// The plan change to Pro.
    Upgrade,
    /// A cancellation that happened before the upgrade.
    Cancellation,
}

impl Delivery {
    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Payment => "payment",
            Self::Upgrade => "plan change to Pro",
            Self::Cancellation => "old cancellation",
        }
    }
}

/// The nine deliveries, as they once came.
pub const NINE: [Delivery; 9] = [
    Delivery::Payment,
    Delivery::Upgrade,
    Delivery::Upgrade,
    Delivery::Payment,
    Delivery::Payment,
    Delivery::Payment,
    Delivery::Cancellation,
    Delivery::Upgrade,
    Delivery::Payment,
];
/// The delivery at which the process stops between plan and allowance, counted from 0.
pub const STOPS_AT: usize = 1;

/// Where one side stands after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// The plan.
    pub plan: String,
    /// The balance.
    pub balance: i64,
    /// What happened.
    pub note: String,
}

/// One delivery, through both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What came.
    pub delivery: Delivery,
    /// The handler that applies each message on arrival.
    pub naive: Side,
    /// The pipeline.
    pub pipeline: Side,
}

/// All nine, and what the pipeline counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether the provider was asked.
    pub doorbell: bool,
    /// The account of the pipeline's side.
    pub account_id: String,
    /// In order.
    pub steps: Vec<Step>,
    /// Deliveries that arrived.
    pub arrived: i64,
    /// Events that were stored.
    pub stored: i64,
    /// Copies that were counted and dropped.
    pub dropped: i64,
    /// Events that were stopped in the middle and finished by the next copy.
    pub finished: i64,
    /// Events that were ignored, with their reasons.
    pub ignored: Vec<String>,
    /// How often Pro's allowance was granted.
    pub granted: i64,
}

impl Report {
    /// For machines.
    pub fn json(&self) -> Json {
        let side = |side: &Side| {
            json!({"plan": side.plan, "balance": side.balance,
            "note": side.note})
        };
        let steps: Vec<Json> = (self.steps.iter())
            .map(|step| {
                json!({"delivery": step.delivery.name(), "naive": side(&step.naive),
                    "pipeline": side(&step.pipeline)})
            })
            .collect();
        json!({"doorbell": self.doorbell, "account": self.account_id, "steps": steps,
            "arrived": self.arrived, "stored": self.stored, "dropped": self.dropped,
            "finished": self.finished, "ignored": self.ignored, "granted": self.granted})
    }
}

/// The handler that most start with: it sets the plan to what the message says and, for each
/// payment or plan change handled on Pro, adds Pro's allowance over Free's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naive {
    is_pro: bool,
    balance: i64,
    free: i64,
    pro: i64,
}

impl Naive {
    /// On Free, with Free's allowance.
    pub const fn new(free: i64, pro: i64) -> Self {
        Self {
            is_pro: false,
            balance: free,
            free,
            pro,
        }
    }

    /// Applies a message on arrival; `stops`: the process stops after the plan was written.
    pub fn handle(&mut self, delivery: Delivery, stops: bool) -> Side {
        let before = self.balance;
        match delivery {
            Delivery::Payment => {}
            Delivery::Upgrade => self.is_pro = true,
            Delivery::Cancellation => self.is_pro = false,
        }
        if self.is_pro && !stops {
            self.balance = self.balance.saturating_add(self.pro - self.free);
        }
        let note = match self.balance.saturating_sub(before) {
            _ if stops => "stopped after the plan was written".to_owned(),
            0 => "nothing added".to_owned(),
            added => format!("{added} added"),
        };
        Side {
            plan: if self.is_pro { "Pro" } else { "Free" }.to_owned(),
            balance: self.balance,
            note,
        }
    }
}

/// Runs the nine deliveries on a fresh account.
pub async fn run(world: &Rc<World>, doorbell: Doorbell) -> Result<Report, Fault> {
    run_order(world, doorbell, &NINE, STOPS_AT).await
}

/// Runs any deliveries of the three events; the process stops at the one of that index.
pub async fn run_order(
    world: &Rc<World>,
    doorbell: Doorbell,
    order: &[Delivery],
    stops_at: usize,
) -> Result<Report, Fault> {
    let mut room = Room::open(world, doorbell).await?;
    let mut naive = Naive::new(
        room.allowance(&world.settings.free_plan),
        room.pro_allowance(),
    );
    let mut steps = Vec::new();
    for (index, delivery) in order.iter().enumerate() {
        let is_cut = index == stops_at;
        let pipeline = room.deliver(*delivery, is_cut).await?;
        steps.push(Step {
            delivery: *delivery,
            naive: naive.handle(*delivery, is_cut),
            pipeline,
        });
    }
    room.report(steps).await
}

/// The fresh account, its three signed events, and the clock that is a minute later at each step.
struct Room {
    world: Rc<World>,
    clock: Rc<Stepped>,
    doorbell: Doorbell,
    account: Account,
    customer: CustomerId,
    events: Vec<(Delivery, Signed)>,
    arrived: i64,
    dropped: i64,
    stopped: Option<String>,
    finished: i64,
}

/// An event as the stand-in signed it.
struct Signed {
    jwt: String,
    webhook_id: String,
}

impl Room {
    async fn open(world: &Rc<World>, doorbell: Doorbell) -> Result<Self, Fault> {
        let clock = Rc::new(Stepped {
            inner: Rc::clone(&world.clock),
            offset_ms: Cell::new(-BEFORE_MS),
        });
        let stepped: Rc<dyn Clock> = Rc::<Stepped>::clone(&clock);
        let inside = Rc::new(World {
            clock: stepped,
            ..(**world).clone()
        });
        let customer = CustomerId::new(world.mint(DEMO_PREFIX)?)
            .ok_or_else(|| Fault::unavailable("open the Engine Room", "no customer"))?;
        let asked = Asked {
            customer_id: Some(customer.clone()),
            name: Some("Engine Room".to_owned()),
            demo: true,
            ..Asked::default()
        };
        let created = create(&inside, &asked, "engine-room").await;
        let Created::New(account, _) = created.map_err(SyncFault::fault)? else {
            return Err(Fault::unavailable(
                "open the Engine Room",
                "the account is not new",
            ));
        };
        let mut room = Self {
            world: inside,
            clock,
            doorbell,
            account,
            customer,
            events: Vec::new(),
            arrived: 0,
            dropped: 0,
            stopped: None,
            finished: 0,
        };
        room.sign_all().await?;
        Ok(room)
    }

    /// The units of the first thing that the plan grants.
    fn allowance(&self, plan: &PlanCode) -> i64 {
        let granted = self.world.settings.plans.get(plan);
        let first = granted.and_then(|plan| plan.values().next());
        first.map_or(0, |units| units.get())
    }

    fn pro_allowance(&self) -> i64 {
        PlanCode::new(PRO).map_or(0, |plan| self.allowance(&plan))
    }

    /// Signs the three events: the cancellation three minutes older than the upgrade.
    async fn sign_all(&mut self) -> Result<(), Fault> {
        let upgraded = self.world.now().after(CANCELLED_BEFORE_MS + STEP_MS);
        let old = self.account.agreement_id.as_ref().map(ToString::to_string);
        let cases = [
            (
                Delivery::Payment,
                "customer.payment_succeeded",
                upgraded.after(1),
                json!({}),
            ),
            (
                Delivery::Upgrade,
                "customer.plan_changed",
                upgraded,
                json!({"plan": {"key": PRO}}),
            ),
            (
                Delivery::Cancellation,
                "customer.agreement_cancelled",
                upgraded.after(-CANCELLED_BEFORE_MS),
                json!({"agreement_id": old}),
            ),
        ];
        for (delivery, type_name, at, data) in cases {
            let signed = self.sign(type_name, at, data).await?;
            self.events.push((delivery, signed));
        }
        // The clock goes on to the first delivery.
        self.clock.step(CANCELLED_BEFORE_MS + 2 * STEP_MS);
        Ok(())
    }

    async fn sign(&self, type_name: &str, at: Millis, data: Json) -> Result<Signed, Fault> {
        let data = match data {
            Json::Object(members) => members.into_iter().collect(),
            _ => std::collections::BTreeMap::new(),
        };
        let asked = Ask::Event(EventAsk {
            r#type: type_name.to_owned(),
            customer_id: self.customer.to_string(),
            data,
            event_id: None,
            webhook_id: None,
            event_timestamp: Some(format(at)),
            timestamp: Some(format(at)),
            deliver: 0,
            to: "/webhooks/kinde".to_owned(),
        });
        let answer = ask_stand_in(&self.world, asked).await?;
        let text = |name: &str| {
            let found = answer.get(name).and_then(Json::as_str);
            found
                .map(str::to_owned)
                .ok_or_else(|| Fault::unreadable("sign an event", name))
        };
        Ok(Signed {
            jwt: text("jwt")?,
            webhook_id: text("webhook_id")?,
        })
    }

    async fn deliver(&mut self, delivery: Delivery, stops: bool) -> Result<Side, Fault> {
        self.clock.step(STEP_MS);
        if delivery == Delivery::Upgrade && self.doorbell == Doorbell::Rings {
            self.upgrade_at_provider().await?;
        }
        let signed = self.events.iter().find(|(name, _)| *name == delivery);
        let (_, signed) = signed.ok_or_else(|| Fault::unavailable("deliver", "no event"))?;
        let body = Body::Whole(signed.jwt.clone().into_bytes());
        let outcome = intake(&self.world, &body, Some(&signed.webhook_id)).await?;
        let received = outcome.map_err(|refused| Fault::unavailable("deliver", refused.code()))?;
        self.arrived += 1;
        let mut notes = Vec::new();
        if received.is_copy {
            self.dropped += 1;
            notes.push("a copy: counted and dropped");
        } else {
            notes.push("stored");
        }
        if received.is_due {
            if stops {
                self.run_until_stopped(&received.lane).await;
                self.stopped = Some(received.id.clone());
                notes.push("the process stopped before anything was written");
            } else {
                self.run_lane(&self.world, &received.lane).await?;
                if self.stopped.as_deref() == Some(received.id.as_str()) {
                    self.stopped = None;
                    self.finished += 1;
                    notes.push("and finished what had stopped");
                }
            }
        }
        self.side(&received.id, notes).await
    }

    async fn run_lane(&self, world: &Rc<World>, lane: &str) -> Result<u32, Fault> {
        lane::run_with(world, lane, self.doorbell, lane::EVENTS_PER_RUN_MAX).await
    }

    /// Runs the lane on a database that is gone from the effects on: neither they nor the failure
    /// nor the end of the lease is written.
    async fn run_until_stopped(&self, lane: &str) {
        let db: Rc<dyn Db> = Rc::new(Stopping {
            inner: Rc::clone(&self.world.db),
            is_stopped: Cell::new(false),
        });
        let stopping = Rc::new(World {
            db,
            ..(*self.world).clone()
        });
        let outcome = self.run_lane(&stopping, lane).await;
        if outcome.is_ok() {
            let fields = json!({"lane": lane});
            self.world
                .log
                .line("warn", "engine_room.did_not_stop", fields);
        }
    }

    async fn upgrade_at_provider(&self) -> Result<(), Fault> {
        let put = Ask::PutCustomer(PutCustomer {
            customer_id: self.customer.to_string(),
            plan: PlanChange::To(PRO.to_owned()),
            agreement_id: None,
            limits: None,
            period_start_ms: None,
            period_end_ms: None,
        });
        ask_stand_in(&self.world, put).await.map(|_| ())
    }

    async fn side(&self, event: &str, notes: Vec<&str>) -> Result<Side, Fault> {
        let db = &*self.world.db;
        let account = store::load(db, &self.account.account_id).await?;
        let account = account.ok_or_else(|| Fault::unavailable("deliver", "no account"))?;
        let cycle = account.cycle_at(self.world.now());
        let balance = grants::balance(db, &account.account_id, &cycle.name).await?;
        let result = Statement::new(
            "select result from event where id = ?1 and status in ('applied', 'ignored')",
            params![event],
        );
        let rows = db.query(result).await?;
        let result = rows
            .first()
            .map_or(Ok(None), |row| row.opt_text("result"))?;
        let mut note = notes.join(", ");
        if let Some(result) = result {
            note.push_str(": ");
            note.push_str(result);
        }
        let is_pro = account.plan.as_str() == PRO;
        Ok(Side {
            plan: if is_pro { "Pro" } else { "Free" }.to_owned(),
            balance: balance
                .values()
                .next()
                .map_or(0, |units: &Units| units.get()),
            note,
        })
    }

    async fn report(self, steps: Vec<Step>) -> Result<Report, Fault> {
        let events = Statement::new(
            "select id, status, result from event where customer_id = ?1 order by id",
            params![self.customer.as_str()],
        );
        let granted = Statement::new(
            "select count(*) as n from grant_row where account_id = ?1 and plan = ?2",
            params![self.account.account_id.as_str(), PRO],
        );
        let results = self.world.db.batch(vec![events, granted]).await?;
        let [events, granted] = results.as_slice() else {
            return Err(Fault::unavailable("report", "no answer"));
        };
        let mut ignored = Vec::new();
        for row in events {
            if row.text("status")? == "ignored" {
                ignored.push(row.opt_text("result")?.unwrap_or_default().to_owned());
            }
        }
        Ok(Report {
            doorbell: self.doorbell == Doorbell::Rings,
            account_id: self.account.account_id.to_string(),
            steps,
            arrived: self.arrived,
            stored: i64::try_from(events.len()).unwrap_or(0),
            dropped: self.dropped,
            finished: self.finished,
            ignored,
            granted: granted.first().map_or(Ok(0), |row| row.int("n"))?,
        })
    }
}

async fn ask_stand_in(world: &World, ask: Ask) -> Result<Json, Fault> {
    match standin::ask(&*world.objects, ask).await? {
        Reply::Done(value) => Ok(value),
        _ => Err(Fault::unreadable(
            "ask the stand-in",
            "it is not what was asked",
        )),
    }
}

/// The machine's clock, moved.
struct Stepped {
    inner: Rc<dyn Clock>,
    offset_ms: Cell<i64>,
}

impl Stepped {
    fn step(&self, ms: i64) {
        self.offset_ms.set(self.offset_ms.get().saturating_add(ms));
    }
}

impl Clock for Stepped {
    fn read(&self) -> Millis {
        self.inner.read().after(self.offset_ms.get())
    }
}

/// The control database until the effects of a plan change would be written; gone from then on.
struct Stopping {
    inner: Rc<dyn Db>,
    is_stopped: Cell<bool>,
}

impl Stopping {
    fn stop_at(&self, statements: &[Statement]) -> Result<(), Fault> {
        let effects = |one: &Statement| one.sql.starts_with("update account set plan");
        if statements.iter().any(effects) {
            self.is_stopped.set(true);
        }
        if self.is_stopped.get() {
            return Err(Fault::unavailable("apply", "the process stopped"));
        }
        Ok(())
    }
}

impl Db for Stopping {
    fn query(&self, statement: Statement) -> Later<'_, Result<Rows, Fault>> {
        Box::pin(async move {
            self.stop_at(std::slice::from_ref(&statement))?;
            self.inner.query(statement).await
        })
    }

    fn batch(&self, statements: Vec<Statement>) -> Later<'_, Result<Vec<Rows>, Fault>> {
        Box::pin(async move {
            self.stop_at(&statements)?;
            self.inner.batch(statements).await
        })
    }
}
