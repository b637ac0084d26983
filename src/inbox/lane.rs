//! A customer's lane: claim, apply, give back. One event of a customer at a time.
//!
//! A claim puts a random token, a lease and the event into the lane's row and is refused while
//! another lease runs. Every batch that an apply writes begins with [`guard`], which fails the
//! whole batch where the token is no longer in the row: a worker that lost its lease, and a batch
//! that lands late, change nothing.

use std::rc::Rc;

use serde_json::json;

use super::apply::{self, Doorbell};
use super::engine::DEMO_PREFIX;
use super::rules::Told;
use super::{alerts, rules};
use crate::accounts::Account;
use crate::fault::Fault;
use crate::gate;
use crate::gate::wire::Ask;
use crate::params;
use crate::ports::{Row, Rows, Statement};
use crate::tally;
use crate::units::{AccountId, AgreementId, CustomerId, Millis, PlanCode};
use crate::world::World;

/// Events that one run of a lane takes at most; what is left wakes again.
pub const EVENTS_PER_RUN_MAX: u32 = 50;

/// A claimed event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Our id of it.
    pub id: String,
    /// Its type, as it came.
    pub type_name: String,
    /// Its lane.
    pub lane: String,
    /// Its customer.
    pub customer_id: Option<CustomerId>,
    /// What it tells.
    pub told: Told,
    /// When its first delivery came.
    pub received_at: Millis,
    /// This try's number.
    pub attempts: i64,
    /// Waits for an unreachable provider so far.
    pub outages: i64,
    /// The lane's token.
    pub token: String,
    /// When it was claimed.
    pub claimed_at: Millis,
    /// The apply gives up by itself then.
    pub give_up_at: Millis,
}

/// Events may have waited for an account that was just made or got its customer.
pub fn wake_new_account(world: &Rc<World>, account: &Account) {
    if account.customer_id.is_none() {
        return;
    }
    let (behind, account_id) = (Rc::clone(world), account.account_id.clone());
    world.background.spawn(Box::pin(async move {
        if let Err(fault) = wake_account(&behind, &account_id).await {
            let fields = json!({"account": account_id.as_str(), "cause": fault.to_string()});
            behind.log.line("error", "inbox.lane_fault", fields);
        }
    }));
}

/// Has an account's object look at its inbox.
pub async fn wake_account(world: &World, account_id: &AccountId) -> Result<(), Fault> {
    let account = account_id.to_string();
    let ask = Ask::Lane {
        account_id: account,
    };
    gate::tell(world, account_id, ask).await.map(|_| ())
}

/// Applies what is due in a lane, one event after the other; gives how many came to an end or to
/// their next wait.
pub async fn run(world: &Rc<World>, lane: &str) -> Result<u32, Fault> {
    run_with(world, lane, Doorbell::Rings, EVENTS_PER_RUN_MAX).await
}

/// The same with or without the doorbell, and only so many events.
pub async fn run_with(
    world: &Rc<World>,
    lane: &str,
    doorbell: Doorbell,
    events_max: u32,
) -> Result<u32, Fault> {
    let mut events = 0;
    while events < events_max.min(EVENTS_PER_RUN_MAX) {
        let Some(claimed) = claim(world, lane).await? else {
            break;
        };
        let next_at = work(world, &claimed, doorbell).await?;
        events += 1;
        if next_at.is_none_or(|at| at > world.now()) {
            break;
        }
    }
    Ok(events)
}

/// Applies a claimed event and gives when the lane's next one is due; a failure puts it off and
/// gives the lane back at once.
async fn work(
    world: &Rc<World>,
    claimed: &Claimed,
    doorbell: Doorbell,
) -> Result<Option<Millis>, Fault> {
    let steps = world.settings.retry_seconds.len();
    let was_lost = claimed.attempts > i64::try_from(steps).unwrap_or(i64::MAX).saturating_add(1);
    let outcome = if was_lost {
        Err(Fault::unavailable(
            "apply an event",
            "its worker was lost at every try",
        ))
    } else {
        apply::apply(world, claimed, doorbell).await
    };
    let fault = match outcome {
        Ok(next_at) => return Ok(next_at),
        Err(fault) => fault,
    };
    let end = after_failure(world, claimed, &fault)?;
    let alert = (end.status == "dead").then(|| dead_alert(claimed, &end, world.now()));
    let committed = commit(world, claimed, alert.into_iter().collect(), &end).await?;
    Ok(committed.next_at(world.now()))
}

