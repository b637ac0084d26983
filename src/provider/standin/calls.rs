//! What was asked of the stand-in, for `GET /standin/calls`.
//!
//! A call that changes something is stored with its change. One that only reads waits in memory
//! for the next of those, for whoever asks for the list, or for the alarm: a commit to the disk for
//! each read would cost more than the read. The end of the process may lose the reads of a second.

use std::cell::RefCell;

use serde::Serialize;
use serde_json::{Value, json};

use super::faults::Mode;
use super::wire::{HttpAsk, Reply};
use crate::fault::Fault;
use crate::moment;
use crate::object::Object;
use crate::params;
use crate::ports::Sql;
use crate::units::Millis;

/// As many as are kept.
const CALLS_MAX: i64 = 1000;
/// As much of a body as is kept.
const BODY_CHARS_MAX: usize = 1000;
/// So long, and so many of them, calls wait in memory.
const WAIT_MS: i64 = 1000;
/// See [`WAIT_MS`].
const WAITING_MAX: usize = 500;
/// The name of what the object owes for calls that wait.
const STORE: &str = "calls";

/// One call, as it is stored.
#[derive(Serialize)]
struct Call {
    at_ms: i64,
    operation: &'static str,
    method: String,
    path: String,
    query: String,
    body: String,
    status: Option<u16>,
    fault: Option<&'static str>,
}

/// The calls that are not stored yet, oldest first.
#[derive(Default)]
pub struct Waiting(RefCell<Vec<Call>>);

impl Waiting {
    /// Keeps one call. A token request's body holds a secret and is left out.
    pub fn keep(
        &self,
        object: &Object,
        now: Millis,
        operation: &'static str,
        ask: &HttpAsk,
        (reply, fault): (&Reply, Option<Mode>),
    ) -> Result<(), Fault> {
        let status = match reply {
            Reply::Http { status, .. } => Some(*status),
            Reply::Lost { .. } | Reply::Done(_) | Reply::NotFound | Reply::Wrong { .. } => None,
        };
        let body: String = match operation {
            "token" => String::new(),
            _ => ask.body.chars().take(BODY_CHARS_MAX).collect(),
        };
        let call = Call {
            at_ms: now.get(),
            operation,
            method: ask.method.clone(),
            path: ask.path.clone(),
            query: ask.query.clone(),
            body,
            status,
            fault: fault.map(Mode::name),
        };
        let waiting = {
            let mut calls = self.0.borrow_mut();
            calls.push(call);
            calls.len()
        };
        if ask.method != "GET" || waiting >= WAITING_MAX {
            return self.store(object);
        }
        // One that stands, because calls that waited were stored meanwhile, is soon enough.
        if waiting == 1 && object.owed_at(STORE)?.is_none() {
            object.owe(STORE, Some(now.after(WAIT_MS)))?;
        }
        Ok(())
    }

    /// Stores the calls that wait.
    pub fn store(&self, object: &Object) -> Result<(), Fault> {
        let mut calls = self.0.borrow_mut();
        if !calls.is_empty() {
            insert(&*object.sql, &calls)?;
            calls.clear();
        }
        Ok(())
    }

    /// The same, as the object owed it.
    pub fn store_due(&self, object: &Object) -> Result<(), Fault> {
        self.store(object)?;
        object.owe(STORE, None)
    }
}

fn insert(sql: &dyn Sql, calls: &[Call]) -> Result<(), Fault> {
    sql.query(
        "insert into call (at_ms, operation, method, path, query, body, status, fault) \
         select value ->> 'at_ms', value ->> 'operation', value ->> 'method', value ->> 'path', \
         value ->> 'query', value ->> 'body', value ->> 'status', value ->> 'fault' \
         from json_each(?1) order by key",
        &params![json!(calls).to_string()],
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
