//! What `worker.js` asks before the router: the redirect of a link that this isolate remembers, and
//! what became of the clicks. One crossing each way.

use std::rc::Rc;

use wasm_bindgen::prelude::wasm_bindgen;
use worker::{Context, Env, worker_sys};

use super::platform::AfterAnswer;
use super::{translate, world};
use crate::http::redirect::{Asked, at_once};
use crate::ledger::clicks;
use crate::ledger::travelling::{Fate, Window};
use crate::links::rules::is_prefetch;
use crate::world::World;

/// In whose order `worker.js` sends the headers by which a browser asks ahead.
const ASKING_AHEAD: [&str; 4] = ["sec-purpose", "purpose", "x-purpose", "x-moz"];

/// Location, request id, the window of clicks that the request is to watch or nothing, and `1`
/// where nobody carries clicks yet: four lines. Nothing where the router must answer.
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
    let watch = answer.click.and_then(|click| click.watch);
    let lead = u8::from(watch.is_some() && clicks::lack_carrier(world, answer.at));
    let watch = watch.map_or_else(String::new, |window| window.to_string());
    Some(format!(
        "{location}\n{}\n{watch}\n{lead}",
        answer.request_id
    ))
}

/// What whoever has watched for `waited` milliseconds has to do: 0, nothing any more; 1, look
/// again; 2, see to it.
#[wasm_bindgen]
#[must_use]
pub fn care_for_clicks(window: Window, waited: u32) -> u32 {
    let care = world::known(|world| {
        let now = world.now();
        Some(match world.isolate.clicks.fate(window, waited, now) {
            Fate::Written => {
                world.isolate.clicks.stop_watching(window);
                0
            }
            Fate::OnItsWay if !clicks::lack_carrier(world, now) => 1,
            Fate::OnItsWay | Fate::Overdue => 2,
        })
    });
    care.unwrap_or(2)
}

/// Watches the clicks of a window until they are written, `waited` milliseconds after the
/// request's own set out.
#[wasm_bindgen]
pub async fn watch_clicks(window: Window, waited: u32, env: Env, context: worker_sys::Context) {
    let background = Rc::new(AfterAnswer(Rc::new(Context::new(context))));
    match world::of(&env, background) {
        Ok(world) => clicks::watch(world, window, waited).await,
        Err(fault) => world::log_fault("settings.fault", &fault),
    }
}
