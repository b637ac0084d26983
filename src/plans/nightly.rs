//! The nightly plan reconcile: every account's plan against the provider, page by page; each
//! mismatch is fixed by the same sync as everywhere, logged, and the event that never came is
//! named.

use std::rc::Rc;

use serde_json::{Value as Json, json};

use super::sync::{Cause, SyncFault, Synced, sync};
use crate::accounts::Account;
use crate::fault::Fault;
use crate::inbox::alerts;
use crate::parallel;
use crate::params;
use crate::ports::{Later, Statement};
use crate::units::{AccountId, Millis};
use crate::world::{Calls, World};

/// Accounts in one page, and how many are read at once.
const PAGE_ROWS: i64 = 50;
/// See [`PAGE_ROWS`].
const AT_ONCE: usize = 5;
/// What one account may cost in calls: ticket, read (two pages), facts, ring, batch, the event.
const CALLS_PER_ACCOUNT: u32 = 24;
/// What a page costs beside its accounts: to list and to note them.
const CALLS_PER_PAGE: u32 = 2;
/// The run's row, and one account.
pub const CALLS_LEAST: u32 = 2 + CALLS_PER_PAGE + CALLS_PER_ACCOUNT;

/// What one call did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Accounts read and compared.
    pub checked: i64,
    /// Accounts whose plan was not the stored one.
    pub changed: i64,
    /// Accounts whose plan could not be read.
    pub unreadable: i64,
    /// The events that never came.
    pub missed: Vec<String>,
    /// Whether every account was looked at; otherwise the next call goes on.
    pub done: bool,
}

impl Summary {
    fn count(&mut self, seen: Seen) {
        match seen {
            Seen::Match => self.checked += 1,
            Seen::Changed(missed) => {
                self.checked += 1;
                self.changed += 1;
                self.missed.push(missed);
            }
            Seen::Unreadable => self.unreadable += 1,
            Seen::Gone => {}
        }
    }

    /// As the route answers it.
    pub fn json(&self) -> Json {
        json!({"checked": self.checked, "changed": self.changed, "unreadable": self.unreadable,
            "missed": self.missed, "done": self.done})
    }
}

/// Goes on with the unfinished reconcile, or begins a new one.
pub async fn run(world: &Rc<World>, calls: &Calls) -> Result<Summary, Fault> {
    let (number, mut cursor) = begin(world).await?;
    let mut summary = Summary::default();
    loop {
        let left = calls.left().saturating_sub(CALLS_PER_PAGE);
        let affordable = i64::from(left / CALLS_PER_ACCOUNT).min(PAGE_ROWS);
        if affordable == 0 {
            return Ok(summary);
        }
        let page = page(world, &cursor, affordable).await?;
        let works = page
            .iter()
            .map(|account_id| -> Later<'_, Result<Seen, Fault>> {
                Box::pin(look_at(world, account_id))
            })
            .collect();
        let before = summary.clone();
        for seen in parallel::all(works, AT_ONCE).await {
            summary.count(seen?);
        }
        if let Some(last) = page.last() {
            cursor = last.to_string();
        }
        summary.done = i64::try_from(page.len()).unwrap_or(0) < affordable;
        let ended = summary.done.then(|| world.now());
        let store = Statement::new(
            "update plan_run set cursor = ?2, ended_at_ms = ?3, checked = checked + ?4, \
             changed = changed + ?5, unreadable = unreadable + ?6 where number = ?1",
            params![
                number,
                cursor.as_str(),
                ended,
                summary.checked - before.checked,
                summary.changed - before.changed,
                summary.unreadable - before.unreadable
            ],
        );
        world.db.query(store).await?;
        if summary.done {
            return Ok(summary);
        }
    }
}

/// One account alone; how far an unfinished reconcile has come stays as it is.
pub async fn run_account(world: &Rc<World>, account: &Account) -> Result<Summary, Fault> {
    let mut summary = Summary::default();
    summary.count(look_at(world, &account.account_id).await?);
    summary.done = true;
    Ok(summary)
}

