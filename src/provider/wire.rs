//! Kinde's paths, field names and answer forms: the one place that knows them.
//!
//! Requests are exact, answers are read tolerantly: a number may come as text, `has_more` too,
//! dates as `+11`, errors as a list or as one object. What does not read is never guessed at: it is
//! [`ProviderFault::Unknown`]. Names: Kinde's management API specification of 2026.

use serde_json::{Value, json};
use url::form_urlencoded::Serializer;

use super::{Agreement, FeatureLimit, ProviderFault, SigningKey};
use crate::moment;
use crate::ports::{Incoming, Outgoing};
use crate::units::{AgreementId, Delta, Millis, PlanCode, SAFE_MAX, Units};

/// Where a token is fetched.
pub const TOKEN: &str = "/oauth2/token";
/// Where the public signing keys are.
pub const JWKS: &str = "/.well-known/jwks";
/// Where entitlements are listed.
pub const ENTITLEMENTS: &str = "/api/v1/billing/entitlements";
/// Where agreements are listed.
pub const AGREEMENTS: &str = "/api/v1/billing/agreements";
/// Where a meter is written and read.
pub const METER_USAGE: &str = "/api/v1/billing/meter_usage";
/// The management API as a token's audience, after the tenant's address.
pub const AUDIENCE: &str = "/api";
/// What the client needs, and no more.
pub const SCOPES: [&str; 4] = [
    "read:billing_entitlements",
    "read:billing_agreements",
    "create:meter_usage",
    "read:meter_usage",
];

/// How Kinde writes "no maximum" where it does not write null: `i32::MAX`.
const UNLIMITED: i64 = 2_147_483_647;
/// Rows of a page. Kinde's own default of 10 would cost calls, its maximum is 500.
pub const PAGE_ROWS: usize = 100;
/// Where a 429 does not say how long to wait.
const WAIT_SECONDS_DEFAULT: i64 = 10;
/// No limiter of a minute needs more; a header that says so is not believed.
const WAIT_SECONDS_MAX: i64 = 3600;
/// As much of a provider's error code as goes into logs and answers.
const CODE_CHARS_MAX: usize = 64;

/// One list of a customer.
#[derive(Clone, Copy, Debug)]
pub struct List<'a> {
    /// Its path.
    pub path: &'static str,
    /// The answer's member that holds the rows.
    pub member: &'static str,
    /// Whose.
    pub customer: &'a str,
    /// Rows of a page.
    pub page_rows: usize,
    /// What else is asked for: `plans`.
    pub expand: Option<&'static str>,
}

/// What an answer lacks. Becomes an unknown outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread(pub &'static str);

impl From<Unread> for ProviderFault {
    fn from(unread: Unread) -> Self {
        Self::Unknown(format!("its answer does not read: {}", unread.0))
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What was read, in the provider's order.
    pub items: Vec<T>,
    /// Each row's `id`, where it has one.
    pub ids: Vec<Option<String>>,
    /// Whether another page follows.
    pub has_more: bool,
}

/// Asks for a token. Credentials go into the form, never into `Authorization`.
pub fn token_request(origin: &str, client_id: &str, client_secret: &str) -> Outgoing {
    let body = Serializer::new(String::new())
        .append_pair("grant_type", "client_credentials")
        .append_pair("client_id", client_id)
        .append_pair("client_secret", client_secret)
        .append_pair("audience", &format!("{origin}{AUDIENCE}"))
        .append_pair("scope", &SCOPES.join(" "))
        .finish();
    let content_type = "application/x-www-form-urlencoded";
    Outgoing {
        method: "POST",
        url: format!("{origin}{TOKEN}"),
        headers: vec![
            ("content-type".to_owned(), content_type.to_owned()),
            ("accept".to_owned(), "application/json".to_owned()),
        ],
        body,
    }
}

/// Asks for one page of a list.
pub fn list_request(origin: &str, list: &List<'_>, after: Option<&str>) -> Outgoing {
    let mut query = Serializer::new(String::new());
    query.append_pair("customer_id", list.customer);
    query.append_pair("page_size", &list.page_rows.to_string());
    if let Some(expand) = list.expand {
        query.append_pair("expand", expand);
    }
    if let Some(after) = after {
        query.append_pair("starting_after", after);
    }
    get(format!("{origin}{}?{}", list.path, query.finish()))
}

/// Sets a meter's total.
pub fn write_request(
    origin: &str,
    agreement: &AgreementId,
    key: &str,
    total: Units,
    at: Millis,
) -> Outgoing {
    let body = json!({
        "customer_agreement_id": agreement.as_str(),
        "billing_feature_code": key,
        "meter_value": total.to_string(),
        "meter_usage_timestamp": moment::format(at),
        "meter_type_code": "absolute",
    });
    Outgoing {
        method: "POST",
        url: format!("{origin}{METER_USAGE}"),
        headers: vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            ("accept".to_owned(), "application/json".to_owned()),
        ],
        body: body.to_string(),
    }
}

