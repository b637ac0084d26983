//! Accounts, API keys, sync, audit.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Value, json};

use super::app::Call;
use super::auth::{self, Role};
use super::body::Fields;
use super::list::{Page, id_param};
use super::reply::{Answer, Failure, Problem, Response};
use crate::accounts::change::{Change, change};
use crate::accounts::create::{Asked, Created, create};
use crate::accounts::keys::{self, ApiKey};
use crate::accounts::rules::Refused;
use crate::accounts::{Account, audit, store};
use crate::cycle::Cycle;
use crate::fault::Fault;
use crate::gate;
use crate::gate::wire::{Ask, BudgetView, Told};
use crate::limits::{JOBS_PER_MINUTE_MAX, NAME_CHARS_MAX};
use crate::moment::format;
use crate::plans::grants;
use crate::plans::sync::{Cause, SyncFault, sync};
use crate::ports::Row;
use crate::provider::ProviderFault;
use crate::units::{AccountId, AgreementId, CustomerId, Millis, PlanCode, Units};
use crate::world::World;

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let status = match refused {
            Refused::AnchorDay => 422,
            Refused::AccountExists
            | Refused::CustomerTaken
            | Refused::CustomerFixed
            | Refused::AnchorFixed
            | Refused::NoCustomer => 409,
        };
        let problem = Self::new(status, refused.code(), refused.message());
        match refused {
            Refused::AnchorDay => problem.with("field", "starts_at"),
            Refused::AccountExists
            | Refused::CustomerTaken
            | Refused::CustomerFixed
            | Refused::AnchorFixed
            | Refused::NoCustomer => problem,
        }
    }
}

/// `POST /v1/accounts`
pub async fn create_account(call: Call) -> Answer {
    let mut fields = call.fields()?;
    let asked = Asked {
        account_id: fields.opt_id("id", AccountId::new)?,
        name: opt_name(&mut fields)?,
        customer_id: fields.opt_id("customer_id", CustomerId::new)?,
        starts_at: fields.opt_moment("starts_at")?,
        jobs_per_minute: fields.opt_int("jobs_per_minute", 1, JOBS_PER_MINUTE_MAX)?,
        demo: false,
    };
    fields.finish()?;
    let actor = &call.caller()?.name;
    let created = create(&call.world, &asked, actor).await;
    match created.map_err(|fault| sync_failure(&call, fault))? {
        Created::New(account, api_key) => {
            let mut answer = view(&call.world, &account, call.now).await?;
            insert(&mut answer, "api_key", json!(api_key));
            Ok(Response::json(201, &answer).with("cache-control", "no-store"))
        }
        Created::Known(account) => Ok(Response::json(
            200,
            &view(&call.world, &account, call.now).await?,
        )),
        Created::Refused(refused) => Err(Problem::from(refused).into()),
    }
}

/// A name for people: 1 to 200 characters, none of them invisible.
fn opt_name(fields: &mut Fields) -> Result<Option<String>, Problem> {
    let name = fields.opt_text("name")?;
    let fits = |name: &String| {
        (1..=NAME_CHARS_MAX).contains(&name.chars().count()) && !name.chars().any(char::is_control)
    };
    match name {
        Some(name) if !fits(&name) => {
            let detail = format!("It must be 1 to {NAME_CHARS_MAX} visible characters.");
            Err(fields.wrong("name", &detail))
        }
        name => Ok(name),
    }
}

/// `GET /v1/accounts`
pub async fn list_accounts(call: Call) -> Answer {
    let page = Page::of(&call.request)?;
    let rows = store::list(&*call.world.db, page.after_or_first(), page.rows()).await?;
    let (accounts, next) = page.cut(rows, |account| account.account_id.to_string());
    let cycles: Vec<Cycle> = accounts.iter().map(|one| one.cycle_at(call.now)).collect();
    let pairs: Vec<_> = accounts
        .iter()
        .zip(&cycles)
        .map(|(account, cycle)| (&account.account_id, &cycle.name))
        .collect();
    let mut balances = grants::balances(&*call.world.db, &pairs).await?;
    let mut items = Vec::with_capacity(accounts.len());
    for (account, cycle) in accounts.iter().zip(&cycles) {
        let balance = balances.remove(account.account_id.as_str());
        items.push(view_of(account, cycle, &balance.unwrap_or_default()));
    }
    Ok(Response::json(200, &json!({"items": items, "next": next})))
}

