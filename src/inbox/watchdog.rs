//! The inbox's part of a cron tick: lanes that are due and nobody woke, follow-up reads of plans,
//! bodies that are kept long enough, a look at whether deliveries still come, and alerts.

use std::rc::Rc;

use serde_json::{Value as Json, json};

use super::apply::Doorbell;
use super::{alerts, lane};
use crate::accounts::Account;
use crate::fault::Fault;
use crate::parallel;
use crate::params;
use crate::plans::store::{FollowUp, followups_due, is_followup_due};
use crate::plans::sync::{Cause, SyncFault, sync};
use crate::ports::{Later, Row, Statement};
use crate::units::{AccountId, Millis};
use crate::world::{Calls, World};

/// Lanes and follow-ups looked at in one page, and how many at once.
const PAGE_ROWS: i64 = 64;
/// See [`PAGE_ROWS`].
const AT_ONCE: usize = 8;
/// What one event of a lane, or one follow-up, may cost in calls.
const CALLS_PER_LANE: u32 = 32;
/// What a run costs beside them: the probe and both lists.
const CALLS_PER_LISTS: u32 = 3;
/// What looking after the rest may cost: bodies, quiet, and alerts of each kind.
const CALLS_PER_REST: u32 = 12;
/// All that, and one event.
pub const CALLS_LEAST: u32 = CALLS_PER_LISTS + CALLS_PER_LANE + CALLS_PER_REST;
/// Bodies are kept so long.
const BODY_MS: i64 = 30 * 86_400_000;
/// Bodies emptied in one run.
const BODIES_PER_RUN: i64 = 500;

/// What one run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Lanes that were run.
    pub lanes: i64,
    /// Events that came to an end or to their next wait.
    pub events: i64,
    /// Plans that were asked for again.
    pub followups: i64,
    /// Bodies that were emptied.
    pub emptied: i64,
    /// Alerts that were taken.
    pub alerts: i64,
    /// Whether nothing that was due is left.
    pub done: bool,
}

impl Summary {
    /// As the route answers it.
    pub fn json(&self) -> Json {
        json!({"lanes": self.lanes, "events": self.events, "followups": self.followups,
            "emptied": self.emptied, "alerts": self.alerts, "done": self.done})
    }
}

/// Does what is due.
pub async fn run(world: &Rc<World>, calls: &Calls) -> Result<Summary, Fault> {
    let mut summary = Summary::default();
    let least = i64::from(calls.taken() == 0);
    probe(world).await?;
    let lanes_done = run_lanes(world, calls, least, &mut summary).await?;
    let followups_done = follow_up(world, calls, &mut summary).await?;
    let rest_done = calls.left() >= CALLS_PER_REST;
    if rest_done {
        summary.emptied = empty_bodies(world).await?;
        quiet(world).await?;
        summary.alerts = alerts::send(world).await?;
    }
    summary.done = lanes_done && followups_done && rest_done;
    Ok(summary)
}

/// What is due of one account alone: its customer's lane and its follow-up read.
pub async fn run_account(world: &Rc<World>, account: &Account) -> Result<Summary, Fault> {
    let mut summary = Summary::default();
    if let Some(customer) = &account.customer_id {
        summary.lanes = 1;
        summary.events = i64::from(lane::run(world, customer.as_str()).await?);
    }
    if is_followup_due(&*world.db, &account.account_id, world.now()).await? {
        summary.followups = 1;
        ask_again(world, &account.account_id).await;
    }
    summary.done = true;
    Ok(summary)
}

/// While events wait for an unreachable provider, one of them tries it each minute; where it
/// answers, all of them are due.
async fn probe(world: &World) -> Result<(), Fault> {
    let probe = Statement::new(
        "update event set next_at_ms = ?1 where id = (select id from event \
         where next_at_ms > ?1 and status = 'failed' and outages > 0 \
         order by next_at_ms, id limit 1)",
        params![world.now()],
    );
    world.db.query(probe).await.map(|_| ())
}

/// How many lanes or follow-ups the calls that are left still pay for, the rest of the run kept.
fn affordable(calls: &Calls) -> i64 {
    let left = calls
        .left()
        .saturating_sub(CALLS_PER_LISTS + CALLS_PER_REST);
    i64::from(left / CALLS_PER_LANE).min(PAGE_ROWS)
}

/// `least` lanes also where the calls may not do.
async fn run_lanes(
    world: &Rc<World>,
    calls: &Calls,
    mut least: i64,
    summary: &mut Summary,
) -> Result<bool, Fault> {
    // Each lane once: one that another worker holds stays due until its lease ends.
    let mut after = String::new();
    loop {
        let rows = affordable(calls).max(std::mem::take(&mut least));
        if rows == 0 {
            return Ok(false);
        }
        let due = Statement::new(
            "select distinct lane from event where next_at_ms <= ?1 and lane > ?2 \
             order by lane limit cast(?3 as integer)",
            params![world.now(), after.as_str(), rows],
        );
        let lanes = world
            .db
            .query(due)
            .await?
            .iter()
            .map(|row: &Row| row.text("lane").map(str::to_owned))
            .collect::<Result<Vec<_>, _>>()?;
        // What the calls pay for is shared out, so that no apply is cut off in the middle.
        let paid = calls.left() / CALLS_PER_LANE;
        let each = (paid / u32::try_from(lanes.len().max(1)).unwrap_or(1)).max(1);
        let works = lanes
            .iter()
            .map(|name| -> Later<'_, Result<u32, Fault>> {
                Box::pin(lane::run_with(world, name, Doorbell::Rings, each))
            })
            .collect();
        for (name, ran) in lanes.iter().zip(parallel::all(works, AT_ONCE).await) {
            match ran {
                Ok(events) => {
                    summary.lanes += 1;
                    summary.events += i64::from(events);
                }
                // One lane's failure stops nobody else's.
                Err(fault) => {
                    let fields = json!({"lane": name, "cause": fault.to_string()});
                    world.log.line("error", "inbox.lane_fault", fields);
                }
            }
        }
        if i64::try_from(lanes.len()).unwrap_or(0) < rows {
            return Ok(true);
        }
        after = lanes.last().cloned().unwrap_or_default();
    }
}

