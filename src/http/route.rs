//! Every URL of Counterfoil, in one table.
//!
//! The table drives the router, the `Allow` header, the OpenAPI test and the test of reserved
//! first segments. Order does not matter but for `{…}` segments, which match what no literal did.

use super::request::{Method, segments};
use crate::cron::Job;
use crate::units::is_path_id;

/// Who may use a route (api.md, "Rules for every route").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nobody needs a token.
    Open,
    /// A signed-in person; without a session, `/signin` first.
    Page,
    /// The operator; `?account=` is a filter.
    Operator,
    /// Operator and backend; the account stands in the path or body.
    Servers,
    /// Anyone, for one account: an account key's own, or the one that `?account=` names.
    Account,
    /// The operator, for the account that `?account=` names.
    AccountOperator,
    /// As `Account`, but the operator may leave the account out.
    AccountOrAll,
    /// Anyone; operator and backend may filter by `?account=`, an account sees its own.
    Filter,
}

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // The table below says what each one answers.
pub enum Endpoint {
    Home,
    Overview,
    Lab,
    RunLab,
    ReconcilePage,
    RunReconcile,
    EngineRoom,
    RunEngineRoom,
    LinksPage,
    JobsPage,
    AccountPage,
    EventsPage,
    Style,
    Script,
    Docs,
    SignInPage,
    SignIn,
    SignOut,
    Health,
    Metrics,
    OpenApi,
    CreateAccount,
    ListAccounts,
    GetAccount,
    PatchAccount,
    CreateKey,
    ListKeys,
    RevokeKey,
    GetOwnAccount,
    SyncAccount,
    ListAudit,
    CreateJob,
    ListJobs,
    JobEstimates,
    GetJob,
    ChargeJob,
    ExtendJob,
    RenewJob,
    SettleJob,
    GetBudget,
    CreateLink,
    ListLinks,
    GetLink,
    PatchLink,
    LinkQrSvg,
    LinkQrPng,
    GetUsage,
    RecordUsage,
    ListEntries,
    CorrectEntry,
    ListMeters,
    ListEvidence,
    ListReview,
    CloseReviews,
    CarryReviews,
    CloseReview,
    CarryReview,
    RunJob,
    ReceiveWebhook,
    ListEvents,
    ReplayEvents,
    GetEvent,
    ReplayEvent,
    SkipEvent,
    BillingReturn,
    StandInApi,
    StandInControl,
    ShortLink,
}

/// One route.
#[derive(Debug)]
pub struct Spec {
    /// The method; a `Get` also answers `HEAD`.
    pub method: Method,
    /// `/v1/jobs/{id}`.
    pub pattern: &'static str,
    /// What it does.
    pub endpoint: Endpoint,
    /// Who may use it.
    pub access: Access,
}

const fn spec(method: Method, pattern: &'static str, endpoint: Endpoint, access: Access) -> Spec {
    Spec {
        method,
        pattern,
        endpoint,
        access,
    }
}

