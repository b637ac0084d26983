//! `/app/lab`: the same jobs, started at the same moment, against a plain check and through the
//! gate. The gate's side is made of real requests: they pass the router, tokens and all.

use std::rc::Rc;

use serde_json::{Value, json};

use super::app::{self, Call};
use super::pages::{fields, html};
use super::reply::{Answer, Failure, Problem, Response};
use super::request::{Body, Method, Request};
use crate::fault::Fault;
use crate::gate::lab::{self, Checked, Fresh, Race, WORK_MS};
use crate::limits::{LAB_AMOUNT_MAX, LAB_JOBS_MAX};
use crate::pages::{self, LabLine, LabView};
use crate::parallel;
use crate::ports::Later;
use crate::units::Units;
use crate::world::World;

/// `GET /app/lab`
pub async fn lab(call: Call) -> Answer {
    needs_stand_in(&call)?;
    let view = LabView::new(100_000, 5, 40_000, 5);
    Ok(html(200, pages::lab(&call.viewer(), &view)))
}

/// `POST /app/lab/run`: a page, or JSON where that is asked for.
pub async fn run_lab(call: Call) -> Answer {
    needs_stand_in(&call)?;
    let race = race_of(&call)?;
    let (plain, plain_spent) = lab::plain(&call.world, race).await?;
    let fresh = lab::fresh_account(&call.world, race).await?;
    let gate = through_the_gate(&call, race, &fresh).await?;
    let budget = budget_of(&call, &fresh).await?;
    let view = view_of(
        race,
        (&plain, plain_spent),
        &gate,
        &budget,
        fresh.account_id,
    );
    let accept = call.request.header("accept").unwrap_or_default();
    if accept.contains("application/json") {
        return Ok(Response::json(200, &view_json(&view)));
    }
    Ok(html(200, pages::lab(&call.viewer(), &view)))
}

fn needs_stand_in(call: &Call) -> Result<(), Problem> {
    if call.world.settings.has_stand_in() {
        Ok(())
    } else {
        Err(Problem::not_found())
    }
}

/// From the page's form, or from JSON.
fn race_of(call: &Call) -> Result<Race, Failure> {
    let mut fields = fields(&call.request.body)?;
    let units = |n: Option<i64>, default: i64| Units::new(n.unwrap_or(default));
    let limit = units(fields.opt_int("limit", 1, LAB_AMOUNT_MAX)?, 100_000);
    let amount = units(fields.opt_int("amount", 1, LAB_AMOUNT_MAX)?, 40_000);
    let jobs = fields.opt_int("jobs", 1, LAB_JOBS_MAX)?.unwrap_or(5);
    let at_once = fields.opt_int("concurrency", 1, LAB_JOBS_MAX)?.unwrap_or(5);
    fields.finish()?;
    Ok(Race {
        limit: limit.unwrap_or_default(),
        jobs,
        amount: amount.unwrap_or_default(),
        at_once: usize::try_from(at_once).unwrap_or(1),
    })
}

/// What a job was told by the gate.
struct Told {
    started: bool,
    left: Option<i64>,
    said: String,
}

async fn through_the_gate(call: &Call, race: Race, fresh: &Fresh) -> Result<Vec<Told>, Fault> {
    let works = (0..race.jobs)
        .map(|job| -> Later<'_, Result<Told, Fault>> {
            Box::pin(one_job(&call.world, &call.request.origin, race, fresh, job))
        })
        .collect();
    let told = parallel::all(works, race.at_once).await;
    told.into_iter().collect()
}

/// Asks the gate, works, settles.
async fn one_job(
    world: &Rc<World>,
    origin: &str,
    race: Race,
    fresh: &Fresh,
    job: i64,
) -> Result<Told, Fault> {
    let hold = json!({"key": format!("lab-{job}"), "feature": fresh.feature.as_str(),
        "hold": race.amount.get()});
    let (status, body) = ask(world, origin, &fresh.api_key, "POST", "/v1/jobs", &hold).await?;
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    if status != 201 {
        let said = format!("{status} {} {}", text("code"), text("reason"));
        return Ok(Told {
            started: false,
            left: body.get("remaining").and_then(Value::as_i64),
            said: said.trim_end().to_owned(),
        });
    }
    let left = body
        .get("remaining")
        .and_then(|by| by.get(fresh.feature.as_str()));
    let left = left.and_then(Value::as_i64);
    world.timer.pause(WORK_MS).await;
    let path = format!("/v1/jobs/{}/settle", text("id"));
    let used = json!({"used": race.amount.get()});
    let (status, _) = ask(world, origin, &fresh.api_key, "POST", &path, &used).await?;
    Ok(Told {
        started: true,
        left,
        said: format!("201 running, settled {status}"),
    })
}

async fn budget_of(call: &Call, fresh: &Fresh) -> Result<Value, Fault> {
    let path = format!("/v1/budget?feature={}", fresh.feature);
    let origin = &call.request.origin;
    let asked = ask(
        &call.world,
        origin,
        &fresh.api_key,
        "GET",
        &path,
        &Value::Null,
    )
    .await?;
    Ok(asked.1)
}

/// A request like any client's, through the router.
async fn ask(
    world: &Rc<World>,
    origin: &str,
    token: &str,
    method: &str,
    target: &str,
    body: &Value,
) -> Result<(u16, Value), Fault> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let bytes = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let request = Request {
        method: Method::parse(method),
        path: path.to_owned(),
        query: query.to_owned(),
        origin: origin.to_owned(),
        headers: vec![("authorization".to_owned(), format!("Bearer {token}"))],
        body: Body::Whole(bytes),
        peer: None,
        country: None,
    };
    let response = app::handle(Rc::clone(world), request).await;
    let body = serde_json::from_slice(&response.body)
        .map_err(|e| Fault::unreadable("read an answer of our own", e))?;
    Ok((response.status, body))
}

fn view_of(
    race: Race,
    (plain, plain_spent): (&[Checked], i64),
    gate: &[Told],
    budget: &Value,
    account: String,
) -> LabView {
    let number = |name: &str| budget.get(name).and_then(Value::as_i64).unwrap_or(0);
    let lines = plain.iter().zip(gate).map(|(plain, gate)| LabLine {
        plain_started: plain.started,
        plain_left: plain.left.get(),
        gate_started: gate.started,
        gate_left: gate.left,
        gate_said: gate.said.clone(),
    });
    let at_once = i64::try_from(race.at_once).unwrap_or(LAB_JOBS_MAX);
    let mut view = LabView::new(race.limit.get(), race.jobs, race.amount.get(), at_once);
    view.lines = lines.collect();
    view.plain_spent = plain_spent;
    view.gate_spent = number("used");
    view.gate_held = number("held");
    view.account = account;
    view
}

fn view_json(view: &LabView) -> Value {
    let jobs: Vec<Value> = view
        .lines
        .iter()
        .map(|line| {
            json!({"plain": {"started": line.plain_started, "left": line.plain_left},
                "gate": {"started": line.gate_started, "left": line.gate_left,
                    "said": line.gate_said}})
        })
        .collect();
    json!({"limit": view.limit, "jobs": jobs, "account": view.account,
        "plain": {"spent": view.plain_spent},
        "gate": {"spent": view.gate_spent, "held": view.gate_held}})
}
