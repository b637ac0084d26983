//! What was asked of the stand-in, for `GET /standin/calls`.

use serde_json::{Value, json};

use super::faults::Mode;
use super::wire::{HttpAsk, Reply};
use crate::fault::Fault;
use crate::moment;
use crate::params;
use crate::ports::Sql;
use crate::units::Millis;

/// As many as are kept.
const CALLS_MAX: i64 = 1000;
/// As much of a body as is kept.
const BODY_CHARS_MAX: usize = 1000;

/// Keeps one call. A token request's body holds a secret and is left out.
pub fn record(
    sql: &dyn Sql,
    now: Millis,
    operation: &str,
    ask: &HttpAsk,
    reply: &Reply,
    fault: Option<Mode>,
) -> Result<(), Fault> {
    let status = match reply {
        Reply::Http { status, .. } => Some(i64::from(*status)),
        Reply::Lost { .. } | Reply::Done(_) | Reply::NotFound | Reply::Wrong { .. } => None,
    };
    let body: String = match operation {
        "token" => String::new(),
        _ => ask.body.chars().take(BODY_CHARS_MAX).collect(),
    };
    sql.query(
        "insert into call (at_ms, operation, method, path, query, body, status, fault) \
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        &params![
            now,
            operation,
            ask.method.as_str(),
            ask.path.as_str(),
            ask.query.as_str(),
            body,
            status,
            fault.map(Mode::name)
        ],
    )?;
    sql.query(
        "delete from call where number <= (select max(number) from call) - cast(?1 as integer)",
        &params![CALLS_MAX],
    )?;
    Ok(())
}

/// A page of calls, newest first.
pub fn list(sql: &dyn Sql, limit: i64, before: Option<i64>) -> Result<Value, Fault> {
    let rows = sql.query(
        "select number, at_ms, operation, method, path, query, body, status, fault from call \
         where ?1 is null or number < ?1 order by number desc limit cast(?2 as integer)",
        &params![before, limit + 1],
    )?;
    let page = usize::try_from(limit).unwrap_or(0);
    let mut items = Vec::new();
    for row in rows.iter().take(page) {
        let body = row.text("body")?;
        items.push(json!({
            "number": row.int("number")?,
            "at": moment::format(row.millis("at_ms")?),
            "operation": row.text("operation")?,
            "method": row.text("method")?,
            "path": row.text("path")?,
            "query": row.text("query")?,
            "body": serde_json::from_str::<Value>(body).unwrap_or_else(|_| json!(body)),
            "status": row.opt_int("status")?,
            "fault": row.opt_text("fault")?,
        }));
    }
    let last = items.last().and_then(|item| item.get("number"));
    let next = last.filter(|_| rows.len() > page).map(Value::to_string);
    Ok(json!({"items": items, "next": next}))
}
