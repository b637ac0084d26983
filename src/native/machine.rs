//! A whole Counterfoil in one process: both databases, every object, the stand-in, a clock that
//! stands still until it is moved. Everything runs the production code; only the ports are ours.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::rc::Rc;

use serde_json::{Value as Json, json};

use super::executor::block_on;
use super::sqlite::Sqlite;
use crate::fault::Fault;
use crate::gate::object::AccountObject;
use crate::http::app;
use crate::http::reply::Response;
use crate::http::request::{Body, Method, Request};
use crate::isolate::Isolate;
use crate::ledger::shard::ShardObject;
use crate::object::Object;
use crate::ports::{
    Alarm, Background, Clock, Db, Ids, Incoming, Later, Log, ObjectName, Objects, Outgoing,
    Signatures, Sql, Timer, Transport,
};
use crate::provider::Provider;
use crate::provider::kinde::Kinde;
use crate::provider::standin::StandInObject;
use crate::settings::Settings;
use crate::units::Millis;
use crate::world::World;

/// The clock, the ids and everything else that a test may turn.
pub struct Machine {
    /// `DB`.
    pub control: Sqlite,
    /// `LEDGER_0`.
    pub ledger: Sqlite,
    /// The machine's clock.
    pub clock: Rc<ManualClock>,
    /// Every object's storage, alarm and memory.
    pub objects: Rc<ObjectPool>,
    /// Work that goes on after answers.
    pub background: Rc<Queue>,
    /// Every log line: level, event, fields.
    pub log: Rc<Lines>,
    parts: Parts,
    world: RefCell<Rc<World>>,
}

/// What a world is made of but for its isolate's memory.
struct Parts {
    gear: Rc<dyn Gear>,
    settings: Rc<Settings>,
    db: Rc<dyn Db>,
    ledger: Rc<dyn Db>,
    objects: Rc<dyn Objects>,
    transport: Rc<dyn Transport>,
    signatures: Rc<dyn Signatures>,
    clock: Rc<dyn Clock>,
    ids: Rc<dyn Ids>,
    background: Rc<dyn Background>,
    timer: Rc<dyn Timer>,
    log: Rc<dyn Log>,
}

impl Parts {
    /// The world of a new isolate, which remembers nothing yet.
    fn world(&self) -> Rc<World> {
        let isolate = Rc::new(Isolate::default());
        let provider = Kinde::of_settings(
            &self.settings,
            &self.db,
            &self.objects,
            &self.transport,
            &self.clock,
            &self.timer,
            &isolate,
        );
        Rc::new(World {
            settings: Rc::clone(&self.settings),
            db: Rc::clone(&self.db),
            ledger: Rc::clone(&self.ledger),
            objects: Rc::clone(&self.objects),
            transport: Rc::clone(&self.transport),
            provider: self.gear.provider(Rc::new(provider)),
            signatures: Rc::clone(&self.signatures),
            clock: Rc::clone(&self.clock),
            ids: Rc::clone(&self.ids),
            background: Rc::clone(&self.background),
            timer: Rc::clone(&self.timer),
            log: Rc::clone(&self.log),
            isolate,
        })
    }
}

impl Machine {
    /// A new machine at 2026-11-10T12:00:00Z with the stand-in, `DEV=1`, and these settings.
    pub fn new(settings: &[(&str, &str)]) -> Result<Self, Fault> {
        Self::geared(settings, Rc::new(Plain))
    }

