//! The Kinde client: token, entitlements, agreements, meter write and read. The same code speaks
//! to Kinde and to the stand-in; only the transport differs.
//!
//! Promise: a list is given whole or not at all, and a write is `Ok` only where the provider said
//! so. A 401 drops the token and asks once more with a new one; nothing else is repeated here.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::Value;

use super::standin::{self, InProcess};
use super::token::{Credentials, Tokens, no_answer};
use super::wire::{self, List, Page, Unread};
use super::{Agreement, Agreements, FeatureLimit, Limits, Provider, ProviderFault, SigningKey};
use crate::isolate::Isolate;
use crate::moment::{DAY_MS, civil};
use crate::ports::{Clock, Db, Incoming, Later, Objects, Outgoing, Timer, Transport};
use crate::settings::{ProviderChoice, Settings};
use crate::units::{AgreementId, CustomerId, Delta, Millis, Units};

/// Pages of one list; with 100 rows each more than any customer has. An endless list ends here.
const PAGES_MAX: usize = 50;

/// The client.
pub struct Kinde {
    transport: Rc<dyn Transport>,
    tokens: Tokens,
    credentials: Result<Credentials, &'static str>,
    jwks_url: Result<String, &'static str>,
}

impl Kinde {
    /// Speaks to whichever provider the settings name.
    pub fn of_settings(
        settings: &Rc<Settings>,
        db: &Rc<dyn Db>,
        objects: &Rc<dyn Objects>,
        transport: &Rc<dyn Transport>,
        clock: &Rc<dyn Clock>,
        timer: &Rc<dyn Timer>,
        isolate: &Rc<Isolate>,
    ) -> Self {
        let transport: Rc<dyn Transport> = match settings.provider {
            ProviderChoice::Kinde => Rc::clone(transport),
            ProviderChoice::StandIn => Rc::new(InProcess::new(objects)),
        };
        let tokens = Tokens::new(&transport, db, clock, timer, isolate);
        Self {
            transport,
            tokens,
            credentials: credentials(settings),
            jwks_url: jwks_url(settings),
        }
    }

    fn credentials(&self) -> Result<&Credentials, ProviderFault> {
        self.credentials
            .as_ref()
            .map_err(|missing| ProviderFault::NotConfigured(missing))
    }

    /// Sends a request with the token, and once more with a new one where the answer is 401.
    async fn call(&self, request: Outgoing) -> Result<Value, ProviderFault> {
        let of = self.credentials()?;
        let token = self.tokens.get(of).await?;
        let answer = self.send(&request, &token).await?;
        if answer.status != 401 {
            return wire::accepted(&answer);
        }
        self.tokens.forget(of, &token).await?;
        let token = self.tokens.get(of).await?;
        wire::accepted(&self.send(&request, &token).await?)
    }

    async fn send(&self, request: &Outgoing, token: &str) -> Result<Incoming, ProviderFault> {
        let mut request = request.clone();
        let bearer = ("authorization".to_owned(), format!("Bearer {token}"));
        request.headers.push(bearer);
        self.transport.send(request).await.map_err(no_answer)
    }

    /// Every page of a list, or a fault.
    async fn list<T>(
        &self,
        list: List<'_>,
        read: fn(&Value) -> Result<T, Unread>,
    ) -> Result<Vec<T>, ProviderFault> {
        let origin = &self.credentials()?.origin;
        let mut whole = Vec::new();
        let mut seen = BTreeSet::new();
        let mut after: Option<String> = None;
        for number in 1..=PAGES_MAX {
            let request = wire::list_request(origin, &list, after.as_deref());
            let json = (self.call(request).await).map_err(|fault| on_page(number, fault))?;
            let page = wire::page(&json, &list, read)
                .map_err(|unread| on_page(number, ProviderFault::from(unread)))?;
            let next = following(&page, &mut seen)?;
            whole.extend(page.items);
            match next {
                None => return Ok(whole),
                next_page => after = next_page,
            }
        }
        let cause = format!("{} has more than {PAGES_MAX} pages", list.member);
        Err(ProviderFault::Incomplete(cause))
    }

    async fn agreements_of(&self, customer: &str) -> Result<Agreements, ProviderFault> {
        let list = List {
            path: wire::AGREEMENTS,
            member: "agreements",
            customer,
            page_rows: wire::PAGE_ROWS,
            expand: None,
        };
        let agreements = self.list(list, wire::agreement).await?;
        let subscribed_on = if anchor_needs_subscribed_on(&agreements) {
            self.subscribed_on(customer).await?
        } else {
            BTreeMap::new()
        };
        Ok(Agreements {
            agreements,
            subscribed_on,
        })
    }

    /// The plans stand beside the entitlements, on every page alike: one row is enough.
    async fn subscribed_on(
        &self,
        customer: &str,
    ) -> Result<BTreeMap<String, Millis>, ProviderFault> {
        let list = List {
            path: wire::ENTITLEMENTS,
            member: "entitlements",
            customer,
            page_rows: 1,
            expand: Some("plans"),
        };
        let request = wire::list_request(&self.credentials()?.origin, &list, None);
        let plans = wire::plans(&self.call(request).await?)?;
        Ok(plans.into_iter().collect())
    }
}

