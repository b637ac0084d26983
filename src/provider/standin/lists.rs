//! The stand-in's lists: entitlements and agreements, a page at a time.

use serde_json::{Value, json};

use super::api::{Parameters, Refused, Served};
use super::faults::Mode;
use super::wire::HttpAsk;
use super::{customers, tokens};
use crate::fault::Fault;
use crate::moment;
use crate::object::Object;
use crate::units::Millis;

/// Rows of a page where it is not said, and the most that may be asked for.
const PAGE_ROWS_DEFAULT: usize = 10;
const PAGE_ROWS_MAX: usize = 500;

/// `GET /api/v1/billing/entitlements`
pub fn entitlements(
    object: &Object,
    ask: &HttpAsk,
    parameters: &Parameters,
    now: Millis,
    mode: Option<Mode>,
) -> Result<Served, Fault> {
    let known = [
        "customer_id",
        "page_size",
        "starting_after",
        "ending_before",
        "max_value",
        "expand",
    ];
    let scope = "read:billing_entitlements";
    let customer_id = match allowed(object, ask, parameters, scope, &known, now)? {
        Ok(customer_id) => customer_id,
        Err(refused) => return Ok(Err(refused)),
    };
    if parameters.get("expand").is_some_and(|what| what != "plans") {
        return Ok(Err(Refused::bad("PARAMETER_INVALID", "expand is plans.")));
    }
    let customer = customers::current(object, customer_id, now)?;
    let max_value = parameters.get("max_value");
    let mut rows: Vec<Value> = Vec::new();
    for (feature, limit) in customer.limits() {
        let max = match (limit, max_value) {
            (Some(limit), _) => json!(limit),
            (None, Some(max)) => json!(max.parse::<i64>().ok()),
            (None, None) => Value::Null,
        };
        rows.push(json!({
            "id": entitlement_id(customer_id, &feature), "fixed_charge": null,
            "price_name": feature, "unit_amount": 2, "feature_code": feature,
            "feature_name": feature, "entitlement_limit_max": max, "entitlement_limit_min": 0,
        }));
    }
    if customer.agreement.is_some() {
        rows.push(json!({
            "id": entitlement_id(customer_id, "base_price"), "fixed_charge": 3500,
            "price_name": "Base price", "unit_amount": null, "feature_code": "base_price",
            "feature_name": "Base price", "entitlement_limit_max": 1, "entitlement_limit_min": 1,
        }));
    }
    let mut answer = match page(rows, parameters, mode) {
        Ok((rows, has_more)) => json!({"code": "OK", "message": "Success",
            "has_more": has_more, "entitlements": rows}),
        Err(refused) => return Ok(Err(refused)),
    };
    if let (Some(answer), Some(_)) = (answer.as_object_mut(), parameters.get("expand")) {
        let plan = customer.agreement.map(|(_, plan)| {
            json!({"code": plan, "subscribed_on": moment::format(customer.subscribed_on)})
        });
        answer.insert(
            "plans".to_owned(),
            json!(plan.into_iter().collect::<Vec<_>>()),
        );
    }
    Ok(Ok(answer))
}

/// `GET /api/v1/billing/agreements`: those that have ended too.
pub fn agreements(
    object: &Object,
    ask: &HttpAsk,
    parameters: &Parameters,
    now: Millis,
    mode: Option<Mode>,
) -> Result<Served, Fault> {
    let known = [
        "customer_id",
        "page_size",
        "starting_after",
        "ending_before",
        "feature_code",
    ];
    let scope = "read:billing_agreements";
    let customer_id = match allowed(object, ask, parameters, scope, &known, now)? {
        Ok(customer_id) => customer_id,
        Err(refused) => return Ok(Err(refused)),
    };
    let customer = customers::current(object, customer_id, now)?;
    let mut rows: Vec<Value> = Vec::new();
    for agreement in customers::agreements(&*object.sql, customer_id)? {
        let features = agreement.features(&customer);
        let asked = parameters.get("feature_code");
        if asked.is_some_and(|feature| !features.contains_key(feature)) {
            continue;
        }
        let contained = features.keys().map(|feature| {
            json!({"feature_code": feature,
                "entitlement_id": entitlement_id(customer_id, feature)})
        });
        let (start, end) = agreement.period(&customer);
        rows.push(json!({
            "id": agreement.id,
            "plan_code": agreement.plan,
            "expires_on": agreement.expires_at.map(moment::format),
            "billing_group_id": null,
            "current_period_start": moment::format(start),
            "current_period_end": moment::format(end),
            "entitlements": contained.collect::<Vec<_>>(),
        }));
    }
    Ok(page(rows, parameters, mode).map(|(rows, has_more)| {
        json!({"code": "OK", "message": "Success", "has_more": has_more, "agreements": rows})
    }))
}

