//! Accounts, anchors and cycles in DB.

use serde_json::json;

use super::{Account, AnchorSource};
use crate::cycle::{Anchor, Cycle};
use crate::fault::Fault;
use crate::params;
use crate::ports::{Db, Row, Statement, Value};
use crate::units::{AccountId, AgreementId, CustomerId, Millis, PlanCode};
use crate::world::World;

const LOAD: &str = "select a.account_id, a.name, a.customer_id, a.ledger, a.jobs_per_minute, \
    a.plan, a.plan_since_ms, a.payment, a.agreement_id, a.demo, a.may_have_jobs, \
    n.number, n.at_ms, n.day, n.opens_ms, n.source, n.fixed_at_ms \
    from account a join anchor n on n.account_id = a.account_id";

/// The account of that id.
pub async fn load(db: &dyn Db, account_id: &AccountId) -> Result<Option<Account>, Fault> {
    of_rows(&db.query(of_id(account_id)).await?)
}

/// The account of that customer at the provider.
pub async fn load_by_customer(
    db: &dyn Db,
    customer_id: &CustomerId,
) -> Result<Option<Account>, Fault> {
    of_rows(&db.query(of_customer(customer_id)).await?)
}

/// The account of that id, for [`of_rows`].
pub fn of_id(account_id: &AccountId) -> Statement {
    let sql = format!("{LOAD} where a.account_id = ?1 order by n.number");
    Statement::new(sql, params![account_id.as_str()])
}

/// The account of that customer, for [`of_rows`].
pub fn of_customer(customer_id: &CustomerId) -> Statement {
    let sql = format!("{LOAD} where a.customer_id = ?1 order by n.number");
    Statement::new(sql, params![customer_id.as_str()])
}

/// Accounts in the order of their ids, without those of Lab and Engine Room.
pub async fn list(db: &dyn Db, after: &str, rows: i64) -> Result<Vec<Account>, Fault> {
    let which = "select account_id from account where account_id > ?1 and demo = 0 \
        order by account_id limit cast(?2 as integer)";
    each_of(&db.query(all_of(which, params![after, rows])).await?)
}

/// The accounts whose ids this query with its parameters gives, for [`each_of`].
pub fn all_of(which: &str, params: Vec<Value>) -> Statement {
    let sql = format!("{LOAD} where a.account_id in ({which}) order by a.account_id, n.number");
    Statement::new(sql, params)
}

/// The accounts in rows that are in the order of their ids and anchors.
pub fn each_of(rows: &[Row]) -> Result<Vec<Account>, Fault> {
    let mut accounts = Vec::new();
    for one in rows.chunk_by(|a, b| a.get("account_id") == b.get("account_id")) {
        accounts.extend(of_rows(one)?);
    }
    Ok(accounts)
}

/// Gauges for `/metrics`.
pub async fn gauges(db: &dyn Db) -> Result<Vec<(String, i64)>, Fault> {
    let sql = "select count(*) as accounts, coalesce(sum(payment = 'overdue'), 0) as overdue, \
        coalesce(sum(customer_id is null), 0) as unlinked from account where demo = 0";
    let rows = db.query(Statement::new(sql, vec![])).await?;
    let row = rows.first().cloned().unwrap_or_default();
    Ok(vec![
        ("counterfoil_accounts".to_owned(), row.int("accounts")?),
        (
            "counterfoil_accounts_overdue".to_owned(),
            row.int("overdue")?,
        ),
        (
            "counterfoil_accounts_without_customer".to_owned(),
            row.int("unlinked")?,
        ),
    ])
}

/// The ids of all accounts, demo ones too, in their order.
pub async fn ids_after(db: &dyn Db, after: &str, rows: i64) -> Result<Vec<AccountId>, Fault> {
    let sql = "select account_id from account where account_id > ?1 \
         order by account_id limit cast(?2 as integer)";
    let found = db.query(Statement::new(sql, params![after, rows])).await?;
    found
        .iter()
        .map(|row| row.id("account_id", AccountId::new))
        .collect()
}

/// The accounts of Lab and Engine Room as a JSON list, for lists and metrics of the ledger, which
/// leave them out. Only the stand-in has any.
pub async fn demo_ids(world: &World) -> Result<String, Fault> {
    if !world.settings.has_stand_in() {
        return Ok("[]".to_owned());
    }
    let sql = "select json_group_array(account_id) as ids from account where demo = 1";
    let rows = world.db.query(Statement::new(sql, vec![])).await?;
    let row = rows.first();
    row.map_or_else(
        || Ok("[]".to_owned()),
        |row| row.text("ids").map(str::to_owned),
    )
}

