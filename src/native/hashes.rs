//! Signatures that cost nothing, for tests and simulations that look at what comes behind them.

use std::cell::Cell;

use serde_json::{Value as Json, json};

use crate::fault::Fault;
use crate::ports::{Later, Signatures};

/// A keyed hash in the place of RS256.
#[derive(Default)]
pub struct Hashes(Cell<u32>);

impl Signatures for Hashes {
    fn verify<'a>(
        &'a self,
        n: &'a str,
        _e: &'a str,
        message: &'a [u8],
        signature: &'a [u8],
    ) -> Later<'a, Result<bool, Fault>> {
        let expected = hmac_sha256::HMAC::mac(message, n.as_bytes());
        Box::pin(async move { Ok(expected == signature) })
    }

    fn generate(&self) -> Later<'_, Result<String, Fault>> {
        self.0.set(self.0.get() + 1);
        let jwk = json!({"kty": "RSA", "n": format!("key{}", self.0.get()), "e": "AQAB"});
        Box::pin(async move { Ok(jwk.to_string()) })
    }

    fn sign<'a>(&'a self, jwk: &'a str, message: &'a [u8]) -> Later<'a, Result<Vec<u8>, Fault>> {
        let key: Option<Json> = serde_json::from_str(jwk).ok();
        let name = key.and_then(|key| Some(key.get("n")?.as_str()?.to_owned()));
        let name = name.ok_or_else(|| Fault::unreadable("sign", "it is no key of ours"));
        Box::pin(async move { Ok(hmac_sha256::HMAC::mac(message, name?.as_bytes()).to_vec()) })
    }
}
