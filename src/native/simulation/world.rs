//! A machine under attack: clients that outlive it, an isolate that is killed between any two
//! awaits, a clock that jumps, and books of its own beside the production code's.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::Value as Json;

use super::books::Books;
use super::chaos::{Chaos, turn};
use super::disaster::LedgerCopy;
use super::gear::ChaosGear;
use super::schedule::Schedule;
use super::stats::Stats;
use crate::fault::Fault;
use crate::http::app;
use crate::http::request::Request;
use crate::moment::civil;
use crate::native::machine::{Machine, request};
use crate::ports::Later;
use crate::units::Millis;

/// The operator's token of the machine.
pub const OPERATOR: &str = "dev-operator";

/// What a client hears of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// An answer.
    Answer(u16, Json),
    /// The machine died first: nobody knows what became of it.
    Nothing,
}

impl Heard {
    /// The status; 0 where nothing was heard.
    pub const fn status(&self) -> u16 {
        match self {
            Self::Answer(status, _) => *status,
            Self::Nothing => 0,
        }
    }

    /// A member of the answer.
    pub fn member(&self, name: &str) -> Option<&Json> {
        match self {
            Self::Answer(_, body) => body.get(name),
            Self::Nothing => None,
        }
    }

    /// A number in the answer.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.member(name).and_then(Json::as_i64)
    }

    /// A list in the answer.
    pub fn items(&self) -> Vec<Json> {
        let items = self.member("items").and_then(Json::as_array);
        items.cloned().unwrap_or_default()
    }
}

/// The machine, what is under way in it, and who talks to it.
pub struct World {
    /// The production code.
    pub machine: Machine,
    /// What goes wrong.
    pub chaos: Rc<Chaos>,
    /// What must be true, kept apart from the production code.
    pub books: RefCell<Books>,
    /// An earlier state of `LEDGER_0`.
    pub copy: RefCell<Option<LedgerCopy>>,
    /// Whether two quick clicks of a visitor are one.
    pub corrects_double_clicks: bool,
    server: RefCell<Schedule>,
    clients: RefCell<Schedule>,
}

impl World {
    /// The world of a seed, calm and empty.
    pub fn of_seed(seed: u64, settings: &[(&str, &str)]) -> Result<Rc<Self>, Fault> {
        let chaos = Chaos::of_seed(seed);
        let machine = Machine::geared(settings, Rc::new(ChaosGear(Rc::clone(&chaos))))?;
        let double = settings.iter().any(|(name, _)| *name == "DOUBLE_CLICK_MS");
        Ok(Rc::new(Self {
            machine,
            server: RefCell::new(Schedule::new(Rc::clone(&chaos))),
            clients: RefCell::new(Schedule::new(Rc::clone(&chaos))),
            books: RefCell::default(),
            copy: RefCell::default(),
            corrects_double_clicks: double,
            chaos,
        }))
    }

    /// What really happened.
    pub fn stats(&self) -> &Stats {
        &self.chaos.stats
    }

    /// Notes a broken rule.
    pub fn complain(&self, what: String) {
        self.books.borrow_mut().complain(what);
    }

    /// A number below `bound`, of the seed.
    pub fn draw(&self, bound: usize) -> usize {
        self.chaos.chance.borrow_mut().below(bound)
    }

    /// One of a list, of the seed.
    pub fn pick<T: Copy>(&self, list: &[T]) -> Option<T> {
        self.chaos.chance.borrow_mut().pick(list).copied()
    }

    /// The machine's clock.
    pub fn now(&self) -> Millis {
        self.machine.clock.0.get()
    }

    /// Sends a request and waits for what is heard of it. For client tasks.
    pub async fn send(&self, method: &str, target: &str, body: &Json) -> Heard {
        self.send_request(request(method, target, OPERATOR, body))
            .await
    }

