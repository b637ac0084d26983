//! [`Transport`] over the platform's `fetch`.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use js_sys::Uint8Array;
use wasm_bindgen::{JsCast, JsValue};
use worker::web_sys::{self, RequestInit, RequestRedirect};
use worker::{AbortController, AbortSignal, Delay};

use super::{body, js};
use crate::fault::Fault;
use crate::ports::{Incoming, Later, Outgoing, Transport};

/// A request without an answer is given up then; what became of it is not known.
const TIMEOUT: Duration = Duration::from_secs(10);
/// No answer that anything here asks for comes near it.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// Requests to systems outside. A redirect is an answer like any other: a token must not follow.
pub struct Outside;

impl Transport for Outside {
    fn send(&self, request: Outgoing) -> Later<'_, Result<Incoming, Fault>> {
        Box::pin(async move {
            let failed = |cause: String| {
                let host = request.url.split('/').nth(2).unwrap_or_default();
                Fault::unavailable(format!("{} {host}", request.method), cause)
            };
            let controller = AbortController::default();
            let signal = controller.signal();
            match within(TIMEOUT, exchange(&request, &signal)).await {
                Some(Ok(Some(answer))) => Ok(answer),
                Some(Ok(None)) => Err(failed("the answer is larger than 1 MiB".to_owned())),
                Some(Err(thrown)) => Err(failed(js::message(&thrown))),
                None => {
                    controller.abort();
                    Err(failed(format!("no answer within {} s", TIMEOUT.as_secs())))
                }
            }
        })
    }
}

/// Sends the request and reads the whole answer; `None` where that is too large.
async fn exchange(request: &Outgoing, signal: &AbortSignal) -> Result<Option<Incoming>, JsValue> {
    let headers = web_sys::Headers::new()?;
    for (name, value) in &request.headers {
        headers.append(name, value)?;
    }
    let init = RequestInit::new();
    init.set_method(request.method);
    init.set_headers(&headers);
    init.set_redirect(RequestRedirect::Manual);
    init.set_signal(Some(signal));
    if !request.body.is_empty() {
        init.set_body(&Uint8Array::from(request.body.as_bytes()));
    }
    let answer = js::settled(js::fetch(&request.url, &init)).await?;
    let answer: web_sys::Response = answer.dyn_into()?;
    let headers = body::headers(&answer.headers())?;
    let Some(bytes) = body::read(answer.body(), MAX_ANSWER_BYTES, 0).await? else {
        return Ok(None);
    };
    let body = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Some(Incoming {
        status: answer.status(),
        headers,
        body,
    }))
}

/// What the work gives, or `None` where it takes longer; it is dropped then.
async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut timer = pin!(Delay::from(limit));
    poll_fn(|context| {
        if let Poll::Ready(outcome) = work.as_mut().poll(context) {
            return Poll::Ready(Some(outcome));
        }
        timer.as_mut().poll(context).map(|()| None)
    })
    .await
}
