//! Meters, evidence, review.

use super::app::{Call, unbuilt};
use super::reply::Answer;

/// `GET /v1/meters`
pub async fn list_meters(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /v1/evidence`
pub async fn list_evidence(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /v1/review`
pub async fn list_review(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /v1/review/close`
pub async fn close_reviews(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /v1/review/carry`
pub async fn carry_reviews(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /v1/review/{id}/close`
pub async fn close_review(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /v1/review/{id}/carry`
pub async fn carry_review(call: Call) -> Answer {
    unbuilt(&call)
}
