//! The stand-in's webhooks: signs an event and delivers it until it is answered 200.
//!
//! A delivery to this Worker goes through the production intake inside the process, because a
//! local server cannot always call itself; any other loopback address gets it over HTTP.

use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::wire::{EventAsk, Reply};
use super::{customers, keys};
use crate::fault::Fault;
use crate::http::app;
use crate::http::request::{Body, Method, Request};
use crate::limits::BODY_BYTES_MAX;
use crate::moment;
use crate::object::Object;
use crate::params;
use crate::ports::{Outgoing, Row};
use crate::units::Millis;

/// Kinde's pauses between attempts: 5 s, 30 s, 2 min, 10 min, 1 h, 4 h, then every 12 h.
const PAUSES_MS: [i64; 6] = [5_000, 30_000, 120_000, 600_000, 3_600_000, 14_400_000];
const LAST_PAUSE_MS: i64 = 43_200_000;
/// Kinde gives a delivery up then.
const GIVEN_UP_MS: i64 = 129_600_000;
/// Deliveries of one wake-up; the next one follows at once where more are due.
const DELIVERIES_MAX: i64 = 50;
/// The name of what the object owes for deliveries.
const DELIVERY: &str = "delivery";
/// Kinde's times carry their tenant's offset.
const OFFSET_MS: i64 = 11 * 3_600_000;

struct Delivery {
    number: i64,
    target: String,
    webhook_id: String,
    jwt: String,
}

/// Signs an event and delivers it; gives the token, its ids and how each delivery was answered.
pub async fn post(object: &Object, ask: &EventAsk) -> Result<Reply, Fault> {
    let key = keys::current(object).await?;
    let event_id = match &ask.event_id {
        Some(event_id) => event_id.clone(),
        None => customers::mint(object, "event_")?,
    };
    let webhook_id = match &ask.webhook_id {
        Some(webhook_id) => webhook_id.clone(),
        None => webhook_id_of(&event_id),
    };
    let now = object.now()?;
    let number = number_of_event(object)?;
    let payload = payload(ask, &event_id, now, number);
    let jwt = key.sign(object, &payload).await?;
    if ask.deliver > 0 && jwt.len() > BODY_BYTES_MAX {
        let detail = "The signed event is larger than the 256 KiB that are received.";
        let (field, detail) = ("data".to_owned(), detail.to_owned());
        return Ok(Reply::Wrong { field, detail });
    }
    let mut answers = Vec::new();
    for _ in 0..ask.deliver {
        let now = object.now()?;
        let rows = object.sql.query(
            "insert into delivery \
             (target, webhook_id, jwt, attempts, made_at_ms, next_at_ms) \
             values (?1, ?2, ?3, 0, ?4, ?4) returning number, target, webhook_id, jwt",
            &params![ask.to.as_str(), webhook_id.as_str(), jwt.as_str(), now],
        )?;
        for row in &rows {
            answers.push(attempt(object, &delivery_of(row)?).await?);
        }
    }
    owe(object)?;
    let mut signed = json!({"jwt": jwt, "webhook_id": webhook_id, "event_id": event_id});
    if let (1.., Some(members)) = (ask.deliver, signed.as_object_mut()) {
        members.insert("answers".to_owned(), json!(answers));
    }
    Ok(Reply::Done(signed))
}

/// Makes every delivery whose time has come.
pub async fn deliver_due(object: &Object) -> Result<(), Fault> {
    let rows = object.sql.query(
        "select number, target, webhook_id, jwt from delivery where next_at_ms <= ?1 \
         order by next_at_ms, number limit cast(?2 as integer)",
        &params![object.now()?, DELIVERIES_MAX],
    )?;
    for row in &rows {
        attempt(object, &delivery_of(row)?).await?;
    }
    owe(object)
}

fn delivery_of(row: &Row) -> Result<Delivery, Fault> {
    Ok(Delivery {
        number: row.int("number")?,
        target: row.text("target")?.to_owned(),
        webhook_id: row.text("webhook_id")?.to_owned(),
        jwt: row.text("jwt")?.to_owned(),
    })
}

