//! Kinde's own paths, spoken strictly: what Kinde's documentation does not allow is refused, so
//! that a client that works here has kept to it.

use serde_json::{Value, json};
use url::form_urlencoded;

use super::calls::Waiting;
use super::faults::{self, Mode, Operation};
use super::meters::{Kind, Write, WriteRefused};
use super::wire::{HttpAsk, Reply};
use super::{keys, lists, meters, tokens};
use crate::fault::Fault;
use crate::moment;
use crate::object::Object;
use crate::provider::wire as kinde;
use crate::units::{Millis, SAFE_MAX};

/// A refusal by the management API.
pub struct Refused {
    pub status: u16,
    pub code: &'static str,
    pub message: String,
}

impl Refused {
    /// 400.
    pub fn bad(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status: 400,
            code,
            message: message.into(),
        }
    }
}

impl From<WriteRefused> for Refused {
    fn from(why: WriteRefused) -> Self {
        let (code, message) = why.told();
        Self::bad(code, message)
    }
}

/// What serving a request gives: JSON for a 200, or a refusal.
pub type Served = Result<Value, Refused>;

/// Answers a request, fails as it was told to, and keeps the call.
pub async fn answer(
    object: &Object,
    waiting: &Waiting,
    ask: &HttpAsk,
    now: Millis,
) -> Result<Reply, Fault> {
    let Some(operation) = operation_of(ask) else {
        let reply = not_found();
        waiting.keep(object, now, "none", ask, (&reply, None))?;
        return Ok(reply);
    };
    let asked = Asked {
        object,
        operation,
        ask,
        parameters: Parameters::of(&ask.query),
        now,
    };
    let fault = faults::take(&*object.sql, operation, asked.is_first_page())?;
    let reply = match fault {
        None => asked.serve(None).await?,
        Some(mode) => asked.failing(mode).await?,
    };
    waiting.keep(object, now, operation.name(), ask, (&reply, fault))?;
    Ok(reply)
}

/// A request of a known operation.
struct Asked<'a> {
    object: &'a Object,
    operation: Operation,
    ask: &'a HttpAsk,
    parameters: Parameters,
    now: Millis,
}

fn operation_of(ask: &HttpAsk) -> Option<Operation> {
    match (ask.method.as_str(), ask.path.as_str()) {
        ("POST", kinde::TOKEN) => Some(Operation::Token),
        ("GET", kinde::JWKS) => Some(Operation::Jwks),
        ("GET", kinde::ENTITLEMENTS) => Some(Operation::Limit),
        ("GET", kinde::AGREEMENTS) => Some(Operation::Plan),
        ("GET", kinde::METER_USAGE) => Some(Operation::MeterRead),
        ("POST", kinde::METER_USAGE) => Some(Operation::MeterWrite),
        _ => None,
    }
}

impl Asked<'_> {
    fn is_first_page(&self) -> bool {
        self.is_list() && self.parameters.get("starting_after").is_none()
    }

    const fn is_list(&self) -> bool {
        matches!(self.operation, Operation::Limit | Operation::Plan)
    }

    async fn failing(&self, mode: Mode) -> Result<Reply, Fault> {
        let lost = || Reply::Lost {
            why: format!("the stand-in was told to fail: {}", mode.name()),
        };
        match mode {
            Mode::Error => Ok(errors(500, "INTERNAL_SERVER_ERROR", "Told to fail.")),
            Mode::Timeout => Ok(lost()),
            Mode::RateLimited => {
                let reply = errors(429, "TOO_MANY_REQUESTS", "Told to fail.");
                Ok(with_header(reply, "ratelimit-reset", "2"))
            }
            Mode::Garbage => Ok(plain(200, "<!doctype html><title>Kinde</title>".to_owned())),
            Mode::LostAnswer => {
                self.serve(None).await?;
                Ok(lost())
            }
            Mode::Partial if self.is_first_page() => self.serve(Some(mode)).await,
            Mode::Partial if self.is_list() => {
                Ok(errors(500, "INTERNAL_SERVER_ERROR", "Told to fail."))
            }
            Mode::Partial => {
                let whole = self.serve(None).await?;
                Ok(cut_in_half(whole))
            }
            Mode::Late => {
                if self.operation == Operation::MeterWrite
                    && let Ok(Ok(write)) = allowed_write(self.object, self.ask, self.now)
                {
                    meters::postpone(self.object, &write, self.now)?;
                }
                Ok(lost())
            }
        }
    }

    /// Serves a request; with `Partial`, the first page of a list promises another.
    async fn serve(&self, mode: Option<Mode>) -> Result<Reply, Fault> {
        let (object, ask, now) = (self.object, self.ask, self.now);
        let parameters = &self.parameters;
        let served = match self.operation {
            Operation::Token => return tokens::issue(object, ask).await,
            Operation::Jwks if ask.authorization.is_some() => Err(Refused {
                status: 403,
                code: "FORBIDDEN",
                message: "The keys are public: no authorization here.".to_owned(),
            }),
            Operation::Jwks => Ok(keys::jwks(object).await?),
            Operation::Limit => lists::entitlements(object, ask, parameters, now, mode)?,
            Operation::Plan => lists::agreements(object, ask, parameters, now, mode)?,
            Operation::MeterRead => read_meter(object, ask, parameters, now)?,
            Operation::MeterWrite => write_meter(object, ask, now)?,
        };
        Ok(reply(served))
    }
}

