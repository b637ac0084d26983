//! What an account's page shows, read from both databases and the account's object.

use super::accounts;
use super::app::Call;
use super::auth::Role;
use super::reply::Answer;
use crate::accounts::{Account, AnchorSource, keys};
use crate::fault::Fault;
use crate::inbox::listing::{self, EventView, Filter};
use crate::ledger::totals::within;
use crate::limits::LIST_ROWS_DEFAULT;
use crate::pages::{self, AccountView, BudgetLine, KeyLine};
use crate::params;
use crate::plans::grants;
use crate::ports::Statement;
use crate::units::{AgreementId, CustomerId, Millis};
use crate::world::World;

/// `GET /app/accounts/{id}`
pub async fn account_page(call: Call) -> Answer {
    let view = load(&call, call.account()?).await?;
    let page = pages::account(&call.viewer(), &view);
    Ok(super::pages::html(200, page))
}

async fn load(call: &Call, account: &Account) -> Result<AccountView, Fault> {
    let world = &call.world;
    let id = &account.account_id;
    let cycle = account.cycle_at(call.now);
    let balance = grants::balance(&*world.db, id, &cycle.name).await?;
    let anchor = account.anchors.first();
    let first = anchor.map_or(Millis::ZERO, |anchor| anchor.at);
    let role = call.caller.as_ref().map(|caller| caller.role);
    Ok(AccountView {
        id: id.to_string(),
        name: account.name.clone(),
        customer_id: account.customer_id.as_ref().map(CustomerId::to_string),
        plan: (account.plan.to_string(), account.plan_since),
        payment: account.payment.clone(),
        jobs_per_minute: account.jobs_per_minute,
        agreement_id: account.agreement_id.as_ref().map(AgreementId::to_string),
        anchor: (
            first,
            AnchorSource::name(account.anchor_source),
            account.anchor_fixed,
        ),
        cycle: (cycle.name.to_string(), cycle.starts_at, cycle.ends_at),
        balance: balance
            .into_iter()
            .map(|(what, units)| (what, units.get()))
            .collect(),
        budgets: budgets(world, account).await,
        usage: usage(world, account).await?,
        events: events(world, account).await?,
        keys: key_lines(world, account).await?,
        may_change: role == Some(Role::Operator),
    })
}

/// Absent where the object did not answer: the page's other parts are worth showing without it.
async fn budgets(world: &World, account: &Account) -> Option<Vec<BudgetLine>> {
    let budgets = match accounts::budgets(world, account).await {
        Ok(budgets) => budgets,
        Err(fault) => {
            let fields = serde_json::json!({"account": account.account_id.as_str(),
                "cause": fault.to_string()});
            world.log.line("warn", "account_page.no_budgets", fields);
            return None;
        }
    };
    let lines = budgets.into_iter().map(|budget| BudgetLine {
        feature: budget.feature,
        limit: budget.limit,
        limit_state: budget.limit_state,
        used: budget.used,
        held: budget.held,
        remaining: budget.remaining,
    });
    Some(lines.collect())
}

async fn usage(world: &World, account: &Account) -> Result<Vec<(String, String, i64)>, Fault> {
    let sql = format!(
        "select feature, cycle, {} as total from counter where account_id = ?1 \
         order by cycle desc, feature limit cast(?2 as integer)",
        within("total")
    );
    let rows = world
        .ledger
        .query(Statement::new(
            sql,
            params![account.account_id.as_str(), LIST_ROWS_DEFAULT],
        ))
        .await?;
    rows.iter()
        .map(|row| {
            let (feature, cycle) = (row.text("feature")?, row.text("cycle")?);
            Ok((feature.to_owned(), cycle.to_owned(), row.int("total")?))
        })
        .collect()
}

async fn events(world: &World, account: &Account) -> Result<Vec<EventView>, Fault> {
    let own = Filter {
        account: Some(account.account_id.clone()),
        ..Filter::default()
    };
    listing::list(&*world.db, &own, None, LIST_ROWS_DEFAULT).await
}

async fn key_lines(world: &World, account: &Account) -> Result<Vec<KeyLine>, Fault> {
    let keys = keys::list(&*world.db, &account.account_id, "", LIST_ROWS_DEFAULT).await?;
    let lines = keys.into_iter().map(|key| KeyLine {
        id: key.key_id,
        name: key.name,
        created_at: key.created_at,
        last_used_at: key.last_used_at,
        revoked_at: key.revoked_at,
    });
    Ok(lines.collect())
}
