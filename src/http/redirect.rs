//! `GET /{code}`: the redirect, answered first and recorded after.

use std::rc::Rc;

use serde_json::json;
use url::Url;

use super::app::Call;
use super::reply::{Answer, Failure, Problem, Response};
use super::request::{Method, Request};
use crate::ledger::clicks::{self, Click};
use crate::ledger::wire::Visitor;
use crate::links::crawlers::judge;
use crate::links::rules::{Decision, Visit, is_prefetch};
use crate::links::store::{self, Target};
use crate::links::{code, decide};
use crate::tally;
use crate::units::LinkCode;
use crate::world::World;

/// `GET /{code}`
pub async fn short_link(call: Call) -> Answer {
    let Some(code) = code::fold(call.path_value(0)?) else {
        return Ok(refused(&call, &Problem::not_found()));
    };
    let target = target_of(&call, &code).await?;
    let visit = Visit {
        head: call.request.method == Method::Head,
        prefetch: asks_ahead(&call.request),
        now: call.now,
    };
    let answer = match (decide(target.as_ref().map(|t| t.state), visit), target) {
        (Decision::Click, Some(target)) => {
            record(&call, code, &target);
            redirect(&target)
        }
        (Decision::RedirectOnly, Some(target)) => redirect(&target),
        (Decision::Disabled, _) => refused(&call, &gone("This link was switched off.")),
        (Decision::Expired, _) => refused(&call, &gone("This link has expired.")),
        (Decision::Prefetch, _) => {
            count_prefetch(&call.world);
            let detail = "A prefetch is not answered; the link is, when it is opened.";
            refused(&call, &Problem::new(503, "prefetch", detail))
        }
        (Decision::Unknown | Decision::Click | Decision::RedirectOnly, _) => {
            refused(&call, &Problem::not_found())
        }
    };
    Ok(answer)
}

/// Leaves the click to be written after the answer: nothing of it keeps the visitor waiting.
fn record(call: &Call, code: LinkCode, target: &Target) {
    let world = Rc::clone(&call.world);
    let text = |name: &str| call.request.header(name).map(str::to_owned);
    let (account_id, at) = (target.account_id.clone(), call.now);
    let (country, address) = (call.request.country.clone(), call.request.peer.clone());
    let (user_agent, referrer) = (text("user-agent"), text("referer"));
    call.world.background.spawn(Box::pin(async move {
        let verdict = judge(user_agent.as_deref());
        let click = Click {
            account_id,
            code,
            at,
            country,
            referrer_host: referrer.as_deref().and_then(host_of),
            visitor: Visitor {
                address: address.unwrap_or_default(),
                user_agent: user_agent.unwrap_or_default(),
            },
            correction: verdict.map(|it| (it.reason.name(), it.rule.to_owned())),
        };
        clicks::record(world, click).await;
    }));
}

/// The longest name that the domain name system knows.
const HOST_BYTES_MAX: usize = 253;

/// The host alone: what else stands in the address of the page before is nobody's business.
fn host_of(referrer: &str) -> Option<String> {
    let url = Url::parse(referrer).ok()?;
    let host = url.host_str().filter(|host| host.len() <= HOST_BYTES_MAX)?;
    Some(host.to_ascii_lowercase())
}

/// `Location` is the stored text itself: parsing and printing it again would change it.
fn redirect(target: &Target) -> Response {
    Response::empty(302)
        .with("location", target.destination.as_str())
        .with("cache-control", "private, no-store")
        .with("x-robots-tag", "noindex, nofollow")
}

fn gone(detail: &str) -> Problem {
    Problem::new(410, "gone", detail)
}

/// Answered here and not as a failure, so that search engines are told what a redirect tells them.
fn refused(call: &Call, problem: &Problem) -> Response {
    problem
        .response(&call.request_id)
        .with("x-robots-tag", "noindex, nofollow")
}

async fn target_of(call: &Call, code: &LinkCode) -> Result<Option<Rc<Target>>, Failure> {
    let memory = &call.world.isolate.links;
    let age_ms = call.world.settings.link_cache_seconds * 1000;
    if let Some(target) = memory.get(code, call.now, age_ms) {
        return Ok(Some(target));
    }
    let target = store::target(&*call.world.db, code).await?.map(Rc::new);
    if let Some(target) = &target {
        memory.keep(code, Rc::clone(target), call.now);
    }
    Ok(target)
}

fn asks_ahead(request: &Request) -> bool {
    let mut headers = request.headers.iter();
    headers.any(|(name, value)| is_prefetch(name, value))
}

/// Prefetches travel to the sum of `/metrics` together: whoever writes takes what all have counted.
/// What cannot be written is left to the next.
fn count_prefetch(world: &Rc<World>) {
    let add = |world: &World, count: i64| {
        let waiting = &world.isolate.links.prefetched;
        waiting.set(waiting.get().saturating_add(count));
    };
    add(world, 1);
    let world = Rc::clone(world);
    world.background.clone().spawn(Box::pin(async move {
        let count = world.isolate.links.prefetched.replace(0);
        if count == 0 {
            return;
        }
        let sum = tally::add("counterfoil_prefetched_total", count);
        if let Err(fault) = world.db.query(sum).await {
            add(&world, count);
            let fields = json!({"cause": fault.to_string(), "count": count});
            world.log.line("error", "links.prefetch", fields);
        }
    }));
}