    /// The same with ports of one's own around the plain ones.
    pub fn geared(settings: &[(&str, &str)], gear: Rc<dyn Gear>) -> Result<Self, Fault> {
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        let basics = [
            ("PROVIDER", "standin"),
            ("DEV", "1"),
            ("PUBLIC_URL", "http://localhost:8787"),
            ("SHARDS", "4"),
        ];
        for (name, value) in basics.iter().chain(settings) {
            all.insert((*name).to_owned(), (*value).to_owned());
        }
        let settings = Rc::new(Settings::read(&|name| all.get(name).cloned())?);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let (control, ledger) = (Sqlite::memory()?, Sqlite::memory()?);
        control.migrate(&root.join("control"))?;
        ledger.migrate(&root.join("ledger"))?;
        let clock = Rc::new(ManualClock(Cell::new(Millis::new(1_794_312_000_000))));
        let objects = Rc::new(ObjectPool::of_gear(Rc::clone(&gear)));
        let background = Rc::new(Queue::default());
        let log = Rc::new(Lines::default());
        let parts = Parts {
            settings,
            db: gear.db("DB", Rc::new(control.clone())),
            ledger: gear.db("LEDGER_0", Rc::new(ledger.clone())),
            objects: gear.objects(Rc::<ObjectPool>::clone(&objects)),
            transport: Rc::new(NoNetwork),
            signatures: gear.signatures(),
            clock: Rc::<ManualClock>::clone(&clock),
            ids: Rc::new(CountingIds::default()),
            background: Rc::<Queue>::clone(&background),
            timer: gear.timer(),
            log: Rc::<Lines>::clone(&log),
            gear,
        };
        let world = parts.world();
        objects.world.replace(Some(Rc::clone(&world)));
        Ok(Self {
            control,
            ledger,
            clock,
            objects,
            background,
            log,
            parts,
            world: RefCell::new(world),
        })
    }

    /// A new isolate: everything that was only remembered is forgotten, what is stored stays.
    pub fn restart(&self) {
        self.objects.evict_all();
        let world = self.parts.world();
        self.objects.world.replace(Some(Rc::clone(&world)));
        self.world.replace(world);
    }

    /// What requests and cron ticks are given.
    pub fn world(&self) -> Rc<World> {
        Rc::clone(&self.world.borrow())
    }

    /// Answers a request, then does the work that was left for after the answer.
    pub fn handle(&self, request: Request) -> Response {
        let response = block_on(app::handle(self.world(), request));
        self.finish_background();
        response
    }

    /// Does the work that was left for after answers.
    pub fn finish_background(&self) {
        while let Some(work) = self.background.take() {
            block_on(work);
        }
    }

    /// Sends JSON with a token and gives status and JSON (null where the answer is not JSON).
    pub fn call(&self, method: &str, target: &str, token: &str, body: &Json) -> (u16, Json) {
        let response = self.handle(request(method, target, token, body));
        (
            response.status,
            serde_json::from_slice(&response.body).unwrap_or(Json::Null),
        )
    }

    /// Moves the clock and fires every alarm that is then due, until none is.
    pub fn advance(&self, ms: i64) {
        self.clock.0.set(self.clock.0.get().after(ms));
        self.fire_alarms();
    }

    /// Fires every alarm that is due by the machine's clock, until none is or one keeps coming.
    pub fn fire_alarms(&self) {
        for _ in 0..1000 {
            let Some(name) = self.objects.take_due(self.clock.0.get()) else {
                return;
            };
            if let Err(fault) = block_on(self.objects.alarm(&name)) {
                self.log
                    .line("error", "alarm.fault", json!({"cause": fault.to_string()}));
            }
            self.finish_background();
        }
    }
}

/// What a test puts around the plain ports, to hold back, lose, repeat or fail what passes.
pub trait Gear {
    /// Around `DB` and `LEDGER_0`.
    fn db(&self, _name: &'static str, plain: Rc<dyn Db>) -> Rc<dyn Db> {
        plain
    }

    /// Around an object's own SQLite.
    fn sql(&self, _object: &ObjectName, plain: Rc<dyn Sql>) -> Rc<dyn Sql> {
        plain
    }

    /// Around calls to objects.
    fn objects(&self, plain: Rc<dyn Objects>) -> Rc<dyn Objects> {
        plain
    }

    /// RS256, or something quicker where no signature is looked at.
    fn signatures(&self) -> Rc<dyn Signatures> {
        Rc::new(super::signatures::NativeSignatures::default())
    }

    /// Around the provider, or in its place.
    fn provider(&self, plain: Rc<dyn Provider>) -> Rc<dyn Provider> {
        plain
    }

    /// How long a pause is.
    fn timer(&self) -> Rc<dyn Timer> {
        Rc::new(NoWaiting)
    }

    /// An object's own view of the machine's clock.
    fn clock(&self, _object: &ObjectName, plain: Rc<dyn Clock>) -> Rc<dyn Clock> {
        plain
    }
}

/// Nothing around the plain ports.
pub struct Plain;

impl Gear for Plain {}