/// All routes.
#[rustfmt::skip]
pub static ROUTES: &[Spec] = &[
    spec(Method::Get, "/", Endpoint::Home, Access::Open),
    spec(Method::Get, "/app", Endpoint::Overview, Access::Page),
    spec(Method::Get, "/app/lab", Endpoint::Lab, Access::Page),
    spec(Method::Post, "/app/lab/run", Endpoint::RunLab, Access::Page),
    spec(Method::Get, "/app/reconcile", Endpoint::ReconcilePage, Access::Page),
    spec(Method::Post, "/app/reconcile/run", Endpoint::RunReconcile, Access::Page),
    spec(Method::Get, "/app/engine-room", Endpoint::EngineRoom, Access::Page),
    spec(Method::Post, "/app/engine-room/run", Endpoint::RunEngineRoom, Access::Page),
    spec(Method::Get, "/app/links", Endpoint::LinksPage, Access::Page),
    spec(Method::Get, "/app/jobs", Endpoint::JobsPage, Access::Page),
    spec(Method::Get, "/app/accounts/{id}", Endpoint::AccountPage, Access::Page),
    spec(Method::Get, "/app/events", Endpoint::EventsPage, Access::Page),
    spec(Method::Get, "/app/style.css", Endpoint::Style, Access::Open),
    spec(Method::Get, "/app/script.js", Endpoint::Script, Access::Open),
    spec(Method::Get, "/docs", Endpoint::Docs, Access::Open),
    spec(Method::Get, "/signin", Endpoint::SignInPage, Access::Open),
    spec(Method::Post, "/signin", Endpoint::SignIn, Access::Open),
    spec(Method::Post, "/signout", Endpoint::SignOut, Access::Open),
    spec(Method::Get, "/healthz", Endpoint::Health, Access::Open),
    spec(Method::Get, "/metrics", Endpoint::Metrics, Access::Operator),
    spec(Method::Get, "/openapi.json", Endpoint::OpenApi, Access::Open),
    spec(Method::Post, "/v1/accounts", Endpoint::CreateAccount, Access::Servers),
    spec(Method::Get, "/v1/accounts", Endpoint::ListAccounts, Access::Servers),
    spec(Method::Get, "/v1/accounts/{id}", Endpoint::GetAccount, Access::Servers),
    spec(Method::Patch, "/v1/accounts/{id}", Endpoint::PatchAccount, Access::Servers),
    spec(Method::Post, "/v1/accounts/{id}/keys", Endpoint::CreateKey, Access::Servers),
    spec(Method::Get, "/v1/accounts/{id}/keys", Endpoint::ListKeys, Access::Servers),
    spec(Method::Delete, "/v1/accounts/{id}/keys/{key_id}", Endpoint::RevokeKey, Access::Servers),
    spec(Method::Get, "/v1/account", Endpoint::GetOwnAccount, Access::Account),
    spec(Method::Post, "/v1/account/sync", Endpoint::SyncAccount, Access::Account),
    spec(Method::Get, "/v1/audit", Endpoint::ListAudit, Access::Operator),
    spec(Method::Post, "/v1/jobs", Endpoint::CreateJob, Access::Account),
    spec(Method::Get, "/v1/jobs", Endpoint::ListJobs, Access::AccountOrAll),
    spec(Method::Get, "/v1/jobs/estimates", Endpoint::JobEstimates, Access::Account),
    spec(Method::Get, "/v1/jobs/{id}", Endpoint::GetJob, Access::Account),
    spec(Method::Post, "/v1/jobs/{id}/charges", Endpoint::ChargeJob, Access::Account),
    spec(Method::Post, "/v1/jobs/{id}/extend", Endpoint::ExtendJob, Access::Account),
    spec(Method::Post, "/v1/jobs/{id}/renew", Endpoint::RenewJob, Access::Account),
    spec(Method::Post, "/v1/jobs/{id}/settle", Endpoint::SettleJob, Access::Account),
    spec(Method::Get, "/v1/budget", Endpoint::GetBudget, Access::Account),
    spec(Method::Post, "/v1/links", Endpoint::CreateLink, Access::Account),
    spec(Method::Get, "/v1/links", Endpoint::ListLinks, Access::Account),
    spec(Method::Get, "/v1/links/{code}", Endpoint::GetLink, Access::Account),
    spec(Method::Patch, "/v1/links/{code}", Endpoint::PatchLink, Access::Account),
    spec(Method::Get, "/v1/links/{code}/qr.svg", Endpoint::LinkQrSvg, Access::Open),
    spec(Method::Get, "/v1/links/{code}/qr.png", Endpoint::LinkQrPng, Access::Open),
    spec(Method::Get, "/v1/usage", Endpoint::GetUsage, Access::Account),
    spec(Method::Post, "/v1/usage", Endpoint::RecordUsage, Access::Account),
    spec(Method::Get, "/v1/entries", Endpoint::ListEntries, Access::Account),
    spec(Method::Post, "/v1/entries/{id}/correction", Endpoint::CorrectEntry, Access::AccountOperator),
    spec(Method::Get, "/v1/meters", Endpoint::ListMeters, Access::Operator),
    spec(Method::Get, "/v1/evidence", Endpoint::ListEvidence, Access::Operator),
    spec(Method::Get, "/v1/review", Endpoint::ListReview, Access::Operator),
    spec(Method::Post, "/v1/review/close", Endpoint::CloseReviews, Access::Operator),
    spec(Method::Post, "/v1/review/carry", Endpoint::CarryReviews, Access::Operator),
    spec(Method::Post, "/v1/review/{id}/close", Endpoint::CloseReview, Access::Operator),
    spec(Method::Post, "/v1/review/{id}/carry", Endpoint::CarryReview, Access::Operator),
    spec(Method::Post, "/v1/run/{job}", Endpoint::RunJob, Access::Operator),
    spec(Method::Post, "/webhooks/kinde", Endpoint::ReceiveWebhook, Access::Open),
    spec(Method::Get, "/v1/events", Endpoint::ListEvents, Access::Filter),
    spec(Method::Post, "/v1/events/replay", Endpoint::ReplayEvents, Access::Operator),
    spec(Method::Get, "/v1/events/{id}", Endpoint::GetEvent, Access::Filter),
    spec(Method::Post, "/v1/events/{id}/replay", Endpoint::ReplayEvent, Access::Filter),
    spec(Method::Post, "/v1/events/{id}/skip", Endpoint::SkipEvent, Access::Operator),
    spec(Method::Get, "/billing/return", Endpoint::BillingReturn, Access::Open),
    spec(Method::Post, "/standin/oauth2/token", Endpoint::StandInApi, Access::Open),
    spec(Method::Get, "/standin/.well-known/jwks", Endpoint::StandInApi, Access::Open),
    spec(Method::Get, "/standin/api/v1/billing/entitlements", Endpoint::StandInApi, Access::Open),
    spec(Method::Get, "/standin/api/v1/billing/agreements", Endpoint::StandInApi, Access::Open),
    spec(Method::Get, "/standin/api/v1/billing/meter_usage", Endpoint::StandInApi, Access::Open),
    spec(Method::Post, "/standin/api/v1/billing/meter_usage", Endpoint::StandInApi, Access::Open),
    spec(Method::Put, "/standin/customers/{customer_id}", Endpoint::StandInControl, Access::Operator),
    spec(Method::Get, "/standin/meters/{agreement_id}/{feature}", Endpoint::StandInControl, Access::Operator),
    spec(Method::Put, "/standin/meters/{agreement_id}/{feature}", Endpoint::StandInControl, Access::Operator),
    spec(Method::Put, "/standin/faults", Endpoint::StandInControl, Access::Operator),
    spec(Method::Post, "/standin/events", Endpoint::StandInControl, Access::Operator),
    spec(Method::Post, "/standin/keys/rotate", Endpoint::StandInControl, Access::Operator),
    spec(Method::Put, "/standin/clock", Endpoint::StandInControl, Access::Operator),
    spec(Method::Get, "/standin/calls", Endpoint::StandInControl, Access::Operator),
    spec(Method::Get, "/{code}", Endpoint::ShortLink, Access::Open),
];

