//! The stand-in over HTTP: Kinde's paths as they are, and the controls (api.md, "Stand-in").

use std::collections::BTreeMap;

use serde_json::Value;
use url::Url;

use super::app::Call;
use super::body::whole_number;
use super::list::Page;
use super::reply::{Answer, Problem, Response};
use super::request::{Body, Method};
use crate::inbox::facts;
use crate::limits::CLOCK_OFFSET_MS_MAX;
use crate::moment;
use crate::provider::standin::wire::{Ask, EventAsk, HttpAsk, PlanChange, PutCustomer, Reply};
use crate::provider::standin::{self, clock};
use crate::units::{AgreementId, Millis, PlanCode, SAFE_MAX, is_path_id};

/// Where the Worker takes the provider's webhooks.
const INTAKE: &str = "/webhooks/kinde";
/// Deliveries of one event that may be asked for; nobody needs to wait for more.
const DELIVERIES_MAX: i64 = 1000;
/// Characters of what an event is told to say.
const TEXT_CHARS_MAX: usize = 200;

/// `POST /standin/oauth2/token` and Kinde's other paths; the stand-in looks at them itself.
pub async fn stand_in_api(call: Call) -> Answer {
    let Body::Whole(bytes) = &call.request.body else {
        return Err(Problem::new(413, "too_large", "The body is larger than 256 KiB.").into());
    };
    let header = |name: &str| call.request.header(name).map(str::to_owned);
    let path = call.spec.pattern.strip_prefix("/standin");
    let method = match call.request.method {
        Method::Head => Method::Get,
        method => method,
    };
    let ask = HttpAsk {
        method: method.name().to_owned(),
        path: path.unwrap_or_default().to_owned(),
        query: call.request.query.clone(),
        authorization: header("authorization"),
        content_type: header("content-type"),
        body: String::from_utf8_lossy(bytes).into_owned(),
    };
    answer(standin::ask(&*call.world.objects, Ask::Http(ask)).await?)
}

/// `PUT /standin/customers/{customer_id}` and the other controls.
pub async fn stand_in_control(call: Call) -> Answer {
    let ask = match (call.request.method, call.spec.pattern) {
        (Method::Put, "/standin/customers/{customer_id}") => customer(&call)?,
        (Method::Put, "/standin/meters/{agreement_id}/{feature}") => {
            let mut fields = call.fields()?;
            let total = fields.units("total", 0)?.get();
            fields.finish()?;
            Ask::PutMeter {
                agreement_id: call.path_value(0)?.to_owned(),
                feature: call.path_value(1)?.to_owned(),
                total,
            }
        }
        (_, "/standin/meters/{agreement_id}/{feature}") => Ask::GetMeter {
            agreement_id: call.path_value(0)?.to_owned(),
            feature: call.path_value(1)?.to_owned(),
        },
        (_, "/standin/faults") => fault(&call)?,
        (_, "/standin/events") => event(&call)?,
        (_, "/standin/keys/rotate") => {
            let mut fields = call.fields()?;
            let drop = fields.opt_bool("drop")?.unwrap_or(false);
            fields.finish()?;
            Ask::RotateKeys { drop }
        }
        (_, "/standin/clock") => return answer(set_clock(&call).await?),
        (_, "/standin/calls") => calls(&call)?,
        _ => return Err(Problem::not_found().into()),
    };
    answer(standin::ask(&*call.world.objects, ask).await?)
}

fn answer(reply: Reply) -> Answer {
    match reply {
        Reply::Done(value) => Ok(Response::json(200, &value)),
        Reply::NotFound => Err(Problem::not_found().into()),
        Reply::Wrong { field, detail } => Err(Problem::field(&field, detail).into()),
        // Over HTTP an answer cannot be lost on the way: a gateway that gave up says so.
        Reply::Lost { .. } => Ok(Response::empty(504)),
        Reply::Http {
            status,
            headers,
            body,
        } => {
            let mut response = Response::empty(status);
            response.headers = headers;
            response.body = body.into_bytes();
            Ok(response)
        }
    }
}

fn customer(call: &Call) -> Result<Ask, Problem> {
    let mut fields = call.fields()?;
    let plan = match fields.take("plan") {
        None => PlanChange::Keep,
        Some(Value::Null) => PlanChange::End,
        Some(Value::String(plan)) if PlanCode::new(plan.clone()).is_some() => PlanChange::To(plan),
        Some(_) => return Err(fields.wrong("plan", "It must be a plan's code, or null.")),
    };
    let agreement_id = fields.opt_id("agreement_id", AgreementId::new)?;
    let limits = match fields.take("limits") {
        None | Some(Value::Null) => None,
        Some(value) => Some(limits(value)?),
    };
    let change = PutCustomer {
        customer_id: call.path_value(0)?.to_owned(),
        plan,
        agreement_id: agreement_id.map(|id| id.to_string()),
        limits,
        period_start_ms: fields.opt_moment("period_start")?.map(Millis::get),
        period_end_ms: fields.opt_moment("period_end")?.map(Millis::get),
    };
    fields.finish()?;
    Ok(Ask::PutCustomer(change))
}

