//! Sums: a counter must be the sum of its entries, and what that sum is.

use serde_json::{Value as Json, json};

use super::meter_store::{CURRENT_METER, METER_COLUMNS, Meter, Pair};
use crate::fault::Fault;
use crate::params;
use crate::ports::{Db, Row, Statement};
use crate::units::{AccountId, Delta, Millis, SAFE_MAX};

/// A pair with its entries, its counter and its current meter, all of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// What it is about.
    pub pair: Pair,
    /// The sum of every entry.
    pub ledger: Delta,
    /// The counter.
    pub counters: Delta,
    /// The counter's version; 0 where there is no counter.
    pub version: i64,
    /// Whether entries were exported and dropped: nothing can be proven or rebuilt.
    pub is_archived: bool,
    /// What a person left as it is of a closed cycle.
    pub left_as_is: Delta,
    /// The current meter.
    pub meter: Option<Meter>,
}

impl Sum {
    fn of_row(row: &Row) -> Result<Self, Fault> {
        Ok(Self {
            pair: Pair::of_row(row)?,
            ledger: row.delta("entries")?,
            counters: row.delta("total")?,
            version: row.int("version")?,
            is_archived: row.int("archived")? != 0,
            left_as_is: row.delta("left_as_is")?,
            meter: Meter::of_row(row)?,
        })
    }
}

/// A sum of units as it is read: at most 2^53 − 1 either way, the most that an amount may be.
/// What is stored is the exact sum, so that corrections bring it back; one account whose clicks
/// take it further is never in the way of another's.
pub fn within(sum: &str) -> String {
    format!("min(max({sum}, -{SAFE_MAX}), {SAFE_MAX})")
}

const BEYOND: &str = "select null as beyond from (\
    select value ->> 'account' as account_id, value ->> 'feature' as feature, \
    value ->> 'cycle' as cycle, sum(value ->> 'units') as units from json_each(?1) \
    where not exists (select 1 from entry e where e.entry_id = value ->> 'id') \
    group by 1, 2, 3) s left join counter c on c.account_id = s.account_id \
    and c.feature = s.feature and c.cycle = s.cycle \
    where abs(coalesce(c.total, 0) + s.units) > cast(?2 as integer)";

/// A row for each counter that these entries would take further than an amount may be. Who may
/// still say no asks; what an object accepted is kept all the same, see [`within`].
pub fn beyond(rows_json: &str) -> Statement {
    Statement::new(BEYOND, params![rows_json, SAFE_MAX])
}

/// Fails the batch where there is one.
pub fn none_beyond(rows_json: &str) -> Statement {
    let guard = format!("insert into guard (held) {BEYOND}");
    Statement::new(guard, params![rows_json, SAFE_MAX])
}

/// Every entry of these pairs, and of each pair of these accounts that was not looked at since
/// its version moved, summed in one statement together with its counter.
pub async fn sums(
    ledger: &dyn Db,
    pairs: &[Pair],
    accounts: &[AccountId],
) -> Result<Vec<Sum>, Fault> {
    let pairs: Vec<Json> = pairs
        .iter()
        .map(|pair| {
            json!({
                "a": pair.account_id.as_str(),
                "f": pair.feature.as_str(),
                "c": pair.cycle.as_str(),
            })
        })
        .collect();
    let accounts: Vec<&str> = accounts.iter().map(AccountId::as_str).collect();
    let total = within("coalesce(c.total, 0)");
    let entries = within(
        "coalesce((select sum(e.units) from entry e where e.account_id = p.account_id \
         and e.feature = p.feature and e.cycle = p.cycle), 0)",
    );
    let sql = format!(
        "with p as (select value ->> 'a' as account_id, value ->> 'f' as feature, \
           value ->> 'c' as cycle from json_each(?1) \
         union select o.account_id, o.feature, o.cycle from counter o \
           where o.account_id in (select value from json_each(?2)) and o.version <> o.looked) \
         select p.account_id, p.feature, p.cycle, {total} as total, \
         coalesce(c.version, 0) as version, coalesce(c.archived, 0) as archived, \
         coalesce(c.left_as_is, 0) as left_as_is, \
         {entries} as entries, {METER_COLUMNS} \
         from p left join counter c on c.account_id = p.account_id \
         and c.feature = p.feature and c.cycle = p.cycle {CURRENT_METER} \
         order by p.account_id, p.feature, p.cycle"
    );
    let params = params![json!(pairs).to_string(), json!(accounts).to_string()];
    let rows = ledger.query(Statement::new(sql, params)).await?;
    rows.iter().map(Sum::of_row).collect()
}

/// Makes the counter what its entries say, with the sum inside; its version grows. Nothing
/// happens where it is already so, or where entries were dropped.
pub fn rebuild(pair: &Pair, now: Millis) -> Statement {
    Statement::new(
        "insert into counter (account_id, feature, cycle, total, version, changed_at_ms) \
         select ?1, ?2, ?3, coalesce(sum(units), 0), 1, cast(?4 as integer) from entry \
         where account_id = ?1 and feature = ?2 and cycle = ?3 \
         on conflict (account_id, feature, cycle) do update set total = excluded.total, \
         version = version + 1, changed_at_ms = excluded.changed_at_ms \
         where total <> excluded.total and archived = 0",
        params![
            pair.account_id.as_str(),
            pair.feature.as_str(),
            pair.cycle.as_str(),
            now
        ],
    )
}

/// The cycle's total, as the counter has it.
pub async fn ledger_total(ledger: &dyn Db, pair: &Pair) -> Result<Delta, Fault> {
    let sql = format!(
        "select {} as total from counter where account_id = ?1 and feature = ?2 and cycle = ?3",
        within("total")
    );
    let params = params![
        pair.account_id.as_str(),
        pair.feature.as_str(),
        pair.cycle.as_str()
    ];
    let rows = ledger.query(Statement::new(sql, params)).await?;
    rows.first()
        .map_or(Ok(Delta::ZERO), |row| row.delta("total"))
}
