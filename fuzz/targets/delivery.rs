//! Any bytes as a webhook's or a route's body.

#![no_main]

#[allow(dead_code)]
#[path = "../../tests/native/claims.rs"]
mod claims;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    claims::token(bytes);
    claims::body(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        claims::payload(text);
    }
});