/// `GET /v1/accounts/{id}`
pub async fn get_account(call: Call) -> Answer {
    let account = of_path(&call).await?;
    let mut answer = view(&call.world, &account, call.now).await?;
    let budgets = budgets(&call.world, &account).await?;
    let budgets = budgets.iter().map(budget_view).collect();
    insert(&mut answer, "budgets", budgets);
    Ok(Response::json(200, &answer))
}

/// The budgets of all gated features, as the account's object has them.
pub async fn budgets(world: &World, account: &Account) -> Result<Vec<BudgetView>, Fault> {
    let features = world.settings.features.iter();
    let gated = features.filter(|(_, feature)| feature.kind.is_gated());
    let features = gated.map(|(name, _)| name.to_string()).collect();
    match gate::ask(world, account, Ask::Budget { features }).await? {
        Told::Budgets(budgets) => Ok(budgets),
        _ => Err(Fault::unreadable("read budgets", "another answer")),
    }
}

fn budget_view(budget: &BudgetView) -> Value {
    json!({
        "feature": budget.feature,
        "cycle": budget.cycle,
        "limit": budget.limit,
        "limit_state": budget.limit_state,
        "used": budget.used,
        "held": budget.held,
        "remaining": budget.remaining,
    })
}

/// The account of the first path segment: 404 where there is none.
async fn of_path(call: &Call) -> Result<Account, Failure> {
    let id = AccountId::new(call.path_value(0)?).ok_or_else(Problem::not_found)?;
    let account = store::load(&*call.world.db, &id).await?;
    Ok(account.ok_or_else(Problem::not_found)?)
}

/// `PATCH /v1/accounts/{id}`
pub async fn patch_account(call: Call) -> Answer {
    let account = of_path(&call).await?;
    let mut fields = call.fields()?;
    let (names, rates) = (fields.has("name"), fields.has("jobs_per_minute"));
    let name = opt_name(&mut fields)?;
    let rate = fields.opt_int("jobs_per_minute", 1, JOBS_PER_MINUTE_MAX)?;
    let asked = Change {
        name: names.then_some(name),
        jobs_per_minute: rates.then_some(rate),
        customer_id: fields.opt_id("customer_id", CustomerId::new)?,
        starts_at: fields.opt_moment("starts_at")?,
    };
    fields.finish()?;
    let caller = call.caller()?;
    if asked.starts_at.is_some() && caller.role != Role::Operator {
        let detail = "Only the operator may move the start of the cycles.";
        return Err(Problem::new(403, "not_allowed", detail).into());
    }
    let changed = change(&call.world, &account, &asked, &caller.name).await;
    let changed = changed.map_err(|fault| sync_failure(&call, fault))?;
    let account = changed.map_err(Problem::from)?;
    Ok(Response::json(
        200,
        &view(&call.world, &account, call.now).await?,
    ))
}

/// `POST /v1/accounts/{id}/keys`
pub async fn create_key(call: Call) -> Answer {
    let account = of_path(&call).await?;
    let mut fields = call.fields()?;
    let name = opt_name(&mut fields)?;
    fields.finish()?;
    let world = &call.world;
    let id = &account.account_id;
    let (text, key) = keys::make(world, id, name.as_deref())?;
    let audit = key_audit(&call, id, "key.create", &key.key_id)?;
    world.db.batch(vec![keys::insert(&key), audit]).await?;
    let mut answer = key_view(&key);
    insert(&mut answer, "api_key", json!(text));
    Ok(Response::json(201, &answer).with("cache-control", "no-store"))
}

