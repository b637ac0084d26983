//! Any text as a moment, a code, a destination, a path or a setting.

#![no_main]

#[allow(dead_code)]
#[path = "../../tests/native/claims.rs"]
mod claims;

libfuzzer_sys::fuzz_target!(|text: &str| {
    claims::moment(text);
    claims::code(text);
    claims::destination(text);
    claims::path(text);
    for name in ["FEATURES", "PLANS", "RETRY_SECONDS", "OPERATOR_TOKEN", "PUBLIC_URL"] {
        claims::setting(name, text);
    }
});
