//! Who asks, and whether they may: tokens, API keys, sessions, roles, and the account that a
//! request is about.
//!
//! Order (api.md): token 401, role 403, size 413, JSON 400, account 422 or 404. Whatever a handler
//! then finds in the body comes after. A browser without a session is sent to `/signin`.

use std::rc::Rc;

use url::form_urlencoded::byte_serialize;

use super::app::Call;
use super::reply::{Failure, Problem, Response};
use super::request::{Method, Request};
use super::route::{Access, Endpoint};
use super::session;
use crate::accounts::keys::{self, ApiKey};
use crate::accounts::{Account, store};
use crate::fault::Fault;
use crate::settings::NamedToken;
use crate::units::AccountId;
use crate::world::World;

/// What a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Operator,
    /// Your servers: accounts and every account route.
    Backend,
    /// One account.
    Account,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// What they may do.
    pub role: Role,
    /// The token's name, or `account/key id`, for the audit.
    pub name: String,
    /// The account of an account key.
    pub account_id: Option<AccountId>,
}

impl Caller {
    /// The bearer of an operator's or a backend's token.
    pub const fn server(role: Role, name: String) -> Self {
        Self {
            role,
            name,
            account_id: None,
        }
    }

    /// The bearer of an account's API key.
    pub fn of_key(key: &ApiKey) -> Self {
        Self {
            role: Role::Account,
            name: format!("{}/{}", key.account_id, key.key_id),
            account_id: Some(key.account_id.clone()),
        }
    }
}

/// 401: no token, or a wrong one.
pub fn unauthorized() -> Problem {
    Problem::new(401, "unauthorized", "A valid token is needed.")
}

/// 403: a request with a session that no page of ours sent.
pub fn foreign_origin() -> Problem {
    let detail = "A request with a session must come from a page of this service.";
    Problem::new(403, "origin", detail)
}

fn not_allowed() -> Problem {
    Problem::new(403, "not_allowed", "This token may not use this route.")
}

/// Settles token, role, size, JSON and account of a call, in that order. An answer is given
/// instead where a browser must sign in first.
pub async fn admit(call: &mut Call) -> Result<Option<Response>, Failure> {
    if call.spec.access == Access::Open {
        return Ok(None);
    }
    let Some(caller) = identify(call).await? else {
        return Ok(Some(to_sign_in(&call.request)));
    };
    if !may(&caller, call) {
        return Err(not_allowed().into());
    }
    if call.spec.access != Access::Page
        && matches!(call.spec.method, Method::Post | Method::Put | Method::Patch)
    {
        call.read_fields()?;
    }
    call.account = account_of(call, &caller).await?;
    call.caller = Some(caller);
    Ok(None)
}

/// Who asks; none where a page is asked for without a session.
async fn identify(call: &Call) -> Result<Option<Caller>, Failure> {
    if let Some(header) = call.request.header("authorization") {
        let token = bearer(header).ok_or_else(unauthorized)?;
        return Ok(Some(of_token(call, token).await?));
    }
    let signed_in = session::caller(&call.world, &call.request, call.now).await;
    let signed_in = match signed_in {
        // Without a session key no cookie counts; only a page cannot do without.
        Err(fault) if is_not_configured(&fault) && call.spec.access != Access::Page => None,
        other => other?,
    };
    let Some(caller) = signed_in else {
        let is_page = call.spec.access == Access::Page;
        return if is_page && changes_nothing(call.request.method) {
            crate::accounts::secrets::session_keys(&call.world).await?;
            Ok(None)
        } else {
            Err(unauthorized().into())
        };
    };
    if !changes_nothing(call.request.method) && !session::is_same_origin(&call.request) {
        return Err(foreign_origin().into());
    }
    Ok(Some(caller))
}

fn is_not_configured(fault: &Fault) -> bool {
    fault.kind == crate::fault::FaultKind::NotConfigured
}

const fn changes_nothing(method: Method) -> bool {
    matches!(method, Method::Get | Method::Head | Method::Options)
}

/// The token of an `Authorization: Bearer …` header.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

async fn of_token(call: &Call, token: &str) -> Result<Caller, Failure> {
    if token.starts_with(keys::PREFIX) {
        let key = keys::find(&call.world, token, call.now).await?;
        let key = key.ok_or_else(unauthorized)?;
        return Ok(Caller::of_key(&key));
    }
    Ok(of_server_token(&call.world, token)?.ok_or_else(unauthorized)?)
}

/// Whose operator or backend token that is. A fault where none is set at all.
fn of_server_token(world: &World, token: &str) -> Result<Option<Caller>, Fault> {
    let settings = &world.settings;
    if settings.operator_tokens.is_empty() && settings.backend_tokens.is_empty() {
        return Err(Fault::not_configured("OPERATOR_TOKEN"));
    }
    let operator = match_token(&settings.operator_tokens, token);
    let backend = match_token(&settings.backend_tokens, token);
    let caller = |role, known: &NamedToken| Caller::server(role, known.name.clone());
    Ok(operator
        .map(|known| caller(Role::Operator, known))
        .or_else(|| backend.map(|known| caller(Role::Backend, known))))
}

/// The token that was given, looked for in a time that does not tell how near it came: hashes are
/// compared, whole, and every token of the list is.
pub fn match_token<'a>(known: &'a [NamedToken], given: &str) -> Option<&'a NamedToken> {
    let hash = |text: &str| hmac_sha256::Hash::hash(text.as_bytes());
    let given = hash(given);
    let mut found = None;
    for token in known {
        if keys::same(&hash(&token.token), &given) {
            found = Some(token);
        }
    }
    found
}

