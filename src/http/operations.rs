//! Health, metrics, the API description, and running a cron job by hand.

use serde_json::json;

use super::app::{Call, unbuilt};
use super::reply::{Answer, Response};
use super::{metrics, openapi};

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
    unbuilt(&call)
}