/// A request as a client would send it; an empty token sends none, a null body none.
pub fn request(method: &str, target: &str, token: &str, body: &Json) -> Request {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut headers = vec![(
        "user-agent".to_owned(),
        "Mozilla/5.0 (X11; Linux) Test".to_owned(),
    )];
    if !token.is_empty() {
        headers.push(("authorization".to_owned(), format!("Bearer {token}")));
    }
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    Request {
        method: Method::parse(method),
        path: path.to_owned(),
        query: query.to_owned(),
        origin: "http://localhost:8787".to_owned(),
        headers,
        body: Body::Whole(body),
        peer: Some("203.0.113.7".to_owned()),
        country: Some("NZ".to_owned()),
    }
}

/// A clock that a test moves.
pub struct ManualClock(pub Cell<Millis>);

impl Clock for ManualClock {
    fn read(&self) -> Millis {
        self.0.get()
    }
}

/// Ids that never repeat and are the same in every run.
#[derive(Default)]
pub struct CountingIds(Cell<u64>);

impl Ids for CountingIds {
    fn random(&self) -> Result<[u8; 16], Fault> {
        let next = self.0.get() + 1;
        self.0.set(next);
        // An odd multiplier spreads the count over all bits and never repeats.
        let spread = u128::from(next).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        Ok(spread.to_be_bytes())
    }
}

/// Work left for after the answer.
#[derive(Default)]
pub struct Queue(RefCell<VecDeque<Later<'static, ()>>>);

impl Queue {
    /// The oldest work that nobody has begun.
    pub fn take(&self) -> Option<Later<'static, ()>> {
        self.0.borrow_mut().pop_front()
    }

    /// Whether no work waits.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}

impl Background for Queue {
    fn spawn(&self, work: Later<'static, ()>) {
        self.0.borrow_mut().push_back(work);
    }
}

/// Pauses that end at once, after everything else had its turn.
pub struct NoWaiting;

impl Timer for NoWaiting {
    fn pause(&self, _ms: u32) -> Later<'static, ()> {
        let mut turns = 1;
        Box::pin(std::future::poll_fn(move |context| {
            if turns == 0 {
                return std::task::Poll::Ready(());
            }
            turns -= 1;
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        }))
    }
}

/// Log lines, kept.
#[derive(Default)]
pub struct Lines(pub RefCell<Vec<(&'static str, String, Json)>>);

impl Log for Lines {
    fn line(&self, level: &'static str, event: &str, fields: Json) {
        self.0.borrow_mut().push((level, event.to_owned(), fields));
    }
}

/// Nothing outside is reachable.
pub struct NoNetwork;

impl Transport for NoNetwork {
    fn send(&self, request: Outgoing) -> Later<'_, Result<Incoming, Fault>> {
        let host = url::Url::parse(&request.url)
            .ok()
            .and_then(|u| u.host_str().map(str::to_owned));
        Box::pin(async move {
            Err(Fault::unavailable(
                "send a request",
                format!("{host:?} is out of reach"),
            ))
        })
    }
}

/// Objects by name: storage that stays, an alarm, and memory that may be dropped.
pub struct ObjectPool {
    gear: Rc<dyn Gear>,
    world: RefCell<Option<Rc<World>>>,
    slots: RefCell<BTreeMap<ObjectName, Slot>>,
}

#[derive(Clone)]
struct Slot {
    sql: Sqlite,
    alarm: Rc<AlarmSlot>,
    awake: Option<Awake>,
}

#[derive(Clone)]
enum Awake {
    Account(Rc<AccountObject>),
    Shard(Rc<ShardObject>),
    StandIn(Rc<StandInObject>),
}

#[derive(Default)]
struct AlarmSlot(Cell<Option<Millis>>);

impl Alarm for AlarmSlot {
    fn set(&self, at: Option<Millis>) -> Later<'_, Result<(), Fault>> {
        self.0.set(at);
        Box::pin(async { Ok(()) })
    }
}

impl ObjectPool {
    fn of_gear(gear: Rc<dyn Gear>) -> Self {
        Self {
            gear,
            world: RefCell::default(),
            slots: RefCell::default(),
        }
    }

    /// Ends the circle between the objects and their world, so that both can be freed.
    pub fn forget_world(&self) {
        self.evict_all();
        self.world.replace(None);
    }

    /// Drops every object's memory; storage and alarms stay.
    pub fn evict_all(&self) {
        for slot in self.slots.borrow_mut().values_mut() {
            slot.awake = None;
        }
    }

    /// Forgets an object altogether: its storage is lost.
    pub fn lose(&self, name: &ObjectName) {
        self.slots.borrow_mut().remove(name);
    }

