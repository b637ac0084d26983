//! `GET /{code}`: the redirect, answered first and recorded after. One that needs nothing but what
//! the isolate remembers is answered before the router, by the same rules.

use std::rc::Rc;

use serde_json::json;
use url::Url;

use super::app::Call;
use super::pages::html;
use super::reply::{Answer, Problem, Response};
use super::request::{Method, Request};
use crate::ledger::clicks::{self, Click, SetOut};
use crate::ledger::wire::Visitor;
use crate::links::rules::{Decision, Visit, is_prefetch};
use crate::links::store::Target;
use crate::links::{code, decide, lookup};
use crate::pages;
use crate::provider::standin::clock;
use crate::tally;
use crate::units::{LinkCode, Millis};
use crate::world::World;

/// How somebody asks for a code, as far as any rule looks at it. An empty text says as little as
/// none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// Only the headers are asked for.
    pub head: bool,
    /// A browser asks ahead.
    pub prefetch: bool,
    /// Two letters, as the platform says.
    pub country: Option<&'a str>,
    /// The connecting address.
    pub address: &'a str,
    /// What the visitor's program says of itself.
    pub user_agent: &'a str,
    /// The page before.
    pub referrer: &'a str,
}

impl<'a> Asked<'a> {
    fn of(request: &'a Request) -> Self {
        let text = |name: &str| request.header(name).unwrap_or_default();
        let mut headers = request.headers.iter();
        Self {
            head: request.method == Method::Head,
            prefetch: headers.any(|(name, value)| is_prefetch(name, value)),
            country: request.country.as_deref(),
            address: request.peer.as_deref().unwrap_or_default(),
            user_agent: text("user-agent"),
            referrer: text("referer"),
        }
    }

    const fn visit(self, now: Millis) -> Visit {
        Visit {
            head: self.head,
            prefetch: self.prefetch,
            now,
        }
    }

    fn click(self, world: &World, code: LinkCode, target: &Target, at: Millis) -> Click {
        let verdict = world.isolate.links.verdicts.on(self.user_agent);
        Click {
            account_id: target.account_id.clone(),
            code,
            at,
            country: self.country.map(str::to_owned),
            referrer_host: host_of(self.referrer),
            visitor: Visitor {
                address: self.address.to_owned(),
                user_agent: self.user_agent.to_owned(),
            },
            correction: verdict.map(|it| (it.reason.name(), it.rule.to_owned())),
        }
    }
}

/// A redirect that needed nobody, its click already on its way.
#[derive(Debug)]
pub struct AtOnce {
    /// Where to.
    pub target: Rc<Target>,
    /// For the answer's `X-Request-Id`.
    pub request_id: String,
    /// The click, where it is one.
    pub click: Option<SetOut>,
    /// When.
    pub at: Millis,
}

/// The redirect of a link that this isolate remembers. `None` where anything else is to be said,
/// or anybody to be asked: [`short_link`] does that, and nothing has happened yet.
pub fn at_once(world: &World, code: &str, asked: Asked<'_>) -> Option<AtOnce> {
    if !clock::is_heard(world) {
        return None;
    }
    let code = code::fold(code)?;
    let now = world.now();
    let target = lookup::remembered(world, &code, now)?;
    let click = match decide(Some(target.state), asked.visit(now)) {
        Decision::Click => Some(clicks::set_out(
            world,
            &asked.click(world, code, &target, now),
        )?),
        Decision::RedirectOnly => None,
        Decision::Unknown | Decision::Disabled | Decision::Expired | Decision::Prefetch => {
            return None;
        }
    };
    Some(AtOnce {
        target,
        request_id: world.request_id(),
        click,
        at: now,
    })
}

/// `GET /{code}`
pub async fn short_link(call: Call) -> Answer {
    let Some(code) = code::fold(call.path_value(0)?) else {
        return Ok(refused(&call, &unknown()));
    };
    let target = lookup::target_of(&call.world, &code, call.now).await?;
    let asked = Asked::of(&call.request);
    let visit = asked.visit(call.now);
    let answer = match (decide(target.as_ref().map(|t| t.state), visit), target) {
        (Decision::Click, Some(target)) => {
            // Written after the answer: nothing of it keeps the visitor waiting.
            let click = asked.click(&call.world, code, &target, call.now);
            let recorded = clicks::record(Rc::clone(&call.world), click);
            call.world.background.spawn(Box::pin(recorded));
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
            refused(&call, &unknown())
        }
    };
    Ok(answer)
}

/// The longest name that the domain name system knows.
const HOST_BYTES_MAX: usize = 253;

/// The host alone: what else stands in the address of the page before is nobody's business.
fn host_of(referrer: &str) -> Option<String> {
    if referrer.is_empty() {
        return None;
    }
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

fn unknown() -> Problem {
    Problem::new(404, "not_found", "There is no such link.")
}

fn gone(detail: &str) -> Problem {
    Problem::new(410, "gone", detail)
}

/// Answered here and not as a failure, so that search engines are told what a redirect tells them.
/// A person who opened a link that leads nowhere is told so by a page.
fn refused(call: &Call, problem: &Problem) -> Response {
    let is_dead = matches!(problem.status, 404 | 410);
    let answer = if is_dead && call.request.wants_html() {
        html(problem.status, pages::dead_link(&problem.detail))
    } else {
        problem.response(&call.request_id)
    };
    answer.with("x-robots-tag", "noindex, nofollow")
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
