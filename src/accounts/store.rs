//! Accounts, anchors and cycles in DB.

use super::Account;
use crate::cycle::{Anchor, Cycle};
use crate::fault::Fault;
use crate::params;
use crate::ports::{Db, Row, Statement};
use crate::units::{AccountId, AgreementId, CustomerId, Millis, PlanCode};

const LOAD: &str = "select a.account_id, a.name, a.customer_id, a.ledger, a.jobs_per_minute, \
    a.plan, a.plan_since_ms, a.payment, a.agreement_id, a.demo, \
    n.number, n.at_ms, n.day, n.opens_ms, n.source, n.fixed_at_ms \
    from account a join anchor n on n.account_id = a.account_id";

/// The account of that id.
pub async fn load(db: &dyn Db, account_id: &AccountId) -> Result<Option<Account>, Fault> {
    let sql = format!("{LOAD} where a.account_id = ?1 order by n.number");
    let rows = db
        .query(Statement::new(sql, params![account_id.as_str()]))
        .await?;
    of_rows(&rows)
}

/// The account of that customer at the provider.
pub async fn load_by_customer(
    db: &dyn Db,
    customer_id: &CustomerId,
) -> Result<Option<Account>, Fault> {
    let sql = format!("{LOAD} where a.customer_id = ?1 order by n.number");
    let rows = db
        .query(Statement::new(sql, params![customer_id.as_str()]))
        .await?;
    of_rows(&rows)
}

/// The rows of one account, one for each of its anchors in order.
fn of_rows(rows: &[Row]) -> Result<Option<Account>, Fault> {
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let customer_id = row.opt_text("customer_id")?.map(str::to_owned);
    let agreement_id = row.opt_text("agreement_id")?.map(str::to_owned);
    Ok(Some(Account {
        account_id: row.id("account_id", AccountId::new)?,
        name: row.opt_text("name")?.map(str::to_owned),
        customer_id: customer_id.and_then(CustomerId::new),
        ledger: row.text("ledger")?.to_owned(),
        jobs_per_minute: row.opt_int("jobs_per_minute")?,
        plan: row.id("plan", PlanCode::new)?,
        plan_since: row.opt_millis("plan_since_ms")?,
        payment: row.text("payment")?.to_owned(),
        agreement_id: agreement_id.and_then(AgreementId::new),
        demo: row.int("demo")? != 0,
        anchors: rows.iter().map(anchor_of).collect::<Result<_, _>>()?,
        anchor_source: row.text("source")?.to_owned(),
        anchor_fixed: row.opt_millis("fixed_at_ms")?.is_some(),
    }))
}

/// The anchor in a row with `at_ms`, `day` and `opens_ms`.
pub fn anchor_of(row: &Row) -> Result<Anchor, Fault> {
    let day = u8::try_from(row.int("day")?)
        .map_err(|_| Fault::unreadable("read an anchor", "its day is not 1 to 31"))?;
    Ok(Anchor {
        at: row.millis("at_ms")?,
        day,
        opens: row.opt_millis("opens_ms")?,
    })
}

/// Fixes the account's first anchor, once, and gives all its anchors as they now stand.
pub async fn fix_anchor(
    db: &dyn Db,
    account_id: &AccountId,
    now: Millis,
) -> Result<Vec<Anchor>, Fault> {
    let fix = Statement::new(
        "update anchor set fixed_at_ms = ?2 \
         where account_id = ?1 and number = 1 and fixed_at_ms is null",
        params![account_id.as_str(), now],
    );
    let read = Statement::new(
        "select at_ms, day, opens_ms from anchor where account_id = ?1 order by number",
        params![account_id.as_str()],
    );
    let results = db.batch(vec![fix, read]).await?;
    results
        .last()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .map(anchor_of)
        .collect()
}

/// Stores the cycle's row; the first one of a name stays, its end may move.
pub fn cycle_row(account_id: &AccountId, cycle: &Cycle) -> Statement {
    Statement::new(
        "insert into cycle (account_id, name, starts_at_ms, ends_at_ms) values (?1, ?2, ?3, ?4) \
         on conflict (account_id, name) do update set ends_at_ms = excluded.ends_at_ms",
        params![
            account_id.as_str(),
            cycle.name.as_str(),
            cycle.starts_at,
            cycle.ends_at
        ],
    )
}