fn read_meter(
    object: &Object,
    ask: &HttpAsk,
    parameters: &Parameters,
    now: Millis,
) -> Result<Served, Fault> {
    if let Some(refused) = tokens::refusal(object, ask, "read:meter_usage", now)? {
        return Ok(Err(refused));
    }
    let known = [
        "customer_agreement_id",
        "billing_feature_code",
        "all_cycles",
    ];
    if let Some(refused) = parameters.unknown(&known) {
        return Ok(Err(refused));
    }
    let (agreement_id, feature) = match (
        parameters.needed("customer_agreement_id"),
        parameters.needed("billing_feature_code"),
    ) {
        (Ok(agreement_id), Ok(feature)) => (agreement_id, feature),
        (Err(refused), _) | (_, Err(refused)) => return Ok(Err(refused)),
    };
    let Some((agreement, customer)) = meters::find(object, agreement_id, now)? else {
        return Ok(Err(WriteRefused::UnknownAgreement.into()));
    };
    let record = |(total, at): (i64, Millis)| {
        json!({"customer_agreement_id": agreement_id, "billing_feature_code": feature,
            "meter_value": total.to_string(), "meter_type_code": "absolute",
            "meter_usage_timestamp": moment::format(at)})
    };
    let sql = &*object.sql;
    let found = match parameters.get("all_cycles") {
        None | Some("false") => {
            let (start, _) = agreement.period(&customer);
            let total = meters::total(sql, agreement_id, feature, start)?;
            json!(total.map(record))
        }
        Some("true") => {
            let totals = meters::totals(sql, agreement_id, feature)?;
            json!(totals.into_iter().map(record).collect::<Vec<_>>())
        }
        Some(_) => {
            let message = "all_cycles is true or false.";
            return Ok(Err(Refused::bad("PARAMETER_INVALID", message)));
        }
    };
    Ok(Ok(
        json!({"code": "OK", "message": "Success", "meter_usage": found}),
    ))
}

fn write_meter(object: &Object, ask: &HttpAsk, now: Millis) -> Result<Served, Fault> {
    let write = match allowed_write(object, ask, now)? {
        Ok(write) => write,
        Err(refused) => return Ok(Err(refused)),
    };
    Ok(match meters::write(object, &write, now)? {
        Ok(()) => Ok(json!({"message": "Success", "code": "OK"})),
        Err(why) => Err(why.into()),
    })
}

fn allowed_write(
    object: &Object,
    ask: &HttpAsk,
    now: Millis,
) -> Result<Result<Write, Refused>, Fault> {
    let refused = tokens::refusal(object, ask, "create:meter_usage", now)?;
    Ok(match refused {
        Some(refused) => Err(refused),
        None => well_formed(ask, now),
    })
}

