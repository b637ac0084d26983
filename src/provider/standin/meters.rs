//! The stand-in's meters: one total for each agreement, feature and period.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::customers::{self, Agreement, Customer};
use crate::fault::Fault;
use crate::moment;
use crate::object::Object;
use crate::params;
use crate::ports::Sql;
use crate::units::{Millis, SAFE_MAX};

/// So long after its answer was given up a late write takes effect.
const LATE_MS: i64 = 5_000;
/// The name of what the object owes for late writes.
const LATE: &str = "late_write";

/// Whether a write sets the total or adds to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It sets the total.
    Absolute,
    /// It adds to the total, each time again.
    Delta,
}

/// A write that was read and is well formed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Write {
    pub agreement_id: String,
    pub feature: String,
    pub value: i64,
    pub kind: Kind,
    pub at_ms: i64,
}

/// Why a write is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteRefused {
    /// There is no such agreement.
    UnknownAgreement,
    /// It has ended.
    ExpiredAgreement,
    /// The agreement does not contain the feature.
    NotInAgreement,
    /// The total would leave the range of exact numbers.
    TooLarge,
}

impl WriteRefused {
    /// Kinde's code and a sentence.
    pub const fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::UnknownAgreement => ("AGREEMENT_NOT_FOUND", "There is no such agreement."),
            Self::ExpiredAgreement => ("AGREEMENT_EXPIRED", "The agreement has ended."),
            Self::NotInAgreement => ("FEATURE_NOT_FOUND", "The agreement does not contain it."),
            Self::TooLarge => ("METER_VALUE_INVALID", "The total is too large."),
        }
    }
}

/// An agreement with its customer in the period that now runs.
pub fn find(
    object: &Object,
    agreement_id: &str,
    now: Millis,
) -> Result<Option<(Agreement, Customer)>, Fault> {
    let Some(agreement) = customers::agreement(&*object.sql, agreement_id)? else {
        return Ok(None);
    };
    let customer = customers::current(object, &agreement.customer_id, now)?;
    Ok(Some((agreement, customer)))
}

/// Books a write to the period that now runs, whenever it says that the usage was. Usage before
/// that period becomes a record of the older one and does not move the live total.
pub fn write(
    object: &Object,
    write: &Write,
    now: Millis,
) -> Result<Result<(), WriteRefused>, Fault> {
    let Some((agreement, customer)) = find(object, &write.agreement_id, now)? else {
        return Ok(Err(WriteRefused::UnknownAgreement));
    };
    if agreement.expires_at.is_some_and(|at| at <= now) {
        return Ok(Err(WriteRefused::ExpiredAgreement));
    }
    if !agreement.features(&customer).contains_key(&write.feature) {
        return Ok(Err(WriteRefused::NotInAgreement));
    }
    let (start, _) = agreement.period(&customer);
    let at = Millis::new(write.at_ms);
    // An older record is filed under its own time, where no period looks for it.
    let period = if at < start { at } else { start };
    let before = match write.kind {
        Kind::Absolute => 0,
        Kind::Delta => total(&*object.sql, &write.agreement_id, &write.feature, period)?
            .map_or(0, |(total, _)| total),
    };
    let Some(total) = before.checked_add(write.value).filter(|n| *n <= SAFE_MAX) else {
        return Ok(Err(WriteRefused::TooLarge));
    };
    set(&*object.sql, write, period, total)?;
    Ok(Ok(()))
}

fn set(sql: &dyn Sql, write: &Write, period: Millis, total: i64) -> Result<(), Fault> {
    sql.query(
        "insert into meter (agreement_id, feature, period_start_ms, total, at_ms) \
         values (?1, ?2, ?3, ?4, ?5) \
         on conflict (agreement_id, feature, period_start_ms) \
         do update set total = excluded.total, at_ms = excluded.at_ms",
        &params![
            write.agreement_id.as_str(),
            write.feature.as_str(),
            period,
            total,
            write.at_ms
        ],
    )?;
    Ok(())
}

