//! The [`World`] on the platform. What does not change between requests is made once per isolate.

use std::cell::OnceCell;
use std::rc::Rc;

use serde_json::json;
use worker::Env;

use super::db::Database;
use super::objects::Stubs;
use super::platform::{Console, PlatformClock, PlatformIds, PlatformTimer};
use super::signatures::WebCrypto;
use super::transport::Outside;
use crate::fault::Fault;
use crate::isolate::Isolate;
use crate::ports::{Background, Clock, Db, Log, Objects, Timer, Transport};
use crate::provider::kinde::Kinde;
use crate::settings::Settings;
use crate::world::World;

thread_local! {
    static MADE: OnceCell<World> = const { OnceCell::new() };
}

/// The world of one request or object: all of it shared, but for what goes on after its answer.
pub fn of(env: &Env, background: Rc<dyn Background>) -> Result<Rc<World>, Fault> {
    if let Some(made) = MADE.with(|made| made.get().cloned()) {
        return Ok(Rc::new(World { background, ..made }));
    }
    let world = make(env, background)?;
    MADE.with(|made| made.set(world.clone()))
        .unwrap_or_default();
    Ok(Rc::new(world))
}

/// What the world that this isolate has made says; nothing before its first request.
pub fn known<T>(look: impl FnOnce(&World) -> Option<T>) -> Option<T> {
    MADE.with(|made| made.get().and_then(look))
}

fn make(env: &Env, background: Rc<dyn Background>) -> Result<World, Fault> {
    let text = |name: &str| env.var(name).ok().map(|value| value.to_string());
    let settings = Rc::new(Settings::read(&text)?);
    let db: Rc<dyn Db> = Rc::new(Database::new(env.clone(), "DB"));
    let objects: Rc<dyn Objects> = Rc::new(Stubs::new(env.clone()));
    let transport: Rc<dyn Transport> = Rc::new(Outside);
    let clock: Rc<dyn Clock> = Rc::new(PlatformClock);
    let timer: Rc<dyn Timer> = Rc::new(PlatformTimer);
    let isolate = Rc::new(Isolate::default());
    let provider = Kinde::of_settings(
        &settings, &db, &objects, &transport, &clock, &timer, &isolate,
    );
    Ok(World {
        settings,
        db,
        ledger: Rc::new(Database::new(env.clone(), "LEDGER_0")),
        objects,
        transport,
        provider: Rc::new(provider),
        signatures: Rc::new(WebCrypto),
        clock,
        ids: Rc::new(PlatformIds),
        background,
        timer,
        log: Rc::new(Console),
        isolate,
    })
}

/// One line for a fault that no answer tells of.
pub fn log_fault(event: &str, fault: &Fault) {
    let fields = json!({"code": fault.code(), "doing": fault.doing, "cause": fault.cause});
    Console.line("error", event, fields);
}
