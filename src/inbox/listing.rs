//! Events as they are answered and shown, and the numbers for `/metrics`.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::fault::Fault;
use crate::limits::PAYLOAD_LISTED_BYTES_MAX;
use crate::moment::format;
use crate::params;
use crate::ports::{Db, Row, Statement};
use crate::units::{AccountId, Millis};
use crate::world::World;

/// Which events are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only those of this account's customer.
    pub account: Option<AccountId>,
    /// Only in this state.
    pub status: Option<String>,
    /// Only this type.
    pub type_name: Option<String>,
    /// Received then or later.
    pub from: Option<Millis>,
    /// Received before then.
    pub to: Option<Millis>,
}

/// The states of an event.
pub const STATES: [&str; 8] = [
    "received",
    "processing",
    "waiting",
    "failed",
    "applied",
    "ignored",
    "skipped",
    "dead",
];

/// The end states that need nobody's look.
const ENDED: [&str; 3] = ["applied", "ignored", "skipped"];

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventView {
    /// Our id.
    pub id: String,
    /// The signed id.
    pub event_id: String,
    /// Its type.
    pub type_name: String,
    /// The account of its customer.
    pub account: Option<String>,
    /// Its customer.
    pub customer_id: Option<String>,
    /// Its state.
    pub status: String,
    /// Why, or what it did.
    pub result: Option<String>,
    /// Deliveries.
    pub seen: i64,
    /// Tries.
    pub attempts: i64,
    /// When it is looked at again.
    pub next_at: Option<Millis>,
    /// When it happened.
    pub occurred_at: Option<Millis>,
    /// When its first delivery came.
    pub received_at: Millis,
    /// Whether it came again with other content.
    pub is_conflict: bool,
    /// Its deliveries.
    pub receipts: Vec<ReceiptView>,
}

/// One delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiptView {
    /// When it came.
    pub at: Millis,
    /// When it was sent.
    pub sent_at: Millis,
    /// The header, which is not signed.
    pub webhook_id: Option<String>,
    /// Which key signed it.
    pub kid: String,
    /// `stored`, `copy` or `conflict`.
    pub outcome: String,
    /// What is odd about it.
    pub note: Option<String>,
}

/// One claim of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunView {
    /// When it was claimed.
    pub began_at: Millis,
    /// When it was given back.
    pub ended_at: Option<Millis>,
    /// How it ended.
    pub outcome: Option<String>,
}

impl EventView {
    fn of_row(row: &Row) -> Result<Self, Fault> {
        let text = |name: &str| row.opt_text(name).map(|text| text.map(str::to_owned));
        Ok(Self {
            id: row.text("id")?.to_owned(),
            event_id: row.text("event_id")?.to_owned(),
            type_name: row.text("type")?.to_owned(),
            account: text("account_id")?,
            customer_id: text("customer_id")?,
            status: row.text("status")?.to_owned(),
            result: text("result")?,
            seen: row.int("seen")?,
            attempts: row.int("attempts")?,
            next_at: row.opt_millis("next_at_ms")?,
            occurred_at: row.opt_millis("occurred_ms")?,
            received_at: row.millis("received_at_ms")?,
            is_conflict: row.int("conflict")? != 0,
            receipts: Vec::new(),
        })
    }

    /// As the routes answer it.
    pub fn json(&self) -> Json {
        let receipts: Vec<Json> = self.receipts.iter().map(ReceiptView::json).collect();
        json!({
            "id": self.id, "event_id": self.event_id, "type": self.type_name,
            "account": self.account, "customer_id": self.customer_id, "status": self.status,
            "result": self.result, "seen": self.seen, "attempts": self.attempts,
            "next_at": self.next_at.map(format), "occurred_at": self.occurred_at.map(format),
            "received_at": format(self.received_at), "conflict": self.is_conflict,
            "receipts": receipts,
        })
    }
}

