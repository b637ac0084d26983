//! Health, metrics, the API description, and running a cron job by hand.

use super::app::{Call, unbuilt};
use super::reply::Answer;

/// `GET /healthz`
pub async fn health(call: Call) -> Answer {
    unbuilt(&call)
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