/// Asks for a meter's total in the current cycle.
pub fn read_request(origin: &str, agreement: &AgreementId, key: &str) -> Outgoing {
    let query = Serializer::new(String::new())
        .append_pair("customer_agreement_id", agreement.as_str())
        .append_pair("billing_feature_code", key)
        .finish();
    get(format!("{origin}{METER_USAGE}?{query}"))
}

/// Asks for the signing keys; without a token, which may be answered 403 there.
pub fn jwks_request(url: &str) -> Outgoing {
    get(url.to_owned())
}

fn get(url: String) -> Outgoing {
    Outgoing {
        method: "GET",
        url,
        headers: vec![("accept".to_owned(), "application/json".to_owned())],
        body: String::new(),
    }
}

/// The JSON of a 200, or why the provider did not do what it was asked. Any other answer but a
/// plain refusal leaves the outcome open.
pub fn accepted(answer: &Incoming) -> Result<Value, ProviderFault> {
    let json: Option<Value> = serde_json::from_str(&answer.body).ok();
    match answer.status {
        200 => Ok(json
            .filter(Value::is_object)
            .ok_or(Unread("it is no JSON object"))?),
        429 => Err(ProviderFault::RateLimited {
            wait_ms: wait_ms(answer),
        }),
        408 => Err(ProviderFault::Unknown("it answered 408".to_owned())),
        status @ 400..=499 => Err(ProviderFault::Refused {
            status,
            code: error_code(&json.unwrap_or_default()),
        }),
        status => Err(ProviderFault::Unknown(format!("it answered {status}"))),
    }
}

/// How long a 429 asks to wait. Only seconds are read; a date in `Retry-After` is not documented.
fn wait_ms(answer: &Incoming) -> i64 {
    let seconds = |name| {
        let text = answer.header(name)?.trim();
        text.parse::<i64>().ok()
    };
    let wait = match (seconds("ratelimit-reset"), seconds("retry-after")) {
        (None, None) => WAIT_SECONDS_DEFAULT,
        (reset, retry) => reset.max(retry).unwrap_or(WAIT_SECONDS_DEFAULT),
    };
    wait.clamp(1, WAIT_SECONDS_MAX) * 1000
}

/// The code of an error: `errors` as a list or as one object, or the token endpoint's `error`.
fn error_code(json: &Value) -> String {
    let errors = json.get("errors");
    let first = match errors {
        Some(Value::Array(list)) => list.first(),
        other => other,
    };
    let code = first
        .and_then(|error| error.get("code"))
        .or(json.get("error"));
    let text = code.and_then(Value::as_str).unwrap_or("no code");
    let plain = |c: &char| c.is_ascii_graphic() || *c == ' ';
    text.chars().filter(plain).take(CODE_CHARS_MAX).collect()
}

/// A token and how long it lives, in milliseconds.
pub fn token(json: &Value) -> Result<(String, i64), Unread> {
    let token = json.get("access_token").and_then(Value::as_str);
    let usable = |token: &&str| !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic());
    let token = token.filter(usable).ok_or(Unread("access_token"))?;
    let seconds = json.get("expires_in").and_then(whole);
    let seconds = seconds.filter(|s| *s > 0).ok_or(Unread("expires_in"))?;
    Ok((token.to_owned(), seconds.saturating_mul(1000).min(SAFE_MAX)))
}