fn key_audit(
    call: &Call,
    account: &AccountId,
    action: &str,
    key_id: &str,
) -> Result<crate::ports::Statement, Failure> {
    let id = call.world.mint("aud_")?;
    let actor = &call.caller()?.name;
    Ok(audit::row(
        call.now,
        &id,
        actor,
        action,
        key_id,
        Some(account),
        None,
    ))
}

fn key_view(key: &ApiKey) -> Value {
    json!({
        "id": key.key_id,
        "name": key.name,
        "created_at": format(key.created_at),
        "last_used_at": key.last_used_at.map(format),
        "revoked_at": key.revoked_at.map(format),
    })
}

/// `GET /v1/accounts/{id}/keys`
pub async fn list_keys(call: Call) -> Answer {
    let account = of_path(&call).await?;
    let page = Page::of(&call.request)?;
    let db = &*call.world.db;
    let rows = keys::list(db, &account.account_id, page.after_or_first(), page.rows()).await?;
    Ok(page.answer(rows, |key| key.key_id.clone(), key_view))
}

/// `DELETE /v1/accounts/{id}/keys/{key_id}`
pub async fn revoke_key(call: Call) -> Answer {
    let account = of_path(&call).await?;
    let (id, key_id) = (&account.account_id, call.path_value(1)?);
    let world = &call.world;
    match keys::find_of(&*world.db, id, key_id).await? {
        None => return Err(Problem::not_found().into()),
        Some(key) if key.revoked_at.is_some() => {}
        Some(_) => {
            let audit = key_audit(&call, id, "key.revoke", key_id)?;
            let revoke = keys::revoke(id, key_id, call.now);
            world.db.batch(vec![revoke, audit]).await?;
        }
    }
    world.isolate.accounts.forget_key(key_id);
    Ok(Response::empty(204))
}

/// `GET /v1/account`
pub async fn get_own_account(call: Call) -> Answer {
    let answer = view(&call.world, call.account()?, call.now).await?;
    Ok(Response::json(200, &answer))
}

/// `POST /v1/account/sync`
pub async fn sync_account(call: Call) -> Answer {
    call.fields()?.finish()?;
    let account_id = call.account()?.account_id.clone();
    let synced = sync(&call.world, &account_id, Cause::Asked).await;
    let synced = synced.map_err(|fault| sync_failure(&call, fault))?;
    Ok(Response::json(
        200,
        &json!({
            "plan": synced.plan.as_str(),
            "since": synced.since.map(format),
            "changed": synced.changed,
            "source": synced.source,
        }),
    ))
}

/// 409, 404, or a 503 that says which provider cannot be read, and when to try again.
fn sync_failure(call: &Call, fault: SyncFault) -> Failure {
    match fault {
        SyncFault::NoAccount => Problem::not_found().into(),
        SyncFault::NoCustomer => Problem::from(Refused::NoCustomer).into(),
        SyncFault::Fault(fault) => fault.into(),
        SyncFault::Unreadable(ProviderFault::NotConfigured(name)) => {
            Fault::not_configured(name).into()
        }
        SyncFault::Unreadable(fault) => {
            let wait_ms = match fault {
                ProviderFault::RateLimited { wait_ms } => wait_ms,
                _ => 5_000,
            };
            let has_stand_in = call.world.settings.has_stand_in();
            let provider = if has_stand_in {
                "The stand-in"
            } else {
                "Kinde"
            };
            let detail = format!("{provider} cannot be read now; nothing was changed.");
            let problem = Problem::new(503, "provider_unreadable", detail);
            problem
                .retry_after(wait_ms.saturating_add(999) / 1000)
                .into()
        }
    }
}

/// `GET /v1/audit`
pub async fn list_audit(call: Call) -> Answer {
    let page = Page::of(&call.request)?;
    let account = call.account.as_ref().map(|account| &account.account_id);
    let db = &*call.world.db;
    let rows = audit::list(db, account, page.after.as_deref(), page.rows()).await?;
    let items = rows.iter().map(audit_view).collect::<Result<Vec<_>, _>>()?;
    let id = |(id, _): &(String, Value)| id.clone();
    Ok(page.answer(items, id, |(_, item)| item.clone()))
}