impl ReceiptView {
    fn json(&self) -> Json {
        json!({"at": format(self.at), "sent_at": format(self.sent_at),
            "webhook_id": self.webhook_id, "kid": self.kid, "outcome": self.outcome,
            "note": self.note})
    }
}

impl RunView {
    /// As the routes answer it.
    pub fn json(&self) -> Json {
        json!({"began_at": format(self.began_at), "ended_at": self.ended_at.map(format),
            "outcome": self.outcome})
    }
}

const COLUMNS: &str = "e.id as id, e.event_id as event_id, e.type as type, \
    a.account_id as account_id, e.customer_id as customer_id, e.status as status, \
    e.result as result, e.seen as seen, e.attempts as attempts, e.next_at_ms as next_at_ms, \
    e.occurred_ms as occurred_ms, e.received_at_ms as received_at_ms, e.conflict as conflict \
    from event e left join account a on a.customer_id = e.customer_id";

/// A page of events, newest first, with their receipts; `after` is the last id of the page before.
pub async fn list(
    db: &dyn Db,
    filter: &Filter,
    after: Option<&str>,
    rows: i64,
) -> Result<Vec<EventView>, Fault> {
    // The text differs by what is asked, so that each runs along one index.
    let mut wheres = vec!["(?1 is null or e.id < ?1)"];
    wheres.push(match &filter.account {
        Some(_) => "a.account_id = ?2",
        None => "?2 is null and coalesce(a.demo, 0) = 0",
    });
    if filter.status.is_some() {
        wheres.push("e.status = ?3");
    }
    let sql = format!(
        "select {COLUMNS} where {} and (?3 is null or e.status = ?3) \
         and (?4 is null or e.type = ?4) and (?5 is null or e.received_at_ms >= ?5) \
         and (?6 is null or e.received_at_ms < ?6) order by e.id desc limit cast(?7 as integer)",
        wheres.join(" and ")
    );
    let found = db
        .query(Statement::new(
            sql,
            params![
                after,
                filter.account.as_ref().map(AccountId::as_str),
                filter.status.as_deref(),
                filter.type_name.as_deref(),
                filter.from,
                filter.to,
                rows
            ],
        ))
        .await?;
    let mut events = found
        .iter()
        .map(EventView::of_row)
        .collect::<Result<Vec<_>, _>>()?;
    add_receipts(db, &mut events).await?;
    Ok(events)
}

async fn add_receipts(db: &dyn Db, events: &mut [EventView]) -> Result<(), Fault> {
    let ids: Vec<&str> = events.iter().map(|event| event.id.as_str()).collect();
    let rows = db
        .query(Statement::new(
            "select id, at_ms, sent_at_ms, webhook_id, kid, outcome, note from receipt \
             where id in (select value from json_each(?1)) order by id, number",
            params![json!(ids).to_string()],
        ))
        .await?;
    for row in &rows {
        let id = row.text("id")?;
        let text = |name: &str| row.opt_text(name).map(|text| text.map(str::to_owned));
        if let Some(event) = events.iter_mut().find(|event| event.id == id) {
            event.receipts.push(ReceiptView {
                at: row.millis("at_ms")?,
                sent_at: row.millis("sent_at_ms")?,
                webhook_id: text("webhook_id")?,
                kid: row.text("kid")?.to_owned(),
                outcome: row.text("outcome")?.to_owned(),
                note: text("note")?,
            });
        }
    }
    Ok(())
}

/// The payloads of these events, while they are kept and not too long for a list.
pub async fn payloads(
    db: &dyn Db,
    events: &[EventView],
) -> Result<BTreeMap<String, String>, Fault> {
    let ids: Vec<&str> = events.iter().map(|event| event.id.as_str()).collect();
    let rows = db
        .query(Statement::new(
            "select id, body from event where id in (select value from json_each(?1)) \
             and length(body) <= ?2",
            params![json!(ids).to_string(), PAYLOAD_LISTED_BYTES_MAX],
        ))
        .await?;
    rows.iter()
        .map(|row| Ok((row.text("id")?.to_owned(), row.text("body")?.to_owned())))
        .collect()
}