/// A page, each row read by `read`.
pub fn page<T>(
    json: &Value,
    list: &List<'_>,
    read: fn(&Value) -> Result<T, Unread>,
) -> Result<Page<T>, Unread> {
    let rows = json.get(list.member).and_then(Value::as_array);
    let rows = rows.ok_or(Unread("the list is missing"))?;
    // Where it is not said whether more follows, only a page that is not full can be the last.
    let has_more = match flag(json.get("has_more"))? {
        Some(has_more) => has_more,
        None => rows.len() >= list.page_rows,
    };
    let id = |row: &Value| row.get("id").and_then(Value::as_str).map(str::to_owned);
    Ok(Page {
        items: rows.iter().map(read).collect::<Result<_, _>>()?,
        ids: rows.iter().map(id).collect(),
        has_more,
    })
}

/// An entitlement's feature key and limit; `None` where it names no feature.
pub fn entitlement(row: &Value) -> Result<Option<(String, FeatureLimit)>, Unread> {
    let key = match row.get("feature_code") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(key)) => key.clone(),
        Some(_) => return Err(Unread("feature_code")),
    };
    let limit = match row.get("entitlement_limit_max") {
        None | Some(Value::Null) => FeatureLimit::Unlimited,
        Some(value) => match whole(value) {
            Some(UNLIMITED) => FeatureLimit::Unlimited,
            Some(max) if max >= 0 => FeatureLimit::Known(Units::new(max).unwrap_or(Units::MAX)),
            _ => return Err(Unread("entitlement_limit_max")),
        },
    };
    Ok(Some((key, limit)))
}

/// An agreement.
pub fn agreement(row: &Value) -> Result<Agreement, Unread> {
    let text = |name: &str| row.get(name).and_then(Value::as_str).map(str::to_owned);
    let contains = match row.get("entitlements") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(rows)) => rows
            .iter()
            .filter_map(|row| row.get("feature_code").and_then(Value::as_str))
            .map(str::to_owned)
            .collect(),
        Some(_) => return Err(Unread("an agreement's entitlements")),
    };
    Ok(Agreement {
        agreement_id: text("id").and_then(AgreementId::new).ok_or(Unread("id"))?,
        plan: text("plan_code")
            .and_then(PlanCode::new)
            .ok_or(Unread("plan_code"))?,
        expires_at: date(row.get("expires_on"), "expires_on")?,
        period_start: date(row.get("current_period_start"), "current_period_start")?,
        period_end: date(row.get("current_period_end"), "current_period_end")?,
        feature_keys: contains,
    })
}

/// The plans that `expand=plans` adds: code and `subscribed_on`.
pub fn plans(json: &Value) -> Result<Vec<(String, Millis)>, Unread> {
    let rows = match json.get("plans") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(rows) => rows.as_array().ok_or(Unread("plans"))?,
    };
    let mut plans = Vec::new();
    for row in rows {
        let code = row.get("code").and_then(Value::as_str);
        if let (Some(code), Some(at)) = (code, date(row.get("subscribed_on"), "subscribed_on")?) {
            plans.push((code.to_owned(), at));
        }
    }
    Ok(plans)
}

/// Whether the 200 to a write says that it was taken.
pub fn written(json: &Value) -> Result<(), Unread> {
    let says = |name: &str| json.get(name).is_some_and(Value::is_string);
    if json.get("errors").is_none() && (says("code") || says("message")) {
        Ok(())
    } else {
        Err(Unread("it neither accepts nor refuses the write"))
    }
}

/// Where an answer about a meter may hold its record or records.
const METER_MEMBERS: [&str; 3] = ["meter_usage", "meter_usages", "data"];
/// Where a record may hold its total.
const TOTAL_MEMBERS: [&str; 3] = ["meter_value", "total", "value"];