/// Whether a role may use the route at all.
fn may(caller: &Caller, call: &Call) -> bool {
    match call.spec.access {
        Access::Operator | Access::AccountOperator => caller.role == Role::Operator,
        Access::Servers => caller.role != Role::Account,
        Access::Page => caller.role == Role::Operator || !is_operator_page(call.spec.endpoint),
        Access::Open | Access::Account | Access::AccountOrAll | Access::Filter => true,
    }
}

/// Pages about more than one account.
const fn is_operator_page(endpoint: Endpoint) -> bool {
    matches!(
        endpoint,
        Endpoint::ReconcilePage
            | Endpoint::RunReconcile
            | Endpoint::Lab
            | Endpoint::RunLab
            | Endpoint::EngineRoom
            | Endpoint::RunEngineRoom
    )
}

/// What is about nobody or about everybody, whatever `?account=` says.
const fn asks_for_no_account(endpoint: Endpoint) -> bool {
    matches!(
        endpoint,
        Endpoint::Metrics
            | Endpoint::StandInControl
            | Endpoint::Overview
            | Endpoint::Lab
            | Endpoint::RunLab
            | Endpoint::RunReconcile
            | Endpoint::EngineRoom
            | Endpoint::RunEngineRoom
    )
}

/// The account that a call is about: 422 where it must be named, 404 where there is none.
async fn account_of(call: &Call, caller: &Caller) -> Result<Option<Account>, Failure> {
    if call.spec.access == Access::Servers {
        return Ok(None);
    }
    let named = match call.spec.endpoint {
        Endpoint::AccountPage => Some(call.path_value(0)?.to_owned()),
        endpoint if asks_for_no_account(endpoint) => None,
        _ => call
            .request
            .query_param("account")
            .filter(|id| !id.is_empty()),
    };
    let wanted = match (&caller.account_id, named) {
        (Some(own), Some(named)) if named != own.as_str() => {
            return Err(Problem::not_found().into());
        }
        (Some(own), _) => own.clone(),
        (None, Some(named)) => AccountId::new(named).ok_or_else(Problem::not_found)?,
        (None, None) => {
            return match call.spec.access {
                Access::Account | Access::AccountOperator => Err(account_missing().into()),
                Access::AccountOrAll if caller.role == Role::Backend => {
                    Err(account_missing().into())
                }
                _ => Ok(None),
            };
        }
    };
    let found = load(call, &wanted).await?;
    Ok(Some(found.ok_or_else(Problem::not_found)?))
}

fn account_missing() -> Problem {
    let detail = "Name the account: ?account=ID.";
    Problem::field("account", detail)
}

/// The account's row; on the gate's routes the one that this isolate remembers will do.
async fn load(call: &Call, id: &AccountId) -> Result<Option<Account>, Fault> {
    let world = &call.world;
    if !is_hot(call.spec.endpoint) {
        return store::load(&*world.db, id).await;
    }
    let memory = &world.isolate.accounts;
    let age_ms = world.settings.key_cache_seconds * 1000;
    if let Some(account) = memory.account(id, call.now, age_ms) {
        return Ok(Some(account));
    }
    let account = store::load(&*world.db, id).await?;
    if let Some(account) = &account {
        memory.keep_account(account, call.now);
    }
    Ok(account)
}

/// The routes of running jobs, which answer from the account's object alone.
const fn is_hot(endpoint: Endpoint) -> bool {
    matches!(
        endpoint,
        Endpoint::CreateJob
            | Endpoint::GetJob
            | Endpoint::ChargeJob
            | Endpoint::ExtendJob
            | Endpoint::RenewJob
            | Endpoint::SettleJob
    )
}

/// To `/signin`, and from there back.
pub fn to_sign_in(request: &Request) -> Response {
    let mut target = request.path.clone();
    if !request.query.is_empty() {
        target.push('?');
        target.push_str(&request.query);
    }
    let next: String = byte_serialize(target.as_bytes()).collect();
    Response::see_other(&format!("/signin?next={next}"))
}

/// Who is signed in, on a route that anyone may open.
pub async fn visitor(call: &Call) -> Result<Option<Caller>, Fault> {
    let world: &Rc<World> = &call.world;
    match session::caller(world, &call.request, call.now).await {
        Err(fault) if is_not_configured(&fault) => Ok(None),
        other => other,
    }
}

/// Whether a browser may be sent there after an answer: a path of this service, beginning with one
/// `/` and holding no `\` and nothing invisible.
pub fn is_local_path(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && path.bytes().all(|b| b.is_ascii_graphic() && b != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_header_with_a_token_is_one() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        for bad in ["", "Bearer", "Bearer ", "Basic abc", "abc"] {
            assert_eq!(bearer(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_a_path_of_ours_is_local() {
        for good in ["/", "/app?x=1", "/app/accounts/a%20b"] {
            assert!(is_local_path(good), "{good}");
        }
        for bad in [
            "",
            "app",
            "//evil.example",
            "/\\evil.example",
            "/a b",
            "/a\n",
            "https://x/",
        ] {
            assert!(!is_local_path(bad), "{bad}");
        }
    }

    #[test]
    fn a_token_is_found_whole_or_not_at_all() {
        let named = |name: &str, token: &str| NamedToken {
            name: name.to_owned(),
            token: token.to_owned(),
        };
        let known = [named("old", "one"), named("new", "two")];
        let found = |given: &str| match_token(&known, given).map(|t| t.name.clone());
        assert_eq!(found("two"), Some("new".to_owned()));
        for bad in ["", "tw", "twoo", "TWO"] {
            assert_eq!(found(bad), None);
        }
    }
}
