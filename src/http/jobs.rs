//! The gate over HTTP: bodies in, messages to the account's object, answers out.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::app::Call;
use super::auth::Role;
use super::body::{Fields, whole_number};
use super::list::{Page, feature_param, id_param};
use super::reply::{Answer, Failure, Problem, Response};
use crate::accounts::{Account, audit};
use crate::fault::Fault;
use crate::gate::wire::{
    AdmitAsk, Admitted, Amounts, Ask, ByHand, ChargeAsk, ChargedView, ExtendAsk, Given, JobView,
    ListAsk, Person, RefusedView, SettleAsk, SettledView, Told,
};
use crate::gate::{self, together};
use crate::limits::REASON_CHARS_MAX;
use crate::moment;
use crate::settings::{FeatureKind, Settings};
use crate::units::{CallerKey, CycleName, FeatureName, JobId, Millis, SAFE_MAX, Step};
use crate::world;

/// `POST /v1/jobs`
pub async fn create_job(call: Call) -> Answer {
    let account = call.account()?;
    let ask = admit_ask(call.fields()?, &call.world.settings)?;
    match together::admit(&call.world, account, ask).await? {
        Admitted::New(job) => Ok(Response::json(201, &job_json(&job))),
        Admitted::Same(job) => Ok(Response::json(200, &job_json(&job))),
        Admitted::Refused(why) => Err(problem(&why).into()),
    }
}

/// `GET /v1/jobs`
pub async fn list_jobs(call: Call) -> Answer {
    let page = Page::of(&call.request)?;
    let state = call.request.query_param("state");
    if let Some(state) = &state
        && gate::rules::State::parse(state).is_none()
    {
        return Err(Problem::field("state", "It must be running, settled or expired.").into());
    }
    let feature =
        feature_param(&call.request, &call.world.settings)?.map(|feature| feature.to_string());
    let Some(account) = &call.account else {
        return busy_accounts(&call, &page).await;
    };
    let ask = Ask::List(ListAsk {
        state,
        feature,
        limit: page.limit,
        after: page.after.clone(),
    });
    match told(&call, account, ask).await? {
        Told::Jobs { items, next } => {
            let items: Vec<Value> = items.iter().map(job_json).collect();
            Ok(Response::json(200, &json!({"items": items, "next": next})))
        }
        _ => Err(unexpected().into()),
    }
}

/// The accounts with live holds, for the operator.
async fn busy_accounts(call: &Call, page: &Page) -> Answer {
    let (accounts, next) =
        gate::busy::accounts(&call.world, page.limit, page.after.as_deref()).await?;
    let items: Vec<Value> = accounts
        .iter()
        .map(|busy| {
            let budgets: Map<String, Value> = busy
                .budgets
                .iter()
                .map(|line| {
                    let view = json!({"used": line.used, "held": line.held,
                        "jobs": line.running});
                    (line.feature.clone(), view)
                })
                .collect();
            json!({"account": busy.account_id.as_str(), "features": budgets})
        })
        .collect();
    Ok(Response::json(200, &json!({"items": items, "next": next})))
}

/// `GET /v1/jobs/estimates`
pub async fn job_estimates(call: Call) -> Answer {
    let feature = required_feature(&call)?;
    let cycle = id_param(&call.request, "cycle", CycleName::new)?.map(|name| name.to_string());
    let ask = Ask::Estimates {
        feature: feature.to_string(),
        cycle,
    };
    match told(&call, call.account()?, ask).await? {
        Told::Estimates(view) => Ok(Response::json(
            200,
            &json!({"feature": feature.as_str(), "cycle": view.cycle, "jobs": view.jobs,
                "capped": view.capped, "expired": view.expired, "held": view.held,
                "charged": view.charged, "tenths": view.tenths}),
        )),
        _ => Err(unexpected().into()),
    }
}

/// `GET /v1/jobs/{id}`
pub async fn get_job(call: Call) -> Answer {
    let job_id = job_id(&call)?;
    match told(&call, call.account()?, Ask::Get { job_id }).await? {
        Told::Job(job) => Ok(Response::json(200, &job_json(&job))),
        _ => Err(unexpected().into()),
    }
}

/// `POST /v1/jobs/{id}/charges`
pub async fn charge_job(call: Call) -> Answer {
    let job_id = job_id(&call)?;
    let mut fields = call.fields()?;
    let feature = body_feature(&mut fields, &call.world.settings)?;
    let units = given(&mut fields, "units", feature, 1, &call.world.settings)?
        .ok_or_else(|| Problem::field("units", "It is required."))?;
    let step = step(&mut fields)?;
    fields.finish()?;
    let ask = Ask::Charge(ChargeAsk {
        job_id,
        units,
        step,
    });
    match told(&call, call.account()?, ask).await? {
        Told::Charged(view) => Ok(Response::json(200, &charged_json(&view))),
        _ => Err(unexpected().into()),
    }
}

