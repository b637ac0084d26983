//! The inbox over HTTP.

use std::rc::Rc;

use serde_json::{Value, json};

use super::app::Call;
use super::auth::Role;
use super::list::{Page, moment_param};
use super::reply::{Answer, Failure, Problem, Response};
use crate::inbox::keys::COOL_DOWN_MS;
use crate::inbox::lane;
use crate::inbox::listing::{self, Filter, STATES};
use crate::inbox::receive::receive;
use crate::inbox::replay::{self, Bulk};
use crate::inbox::token::Refused;
use crate::limits::REASON_CHARS_MAX;

/// States from which many events are put back together.
const REPLAYED: [&str; 6] = ["applied", "ignored", "skipped", "dead", "failed", "waiting"];

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let status = match refused {
            Refused::NotAJwt => 400,
            Refused::Algorithm
            | Refused::UnknownKey
            | Refused::Signature
            | Refused::WrongToken
            | Refused::Stale => 401,
            Refused::TooLarge => 413,
            Refused::NoKeys => 503,
        };
        let problem = Self::new(status, refused.code(), refused.message());
        match refused {
            Refused::NoKeys => problem.retry_after(COOL_DOWN_MS / 1000),
            Refused::NotAJwt
            | Refused::Algorithm
            | Refused::UnknownKey
            | Refused::Signature
            | Refused::WrongToken
            | Refused::Stale
            | Refused::TooLarge => problem,
        }
    }
}

impl From<replay::Refused> for Problem {
    fn from(refused: replay::Refused) -> Self {
        let status = match refused {
            replay::Refused::NotFound => 404,
            replay::Refused::InWork | replay::Refused::Applied => 409,
        };
        Self::new(status, refused.code(), refused.message())
    }
}

/// `POST /webhooks/kinde`
pub async fn receive_webhook(call: Call) -> Answer {
    let webhook_id = call.request.header("webhook-id");
    let outcome = receive(&call.world, &call.request.body, webhook_id).await?;
    let received = outcome.map_err(Problem::from)?;
    Ok(Response::json(
        200,
        &json!({"id": received.id, "copy": received.is_copy}),
    ))
}

/// What a list of events is asked for: 422 where a part does not read.
pub fn filter(call: &Call) -> Result<Filter, Problem> {
    let text = |name: &str| {
        call.request
            .query_param(name)
            .filter(|text| !text.is_empty())
    };
    let status = text("status");
    if status
        .as_deref()
        .is_some_and(|status| !STATES.contains(&status))
    {
        return Err(Problem::field("status", "There is no such status."));
    }
    Ok(Filter {
        account: call
            .account
            .as_ref()
            .map(|account| account.account_id.clone()),
        status,
        type_name: text("type"),
        from: moment_param(&call.request, "from")?,
        to: moment_param(&call.request, "to")?,
    })
}

/// `GET /v1/events`
pub async fn list_events(call: Call) -> Answer {
    let page = Page::of(&call.request)?;
    let filter = filter(&call)?;
    let db = &*call.world.db;
    let rows = listing::list(db, &filter, page.after.as_deref(), page.rows()).await?;
    let is_operator = call.caller()?.role == Role::Operator;
    if !is_operator {
        return Ok(page.answer(rows, |event| event.id.clone(), listing::EventView::json));
    }
    let (events, next) = page.cut(rows, |event| event.id.clone());
    let payloads = listing::payloads(db, &events).await?;
    let items: Vec<String> = (events.iter())
        .map(|event| with_payload(&event.json(), payloads.get(&event.id).map(String::as_str)))
        .collect();
    let text = format!(
        "{{\"items\":[{}],\"next\":{}}}",
        items.join(","),
        json!(next)
    );
    Ok(Response::of(200, "application/json", text))
}

