//! A delivery: verified, then stored with its receipt in one batch, then answered.
//!
//! 200 means stored. An event whose type alone says how it ends is stored with that end; every
//! other one waits in its lane. What is not verified leaves nothing but a counter. An event is
//! known by its signed id alone; the header `webhook-id` is kept on the receipt and, where it comes
//! with two events or one event comes with two of it, noted.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::json;

use super::alerts;
use super::canonical::content;
use super::facts::{self, Facts};
use super::keys::{self, Found};
use super::lane::counted_as;
use super::rules::{self, Verdict};
use super::token::{self, Refused, Token};
use super::waking;
use crate::fault::Fault;
use crate::http::request::Body;
use crate::params;
use crate::ports::{Later, Row, Rows, Statement};
use crate::tally;
use crate::together::{self, Journey, Travelling};
use crate::units::{AccountId, Millis};
use crate::world::World;

/// Who sends. The identity of an event is its id together with this.
pub const PROVIDER: &str = "kinde";
/// A time of sending may lie so far ahead: clocks differ.
const AHEAD_MS_MAX: i64 = 5 * 60_000;
/// Receipts of one event: the first ones, and in the last place always the latest.
const RECEIPTS_MAX: i64 = 20;
/// The longest header `webhook-id` that is kept.
const WEBHOOK_ID_CHARS_MAX: usize = 200;

/// A delivery that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Our id of the event.
    pub id: String,
    /// Its lane.
    pub lane: String,
    /// Whether the event was known.
    pub is_copy: bool,
    /// Whether its content differs from what was stored first.
    pub is_conflict: bool,
    /// Whether something is left to do for it.
    pub is_due: bool,
    /// The account of its customer, if there is one.
    pub account_id: Option<AccountId>,
}

/// What a delivery comes to.
pub type Outcome = Result<Result<Received, Refused>, Fault>;

/// Verifies a delivery and stores it, then wakes its lane behind the answer.
pub async fn receive(world: &Rc<World>, body: &Body, webhook_id: Option<&str>) -> Outcome {
    let outcome = intake(world, body, webhook_id).await?;
    match &outcome {
        Ok(received) if received.is_due => {
            waking::wake_behind(world, &received.lane, received.account_id.clone());
        }
        Ok(_) => {}
        Err(refused) => count_refusal(world, *refused),
    }
    Ok(outcome)
}

/// Verifies a delivery and stores it; wakes nothing.
pub async fn intake(world: &Rc<World>, body: &Body, webhook_id: Option<&str>) -> Outcome {
    let Body::Whole(bytes) = body else {
        return Ok(Err(Refused::TooLarge));
    };
    let kinde = &world.settings.kinde;
    if !world.settings.has_stand_in() && kinde.domain.is_none() && kinde.jwks_url.is_none() {
        return Err(Fault::not_configured("KINDE_DOMAIN"));
    }
    let token = match token::parse(bytes) {
        Ok(token) => token,
        Err(refused) => return Ok(Err(refused)),
    };
    if let Err(refused) = verify(world, &token).await? {
        return Ok(Err(refused));
    }
    let Ok(payload) = std::str::from_utf8(&token.payload) else {
        return Ok(Err(Refused::NotAJwt));
    };
    let facts = match facts::read(payload, world.settings.kinde.domain.as_deref()) {
        Ok(facts) => facts,
        Err(refused) => return Ok(Err(refused)),
    };
    let Some(content) = content(payload) else {
        return Ok(Err(Refused::NotAJwt));
    };
    let now = world.now();
    if !is_fresh(world, facts.sent_at, now) && !is_known(world, &facts.event_id).await? {
        return Ok(Err(Refused::Stale));
    }
    let delivery = Delivery {
        facts: &facts,
        payload,
        content: &content,
        kid: &token.kid,
        webhook_id: webhook_id.filter(|id| id.len() <= WEBHOOK_ID_CHARS_MAX),
        now,
    };
    store(world, &delivery).await.map(Ok)
}

async fn verify(world: &World, token: &Token) -> Result<Result<(), Refused>, Fault> {
    let (key, is_new) = match keys::find(world, &token.kid).await {
        Found::Key(key, is_new) => (key, is_new),
        Found::Unknown => return Ok(Err(Refused::UnknownKey)),
        Found::OutOfReach => return Ok(Err(Refused::NoKeys)),
    };
    let message = token.signed.as_bytes();
    let signatures = &world.signatures;
    let signature = &token.signature;
    if signatures
        .verify(&key.n, &key.e, message, signature)
        .await?
    {
        return Ok(Ok(()));
    }
    if is_new {
        keys::count_as_forced(world).await?;
        return Ok(Err(Refused::Signature));
    }
    // The material may have changed under the same name.
    if let Some(newer) = keys::newer(world, &key).await
        && signatures
            .verify(&newer.n, &newer.e, message, signature)
            .await?
    {
        return Ok(Ok(()));
    }
    Ok(Err(Refused::Signature))
}

