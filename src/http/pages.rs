//! The pages: load view structs, hand them to `crate::pages`.

use super::app::{Call, unbuilt};
use super::reply::Answer;

/// `GET /`
pub async fn home(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /app`
pub async fn overview(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /app/lab`
pub async fn lab(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /app/lab/run`
pub async fn run_lab(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /app/reconcile`
pub async fn reconcile_page(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /app/engine-room`
pub async fn engine_room(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /app/engine-room/run`
pub async fn run_engine_room(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /app/links`
pub async fn links_page(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /app/jobs`
pub async fn jobs_page(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /app/accounts/{id}`
pub async fn account_page(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /app/events`
pub async fn events_page(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /app/style.css`
pub async fn style(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /app/script.js`
pub async fn script(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /docs`
pub async fn docs(call: Call) -> Answer {
    unbuilt(&call)
}