    /// The same for a request that was made before. Whoever answers holds the ear: once it alone
    /// is left, the answer will never come.
    pub async fn send_request(&self, asked: Request) -> Heard {
        let ear: Rc<RefCell<Option<Heard>>> = Rc::default();
        let (world, heard) = (self.machine.world(), Rc::clone(&ear));
        self.server.borrow_mut().start(Box::pin(async move {
            let response = app::handle(world, asked).await;
            let body = serde_json::from_slice(&response.body).unwrap_or(Json::Null);
            heard.replace(Some(Heard::Answer(response.status, body)));
        }));
        loop {
            if let Some(heard) = ear.take() {
                return heard;
            }
            if Rc::strong_count(&ear) == 1 {
                return Heard::Nothing;
            }
            turn().await;
        }
    }

    /// One more client, or anybody else who outlives the machine.
    pub fn start_client(&self, task: Later<'static, ()>) {
        self.clients.borrow_mut().start(task);
    }

    /// Work inside the machine that no client waits for.
    pub fn start_inside(&self, task: Later<'static, ()>) {
        self.server.borrow_mut().start(task);
    }

    /// How many clients are at work.
    pub fn clients(&self) -> usize {
        self.clients.borrow().under_way()
    }

    /// One poll of somebody, chosen by the seed.
    pub fn step(&self) {
        while let Some(work) = self.machine.background.take() {
            self.server.borrow_mut().start(work);
        }
        let all = self.server.borrow().under_way() + self.clients.borrow().under_way();
        let index = self.draw(all.max(1));
        if index < self.clients.borrow().under_way() {
            self.poll_one_of(&self.clients);
        } else {
            self.poll_one_of(&self.server);
        }
    }

    /// Whoever is polled may start others, so the list is not borrowed meanwhile.
    fn poll_one_of(&self, place: &RefCell<Schedule>) {
        let mut tasks = place.replace(Schedule::new(Rc::clone(&self.chaos)));
        tasks.step();
        let started = place.replace(tasks);
        place.borrow_mut().join(started);
    }

    /// Something that was delayed arrives.
    pub fn let_one_land(&self) {
        if let Some(straggler) = self.chaos.take_straggler() {
            self.start_inside(straggler);
        }
    }

    /// One request or alarm is given up where it stands, perhaps one for which others wait.
    pub fn cut_one(&self) -> bool {
        self.server.borrow_mut().cut_one()
    }

    /// Whatever is under way in the isolate ends where it stands; what is stored stays. Gives how
    /// much that was.
    pub fn end_isolate(&self) -> usize {
        let mut ended = self.server.borrow().under_way();
        self.server.borrow_mut().kill();
        while self.machine.background.take().is_some() {
            ended += 1;
        }
        self.machine.restart();
        ended
    }

    /// Moves the clock and starts every alarm that is then due as work of the machine.
    pub fn advance(self: &Rc<Self>, ms: i64) {
        let now = self.now().after(ms);
        if civil(now).1 != civil(self.now()).1 {
            self.stats().count("month_turned");
        }
        self.machine.clock.0.set(now);
        self.let_owed_lapse();
        self.start_due_alarms();
    }

    /// Starts every alarm that is due.
    pub fn start_due_alarms(self: &Rc<Self>) {
        while let Some(name) = self.machine.objects.take_due(self.now()) {
            let world = Rc::clone(self);
            self.start_inside(Box::pin(async move {
                if world.machine.objects.alarm(&name).await.is_err() {
                    world.stats().count("alarm_failed");
                    // The platform repeats an alarm that failed.
                    world.machine.objects.repeat_alarm(&name, world.now());
                }
            }));
        }
    }

    /// One tick of cron; ticks may overlap.
    pub fn start_cron(&self) {
        let world = self.machine.world();
        self.stats().count("cron_ticks");
        self.start_inside(Box::pin(async move {
            crate::cron::tick(&world).await;
        }));
    }

    /// Polls until nobody is at work any more; gives up after a bound that no run comes near.
    pub fn settle_down(self: &Rc<Self>) -> Result<(), String> {
        for _ in 0..3_000_000 {
            self.let_one_land();
            self.step();
            let busy = self.server.borrow().under_way() + self.clients();
            if busy == 0 && self.chaos.stragglers() == 0 && self.machine.background.is_empty() {
                return Ok(());
            }
        }
        Err("the world does not come to rest".to_owned())
    }
}
