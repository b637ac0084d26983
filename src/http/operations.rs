//! Health, metrics, the API description, and running a cron job by hand.

use serde_json::json;

use super::app::Call;
use super::reply::{Answer, Problem, Response};
use super::{metrics, openapi};
use crate::accounts::store;
use crate::cron::{self, Asked, Job};
use crate::units::AccountId;

/// Which build answers: set by the build script, so that nobody takes an older server for this one.
const BUILD: &str = match option_env!("COUNTERFOIL_BUILD") {
    Some(build) => build,
    None => "local",
};

/// `GET /healthz`
pub async fn health(call: Call) -> Answer {
    let provider = if call.world.settings.has_stand_in() {
        "standin"
    } else {
        "kinde"
    };
    let version = env!("CARGO_PKG_VERSION");
    Ok(Response::json(
        200,
        &json!({"ok": true, "version": version, "build": BUILD, "provider": provider}),
    )
    .with("cache-control", "no-store"))
}

/// `GET /metrics`
pub async fn metrics(call: Call) -> Answer {
    let text = metrics::text(&call.world).await?;
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    Ok(Response::of(200, content_type, text).with("cache-control", "no-store"))
}

/// `GET /openapi.json`
pub async fn open_api(call: Call) -> Answer {
    Ok(Response::json(
        200,
        &openapi::document(&call.request.origin),
    ))
}

/// `POST /v1/run/{job}`
pub async fn run_job(call: Call) -> Answer {
    let job = Job::parse(call.path_value(0)?).ok_or_else(Problem::not_found)?;
    let mut fields = call.fields()?;
    let (mut named, mut dry_run) = (None, false);
    if job == Job::Reconciler {
        named = fields.opt_id("account", AccountId::new)?;
        dry_run = fields.opt_bool("dry_run")?.unwrap_or(false);
    }
    fields.finish()?;
    let account = match (call.account.clone(), named) {
        (None, Some(id)) => {
            let found = store::load(&*call.world.db, &id).await?;
            Some(found.ok_or_else(Problem::not_found)?)
        }
        (account, _) => account,
    };
    let asked = Asked { account, dry_run };
    let summary = cron::run_job(&call.world, job, &asked).await?;
    Ok(Response::json(200, &summary))
}
