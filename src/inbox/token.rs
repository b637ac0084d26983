//! A compact JWS as it comes from anyone: bounded, strictly parsed, nothing believed yet.

use ct_codecs::{Base64UrlSafeNoPadding, Decoder};
use serde_json::Value;

/// A key's name is about 47 characters; a longer one than this is nobody's.
const KID_CHARS_MAX: usize = 200;
/// RSA-4096 at most.
const SIGNATURE_BYTES_MAX: usize = 512;

/// Why a delivery is refused. Each is a label of the counter of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// 400: not a JWT.
    NotAJwt,
    /// 401: another algorithm than RS256, or an extension that we do not know.
    Algorithm,
    /// 401: no key of the provider has that name.
    UnknownKey,
    /// 401: not signed by that key.
    Signature,
    /// 401: signed by the provider, but not a webhook (an access or ID token, another shape).
    WrongToken,
    /// 401: sent too long ago, or in the future.
    Stale,
    /// 413: the body is larger than 256 KiB.
    TooLarge,
    /// 503: the keys cannot be had.
    NoKeys,
}

impl Refused {
    /// Stable; for machines, and the label of the counter.
    pub const fn code(self) -> &'static str {
        match self {
            Self::NotAJwt => "not_a_jwt",
            Self::Algorithm => "wrong_algorithm",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "bad_signature",
            Self::WrongToken => "wrong_token",
            Self::Stale => "stale",
            Self::TooLarge => "too_large",
            Self::NoKeys => "keys_unavailable",
        }
    }

    /// One sentence for people.
    pub const fn message(self) -> &'static str {
        match self {
            Self::NotAJwt => "The body is not a signed JWT.",
            Self::Algorithm => "Only RS256 without extensions is accepted.",
            Self::UnknownKey => "No key of the provider has this name.",
            Self::Signature => "The signature is not the provider's.",
            Self::WrongToken => "This token is not a webhook.",
            Self::Stale => "It was sent too long ago, or lies in the future.",
            Self::TooLarge => "The body is larger than 256 KiB.",
            Self::NoKeys => "The provider's keys cannot be read now. Send it again.",
        }
    }
}

/// A token's parts; unverified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Which key is said to have signed it.
    pub kid: String,
    /// What was signed: `header.payload`, as it came.
    pub signed: String,
    /// The signature.
    pub signature: Vec<u8>,
    /// The payload's bytes.
    pub payload: Vec<u8>,
}

/// Reads a delivery's body.
pub fn parse(body: &[u8]) -> Result<Token, Refused> {
    let text = std::str::from_utf8(body)
        .map_err(|_| Refused::NotAJwt)?
        .trim();
    let mut segments = text.split('.');
    let (Some(head), Some(payload), Some(signature), None) = (
        segments.next(),
        segments.next(),
        segments.next(),
        segments.next(),
    ) else {
        return Err(Refused::NotAJwt);
    };
    let header = decode(head)?;
    let header: Value = serde_json::from_slice(&header).map_err(|_| Refused::NotAJwt)?;
    let Value::Object(header) = header else {
        return Err(Refused::NotAJwt);
    };
    if header.get("alg").and_then(Value::as_str) != Some("RS256") || header.contains_key("crit") {
        return Err(Refused::Algorithm);
    }
    let kid = match header.get("kid").and_then(Value::as_str) {
        Some(kid) if (1..=KID_CHARS_MAX).contains(&kid.len()) => kid.to_owned(),
        _ => return Err(Refused::UnknownKey),
    };
    let payload_bytes = decode(payload)?;
    let signature = decode(signature)?;
    if signature.is_empty() || signature.len() > SIGNATURE_BYTES_MAX {
        return Err(Refused::Signature);
    }
    Ok(Token {
        kid,
        signed: format!("{head}.{payload}"),
        signature,
        payload: payload_bytes,
    })
}

/// Strict base64url without padding.
fn decode(segment: &str) -> Result<Vec<u8>, Refused> {
    Base64UrlSafeNoPadding::decode_to_vec(segment, None).map_err(|_| Refused::NotAJwt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ct_codecs::Encoder;

    fn token(header: &str, payload: &str, signature: &[u8]) -> String {
        let encode = |bytes: &[u8]| Base64UrlSafeNoPadding::encode_to_string(bytes).expect("text");
        format!(
            "{}.{}.{}",
            encode(header.as_bytes()),
            encode(payload.as_bytes()),
            encode(signature)
        )
    }

    fn refusal(body: &str) -> Option<Refused> {
        parse(body.as_bytes()).err()
    }

    const GOOD: &str = r#"{"alg":"RS256","kid":"4c:fa","typ":"JWT","jku":"https://evil.example"}"#;

    #[test]
    fn spaces_around_a_token_are_no_part_of_it() {
        let text = token(GOOD, "{}", &[7; 256]);
        let read = parse(format!("\n {text}\r\n").as_bytes()).expect("it reads");
        assert_eq!(read.kid, "4c:fa");
        assert_eq!(read.payload, b"{}");
        assert_eq!(
            Some(read.signed.as_str()),
            text.rsplit_once('.').map(|(head, _)| head)
        );
    }

    #[test]
    fn what_is_not_three_segments_of_strict_base64url_is_no_jwt() {
        let good = token(GOOD, "{}", &[7; 256]);
        for bad in [
            String::new(),
            "hello".to_owned(),
            "a.b".to_owned(),
            format!("{good}.x"),
            good.replace('.', ".."),
            good.replacen('.', "=.", 1),
            format!("{good}+"),
            token("[]", "{}", b"x"),
            token("{", "{}", b"x"),
        ] {
            assert_eq!(refusal(&bad), Some(Refused::NotAJwt), "{bad}");
        }
        assert_eq!(parse(&[0xff, 0xfe]).err(), Some(Refused::NotAJwt));
    }

    #[test]
    fn only_rs256_without_extensions_is_looked_at() {
        for alg in [
            "none", "None", "NONE", "HS256", "rs256", "RS512", "PS256", "",
        ] {
            let header = format!(r#"{{"alg":"{alg}","kid":"a"}}"#);
            assert_eq!(
                refusal(&token(&header, "{}", b"")),
                Some(Refused::Algorithm),
                "{alg}"
            );
        }
        for header in [
            r#"{"kid":"a"}"#,
            r#"{"alg":["RS256"],"kid":"a"}"#,
            r#"{"alg":"RS256","kid":"a","crit":["b64"]}"#,
        ] {
            assert_eq!(
                refusal(&token(header, "{}", b"x")),
                Some(Refused::Algorithm)
            );
        }
    }

    #[test]
    fn a_key_name_is_text_of_a_sane_length() {
        for header in [
            r#"{"alg":"RS256"}"#.to_owned(),
            r#"{"alg":"RS256","kid":7}"#.to_owned(),
            r#"{"alg":"RS256","kid":""}"#.to_owned(),
            format!(r#"{{"alg":"RS256","kid":"{}"}}"#, "k".repeat(10_000)),
        ] {
            assert_eq!(
                refusal(&token(&header, "{}", b"x")),
                Some(Refused::UnknownKey)
            );
        }
        assert_eq!(refusal(&token(GOOD, "{}", b"")), Some(Refused::Signature));
        assert_eq!(
            refusal(&token(GOOD, "{}", &[1; 513])),
            Some(Refused::Signature)
        );
    }
}