/// Claims the oldest due event of a lane; none where nothing is due or another lease runs.
pub async fn claim(world: &World, lane: &str) -> Result<Option<Claimed>, Fault> {
    let now = world.now();
    let lease_ms = world.settings.inbox_lease_seconds.saturating_mul(1000);
    let (token, ends) = (world.mint("lane_")?, now.after(lease_ms));
    let results = world
        .db
        .batch(claim_statements(lane, &token, now, ends))
        .await?;
    let row = results.get(2).and_then(|rows: &Rows| rows.first());
    let Some(row) = row else { return Ok(None) };
    let give_up_at = now.after(lease_ms / 3 * 2);
    claimed_of(row, token, now, give_up_at).map(Some)
}

fn claim_statements(lane: &str, token: &str, now: Millis, ends: Millis) -> Vec<Statement> {
    let row = Statement::new(
        "insert into lane (lane) values (?1) on conflict (lane) do nothing",
        params![lane],
    );
    let claim = Statement::new(
        "update lane set token = ?2, lease_ends_at_ms = ?4, event = (select e.id from event e \
         where e.lane = ?1 and e.next_at_ms <= ?3 \
         order by e.occurred_ms, e.occurred_nanos, e.id limit 1) \
         where lane = ?1 and (token is null or lease_ends_at_ms <= ?3) \
         and exists (select 1 from event e where e.lane = ?1 and e.next_at_ms <= ?3)",
        params![lane, token, now, ends],
    );
    let event = Statement::new(
        "update event set status = 'processing', attempts = attempts + 1, next_at_ms = ?3 \
         where id = (select event from lane where lane = ?1 and token = ?2) \
         returning id, type, lane, customer_id, agreement_id, plan, occurred_ms, occurred_nanos, \
         received_at_ms, attempts, outages",
        params![lane, token, ends],
    );
    let lost = Statement::new(
        "update run set ended_at_ms = ?3, outcome = 'lost' where lane = ?1 \
         and ended_at_ms is null and exists (select 1 from lane where lane = ?1 and token = ?2)",
        params![lane, token, now],
    );
    let begun = Statement::new(
        "insert into run (id, number, lane, token, began_at_ms) \
         select l.event, (select count(*) from run r where r.id = l.event) + 1, l.lane, l.token, \
         ?3 from lane l where l.lane = ?1 and l.token = ?2",
        params![lane, token, now],
    );
    vec![row, claim, event, lost, begun]
}

fn claimed_of(
    row: &Row,
    token: String,
    claimed_at: Millis,
    give_up_at: Millis,
) -> Result<Claimed, Fault> {
    let text = |name: &str| row.opt_text(name).map(|text| text.map(str::to_owned));
    let type_name = row.text("type")?.to_owned();
    let nanos = u32::try_from(row.opt_int("occurred_nanos")?.unwrap_or(0)).unwrap_or(0);
    let told = Told {
        kind: rules::Kind::of_type(&type_name),
        at: (row.opt_millis("occurred_ms")?).map(|at| crate::moment::EventTime { at, nanos }),
        agreement_id: text("agreement_id")?.and_then(AgreementId::new),
        plan: text("plan")?.and_then(PlanCode::new),
    };
    Ok(Claimed {
        id: row.text("id")?.to_owned(),
        lane: row.text("lane")?.to_owned(),
        customer_id: text("customer_id")?.and_then(CustomerId::new),
        received_at: row.millis("received_at_ms")?,
        attempts: row.int("attempts")?,
        outages: row.int("outages")?,
        type_name,
        told,
        token,
        claimed_at,
        give_up_at,
    })
}

/// Where a claimed event goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Its new status.
    pub status: &'static str,
    /// Why, or what it did.
    pub result: String,
    /// When it is looked at again; none ends it.
    pub next_at: Option<Millis>,
    /// Tries used up.
    pub attempts: i64,
    /// Waits for an unreachable provider.
    pub outages: i64,
}

/// What became of a batch of an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It took effect, all of it. With when the lane's next event was due then: one that comes
    /// later finds the lane free.
    Done(Option<Millis>),
    /// The lease was lost; nothing took effect.
    Lost,
}

impl Committed {
    /// When the lane is looked at again; behind a lost lease at once, and its claim says the rest.
    pub fn next_at(self, now: Millis) -> Option<Millis> {
        match self {
            Self::Done(next_at) => next_at,
            Self::Lost => Some(now),
        }
    }
}

/// Fails the whole batch where the lane's token is no longer this claim's: the row it would insert
/// breaks `not null` and the primary key.
fn guard(claimed: &Claimed) -> Statement {
    Statement::new(
        "insert into lane (lane, ticket) select ?1, null where not exists \
         (select 1 from lane where lane = ?1 and token = ?2)",
        params![claimed.lane.as_str(), claimed.token.as_str()],
    )
}