/// First path segments that no link may have as its code. Never added to: a link made yesterday
/// must still work tomorrow (api.md).
pub const RESERVED: &[&str] = &[
    "app",
    "v1",
    "webhooks",
    "billing",
    "signin",
    "signout",
    "docs",
    "healthz",
    "metrics",
    "openapi.json",
    "standin",
    "cdn-cgi",
    "favicon.ico",
    "robots.txt",
    ".well-known",
    "__scheduled",
];

/// What a method and a path lead to.
#[derive(Debug)]
pub enum Found {
    /// A route, with the values of its `{…}` segments in order.
    Route(&'static Spec, Vec<String>),
    /// The path is known, the method is not; the value of `Allow`.
    OtherMethod(String),
    /// There is nothing at this path.
    Nothing,
}

/// Looks a request up.
pub fn find(method: Method, path: &str) -> Found {
    let Some(segments) = segments(path) else {
        return Found::Nothing;
    };
    let mut allowed: Vec<Method> = Vec::new();
    let asked = if method == Method::Head {
        Method::Get
    } else {
        method
    };
    // Short links are by far the most requests, and no other route can be meant by their path.
    let is_code = matches!(segments.as_slice(), [one] if !RESERVED.contains(&one.as_str()));
    let in_question = |spec: &&Spec| spec.pattern.starts_with("/{") == is_code;
    for literal in [true, false] {
        let specs = ROUTES.iter().filter(in_question);
        for spec in specs.filter(|spec| is_literal(spec) == literal) {
            let Some(values) = matched(spec.pattern, &segments) else {
                continue;
            };
            if spec.method == asked {
                return Found::Route(spec, values);
            }
            allowed.push(spec.method);
        }
        if !allowed.is_empty() {
            return Found::OtherMethod(allow(&allowed));
        }
    }
    Found::Nothing
}

/// `/v1/jobs/estimates` is looked at before `/v1/jobs/{id}`.
fn is_literal(spec: &Spec) -> bool {
    !spec.pattern.contains('{')
}

fn matched(pattern: &str, segments: &[String]) -> Option<Vec<String>> {
    let mut parts = pattern.split('/').skip(1).filter(|part| !part.is_empty());
    let mut values = Vec::new();
    for segment in segments {
        let part = parts.next()?;
        if part == "{code}" {
            if segments.len() == 1 && RESERVED.contains(&segment.as_str()) {
                return None;
            }
            values.push(segment.clone());
        } else if part == "{job}" {
            // The jobs stand in the path itself: another name is no path of ours.
            Job::parse(segment).map(|_| values.push(segment.clone()))?;
        } else if part.starts_with('{') {
            is_path_id(segment).then(|| values.push(segment.clone()))?;
        } else if part != segment {
            return None;
        }
    }
    parts.next().is_none().then_some(values)
}

fn allow(methods: &[Method]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for method in methods {
        names.push(method.name());
        if *method == Method::Get {
            names.push("HEAD");
        }
    }
    names.push("OPTIONS");
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(method: Method, path: &str) -> Option<Endpoint> {
        match find(method, path) {
            Found::Route(spec, _) => Some(spec.endpoint),
            Found::OtherMethod(_) | Found::Nothing => None,
        }
    }

    #[test]
    fn every_first_segment_of_the_router_is_reserved_and_none_was_added() {
        for spec in ROUTES {
            let first = spec.pattern.split('/').nth(1).unwrap_or_default();
            let known = first.is_empty() || first == "{code}" || RESERVED.contains(&first);
            assert!(known, "{} would take a code from somebody", spec.pattern);
        }
        assert_eq!(RESERVED.len(), 16);
    }

    #[test]
    fn a_literal_segment_wins_over_an_id() {
        assert_eq!(
            endpoint(Method::Get, "/v1/jobs/estimates"),
            Some(Endpoint::JobEstimates)
        );
        assert_eq!(
            endpoint(Method::Get, "/v1/jobs/job_1"),
            Some(Endpoint::GetJob)
        );
        assert_eq!(
            endpoint(Method::Post, "/v1/review/close"),
            Some(Endpoint::CloseReviews)
        );
        assert_eq!(
            endpoint(Method::Post, "/v1/review/r1/close"),
            Some(Endpoint::CloseReview)
        );
    }

    #[test]
    fn one_segment_that_is_not_reserved_is_a_short_link() {
        assert_eq!(
            endpoint(Method::Get, "/Spring-26/"),
            Some(Endpoint::ShortLink)
        );
        assert_eq!(endpoint(Method::Head, "/spring"), Some(Endpoint::ShortLink));
        assert_eq!(endpoint(Method::Get, "/metrics"), Some(Endpoint::Metrics));
        assert_eq!(endpoint(Method::Get, "/cdn-cgi"), None);
        assert!(matches!(find(Method::Get, "/%zz"), Found::Nothing));
    }

    #[test]
    fn only_a_job_of_the_cron_is_a_path() {
        for job in Job::ALL {
            let path = format!("/v1/run/{}", job.name());
            assert_eq!(endpoint(Method::Post, &path), Some(Endpoint::RunJob));
        }
        assert!(matches!(
            find(Method::Post, "/v1/run/nothing"),
            Found::Nothing
        ));
    }

    #[test]
    fn another_method_on_a_known_path_is_told_what_is_allowed() {
        let Found::OtherMethod(allow) = find(Method::Delete, "/x") else {
            panic!("not known")
        };
        assert_eq!(allow, "GET, HEAD, OPTIONS");
        let Found::OtherMethod(allow) = find(Method::Put, "/v1/links/x") else {
            panic!("not known")
        };
        assert_eq!(allow, "GET, HEAD, PATCH, OPTIONS");
    }
}
