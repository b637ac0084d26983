//! The billing provider, as a port: read a limit, read a plan, set a meter's total, read it back.
//!
//! A provider that only takes increments is not supported: a total that is sent twice is the same
//! total, an increment that is sent twice is a wrong invoice.
//!
//! `kinde` is the one implementation; it speaks to Kinde and to the stand-in alike, only the
//! transport differs. `standin` is the built-in provider.

pub mod kinde;
pub mod standin;
mod token;
mod wire;

use std::collections::BTreeMap;
use std::fmt;

use crate::ports::Later;
use crate::units::{AgreementId, CustomerId, Delta, Millis, PlanCode, Units};

/// What a complete answer says of one feature's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureLimit {
    /// That many per cycle.
    Known(Units),
    /// The feature is named with no maximum.
    Unlimited,
}

/// A complete answer about limits: the provider's feature key → its limit. A feature that is not
/// in it is not in the plan. Of two entitlements of one key the larger counts. Fixed charges are
/// in it too: look up the features that you know. A wholly empty one names no plan at all.
pub type Limits = BTreeMap<String, FeatureLimit>;

/// One agreement (subscription) of a customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The provider's id.
    pub agreement_id: AgreementId,
    /// The plan it is for.
    pub plan: PlanCode,
    /// When it ends or ended, if it does.
    pub expires_at: Option<Millis>,
    /// The current period's start; older servers do not tell.
    pub period_start: Option<Millis>,
    /// The current period's end; may lie in the past while the provider's own sync lags.
    pub period_end: Option<Millis>,
    /// The provider's keys of the features it contains.
    pub feature_keys: Vec<String>,
}

/// A complete list of a customer's agreements, and when the plans were subscribed to, as far as an
/// anchor may depend on it: where every period is known and none begins on the last day of a short
/// month, `subscribed_on` is not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreements {
    /// In the provider's order. Empty means: a complete answer that names none.
    pub agreements: Vec<Agreement>,
    /// Plan code → `subscribed_on`, where the provider tells.
    pub subscribed_on: BTreeMap<String, Millis>,
}

/// Why the provider did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderFault {
    /// No answer, a 5xx, or one that does not read: the outcome is not known.
    Unknown(String),
    /// 429: nothing was done; not before so many milliseconds from now.
    RateLimited {
        /// From `RateLimit-Reset` or `Retry-After`, at least 1,000.
        wait_ms: i64,
    },
    /// Another 4xx: nothing was done. The code or message that came with it.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The provider's code, without any secret.
        code: String,
    },
    /// A page of a list was missing or empty where it must not be: nothing may be concluded.
    Incomplete(String),
    /// Credentials or domain are missing.
    NotConfigured(&'static str),
}

/// What it did, for people; reads on after a colon.
impl fmt::Display for ProviderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(cause) => f.write_str(cause),
            Self::RateLimited { wait_ms } => {
                let seconds = wait_ms.saturating_add(999) / 1000;
                write!(f, "it takes no more requests for {seconds} s")
            }
            Self::Refused { status, code } if code.is_empty() => {
                write!(f, "it refused with {status}")
            }
            Self::Refused { status, code } => write!(f, "it refused with {status} {code}"),
            Self::Incomplete(cause) => write!(f, "its list is not complete: {cause}"),
            Self::NotConfigured(name) => write!(f, "{name} is not set"),
        }
    }
}

/// A public RSA key under which the provider signs (its webhooks, and its users' tokens too).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKey {
    /// Names it in a token's header; may hold colons.
    pub kid: String,
    /// The modulus, base64url.
    pub n: String,
    /// The exponent, base64url.
    pub e: String,
}

/// The billing provider.
pub trait Provider {
    /// Every entitlement of the customer, all pages, or a fault; never a part.
    fn limits<'a>(&'a self, customer: &'a CustomerId) -> Later<'a, Result<Limits, ProviderFault>>;

    /// Every agreement of the customer, all pages, or a fault; never a part.
    fn agreements<'a>(
        &'a self,
        customer: &'a CustomerId,
    ) -> Later<'a, Result<Agreements, ProviderFault>>;

    /// Sets the meter's total. `Ok` only where the provider answered 200 and the answer reads.
    fn write_meter<'a>(
        &'a self,
        agreement: &'a AgreementId,
        feature_key: &'a str,
        total: Units,
        at: Millis,
    ) -> Later<'a, Result<(), ProviderFault>>;

    /// The meter's total in the provider's current period; no record is zero.
    fn read_meter<'a>(
        &'a self,
        agreement: &'a AgreementId,
        feature_key: &'a str,
    ) -> Later<'a, Result<Delta, ProviderFault>>;

    /// The keys that the configured tenant signs with now. The address is never a token's.
    fn signing_keys(&self) -> Later<'_, Result<Vec<SigningKey>, ProviderFault>>;
}

#[cfg(test)]
mod tests {
    use super::ProviderFault;

    #[test]
    fn what_the_provider_did_reads_as_a_sentence() {
        let refused = |code: &str| ProviderFault::Refused {
            status: 400,
            code: code.to_owned(),
        };
        let incomplete = "page 2: it answered 500".to_owned();
        for (fault, said) in [
            (
                ProviderFault::Unknown("it answered 500".to_owned()),
                "it answered 500",
            ),
            (
                ProviderFault::RateLimited { wait_ms: 1001 },
                "it takes no more requests for 2 s",
            ),
            (
                refused("TOTAL_INVALID"),
                "it refused with 400 TOTAL_INVALID",
            ),
            (refused(""), "it refused with 400"),
            (
                ProviderFault::Incomplete(incomplete),
                "its list is not complete: page 2: it answered 500",
            ),
            (
                ProviderFault::NotConfigured("KINDE_DOMAIN"),
                "KINDE_DOMAIN is not set",
            ),
        ] {
            assert_eq!(fault.to_string(), said);
        }
    }
}
