//! A Worker that answers every request with the same redirect.

use worker::{Context, Env, Headers, Request, Response, Result, event};

#[event(fetch)]
async fn fetch(_request: Request, _env: Env, _context: Context) -> Result<Response> {
    let headers = Headers::new();
    headers.set("location", "https://example.com/")?;
    headers.set("cache-control", "private, no-store")?;
    Ok(Response::empty()?.with_status(302).with_headers(headers))
}
