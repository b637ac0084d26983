//! Links, QR codes and the redirect.

use super::app::{Call, unbuilt};
use super::reply::Answer;

/// `POST /v1/links`
pub async fn create_link(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /v1/links`
pub async fn list_links(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /v1/links/{code}`
pub async fn get_link(call: Call) -> Answer {
    unbuilt(&call)
}

/// `PATCH /v1/links/{code}`
pub async fn patch_link(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /v1/links/{code}/qr.svg`
pub async fn link_qr_svg(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /v1/links/{code}/qr.png`
pub async fn link_qr_png(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /{code}`
pub async fn short_link(call: Call) -> Answer {
    unbuilt(&call)
}
