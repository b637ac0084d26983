//! The gate over HTTP.

use super::app::{Call, unbuilt};
use super::reply::Answer;

/// `POST /v1/jobs`
pub async fn create_job(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /v1/jobs`
pub async fn list_jobs(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /v1/jobs/estimates`
pub async fn job_estimates(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /v1/jobs/{id}`
pub async fn get_job(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /v1/jobs/{id}/charges`
pub async fn charge_job(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /v1/jobs/{id}/extend`
pub async fn extend_job(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /v1/jobs/{id}/renew`
pub async fn renew_job(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /v1/jobs/{id}/settle`
pub async fn settle_job(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /v1/budget`
pub async fn get_budget(call: Call) -> Answer {
    unbuilt(&call)
}
