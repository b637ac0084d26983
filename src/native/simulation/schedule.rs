//! Runs tasks in an order that the seed decides: one poll of one task at a time.

use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::chaos::Chaos;
use crate::ports::Later;

/// Everything that is under way in one isolate.
pub struct Schedule {
    chaos: Rc<Chaos>,
    tasks: Vec<Later<'static, ()>>,
}

impl Schedule {
    /// With nothing under way.
    pub const fn new(chaos: Rc<Chaos>) -> Self {
        Self {
            chaos,
            tasks: Vec::new(),
        }
    }

    /// One more task.
    pub fn start(&mut self, task: Later<'static, ()>) {
        self.tasks.push(task);
    }

    /// Takes over the tasks of another schedule.
    pub fn join(&mut self, other: Self) {
        self.tasks.extend(other.tasks);
    }

    /// How many are under way.
    pub fn under_way(&self) -> usize {
        self.tasks.len()
    }

    fn choose(&self) -> usize {
        self.chaos.chance.borrow_mut().below(self.tasks.len())
    }

    /// Polls one task, chosen by the seed, once.
    pub fn step(&mut self) {
        if self.tasks.is_empty() {
            return;
        }
        let index = self.choose();
        let mut context = Context::from_waker(Waker::noop());
        let Some(task) = self.tasks.get_mut(index) else {
            return;
        };
        if let Poll::Ready(()) = task.as_mut().poll(&mut context) {
            drop(self.tasks.swap_remove(index));
        }
    }

    /// Ends one task, chosen by the seed, where it stands; whether there was one.
    pub fn cut_one(&mut self) -> bool {
        if self.tasks.is_empty() {
            return false;
        }
        let index = self.choose();
        drop(self.tasks.swap_remove(index));
        true
    }

    /// Ends every task where it stands, as a machine that loses its power does.
    pub fn kill(&mut self) {
        self.tasks.clear();
    }
}
