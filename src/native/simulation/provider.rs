//! The provider as it may answer: lists that are falsely empty, reads that lag their events, and
//! an eye on every total that is sent.

use std::rc::Rc;

use super::chaos::{Chaos, turn};
use crate::ports::Later;
use crate::provider::{Agreements, Limits, Provider, ProviderFault, SigningKey};
use crate::units::{AgreementId, CustomerId, Delta, Millis, Units};

/// A provider whose answers may be empty or old.
pub struct ChaosProvider {
    plain: Rc<dyn Provider>,
    chaos: Rc<Chaos>,
}

impl ChaosProvider {
    /// Around the plain one.
    pub fn new(plain: Rc<dyn Provider>, chaos: Rc<Chaos>) -> Self {
        Self { plain, chaos }
    }

    fn count(&self, name: &str) {
        self.chaos.stats.count(name);
    }
}

impl Provider for ChaosProvider {
    fn limits<'a>(&'a self, customer: &'a CustomerId) -> Later<'a, Result<Limits, ProviderFault>> {
        Box::pin(async move {
            let found = self.plain.limits(customer).await?;
            turn().await;
            let mut known = self.chaos.limits.borrow_mut();
            let before = known.insert(customer.to_string(), found.clone());
            if self.chaos.strikes(15) {
                self.count("limits_empty_falsely");
                return Ok(Limits::new());
            }
            match before.filter(|before| *before != found && self.chaos.strikes(300)) {
                Some(before) => {
                    self.count("limits_lagged");
                    Ok(before)
                }
                None => Ok(found),
            }
        })
    }

    fn agreements<'a>(
        &'a self,
        customer: &'a CustomerId,
    ) -> Later<'a, Result<Agreements, ProviderFault>> {
        Box::pin(async move {
            let found = self.plain.agreements(customer).await?;
            turn().await;
            let mut known = self.chaos.agreements.borrow_mut();
            let before = known.insert(customer.to_string(), found.clone());
            if found.agreements.iter().all(|one| one.expires_at.is_some()) {
                self.count("list_empty_truly");
            }
            if self.chaos.strikes(15) {
                self.count("list_empty_falsely");
                return Ok(Agreements::default());
            }
            match before.filter(|before| *before != found && self.chaos.strikes(300)) {
                Some(before) => {
                    self.count("list_lagged");
                    Ok(before)
                }
                None => Ok(found),
            }
        })
    }

    fn write_meter<'a>(
        &'a self,
        agreement: &'a AgreementId,
        feature_key: &'a str,
        total: Units,
        at: Millis,
    ) -> Later<'a, Result<(), ProviderFault>> {
        self.chaos
            .tell(agreement.as_str(), feature_key, total.get());
        self.plain.write_meter(agreement, feature_key, total, at)
    }

    fn read_meter<'a>(
        &'a self,
        agreement: &'a AgreementId,
        feature_key: &'a str,
    ) -> Later<'a, Result<Delta, ProviderFault>> {
        self.plain.read_meter(agreement, feature_key)
    }

    fn signing_keys(&self) -> Later<'_, Result<Vec<SigningKey>, ProviderFault>> {
        self.plain.signing_keys()
    }
}