impl Provider for Kinde {
    fn limits<'a>(&'a self, customer: &'a CustomerId) -> Later<'a, Result<Limits, ProviderFault>> {
        Box::pin(async move {
            let list = List {
                path: wire::ENTITLEMENTS,
                member: "entitlements",
                customer: customer.as_str(),
                page_rows: wire::PAGE_ROWS,
                expand: None,
            };
            let mut limits = Limits::new();
            let named = self.list(list, wire::entitlement).await?;
            for (key, limit) in named.into_iter().flatten() {
                let larger = limits.get(&key).map_or(limit, |known| known.larger(limit));
                limits.insert(key, larger);
            }
            Ok(limits)
        })
    }

    fn agreements<'a>(
        &'a self,
        customer: &'a CustomerId,
    ) -> Later<'a, Result<Agreements, ProviderFault>> {
        Box::pin(self.agreements_of(customer.as_str()))
    }

    fn write_meter<'a>(
        &'a self,
        agreement: &'a AgreementId,
        feature_key: &'a str,
        total: Units,
        at: Millis,
    ) -> Later<'a, Result<(), ProviderFault>> {
        Box::pin(async move {
            let origin = &self.credentials()?.origin;
            let request = wire::write_request(origin, agreement, feature_key, total, at);
            Ok(wire::written(&self.call(request).await?)?)
        })
    }

    fn read_meter<'a>(
        &'a self,
        agreement: &'a AgreementId,
        feature_key: &'a str,
    ) -> Later<'a, Result<Delta, ProviderFault>> {
        Box::pin(async move {
            let origin = &self.credentials()?.origin;
            let request = wire::read_request(origin, agreement, feature_key);
            Ok(wire::meter(&self.call(request).await?)?)
        })
    }

    fn signing_keys(&self) -> Later<'_, Result<Vec<SigningKey>, ProviderFault>> {
        Box::pin(async move {
            let url = self.jwks_url.as_ref();
            let url = url.map_err(|missing| ProviderFault::NotConfigured(missing))?;
            let request = wire::jwks_request(url);
            let answer = self.transport.send(request).await.map_err(no_answer)?;
            Ok(wire::signing_keys(&wire::accepted(&answer)?)?)
        })
    }
}

fn credentials(settings: &Settings) -> Result<Credentials, &'static str> {
    let of = &settings.kinde;
    let (origin, client_id, client_secret) = match settings.provider {
        ProviderChoice::StandIn => {
            let (client_id, client_secret) = standin::credentials(settings);
            (standin::ORIGIN.to_owned(), client_id, client_secret)
        }
        ProviderChoice::Kinde => (
            of.domain.clone().ok_or("KINDE_DOMAIN")?,
            of.client_id.clone().ok_or("KINDE_CLIENT_ID")?,
            of.client_secret.clone().ok_or("KINDE_CLIENT_SECRET")?,
        ),
    };
    Ok(Credentials {
        origin,
        client_id,
        client_secret,
    })
}

/// From the settings only: a token must never say where its own key is.
fn jwks_url(settings: &Settings) -> Result<String, &'static str> {
    if settings.has_stand_in() {
        return Ok(format!("{}{}", standin::ORIGIN, wire::JWKS));
    }
    let domain = || Some(format!("{}{}", settings.kinde.domain.as_ref()?, wire::JWKS));
    let url = settings.kinde.jwks_url.clone().or_else(domain);
    url.ok_or("KINDE_DOMAIN")
}

/// The id after which the next page starts; `None` after the last. A page that is empty although
/// more is promised, or that brings a row again, would be a list without end or with a gap.
fn following<T>(
    page: &Page<T>,
    seen: &mut BTreeSet<String>,
) -> Result<Option<String>, ProviderFault> {
    for id in page.ids.iter().flatten() {
        if !seen.insert(id.clone()) {
            return Err(ProviderFault::Incomplete(format!("{id} came twice")));
        }
    }
    if !page.has_more {
        return Ok(None);
    }
    match page.ids.last() {
        Some(Some(last)) => Ok(Some(last.clone())),
        _ => Err(ProviderFault::Incomplete(
            "more is promised after no row".to_owned(),
        )),
    }
}

/// A later page that fails leaves a list with a part missing.
fn on_page(number: usize, fault: ProviderFault) -> ProviderFault {
    match fault {
        ProviderFault::Unknown(cause) if number > 1 => {
            ProviderFault::Incomplete(format!("page {number}: {cause}"))
        }
        other => other,
    }
}

/// An anchor is the current period's start, unless that is not known, or may be a later day of a
/// month cut short (design.md, "Cycle"). An agreement that has no end comes before one that has.
fn anchor_needs_subscribed_on(agreements: &[Agreement]) -> bool {
    let open = |agreement: &&Agreement| agreement.expires_at.is_none();
    let unclear = |agreement: &Agreement| agreement.period_start.is_none_or(may_be_cut_short);
    if agreements.iter().any(|agreement| open(&agreement)) {
        agreements.iter().filter(open).any(unclear)
    } else {
        agreements.iter().any(unclear)
    }
}

/// The last day of a month that has fewer than 31.
fn may_be_cut_short(start: Millis) -> bool {
    let (_, month, day, _) = civil(start);
    let (_, next_month, ..) = civil(start.after(DAY_MS));
    day < 31 && month != next_month
}

impl FeatureLimit {
    fn larger(self, other: Self) -> Self {
        match (self, other) {
            (Self::Known(one), Self::Known(other)) => Self::Known(one.max(other)),
            _ => Self::Unlimited,
        }
    }
}

#[cfg(test)]
#[path = "kinde_tests.rs"]
mod tests;