/// Whether the time of sending lies within the window.
fn is_fresh(world: &World, sent_at: Millis, now: Millis) -> bool {
    let age_max = world.settings.event_max_age_hours.saturating_mul(3_600_000);
    (-AHEAD_MS_MAX..=age_max).contains(&now.since(sent_at))
}

async fn is_known(world: &World, event_id: &str) -> Result<bool, Fault> {
    let known = Statement::new(
        "select id from event where provider = ?1 and event_id = ?2",
        params![PROVIDER, event_id],
    );
    Ok(!world.db.query(known).await?.is_empty())
}

fn count_refusal(world: &Rc<World>, refused: Refused) {
    let name = format!(
        "counterfoil_deliveries_refused_total{{reason=\"{}\"}}",
        refused.code()
    );
    let behind = Rc::clone(world);
    world.background.spawn(Box::pin(async move {
        if let Err(fault) = behind.db.query(tally::add(&name, 1)).await {
            let fields = json!({"reason": refused.code(), "cause": fault.to_string()});
            behind.log.line("warn", "inbox.refusal_not_counted", fields);
        }
    }));
}

struct Delivery<'a> {
    facts: &'a Facts,
    payload: &'a str,
    content: &'a str,
    kid: &'a str,
    webhook_id: Option<&'a str>,
    now: Millis,
}

/// What is written of one delivery.
#[derive(Clone)]
pub struct Written {
    event_id: String,
    /// The sum to which its event is added if it is new: where it ends as it is stored.
    counted_as: Option<String>,
    event: Statement,
    receipt: Statement,
}

/// Deliveries that arrive while some are being stored are stored together: each is two statements,
/// all in one batch, and a delivery that is stored twice is a copy.
#[derive(Clone)]
pub struct Deliveries(());

impl Deliveries {
    /// Whether some are being stored, or wait for it.
    pub fn are_stored_now(world: &World) -> bool {
        world.isolate.deliveries.is_busy(&())
    }
}

impl Journey for Deliveries {
    type Key = ();
    type Ask = Written;
    type Told = Row;
    const TOGETHER_MAX: usize = 32;

    fn travelling(world: &World) -> &Travelling<Self> {
        &world.isolate.deliveries
    }

    fn key(&self) -> &() {
        &self.0
    }

    fn call<'a>(
        &'a self,
        world: &'a World,
        asks: Vec<Written>,
    ) -> Later<'a, Result<Vec<Row>, Fault>> {
        Box::pin(async move {
            let mut statements = sums(&asks);
            let first = statements.len();
            statements.extend(asks.into_iter().flat_map(|ask| [ask.event, ask.receipt]));
            let results = world.db.batch(statements).await?;
            let missing = || Fault::unavailable("store an event", "no row came back");
            let row = |rows: &Rows| rows.first().cloned().ok_or_else(missing);
            // The event's row, then nothing of its receipt.
            results.iter().skip(first).step_by(2).map(row).collect()
        })
    }
}

/// Counts the events that end as they are stored, before they are: one that is known is not counted
/// again. Of two deliveries of one event the first is stored, the other is a copy.
fn sums(asks: &[Written]) -> Vec<Statement> {
    let mut firsts = BTreeMap::new();
    for ask in asks {
        firsts.entry(&ask.event_id).or_insert(&ask.counted_as);
    }
    let mut events: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (event_id, name) in firsts {
        if let Some(name) = name {
            events.entry(name).or_default().push(event_id);
        }
    }
    let sum = |(name, events)| {
        Statement::new(
            "insert into tally (name, total) select ?1, count(*) from json_each(?2) as new \
             where not exists (select 1 from event where provider = ?3 and event_id = new.value) \
             on conflict (name) do update set total = total + excluded.total",
            params![name, json!(events).to_string(), PROVIDER],
        )
    };
    events.into_iter().map(sum).collect()
}