/// Token, parameters and customer of a list, in that order.
fn allowed<'a>(
    object: &Object,
    ask: &HttpAsk,
    parameters: &'a Parameters,
    scope: &str,
    known: &[&str],
    now: Millis,
) -> Result<Result<&'a str, Refused>, Fault> {
    if let Some(refused) = tokens::refusal(object, ask, scope, now)? {
        return Ok(Err(refused));
    }
    if let Some(refused) = parameters.unknown(known) {
        return Ok(Err(refused));
    }
    let customer_id = match parameters.needed("customer_id") {
        Ok(customer_id) => customer_id,
        Err(refused) => return Ok(Err(refused)),
    };
    // A user or an organisation is not the customer, although each has one.
    let other = ["kp_", "org_"];
    if other.iter().any(|prefix| customer_id.starts_with(prefix)) {
        let message = "customer_id is not a user's or organisation's.";
        return Ok(Err(Refused::bad("CUSTOMER_INVALID", message)));
    }
    Ok(Ok(customer_id))
}

/// The rows of the page that is asked for, and whether more follow.
fn page(
    rows: Vec<Value>,
    parameters: &Parameters,
    mode: Option<Mode>,
) -> Result<(Vec<Value>, bool), Refused> {
    let size = match parameters.get("page_size").map(str::parse::<usize>) {
        None => PAGE_ROWS_DEFAULT,
        Some(Ok(size)) if (1..=PAGE_ROWS_MAX).contains(&size) => size,
        Some(_) => {
            let message = "page_size is 1 to 500.";
            return Err(Refused::bad("PAGE_SIZE_INVALID", message));
        }
    };
    let place = |name: &str| match parameters.get(name) {
        None => Ok(None),
        Some(id) => match rows
            .iter()
            .position(|row| row.get("id") == Some(&json!(id)))
        {
            Some(place) => Ok(Some(place)),
            None => Err(Refused::bad(
                "CURSOR_INVALID",
                format!("{name} is not a row's id."),
            )),
        },
    };
    let (from, size) = match (place("starting_after")?, place("ending_before")?) {
        (Some(_), Some(_)) => {
            let message = "starting_after and ending_before exclude each other.";
            return Err(Refused::bad("CURSOR_INVALID", message));
        }
        (Some(after), None) => (after + 1, size),
        (None, Some(before)) => (before.saturating_sub(size), size.min(before)),
        (None, None) => (0, size),
    };
    if mode == Some(Mode::Partial) {
        // Half of the rows at most, and always the promise of more.
        let half = rows.len().div_ceil(2).min(size);
        return Ok((rows.into_iter().take(half).collect(), true));
    }
    let has_more = rows.len() > from + size;
    Ok((rows.into_iter().skip(from).take(size).collect(), has_more))
}

/// The same id for the same customer and feature, always.
fn entitlement_id(customer_id: &str, feature: &str) -> String {
    let digest = hmac_sha256::Hash::hash(format!("{customer_id}/{feature}").as_bytes());
    let hex = digest.iter().take(16).map(|byte| format!("{byte:02x}"));
    format!("entitlement_{}", hex.collect::<String>())
}
