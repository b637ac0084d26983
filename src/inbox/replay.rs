//! Replay and skip: what a person does with a stored event.

use serde_json::json;

use crate::accounts::audit;
use crate::fault::Fault;
use crate::params;
use crate::ports::{Statement, Value};
use crate::units::{AccountId, Millis};
use crate::world::World;

/// All but an event that is being applied right now: claimed, under a lease that still runs at
/// `?2`. What only waits, for its time or for an account, may be taken up at once.
const NOT_IN_WORK: &str = "not (e.status = 'processing' and coalesce(e.next_at_ms > ?2, 0))";
/// Lanes that a bulk replay wakes itself; cron wakes the others, as whatever is due.
const LANES_WOKEN_MAX: i64 = 200;

/// Why an event was not put back or skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is none, or it belongs to another account.
    NotFound,
    /// It is being applied right now.
    InWork,
    /// It took effect; there is nothing to skip.
    Applied,
}

impl Refused {
    /// Stable; for machines.
    pub const fn code(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::InWork => "event_in_work",
            Self::Applied => "event_applied",
        }
    }

    /// One sentence for people.
    pub const fn message(self) -> &'static str {
        match self {
            Self::NotFound => "There is nothing here.",
            Self::InWork => "The event is being applied right now.",
            Self::Applied => "The event was applied.",
        }
    }
}

/// What is needed of an event: its lane and its state.
struct Seen {
    lane: String,
    status: String,
}

async fn look(world: &World, id: &str, account: Option<&AccountId>) -> Result<Option<Seen>, Fault> {
    let look = Statement::new(
        "select e.lane as lane, e.status as status from event e \
         left join account a on a.customer_id = e.customer_id \
         where e.id = ?1 and (?2 is null or a.account_id = ?2)",
        params![id, account.map(AccountId::as_str)],
    );
    let rows = world.db.query(look).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    Ok(Some(Seen {
        lane: row.text("lane")?.to_owned(),
        status: row.text("status")?.to_owned(),
    }))
}

/// Makes an event due at once, whether it is at an end or waits for its next try; gives the lane to
/// wake.
pub async fn replay(
    world: &World,
    id: &str,
    account: Option<&AccountId>,
    actor: &str,
) -> Result<Result<String, Refused>, Fault> {
    let Some(seen) = look(world, id, account).await? else {
        return Ok(Err(Refused::NotFound));
    };
    let now = world.now();
    let back = Statement::new(
        format!(
            "update event as e set status = 'received', attempts = 0, outages = 0, \
             next_at_ms = ?2 where e.id = ?1 and {NOT_IN_WORK} returning id"
        ),
        params![id, now],
    );
    let audit_id = world.mint("aud_")?;
    let audited = Statement::new(
        format!(
            "insert into audit (audit_id, at_ms, actor, action, target, account_id) \
             select ?1, ?2, ?3, 'event.replay', e.id, a.account_id from event e \
             left join account a on a.customer_id = e.customer_id \
             where e.id = ?4 and {NOT_IN_WORK}"
        ),
        params![audit_id, now, actor, id],
    );
    let results = world.db.batch(vec![audited, back]).await?;
    Ok(if results.last().is_some_and(|rows| !rows.is_empty()) {
        Ok(seen.lane)
    } else {
        Err(Refused::InWork)
    })
}

/// Which events are put back together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bulk {
    /// Only those of this account's customer.
    pub account: Option<AccountId>,
    /// A state in which nothing is being done.
    pub status: String,
    /// Only this type.
    pub type_name: Option<String>,
    /// Received then or later.
    pub since: Option<Millis>,
    /// Received before then.
    pub until: Option<Millis>,
}

/// Puts many events back, all in one statement, so that none of them is queued twice; gives how
/// many, and lanes to wake.
pub async fn replay_many(
    world: &World,
    bulk: &Bulk,
    actor: &str,
) -> Result<(i64, Vec<String>), Fault> {
    let now = world.now();
    let chosen = "status = ?1 and (?2 is null or type = ?2) \
        and (?3 is null or received_at_ms >= ?3) and (?4 is null or received_at_ms < ?4) \
        and (?5 is null or customer_id = \
        (select a.customer_id from account a where a.account_id = ?5))";
    let account = bulk.account.as_ref();
    let among = |sql: &str, more: Option<Value>| {
        let (status, type_name) = (bulk.status.as_str(), bulk.type_name.as_deref());
        let account = account.map(AccountId::as_str);
        let mut values = params![status, type_name, bulk.since, bulk.until, account];
        values.extend(more);
        Statement::new(sql.replace("{chosen}", chosen), values)
    };
    let count = among("select count(*) as n from event where {chosen}", None);
    let lanes = among(
        "select distinct lane from event where {chosen} order by lane limit cast(?6 as integer)",
        Some(LANES_WOKEN_MAX.into()),
    );
    let back = among(
        "update event set status = 'received', attempts = 0, outages = 0, next_at_ms = ?6 \
         where {chosen}",
        Some(now.into()),
    );
    let reason = json!({"status": bulk.status, "type": bulk.type_name,
        "since_ms": bulk.since.map(Millis::get), "until_ms": bulk.until.map(Millis::get)});
    let audit_id = world.mint("aud_")?;
    let reason = reason.to_string();
    let (action, target) = ("event.replay_many", bulk.status.as_str());
    let audited = audit::row(
        now,
        &audit_id,
        actor,
        action,
        target,
        account,
        Some(&reason),
    );
    let results = world.db.batch(vec![count, lanes, back, audited]).await?;
    let [counted, lanes, ..] = results.as_slice() else {
        return Err(Fault::unavailable("replay events", "no answer"));
    };
    let queued = counted.first().map_or(Ok(0), |row| row.int("n"))?;
    let lanes = lanes.iter().map(|row| row.text("lane").map(str::to_owned));
    Ok((queued, lanes.collect::<Result<_, _>>()?))
}

/// Ends an event without effect, with a reason.
pub async fn skip(
    world: &World,
    id: &str,
    account: Option<&AccountId>,
    reason: &str,
    actor: &str,
) -> Result<Result<(), Refused>, Fault> {
    let Some(seen) = look(world, id, account).await? else {
        return Ok(Err(Refused::NotFound));
    };
    if seen.status == "applied" {
        return Ok(Err(Refused::Applied));
    }
    let now = world.now();
    let open = format!("e.status <> 'applied' and {NOT_IN_WORK}");
    let audit_id = world.mint("aud_")?;
    let audited = Statement::new(
        format!(
            "insert into audit (audit_id, at_ms, actor, action, target, account_id, reason) \
             select ?1, ?2, ?3, 'event.skip', e.id, a.account_id, ?5 from event e \
             left join account a on a.customer_id = e.customer_id \
             where e.id = ?4 and {open}"
        ),
        params![audit_id, now, actor, id, reason],
    );
    let skipped = Statement::new(
        format!(
            "update event as e set status = 'skipped', result = ?3, next_at_ms = null \
             where e.id = ?1 and {open} returning id"
        ),
        params![id, now, reason],
    );
    // A worker whose lease is over must not apply it after all.
    let let_go = Statement::new(
        "update lane set token = null, lease_ends_at_ms = null, event = null \
         where event = ?1 and lease_ends_at_ms <= ?2",
        params![id, now],
    );
    let results = world.db.batch(vec![audited, let_go, skipped]).await?;
    Ok(if results.last().is_some_and(|rows| !rows.is_empty()) {
        Ok(())
    } else {
        Err(Refused::InWork)
    })
}
