//! [`Signatures`] by WebCrypto, which takes a fiftieth of the time that RS256 takes in wasm.

use std::cell::RefCell;
use std::collections::BTreeMap;

use js_sys::{Array, Uint8Array};
use wasm_bindgen::JsValue;

use super::js::{self, SUBTLE};
use crate::fault::Fault;
use crate::ports::{Later, Signatures};

const RSA: &str = "RSASSA-PKCS1-v1_5";

/// Public keys that an isolate keeps imported; a tenant has a few.
const IMPORTED_MAX: usize = 50;

thread_local! {
    static IMPORTED: RefCell<BTreeMap<String, JsValue>> = const { RefCell::new(BTreeMap::new()) };
}

/// `crypto.subtle`.
pub struct WebCrypto;

impl Signatures for WebCrypto {
    fn verify<'a>(
        &'a self,
        n: &'a str,
        e: &'a str,
        message: &'a [u8],
        signature: &'a [u8],
    ) -> Later<'a, Result<bool, Fault>> {
        Box::pin(async move {
            // The keys come from outside: one that does not read verifies nothing.
            let Ok(key) = public_key(n, e).await else {
                return Ok(false);
            };
            let (signature, message) = (Uint8Array::from(signature), Uint8Array::from(message));
            let verdict = SUBTLE.with(|subtle| subtle.verify(RSA, &key, &signature, &message));
            match js::settled(verdict).await {
                Ok(verdict) => Ok(verdict.as_bool() == Some(true)),
                Err(thrown) => Err(failed("verify a signature", &thrown)),
            }
        })
    }

    fn generate(&self) -> Later<'_, Result<String, Fault>> {
        Box::pin(async move {
            let made = async {
                let algorithm = js::parse_json(&format!(
                    r#"{{"name":"{RSA}","modulusLength":2048,"hash":"SHA-256"}}"#
                ))?;
                let exponent = Uint8Array::from([1, 0, 1].as_slice());
                js_sys::Reflect::set(&algorithm, &"publicExponent".into(), &exponent)?;
                let usages = usages(&["sign", "verify"]);
                let pair = SUBTLE.with(|subtle| subtle.generate_key(&algorithm, true, &usages));
                let key = js::member(&js::settled(pair).await?, "privateKey");
                let jwk = SUBTLE.with(|subtle| subtle.export_key("jwk", &key));
                js::to_json(&js::settled(jwk).await?)
            };
            made.await
                .map_err(|thrown: JsValue| failed("make a key pair", &thrown))
        })
    }

    fn sign<'a>(&'a self, jwk: &'a str, message: &'a [u8]) -> Later<'a, Result<Vec<u8>, Fault>> {
        Box::pin(async move {
            let made = async {
                let key = import(jwk, "sign").await?;
                let message = Uint8Array::from(message);
                let signature = SUBTLE.with(|subtle| subtle.sign(RSA, &key, &message));
                Ok(Uint8Array::new(&js::settled(signature).await?).to_vec())
            };
            made.await
                .map_err(|thrown: JsValue| failed("sign", &thrown))
        })
    }
}

/// Imported once in an isolate.
async fn public_key(n: &str, e: &str) -> Result<JsValue, JsValue> {
    let jwk = serde_json::json!({"kty": "RSA", "alg": "RS256", "n": n, "e": e}).to_string();
    if let Some(key) = IMPORTED.with_borrow(|known| known.get(&jwk).cloned()) {
        return Ok(key);
    }
    let key = import(&jwk, "verify").await?;
    IMPORTED.with_borrow_mut(|known| {
        if known.len() >= IMPORTED_MAX {
            known.clear();
        }
        known.insert(jwk, key.clone());
    });
    Ok(key)
}

async fn import(jwk: &str, usage: &str) -> Result<JsValue, JsValue> {
    let jwk = js::parse_json(jwk)?;
    // A key that says for what it may be used must not contradict what is asked of it.
    js_sys::Reflect::delete_property(&jwk.clone().into(), &"key_ops".into())?;
    let algorithm = js::parse_json(&format!(r#"{{"name":"{RSA}","hash":"SHA-256"}}"#))?;
    let usages = usages(&[usage]);
    let key = SUBTLE.with(|subtle| subtle.import_key("jwk", &jwk, &algorithm, false, &usages));
    js::settled(key).await
}

fn usages(names: &[&str]) -> Array {
    names.iter().map(|name| JsValue::from_str(name)).collect()
}

fn failed(doing: &str, thrown: &JsValue) -> Fault {
    Fault::unavailable(doing, js::message(thrown))
}