/// `POST /v1/jobs/{id}/extend`
pub async fn extend_job(call: Call) -> Answer {
    let job_id = job_id(&call)?;
    let mut fields = call.fields()?;
    let feature = body_feature(&mut fields, &call.world.settings)?;
    let units = fields.units("units", 1)?.get();
    let step = step(&mut fields)?;
    fields.finish()?;
    let ask = Ask::Extend(ExtendAsk {
        job_id,
        feature,
        units,
        step,
    });
    match told(&call, call.account()?, ask).await? {
        Told::Job(job) => Ok(Response::json(200, &job_json(&job))),
        _ => Err(unexpected().into()),
    }
}

/// `POST /v1/jobs/{id}/renew`
pub async fn renew_job(call: Call) -> Answer {
    let job_id = job_id(&call)?;
    call.fields()?.finish()?;
    match told(&call, call.account()?, Ask::Renew { job_id }).await? {
        Told::Renewed { lease_ends_at_ms } => Ok(Response::json(
            200,
            &json!({"lease_ends_at": time(lease_ends_at_ms)}),
        )),
        _ => Err(unexpected().into()),
    }
}

/// `POST /v1/jobs/{id}/settle`
pub async fn settle_job(call: Call) -> Answer {
    let job_id = job_id(&call)?;
    let mut fields = call.fields()?;
    let used = given(&mut fields, "used", None, 0, &call.world.settings)?;
    let outcome = fields.opt_text("outcome")?;
    if outcome
        .as_deref()
        .is_some_and(|text| !matches!(text, "done" | "failed"))
    {
        return Err(Problem::field("outcome", "It must be done or failed.").into());
    }
    let reason = reason(&mut fields)?;
    fields.finish()?;
    let caller = call.caller()?;
    let person = match (caller.role, reason) {
        (Role::Operator, Some(reason)) => Some(Person {
            actor: caller.name.clone(),
            reason,
        }),
        (Role::Operator, None) => {
            let detail = "An operator who settles a job says why.";
            return Err(Problem::field("reason", detail).into());
        }
        (Role::Backend | Role::Account, _) => None,
    };
    let account = call.account()?;
    let ask = Ask::Settle(SettleAsk {
        job_id: job_id.clone(),
        used,
        outcome,
        person,
    });
    match told(&call, account, ask).await? {
        Told::Settled(view) => {
            if let Some(by_hand) = &view.by_hand {
                keep_audit(&call, account, &job_id, by_hand).await?;
            }
            Ok(Response::json(200, &settled_json(&view)))
        }
        _ => Err(unexpected().into()),
    }
}

fn reason(fields: &mut Fields) -> Result<Option<String>, Problem> {
    let text = fields
        .opt_text("reason")?
        .map(|text| text.trim().to_owned());
    match text.filter(|text| !text.is_empty()) {
        Some(text) if text.chars().count() > REASON_CHARS_MAX => {
            let detail = format!("It must have at most {REASON_CHARS_MAX} characters.");
            Err(fields.wrong("reason", &detail))
        }
        text => Ok(text),
    }
}

/// One row for what took effect, whoever asks again: the object says who did it, when and why, and
/// the row's id is made of that.
async fn keep_audit(
    call: &Call,
    account: &Account,
    job_id: &str,
    by_hand: &ByHand,
) -> Result<(), Fault> {
    let account_id = &account.account_id;
    let digest = hmac_sha256::Hash::hash(format!("{account_id}/{job_id}").as_bytes());
    let mut first = [0; 16];
    first
        .iter_mut()
        .zip(digest)
        .for_each(|(to, from)| *to = from);
    let at = Millis::new(by_hand.at_ms);
    let id = world::mint("aud_", at, first);
    let Person { actor, reason } = &by_hand.person;
    let (action, account_id) = ("job.settle", Some(account_id));
    let row = audit::row(at, &id, actor, action, job_id, account_id, Some(reason));
    call.world.db.query(row).await.map(|_| ())
}