/// Reads a meter write as kinde's specification has it: names, types, nothing else.
fn well_formed(ask: &HttpAsk, now: Millis) -> Result<Write, Refused> {
    if media_type(ask.content_type.as_deref()) != "application/json" {
        let message = "The content type is application/json.";
        return Err(Refused::bad("CONTENT_TYPE_INVALID", message));
    }
    let Ok(Value::Object(mut fields)) = serde_json::from_str(&ask.body) else {
        return Err(Refused::bad("BODY_INVALID", "The body is no JSON object."));
    };
    let mut text = |name: &'static str| match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Refused::bad("FIELD_INVALID", format!("{name} is text."))),
    };
    let missing = |name| move || Refused::bad("FIELD_MISSING", format!("{name} is required."));
    let agreement_id =
        text("customer_agreement_id")?.ok_or_else(missing("customer_agreement_id"))?;
    let feature = text("billing_feature_code")?.ok_or_else(missing("billing_feature_code"))?;
    let value = text("meter_value")?.ok_or_else(missing("meter_value"))?;
    let kind = match text("meter_type_code")?.as_deref() {
        None | Some("absolute") => Kind::Absolute,
        Some("delta") => Kind::Delta,
        Some(_) => {
            let message = "meter_type_code is absolute or delta.";
            return Err(Refused::bad("METER_TYPE_INVALID", message));
        }
    };
    let at = match text("meter_usage_timestamp")? {
        None => now,
        Some(at) => moment::parse_millis(&at)
            .ok_or_else(|| Refused::bad("TIMESTAMP_INVALID", "It is a date and time."))?,
    };
    if let Some(unknown) = fields.keys().next() {
        let message = format!("There is no field {unknown}.");
        return Err(Refused::bad("FIELD_UNKNOWN", message));
    }
    let digits = (1..=16).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_digit());
    let whole = value.parse().ok().filter(|n| digits && *n <= SAFE_MAX);
    Ok(Write {
        agreement_id,
        feature,
        value: whole.ok_or_else(|| {
            Refused::bad(
                "METER_VALUE_INVALID",
                "meter_value is a whole number as text.",
            )
        })?,
        kind,
        at_ms: at.get(),
    })
}

/// The content type without its parameters, in lower case.
pub fn media_type(content_type: Option<&str>) -> String {
    let text = content_type.unwrap_or_default();
    let media = text.split(';').next().unwrap_or_default();
    media.trim().to_ascii_lowercase()
}

/// The parameters of a query, in their order.
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn of(query: &str) -> Self {
        let pairs = form_urlencoded::parse(query.as_bytes());
        Self(pairs.into_owned().collect())
    }

    /// The first of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// One that must be there.
    pub fn needed(&self, name: &str) -> Result<&str, Refused> {
        let value = self.get(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| Refused::bad("PARAMETER_MISSING", format!("{name} is required.")))
    }

    /// Names that Kinde does not have: a client that sends one has a wrong name for another.
    pub fn unknown(&self, known: &[&str]) -> Option<Refused> {
        let unknown = self
            .0
            .iter()
            .find(|(key, _)| !known.contains(&key.as_str()))?;
        let message = format!("There is no parameter {}.", unknown.0);
        Some(Refused::bad("PARAMETER_UNKNOWN", message))
    }
}

fn reply(served: Served) -> Reply {
    match served {
        Ok(value) => plain(200, value.to_string()),
        Err(refused) => errors(refused.status, refused.code, &refused.message),
    }
}

/// Errors as a list.
fn errors(status: u16, code: &str, message: &str) -> Reply {
    let body = json!({"errors": [{"code": code, "message": message}]});
    plain(status, body.to_string())
}

/// Errors as one object, which Kinde answers for an unknown path.
fn not_found() -> Reply {
    let error = json!({"code": "ROUTE_NOT_FOUND", "message": "There is no such route."});
    plain(404, json!({"errors": error}).to_string())
}

/// A JSON answer.
pub fn plain(status: u16, body: String) -> Reply {
    Reply::Http {
        status,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body,
    }
}

fn with_header(reply: Reply, name: &str, value: &str) -> Reply {
    match reply {
        Reply::Http {
            status,
            mut headers,
            body,
        } => {
            headers.push((name.to_owned(), value.to_owned()));
            Reply::Http {
                status,
                headers,
                body,
            }
        }
        other => other,
    }
}

fn cut_in_half(reply: Reply) -> Reply {
    match reply {
        Reply::Http { status, body, .. } => {
            let half = body.chars().count() / 2;
            plain(status, body.chars().take(half).collect())
        }
        other => other,
    }
}
