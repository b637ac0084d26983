//! Which accounts have live holds, for the operator: the feeds say who owes something, the
//! objects say what.

use super::wire::{Ask, BudgetView, Told};
use crate::accounts::store;
use crate::fault::Fault;
use crate::ledger::totals::within;
use crate::params;
use crate::ports::{Db, Statement};
use crate::units::{AccountId, CycleName, FeatureName};
use crate::world::World;

/// An account with live holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// The account.
    pub account_id: AccountId,
    /// The budgets of the features of which something is held.
    pub budgets: Vec<BudgetView>,
}

/// A page of accounts with live holds, without those of the Lab, in the order of their ids, and
/// where the next one begins.
pub async fn accounts(
    world: &World,
    limit: i64,
    after: Option<&str>,
) -> Result<(Vec<Busy>, Option<String>), Fault> {
    let rows = world
        .ledger
        .query(Statement::new(
            "select distinct object from feed where due_at_ms is not null \
             and object > ?1 and object < 'account0' order by object limit cast(?2 as integer)",
            params![format!("account/{}", after.unwrap_or("")), limit + 1],
        ))
        .await?;
    let names: Vec<String> = rows
        .iter()
        .map(|row| row.text("object").map(str::to_owned))
        .collect::<Result<_, _>>()?;
    let page = usize::try_from(limit).unwrap_or(0);
    let ids = names
        .iter()
        .filter_map(|name| name.strip_prefix("account/"))
        .filter_map(AccountId::new);
    let mut busy = Vec::new();
    let mut last = None;
    for account_id in ids.take(page) {
        last = Some(account_id.to_string());
        let budgets = live_budgets(world, &account_id).await?;
        if !budgets.is_empty() {
            busy.push(Busy {
                account_id,
                budgets,
            });
        }
    }
    Ok((busy, last.filter(|_| names.len() > page)))
}

/// The budgets of the features of which the account's running jobs hold something.
async fn live_budgets(world: &World, account_id: &AccountId) -> Result<Vec<BudgetView>, Fault> {
    let account = store::load(&*world.db, account_id).await?;
    let Some(account) = account.filter(|account| !account.demo) else {
        return Ok(Vec::new());
    };
    let features = (world.settings.features.iter())
        .filter(|(_, feature)| feature.kind.is_gated())
        .map(|(name, _)| name.to_string())
        .collect();
    match super::ask(world, &account, Ask::Live { features }).await? {
        Told::Budgets(budgets) => Ok(budgets.into_iter().filter(|b| b.running > 0).collect()),
        _ => Ok(Vec::new()),
    }
}

/// What the ledger has of a feature that the gate does not count.
pub async fn ledger_total(
    ledger: &dyn Db,
    account_id: &AccountId,
    feature: &FeatureName,
    cycle: &CycleName,
) -> Result<i64, Fault> {
    let rows = ledger
        .query(Statement::new(
            format!(
                "select {} as total from counter \
                 where account_id = ?1 and feature = ?2 and cycle = ?3",
                within("total")
            ),
            params![account_id.as_str(), feature.as_str(), cycle.as_str()],
        ))
        .await?;
    rows.first().map_or(Ok(0), |row| row.int("total"))
}