/// One event, its runs, and its body while that is kept.
pub async fn get(
    db: &dyn Db,
    id: &str,
    account: Option<&AccountId>,
) -> Result<Option<(EventView, Vec<RunView>, Option<String>)>, Fault> {
    let event = Statement::new(
        format!(
            "select e.body as body, {COLUMNS} where e.id = ?1 \
             and (?2 is null or a.account_id = ?2)"
        ),
        params![id, account.map(AccountId::as_str)],
    );
    let runs = Statement::new(
        "select began_at_ms, ended_at_ms, outcome from run where id = ?1 order by number",
        params![id],
    );
    let results = db.batch(vec![event, runs]).await?;
    let [found, runs] = results.as_slice() else {
        return Err(Fault::unavailable("read an event", "no answer"));
    };
    let Some(row) = found.first() else {
        return Ok(None);
    };
    let body = row.opt_text("body")?.map(str::to_owned);
    let mut events = [EventView::of_row(row)?];
    add_receipts(db, &mut events).await?;
    let runs = runs
        .iter()
        .map(|row| {
            Ok(RunView {
                began_at: row.millis("began_at_ms")?,
                ended_at: row.opt_millis("ended_at_ms")?,
                outcome: row.opt_text("outcome")?.map(str::to_owned),
            })
        })
        .collect::<Result<_, Fault>>()?;
    let [event] = events;
    Ok(Some((event, runs, body)))
}

/// Numbers for `/metrics`, demonstrations left out.
pub async fn gauges(world: &World) -> Result<Vec<(String, i64)>, Fault> {
    let now = world.now();
    // Ended events grow for ever: they are counted where they end, not here.
    let states = Statement::new(
        "select e.status as status, count(*) as n from event e \
         left join account a on a.customer_id = e.customer_id \
         where e.status in ('received', 'processing', 'waiting', 'failed', 'dead') \
         and coalesce(a.demo, 0) = 0 group by e.status",
        params![],
    );
    let oldest = Statement::new(
        "select min(e.received_at_ms) as at_ms from event e \
         left join account a on a.customer_id = e.customer_id \
         where e.status in ('received', 'processing', 'waiting', 'failed') \
         and coalesce(a.demo, 0) = 0",
        params![],
    );
    let last = Statement::new(
        "select r.at_ms as at_ms from receipt r join event e on e.id = r.id \
         left join account a on a.customer_id = e.customer_id where coalesce(a.demo, 0) = 0 \
         order by r.at_ms desc limit 1",
        params![],
    );
    let unsent = Statement::new(
        "select count(*) as n from alert where next_at_ms is not null",
        params![],
    );
    let results = world.db.batch(vec![states, oldest, last, unsent]).await?;
    let [states, oldest, last, unsent] = results.as_slice() else {
        return Err(Fault::unavailable("read the inbox's numbers", "no answer"));
    };
    let mut gauges = Vec::new();
    for state in STATES.into_iter().filter(|state| !ENDED.contains(state)) {
        let row = states.iter().find(|row| row.text("status") == Ok(state));
        let count = row.map_or(Ok(0), |row| row.int("n"))?;
        gauges.push((format!("counterfoil_events{{status=\"{state}\"}}"), count));
    }
    let at = |rows: &[Row]| rows.first().map_or(Ok(None), |row| row.opt_millis("at_ms"));
    let age = at(oldest)?.map_or(0, |at| now.since(at) / 1000);
    let name = "counterfoil_oldest_waiting_event_seconds";
    gauges.push((name.to_owned(), age));
    if let Some(at) = at(last)? {
        let name = "counterfoil_hours_since_last_delivery";
        gauges.push((name.to_owned(), now.since(at) / 3_600_000));
    }
    let waiting = unsent.first().map_or(Ok(0), |row| row.int("n"))?;
    gauges.push(("counterfoil_alerts_waiting".to_owned(), waiting));
    Ok(gauges)
}
