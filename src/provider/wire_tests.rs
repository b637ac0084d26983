//! Every form of an answer that kinde's documentation, its specification or a live account shows,
//! and what must not be taken for one.

use proptest::prelude::*;

use super::*;

const LIST: List<'_> = List {
    path: ENTITLEMENTS,
    member: "entitlements",
    customer: "customer_1",
    page_rows: 2,
    expand: None,
};

fn units(number: i64) -> FeatureLimit {
    FeatureLimit::Known(Units::new(number).expect("an amount"))
}

fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Incoming {
    let headers = headers
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    Incoming {
        status,
        headers: headers.collect(),
        body: body.to_owned(),
    }
}

#[test]
fn a_token_request_has_the_credentials_and_the_audience_in_its_form() {
    let request = token_request("https://x.kinde.com", "id", "s&c");
    assert_eq!(request.url, "https://x.kinde.com/oauth2/token");
    assert!(
        request
            .headers
            .iter()
            .all(|(name, _)| name != "authorization")
    );
    let form: Vec<(String, String)> = url::form_urlencoded::parse(request.body.as_bytes())
        .into_owned()
        .collect();
    let field = |name: &str| {
        let found = form.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    assert_eq!(field("grant_type"), "client_credentials");
    assert_eq!(field("client_secret"), "s&c");
    assert_eq!(field("audience"), "https://x.kinde.com/api");
    assert!(
        field("scope")
            .split(' ')
            .any(|scope| scope == "create:meter_usage")
    );
}

#[test]
fn a_token_lives_as_long_as_its_own_answer_says() {
    let read = |text: &str| token(&serde_json::from_str(text).expect("JSON"));
    for (seconds, ms) in [
        ("3600", 3_600_000),
        ("86400", 86_400_000),
        ("\"60\"", 60_000),
    ] {
        let text =
            format!(r#"{{"access_token":"t","token_type":"Bearer","expires_in":{seconds}}}"#);
        assert_eq!(read(&text), Ok(("t".to_owned(), ms)));
    }
    for bad in [
        r"{}",
        r#"{"access_token":"t"}"#,
        r#"{"access_token":"","expires_in":5}"#,
        r#"{"access_token":"a b","expires_in":5}"#,
        r#"{"access_token":"t","expires_in":0}"#,
        r#"{"access_token":7,"expires_in":5}"#,
    ] {
        assert!(read(bad).is_err(), "{bad}");
    }
}

#[test]
fn no_maximum_is_unlimited_however_it_is_written() {
    for max in [
        json!(null),
        json!(2_147_483_647),
        json!("2147483647"),
        json!(2_147_483_647_i64),
    ] {
        let row = json!({"feature_code": "api_calls", "entitlement_limit_max": max});
        let read = entitlement(&row).expect("reads");
        assert_eq!(
            read,
            Some(("api_calls".to_owned(), FeatureLimit::Unlimited)),
            "{row}"
        );
    }
    let missing = json!({"feature_code": "api_calls"});
    let read = entitlement(&missing).expect("reads");
    assert_eq!(read.map(|(_, limit)| limit), Some(FeatureLimit::Unlimited));
    let limit = |max: Value| {
        entitlement(&json!({"feature_code": "x", "entitlement_limit_max": max}))
            .map(|read| read.map(|(_, limit)| limit))
    };
    assert_eq!(limit(json!(0)), Ok(Some(units(0))));
    assert_eq!(limit(json!(10_000)), Ok(Some(units(10_000))));
    assert_eq!(limit(json!("10000")), Ok(Some(units(10_000))));
    assert_eq!(
        limit(json!(3_000_000_000_i64)),
        Ok(Some(units(3_000_000_000)))
    );
    for bad in [json!(-1), json!(1.5), json!("many"), json!([]), json!(true)] {
        assert!(limit(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn the_documented_agreement_reads_and_an_older_one_without_a_period_too() {
    let row = json!({
        "id": "agreement_0195ac80a14c2ca2cec97d026d864de0", "plan_code": "pro",
        "expires_on": null, "billing_group_id": "sbg_0195abf6773fdae18d5da72281a3fde2",
        "current_period_start": "2026-08-06T12:53:57Z",
        "current_period_end": "2026-09-06T22:53:57+10",
        "entitlements": [{"feature_code": "api_calls", "entitlement_id": "entitlement_1"}],
    });
    let read = agreement(&row).expect("reads");
    assert_eq!(read.plan.as_str(), "pro");
    assert_eq!(read.expires_at, None);
    assert_eq!(
        read.period_start,
        moment::parse_millis("2026-08-06T12:53:57Z")
    );
    assert_eq!(
        read.period_end,
        moment::parse_millis("2026-09-06T12:53:57Z")
    );
    assert_eq!(read.feature_keys, ["api_calls"]);
    let older = json!({"id": "agreement_1", "plan_code": "pro",
        "expires_on": "2024-11-18T13:32:03+11"});
    let read = agreement(&older).expect("reads");
    assert_eq!(
        read.expires_at,
        moment::parse_millis("2024-11-18T02:32:03Z")
    );
    assert_eq!((read.period_start, read.period_end), (None, None));
    for bad in [
        json!({"plan_code": "pro"}),
        json!({"id": "agreement_1"}),
        json!({"id": "a/b", "plan_code": "pro"}),
        json!({"id": "agreement_1", "plan_code": "pro", "expires_on": "soon"}),
        json!({"id": "agreement_1", "plan_code": "pro", "current_period_start": 7}),
    ] {
        assert!(agreement(&bad).is_err(), "{bad}");
    }
}

#[test]
fn has_more_may_be_text_or_missing_and_a_full_page_is_then_not_the_last() {
    let more = |json: Value| page(&json, &LIST, entitlement).map(|page| page.has_more);
    let row = json!({"id": "e", "feature_code": "x"});
    assert_eq!(
        more(json!({"has_more": true, "entitlements": [row]})),
        Ok(true)
    );
    assert_eq!(
        more(json!({"has_more": "true", "entitlements": [row]})),
        Ok(true)
    );
    assert_eq!(
        more(json!({"has_more": "false", "entitlements": [row]})),
        Ok(false)
    );
    assert_eq!(more(json!({"entitlements": [row]})), Ok(false));
    assert_eq!(more(json!({"entitlements": [row, row]})), Ok(true));
    for bad in [
        json!({}),
        json!({"has_more": 1, "entitlements": []}),
        json!({"has_more": false, "entitlements": null}),
        json!({"has_more": false, "entitlements": [7, {"feature_code": 7}]}),
    ] {
        assert!(more(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn subscribed_on_is_read_from_the_plans_where_they_are_told() {
    let json = json!({"plans": [{"code": "pro", "subscribed_on": "2026-08-06T12:53:57Z"},
        {"code": "free", "subscribed_on": null}]});
    let at = moment::parse_millis("2026-08-06T12:53:57Z").expect("a moment");
    assert_eq!(plans(&json), Ok(vec![("pro".to_owned(), at)]));
    assert_eq!(plans(&json!({})), Ok(Vec::new()));
    assert!(plans(&json!({"plans": [{"code": "pro", "subscribed_on": "x"}]})).is_err());
}

#[test]
fn a_meter_write_names_its_fields_as_kinde_does_and_its_value_is_text() {
    let agreement = AgreementId::new("agreement_1").expect("an id");
    let at = moment::parse_millis("2026-08-20T10:15:00Z").expect("a moment");
    let total = Units::new(1234).expect("an amount");
    let request = write_request("https://x.kinde.com", &agreement, "api_calls", total, at);
    assert_eq!(
        request.url,
        "https://x.kinde.com/api/v1/billing/meter_usage"
    );
    let body: Value = serde_json::from_str(&request.body).expect("JSON");
    let expected = json!({
        "customer_agreement_id": "agreement_1", "billing_feature_code": "api_calls",
        "meter_value": "1234", "meter_usage_timestamp": "2026-08-20T10:15:00.000Z",
        "meter_type_code": "absolute",
    });
    assert_eq!(body, expected);
}

#[test]
fn only_an_answer_that_says_so_confirms_a_write() {
    assert_eq!(
        written(&json!({"message": "Success", "code": "OK"})),
        Ok(())
    );
    assert!(written(&json!({})).is_err());
    assert!(written(&json!({"errors": [], "code": "OK"})).is_err());
}

#[test]
fn a_meter_reads_as_number_text_record_or_the_newest_absolute_record() {
    let total = |number: i64| Ok(Delta::new(number).expect("an amount"));
    let record = |value: Value, at: &str| {
        let mut record = json!({"meter_value": value, "meter_type_code": "absolute"});
        record["meter_usage_timestamp"] = json!(at);
        record
    };
    let old = record(json!("9"), "2026-10-01T00:00:00Z");
    let new = record(json!(12), "2026-10-02T00:00:00+11");
    let delta = json!({"meter_value": "1", "meter_type_code": "delta",
        "meter_usage_timestamp": "2026-10-03T00:00:00Z"});
    for (read, expected) in [
        (json!({"meter_usage": 12}), total(12)),
        (json!({"meter_usage": "12"}), total(12)),
        (json!({"meter_usage": "12.00"}), total(12)),
        (json!({"meter_usage": {"meter_value": "12"}}), total(12)),
        (json!({"meter_usage": {"total": -3}}), total(-3)),
        (json!({"meter_value": "12", "code": "OK"}), total(12)),
        (json!({"meter_usage": null}), total(0)),
        (json!({"meter_usages": []}), total(0)),
        (json!({"data": [old, new, delta]}), total(12)),
        (json!({"data": [new, old]}), total(12)),
        (json!({"meter_usage": [{"meter_value": "7"}]}), total(7)),
    ] {
        assert_eq!(meter(&read), expected, "{read}");
    }
    for bad in [
        json!({}),
        json!({"code": "OK"}),
        json!({"meter_usage": "many"}),
        json!({"meter_usage": {"meter_value": "1.5"}}),
        json!({"meter_usage": {"meter_value": "9007199254740992"}}),
        json!({"meter_usage": [delta]}),
        json!({"meter_usage": [{"meter_value": "7"}, old]}),
        json!({"meter_usage": [old], "has_more": true}),
        json!({"meter_usage": true}),
    ] {
        assert!(meter(&bad).is_err(), "{bad}");
    }
}

#[test]
fn a_jwks_gives_its_rsa_signing_keys_and_passes_over_the_others() {
    let key = json!({"e": "AQAB", "n": "abc", "alg": "RS256", "kty": "RSA", "use": "sig",
        "kid": "4c:fa:9e:d6:47:23:b7:39:c7:8f:97:28:45:a1:84:35"});
    let other = json!({"kty": "EC", "kid": "x", "n": "1", "e": "1"});
    let encryption = json!({"kty": "RSA", "use": "enc", "kid": "y", "n": "1", "e": "1"});
    let keys = signing_keys(&json!({"keys": [other, encryption, key]})).expect("reads");
    assert_eq!(keys.len(), 1);
    assert_eq!(
        keys[0].kid,
        "4c:fa:9e:d6:47:23:b7:39:c7:8f:97:28:45:a1:84:35"
    );
    assert!(signing_keys(&json!({"keys": [other]})).is_err());
    assert!(signing_keys(&json!({})).is_err());
}

#[test]
fn errors_are_read_as_a_list_and_as_an_object_and_only_a_plain_4xx_is_a_refusal() {
    let refused = |status, body: &str| accepted(&answer(status, &[], body));
    for (body, code) in [
        (
            r#"{"errors":[{"code":"SCOPE_MISSING","message":"m"}]}"#,
            "SCOPE_MISSING",
        ),
        (
            r#"{"errors":{"code":"ROUTE_NOT_FOUND","message":"m"}}"#,
            "ROUTE_NOT_FOUND",
        ),
        (
            r#"{"error":"invalid_client","error_description":"d"}"#,
            "invalid_client",
        ),
        ("<html>", "no code"),
        (r#"{"errors":[]}"#, "no code"),
    ] {
        let expected = ProviderFault::Refused {
            status: 403,
            code: code.to_owned(),
        };
        assert_eq!(refused(403, body), Err(expected), "{body}");
    }
    for (status, body) in [
        (500, "{}"),
        (302, ""),
        (201, "{}"),
        (408, "{}"),
        (200, "<html>"),
        (200, "[]"),
        (200, ""),
    ] {
        let outcome = refused(status, body);
        assert!(
            matches!(outcome, Err(ProviderFault::Unknown(_))),
            "{status} {body}"
        );
    }
}

#[test]
fn a_429_waits_as_long_as_the_longer_header_says() {
    for (headers, seconds) in [
        (&[("ratelimit-reset", "30")][..], 30),
        (&[("ratelimit-reset", "2"), ("retry-after", "7")], 7),
        (&[("retry-after", "0")], 1),
        (&[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")], 10),
        (&[], 10),
        (&[("ratelimit-reset", "99999999999")], 3600),
    ] {
        let wait_ms = seconds * 1000;
        let outcome = accepted(&answer(429, headers, "{}"));
        assert_eq!(
            outcome,
            Err(ProviderFault::RateLimited { wait_ms }),
            "{headers:?}"
        );
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[0-9.eE+-]{0,12}".prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        Just("entitlements"),
        Just("has_more"),
        Just("meter_usage"),
        Just("meter_value"),
        Just("meter_usage_timestamp"),
        Just("errors"),
        Just("code"),
        Just("keys"),
        Just("feature_code"),
        Just("entitlement_limit_max"),
    ];
    leaf.prop_recursive(4, 32, 6, move |inner| {
        let members = prop::collection::btree_map(name.clone(), inner.clone(), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Value::from),
            members.prop_map(|members| json!(members)),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_is_answered_reads_or_is_refused(json in any_json(), status in 100_u16..600) {
        let body = json.to_string();
        for body in [body.as_str(), body.get(..body.len() / 2).unwrap_or("")] {
            if let Ok(json) = accepted(&answer(status, &[("ratelimit-reset", body)], body)) {
                prop_assert_eq!(status, 200);
                let _ = (token(&json), plans(&json), written(&json), signing_keys(&json));
                let _ = (page(&json, &LIST, entitlement), page(&json, &LIST, agreement));
                let _ = meter(&json);
            }
        }
    }

    #[test]
    fn a_total_reads_back_as_it_was_written(total in -SAFE_MAX..=SAFE_MAX) {
        let expected = Ok(Delta::new(total).expect("safe"));
        for value in [json!(total), json!(total.to_string()), json!(format!("{total}.0"))] {
            let read = meter(&json!({"meter_usage": {"meter_value": value}}));
            prop_assert_eq!(read, expected.clone());
        }
    }
}
