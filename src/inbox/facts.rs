//! What an event's payload tells: the one extractor. Kinde does not document its billing payloads,
//! so every place is tried where its own code, or a real delivery, has the fact (2026-10). Only ids
//! that may be what they are taken for are taken.

use serde_json::Value;

use super::rules::Kind;
use super::token::Refused;
use crate::moment::{self, EventTime};
use crate::units::{AgreementId, CustomerId, Millis, PlanCode, is_path_id};

/// Members that only access and ID tokens have: the same keys sign them.
const TOKEN_MARKS: [&str; 4] = ["scp", "azp", "gty", "at_hash"];
/// Real types have up to about 40 letters.
const TYPE_BYTES_MAX: usize = 100;
/// Prefixes of ids that are not a customer's, though they may stand in its place.
const NOT_A_CUSTOMER: [&str; 5] = ["kp_", "org_", "agreement_", "event_", "sbg_"];
/// Lanes of events that name no customer; none of these names can be a customer's.
const LANES_WITHOUT_CUSTOMER: [&str; 8] = ["~0", "~1", "~2", "~3", "~4", "~5", "~6", "~7"];

/// The facts of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The signed id.
    pub event_id: String,
    /// The type, as it came.
    pub type_name: String,
    /// The customer.
    pub customer_id: Option<CustomerId>,
    /// The agreement that it names.
    pub agreement_id: Option<AgreementId>,
    /// The plan that it names.
    pub plan: Option<PlanCode>,
    /// When it happened; absent where that does not read.
    pub occurred: Option<EventTime>,
    /// When it was sent.
    pub sent_at: Millis,
}

impl Facts {
    /// What the event is about.
    pub fn kind(&self) -> Kind {
        Kind::of_type(&self.type_name)
    }

    /// Its lane: the customer's, or one of a few.
    pub fn lane(&self) -> String {
        if let Some(customer) = &self.customer_id {
            return customer.to_string();
        }
        let spread = self
            .event_id
            .bytes()
            .fold(0_usize, |sum, byte| sum + usize::from(byte));
        let lane = LANES_WITHOUT_CUSTOMER.get(spread % LANES_WITHOUT_CUSTOMER.len());
        lane.copied().unwrap_or("~0").to_owned()
    }
}

/// Whether a text may be an event's type.
pub fn is_type_name(text: &str) -> bool {
    (1..=TYPE_BYTES_MAX).contains(&text.len())
}

/// Whether a text may be an event's signed id.
pub fn is_event_id(text: &str) -> bool {
    is_path_id(text)
}

/// Whether a lane is a customer's.
pub fn is_customers(lane: &str) -> bool {
    !lane.starts_with('~')
}

/// Reads a verified payload. `issuer` is the configured tenant's.
pub fn read(payload: &str, issuer: Option<&str>) -> Result<Facts, Refused> {
    let value: Value = serde_json::from_str(payload).map_err(|_| Refused::NotAJwt)?;
    let Value::Object(members) = &value else {
        return Err(Refused::NotAJwt);
    };
    if TOKEN_MARKS.iter().any(|mark| members.contains_key(*mark)) {
        return Err(Refused::WrongToken);
    }
    if let (Some(iss), Some(issuer)) = (members.get("iss"), issuer)
        && iss.as_str().map(|iss| iss.trim_end_matches('/')) != Some(issuer)
    {
        return Err(Refused::WrongToken);
    }
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    let type_name = text("type").filter(|name| is_type_name(name));
    let event_id = text("event_id").filter(|id| is_event_id(id));
    let has_data = members.get("data").is_some_and(Value::is_object);
    let (Some(type_name), Some(event_id), Some(sent), true) =
        (type_name, event_id, text("timestamp"), has_data)
    else {
        return Err(Refused::WrongToken);
    };
    let sent = moment::parse(sent).ok_or(Refused::WrongToken)?;
    let occurred = match members.get("event_timestamp") {
        None | Some(Value::Null) => Some(sent),
        Some(value) => value.as_str().and_then(moment::parse),
    };
    Ok(Facts {
        event_id: event_id.to_owned(),
        type_name: type_name.to_owned(),
        customer_id: customer(&value),
        agreement_id: agreement(&value),
        plan: plan(&value),
        occurred,
        sent_at: sent.at,
    })
}

fn first<T>(payload: &Value, places: &[&str], parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    places
        .iter()
        .filter_map(|place| payload.pointer(place).and_then(Value::as_str))
        .find_map(parse)
}

fn customer(payload: &Value) -> Option<CustomerId> {
    let places = ["/data/customer_id", "/data/customer/id", "/customer_id"];
    first(payload, &places, |id| {
        let other = NOT_A_CUSTOMER.iter().any(|prefix| id.starts_with(prefix));
        CustomerId::new(id).filter(|_| !other)
    })
}

