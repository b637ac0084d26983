//! The list of meters, with what the ledger says beside each.

use serde_json::{Value as Json, json};

use super::meter_rules::Outcome;
use super::meter_store::{METER_COLUMNS, Meter, Pair};
use super::totals::within;
use crate::fault::Fault;
use crate::moment;
use crate::params;
use crate::ports::{Db, Row as SqlRow, Statement};
use crate::units::{AccountId, Delta, Millis, SAFE_MAX};

/// One meter, or a pair that has none yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it is about.
    pub pair: Pair,
    /// The cycle's total.
    pub ledger: Delta,
    /// Whether it is still to be told of that total.
    pub is_marked: bool,
    /// Absent where the pair has none.
    pub meter: Option<Meter>,
}

/// A place in the list: account, feature, cycle, the meter's number.
pub type Place = (String, String, String, i64);

/// A place, from what [`Row::place`] gave.
pub fn read_place(text: &str) -> Option<Place> {
    let parts: Vec<&str> = text.split('/').collect();
    let [account, feature, cycle, number] = parts.as_slice() else {
        return None;
    };
    let number = number
        .parse()
        .ok()
        .filter(|number| (0..=SAFE_MAX).contains(number))?;
    let part = |text: &str| text.to_owned();
    Some((part(account), part(feature), part(cycle), number))
}

/// In the order of account, feature, cycle and meter, after the place `after`. Where no account is
/// asked for, those of the JSON list `hidden` are left out.
pub async fn list(
    ledger: &dyn Db,
    account: Option<&AccountId>,
    hidden: &str,
    after: Option<Place>,
    rows: i64,
    now: Millis,
) -> Result<Vec<Row>, Fault> {
    let (id, feature, cycle, number) = after.unwrap_or_default();
    let total = within("c.total");
    let sql = format!(
        "select c.account_id as account_id, c.feature as feature, c.cycle as cycle, \
         {total} as total, {METER_COLUMNS}, \
         (c.ends_at_ms is null or c.ends_at_ms > ?6) and c.version > coalesce(m.reported, 0) \
         and not exists (select 1 from meter l where l.account_id = m.account_id \
           and l.feature = m.feature and l.cycle = m.cycle and l.number > m.number) as is_marked \
         from counter c left join meter m on m.account_id = c.account_id \
         and m.feature = c.feature and m.cycle = c.cycle \
         where (?1 is null or c.account_id = ?1) \
         and (?1 is not null or c.account_id not in (select value from json_each(?8))) \
         and (c.account_id, c.feature, c.cycle, coalesce(m.number, 0)) \
           > (?2, ?3, ?4, cast(?5 as integer)) \
         order by c.account_id, c.feature, c.cycle, m.number limit cast(?7 as integer)"
    );
    let params = params![
        account.map(AccountId::as_str),
        id,
        feature,
        cycle,
        number,
        now,
        rows,
        hidden
    ];
    let rows = ledger.query(Statement::new(sql, params)).await?;
    rows.iter().map(of_row).collect()
}

fn of_row(row: &SqlRow) -> Result<Row, Fault> {
    Ok(Row {
        pair: Pair::of_row(row)?,
        ledger: row.delta("total")?,
        is_marked: row.int("is_marked")? != 0,
        meter: Meter::of_row(row)?,
    })
}

impl Row {
    /// Where it stands in the list.
    pub fn place(&self) -> String {
        let Pair {
            account_id,
            feature,
            cycle,
        } = &self.pair;
        let number = self.meter.as_ref().map_or(0, |meter| meter.number);
        format!("{account_id}/{feature}/{cycle}/{number}")
    }

    /// As it is answered.
    pub fn view(&self) -> Json {
        let meter = self.meter.as_ref();
        let last_report = meter.and_then(|meter| {
            let outcome = meter.last_outcome.map(Outcome::name)?;
            Some(json!({"at": meter.last_at.map(moment::format), "outcome": outcome}))
        });
        json!({
            "account": self.pair.account_id.as_str(),
            "feature": self.pair.feature.as_str(),
            "cycle": self.pair.cycle.as_str(),
            "agreement_id": meter.map(|meter| &meter.agreement_id),
            "ledger": self.ledger.get(),
            "base": meter.and_then(|meter| meter.base).map_or(0, Delta::get),
            "sent": meter.and_then(|meter| meter.sent).map(Delta::get),
            "provider": meter.and_then(|meter| meter.provider).map(Delta::get),
            "read_at": meter.and_then(|meter| meter.read_at).map(moment::format),
            "marked": self.is_marked,
            "last_report": last_report,
        })
    }
}
