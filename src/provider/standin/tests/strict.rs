//! What Kinde's documentation does not allow is refused: each row of a table names the rule that
//! its request breaks.

#![allow(clippy::too_many_lines)] // They are tables.

use serde_json::{Value, json};

use super::super::wire::{Ask, HttpAsk, Reply};
use super::{AGREEMENTS, Client, ENTITLEMENTS, FORM, JSON, USAGE, code, text};
use crate::native::executor::block_on;

#[test]
fn each_wrong_token_request_breaks_a_rule_of_kinde() {
    let client = Client::new();
    let good = "grant_type=client_credentials&client_id=standin&client_secret=standin-secret\
        &audience=https%3A%2F%2Fx.kinde.com%2Fapi";
    let without = |part: &str| good.replace(part, "");
    // Each row: which rule (section of the documentation's summary), the request, the answer.
    let table: [(&str, &str, &str, String, u16, &str); 10] = [
        (
            "1.1 it is a form, not JSON",
            "",
            JSON,
            json!({"grant_type": "client_credentials"}).to_string(),
            400,
            "invalid_request",
        ),
        (
            "1.1 it is a form: no content type",
            "",
            "",
            good.to_owned(),
            400,
            "invalid_request",
        ),
        (
            "1.1 credentials are not sent by HTTP Basic",
            "Basic c3RhbmRpbjp4",
            FORM,
            good.to_owned(),
            401,
            "invalid_client",
        ),
        (
            "1.1 the audience is needed",
            "",
            FORM,
            without("&audience=https%3A%2F%2Fx.kinde.com%2Fapi"),
            400,
            "invalid_request",
        ),
        (
            "1.1 the audience is /api, not /api/v1",
            "",
            FORM,
            format!("{good}%2Fv1"),
            400,
            "unauthorized_client",
        ),
        (
            "1.1 the audience is an address",
            "",
            FORM,
            good.replace("https%3A%2F%2F", ""),
            400,
            "unauthorized_client",
        ),
        (
            "1.5 the secret is checked",
            "",
            FORM,
            good.replace("standin-secret", "x"),
            401,
            "invalid_client",
        ),
        (
            "1.1 the grant is client_credentials",
            "",
            FORM,
            good.replace("client_credentials", "password"),
            400,
            "unsupported_grant_type",
        ),
        (
            "1.1 the grant is needed",
            "",
            FORM,
            without("grant_type=client_credentials&"),
            400,
            "invalid_request",
        ),
        (
            "1.5 a scope that the application lacks",
            "",
            FORM,
            format!("{good}&scope=delete:users"),
            400,
            "invalid_scope",
        ),
    ];
    for (rule, authorization, content_type, body, status, error) in table {
        let target = "/standin/oauth2/token";
        let answer = client.raw("POST", target, authorization, content_type, &body);
        assert_eq!((answer.0, code(&answer.1)), (status, error), "{rule}");
    }
    assert_eq!(
        client
            .raw("POST", "/standin/oauth2/token", "", FORM, good)
            .0,
        200
    );
}