/// `GET /v1/budget`
pub async fn get_budget(call: Call) -> Answer {
    let feature = required_feature(&call)?;
    let account = call.account()?;
    let ask = Ask::Budget {
        features: vec![feature.to_string()],
    };
    let Told::Budgets(views) = told(&call, account, ask).await? else {
        return Err(unexpected().into());
    };
    let Some(view) = views.into_iter().next() else {
        return Err(unexpected().into());
    };
    let mut used = view.used;
    let mut remaining = view.remaining;
    let known = call.world.settings.feature(&feature);
    if known.is_some_and(|known| known.kind == FeatureKind::Counted) {
        let cycle = CycleName::new(view.cycle.clone()).ok_or_else(unexpected)?;
        let total = ledger_total(&call, account, &feature, &cycle).await?;
        used = total;
        remaining = view.limit.map(|limit| limit.saturating_sub(total).max(0));
    }
    Ok(Response::json(
        200,
        &json!({"feature": view.feature, "cycle": view.cycle, "limit": view.limit,
            "limit_state": view.limit_state, "used": used, "held": view.held,
            "remaining": remaining}),
    ))
}

async fn ledger_total(
    call: &Call,
    account: &Account,
    feature: &FeatureName,
    cycle: &CycleName,
) -> Result<i64, Fault> {
    gate::busy::ledger_total(&*call.world.ledger, &account.account_id, feature, cycle).await
}

/// Asks the account's object; a refusal becomes its problem.
async fn told(call: &Call, account: &Account, ask: Ask) -> Result<Told, Failure> {
    match gate::ask(&call.world, account, ask).await? {
        Told::Refused(why) => Err(problem(&why).into()),
        told => Ok(told),
    }
}

fn unexpected() -> Fault {
    Fault::unreadable("read the answer of an account", "it is not what was asked")
}

fn job_id(call: &Call) -> Result<String, Problem> {
    let text = call.path_value(0)?;
    match JobId::new(text) {
        Some(id) => Ok(id.to_string()),
        None => Err(Problem::not_found()),
    }
}

fn admit_ask(mut fields: Fields, settings: &Settings) -> Result<AdmitAsk, Problem> {
    let key = fields.id("key", CallerKey::new)?.to_string();
    let holds = if let Some(holds) = fields.take("holds") {
        if fields.has("feature") || fields.has("hold") {
            let detail = "Give either feature and hold, or holds.";
            return Err(Problem::field("holds", detail));
        }
        amounts(holds, "holds", 1, settings, true)?
    } else {
        let feature = fields.id("feature", FeatureName::new)?;
        check_gated(settings, &feature, "feature")?;
        let hold = fields.units("hold", 1)?;
        Amounts::from([(feature.to_string(), hold.get())])
    };
    let lease_seconds = fields.opt_int("lease_seconds", 1, 3600)?;
    fields.finish()?;
    Ok(AdmitAsk {
        key,
        holds,
        lease_seconds,
    })
}

/// Amounts by feature, at least one.
fn amounts(
    value: Value,
    field: &str,
    min: i64,
    settings: &Settings,
    gated: bool,
) -> Result<Amounts, Problem> {
    let Value::Object(map) = value else {
        return Err(Problem::field(
            field,
            "It must be an object of amounts by feature.",
        ));
    };
    let mut amounts = BTreeMap::new();
    for (name, value) in map {
        let place = format!("{field}.{name}");
        let unlisted = format!("There is no feature {name}.");
        let feature = FeatureName::new(name)
            .filter(|feature| settings.feature(feature).is_some())
            .ok_or_else(|| Problem::field("feature", unlisted))?;
        if gated {
            check_gated(settings, &feature, "feature")?;
        }
        let units = whole_number(&value)
            .filter(|units| (min..=SAFE_MAX).contains(units))
            .ok_or_else(|| Problem::field(&place, amount_detail(min)))?;
        amounts.insert(feature.to_string(), units);
    }
    if amounts.is_empty() {
        return Err(Problem::field(field, "It must name at least one feature."));
    }
    Ok(amounts)
}

fn amount_detail(min: i64) -> String {
    format!("It must be a whole number, {min} to {SAFE_MAX}.")
}

fn check_gated(settings: &Settings, feature: &FeatureName, field: &str) -> Result<(), Problem> {
    match settings.feature(feature) {
        None => Err(Problem::field(field, "There is no such feature.")),
        Some(known) if known.kind.is_gated() => Ok(()),
        Some(_) => Err(Problem::field(field, "This feature is counted, not gated.")),
    }
}

/// A number, or amounts by feature.
fn given(
    fields: &mut Fields,
    field: &str,
    feature: Option<String>,
    min: i64,
    settings: &Settings,
) -> Result<Option<Given>, Problem> {
    match fields.take(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value @ Value::Object(_)) => {
            if feature.is_some() {
                let detail = "The amounts name their features already.";
                return Err(Problem::field("feature", detail));
            }
            let amounts = amounts(value, field, min, settings, false)?;
            Ok(Some(Given::Each(amounts)))
        }
        Some(value) => match whole_number(&value).filter(|n| (min..=SAFE_MAX).contains(n)) {
            Some(units) => Ok(Some(Given::One { feature, units })),
            None => Err(Problem::field(field, amount_detail(min))),
        },
    }
}

