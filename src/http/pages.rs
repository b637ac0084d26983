//! The pages: load view structs, hand them to `crate::pages`.

use serde_json::{Value, json};

use super::app::Call;
use super::body::{Fields, too_large};
use super::reply::{Answer, Problem, Response};
use super::request::Body;
use crate::pages;

/// A page's answer: nothing but our own style and script is loaded or run.
pub fn html(status: u16, page: String) -> Response {
    let policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
        connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
    Response::html(status, page).with("content-security-policy", policy)
}

/// The fields of a page's form, its numbers as numbers, or of a JSON object.
pub fn fields(body: &Body) -> Result<Fields, Problem> {
    let Body::Whole(bytes) = body else {
        return Err(too_large());
    };
    if bytes.trim_ascii_start().starts_with(b"{") {
        return Fields::parse(body);
    }
    let form = url::form_urlencoded::parse(bytes).map(|(name, value)| {
        let number = value.trim().parse::<i64>();
        (name.into_owned(), number.map_or(json!(value), |n| json!(n)))
    });
    Fields::nested(Value::Object(form.collect()), "")
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