/// The payload goes out as it came, so that no digit of its numbers is lost.
fn with_payload(event: &Value, payload: Option<&str>) -> String {
    let mut text = event.to_string();
    if text.pop() == Some('}') {
        text.push_str(",\"payload\":");
        text.push_str(payload.unwrap_or("null"));
        text.push('}');
    }
    text
}

/// `GET /v1/events/{id}`
pub async fn get_event(call: Call) -> Answer {
    let account = call.account.as_ref().map(|account| &account.account_id);
    let db = &*call.world.db;
    let found = listing::get(db, call.path_value(0)?, account).await?;
    let (event, runs, body) = found.ok_or_else(Problem::not_found)?;
    let mut answer = event.json();
    if let Some(members) = answer.as_object_mut() {
        let runs = runs.iter().map(listing::RunView::json).collect();
        members.insert("runs".to_owned(), Value::Array(runs));
    }
    let text = match call.caller()?.role {
        Role::Operator => with_payload(&answer, body.as_deref()),
        Role::Backend | Role::Account => answer.to_string(),
    };
    Ok(Response::of(200, "application/json", text))
}

/// `POST /v1/events/{id}/replay`
pub async fn replay_event(call: Call) -> Answer {
    call.fields()?.finish()?;
    let account = call.account.as_ref().map(|account| &account.account_id);
    let (world, id) = (&call.world, call.path_value(0)?);
    let lane = replay::replay(world, id, account, &call.caller()?.name).await?;
    wake(&call, vec![lane.map_err(Problem::from)?]);
    Ok(Response::json(
        202,
        &json!({"id": id, "status": "received"}),
    ))
}

/// Runs lanes behind the answer, one after the other.
fn wake(call: &Call, lanes: Vec<String>) {
    let world = Rc::clone(&call.world);
    call.world.background.spawn(Box::pin(async move {
        for name in lanes {
            if let Err(fault) = lane::run(&world, &name).await {
                let fields = json!({"lane": name, "cause": fault.to_string()});
                world.log.line("error", "inbox.lane_fault", fields);
            }
        }
    }));
}

/// `POST /v1/events/replay`
pub async fn replay_events(call: Call) -> Answer {
    let mut fields = call.fields()?;
    let status = fields.opt_text("status")?;
    let status = status.filter(|status| REPLAYED.contains(&status.as_str()));
    let detail = "It must be applied, ignored, skipped, dead, failed or waiting.";
    let status = status.ok_or_else(|| fields.wrong("status", detail))?;
    let bulk = Bulk {
        account: call.account.as_ref().map(|one| one.account_id.clone()),
        status,
        type_name: fields.opt_text("type")?,
        since: fields.opt_moment("since")?,
        until: fields.opt_moment("until")?,
    };
    fields.finish()?;
    let actor = &call.caller()?.name;
    let (queued, lanes) = replay::replay_many(&call.world, &bulk, actor).await?;
    wake(&call, lanes);
    Ok(Response::json(202, &json!({"queued": queued})))
}

/// `POST /v1/events/{id}/skip`
pub async fn skip_event(call: Call) -> Answer {
    let mut fields = call.fields()?;
    let reason = reason(&mut fields)?;
    fields.finish()?;
    let (world, id) = (&call.world, call.path_value(0)?);
    let account = call.account.as_ref().map(|account| &account.account_id);
    let skipped = replay::skip(world, id, account, &reason, &call.caller()?.name).await?;
    skipped.map_err(Problem::from)?;
    Ok(Response::json(202, &json!({"id": id, "status": "skipped"})))
}

fn reason(fields: &mut super::body::Fields) -> Result<String, Failure> {
    let text = fields.opt_text("reason")?;
    let text = text.map(|text| text.trim().to_owned());
    let fits = |text: &String| (1..=REASON_CHARS_MAX).contains(&text.chars().count());
    let text = text.filter(fits);
    Ok(text.ok_or_else(|| fields.wrong("reason", "Say why, in 1 to 500 characters."))?)
}
