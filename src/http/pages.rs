//! The pages: load view structs, hand them to `crate::pages`.

use super::app::Call;
use super::reply::{Answer, Problem, Response};
use crate::pages;

/// A page's answer: nothing but our own style and script is loaded or run.
pub fn html(status: u16, page: String) -> Response {
    let policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
        connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
    Response::html(status, page).with("content-security-policy", policy)
}

/// A problem, for a browser that asked for a page.
pub fn instead(problem: &Problem, request_id: &str) -> Response {
    let page = pages::no_page(problem.status, &problem.detail, request_id);
    let page = html(problem.status, page);
    match problem.retry_after {
        Some(seconds) => page.with("retry-after", seconds.to_string()),
        None => page,
    }
}

/// `GET /`
pub async fn home(_: Call) -> Answer {
    Ok(Response::see_other("/app"))
}

/// `GET /app/style.css`
pub async fn style(_: Call) -> Answer {
    Ok(asset("text/css; charset=utf-8", pages::STYLE))
}

/// `GET /app/script.js`
pub async fn script(_: Call) -> Answer {
    Ok(asset("text/javascript; charset=utf-8", pages::SCRIPT))
}

fn asset(content_type: &str, text: &str) -> Response {
    Response::of(200, content_type, text)
        .with("cache-control", "public, max-age=300")
        .with("x-content-type-options", "nosniff")
}

/// `GET /docs`
pub async fn docs(mut call: Call) -> Answer {
    call.caller = super::auth::visitor(&call).await?;
    Ok(html(200, pages::docs(&call.viewer())))
}
