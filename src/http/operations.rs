//! Health, metrics, the API description, and running a cron job by hand.

use serde_json::json;

use super::app::{Call, unbuilt};
use super::reply::{Answer, Response};

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
        &json!({"ok": true, "version": version, "provider": provider}),
    ))
}

/// `GET /metrics`
pub async fn metrics(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /openapi.json`
pub async fn open_api(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /v1/run/{job}`
pub async fn run_job(call: Call) -> Answer {
    unbuilt(&call)
}
