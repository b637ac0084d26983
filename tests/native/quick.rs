//! Signatures that cost nothing, for tests that look at what comes behind them.

use std::cell::Cell;
use std::rc::Rc;

use counterfoil::fault::Fault;
use counterfoil::native::faulty::FaultyGear;
use counterfoil::native::machine::Gear;
use counterfoil::ports::{Db, Later, ObjectName, Signatures, Sql};

/// A machine with quick signatures.
pub struct QuickSignatures;

impl Gear for QuickSignatures {
    fn signatures(&self) -> Rc<dyn Signatures> {
        Rc::new(Hashes::default())
    }
}

/// The same, where any statement may fail.
pub struct QuickAndFaulty(pub FaultyGear);

impl Gear for QuickAndFaulty {
    fn db(&self, name: &'static str, plain: Rc<dyn Db>) -> Rc<dyn Db> {
        self.0.db(name, plain)
    }

    fn sql(&self, object: &ObjectName, plain: Rc<dyn Sql>) -> Rc<dyn Sql> {
        self.0.sql(object, plain)
    }

    fn signatures(&self) -> Rc<dyn Signatures> {
        Rc::new(Hashes::default())
    }
}

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
        let jwk = format!(
            "{{\"kty\":\"RSA\",\"n\":\"key{}\",\"e\":\"AQAB\"}}",
            self.0.get()
        );
        Box::pin(async move { Ok(jwk) })
    }

    fn sign<'a>(&'a self, jwk: &'a str, message: &'a [u8]) -> Later<'a, Result<Vec<u8>, Fault>> {
        let jwk: serde_json::Value = serde_json::from_str(jwk).expect("a key of ours");
        let n = jwk["n"].as_str().expect("its name").to_owned();
        let signature = hmac_sha256::HMAC::mac(message, n.as_bytes());
        Box::pin(async move { Ok(signature.to_vec()) })
    }
}