/// One attempt; gives the status, null where there was no answer. The next one is noted before
/// this one is made: a delivery that is lost on the way is made again.
async fn attempt(object: &Object, delivery: &Delivery) -> Result<Option<u16>, Fault> {
    let now = object.now()?;
    let sql = &*object.sql;
    let rows = sql.query(
        "update delivery set attempts = attempts + 1 where number = ?1 \
         returning attempts, made_at_ms",
        &params![delivery.number],
    )?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let done = usize::try_from(row.int("attempts")? - 1).unwrap_or(usize::MAX);
    let next = now.after(PAUSES_MS.get(done).copied().unwrap_or(LAST_PAUSE_MS));
    let until = row.millis("made_at_ms")?.after(GIVEN_UP_MS);
    sql.query(
        "update delivery set next_at_ms = ?2 where number = ?1",
        &params![delivery.number, next],
    )?;
    let status = sent(object, delivery).await;
    if status == Some(200) || next > until {
        sql.query(
            "delete from delivery where number = ?1",
            &params![delivery.number],
        )?;
    }
    Ok(status)
}

async fn sent(object: &Object, delivery: &Delivery) -> Option<u16> {
    let headers = vec![
        ("content-type".to_owned(), "application/jwt".to_owned()),
        ("webhook-id".to_owned(), delivery.webhook_id.clone()),
    ];
    if delivery.target.starts_with('/') {
        let origin = object.world.settings.public_url.clone();
        let request = Request {
            method: Method::Post,
            path: delivery.target.clone(),
            query: String::new(),
            origin: origin.unwrap_or_else(|| "http://localhost".to_owned()),
            headers,
            body: Body::Whole(delivery.jwt.clone().into_bytes()),
            peer: None,
            country: None,
        };
        let answer = app::handle(Rc::clone(&object.world), request).await;
        return Some(answer.status);
    }
    let request = Outgoing {
        method: "POST",
        url: delivery.target.clone(),
        headers,
        body: delivery.jwt.clone(),
    };
    match object.world.transport.send(request).await {
        Ok(answer) => Some(answer.status),
        Err(fault) => {
            let fields = json!({"target": delivery.target, "cause": fault.to_string()});
            object.world.log.line("info", "standin.undelivered", fields);
            None
        }
    }
}

fn owe(object: &Object) -> Result<(), Fault> {
    let rows = object
        .sql
        .query("select min(next_at_ms) as at_ms from delivery", &[])?;
    let at = rows
        .first()
        .map_or(Ok(None), |row| row.opt_millis("at_ms"))?;
    object.owe(DELIVERY, at)
}

/// The same for every delivery of an event, as the documentation has it.
fn webhook_id_of(event_id: &str) -> String {
    let digest = hmac_sha256::Hash::hash(event_id.as_bytes());
    let hex = digest.iter().take(16).map(|byte| format!("{byte:02x}"));
    format!("webhook_{}", hex.collect::<String>())
}

/// How many events were signed: the nanoseconds of their times, so that two events of one
/// millisecond have an order.
fn number_of_event(object: &Object) -> Result<i64, Fault> {
    let before = object.meta("events_signed")?;
    let number = before
        .and_then(|text| text.parse::<i64>().ok())
        .unwrap_or(0)
        + 1;
    object.set_meta("events_signed", &number.to_string())?;
    Ok(number)
}

/// The payload is the event: no issuer, audience or end, as in Kinde's own samples.
fn payload(ask: &EventAsk, event_id: &str, now: Millis, number: i64) -> Value {
    let mut data = Map::new();
    data.insert("customer_id".to_owned(), json!(ask.customer_id));
    data.extend(ask.data.clone());
    let time = |given: &Option<String>| given.clone().unwrap_or_else(|| kinde_time(now, number));
    json!({
        "type": ask.r#type,
        "event_id": event_id,
        "source": "api",
        "timestamp": time(&ask.timestamp),
        "event_timestamp": time(&ask.event_timestamp),
        "data": data,
    })
}

/// `2026-10-21T02:29:24.481368869+11:00`: nine digits and an offset, as Kinde writes it.
fn kinde_time(at: Millis, number: i64) -> String {
    let local = moment::format(at.after(OFFSET_MS));
    let local = local.trim_end_matches('Z');
    format!("{local}{:06}+11:00", number.rem_euclid(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_nine_digits_and_an_offset_and_reads_as_the_same_millisecond() {
        let at = Millis::new(1_792_510_164_481);
        let text = kinde_time(at, 368_869);
        assert_eq!(text, "2026-10-21T02:29:24.481368869+11:00");
        let read = moment::parse(&text).expect("a moment");
        assert_eq!((read.at, read.nanos), (at, 368_869));
    }
}
