//! Signing in and out.

use super::app::{Call, unbuilt};
use super::reply::Answer;

/// `GET /signin`
pub async fn sign_in_page(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /signin`
pub async fn sign_in(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /signout`
pub async fn sign_out(call: Call) -> Answer {
    unbuilt(&call)
}
