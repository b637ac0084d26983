//! RS256 in native code, by jwt-simple.

use crate::fault::Fault;
use crate::ports::{Later, Signatures};

/// RS256 by jwt-simple.
pub struct NativeSignatures;

impl Signatures for NativeSignatures {
    fn verify<'a>(
        &'a self,
        _n: &'a str,
        _e: &'a str,
        _message: &'a [u8],
        _signature: &'a [u8],
    ) -> Later<'a, Result<bool, Fault>> {
        Box::pin(async { Err(Fault::unavailable("verify", "not yet")) })
    }

    fn generate(&self) -> Later<'_, Result<String, Fault>> {
        Box::pin(async { Err(Fault::unavailable("generate a key", "not yet")) })
    }

    fn sign<'a>(&'a self, _jwk: &'a str, _message: &'a [u8]) -> Later<'a, Result<Vec<u8>, Fault>> {
        Box::pin(async { Err(Fault::unavailable("sign", "not yet")) })
    }
}