/// The total in a period and the time of its last write; `None` where nothing was written.
pub fn total(
    sql: &dyn Sql,
    agreement_id: &str,
    feature: &str,
    period_start: Millis,
) -> Result<Option<(i64, Millis)>, Fault> {
    let rows = sql.query(
        "select total, at_ms from meter \
         where agreement_id = ?1 and feature = ?2 and period_start_ms = ?3",
        &params![agreement_id, feature, period_start],
    )?;
    rows.first()
        .map(|row| Ok((row.int("total")?, row.millis("at_ms")?)))
        .transpose()
}

/// Every total of the meter, newest period first.
pub fn totals(
    sql: &dyn Sql,
    agreement_id: &str,
    feature: &str,
) -> Result<Vec<(i64, Millis)>, Fault> {
    let rows = sql.query(
        "select total, at_ms from meter where agreement_id = ?1 and feature = ?2 \
         order by period_start_ms desc",
        &params![agreement_id, feature],
    )?;
    rows.iter()
        .map(|row| Ok((row.int("total")?, row.millis("at_ms")?)))
        .collect()
}

/// A meter for the control route; `None` where there is no such agreement.
pub fn describe(
    object: &Object,
    agreement_id: &str,
    feature: &str,
    now: Millis,
) -> Result<Option<Value>, Fault> {
    let Some((agreement, customer)) = find(object, agreement_id, now)? else {
        return Ok(None);
    };
    let (start, end) = agreement.period(&customer);
    let found = total(&*object.sql, agreement_id, feature, start)?;
    Ok(Some(json!({
        "agreement_id": agreement_id,
        "feature": feature,
        "total": found.map_or(0, |(total, _)| total),
        "written_at": found.map(|(_, at)| moment::format(at)),
        "period_start": moment::format(start),
        "period_end": moment::format(end),
    })))
}

/// Moves a meter, whatever the rules of a write; gives whether there is such an agreement.
pub fn move_to(
    object: &Object,
    agreement_id: &str,
    feature: &str,
    total: i64,
    now: Millis,
) -> Result<bool, Fault> {
    let Some((agreement, customer)) = find(object, agreement_id, now)? else {
        return Ok(false);
    };
    let (start, _) = agreement.period(&customer);
    let write = Write {
        agreement_id: agreement_id.to_owned(),
        feature: feature.to_owned(),
        value: total,
        kind: Kind::Absolute,
        at_ms: now.get(),
    };
    set(&*object.sql, &write, start, total)?;
    Ok(true)
}

/// Keeps a write that takes effect later.
pub fn postpone(object: &Object, write: &Write, now: Millis) -> Result<(), Fault> {
    object.sql.query(
        "insert into late_write (apply_at_ms, write) values (?1, ?2)",
        &params![now.after(LATE_MS), json!(write).to_string()],
    )?;
    owe(object)
}

/// Lets every late write whose time has come take effect. First in every call, so that no answer
/// depends on when the alarm comes.
pub fn apply_due(object: &Object, now: Millis) -> Result<(), Fault> {
    let rows = object.sql.query(
        "select number, write from late_write where apply_at_ms <= ?1 order by number",
        &params![now],
    )?;
    for row in &rows {
        let late: Write = serde_json::from_str(row.text("write")?)
            .map_err(|error| Fault::unreadable("read a late write", error))?;
        // What is refused by now has no effect, and nobody waits to be told.
        if let Err(refused) = write(object, &late, now)? {
            let why = json!({"refused": refused.told().0});
            object.world.log.line("info", "standin.late_write", why);
        }
        object.sql.query(
            "delete from late_write where number = ?1",
            &params![row.int("number")?],
        )?;
    }
    if rows.is_empty() {
        return Ok(());
    }
    owe(object)
}

fn owe(object: &Object) -> Result<(), Fault> {
    let rows = object
        .sql
        .query("select min(apply_at_ms) as at_ms from late_write", &[])?;
    let at = rows
        .first()
        .map_or(Ok(None), |row| row.opt_millis("at_ms"))?;
    object.owe(LATE, at)
}