async fn follow_up(world: &Rc<World>, calls: &Calls, summary: &mut Summary) -> Result<bool, Fault> {
    // Each follow-up once: one whose read could not even be tried stays due.
    let mut last: Option<FollowUp> = None;
    loop {
        let rows = affordable(calls);
        if rows == 0 {
            return Ok(false);
        }
        let due = followups_due(&*world.db, world.now(), last.as_ref(), rows).await?;
        let works = due
            .iter()
            .map(|one| -> Later<'_, ()> { Box::pin(ask_again(world, &one.account_id)) })
            .collect();
        parallel::all(works, AT_ONCE).await;
        let count = i64::try_from(due.len()).unwrap_or(0);
        summary.followups += count;
        if count < rows {
            return Ok(true);
        }
        last = due.into_iter().last();
    }
}

/// Asks the provider again for one account; what fails has its next time already.
pub async fn ask_again(world: &Rc<World>, account_id: &AccountId) {
    let outcome = sync(world, account_id, Cause::FollowUp).await;
    if let Err(SyncFault::Fault(fault)) = outcome {
        let fields = json!({"account": account_id.as_str(), "cause": fault.to_string()});
        world.log.line("error", "plan.follow_up_fault", fields);
    }
}

/// Empties bodies after 30 days, ids, facts and results stay; forgets alerts that were sent then.
async fn empty_bodies(world: &World) -> Result<i64, Fault> {
    let empty = Statement::new(
        "update event set body = null where id in (select id from event where body is not null \
         and received_at_ms <= ?1 and next_at_ms is null \
         order by received_at_ms limit cast(?2 as integer)) returning id",
        params![world.now().after(-BODY_MS), BODIES_PER_RUN],
    );
    let told = Statement::new(
        "delete from alert where sent_at_ms <= ?1",
        params![world.now().after(-BODY_MS)],
    );
    let results = world.db.batch(vec![empty, told]).await?;
    let rows = results.first().map(Vec::as_slice).unwrap_or_default();
    Ok(i64::try_from(rows.len()).unwrap_or(0))
}

/// Alerts once when nothing was accepted for `QUIET_HOURS` although deliveries came on each of the
/// three days before: the provider disables a webhook that fails for 72 hours, and nobody sees it.
async fn quiet(world: &World) -> Result<(), Fault> {
    let Some(hours) = world.settings.quiet_hours else {
        return Ok(());
    };
    let now = world.now();
    let last = Statement::new("select max(at_ms) as at_ms from receipt", params![]);
    let rows = world.db.query(last).await?;
    let last = rows
        .first()
        .map_or(Ok(None), |row| row.opt_millis("at_ms"))?;
    let Some(last) = last.filter(|last| now.since(*last) >= hours.saturating_mul(3_600_000)) else {
        return Ok(());
    };
    let days = Statement::new(
        "select count(distinct (cast(?1 as integer) - at_ms) / 86400000) as days from receipt \
         where at_ms > cast(?1 as integer) - 3 * 86400000 and at_ms <= ?1",
        params![last],
    );
    let rows = world.db.query(days).await?;
    let days = rows.first().map_or(Ok(0), |row| row.int("days"))?;
    if days < 3 {
        return Ok(());
    }
    let detail = json!({"last_delivery_at": crate::moment::format(last), "hours": hours});
    let subject = last.get().to_string();
    world
        .db
        .query(alerts::raise("quiet", &subject, &detail, now))
        .await?;
    Ok(())
}

/// When the account's object should wake for its inbox: the lane's next event or the follow-up.
pub async fn next_at(world: &World, account_id: &AccountId) -> Result<Option<Millis>, Fault> {
    let next = Statement::new(
        "select min(at_ms) as at_ms from (select min(e.next_at_ms) as at_ms from event e \
         join account a on a.customer_id = e.lane where a.account_id = ?1 \
         union all select followup_at_ms from plan_state where account_id = ?1)",
        params![account_id.as_str()],
    );
    let rows = world.db.query(next).await?;
    rows.first().map_or(Ok(None), |row| row.opt_millis("at_ms"))
}

/// The inbox of one account, as its object runs it: the lane, then a follow-up that is due. Gives
/// when to wake again.
pub async fn tend(world: &Rc<World>, account_id: &AccountId) -> Result<Option<Millis>, Fault> {
    let customer = Statement::new(
        "select a.customer_id as customer_id, s.followup_at_ms as followup_at_ms from account a \
         left join plan_state s on s.account_id = a.account_id where a.account_id = ?1",
        params![account_id.as_str()],
    );
    let rows = world.db.query(customer).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    if let Some(customer) = row.opt_text("customer_id")? {
        lane::run(world, customer).await?;
    }
    let due = row.opt_millis("followup_at_ms")?;
    if due.is_some_and(|at| at <= world.now()) {
        ask_again(world, account_id).await;
    }
    next_at(world, account_id).await
}