fn agreement(payload: &Value) -> Option<AgreementId> {
    let places = ["/data/agreement_id", "/data/agreement/id"];
    first(payload, &places, |id| {
        let other = id.starts_with("customer_") || id.starts_with("kp_") || id.starts_with("org_");
        AgreementId::new(id).filter(|_| !other)
    })
}

fn plan(payload: &Value) -> Option<PlanCode> {
    let places = ["/data/plan/key", "/data/plan/code", "/data/plan_id"];
    first(payload, &places, |code| PlanCode::new(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(payload: &str) -> Facts {
        read(payload, Some("https://acme.kinde.com")).expect("a webhook")
    }

    const REAL: &str = r#"{"type":"customer.plan_changed","event_id":"event_01a1",
        "timestamp":"2026-10-21T02:29:24.481368869+11:00",
        "event_timestamp":"2026-10-21T02:29:23.403633+11:00",
        "data":{"user_id":"kp_4940","customer_id":"customer_0198","customer_type":"user",
        "plan":{"key":"customer_pro_plan"}}}"#;

    #[test]
    fn a_real_plan_change_reads_with_the_time_of_the_change() {
        let facts = facts(REAL);
        assert_eq!(facts.customer_id, CustomerId::new("customer_0198"));
        assert_eq!(facts.plan, PlanCode::new("customer_pro_plan"));
        assert_eq!(facts.occurred, moment::parse("2026-10-20T15:29:23.403633Z"));
        assert_eq!(
            facts.sent_at,
            moment::parse_millis("2026-10-20T15:29:24.481Z").expect("ms")
        );
        assert_eq!(facts.lane(), "customer_0198");
    }

    #[test]
    fn a_fact_that_moved_to_another_level_is_still_found() {
        for (data, customer, agreement, plan) in [
            (
                r#"{"customer":{"id":"customer_1"},"plan":{"code":"pro"}}"#,
                "customer_1",
                None,
                "pro",
            ),
            (
                r#"{"customer_id":"kp_1","customer":{"id":"customer_2"},"plan_id":"pro",
                    "agreement":{"id":"agreement_7"}}"#,
                "customer_2",
                Some("agreement_7"),
                "pro",
            ),
        ] {
            let payload = format!(
                r#"{{"type":"t","event_id":"event_1","timestamp":"2026-10-20T00:00:00Z",
                    "data":{data}}}"#
            );
            let facts = facts(&payload);
            assert_eq!(facts.customer_id, CustomerId::new(customer));
            assert_eq!(facts.agreement_id, agreement.and_then(AgreementId::new));
            assert_eq!(facts.plan, PlanCode::new(plan));
        }
    }

    #[test]
    fn a_user_or_an_organisation_is_never_taken_for_a_customer() {
        let payload = REAL.replace("customer_0198", "kp_0198");
        assert_eq!(facts(&payload).customer_id, None);
        assert!(!is_customers(&facts(&payload).lane()));
        let org = REAL.replace("customer_0198", "org_0198");
        assert_eq!(facts(&org).customer_id, None);
    }

    #[test]
    fn access_and_id_tokens_and_other_shapes_are_no_webhooks() {
        for mark in TOKEN_MARKS {
            let payload = REAL.replacen('{', &format!("{{\"{mark}\":null,"), 1);
            assert_eq!(read(&payload, None), Err(Refused::WrongToken), "{mark}");
        }
        for (from, to) in [
            ("\"type\"", "\"typ\""),
            ("\"event_id\"", "\"jti\""),
            ("event_01a1", "../event"),
            ("\"data\"", "\"dat\""),
            ("\"timestamp\"", "\"iat\""),
            ("2026-10-21T02:29:24.481368869+11:00", "yesterday"),
        ] {
            let payload = REAL.replacen(from, to, 1);
            assert_eq!(read(&payload, None), Err(Refused::WrongToken), "{to}");
        }
        let foreign = REAL.replacen('{', "{\"iss\":\"https://evil.kinde.com\",", 1);
        assert_eq!(
            read(&foreign, Some("https://acme.kinde.com")),
            Err(Refused::WrongToken)
        );
        let own = REAL.replacen('{', "{\"iss\":\"https://acme.kinde.com\",", 1);
        assert!(read(&own, Some("https://acme.kinde.com")).is_ok());
    }

    #[test]
    fn without_claims_of_a_login_token_it_is_still_a_webhook() {
        assert!(
            ["iss", "aud", "exp", "jti"]
                .iter()
                .all(|name| !REAL.contains(name))
        );
        assert!(read(REAL, Some("https://acme.kinde.com")).is_ok());
    }

    #[test]
    fn an_event_time_that_does_not_read_means_unknown_order() {
        let payload = REAL.replace("2026-10-21T02:29:23.403633+11:00", "soon");
        assert_eq!(facts(&payload).occurred, None);
    }
}
