//! The inbox over HTTP.

use super::app::{Call, unbuilt};
use super::reply::Answer;

/// `POST /webhooks/kinde`
pub async fn receive_webhook(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /v1/events`
pub async fn list_events(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /v1/events/replay`
pub async fn replay_events(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /v1/events/{id}`
pub async fn get_event(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /v1/events/{id}/replay`
pub async fn replay_event(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /v1/events/{id}/skip`
pub async fn skip_event(call: Call) -> Answer {
    unbuilt(&call)
}
