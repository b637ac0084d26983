//! Alerts to `ALERT_URL`: raised as rows beside what they tell of, sent by cron, tried again until
//! they are taken. Nothing waits for them.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Value as Json, json};

use crate::fault::Fault;
use crate::moment;
use crate::params;
use crate::ports::{Outgoing, Row, Statement};
use crate::units::Millis;
use crate::world::World;

/// Alerts that one run sends at most, grouped by kind.
const SENT_PER_RUN_MAX: i64 = 200;
/// Tries before an alert is given up; with the waits below about a day.
const ATTEMPTS_MAX: i64 = 30;
/// The longest wait between two tries.
const WAIT_MAX_MS: i64 = 3_600_000;

/// Raises an alert, in the batch of what it tells of; once per kind and subject. Kinds: `dead`,
/// `conflict`, `quiet`, `drift`, `new_feed_epoch`, `missed_event`.
pub fn raise(kind: &str, subject: &str, detail: &Json, at: Millis) -> Statement {
    Statement::new(
        "insert into alert (kind, subject, detail, raised_at_ms, next_at_ms) \
         values (?1, ?2, ?3, ?4, ?4) on conflict (kind, subject) do nothing",
        params![kind, subject, detail.to_string(), at],
    )
}

/// Sends what is due, one request per kind, and gives how many alerts were taken. Without
/// `ALERT_URL` they stay on the page.
pub async fn send(world: &Rc<World>) -> Result<i64, Fault> {
    let Some(url) = world.settings.alert_url.clone() else {
        return Ok(0);
    };
    let now = world.now();
    let due = world
        .db
        .query(Statement::new(
            "select kind, subject, detail, raised_at_ms, attempts from alert \
             where next_at_ms <= ?1 order by next_at_ms, kind, subject \
             limit cast(?2 as integer)",
            params![now, SENT_PER_RUN_MAX],
        ))
        .await?;
    let mut kinds: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in due {
        kinds
            .entry(row.text("kind")?.to_owned())
            .or_default()
            .push(row);
    }
    let mut taken = 0;
    for (kind, rows) in kinds {
        let outcome = world
            .transport
            .send(request(world, &url, &kind, &rows)?)
            .await;
        let sent = outcome.is_ok_and(|answer| (200..300).contains(&answer.status));
        if sent {
            taken += i64::try_from(rows.len()).unwrap_or(0);
        }
        world.db.query(after(&kind, &rows, sent, now)?).await?;
    }
    Ok(taken)
}

fn request(world: &World, url: &str, kind: &str, rows: &[Row]) -> Result<Outgoing, Fault> {
    let items: Vec<Json> = rows
        .iter()
        .map(|row| {
            let detail: Json = serde_json::from_str(row.text("detail")?)
                .map_err(|e| Fault::unreadable("read an alert", e))?;
            let at = moment::format(row.millis("raised_at_ms")?);
            Ok(json!({"subject": row.text("subject")?, "at": at, "detail": detail}))
        })
        .collect::<Result<_, Fault>>()?;
    let body = json!({"service": "counterfoil", "kind": kind, "count": items.len(),
        "items": items});
    let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    if let Some(token) = &world.settings.alert_token {
        headers.push(("authorization".to_owned(), format!("Bearer {token}")));
    }
    Ok(Outgoing {
        method: "POST",
        url: url.to_owned(),
        headers,
        body: body.to_string(),
    })
}

/// Marks a group as sent, or puts it off, longer each time.
fn after(kind: &str, rows: &[Row], sent: bool, now: Millis) -> Result<Statement, Fault> {
    let subjects: Vec<&str> = rows
        .iter()
        .map(|row| row.text("subject"))
        .collect::<Result<_, _>>()?;
    let subjects = json!(subjects).to_string();
    Ok(if sent {
        Statement::new(
            "update alert set sent_at_ms = ?3, next_at_ms = null where kind = ?1 \
             and subject in (select value from json_each(?2))",
            params![kind, subjects, now],
        )
    } else {
        Statement::new(
            "update alert set attempts = attempts + 1, next_at_ms = case \
             when attempts + 1 >= ?4 then null \
             else cast(?3 as integer) + min(cast(?5 as integer), 60000 << min(attempts, 6)) end \
             where kind = ?1 and subject in (select value from json_each(?2))",
            params![kind, subjects, now, ATTEMPTS_MAX, WAIT_MAX_MS],
        )
    })
}
