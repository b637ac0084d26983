//! Sessions that were signed out of, until their cookies would have ended by themselves.

use crate::fault::Fault;
use crate::params;
use crate::ports::{Db, Statement};
use crate::units::Millis;

/// Ends a session for good; those whose time is over are forgotten by the way.
pub async fn end(db: &dyn Db, id: &str, until: Millis, now: Millis) -> Result<(), Fault> {
    let forget = "delete from ended_session where until_ms <= ?1";
    let insert = "insert into ended_session (session_id, until_ms) values (?1, ?2) \
        on conflict (session_id) do nothing";
    let statements = vec![
        Statement::new(forget, params![now]),
        Statement::new(insert, params![id, until]),
    ];
    db.batch(statements).await.map(|_| ())
}

/// Whether somebody signed out of it.
pub async fn is_ended(db: &dyn Db, id: &str) -> Result<bool, Fault> {
    let sql = "select 1 as one from ended_session where session_id = ?1";
    let rows = db.query(Statement::new(sql, params![id])).await?;
    Ok(!rows.is_empty())
}
