//! A second opinion: jwt-simple reads the same tokens and must come to the same verdict as the
//! receiver, whatever a stranger sends.

use std::rc::Rc;

use counterfoil::native::executor::block_on;
use counterfoil::native::machine::Plain;
use counterfoil::native::signatures::NativeSignatures;
use counterfoil::ports::Signatures;
use ct_codecs::{Base64UrlSafeNoPadding as Base64, Decoder, Encoder};
use jwt_simple::prelude::{NoCustomClaims, RS256PublicKey, RSAPublicKeyLike};
use serde_json::{Value as Json, json};

use super::inbox_desk::Desk;

fn encode(bytes: &[u8]) -> String {
    Base64::encode_to_string(bytes).expect("it encodes")
}

fn decode(text: &str) -> Vec<u8> {
    Base64::decode_to_vec(text, None).expect("it decodes")
}

/// The key pair of the stand-in and another one.
fn keys() -> (Json, Json) {
    let signatures = NativeSignatures::default();
    let mut made = (0..2).map(|_| block_on(signatures.generate()).expect("a key"));
    let mut next = || serde_json::from_str(&made.next().expect("a key")).expect("it reads");
    (next(), next())
}

fn sign(key: &Json, header: &Json, payload: &Json) -> String {
    let text = |json: &Json| encode(json.to_string().as_bytes());
    let message = format!("{}.{}", text(header), text(payload));
    let signatures = NativeSignatures::default();
    let signed = block_on(signatures.sign(&key.to_string(), message.as_bytes()));
    format!("{message}.{}", encode(&signed.expect("it signs")))
}

fn jwt_simple_accepts(key: &Json, token: &str) -> bool {
    let part = |name: &str| decode(key[name].as_str().expect("a part"));
    let public = RS256PublicKey::from_components(&part("n"), &part("e")).expect("a public key");
    public.verify_token::<NoCustomClaims>(token, None).is_ok()
}

#[test]
fn jwt_simple_and_the_receiver_agree_on_every_signature() {
    let desk = Desk::geared(&[], Rc::new(Plain));
    let good = desk.sign("customer.plan_changed", "a", &json!({}));
    let (_, jwks) = desk
        .machine
        .call("GET", "/standin/.well-known/jwks", "", &Json::Null);
    let public = jwks["keys"][0].clone();
    let (_, other) = keys();
    let parts: Vec<&str> = good.split('.').collect();
    let header: Json = serde_json::from_slice(&decode(parts[0])).expect("a header");
    let payload: Json = serde_json::from_slice(&decode(parts[1])).expect("a payload");
    let mut changed = payload.clone();
    changed["data"]["plan"] = json!({"key": "pro"});
    let flipped = {
        let mut signature = decode(parts[2]);
        signature[17] ^= 1;
        encode(&signature)
    };
    let none = encode(
        json!({"alg": "none", "kid": header["kid"]})
            .to_string()
            .as_bytes(),
    );
    let hs = encode(
        json!({"alg": "HS256", "kid": header["kid"]})
            .to_string()
            .as_bytes(),
    );
    let cases = [
        ("as it was signed", good.clone(), true),
        (
            "another payload",
            format!(
                "{}.{}.{}",
                parts[0],
                encode(changed.to_string().as_bytes()),
                parts[2]
            ),
            false,
        ),
        (
            "one bit of the signature",
            format!("{}.{}.{flipped}", parts[0], parts[1]),
            false,
        ),
        (
            "another key under this name",
            sign(&other, &header, &payload),
            false,
        ),
        ("no algorithm", format!("{none}.{}.", parts[1]), false),
        (
            "HS256",
            format!("{hs}.{}.{}", parts[1], encode(&[7; 32])),
            false,
        ),
        ("cut short", good[..good.len() - 8].to_owned(), false),
    ];
    for (name, token, genuine) in cases {
        assert_eq!(
            jwt_simple_accepts(&public, &token),
            genuine,
            "jwt-simple: {name}"
        );
        let (status, code) = desk.post(token.as_bytes(), "w");
        assert_eq!(
            status == 200,
            genuine,
            "the receiver: {name}: {status} {code}"
        );
    }
}
