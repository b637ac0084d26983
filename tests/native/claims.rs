//! What must hold of every parser that a stranger can reach, whatever the stranger sends. Each
//! function takes bytes or text and panics where its claim is broken; `parsers.rs` feeds them with
//! made-up input, `fuzz/` with what a fuzzer finds.

use counterfoil::http::body::Fields;
use counterfoil::http::request::{self, Body};
use counterfoil::inbox::{canonical, facts, token};
use counterfoil::links::{Destination, OwnHosts, code, crawlers};
use counterfoil::moment;
use counterfoil::settings::Settings;

/// A delivery's body either reads as a token whose signed text stands in it, or is refused.
pub fn token(body: &[u8]) {
    let Ok(token) = token::parse(body) else {
        return;
    };
    let text = std::str::from_utf8(body).expect("only text is a token");
    assert!(text.trim().starts_with(&token.signed));
    assert!((1..=200).contains(&token.kid.len()));
    assert!((1..=512).contains(&token.signature.len()));
    assert_eq!(token.signed.matches('.').count(), 1);
}

/// A payload's facts are ids that may stand in a path, and its content does not depend on the
/// order of its members, which a parse and a print may change.
pub fn payload(text: &str) {
    if let Ok(facts) = facts::read(text, Some("https://example.kinde.com")) {
        assert!(facts.event_id.bytes().all(|byte| byte.is_ascii_graphic()));
        assert!(!facts.lane().is_empty());
        assert_eq!(
            facts::is_customers(&facts.lane()),
            facts.customer_id.is_some()
        );
    }
    let content = canonical::content(text);
    if let Some(content) = &content {
        assert_eq!(content.len(), 64);
        assert_eq!(canonical::content(text).as_ref(), Some(content));
    }
}

/// A moment that reads is printed, to the millisecond, as one that reads as the same.
pub fn moment(text: &str) {
    let Some(time) = moment::parse(text) else {
        return;
    };
    assert!(time.nanos < 1_000_000);
    let printed = moment::format(time.at);
    // A moment whose offset takes it out of the four-digit years has no text of its own.
    if printed.len() == 24 {
        assert_eq!(moment::parse_millis(&printed), Some(time.at));
    }
}

/// A code that reads is safe in a path and reads as itself.
pub fn code(text: &str) {
    if let Some(code) = code::fold(text) {
        let kept = code.as_str().to_owned();
        assert!(
            kept.bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'/')
        );
        assert_eq!(code::fold(&kept), Some(code));
    }
    let _ = code::wanted(text, &["app", "healthz"]);
}

/// A destination that is accepted is kept byte for byte, fits into a header, and is an address of
/// the web elsewhere than here.
pub fn destination(text: &str) {
    let own = OwnHosts::of(&["https://sho.rt"]);
    if let Ok(kept) = Destination::parse(text, &own) {
        assert_eq!(kept.as_str(), text);
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
        let base = url::Url::parse("https://sho.rt/x").expect("it is one");
        let seen = base.join(kept.as_str()).expect("a browser reads it");
        assert!(matches!(seen.scheme(), "http" | "https"));
        assert!(seen.username().is_empty() && seen.password().is_none());
        assert_ne!(seen.host_str(), Some("sho.rt"));
        assert_eq!(Destination::stored(text.to_owned()), Some(kept));
    }
}

/// A body reads field by field, or is refused with a status of the caller's fault.
pub fn body(bytes: &[u8]) {
    match Fields::parse(&Body::Whole(bytes.to_vec())) {
        Err(problem) => assert_eq!(problem.status, 400),
        Ok(mut fields) => {
            for outcome in [
                fields.opt_units("hold", 1).map(|units| {
                    assert!(units.is_none_or(|units| units.get() >= 1));
                }),
                fields.opt_int("lease_seconds", 1, 3600).map(|seconds| {
                    assert!(seconds.is_none_or(|seconds| (1..=3600).contains(&seconds)));
                }),
                fields.opt_moment("occurred_at").map(|_| ()),
                fields.opt_text("key").map(|_| ()),
                fields.opt_bool("disabled").map(|_| ()),
                fields.finish(),
            ] {
                if let Err(problem) = outcome {
                    assert_eq!(problem.status, 422);
                    assert!(problem.members.contains_key("field"));
                }
            }
        }
    }
}

/// A path's segments hold no separator that was not escaped, and a user agent is judged.
pub fn path(text: &str) {
    if let Some(segments) = request::segments(text) {
        assert!(segments.len() <= text.len() + 1);
    }
    let _ = crawlers::judge(Some(text));
}

/// A setting reads, or is refused by name: never by a panic, and never with its secret.
pub fn setting(name: &str, text: &str) {
    let read = Settings::read(&|asked| (asked == name).then(|| text.to_owned()));
    if let Err(fault) = read {
        assert!(fault.cause.contains(name) || fault.doing.contains(name));
    }
}
