//! The audit: who did what by hand, and why. A row goes into the same batch as what it tells of.

use crate::fault::Fault;
use crate::params;
use crate::ports::{Db, Row, Statement};
use crate::units::{AccountId, Millis};

/// One row: `id` is minted (`aud_`), so that rows sort by time; `target` is what was acted on. A
/// row of that id that is there already stays as it is.
pub fn row(
    at: Millis,
    id: &str,
    actor: &str,
    action: &str,
    target: &str,
    account: Option<&AccountId>,
    reason: Option<&str>,
) -> Statement {
    Statement::new(
        "insert into audit (audit_id, at_ms, actor, action, target, account_id, reason) \
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7) on conflict (audit_id) do nothing",
        params![
            id,
            at,
            actor,
            action,
            target,
            account.map(AccountId::as_str),
            reason
        ],
    )
}

/// Up to `rows` rows, newest first, from before the row `before` (none: from the newest). Where no
/// account is asked for, those of Lab and Engine Room are left out.
pub async fn list(
    db: &dyn Db,
    account: Option<&AccountId>,
    before: Option<&str>,
    rows: i64,
) -> Result<Vec<Row>, Fault> {
    // Two texts, so that each runs along one index.
    let sql = if account.is_some() {
        "select audit_id, at_ms, actor, action, target, account_id, reason from audit \
         where account_id = ?1 and (?2 is null or audit_id < ?2) \
         order by audit_id desc limit cast(?3 as integer)"
    } else {
        "select audit_id, at_ms, actor, action, target, account_id, reason from audit \
         where ?1 is null and (?2 is null or audit_id < ?2) and not exists (select 1 \
         from account d where d.account_id = audit.account_id and d.demo = 1) \
         order by audit_id desc limit cast(?3 as integer)"
    };
    db.query(Statement::new(
        sql,
        params![account.map(AccountId::as_str), before, rows],
    ))
    .await
}