fn audit_view(row: &Row) -> Result<(String, Value), Fault> {
    let id = row.text("audit_id")?.to_owned();
    let view = json!({
        "id": id,
        "at": format(row.millis("at_ms")?),
        "actor": row.text("actor")?,
        "action": row.text("action")?,
        "target": row.text("target")?,
        "account": row.opt_text("account_id")?,
        "reason": row.opt_text("reason")?,
    });
    Ok((id, view))
}

/// `GET /billing/return`: back from the provider's checkout, the plan is read at once. Whoever
/// comes back is sent on also where that did not work: a follow-up and the nightly read will. The
/// app may say which plan was bought; while the provider names another, it is asked again.
pub async fn billing_return(call: Call) -> Answer {
    let Some(caller) = auth::visitor(&call).await? else {
        return Ok(auth::to_sign_in(&call.request));
    };
    let to = call
        .request
        .query_param("to")
        .unwrap_or_else(|| "/".to_owned());
    let Some(to) = app_path(&to) else {
        let detail = "It must be a path: one `/` first, and no `\\`.";
        return Err(Problem::field("to", detail).into());
    };
    let bought = id_param(&call.request, "plan", PlanCode::new)?;
    let world = &call.world;
    let app = world.settings.app_url.as_ref();
    let app = app.ok_or_else(|| Fault::not_configured("APP_URL"))?;
    let id = if let Some(own) = caller.account_id {
        own
    } else {
        let named = id_param(&call.request, "account", AccountId::new)?;
        named.ok_or_else(|| Problem::field("account", "It is required."))?
    };
    let cause = Cause::Checkout { names: bought };
    if let Err(fault) = sync(world, &id, cause).await {
        let fields = json!({"request_id": call.request_id, "account": id.as_str(),
            "cause": fault.to_string()});
        world.log.line("warn", "billing_return.not_synced", fields);
    }
    Ok(Response::see_other(&format!("{app}{to}")))
}

/// What does not stand in a URL as it is.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A path that leads nowhere but into the app, as it may stand in a header.
fn app_path(to: &str) -> Option<String> {
    let leads_in = to.starts_with('/') && !to.starts_with("//") && !to.contains('\\');
    let is_plain = leads_in && !to.chars().any(char::is_control);
    is_plain.then(|| utf8_percent_encode(to, ESCAPED).to_string())
}

/// An account as it is answered everywhere.
pub async fn view(world: &World, account: &Account, now: Millis) -> Result<Value, Fault> {
    let cycle = account.cycle_at(now);
    let balance = grants::balance(&*world.db, &account.account_id, &cycle.name).await?;
    Ok(view_of(account, &cycle, &balance))
}

fn view_of(account: &Account, cycle: &Cycle, balance: &BTreeMap<String, Units>) -> Value {
    let balance: BTreeMap<&str, i64> = balance
        .iter()
        .map(|(what, units)| (what.as_str(), units.get()))
        .collect();
    json!({
        "id": account.account_id.as_str(),
        "name": account.name,
        "customer_id": account.customer_id.as_ref().map(CustomerId::as_str),
        "plan": account.plan.as_str(),
        "plan_since": account.plan_since.map(format),
        "payment": account.payment,
        "agreement_id": account.agreement_id.as_ref().map(AgreementId::as_str),
        "jobs_per_minute": account.jobs_per_minute,
        "anchor": account.anchors.first().map(|anchor| json!({
            "at": format(anchor.at),
            "source": account.anchor_source.name(),
            "fixed": account.anchor_fixed,
        })),
        "cycle": {
            "name": cycle.name.as_str(),
            "starts_at": format(cycle.starts_at),
            "ends_at": format(cycle.ends_at),
        },
        "balance": balance,
    })
}

fn insert(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = object {
        members.insert(name.to_owned(), value);
    }
}
