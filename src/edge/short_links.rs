//! What `worker.js` asks before the router: the redirect of a link that this isolate remembers, and
//! what became of its click. One crossing each way.

use std::rc::Rc;

use wasm_bindgen::prelude::wasm_bindgen;
use worker::{Context, Env, worker_sys};

use super::platform::AfterAnswer;
use super::{translate, world};
use crate::http::redirect::{Asked, at_once};
use crate::ledger::clicks;
use crate::ledger::travelling::{Fate, Ticket};
use crate::links::rules::is_prefetch;
use crate::world::World;

/// In whose order `worker.js` sends the headers by which a browser asks ahead.
const ASKING_AHEAD: [&str; 4] = ["sec-purpose", "purpose", "x-purpose", "x-moz"];

/// Location, request id, the click's number or nothing, and `1` where nobody carries clicks yet:
/// four lines. Nothing where the router must answer.
#[wasm_bindgen]
#[must_use]
pub fn redirect_at_once(request: &str) -> Option<String> {
    world::known(|world| answer(world, request))
}

fn answer(world: &World, request: &str) -> Option<String> {
    let mut lines = request.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let head = match line() {
        "GET" => false,
        "HEAD" => true,
        _ => return None,
    };
    let (_, path, _) = translate::split(line());
    let asked = Asked {
        head,
        country: Some(line()).filter(|text| !text.is_empty()),
        user_agent: line(),
        referrer: line(),
        address: line(),
        prefetch: ASKING_AHEAD.iter().any(|name| is_prefetch(name, line())),
    };
    let answer = at_once(world, path.strip_prefix('/')?, asked)?;
    let location = answer.target.destination.as_str();
    let click = (answer.click).map_or_else(String::new, |ticket| ticket.to_string());
    let lead = u8::from(answer.click.is_some() && clicks::lack_carrier(world));
    Some(format!(
        "{location}\n{}\n{click}\n{lead}",
        answer.request_id
    ))
}

/// What a click's request has to do for it: 0, nothing any more; 1, look again; 2, see to it.
#[wasm_bindgen]
#[must_use]
pub fn care_for_click(ticket: Ticket) -> u32 {
    let care = world::known(|world| {
        Some(match world.isolate.clicks.fate(ticket) {
            Fate::Written => 0,
            Fate::OnItsWay if !clicks::lack_carrier(world) => 1,
            Fate::OnItsWay | Fate::Failed => 2,
        })
    });
    care.unwrap_or(2)
}

/// Watches a click until it is written, `waited` milliseconds after it set out.
#[wasm_bindgen]
pub async fn watch_click(ticket: Ticket, waited: u32, env: Env, context: worker_sys::Context) {
    let background = Rc::new(AfterAnswer(Rc::new(Context::new(context))));
    match world::of(&env, background) {
        Ok(world) => clicks::watch(world, ticket, waited).await,
        Err(fault) => world::log_fault("settings.fault", &fault),
    }
}
