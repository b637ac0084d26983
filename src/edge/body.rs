//! Headers and bounded bodies, the same for what comes in and for answers from outside.

use js_sys::{Array, Uint8Array};
use wasm_bindgen::{JsCast, JsValue};
use worker::web_sys::{Headers, ReadableStream};

use super::js::{self, BodyStream};

/// All headers in their order; the platform has their names in lower case.
pub fn headers(headers: &Headers) -> Result<Vec<(String, String)>, JsValue> {
    let pairs = js::array_from(headers)?;
    let text = |pair: &Array, index| pair.get(index).as_string().unwrap_or_default();
    let pairs = pairs.iter().map(|pair| {
        let pair: Array = pair.unchecked_into();
        (text(&pair, 0), text(&pair, 1))
    });
    Ok(pairs.collect())
}

/// Reads a body up to `limit` bytes; `None` where it is longer. Up to `dropped` bytes more are then
/// read and thrown away: a sender whose connection is closed in the middle of its body hears of a
/// broken connection instead of the answer.
pub async fn read(
    stream: Option<ReadableStream>,
    limit: usize,
    dropped: usize,
) -> Result<Option<Vec<u8>>, JsValue> {
    let mut bytes = Vec::new();
    let Some(stream) = stream else {
        return Ok(Some(bytes));
    };
    let reader = stream.unchecked_into::<BodyStream>().get_reader()?;
    let mut seen: usize = 0;
    loop {
        let part = js::settled(reader.read()).await?;
        if js::is_set(&part, "done") {
            return Ok((seen <= limit).then_some(bytes));
        }
        let chunk: Uint8Array = js::member(&part, "value").dyn_into()?;
        seen = seen.saturating_add(usize::try_from(chunk.length()).unwrap_or(usize::MAX));
        if seen <= limit {
            bytes.extend_from_slice(&chunk.to_vec());
        } else if seen > limit.saturating_add(dropped) {
            // Nobody waits for the end of the cancelling: the answer is already known.
            let _ = reader.cancel();
            return Ok(None);
        }
    }
}
