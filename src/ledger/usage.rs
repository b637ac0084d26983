//! Plain usage: any counted feature, keyed by the caller, straight into the ledger database.
//!
//! All items of a request are recorded or none is, in one batch of `ledger::batch`. What that
//! batch found before it wrote says which were new, so that "new", "again" and "conflict" are
//! exact however late a repeat comes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::batch;
use super::cycles::cycle_for;
use super::entries::{self, Recorded};
use super::entry::{Entry, EntryKind, EntryWire, usage_id};
use super::rules::{self, TimeRefused};
use super::totals;
use crate::accounts::Account;
use crate::fault::Fault;
use crate::params;
use crate::ports::Statement;
use crate::units::{CallerKey, CycleName, EntryId, FeatureName, Millis, SAFE_MAX, Units};
use crate::world::World;

/// One fact that a caller reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Makes it the same fact when it comes again.
    pub key: CallerKey,
    /// Of what.
    pub feature: FeatureName,
    /// How much.
    pub units: Units,
    /// When; absent: now, and a repeat is the same fact at whatever time it comes.
    pub occurred_at: Option<Millis>,
}

/// Why usage is refused; nothing was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsageRefused {
    /// The key of this item stands for another fact.
    Conflict(CallerKey),
    /// The time of the item of this place.
    Time(usize, TimeRefused),
    /// The sum of a feature and cycle would pass 2^53 − 1.
    TooMuch,
}

/// What became of a request's items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All are in the ledger, in the order of the items; whether any of them is new.
    Recorded(Vec<Recorded>, bool),
    /// None was recorded.
    Refused(UsageRefused),
}

/// Records the items, all or none.
pub async fn record(
    world: &World,
    account: &Account,
    items: &[Item],
    now: Millis,
) -> Result<Outcome, Fault> {
    if let Some(refused) = refused_time(world, account, items, now).await? {
        return Ok(Outcome::Refused(refused));
    }
    let mut facts: BTreeMap<EntryId, &Item> = BTreeMap::new();
    for item in items {
        let id = usage_id(&account.account_id, &item.key);
        match facts.insert(id, item) {
            Some(other) if other != item => {
                return Ok(Outcome::Refused(UsageRefused::Conflict(item.key.clone())));
            }
            _ => {}
        }
    }
    if !account.anchor_fixed && is_too_much(account, &facts, now) {
        return Ok(Outcome::Refused(UsageRefused::TooMuch));
    }
    let mut wires = Vec::new();
    for (id, item) in &facts {
        wires.push(wire_of(world, account, id, item, now).await?);
    }
    let ids: Vec<&str> = facts.keys().map(EntryId::as_str).collect();
    let ids_json = json!(ids).to_string();
    let rows_json = json!(wires).to_string();
    let mut all = vec![
        Statement::new(
            "select entry_id from entry where entry_id in (select value from json_each(?1))",
            params![ids_json.as_str()],
        ),
        batch::no_conflict(&rows_json),
        totals::none_beyond(&rows_json),
    ];
    all.extend(batch::statements(None, &rows_json, &[], now));
    all.push(entries::by_ids(&ids_json));
    match world.ledger.batch(all).await {
        Ok(results) => {
            let before = results.first().map_or(0, Vec::len);
            let rows = results.last().map(Vec::as_slice).unwrap_or_default();
            let stored = rows
                .iter()
                .map(Recorded::of_row)
                .collect::<Result<Vec<_>, _>>()?;
            in_order(account, items, &stored, before < facts.len())
        }
        Err(fault) => why_not(world, &rows_json, fault).await,
    }
}

/// Whether an account's first facts alone add up to too much: a refusal must not fix its anchor,
/// and while that is not fixed, nothing of the account is in the ledger yet.
fn is_too_much(account: &Account, facts: &BTreeMap<EntryId, &Item>, now: Millis) -> bool {
    let mut sums: BTreeMap<(&FeatureName, CycleName), i64> = BTreeMap::new();
    for item in facts.values() {
        let cycle = account.cycle_at(item.occurred_at.unwrap_or(now)).name;
        let sum = sums.entry((&item.feature, cycle)).or_default();
        *sum = sum.saturating_add(item.units.get());
    }
    sums.values().any(|sum| *sum > SAFE_MAX)
}

/// A time that is refused for a new fact is none for a repeat: what is stored stands.
async fn refused_time(
    world: &World,
    account: &Account,
    items: &[Item],
    now: Millis,
) -> Result<Option<UsageRefused>, Fault> {
    let mut refused = Vec::new();
    for (place, item) in items.iter().enumerate() {
        if let Some(at) = item.occurred_at
            && let Err(why) = rules::time_of_usage(account.cycle_at(at).ends_at, at, now)
        {
            refused.push((place, usage_id(&account.account_id, &item.key), why));
        }
    }
    if refused.is_empty() {
        return Ok(None);
    }
    let ids: Vec<&str> = refused.iter().map(|(_, id, _)| id.as_str()).collect();
    let found = world
        .ledger
        .query(entries::by_ids(&json!(ids).to_string()))
        .await?;
    let stored: BTreeSet<&str> = found
        .iter()
        .filter_map(|row| row.text("entry_id").ok())
        .collect();
    let first = refused
        .iter()
        .find(|(_, id, _)| !stored.contains(id.as_str()));
    Ok(first.map(|(place, _, why)| UsageRefused::Time(*place, *why)))
}

async fn wire_of(
    world: &World,
    account: &Account,
    id: &EntryId,
    item: &Item,
    now: Millis,
) -> Result<EntryWire, Fault> {
    let at = item.occurred_at.unwrap_or(now);
    let cycle = cycle_for(world, &account.account_id, at).await?;
    let owner = (account.account_id.clone(), item.feature.clone(), cycle.name);
    let mut entry = Entry::new(id.clone(), EntryKind::Usage, owner, item.units.into(), at);
    entry.key = Some(item.key.clone());
    let mut wire = entry.wire();
    wire.undated = item.occurred_at.is_none().then_some(1);
    Ok(wire)
}

fn in_order(
    account: &Account,
    items: &[Item],
    stored: &[Recorded],
    is_new: bool,
) -> Result<Outcome, Fault> {
    let by_id: BTreeMap<&EntryId, &Recorded> = stored
        .iter()
        .map(|one| (&one.entry.entry_id, one))
        .collect();
    let mut ordered = Vec::new();
    for item in items {
        let id = usage_id(&account.account_id, &item.key);
        let found = by_id.get(&id).copied().cloned();
        ordered.push(found.ok_or_else(|| Fault::unreadable("read usage back", "it is not there"))?);
    }
    Ok(Outcome::Recorded(ordered, is_new))
}

/// Reads in the ledger why the batch failed; where it holds nothing against it, it was the world.
async fn why_not(world: &World, rows_json: &str, fault: Fault) -> Result<Outcome, Fault> {
    let conflicts = world.ledger.query(batch::conflicting(rows_json)).await?;
    if let Some(row) = conflicts.first() {
        let key = row.id("key", CallerKey::new)?;
        return Ok(Outcome::Refused(UsageRefused::Conflict(key)));
    }
    let beyond = totals::beyond(rows_json);
    if !world.ledger.query(beyond).await?.is_empty() {
        return Ok(Outcome::Refused(UsageRefused::TooMuch));
    }
    Err(fault)
}