fn limits(value: Value) -> Result<BTreeMap<String, Option<i64>>, Problem> {
    let wrong = |field: &str, detail: &str| Problem::field(&format!("limits{field}"), detail);
    let Value::Object(members) = value else {
        return Err(wrong("", "It must be an object."));
    };
    let mut limits = BTreeMap::new();
    for (feature, limit) in members {
        let number = match &limit {
            Value::Null => None,
            limit => {
                let number = whole_number(limit).filter(|n| (0..=SAFE_MAX).contains(n));
                let detail = "It must be a whole number from 0, or null.";
                Some(number.ok_or_else(|| wrong(&format!(".{feature}"), detail))?)
            }
        };
        if !is_path_id(&feature) {
            return Err(wrong("", "A feature's key does not have the right form."));
        }
        limits.insert(feature, number);
    }
    Ok(limits)
}

fn fault(call: &Call) -> Result<Ask, Problem> {
    let mut fields = call.fields()?;
    let operation = fields.opt_text("operation")?;
    let operation = operation.ok_or_else(|| fields.wrong("operation", "It is required."))?;
    let mode = fields.opt_text("mode")?;
    let mode = mode.ok_or_else(|| fields.wrong("mode", "It is required."))?;
    let times = fields.opt_int("times", 1, SAFE_MAX)?;
    fields.finish()?;
    Ok(Ask::PutFault {
        operation,
        mode,
        times,
    })
}

fn event(call: &Call) -> Result<Ask, Problem> {
    let mut fields = call.fields()?;
    let mut text = |name: &'static str| match fields.opt_text(name)? {
        Some(text) if text.is_empty() || text.chars().count() > TEXT_CHARS_MAX => {
            let detail = format!("It must have 1 to {TEXT_CHARS_MAX} characters.");
            Err(fields.wrong(name, &detail))
        }
        text => Ok(text),
    };
    let kind = text("type")?.ok_or_else(|| Problem::field("type", "It is required."))?;
    let customer_id = text("customer_id")?;
    let customer_id =
        customer_id.ok_or_else(|| Problem::field("customer_id", "It is required."))?;
    let event_id = text("event_id")?;
    let webhook_id = text("webhook_id")?;
    let event_timestamp = text("event_timestamp")?;
    let timestamp = text("timestamp")?;
    let to = text("to")?;
    if webhook_id
        .as_deref()
        .is_some_and(|id| !id.bytes().all(|b| b.is_ascii_graphic()))
    {
        return Err(Problem::field("webhook_id", "It must be visible ASCII."));
    }
    let data = match fields.take("data") {
        None | Some(Value::Null) => BTreeMap::new(),
        Some(Value::Object(data)) => data.into_iter().collect(),
        Some(_) => return Err(fields.wrong("data", "It must be an object.")),
    };
    let deliver = fields.opt_int("deliver", 0, DELIVERIES_MAX)?.unwrap_or(1);
    fields.finish()?;
    // What is only signed may be a forgery, for a test of who receives it.
    if deliver > 0 {
        let event_id = event_id.as_deref();
        must_read("type", Some(&kind), facts::is_type_name)?;
        must_read("event_id", event_id, facts::is_event_id)?;
        must_read("timestamp", timestamp.as_deref(), |text| {
            moment::parse(text).is_some()
        })?;
    }
    Ok(Ask::Event(EventAsk {
        r#type: kind,
        customer_id,
        data,
        event_id,
        webhook_id,
        event_timestamp,
        timestamp,
        deliver: u32::try_from(deliver).unwrap_or(0),
        to: match to {
            None => INTAKE.to_owned(),
            Some(to) => target(call, &to)?,
        },
    }))
}

/// 422 where our own inbox would refuse every delivery of the event for this text.
fn must_read(field: &str, text: Option<&str>, reads: fn(&str) -> bool) -> Result<(), Problem> {
    if text.is_none_or(reads) {
        return Ok(());
    }
    let detail = "No webhook has one of this form. With `deliver` 0 it is signed all the same.";
    Err(Problem::field(field, detail))
}

/// Where an event may be delivered: to this Worker itself, which gives a path, or to a loopback
/// address. Nobody else gets requests from a stand-in that somebody left switched on.
fn target(call: &Call, to: &str) -> Result<String, Problem> {
    let wrong = || Problem::field("to", "It must be this Worker's or a loopback address.");
    if to.starts_with('/') && !to.starts_with("//") {
        return Ok(to.to_owned());
    }
    let url = Url::parse(to).map_err(|_| wrong())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong());
    }
    let own = [
        Some(&call.request.origin),
        call.world.settings.public_url.as_ref(),
    ];
    let is_own = |base: &String| Url::parse(base).is_ok_and(|base| base.origin() == url.origin());
    if own.into_iter().flatten().any(is_own) {
        return Ok(url.path().to_owned());
    }
    match url.host_str() {
        Some("localhost" | "127.0.0.1" | "[::1]") => Ok(url.into()),
        _ => Err(wrong()),
    }
}

async fn set_clock(call: &Call) -> Result<Reply, super::reply::Failure> {
    let mut fields = call.fields()?;
    let offset_ms = fields.opt_int("offset_ms", -CLOCK_OFFSET_MS_MAX, CLOCK_OFFSET_MS_MAX)?;
    let offset_ms = offset_ms.ok_or_else(|| fields.wrong("offset_ms", "It is required."))?;
    fields.finish()?;
    Ok(clock::set(&call.world, offset_ms).await?)
}

fn calls(call: &Call) -> Result<Ask, Problem> {
    let page = Page::of(&call.request)?;
    let before = page.number()?;
    Ok(Ask::Calls {
        limit: page.limit,
        before,
    })
}
