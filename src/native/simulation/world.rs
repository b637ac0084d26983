//! A machine under attack: clients that outlive it, an isolate that is killed between any two
//! awaits, a clock that jumps, and books of its own beside the production code's.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use serde_json::Value as Json;

use super::books::Books;
use super::chaos::{Chaos, ChaosGear, turn};
use super::schedule::Schedule;
use super::stats::Stats;
use crate::fault::Fault;
use crate::http::app;
use crate::native::machine::{Machine, request};
use crate::ports::Later;

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
}

/// Where an answer is awaited.
type Ear = Rc<RefCell<Option<Heard>>>;

/// The machine, what is under way in it, and who talks to it.
pub struct World {
    /// The production code.
    pub machine: Machine,
    /// What goes wrong.
    pub chaos: Rc<Chaos>,
    /// What must be true, kept apart from the production code.
    pub books: RefCell<Books>,
    server: RefCell<Schedule>,
    clients: RefCell<Schedule>,
    ears: RefCell<Vec<Weak<RefCell<Option<Heard>>>>>,
}

impl World {
    /// The world of a seed, calm and empty.
    pub fn of_seed(seed: u64, settings: &[(&str, &str)]) -> Result<Rc<Self>, Fault> {
        let chaos = Chaos::of_seed(seed);
        let machine = Machine::geared(settings, Rc::new(ChaosGear(Rc::clone(&chaos))))?;
        Ok(Rc::new(Self {
            machine,
            server: RefCell::new(Schedule::new(Rc::clone(&chaos))),
            clients: RefCell::new(Schedule::new(Rc::clone(&chaos))),
            books: RefCell::default(),
            ears: RefCell::default(),
            chaos,
        }))
    }

    /// What really happened.
    pub fn stats(&self) -> &Stats {
        &self.chaos.stats
    }

    /// Sends a request and waits for what is heard of it. For client tasks.
    pub async fn send(&self, method: &str, target: &str, token: &str, body: &Json) -> Heard {
        self.send_request(request(method, target, token, body))
            .await
    }

    /// The same for a request that was made before.
    pub async fn send_request(&self, asked: crate::http::request::Request) -> Heard {
        let ear: Ear = Rc::default();
        self.ears.borrow_mut().push(Rc::downgrade(&ear));
        let (world, heard) = (self.machine.world(), Rc::clone(&ear));
        self.server.borrow_mut().start(Box::pin(async move {
            let response = app::handle(world, asked).await;
            let body = serde_json::from_slice(&response.body).unwrap_or(Json::Null);
            heard
                .borrow_mut()
                .get_or_insert(Heard::Answer(response.status, body));
        }));
        loop {
            if let Some(heard) = ear.borrow_mut().take() {
                return heard;
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
        let index = self.chaos.chance.borrow_mut().below(all.max(1));
        if index < self.clients.borrow().under_way() {
            self.poll_a_client();
        } else {
            self.poll_the_server();
        }
    }

    /// A client starts requests while it is polled, so the list is not borrowed meanwhile.
    fn poll_a_client(&self) {
        let mut clients = self.clients.replace(Schedule::new(Rc::clone(&self.chaos)));
        clients.step();
        let started = self.clients.replace(clients);
        self.clients.borrow_mut().join(started);
    }

    fn poll_the_server(&self) {
        let mut server = self.server.replace(Schedule::new(Rc::clone(&self.chaos)));
        server.step();
        let started = self.server.replace(server);
        self.server.borrow_mut().join(started);
    }

    /// The machine loses its power: whatever is under way ends where it stands, what is stored
    /// stays. Clients hear nothing and may ask again.
    pub fn kill(&self) {
        self.stats().count("killed");
        self.stats().add(
            "killed_tasks",
            u64::try_from(self.server.borrow().under_way()).unwrap_or(0),
        );
        self.server.borrow_mut().kill();
        while self.machine.background.take().is_some() {}
        self.machine.restart();
        for ear in self
            .ears
            .borrow_mut()
            .drain(..)
            .filter_map(|ear| ear.upgrade())
        {
            ear.borrow_mut().get_or_insert(Heard::Nothing);
        }
    }

    /// Moves the clock and starts every alarm that is then due as work of the machine.
    pub fn advance(self: &Rc<Self>, ms: i64) {
        let clock = &self.machine.clock.0;
        clock.set(clock.get().after(ms));
        self.start_due_alarms();
    }

    /// Starts every alarm that is due.
    pub fn start_due_alarms(self: &Rc<Self>) {
        while let Some(name) = self.machine.objects.take_due(self.machine.clock.0.get()) {
            let world = Rc::clone(self);
            self.start_inside(Box::pin(async move {
                if world.machine.objects.alarm(&name).await.is_err() {
                    world.stats().count("alarm_failed");
                    // The platform repeats an alarm that failed.
                    world
                        .machine
                        .objects
                        .repeat_alarm(&name, world.machine.clock.0.get());
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

    /// The provider changes one customer's plan; one change of a customer at a time.
    pub fn start_plan_change(self: &Rc<Self>, account: &str, plan: &'static str, number: u64) {
        if !self.books.borrow_mut().changing.insert(account.to_owned()) {
            return;
        }
        let (world, account) = (Rc::clone(self), account.to_owned());
        self.start_client(Box::pin(async move {
            super::clients::plan_change(Rc::clone(&world), account.clone(), plan, number).await;
            world.books.borrow_mut().changing.remove(&account);
        }));
    }

    /// Polls until nobody is at work any more; gives up after a bound that no run comes near.
    pub fn settle_down(self: &Rc<Self>) -> Result<(), String> {
        for _ in 0..3_000_000 {
            if let Some(straggler) = self.chaos.take_straggler() {
                self.start_inside(straggler);
            }
            self.step();
            let busy = self.server.borrow().under_way() + self.clients();
            if busy == 0 && self.chaos.stragglers() == 0 && self.machine.background.is_empty() {
                return Ok(());
            }
        }
        Err("the world does not come to rest".to_owned())
    }
}
