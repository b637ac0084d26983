//! The stand-in over HTTP.

use super::app::{Call, unbuilt};
use super::reply::Answer;

/// `POST /standin/oauth2/token`
pub async fn stand_in_api(call: Call) -> Answer {
    unbuilt(&call)
}

/// `PUT /standin/customers/{customer_id}`
pub async fn stand_in_control(call: Call) -> Answer {
    unbuilt(&call)
}
