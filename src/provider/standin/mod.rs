//! The built-in provider: speaks Kinde's HTTP API, signs its own webhooks, fails on demand.
//!
//! One object holds all of it. Its API (`api`) is strict and asks for the stand-in's own token; its
//! controls (api.md, "Stand-in") are the operator's. It exists only with `PROVIDER=standin`.

mod api;
mod calls;
pub mod clock;
mod customers;
mod events;
pub mod faults;
mod keys;
mod lists;
mod meters;
mod schema;
mod tokens;
pub mod wire;

use std::cell::Cell;
use std::rc::Rc;

use serde_json::json;

use crate::fault::Fault;
use crate::object::Object;
use crate::ports::{Incoming, Later, ObjectName, Objects, Outgoing, Transport};
use crate::settings::Settings;
use wire::{Ask, HttpAsk, Message, Reply};

/// The tenant's address; reached inside the process only.
pub const ORIGIN: &str = "https://standin.kinde.invalid";

/// The application's credentials where none are set: there is nothing behind them but this.
const CLIENT_ID: &str = "standin";
const CLIENT_SECRET: &str = "standin-secret";

/// The machine-to-machine application that the stand-in knows: id and secret.
pub fn credentials(settings: &Settings) -> (String, String) {
    let of = &settings.kinde;
    (
        of.client_id.clone().unwrap_or_else(|| CLIENT_ID.to_owned()),
        (of.client_secret.clone()).unwrap_or_else(|| CLIENT_SECRET.to_owned()),
    )
}

/// Asks the stand-in.
pub async fn ask(objects: &dyn Objects, ask: Ask) -> Result<Reply, Fault> {
    let message = json!(Message { v: 1, ask }).to_string();
    let answer = objects.ask(ObjectName::StandIn, message).await?;
    serde_json::from_str(&answer)
        .map_err(|error| Fault::unreadable("read the stand-in's answer", error))
}

/// The stand-in, awake.
pub struct StandInObject {
    object: Object,
    /// Whether this instance has looked at its schema; it stays as it is while we are awake.
    awake: Cell<bool>,
    calls: calls::Waiting,
}

impl StandInObject {
    /// Wakes on its storage.
    pub fn new(object: Object) -> Self {
        Self {
            object,
            awake: Cell::new(false),
            calls: calls::Waiting::default(),
        }
    }

    fn wake(&self) -> Result<(), Fault> {
        if !self.awake.get() {
            self.object.wake(schema::STEPS)?;
            self.awake.set(true);
        }
        Ok(())
    }

    /// Answers a message.
    pub async fn ask(&self, message: &str) -> Result<String, Fault> {
        self.wake()?;
        let message: Message = serde_json::from_str(message)
            .map_err(|error| Fault::unreadable("read a message to the stand-in", error))?;
        let outcome = self.answer(&message.ask).await;
        self.object.arm().await?;
        Ok(json!(outcome?).to_string())
    }

    async fn answer(&self, ask: &Ask) -> Result<Reply, Fault> {
        let object = &self.object;
        match ask {
            // Before anything reads the time: the first offset may be negative, and an object's
            // time never goes back.
            Ask::Offset => return clock::offset(object),
            Ask::Clock { offset_ms } => return clock::store_offset(object, *offset_ms),
            _ => {}
        }
        let now = object.now()?;
        meters::apply_due(object, now)?;
        let sql = &*object.sql;
        match ask {
            Ask::Offset | Ask::Clock { .. } => Ok(Reply::NotFound),
            Ask::Http(request) => api::answer(object, &self.calls, request, now).await,
            Ask::PutCustomer(change) => customers::put(object, change, now),
            Ask::GetMeter {
                agreement_id,
                feature,
            } => meter(object, agreement_id, feature),
            Ask::PutMeter {
                agreement_id,
                feature,
                total,
            } => {
                meters::move_to(object, agreement_id, feature, *total, now)?;
                meter(object, agreement_id, feature)
            }
            Ask::PutFault {
                operation,
                mode,
                times,
            } => put_fault(object, operation, mode, *times),
            Ask::Event(event) => events::post(object, event).await,
            Ask::RotateKeys { drop } => Ok(Reply::Done(keys::rotate(object, *drop).await?)),
            Ask::Calls { limit, before } => {
                self.calls.store(object)?;
                Ok(Reply::Done(calls::list(sql, *limit, *before)?))
            }
        }
    }

    /// Does what is due.
    pub async fn alarm(&self) -> Result<(), Fault> {
        self.object.alarm_fired();
        self.wake()?;
        let outcome = self.due().await;
        self.object.arm().await?;
        outcome
    }

    async fn due(&self) -> Result<(), Fault> {
        meters::apply_due(&self.object, self.object.now()?)?;
        self.calls.store_due(&self.object)?;
        events::deliver_due(&self.object).await
    }
}

fn meter(object: &Object, agreement_id: &str, feature: &str) -> Result<Reply, Fault> {
    let found = meters::describe(object, agreement_id, feature, object.now()?)?;
    Ok(found.map_or(Reply::NotFound, Reply::Done))
}

fn put_fault(
    object: &Object,
    operation: &str,
    mode: &str,
    times: Option<i64>,
) -> Result<Reply, Fault> {
    let wrong = |field: &str| Reply::Wrong {
        field: field.to_owned(),
        detail: "There is no such one.".to_owned(),
    };
    let Some(known) = faults::Operation::parse(operation) else {
        return Ok(wrong("operation"));
    };
    let parsed = faults::Mode::parse(mode);
    if parsed.is_none() && mode != "ok" {
        return Ok(wrong("mode"));
    }
    faults::put(&*object.sql, known, parsed, times)?;
    let set = json!({"operation": operation, "mode": mode, "times": times});
    Ok(Reply::Done(set))
}

/// [`Transport`] to the stand-in, inside the process.
pub struct InProcess {
    objects: Rc<dyn Objects>,
}

impl InProcess {
    /// Through the port of objects.
    pub fn new(objects: &Rc<dyn Objects>) -> Self {
        Self {
            objects: Rc::clone(objects),
        }
    }
}

impl Transport for InProcess {
    fn send(&self, request: Outgoing) -> Later<'_, Result<Incoming, Fault>> {
        Box::pin(async move {
            let lost = |why: &str| Fault::unavailable("ask the stand-in", why);
            let target = request.url.strip_prefix(ORIGIN);
            let target = target.ok_or_else(|| lost("it is another address"))?;
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let header = |name: &str| {
                let found = request.headers.iter().find(|(key, _)| key == name);
                found.map(|(_, value)| value.clone())
            };
            let http = HttpAsk {
                method: request.method.to_owned(),
                path: path.to_owned(),
                query: query.to_owned(),
                authorization: header("authorization"),
                content_type: header("content-type"),
                body: request.body.clone(),
            };
            match ask(&*self.objects, Ask::Http(http)).await? {
                Reply::Http {
                    status,
                    headers,
                    body,
                } => Ok(Incoming {
                    status,
                    headers,
                    body,
                }),
                Reply::Lost { why } => Err(lost(&why)),
                Reply::Done(_) | Reply::NotFound | Reply::Wrong { .. } => {
                    Err(lost("it is another answer"))
                }
            }
        })
    }
}

#[cfg(test)]
mod tests;
