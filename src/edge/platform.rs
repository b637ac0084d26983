//! The small ports: clock, random ids, work after the answer, and the log.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use worker::{Context, Delay, ScheduleContext, State, console_error, console_log};

use super::js;
use crate::fault::Fault;
use crate::moment;
use crate::ports::{Background, Clock, Ids, Later, Log, Timer};
use crate::units::Millis;

/// The machine's clock. The platform moves it only while I/O is awaited.
pub struct PlatformClock;

impl Clock for PlatformClock {
    fn read(&self) -> Millis {
        Millis::new(js::safe_integer(js_sys::Date::now().floor()).unwrap_or(0))
    }
}

/// The platform's random numbers. They are fetched by the kilobyte, because each fetch is a call
/// out of the module; none is given twice.
pub struct PlatformIds;

/// How many ids one fetch is enough for.
const DRAWN_AT_ONCE: usize = 64;

thread_local! {
    static DRAWN: RefCell<Vec<[u8; 16]>> = const { RefCell::new(Vec::new()) };
}

impl Ids for PlatformIds {
    fn random(&self) -> Result<[u8; 16], Fault> {
        if let Some(bytes) = DRAWN.with_borrow_mut(Vec::pop) {
            return Ok(bytes);
        }
        let mut fresh = [[0; 16]; DRAWN_AT_ONCE];
        getrandom::fill(fresh.as_flattened_mut())
            .map_err(|error| Fault::unavailable("read random bytes", error))?;
        DRAWN
            .with_borrow_mut(|drawn| {
                drawn.extend_from_slice(&fresh);
                drawn.pop()
            })
            .ok_or_else(|| Fault::unavailable("read random bytes", "none came"))
    }
}

/// Work after the answer of a request.
pub struct AfterAnswer(pub Rc<Context>);

impl Background for AfterAnswer {
    fn spawn(&self, work: Later<'static, ()>) {
        self.0.wait_until(work);
    }
}

/// Work after a cron tick.
pub struct AfterTick(pub Rc<ScheduleContext>);

impl Background for AfterTick {
    fn spawn(&self, work: Later<'static, ()>) {
        self.0.wait_until(work);
    }
}

/// Work after the answer of an object.
pub struct AfterCall(pub Rc<State>);

impl Background for AfterCall {
    fn spawn(&self, work: Later<'static, ()>) {
        self.0.wait_until(work);
    }
}

/// The platform's timers.
pub struct PlatformTimer;

impl Timer for PlatformTimer {
    fn pause(&self, ms: u32) -> Later<'static, ()> {
        Box::pin(Delay::from(Duration::from_millis(u64::from(ms))))
    }
}

/// One JSON object a line.
pub struct Console;

impl Log for Console {
    fn line(&self, level: &'static str, event: &str, fields: Value) {
        let mut line = json!({"at": moment::format(PlatformClock.read()), "level": level,
            "event": event});
        if let (Some(line), Value::Object(fields)) = (line.as_object_mut(), fields) {
            for (name, value) in fields {
                line.entry(name).or_insert(value);
            }
        }
        if level == "error" {
            console_error!("{line}");
        } else {
            console_log!("{line}");
        }
    }
}
