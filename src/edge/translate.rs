//! Requests and answers between the platform and the router. Nothing a client sends may make this
//! panic: what does not read becomes an empty value or an error answer.

use js_sys::Uint8Array;
use wasm_bindgen::JsValue;
use worker::web_sys::{self, ResponseInit};

use super::{body, js};
use crate::http::reply::Response;
use crate::http::request::{Body, Method, Request};
use crate::limits::BODY_BYTES_MAX;

/// A request as the router sees it.
pub async fn request(incoming: &web_sys::Request) -> Result<Request, JsValue> {
    let method = Method::parse(&incoming.method());
    let url = incoming.url();
    let (origin, path, query) = split(&url);
    let headers = body::headers(&incoming.headers())?;
    let country = js::text_member(&js::member(incoming, "cf"), "country");
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
        country,
    };
    request.peer = request.header("cf-connecting-ip").map(str::to_owned);
    Ok(request)
}

/// A body whose length the client gave is read in one piece, any other chunk by chunk; neither
/// beyond the bound.
async fn read(incoming: &web_sys::Request, headers: &[(String, String)]) -> Result<Body, JsValue> {
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse::<usize>().ok());
    let bytes = match length {
        Some(length) if length > BODY_BYTES_MAX => None,
        Some(_) => {
            let whole = js::settled(incoming.array_buffer()).await?;
            Some(Uint8Array::new(&whole).to_vec()).filter(|bytes| bytes.len() <= BODY_BYTES_MAX)
        }
        None => body::read(incoming.body(), BODY_BYTES_MAX).await?,
    };
    Ok(bytes.map_or(Body::TooLarge, Body::Whole))
}

/// Origin, path and query of an absolute URL; the platform gives no other.
fn split(url: &str) -> (&str, &str, &str) {
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
pub fn response(answer: &Response) -> Result<web_sys::Response, JsValue> {
    let headers = web_sys::Headers::new()?;
    for (name, value) in &answer.headers {
        headers.append(name, value)?;
    }
    let init = ResponseInit::new();
    init.set_status(answer.status);
    init.set_headers(&headers);
    // 204 and 304 may have no body at all, not even an empty one.
    let body = (!answer.body.is_empty()).then(|| Uint8Array::from(answer.body.as_slice()));
    web_sys::Response::new_with_opt_js_u8_array_and_init(body.as_ref(), &init)
}
