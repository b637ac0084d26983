//! The Worker: the only code that names `worker`. Ports over the platform, shells of the objects,
//! and the two events; no decisions.
//!
//! A panic resets the instance and the memory of every object in it, so nothing here unwraps what
//! the platform or a client gave.

mod body;
#[cfg(feature = "conformance")]
mod conformance;
mod db;
mod js;
mod objects;
mod platform;
mod rows;
mod short_links;
mod signatures;
mod sql;
mod translate;
mod transport;
mod world;

use std::rc::Rc;

use serde_json::json;
use worker::web_sys;
use worker::{Context, Env, ScheduleContext, ScheduledEvent, event};

use self::platform::{AfterAnswer, AfterTick, Console, PlatformClock, PlatformIds};
use crate::cron;
use crate::fault::Fault;
use crate::http::app;
use crate::http::reply::{Problem, Response, fault_problem};
use crate::ports::{Clock, Ids, Log};
use crate::world::mint;

/// Says where a panic was before the instance is reset.
#[event(start)]
fn start() {
    console_error_panic_hook::set_once();
}

/// Answers a request.
#[event(fetch)]
async fn fetch(
    request: web_sys::Request,
    env: Env,
    context: Context,
) -> worker::Result<web_sys::Response> {
    #[cfg(feature = "conformance")]
    if let Some(report) = conformance::report(&request.url(), &env).await {
        return report;
    }
    let answer = answer(&request, &env, context).await;
    translate::response(&answer).or_else(|thrown| {
        let fields = json!({"status": answer.status, "cause": js::message(&thrown)});
        Console.line("error", "answer.unsendable", fields);
        let fault = Fault::unavailable("send an answer", "the platform does not take it");
        Ok(translate::response(&refused(&fault_problem(&fault)))?)
    })
}

/// Everything that is due this minute.
#[event(scheduled)]
async fn scheduled(_event: ScheduledEvent, env: Env, context: ScheduleContext) {
    let background = Rc::new(AfterTick(Rc::new(context)));
    match world::of(&env, background) {
        Ok(world) => cron::tick(&world).await,
        Err(fault) => world::log_fault("settings.fault", &fault),
    }
}

async fn answer(request: &web_sys::Request, env: &Env, context: Context) -> Response {
    let background = Rc::new(AfterAnswer(Rc::new(context)));
    let world = match world::of(env, background) {
        Ok(world) => world,
        Err(fault) => {
            world::log_fault("settings.fault", &fault);
            return refused(&fault_problem(&fault));
        }
    };
    match translate::request(request).await {
        Ok(request) => app::handle(world, request).await,
        Err(thrown) => {
            let detail = format!("The request does not read: {}.", js::message(&thrown));
            refused(&Problem::new(400, "unreadable", detail))
        }
    }
}

/// The answer to a request that never came to the router.
fn refused(problem: &Problem) -> Response {
    let random = PlatformIds.random().unwrap_or_default();
    let request_id = mint("req_", PlatformClock.read(), random);
    problem
        .response(&request_id)
        .with("x-request-id", request_id)
}
