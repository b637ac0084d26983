//! Goal: no text, however it was made, panics a parser, and what reads is what was meant.
//! Method: properties over arbitrary text and over text that nearly reads.

use ct_codecs::{Base64UrlSafeNoPadding, Encoder};
use proptest::prelude::*;

use super::claims;
use counterfoil::moment;
use counterfoil::units::Millis;

const SETTINGS: &[&str] = &[
    "PROVIDER",
    "LEASE_SECONDS",
    "RETRY_SECONDS",
    "NIGHTLY_AT",
    "FEATURES",
    "PLANS",
    "FREE_PLAN",
    "OPERATOR_TOKEN",
    "PUBLIC_URL",
    "KINDE_DOMAIN",
    "QUIET_HOURS",
    "CARRY_TAIL",
    "SHARDS",
];

fn base64(bytes: &[u8]) -> String {
    Base64UrlSafeNoPadding::encode_to_string(bytes).expect("it encodes")
}

/// Anything that JSON can say, a few levels deep.
fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        "\\PC{0,20}".prop_map(Into::into),
        "20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\\.[0-9]{0,10})?(Z|\\+[0-9]{2})"
            .prop_map(Into::into),
    ];
    let name = prop_oneof![
        "(data|type|event_id|timestamp|event_timestamp|customer_id|agreement_id|plan|id|key|hold)",
        "\\PC{0,8}",
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::btree_map(name.clone(), inner, 0..8).prop_map(|members| members
                .into_iter()
                .collect::<serde_json::Map<_, _>>()
                .into()),
        ]
    })
}

proptest! {
    #[test]
    fn any_bytes_as_a_delivery(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        claims::token(&bytes);
        claims::body(&bytes);
    }

    #[test]
    fn near_tokens(header in json(), payload in json(), signature in prop::collection::vec(any::<u8>(), 0..600), kid in "\\PC{0,210}", known in any::<bool>()) {
        let header = if known {
            serde_json::json!({"alg": "RS256", "kid": kid}).to_string()
        } else {
            header.to_string()
        };
        let payload = payload.to_string();
        let parts = [header.as_bytes(), payload.as_bytes(), &signature].map(base64);
        claims::token(parts.join(".").as_bytes());
        claims::payload(&payload);
        claims::body(payload.as_bytes());
    }

    #[test]
    fn the_content_of_an_event_does_not_depend_on_spaces_or_order(value in json()) {
        let (compact, spaced) = (value.to_string(), serde_json::to_string_pretty(&value).unwrap());
        let content = counterfoil::inbox::canonical::content;
        prop_assert_eq!(content(&compact), content(&spaced));
    }

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        claims::payload(&text);
        claims::moment(&text);
        claims::code(&text);
        claims::destination(&text);
        claims::path(&text);
        for name in SETTINGS {
            claims::setting(name, &text);
        }
    }

    #[test]
    fn near_moments(text in "[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{0,12})?(Z|[+-][0-9]{2}:?([0-9]{2})?)?") {
        claims::moment(&text);
    }

    #[test]
    fn a_printed_moment_reads_as_the_same(ms in 0_i64..253_402_300_800_000) {
        let at = Millis::new(ms);
        prop_assert_eq!(moment::parse_millis(&moment::format(at)), Some(at));
    }

    #[test]
    fn near_settings(name in prop::sample::select(SETTINGS), text in "[a-z0-9=:,{}\"' ./-]{0,60}") {
        claims::setting(name, &text);
    }

    #[test]
    fn near_paths(text in "(/[a-zA-Z0-9%._~-]{0,12}){0,6}/?") {
        claims::path(&text);
        claims::code(text.trim_matches('/'));
    }
}