    /// The storage of an object that was asked before.
    pub fn storage(&self, name: &ObjectName) -> Option<Sqlite> {
        self.slots.borrow().get(name).map(|slot| slot.sql.clone())
    }

    /// Every object that was asked before.
    pub fn names(&self) -> Vec<ObjectName> {
        self.slots.borrow().keys().cloned().collect()
    }

    /// When the object's alarm fires, by the machine's clock.
    pub fn alarm_at(&self, name: &ObjectName) -> Option<Millis> {
        self.slots
            .borrow()
            .get(name)
            .and_then(|slot| slot.alarm.0.get())
    }

    /// Drops an object's alarm, as the platform does after six failures.
    pub fn lose_alarm(&self, name: &ObjectName) {
        if let Some(slot) = self.slots.borrow().get(name) {
            slot.alarm.0.set(None);
        }
    }

    /// Fires an object's alarm again, as the platform does after a failure.
    pub fn repeat_alarm(&self, name: &ObjectName, at: Millis) {
        if let Some(slot) = self.slots.borrow().get(name)
            && slot.alarm.0.get().is_none()
        {
            slot.alarm.0.set(Some(at));
        }
    }

    /// The object whose alarm is due first; its alarm is then no longer set.
    pub fn take_due(&self, now: Millis) -> Option<ObjectName> {
        let slots = self.slots.borrow();
        let due = |slot: &Slot| slot.alarm.0.get().filter(|at| *at <= now);
        let (_, name) = slots
            .iter()
            .filter_map(|(name, slot)| Some((due(slot)?, name.clone())))
            .min()?;
        if let Some(slot) = slots.get(&name) {
            slot.alarm.0.set(None);
        }
        Some(name)
    }

    fn awake(&self, name: &ObjectName) -> Result<Awake, Fault> {
        let mut slots = self.slots.borrow_mut();
        if !slots.contains_key(name) {
            let slot = Slot {
                sql: Sqlite::memory()?,
                alarm: Rc::default(),
                awake: None,
            };
            slots.insert(name.clone(), slot);
        }
        let slot = slots
            .get_mut(name)
            .ok_or_else(|| Fault::unavailable("wake", "no slot"))?;
        if let Some(awake) = &slot.awake {
            return Ok(awake.clone());
        }
        let world = self.world.borrow().clone();
        let world = world.ok_or_else(|| Fault::unavailable("wake an object", "no world"))?;
        let clock = self.gear.clock(name, Rc::clone(&world.clock));
        let object = Object {
            sql: self.gear.sql(name, Rc::new(slot.sql.clone())),
            alarm: Rc::<AlarmSlot>::clone(&slot.alarm),
            world: Rc::new(World {
                clock,
                ..World::clone(&world)
            }),
            memory: Rc::default(),
        };
        let awake = match name {
            ObjectName::Account(_) => Awake::Account(Rc::new(AccountObject::new(object))),
            ObjectName::LedgerShard(_) => Awake::Shard(Rc::new(ShardObject::new(object))),
            ObjectName::StandIn => Awake::StandIn(Rc::new(StandInObject::new(object))),
        };
        slot.awake = Some(awake.clone());
        Ok(awake)
    }

    /// Hands an object its alarm.
    pub async fn alarm(&self, name: &ObjectName) -> Result<(), Fault> {
        match self.awake(name)? {
            Awake::Account(object) => object.alarm().await,
            Awake::Shard(object) => object.alarm().await,
            Awake::StandIn(object) => object.alarm().await,
        }
    }
}

impl Objects for ObjectPool {
    fn ask(&self, object: ObjectName, message: String) -> Later<'_, Result<String, Fault>> {
        Box::pin(async move {
            match self.awake(&object)? {
                Awake::Account(object) => object.ask(&message).await,
                Awake::Shard(object) => object.ask(&message).await,
                Awake::StandIn(object) => object.ask(&message).await,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_path_is_a_problem_with_a_request_id() {
        let machine = Machine::new(&[]).expect("it starts");
        let (status, body) = machine.call("GET", "/v2/x", "", &Json::Null);
        assert_eq!((status, body["code"].as_str()), (404, Some("not_found")));
        assert!(
            body["request_id"]
                .as_str()
                .is_some_and(|id| id.starts_with("req_"))
        );
    }
}