fn body_feature(fields: &mut Fields, settings: &Settings) -> Result<Option<String>, Problem> {
    let feature = fields.opt_id("feature", FeatureName::new)?;
    if let Some(feature) = &feature
        && settings.feature(feature).is_none()
    {
        return Err(Problem::field("feature", "There is no such feature."));
    }
    Ok(feature.map(|feature| feature.to_string()))
}

fn step(fields: &mut Fields) -> Result<Option<String>, Problem> {
    let step = fields.opt_id("step", Step::new)?;
    Ok(step.map(|step| step.to_string()))
}

fn required_feature(call: &Call) -> Result<FeatureName, Problem> {
    let feature = feature_param(&call.request, &call.world.settings)?;
    feature.ok_or_else(|| Problem::field("feature", "It is required."))
}

fn time(ms: i64) -> String {
    moment::format(Millis::new(ms))
}

/// A job as the routes answer it.
pub fn job_json(job: &JobView) -> Value {
    let holds: Map<String, Value> = job
        .holds
        .iter()
        .map(|(feature, hold)| {
            let hold = json!({"held": hold.held, "used": hold.used});
            (feature.clone(), hold)
        })
        .collect();
    json!({
        "id": job.id, "key": job.key, "state": job.state, "capped": job.capped,
        "cycle": job.cycle, "holds": holds, "remaining": job.remaining,
        "lease_ends_at": time(job.lease_ends_at_ms), "lease_seconds": job.lease_seconds,
        "created_at": time(job.created_at_ms), "ended_at": job.ended_at_ms.map(time),
        "outcome": job.outcome,
    })
}

/// Numbers where the job has one feature, else amounts by feature.
fn charged_json(view: &ChargedView) -> Value {
    let show = |amounts: &Amounts| match amounts.values().next() {
        Some(units) if amounts.len() == 1 => json!(units),
        _ => json!(amounts),
    };
    json!({
        "charged": show(&view.charged), "capped": view.capped,
        "uncovered": show(&view.uncovered), "held": show(&view.held),
        "used": show(&view.used), "lease_ends_at": time(view.lease_ends_at_ms),
    })
}

fn settled_json(view: &SettledView) -> Value {
    json!({
        "state": view.state, "charged": view.charged, "released": view.released,
        "uncovered": view.uncovered, "by_cycle": view.by_cycle,
    })
}

/// A refusal as the routes answer it.
pub fn problem(why: &RefusedView) -> Problem {
    match why {
        RefusedView::NotFound => Problem::not_found(),
        RefusedView::Feature { field } => Problem::field(
            field,
            "The job does not hold this feature, or holds several and none is named.",
        ),
        RefusedView::KeyConflict => {
            let detail = "This key was used for another request.";
            Problem::new(409, "key_conflict", detail)
        }
        RefusedView::JobOver { state, charged } => {
            Problem::new(409, "job_over", format!("The job is {state}."))
                .with("state", state.as_str())
                .with("charged", json!(charged))
        }
        RefusedView::LimitUnknown {
            feature,
            retry_after_seconds,
        } => {
            let detail = "The limit cannot be read at the moment, so nothing new may start.";
            Problem::new(503, "limit_unknown", detail)
                .with("feature", feature.as_str())
                .retry_after(*retry_after_seconds)
        }
        RefusedView::NotInPlan { feature } => {
            let detail = format!("The plan does not include {feature}.");
            Problem::new(403, "feature_not_in_plan", detail).with("feature", feature.as_str())
        }
        RefusedView::RateLimited {
            retry_after_seconds,
        } => Problem::new(429, "rate_limited", "Too many new jobs in this minute.")
            .retry_after(*retry_after_seconds),
        RefusedView::OverLimit {
            feature,
            reason,
            asked,
            remaining,
            used,
            held,
            limit,
            next_lease_ends_at_ms,
            retry_after_seconds,
        } => {
            let detail = format!("{asked} {feature} were asked for, {remaining} are left.");
            let mut problem = Problem::new(402, "over_limit", detail)
                .with("feature", feature.as_str())
                .with("reason", reason.as_str())
                .with("asked", *asked)
                .with("remaining", *remaining)
                .with("used", *used)
                .with("held", *held)
                .with("limit", json!(limit))
                .with("next_lease_ends_at", json!(next_lease_ends_at_ms.map(time)));
            problem.retry_after = *retry_after_seconds;
            problem
        }
    }
}
