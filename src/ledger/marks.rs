//! Marks: which pairs their meters do not know of yet.
//!
//! `counter.told` is the version that the pair's current meter has confirmed; `version > told` is
//! the mark. It moves together with the meter's `reported`, and falls where another agreement
//! makes another meter the current one, so the mark is never deleted and re-made.

use serde_json::{Value as Json, json};

use super::base_rules::is_other_meter;
use super::meter_store::{CURRENT_METER, METER_COLUMNS, Meter, Pair};
use crate::fault::Fault;
use crate::params;
use crate::ports::{Db, Row, Statement};
use crate::units::{AccountId, Millis};

/// A cycle that ends within this is told first.
const SOON_MS: i64 = 3_600_000;

/// A marked pair, as a reporter takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What it is about.
    pub pair: Pair,
    /// The cycle's current meter.
    pub meter: Option<Meter>,
}

/// The next page: marked pairs of cycles that are not over, which this run has not tried and
/// nothing holds back; those whose cycle ends soon first, then longest untried.
pub async fn page(
    ledger: &dyn Db,
    only: Option<&AccountId>,
    run: i64,
    now: Millis,
    rows: i64,
) -> Result<Vec<Mark>, Fault> {
    let sql = format!(
        "select p.account_id, p.feature, p.cycle, {METER_COLUMNS} from counter p \
         {CURRENT_METER} where p.version > p.told and p.tried_run < ?1 \
         and p.wait_until_ms <= ?2 and p.ends_at_ms > ?2 and m.review_id is null \
         and (?5 is null or p.account_id = ?5) \
         order by p.ends_at_ms > ?3, p.tried_at_ms, p.ends_at_ms, \
         p.account_id, p.feature, p.cycle limit cast(?4 as integer)"
    );
    let only = only.map(AccountId::as_str);
    let params = params![run, now, now.after(SOON_MS), rows, only];
    let found = ledger.query(Statement::new(sql, params)).await?;
    found
        .iter()
        .map(|row| {
            Ok(Mark {
                pair: Pair::of_row(row)?,
                meter: Meter::of_row(row)?,
            })
        })
        .collect()
}

/// Pairs whose cycle's end nobody has asked for yet: marked ones, and those that have entries, also
/// where these were taken back at once and nothing is marked.
pub async fn without_end(ledger: &dyn Db, rows: i64) -> Result<Vec<Pair>, Fault> {
    let sql = "select account_id, feature, cycle from counter \
        where version > told and ends_at_ms is null \
        union select account_id, feature, cycle from counter \
        where changed_at_ms > 0 and ends_at_ms is null limit cast(?1 as integer)";
    let found = ledger.query(Statement::new(sql, params![rows])).await?;
    found.iter().map(Pair::of_row).collect()
}

/// What is stored of a pair while it is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Which.
    pub pair: Pair,
    /// A moment; what it means is said by who stores it.
    pub at: Millis,
}

fn notes_json(notes: &[Note]) -> String {
    let rows: Vec<Json> = notes
        .iter()
        .map(|note| {
            json!({
                "a": note.pair.account_id.as_str(),
                "f": note.pair.feature.as_str(),
                "c": note.pair.cycle.as_str(),
                "at": note.at.get(),
            })
        })
        .collect();
    json!(rows).to_string()
}

/// Updates counters from a JSON list of pairs with a moment `j.at_ms`.
fn update(set: &str, notes: &[Note], mut more: Vec<crate::ports::Value>) -> Statement {
    let sql = format!(
        "update counter set {set} from (select value ->> 'a' as account_id, \
         value ->> 'f' as feature, value ->> 'c' as cycle, value ->> 'at' as at_ms \
         from json_each(?1)) j where counter.account_id = j.account_id \
         and counter.feature = j.feature and counter.cycle = j.cycle"
    );
    let mut all = params![notes_json(notes)];
    all.append(&mut more);
    Statement::new(sql, all)
}

/// When these pairs' cycles end.
pub fn set_ends(notes: &[Note]) -> Statement {
    update("ends_at_ms = j.at_ms", notes, vec![])
}

/// That this run has tried these pairs; none of them is tried again before its moment.
pub fn set_tried(notes: &[Note], run: i64, now: Millis) -> Statement {
    let set = "tried_run = ?2, tried_at_ms = ?3, wait_until_ms = j.at_ms";
    update(set, notes, params![run, now])
}

/// That these pairs' current meters know nothing: another agreement has come.
fn forget_told(notes: &[Note]) -> Statement {
    update("told = -1, wait_until_ms = 0", notes, vec![])
}

/// An account's agreement as it now stands, to be compared with its meters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Whose.
    pub account_id: AccountId,
    /// The current agreement.
    pub agreement_id: String,
    /// The start of its period.
    pub period_start: Option<Millis>,
}

/// Marks the open cycles of these accounts whose current meter is another agreement's, also those
/// whose end nobody has asked for yet, and lets what waited for an agreement be tried.
pub async fn mark_replaced(ledger: &dyn Db, agreed: &[Agreed], now: Millis) -> Result<(), Fault> {
    if agreed.is_empty() {
        return Ok(());
    }
    let ids: Vec<&str> = agreed.iter().map(|one| one.account_id.as_str()).collect();
    let ids = json!(ids).to_string();
    let wake = Statement::new(
        "update counter set wait_until_ms = 0 where wait_until_ms > ?2 and version > told \
         and account_id in (select value from json_each(?1))",
        params![ids.as_str(), now],
    );
    let sql = format!(
        "select p.account_id, p.feature, p.cycle, {METER_COLUMNS} from counter p \
         {CURRENT_METER} where p.account_id in (select value from json_each(?1)) \
         and coalesce(p.ends_at_ms > ?2, 1) and m.number is not null and p.told >= 0"
    );
    let read = Statement::new(sql, params![ids.as_str(), now]);
    let results = ledger.batch(vec![wake, read]).await?;
    let rows = results.last().map(Vec::as_slice).unwrap_or_default();
    let replaced = replaced(rows, agreed)?;
    if !replaced.is_empty() {
        ledger.query(forget_told(&replaced)).await?;
    }
    Ok(())
}

fn replaced(rows: &[Row], agreed: &[Agreed]) -> Result<Vec<Note>, Fault> {
    let mut notes = Vec::new();
    for row in rows {
        let pair = Pair::of_row(row)?;
        let now = agreed.iter().find(|one| one.account_id == pair.account_id);
        let (Some(meter), Some(now)) = (Meter::of_row(row)?, now) else {
            continue;
        };
        if is_other_meter(
            meter.identity(),
            (now.agreement_id.as_str(), now.period_start),
        ) {
            let at = Millis::ZERO;
            notes.push(Note { pair, at });
        }
    }
    Ok(notes)
}

/// For `/metrics`: how many pairs are marked, without those of the accounts in the JSON list
/// `hidden`.
pub async fn gauges(
    ledger: &dyn Db,
    hidden: &str,
    now: Millis,
) -> Result<Vec<(String, i64)>, Fault> {
    let sql = "select count(*) as waiting from counter \
        where version > told and (ends_at_ms is null or ends_at_ms > ?1) \
        and account_id not in (select value from json_each(?2))";
    let rows = ledger
        .query(Statement::new(sql, params![now, hidden]))
        .await?;
    let Some(row) = rows.first() else {
        return Ok(Vec::new());
    };
    Ok(vec![(
        "counterfoil_marks_waiting".to_owned(),
        row.int("waiting")?,
    )])
}