/// Event and receipt in one batch. A conflict's alert follows before the answer: where it cannot be
/// raised the delivery is not answered 200, and the next copy raises it.
async fn store(world: &Rc<World>, delivery: &Delivery<'_>) -> Result<Received, Fault> {
    let id = world.mint("evt_")?;
    let facts = delivery.facts;
    let end = rules::judge_type(&facts.type_name).map(Verdict::told);
    let sum = |(status, _): &(&str, String)| counted_as(&facts.lane(), &facts.type_name, status);
    let written = Written {
        event_id: facts.event_id.clone(),
        counted_as: end.as_ref().and_then(sum),
        event: event_row(&id, delivery, end),
        receipt: receipt_row(delivery),
    };
    let row = together::ask(world, &Deliveries(()), written).await?;
    if row.int("conflict")? != 0 {
        let detail = json!({"event": row.text("id")?, "type": row.text("type")?});
        let event_id = facts.event_id.as_str();
        let alert = alerts::raise("conflict", event_id, &detail, delivery.now);
        world.db.query(alert).await?;
    }
    received(&row, delivery)
}

fn received(row: &Row, delivery: &Delivery<'_>) -> Result<Received, Fault> {
    let next_at = row.opt_millis("next_at_ms")?;
    let has_account = row.opt_text("account_id")?.is_some();
    let account_id = has_account.then(|| row.id("account_id", AccountId::new));
    Ok(Received {
        id: row.text("id")?.to_owned(),
        lane: row.text("lane")?.to_owned(),
        is_copy: row.int("seen")? > 1,
        is_conflict: row.text("content")? != delivery.content,
        is_due: next_at.is_some_and(|at| at <= delivery.now),
        account_id: account_id.transpose()?,
    })
}

/// The event, at its end or due, or one more copy of it. A copy makes an event that waits for its
/// next try due at once, and never changes what was stored first.
fn event_row(id: &str, delivery: &Delivery<'_>, end: Option<(&str, String)>) -> Statement {
    let facts = delivery.facts;
    let due_at = end.is_none().then_some(delivery.now);
    let (status, result) = end.map_or(("received", None), |(status, why)| (status, Some(why)));
    Statement::new(
        "insert into event (id, provider, event_id, type, lane, customer_id, agreement_id, plan, \
         occurred_ms, occurred_nanos, received_at_ms, next_at_ms, content, body, status, result) \
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?14, ?12, ?13, ?15, ?16) \
         on conflict (provider, event_id) do update set seen = seen + 1, \
         conflict = max(conflict, content <> excluded.content), \
         next_at_ms = case when status in ('failed', 'waiting') \
           then min(next_at_ms, excluded.received_at_ms) else next_at_ms end \
         returning id, lane, seen, next_at_ms, content, type, conflict, \
         (select a.account_id from account a where a.customer_id = ?6) as account_id",
        params![
            id,
            PROVIDER,
            facts.event_id.as_str(),
            facts.type_name.as_str(),
            facts.lane(),
            facts.customer_id.as_ref().map(ToString::to_string),
            facts.agreement_id.as_ref().map(ToString::to_string),
            facts.plan.as_ref().map(ToString::to_string),
            facts.occurred.map(|time| time.at),
            facts.occurred.map(|time| time.nanos),
            delivery.now,
            delivery.content,
            delivery.payload,
            due_at,
            status,
            result
        ],
    )
}

fn receipt_row(delivery: &Delivery<'_>) -> Statement {
    Statement::new(
        "insert into receipt (id, number, at_ms, sent_at_ms, webhook_id, kid, outcome, note) \
         select e.id, min(e.seen, cast(?8 as integer)), ?3, ?4, ?5, ?6, \
         case when e.content <> ?7 then 'conflict' when e.seen = 1 then 'stored' else 'copy' end, \
         case when exists (select 1 from receipt r where r.webhook_id = ?5 and r.id <> e.id) \
           then 'this webhook-id came with another event too' \
         when exists (select 1 from receipt r where r.id = e.id and r.webhook_id <> ?5) \
           then 'two senders are configured' end \
         from event e where e.provider = ?1 and e.event_id = ?2 \
         on conflict (id, number) do update set at_ms = excluded.at_ms, \
         sent_at_ms = excluded.sent_at_ms, webhook_id = excluded.webhook_id, kid = excluded.kid, \
         outcome = excluded.outcome, note = excluded.note",
        params![
            PROVIDER,
            delivery.facts.event_id.as_str(),
            delivery.now,
            delivery.facts.sent_at,
            delivery.webhook_id,
            delivery.kid,
            delivery.content,
            RECEIPTS_MAX
        ],
    )
}