/// A meter's total: one number, one record, or records of which the newest absolute one counts.
/// No record is zero; that something is there which does not read is not.
pub fn meter(json: &Value) -> Result<Delta, Unread> {
    let Some(found) = METER_MEMBERS.iter().find_map(|name| json.get(name)) else {
        return meter_record(json).map(|(total, _)| total);
    };
    match found {
        Value::Null => Ok(Delta::ZERO),
        Value::Number(_) | Value::String(_) => amount(found),
        Value::Object(_) => meter_record(found).map(|(total, _)| total),
        Value::Array(records) => newest(records, flag(json.get("has_more"))? == Some(true)),
        Value::Bool(_) => Err(Unread("meter_usage")),
    }
}

fn newest(records: &[Value], has_more: bool) -> Result<Delta, Unread> {
    if has_more {
        return Err(Unread("there are more meter records than it holds"));
    }
    let mut newest: Option<(Delta, Option<moment::EventTime>)> = None;
    let is_delta = |record: &&Value| {
        let kind = record.get("meter_type_code").and_then(Value::as_str);
        kind == Some("delta")
    };
    if !records.is_empty() && records.iter().all(|record| is_delta(&record)) {
        return Err(Unread("no meter record is absolute"));
    }
    for record in records.iter().filter(|record| !is_delta(record)) {
        let read = meter_record(record)?;
        newest = Some(match newest {
            Some(_) if read.1.is_none() => return Err(Unread("meter_usage_timestamp")),
            Some(before) if before.1.is_none() => return Err(Unread("meter_usage_timestamp")),
            Some(before) if before.1 > read.1 => before,
            None | Some(_) => read,
        });
    }
    Ok(newest.map_or(Delta::ZERO, |(total, _)| total))
}

fn meter_record(record: &Value) -> Result<(Delta, Option<moment::EventTime>), Unread> {
    let total = TOTAL_MEMBERS.iter().find_map(|name| record.get(name));
    let total = amount(total.ok_or(Unread("meter_value"))?)?;
    let at = match record.get("meter_usage_timestamp") {
        None | Some(Value::Null) => None,
        Some(at) => {
            let at = at.as_str().and_then(moment::parse);
            Some(at.ok_or(Unread("meter_usage_timestamp"))?)
        }
    };
    Ok((total, at))
}

fn amount(value: &Value) -> Result<Delta, Unread> {
    whole(value)
        .and_then(Delta::new)
        .ok_or(Unread("meter_value"))
}

/// The keys of a JWKS that RS256 can be verified with; others in it are passed over.
pub fn signing_keys(json: &Value) -> Result<Vec<SigningKey>, Unread> {
    let rows = json.get("keys").and_then(Value::as_array);
    let rows = rows.ok_or(Unread("keys"))?;
    let key = |row: &Value| {
        let text = |name: &str| row.get(name).and_then(Value::as_str).map(str::to_owned);
        let fits = text("kty")? == "RSA"
            && text("use").is_none_or(|purpose| purpose == "sig")
            && text("alg").is_none_or(|alg| alg == "RS256");
        let (kid, n, e) = (text("kid")?, text("n")?, text("e")?);
        fits.then_some(SigningKey { kid, n, e })
    };
    let keys: Vec<SigningKey> = rows.iter().filter_map(key).collect();
    if keys.is_empty() {
        return Err(Unread("no key of it can be used"));
    }
    Ok(keys)
}

/// A whole number that came as a number or as text; `12.00` is one, `12.5` is not.
fn whole(value: &Value) -> Option<i64> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.trim().to_owned(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let whole = match text.split_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|b| b == b'0') => whole,
        Some(_) => return None,
        None => &text,
    };
    whole.parse().ok()
}

/// A yes or no that may come as text.
fn flag(value: Option<&Value>) -> Result<Option<bool>, Unread> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(Value::String(text)) if text == "true" => Ok(Some(true)),
        Some(Value::String(text)) if text == "false" => Ok(Some(false)),
        Some(_) => Err(Unread("has_more")),
    }
}

/// A date that may be missing, but not unreadable.
fn date(value: Option<&Value>, name: &'static str) -> Result<Option<Millis>, Unread> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let at = value.as_str().and_then(moment::parse_millis);
            at.map(Some).ok_or(Unread(name))
        }
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
