//! Grants: what a plan allows per cycle. Keyed by account, cycle, feature and plan, written by
//! whoever meets it first; the balance of a cycle is its largest grant.

use std::collections::BTreeMap;

use crate::fault::Fault;
use crate::params;
use crate::ports::{Db, Statement};
use crate::settings::Settings;
use crate::units::{AccountId, CycleName, Millis, PlanCode, Units};

/// Who wrote a grant, for the log and the account's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantedBy {
    /// A plan sync, whoever asked for it.
    Sync,
    /// An event that told of a plan, without a read.
    Event,
    /// A payment.
    Payment,
}

impl GrantedBy {
    /// As it is stored.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Event => "event",
            Self::Payment => "payment",
        }
    }
}

/// Grants the plan's allowance in that cycle: one row for each thing the plan grants, once.
pub fn grant(
    settings: &Settings,
    account_id: &AccountId,
    cycle: &CycleName,
    plan: &PlanCode,
    by: GrantedBy,
    at: Millis,
) -> Vec<Statement> {
    let Some(allowance) = settings.plans.get(plan) else {
        return Vec::new();
    };
    allowance
        .iter()
        .map(|(feature, units)| {
            Statement::new(
                "insert into grant_row \
                 (account_id, cycle, feature, plan, units, granted_by, at_ms) \
                 values (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
                 on conflict (account_id, cycle, feature, plan) do nothing",
                params![
                    account_id.as_str(),
                    cycle.as_str(),
                    feature.as_str(),
                    plan.as_str(),
                    *units,
                    by.name(),
                    at
                ],
            )
        })
        .collect()
}

/// The balance of an account in a cycle: for each thing granted, the largest grant.
pub async fn balance(
    db: &dyn Db,
    account_id: &AccountId,
    cycle: &CycleName,
) -> Result<BTreeMap<String, Units>, Fault> {
    let rows = db
        .query(Statement::new(
            "select feature, max(units) as units from grant_row \
             where account_id = ?1 and cycle = ?2 group by feature",
            params![account_id.as_str(), cycle.as_str()],
        ))
        .await?;
    rows.iter()
        .map(|row| Ok((row.text("feature")?.to_owned(), row.units("units")?)))
        .collect()
}

/// The balances of many accounts, each in its own cycle, in one statement.
pub async fn balances(
    db: &dyn Db,
    accounts: &[(&AccountId, &CycleName)],
) -> Result<BTreeMap<String, BTreeMap<String, Units>>, Fault> {
    let pairs: Vec<[&str; 2]> = accounts
        .iter()
        .map(|(account_id, cycle)| [account_id.as_str(), cycle.as_str()])
        .collect();
    let rows = db
        .query(Statement::new(
            "select g.account_id as account_id, g.feature as feature, max(g.units) as units \
             from json_each(?1) j join grant_row g on g.account_id = json_extract(j.value, '$[0]') \
             and g.cycle = json_extract(j.value, '$[1]') group by g.account_id, g.feature",
            params![serde_json::json!(pairs).to_string()],
        ))
        .await?;
    let mut balances: BTreeMap<String, BTreeMap<String, Units>> = BTreeMap::new();
    for row in &rows {
        balances
            .entry(row.text("account_id")?.to_owned())
            .or_default()
            .insert(row.text("feature")?.to_owned(), row.units("units")?);
    }
    Ok(balances)
}