/// Effects, the mark, giving the lane back and a look at what is next, in one batch. After an error
/// the database says what became of it; an error that is given back means: the lane is still ours
/// and nothing happened.
pub async fn commit(
    world: &World,
    claimed: &Claimed,
    effects: Vec<Statement>,
    end: &End,
) -> Result<Committed, Fault> {
    let now = world.now();
    let mut statements = vec![guard(claimed)];
    statements.extend(effects);
    statements.extend(end_statements(claimed, end, now));
    statements.push(look(claimed));
    let (rows, fault) = match world.db.batch(statements).await {
        Ok(results) => (results.into_iter().next_back().unwrap_or_default(), None),
        Err(fault) => (world.db.query(look(claimed)).await?, Some(fault)),
    };
    let missing = || Fault::unavailable("apply an event", "no row came back");
    let row = rows.first().ok_or_else(missing)?;
    let is_ours = row.opt_text("token")? == Some(claimed.token.as_str());
    if let Some(fault) = fault.filter(|_| is_ours) {
        return Err(fault);
    }
    Ok(if row.opt_text("outcome")? == Some(end.status) {
        Committed::Done(row.opt_millis("next_at_ms")?)
    } else {
        Committed::Lost
    })
}

/// Whose the lane is, how the claim's run ended, and when the lane's next event is due.
fn look(claimed: &Claimed) -> Statement {
    Statement::new(
        "select (select token from lane where lane = ?1) as token, \
         (select outcome from run where id = ?2 and token = ?3) as outcome, \
         (select min(next_at_ms) from event where lane = ?1) as next_at_ms",
        params![
            claimed.lane.as_str(),
            claimed.id.as_str(),
            claimed.token.as_str()
        ],
    )
}

fn end_statements(claimed: &Claimed, end: &End, now: Millis) -> Vec<Statement> {
    let event = Statement::new(
        "update event set status = ?2, result = ?3, next_at_ms = ?4, attempts = ?5, outages = ?6 \
         where id = ?1",
        params![
            claimed.id.as_str(),
            end.status,
            end.result.as_str(),
            end.next_at,
            end.attempts,
            end.outages
        ],
    );
    let run = Statement::new(
        "update run set ended_at_ms = ?3, outcome = ?4 where id = ?1 and token = ?2",
        params![claimed.id.as_str(), claimed.token.as_str(), now, end.status],
    );
    let lane = Statement::new(
        "update lane set token = null, lease_ends_at_ms = null, event = null where lane = ?1",
        params![claimed.lane.as_str()],
    );
    let mut statements = vec![event, run, lane];
    let sum = counted_as(&claimed.lane, &claimed.type_name, end.status);
    statements.extend(sum.map(|name| tally::add(&name, 1)));
    statements
}

/// The sum in which an end is counted; none in a demonstration. The type as a label: what the
/// provider documents, and one word for the rest.
pub fn counted_as(lane: &str, type_name: &str, status: &str) -> Option<String> {
    let label = match rules::Kind::of_type(type_name) {
        rules::Kind::Other => "other",
        _ => type_name,
    };
    let name = format!("counterfoil_event_runs_total{{outcome=\"{status}\",type=\"{label}\"}}");
    (!lane.starts_with(DEMO_PREFIX)).then_some(name)
}

/// A failed try: the next one, or none.
fn after_failure(world: &World, claimed: &Claimed, fault: &Fault) -> Result<End, Fault> {
    let spread = spread(world)?;
    let next = rules::retry(claimed.attempts, &world.settings.retry_seconds, spread);
    Ok(match next {
        rules::Retry::After(wait_ms) => End {
            status: "failed",
            result: fault.to_string(),
            next_at: Some(world.now().after(wait_ms)),
            attempts: claimed.attempts,
            outages: claimed.outages,
        },
        rules::Retry::Dead => End {
            status: "dead",
            result: fault.to_string(),
            next_at: None,
            attempts: claimed.attempts,
            outages: claimed.outages,
        },
    })
}

/// 0 to 999, at random.
pub fn spread(world: &World) -> Result<i64, Fault> {
    let [first, second, ..] = world.ids.random()?;
    Ok((i64::from(first) * 256 + i64::from(second)) % 1000)
}

/// The alert of an event that is dead.
fn dead_alert(claimed: &Claimed, end: &End, now: Millis) -> Statement {
    let detail = json!({"event": claimed.id, "type": claimed.type_name, "result": end.result});
    let subject = format!("{}/{}", claimed.id, now.get());
    alerts::raise("dead", &subject, &detail, now)
}
