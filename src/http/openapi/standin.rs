//! The built-in provider; only with `PROVIDER=standin`.

use super::super::request::Method::{Get, Post, Put};
use super::Kind::{Bool, Change, Id, Int, Limits, Moment, Object, Text, Word};
use super::{Area, Operation, items, json, may, must, route};
use crate::units::SAFE_MAX;

const CUSTOMER: &str = r#"{"customer_id": "customer_0198", "plan": "pro",
"agreement_id": "agreement_0198", "limits": {"tokens": 100000, "clicks": null},
"period_start": "2026-10-20T15:29:00.000Z", "period_end": "2026-11-20T15:29:00.000Z"}"#;

const METER: &str = r#"{"agreement_id": "agreement_0198", "feature": "clicks", "total": 5000,
"written_at": "2026-10-20T15:29:00.000Z", "period_start": "2026-10-20T15:29:00.000Z",
"period_end": "2026-11-20T15:29:00.000Z"}"#;

pub(super) const AREA: Area = Area {
    name: "Stand-in",
    about: "A provider of our own that speaks Kinde's API, signs its own webhooks and fails on \
            demand. Only with PROVIDER=standin. Kinde's paths need the stand-in's own access \
            token, the controls the operator's.",
    operations: OPERATIONS,
};

const OPERATIONS: &[Operation] = &[
    route(Post, "/standin/oauth2/token", "Get an access token").answers(&[json(
        200,
        "As Kinde answers.",
        r#"{"access_token": "eyJ", "token_type": "Bearer", "expires_in": 86400}"#,
    )]),
    route(Get, "/standin/.well-known/jwks", "Read the signing keys").answers(&[json(
        200,
        "As Kinde answers.",
        r#"{"keys": []}"#,
    )]),
    route(Get, "/standin/api/v1/billing/entitlements", "Read limits")
        .query(&[must("customer_id", Id, "Whose.")])
        .answers(&[json(
            200,
            "As Kinde answers.",
            r#"{"code": "OK", "message": "Success", "has_more": false, "entitlements": []}"#,
        )]),
    route(Get, "/standin/api/v1/billing/agreements", "Read agreements")
        .query(&[must("customer_id", Id, "Whose.")])
        .answers(&[json(
            200,
            "As Kinde answers.",
            r#"{"code": "OK", "message": "Success", "has_more": false, "agreements": []}"#,
        )]),
    route(Get, "/standin/api/v1/billing/meter_usage", "Read a meter").answers(&[json(
        200,
        "As Kinde answers.",
        r#"{"code": "OK", "message": "Success"}"#,
    )]),
    route(Post, "/standin/api/v1/billing/meter_usage", "Write a meter").answers(&[json(
        200,
        "As Kinde answers.",
        r#"{"code": "OK", "message": "Success"}"#,
    )]),
    route(
        Put,
        "/standin/customers/{customer_id}",
        "Set a customer's plan, limits or period",
    )
    .body(&[
        may("plan", Text, "`null` ends the agreement and makes none."),
        may(
            "agreement_id",
            Id,
            "Without it a changed plan makes a new one.",
        ),
        may("limits", Limits, "Override the plan's."),
        may("period_start", Moment, "Where the period begins."),
        may("period_end", Moment, "Where it ends."),
    ])
    .answers(&[json(200, "What is now set.", CUSTOMER)]),
    route(
        Get,
        "/standin/meters/{agreement_id}/{feature}",
        "Read a meter behind Counterfoil's back",
    )
    .answers(&[json(200, "Its total.", METER)]),
    route(
        Put,
        "/standin/meters/{agreement_id}/{feature}",
        "Move a meter behind Counterfoil's back",
    )
    .body(&[must("total", Int(0, SAFE_MAX), "The new total.")])
    .answers(&[json(200, "Its total.", METER)]),
    route(Put, "/standin/faults", "Make an operation fail")
        .body(&[
            must(
                "operation",
                Word(&[
                    "limit",
                    "plan",
                    "meter_read",
                    "meter_write",
                    "jwks",
                    "token",
                ]),
                "Which.",
            ),
            must(
                "mode",
                Word(&[
                    "ok",
                    "error",
                    "timeout",
                    "429",
                    "garbage",
                    "lost_answer",
                    "partial",
                    "late",
                ]),
                "How.",
            ),
            may("times", Int(1, SAFE_MAX), "Until set to ok without it."),
        ])
        .answers(&[json(
            200,
            "What is now set.",
            r#"{"operation": "limit", "mode": "error", "times": 3}"#,
        )]),
    route(Post, "/standin/events", "Sign an event and deliver it")
        .body(&[
            must("type", Text, "Kinde's name of it."),
            must("customer_id", Id, "Whose."),
            may("data", Object, "Added to `{customer_id}`."),
            may("event_id", Id, "Made up where left out."),
            may("webhook_id", Text, "Made up where left out."),
            may("event_timestamp", Text, "When it happened."),
            may("timestamp", Text, "When it was sent; now by default."),
            may(
                "deliver",
                Int(0, 1000),
                "How often; 1 by default, 0 only signs.",
            ),
            may(
                "to",
                Text,
                "Where to; our own inbox by default. A path of ours, our address, or a loopback \
                 address.",
            ),
        ])
        .answers(&[json(
            200,
            "The signed event, and how each delivery was answered (null: not at all).",
            r#"{"jwt": "eyJ", "webhook_id": "webhook_1", "event_id": "event_1", "answers": [200]}"#,
        )]),
    route(Post, "/standin/keys/rotate", "Make a new signing key")
        .body(&[may(
            "drop",
            Bool,
            "Take the old one out of the JWKS at once.",
        )])
        .answers(&[json(200, "The new key's id.", r#"{"kid": "4c:fa:9e"}"#)]),
    route(Put, "/standin/clock", "Move the clock")
        .details("Never lower than before: an object's time never goes back.")
        .body(&[must(
            "offset_ms",
            Change,
            "Added to every reading of the time.",
        )])
        .answers(&[json(200, "What is now set.", r#"{"offset_ms": 86400000}"#)]),
    route(Get, "/standin/calls", "Read what it was asked")
        .list()
        .answers(&[items("Newest first, the last thousand.", CALL)]),
];

const CALL: &str = r#"{"number": 7, "at": "2026-11-10T12:00:00.000Z", "operation": "meter_write",
    "method": "POST", "path": "/api/v1/billing/meter_usage", "query": "",
    "body": {"meter_value": "5"}, "status": 200, "fault": null}"#;
