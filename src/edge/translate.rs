//! Requests and answers between the platform and the router. Nothing a client sends may make this
//! panic: what does not read becomes an empty value or an error answer.

use js_sys::Uint8Array;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use worker::web_sys;

use super::{body, js};
use crate::http::reply::Response;
use crate::http::request::{Body, Method, Request};
use crate::limits::{BODY_BYTES_DROPPED_MAX, BODY_BYTES_MAX};

#[wasm_bindgen(module = "/src/edge/crossing.js")]
extern "C" {
    #[wasm_bindgen(catch)]
    fn head(request: &web_sys::Request) -> Result<String, JsValue>;

    #[wasm_bindgen(catch)]
    fn answer(
        status: u16,
        lines: &str,
        body: Option<Uint8Array>,
    ) -> Result<web_sys::Response, JsValue>;
}

/// A request as the router sees it.
pub async fn request(incoming: &web_sys::Request) -> Result<Request, JsValue> {
    let head = head(incoming)?;
    let mut lines = head.split('\n');
    let method = Method::parse(lines.next().unwrap_or_default());
    let (origin, path, query) = split(lines.next().unwrap_or_default());
    let country = lines.next().filter(|text| !text.is_empty());
    let mut headers = Vec::new();
    while let (Some(name), Some(value)) = (lines.next(), lines.next()) {
        headers.push((name.to_owned(), value.to_owned()));
    }
    let body = match method {
        Method::Get | Method::Head | Method::Options => Body::Whole(Vec::new()),
        _ => read(incoming, &headers).await?,
    };
    let mut request = Request {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        origin: origin.to_owned(),
        headers,
        body,
        peer: None,
        country: country.map(str::to_owned),
    };
    request.peer = request.header("cf-connecting-ip").map(str::to_owned);
    Ok(request)
}

/// A body whose length the client gave and that may be kept is read in one piece, any other chunk
/// by chunk.
async fn read(incoming: &web_sys::Request, headers: &[(String, String)]) -> Result<Body, JsValue> {
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse::<usize>().ok());
    let bytes = match length {
        Some(length) if length <= BODY_BYTES_MAX => {
            let whole = js::settled(incoming.array_buffer()).await?;
            Some(Uint8Array::new(&whole).to_vec()).filter(|bytes| bytes.len() <= BODY_BYTES_MAX)
        }
        _ => body::read(incoming.body(), BODY_BYTES_MAX, BODY_BYTES_DROPPED_MAX).await?,
    };
    Ok(bytes.map_or(Body::TooLarge, Body::Whole))
}

/// Origin, path and query of an absolute URL; the platform gives no other.
pub fn split(url: &str) -> (&str, &str, &str) {
    let url = url.split_once('#').map_or(url, |(before, _)| before);
    let (url, query) = url.split_once('?').unwrap_or((url, ""));
    let host = url.find("://").map_or(0, |at| at + 3);
    let path = url
        .get(host..)
        .and_then(|rest| rest.find('/'))
        .map_or(url.len(), |at| host + at);
    let (origin, path) = url.split_at(path);
    (origin, if path.is_empty() { "/" } else { path }, query)
}

/// An answer as the platform sends it. A header that it does not take is an error.
pub fn response(given: &Response) -> Result<web_sys::Response, JsValue> {
    let mut lines = String::new();
    for (name, value) in &given.headers {
        if value.contains(['\n', '\r']) {
            return Err(JsValue::from_str("a header with a line break"));
        }
        for word in [name, value] {
            if !lines.is_empty() {
                lines.push('\n');
            }
            lines.push_str(word);
        }
    }
    // 204 and 304 may have no body at all, not even an empty one.
    let body = (!given.body.is_empty()).then(|| Uint8Array::from(given.body.as_slice()));
    answer(given.status, &lines, body)
}