async fn begin(world: &World) -> Result<(i64, String), Fault> {
    let begin = Statement::new(
        "insert into plan_run (number, began_at_ms) \
         select coalesce((select max(number) from plan_run), 0) + 1, ?1 \
         where not exists (select 1 from plan_run where ended_at_ms is null)",
        params![world.now()],
    );
    let read = Statement::new(
        "select number, cursor from plan_run where ended_at_ms is null order by number limit 1",
        params![],
    );
    let results = world.db.batch(vec![begin, read]).await?;
    match results.last().and_then(|rows| rows.first()) {
        Some(row) => Ok((row.int("number")?, row.text("cursor")?.to_owned())),
        None => Err(Fault::unavailable(
            "begin a plan reconcile",
            "no row came back",
        )),
    }
}

async fn page(world: &World, cursor: &str, limit: i64) -> Result<Vec<AccountId>, Fault> {
    let rows = world
        .db
        .query(Statement::new(
            "select account_id from account where account_id > ?1 and customer_id is not null \
             and demo = 0 order by account_id limit cast(?2 as integer)",
            params![cursor, limit],
        ))
        .await?;
    rows.iter()
        .map(|row| row.id("account_id", AccountId::new))
        .collect()
}

enum Seen {
    Match,
    Changed(String),
    Unreadable,
    Gone,
}

async fn look_at(world: &Rc<World>, account_id: &AccountId) -> Result<Seen, Fault> {
    match sync(world, account_id, Cause::Nightly).await {
        Ok(synced) if synced.changed => Ok(Seen::Changed(
            name_missed(world, account_id, &synced).await?,
        )),
        Ok(_) => Ok(Seen::Match),
        Err(SyncFault::Unreadable(_)) => Ok(Seen::Unreadable),
        Err(SyncFault::NoAccount | SyncFault::NoCustomer) => Ok(Seen::Gone),
        Err(SyncFault::Fault(fault)) => Err(fault),
    }
}

/// Names the event that should have told of the change: never came, or came and was not applied.
async fn name_missed(
    world: &World,
    account_id: &AccountId,
    synced: &Synced,
) -> Result<String, Fault> {
    let ended = synced.plan == world.settings.free_plan;
    let kind = if ended {
        "customer.agreement_cancelled"
    } else {
        "customer.plan_changed"
    };
    let rows = world
        .db
        .query(Statement::new(
            "select e.id as id, e.status as status from event e join account a \
             on a.customer_id = e.customer_id where a.account_id = ?1 and e.type = ?2 \
             and (?3 = 1 or e.plan = ?4) and e.status not in ('applied', 'ignored') \
             order by e.id desc limit 1",
            params![account_id.as_str(), kind, ended, synced.plan.as_str()],
        ))
        .await?;
    let detail = match rows.first() {
        None => "it never came".to_owned(),
        Some(row) => format!("event {} is {}", row.text("id")?, row.text("status")?),
    };
    let (was, found) = (synced.was.as_str(), synced.plan.as_str());
    let text = format!("{account_id}: {kind} ({was} to {found}): {detail}");
    let now = world.now();
    let fields = json!({"account": account_id.as_str(), "type": kind, "was": was,
        "found": found, "detail": detail});
    world.log.line("warn", "plan.missed_event", fields.clone());
    let batch = vec![
        missed_row(account_id, now, kind, synced, &detail),
        alerts::raise(
            "missed_event",
            &format!("{account_id}/{}", now.get()),
            &fields,
            now,
        ),
    ];
    world.db.batch(batch).await?;
    Ok(text)
}

fn missed_row(
    account_id: &AccountId,
    now: Millis,
    kind: &str,
    synced: &Synced,
    detail: &str,
) -> Statement {
    Statement::new(
        "insert into missed_event (account_id, at_ms, type, was, found, detail) \
         values (?1, ?2, ?3, ?4, ?5, ?6) on conflict (account_id, at_ms) do nothing",
        params![
            account_id.as_str(),
            now,
            kind,
            synced.was.as_str(),
            synced.plan.as_str(),
            detail
        ],
    )
}
