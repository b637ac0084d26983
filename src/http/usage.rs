//! Plain usage, entries, corrections.

use super::app::{Call, unbuilt};
use super::reply::Answer;

/// `GET /v1/usage`
pub async fn get_usage(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /v1/usage`
pub async fn record_usage(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /v1/entries`
pub async fn list_entries(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /v1/entries/{id}/correction`
pub async fn correct_entry(call: Call) -> Answer {
    unbuilt(&call)
}