/// The normalised body that an account was made with.
pub async fn created_with(db: &dyn Db, account_id: &AccountId) -> Result<Option<String>, Fault> {
    let sql = "select created_with from account where account_id = ?1";
    let rows = db
        .query(Statement::new(sql, params![account_id.as_str()]))
        .await?;
    let text = |row: &Row| row.text("created_with").map(str::to_owned);
    rows.first().map(text).transpose()
}

/// A new account's row. Its anchor's row belongs into the same batch.
pub fn insert(account: &Account, created_with: &str, now: Millis) -> Statement {
    Statement::new(
        "insert into account (account_id, name, customer_id, ledger, jobs_per_minute, plan, \
         plan_since_ms, payment, agreement_id, demo, may_have_jobs, created_with, created_at_ms) \
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        params![
            account.account_id.as_str(),
            account.name.as_deref(),
            account.customer_id.as_ref().map(CustomerId::as_str),
            account.ledger.as_str(),
            account.jobs_per_minute,
            account.plan.as_str(),
            account.plan_since,
            account.payment.as_str(),
            account.agreement_id.as_ref().map(AgreementId::as_str),
            account.demo,
            account.may_have_jobs,
            created_with,
            now
        ],
    )
}

/// Makes the first anchor, or moves it while it is not fixed (a fixed one stays as it is). The
/// rows of cycles that the anchor before gave go with it: [`drop_cycles`].
pub fn set_anchor(account_id: &AccountId, anchor: Anchor, source: AnchorSource) -> Statement {
    Statement::new(
        "insert into anchor (account_id, number, at_ms, day, source) values (?1, 1, ?2, ?3, ?4) \
         on conflict (account_id, number) do update \
         set at_ms = excluded.at_ms, day = excluded.day, source = excluded.source \
         where fixed_at_ms is null",
        params![
            account_id.as_str(),
            anchor.at,
            i64::from(anchor.day),
            source.name()
        ],
    )
}

/// Moves the first anchor to where a person wants it; fails the whole batch where it is fixed.
pub fn move_anchor(account_id: &AccountId, anchor: Anchor) -> Statement {
    Statement::new(
        "update anchor set at_ms = ?2, source = ?4, \
         day = case when fixed_at_ms is null then ?3 else 0 end \
         where account_id = ?1 and number = 1",
        params![
            account_id.as_str(),
            anchor.at,
            i64::from(anchor.day),
            AnchorSource::Given.name()
        ],
    )
}

/// Drops the rows of cycles that an anchor which is not fixed gave.
pub fn drop_cycles(account_id: &AccountId) -> Statement {
    Statement::new(
        "delete from cycle where account_id = ?1 and exists (select 1 from anchor \
         where account_id = ?1 and number = 1 and fixed_at_ms is null)",
        params![account_id.as_str()],
    )
}

/// The rows of one account, one for each of its anchors in order.
pub fn of_rows(rows: &[Row]) -> Result<Option<Account>, Fault> {
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
        may_have_jobs: row.int("may_have_jobs")? != 0,
        anchors: rows.iter().map(anchor_of).collect::<Result<_, _>>()?,
        anchor_source: AnchorSource::parse(row.text("source")?)
            .ok_or_else(|| Fault::unreadable("read an anchor", "its source is unknown"))?,
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

/// From now on the account's object may have admitted jobs. Stored before it is asked for the first
/// one: an account of which this is said for nothing costs a visit a night.
pub async fn expect_jobs(world: &World, account_id: &AccountId) -> Result<(), Fault> {
    let sql = "update account set may_have_jobs = 1 where account_id = ?1";
    let statement = Statement::new(sql, params![account_id.as_str()]);
    world.db.query(statement).await?;
    world.isolate.accounts.forget_account(account_id);
    Ok(())
}

/// Stores the cycle's row; the first one of a name stays, its end may move.
pub fn cycle_row(account_id: &AccountId, cycle: &Cycle) -> Statement {
    cycle_rows([(account_id, cycle)])
}

/// The same for many, in one statement.
pub fn cycle_rows<'a>(cycles: impl IntoIterator<Item = (&'a AccountId, &'a Cycle)>) -> Statement {
    let rows: Vec<_> = cycles
        .into_iter()
        .map(|(account_id, cycle)| {
            json!([
                account_id.as_str(),
                cycle.name.as_str(),
                cycle.starts_at.get(),
                cycle.ends_at.get()
            ])
        })
        .collect();
    Statement::new(
        "insert into cycle (account_id, name, starts_at_ms, ends_at_ms) \
         select value ->> 0, value ->> 1, value ->> 2, value ->> 3 from json_each(?1) where true \
         on conflict (account_id, name) do update set ends_at_ms = excluded.ends_at_ms",
        params![json!(rows).to_string()],
    )
}