#[test]
fn each_wrong_write_breaks_a_rule_of_kinde_and_moves_nothing() {
    let client = Client::new();
    client.customer(&json!({"plan": "pro", "agreement_id": "agreement_1"}));
    client.customer(&json!({"agreement_id": "agreement_2"}));
    let token = client.token(None);
    let good = json!({"customer_agreement_id": "agreement_2", "billing_feature_code": "tokens",
        "meter_value": "5", "meter_usage_timestamp": "2026-11-10T12:00:00Z",
        "meter_type_code": "absolute"});
    assert_eq!(client.write(&token, &good).0, 200);
    let with = |name: &str, value: Value| {
        let mut body = good.clone();
        body[name] = value;
        body.to_string()
    };
    let without = |name: &str| {
        let mut body = good.clone();
        body.as_object_mut().expect("an object").remove(name);
        body.to_string()
    };
    let expired = with("customer_agreement_id", json!("agreement_1"));
    let reading = client.token(Some("read:billing_entitlements"));
    let table: [(&str, &str, &str, String, u16, &str); 22] = [
        (
            "1.6 without a token",
            "",
            JSON,
            good.to_string(),
            401,
            "TOKEN_INVALID",
        ),
        (
            "1.6 somebody else's token",
            "Bearer dev-operator",
            JSON,
            good.to_string(),
            401,
            "TOKEN_INVALID",
        ),
        (
            "1.3 the scope of writes is one of its own",
            &reading,
            JSON,
            good.to_string(),
            403,
            "SCOPE_MISSING",
        ),
        (
            "2.5 the body is JSON",
            &token,
            FORM,
            good.to_string(),
            400,
            "CONTENT_TYPE_INVALID",
        ),
        (
            "2.5 the body is an object",
            &token,
            JSON,
            "[]".to_owned(),
            400,
            "BODY_INVALID",
        ),
        (
            "2.5 meter_value is text",
            &token,
            JSON,
            with("meter_value", json!(5)),
            400,
            "FIELD_INVALID",
        ),
        (
            "2.5 meter_value is needed",
            &token,
            JSON,
            without("meter_value"),
            400,
            "FIELD_MISSING",
        ),
        (
            "2.5 no negative value",
            &token,
            JSON,
            with("meter_value", json!("-5")),
            400,
            "METER_VALUE_INVALID",
        ),
        (
            "2.5 no fraction",
            &token,
            JSON,
            with("meter_value", json!("5.5")),
            400,
            "METER_VALUE_INVALID",
        ),
        (
            "2.5 no word",
            &token,
            JSON,
            with("meter_value", json!("pro_gym")),
            400,
            "METER_VALUE_INVALID",
        ),
        (
            "2.5 nothing beyond exact numbers",
            &token,
            JSON,
            with("meter_value", json!("9007199254740992")),
            400,
            "METER_VALUE_INVALID",
        ),
        (
            "K7 it is customer_agreement_id",
            &token,
            JSON,
            without("customer_agreement_id").replacen('{', "{\"agreement_id\":\"agreement_2\",", 1),
            400,
            "FIELD_MISSING",
        ),
        (
            "K7 it is billing_feature_code",
            &token,
            JSON,
            without("billing_feature_code").replacen('{', "{\"feature_code\":\"tokens\",", 1),
            400,
            "FIELD_MISSING",
        ),
        (
            "K7 there is no quantity",
            &token,
            JSON,
            with("quantity", json!(5)),
            400,
            "FIELD_UNKNOWN",
        ),
        (
            "2.5 absolute or delta",
            &token,
            JSON,
            with("meter_type_code", json!("sum")),
            400,
            "METER_TYPE_INVALID",
        ),
        (
            "2.5 the time is a date-time",
            &token,
            JSON,
            with("meter_usage_timestamp", json!("today")),
            400,
            "TIMESTAMP_INVALID",
        ),
        (
            "2.5 the time is text",
            &token,
            JSON,
            with("meter_usage_timestamp", json!(1)),
            400,
            "FIELD_INVALID",
        ),
        (
            "K8 the customer is not the agreement",
            &token,
            JSON,
            with("customer_agreement_id", json!("customer_1")),
            400,
            "AGREEMENT_NOT_FOUND",
        ),
        (
            "2.3 the agreement has not ended",
            &token,
            JSON,
            expired,
            400,
            "AGREEMENT_EXPIRED",
        ),
        (
            "2.3 the agreement contains the feature",
            &token,
            JSON,
            with("billing_feature_code", json!("seats")),
            400,
            "FEATURE_NOT_FOUND",
        ),
        (
            "2.2 a fixed charge is no meter",
            &token,
            JSON,
            with("billing_feature_code", json!("base_price")),
            400,
            "FEATURE_NOT_FOUND",
        ),
        (
            "2.5 null is not a feature",
            &token,
            JSON,
            with("billing_feature_code", json!(null)),
            400,
            "FIELD_MISSING",
        ),
    ];
    for (rule, authorization, content_type, body, status, error) in table {
        let answer = client.raw("POST", USAGE, authorization, content_type, &body);
        assert_eq!((answer.0, code(&answer.1)), (status, error), "{rule}");
        assert_eq!(client.total("agreement_2"), 5, "{rule}");
    }
}

