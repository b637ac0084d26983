//! RS256 in native code, in pure Rust. jwt-simple makes the keys; it signs and verifies whole
//! tokens only, so raw bytes go to the library that it is built on.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use ct_codecs::{Base64UrlSafeNoPadding, Decoder};
use jwt_simple::prelude::RS256KeyPair;
use serde_json::Value;
use superboring::bn::BigNum;
use superboring::hash::MessageDigest;
use superboring::pkey::{PKey, Private, Public};
use superboring::rsa::{Padding, Rsa};
use superboring::sign::{Signer, Verifier};

use crate::fault::Fault;
use crate::ports::{Later, Signatures};

/// Making an RSA key takes seconds. Every machine of a process is given the same keys in the same
/// order: its first is the process's first.
static MADE: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// RS256 in pure Rust.
#[derive(Default)]
pub struct NativeSignatures {
    given: Cell<usize>,
}

impl Signatures for NativeSignatures {
    fn verify<'a>(
        &'a self,
        n: &'a str,
        e: &'a str,
        message: &'a [u8],
        signature: &'a [u8],
    ) -> Later<'a, Result<bool, Fault>> {
        Box::pin(async move { Ok(verified(n, e, message, signature).unwrap_or(false)) })
    }

    fn generate(&self) -> Later<'_, Result<String, Fault>> {
        Box::pin(async {
            let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
            let index = self.given.get();
            if made.len() <= index {
                let key = generated().ok_or_else(|| failed("make a key pair"))?;
                made.push(key);
            }
            self.given.set(index + 1);
            made.get(index)
                .cloned()
                .ok_or_else(|| failed("make a key pair"))
        })
    }

    fn sign<'a>(&'a self, jwk: &'a str, message: &'a [u8]) -> Later<'a, Result<Vec<u8>, Fault>> {
        Box::pin(async move { signed(jwk, message).ok_or_else(|| failed("sign")) })
    }
}

fn failed(doing: &str) -> Fault {
    Fault::unavailable(doing, "the key does not read")
}

fn number(text: &str) -> Option<BigNum> {
    let bytes = Base64UrlSafeNoPadding::decode_to_vec(text, None).ok()?;
    BigNum::from_slice(&bytes).ok()
}

fn verified(n: &str, e: &str, message: &[u8], signature: &[u8]) -> Option<bool> {
    let key = Rsa::<Public>::from_public_components(number(n)?, number(e)?).ok()?;
    let key = PKey::from_rsa(key).ok()?;
    let mut verifier = Verifier::new(MessageDigest::sha256(), &key).ok()?;
    verifier.set_rsa_padding(Padding::PKCS1).ok()?;
    verifier.update(message).ok()?;
    verifier.verify(signature).ok()
}

fn generated() -> Option<String> {
    Some(RS256KeyPair::generate(2048).ok()?.to_jwk())
}

fn signed(jwk: &str, message: &[u8]) -> Option<Vec<u8>> {
    let jwk: Value = serde_json::from_str(jwk).ok()?;
    let part = |name: &str| jwk.get(name).and_then(Value::as_str).and_then(number);
    let key = Rsa::<Private>::from_private_components(
        part("n")?,
        part("e")?,
        part("d")?,
        part("p")?,
        part("q")?,
        part("dp")?,
        part("dq")?,
        part("qi")?,
    );
    let key = PKey::from_rsa(key.ok()?).ok()?;
    let mut signer = Signer::new(MessageDigest::sha256(), &key).ok()?;
    signer.set_rsa_padding(Padding::PKCS1).ok()?;
    signer.update(message).ok()?;
    signer.sign_to_vec().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::executor::block_on;

    fn member(jwk: &str, name: &str) -> String {
        let jwk: Value = serde_json::from_str(jwk).expect("a JWK");
        jwk[name].as_str().expect("text").to_owned()
    }

    #[test]
    fn what_a_key_signed_verifies_under_it_alone_and_as_it_was() {
        let signatures = NativeSignatures::default();
        let (first, second) = (
            block_on(signatures.generate()).expect("a key"),
            block_on(signatures.generate()).expect("a key"),
        );
        let signature = block_on(signatures.sign(&first, b"head.body")).expect("signed");
        assert_eq!(signature.len(), 256);
        let check = |jwk: &str, message: &[u8], signature: &[u8]| {
            let (n, e) = (member(jwk, "n"), member(jwk, "e"));
            block_on(signatures.verify(&n, &e, message, signature)).expect("a verdict")
        };
        assert!(check(&first, b"head.body", &signature));
        assert!(!check(&second, b"head.body", &signature));
        assert!(!check(&first, b"head.bodY", &signature));
        assert!(!check(
            &first,
            b"head.body",
            signature.get(1..).expect("some")
        ));
        let no_key = block_on(signatures.verify("!", "AQAB", b"x", &signature));
        assert_eq!(no_key, Ok(false));
    }

    #[test]
    fn each_machine_of_a_process_is_given_the_same_keys_in_the_same_order() {
        let (one, other) = (NativeSignatures::default(), NativeSignatures::default());
        assert_eq!(block_on(one.generate()), block_on(other.generate()));
    }
}
