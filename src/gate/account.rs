//! What the object knows of its account, and the provider's last answer about its limits: two
//! rows, read at the beginning of a call and written at its end.

use std::collections::BTreeMap;

use super::wire::{About, AnchorWire};
use crate::cycle::{Anchor, Cycle};
use crate::fault::Fault;
use crate::object::Object;
use crate::params;
use crate::ports::Row;
use crate::units::{AccountId, CustomerId, CycleName, Millis};

/// What the object knows of its account; one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRow {
    pub account_id: AccountId,
    pub customer_id: Option<CustomerId>,
    pub anchors: Vec<Anchor>,
    /// The current cycle; it never goes back.
    pub cycle: Option<Cycle>,
    /// The cycle whose row DB is known to have.
    pub cycle_stored: String,
    pub last_now: Millis,
    pub jobs_per_minute: Option<i64>,
    pub demo: bool,
    pub minute: i64,
    pub minute_jobs: i64,
    /// Counts for `/metrics` that no batch has taken along yet.
    pub tallies: BTreeMap<String, i64>,
}

/// The provider's last answer about limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitsRow {
    pub rings: i64,
    pub read_at: Option<Millis>,
    pub failed_at: Option<Millis>,
    /// The provider's feature key → its limit, absent where there is no maximum.
    pub answer: BTreeMap<String, Option<i64>>,
}

/// The row of an account that was not heard of before.
pub fn new_account(about: &About) -> Result<AccountRow, Fault> {
    Ok(AccountRow {
        account_id: about
            .account_id()
            .ok_or_else(|| Fault::unreadable("read a message to an account", "its id"))?,
        customer_id: None,
        anchors: Vec::new(),
        cycle: None,
        cycle_stored: String::new(),
        last_now: Millis::new(i64::MIN),
        jobs_per_minute: None,
        demo: false,
        minute: 0,
        minute_jobs: 0,
        tallies: BTreeMap::new(),
    })
}

/// Takes over what is new; says whether anything was. Anchors are only ever added to, and are
/// kept only once the first is fixed.
pub fn learn(account: &mut AccountRow, about: &About) -> bool {
    let before = account.clone();
    if let Some(customer_id) = about.customer_id.clone().and_then(CustomerId::new) {
        account.customer_id = Some(customer_id);
    }
    account.jobs_per_minute = about.jobs_per_minute;
    account.demo = about.demo;
    if about.anchors_fixed && about.anchors.len() > account.anchors.len() {
        account.anchors = about.anchors.iter().map(|a| a.anchor()).collect();
    }
    *account != before
}

/// Both rows as they are stored.
pub fn load(object: &Object) -> Result<(Option<AccountRow>, LimitsRow), Fault> {
    let rows = object.sql.query(
        "select a.account_id, a.customer_id, a.anchors, a.cycle, a.cycle_starts_ms, \
         a.cycle_ends_ms, a.cycle_stored, a.last_now_ms, a.jobs_per_minute, a.demo, a.minute, \
         a.minute_jobs, a.tallies, l.rings, l.read_at_ms, l.failed_at_ms, l.answer \
         from (select 1 as one) o left join account a on a.one = o.one \
         left join limits l on l.one = o.one",
        &[],
    )?;
    let Some(row) = rows.first() else {
        return Ok((None, LimitsRow::default()));
    };
    let limits = LimitsRow {
        rings: row.opt_int("rings")?.unwrap_or(0),
        read_at: row.opt_millis("read_at_ms")?,
        failed_at: row.opt_millis("failed_at_ms")?,
        answer: match row.opt_text("answer")? {
            Some(text) => read_json(text)?,
            None => BTreeMap::new(),
        },
    };
    if row.opt_text("account_id")?.is_none() {
        return Ok((None, limits));
    }
    Ok((Some(account_of(row)?), limits))
}

fn account_of(row: &Row) -> Result<AccountRow, Fault> {
    let anchors: Vec<AnchorWire> = read_json(row.text("anchors")?)?;
    let cycle = match row.text("cycle")? {
        "" => None,
        _ => Some(Cycle {
            name: row.id("cycle", CycleName::new)?,
            starts_at: row.millis("cycle_starts_ms")?,
            ends_at: row.millis("cycle_ends_ms")?,
        }),
    };
    Ok(AccountRow {
        account_id: row.id("account_id", AccountId::new)?,
        customer_id: row.opt_text("customer_id")?.and_then(CustomerId::new),
        anchors: anchors.into_iter().map(AnchorWire::anchor).collect(),
        cycle,
        cycle_stored: row.text("cycle_stored")?.to_owned(),
        last_now: row.millis("last_now_ms")?,
        jobs_per_minute: row.opt_int("jobs_per_minute")?,
        demo: row.int("demo")? != 0,
        minute: row.int("minute")?,
        minute_jobs: row.int("minute_jobs")?,
        tallies: read_json(row.text("tallies")?)?,
    })
}

/// Writes the account's row. A cycle computed from an anchor that may still change is not kept.
pub fn save(
    object: &Object,
    account: &AccountRow,
    now: Millis,
    cycle: &Cycle,
) -> Result<(), Fault> {
    let cycle = (!account.anchors.is_empty()).then_some(cycle);
    let anchors: Vec<AnchorWire> = account.anchors.iter().map(AnchorWire::of).collect();
    object.sql.query(
        "insert into account (one, account_id, customer_id, anchors, cycle, cycle_starts_ms, \
         cycle_ends_ms, cycle_stored, last_now_ms, jobs_per_minute, demo, minute, minute_jobs, \
         tallies) values (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) \
         on conflict (one) do update set customer_id = excluded.customer_id, \
         anchors = excluded.anchors, cycle = excluded.cycle, \
         cycle_starts_ms = excluded.cycle_starts_ms, cycle_ends_ms = excluded.cycle_ends_ms, \
         cycle_stored = excluded.cycle_stored, last_now_ms = excluded.last_now_ms, \
         jobs_per_minute = excluded.jobs_per_minute, demo = excluded.demo, \
         minute = excluded.minute, minute_jobs = excluded.minute_jobs, \
         tallies = excluded.tallies",
        &params![
            account.account_id.as_str(),
            account.customer_id.as_ref().map(CustomerId::as_str),
            write_json(&anchors)?,
            cycle.map_or("", |cycle| cycle.name.as_str()),
            cycle.map_or(Millis::ZERO, |cycle| cycle.starts_at),
            cycle.map_or(Millis::ZERO, |cycle| cycle.ends_at),
            account.cycle_stored.as_str(),
            now,
            account.jobs_per_minute,
            account.demo,
            account.minute,
            account.minute_jobs,
            write_json(&account.tallies)?,
        ],
    )?;
    Ok(())
}

/// Reads a stored JSON text.
pub fn read_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|e| Fault::unreadable("read stored JSON", e))
}

/// Writes JSON to be stored.
pub fn write_json<T: serde::Serialize>(value: &T) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|e| Fault::unreadable("write JSON to be stored", e))
}