#[test]
fn each_wrong_read_breaks_a_rule_of_kinde() {
    let client = Client::new();
    client.customer(&json!({"agreement_id": "agreement_1"}));
    let token = client.token(None);
    let writing = client.token(Some("create:meter_usage"));
    let of = |path: &str, query: &str| format!("{path}?{query}");
    let table: [(&str, &str, String, u16, &str); 16] = [
        (
            "1.6 without a token",
            "",
            of(ENTITLEMENTS, "customer_id=customer_1"),
            401,
            "TOKEN_INVALID",
        ),
        (
            "1.3 entitlements have their scope",
            &writing,
            of(ENTITLEMENTS, "customer_id=customer_1"),
            403,
            "SCOPE_MISSING",
        ),
        (
            "1.3 agreements have theirs",
            &writing,
            of(AGREEMENTS, "customer_id=customer_1"),
            403,
            "SCOPE_MISSING",
        ),
        (
            "2.6 reading a meter has its own",
            &writing,
            of(
                USAGE,
                "customer_agreement_id=agreement_1&billing_feature_code=tokens",
            ),
            403,
            "SCOPE_MISSING",
        ),
        (
            "2.2 customer_id is needed",
            &token,
            ENTITLEMENTS.to_owned(),
            400,
            "PARAMETER_MISSING",
        ),
        (
            "K8 a user is no customer",
            &token,
            of(ENTITLEMENTS, "customer_id=kp_1"),
            400,
            "CUSTOMER_INVALID",
        ),
        (
            "K8 an organisation is no customer",
            &token,
            of(AGREEMENTS, "customer_id=org_1"),
            400,
            "CUSTOMER_INVALID",
        ),
        (
            "1.7 at most 500 rows",
            &token,
            of(ENTITLEMENTS, "customer_id=customer_1&page_size=501"),
            400,
            "PAGE_SIZE_INVALID",
        ),
        (
            "2.2 page_size is a number",
            &token,
            of(AGREEMENTS, "customer_id=customer_1&page_size=all"),
            400,
            "PAGE_SIZE_INVALID",
        ),
        (
            "2.2 starting_after is a row's id",
            &token,
            of(
                ENTITLEMENTS,
                "customer_id=customer_1&starting_after=entitlement_0",
            ),
            400,
            "CURSOR_INVALID",
        ),
        (
            "2.2 expand is plans",
            &token,
            of(ENTITLEMENTS, "customer_id=customer_1&expand=all"),
            400,
            "PARAMETER_INVALID",
        ),
        (
            "2.3 agreements do not expand",
            &token,
            of(AGREEMENTS, "customer_id=customer_1&expand=plans"),
            400,
            "PARAMETER_UNKNOWN",
        ),
        (
            "2.2 it is page_size, not limit",
            &token,
            of(ENTITLEMENTS, "customer_id=customer_1&limit=5"),
            400,
            "PARAMETER_UNKNOWN",
        ),
        (
            "2.6 both names are needed",
            &token,
            of(USAGE, "customer_agreement_id=agreement_1"),
            400,
            "PARAMETER_MISSING",
        ),
        (
            "2.6 the agreement is known",
            &token,
            of(
                USAGE,
                "customer_agreement_id=agreement_9&billing_feature_code=tokens",
            ),
            400,
            "AGREEMENT_NOT_FOUND",
        ),
        (
            "2.6 all_cycles is true or false",
            &token,
            of(
                USAGE,
                "customer_agreement_id=agreement_1&billing_feature_code=tokens&all_cycles=1",
            ),
            400,
            "PARAMETER_INVALID",
        ),
    ];
    for (rule, authorization, target, status, error) in table {
        let answer = client.raw("GET", &target, authorization, "", "");
        assert_eq!((answer.0, code(&answer.1)), (status, error), "{rule}");
    }
    let jwks = "/standin/.well-known/jwks";
    assert_eq!(
        client.raw("GET", jwks, &token, "", "").0,
        403,
        "3.2 the keys are public"
    );
}

#[test]
fn an_unknown_path_is_told_with_errors_as_one_object() {
    let client = Client::new();
    let ask = Ask::Http(HttpAsk {
        method: "DELETE".to_owned(),
        path: "/api/v1/billing/agreements".to_owned(),
        query: String::new(),
        authorization: None,
        content_type: None,
        body: String::new(),
    });
    let world = client.machine.world();
    let reply = block_on(super::super::ask(&*world.objects, ask)).expect("an answer");
    let Reply::Http { status, body, .. } = reply else {
        panic!("no HTTP answer")
    };
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(
        (status, &body["errors"]["code"]),
        (404, &json!("ROUTE_NOT_FOUND"))
    );
}

#[test]
fn a_list_is_given_in_pages_both_ways() {
    let client = Client::new();
    let limits: Value = (0..12).map(|n| (format!("f{n:02}"), json!(n))).collect();
    client.customer(&json!({"plan": "own", "limits": limits}));
    let token = client.token(None);
    let get = |query: &str| {
        let target = format!("{ENTITLEMENTS}?customer_id=customer_1{query}");
        let (status, answer) = client.raw("GET", &target, &token, "", "");
        assert_eq!(status, 200, "{answer}");
        let rows = answer["entitlements"].as_array().expect("a list").clone();
        (rows, answer["has_more"].as_bool().expect("said"))
    };
    let (first, more) = get("");
    assert_eq!((first.len(), more), (10, true));
    let (rest, more) = get(&format!("&starting_after={}", text(&first[9], "id")));
    assert_eq!((rest.len(), more), (3, false));
    assert_eq!(text(&rest[2], "feature_code"), "base_price");
    let (before, _) = get(&format!(
        "&page_size=2&ending_before={}",
        text(&first[9], "id")
    ));
    assert_eq!(before, first[7..9]);
}
