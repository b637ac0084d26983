//! The built-in provider; only with `PROVIDER=standin`.

use super::super::request::Method::{Get, Post, Put};
use super::Kind::{
    Any, Bool, Either, Fields, Id, Int, List, Map, Moment, Object, OrNull, Text, Word,
};
use super::{
    Area, Field, Kind, Operation, Sample, Thing, empty, has, items, json, may, must, route,
};
use crate::limits::CLOCK_OFFSET_MS_MAX;

/// A limit at the provider: null is no maximum.
const LIMITS: Kind = Map(&OrNull(&Kind::COUNT));

const OPERATION_NAMES: &[&str] = &[
    "limit",
    "plan",
    "meter_read",
    "meter_write",
    "jwks",
    "token",
];

const MODES: &[&str] = &[
    "ok",
    "error",
    "timeout",
    "429",
    "garbage",
    "lost_answer",
    "partial",
    "late",
];

const CUSTOMER: Thing = Thing {
    name: "StandInCustomer",
    fields: &[&[
        has("customer_id", Id),
        has("plan", OrNull(&Id)),
        has("agreement_id", OrNull(&Id)),
        has("limits", LIMITS),
        has("period_start", Moment),
        has("period_end", Moment),
    ]],
    example: r#"{"customer_id": "customer_0198", "plan": "pro",
"agreement_id": "agreement_0198", "limits": {"tokens": 100000, "clicks": null},
"period_start": "2026-10-20T15:29:00.000Z", "period_end": "2026-11-20T15:29:00.000Z"}"#,
};

const METER: Thing = Thing {
    name: "StandInMeter",
    fields: &[&[
        has("agreement_id", Id),
        has("feature", Id),
        has("total", Kind::COUNT),
        has("written_at", OrNull(&Moment)),
        has("period_start", Moment),
        has("period_end", Moment),
    ]],
    example: r#"{"agreement_id": "agreement_0198", "feature": "clicks", "total": 5000,
"written_at": "2026-10-20T15:29:00.000Z", "period_start": "2026-10-20T15:29:00.000Z",
"period_end": "2026-11-20T15:29:00.000Z"}"#,
};

const FAULT: Thing = Thing {
    name: "StandInFault",
    fields: &[&[
        has("operation", Word(OPERATION_NAMES)),
        has("mode", Word(MODES)),
        has("times", OrNull(&Kind::UNITS)),
    ]],
    example: r#"{"operation": "limit", "mode": "error", "times": 3}"#,
};

const SIGNED: Thing = Thing {
    name: "StandInEvent",
    fields: &[&[
        has("jwt", Text),
        has("webhook_id", Text),
        has("event_id", Text),
        may(
            "answers",
            List(&OrNull(&Int(100, 599))),
            "How each delivery was answered; null: not at all.",
        ),
    ]],
    example: r#"{"jwt": "eyJ", "webhook_id": "webhook_1", "event_id": "event_1",
"answers": [200]}"#,
};

const NEW_KEY: Thing = Thing {
    name: "StandInKey",
    fields: &[&[has("kid", Text)]],
    example: r#"{"kid": "4c:fa:9e"}"#,
};

const CLOCK: Thing = Thing {
    name: "StandInClock",
    fields: &[&[has(
        "offset_ms",
        Int(-CLOCK_OFFSET_MS_MAX, CLOCK_OFFSET_MS_MAX),
    )]],
    example: r#"{"offset_ms": 86400000}"#,
};

const CALL: Thing = Thing {
    name: "StandInCall",
    fields: &[&[
        has("number", Kind::UNITS),
        has("at", Moment),
        must(
            "operation",
            Text,
            "As in `PUT /standin/faults`; `none` where the path is none of Kinde's.",
        ),
        has("method", Text),
        has("path", Text),
        has("query", Text),
        has("body", Any),
        must(
            "status",
            OrNull(&Int(100, 599)),
            "null: the answer was lost.",
        ),
        has("fault", OrNull(&Word(MODES))),
    ]],
    example: r#"{"number": 7, "at": "2026-11-10T12:00:00.000Z", "operation": "meter_write",
"method": "POST", "path": "/api/v1/billing/meter_usage", "query": "",
"body": {"meter_value": "5"}, "status": 200, "fault": null}"#,
};

const TOKEN: Thing = Thing {
    name: "KindeToken",
    fields: &[&[
        has("access_token", Text),
        has("token_type", Word(&["Bearer"])),
        has("expires_in", Kind::UNITS),
        has("scope", Text),
    ]],
    example: r#"{"access_token": "eyJ", "token_type": "Bearer", "expires_in": 86400,
"scope": "read:entitlements"}"#,
};

const TOKEN_REFUSED: Thing = Thing {
    name: "KindeTokenRefused",
    fields: &[&[has("error", Text), has("error_description", Text)]],
    example: r#"{"error": "invalid_client", "error_description": "There is no such client."}"#,
};

const KEYS: Thing = Thing {
    name: "KindeKeys",
    fields: &[&[has(
        "keys",
        List(&Fields(&[
            has("kid", Text),
            has("kty", Word(&["RSA"])),
            has("alg", Word(&["RS256"])),
            has("use", Word(&["sig"])),
            has("n", Text),
            has("e", Text),
        ])),
    )]],
    example: r#"{"keys": [{"kid": "4c:fa:9e", "kty": "RSA", "alg": "RS256", "use": "sig",
"n": "xjlC", "e": "AQAB"}]}"#,
};

const OF_KINDE: &[Field] = &[has("code", Word(&["OK"])), has("message", Text)];

const ENTITLEMENTS: Thing = Thing {
    name: "KindeEntitlements",
    fields: &[
        OF_KINDE,
        &[
            has("has_more", Bool),
            has("entitlements", List(&Object)),
            may("plans", List(&Object), "With `expand=plans`."),
        ],
    ],
    example: r#"{"code": "OK", "message": "Success", "has_more": false, "entitlements": []}"#,
};

const AGREEMENTS: Thing = Thing {
    name: "KindeAgreements",
    fields: &[
        OF_KINDE,
        &[has("has_more", Bool), has("agreements", List(&Object))],
    ],
    example: r#"{"code": "OK", "message": "Success", "has_more": false, "agreements": []}"#,
};

const METER_USAGE: Thing = Thing {
    name: "KindeMeterUsage",
    fields: &[
        OF_KINDE,
        &[must(
            "meter_usage",
            OrNull(&Either(&[Object, List(&Object)])),
            "A record, or a list with `all_cycles=true`.",
        )],
    ],
    example: r#"{"code": "OK", "message": "Success", "meter_usage": null}"#,
};

const WRITTEN: Thing = Thing {
    name: "KindeWritten",
    fields: &[OF_KINDE],
    example: r#"{"code": "OK", "message": "Success"}"#,
};

const ERRORS: Thing = Thing {
    name: "KindeErrors",
    fields: &[&[has(
        "errors",
        List(&Fields(&[has("code", Text), has("message", Text)])),
    )]],
    example: r#"{"errors": [{"code": "TOKEN_INVALID", "message": "An access token is needed."}]}"#,
};

const REFUSED: &[&Thing] = &[&ERRORS];
const BAD: Sample = json(400, "The request is not what Kinde takes.", REFUSED);
const NO_TOKEN: Sample = json(401, "There is no such token.", REFUSED);
const NO_SCOPE: Sample = json(403, "The token lacks the scope.", REFUSED);
const LIMITED: Sample = json(429, "Told to fail.", REFUSED);
const BROKEN: Sample = json(500, "Told to fail.", REFUSED);
const LOST: Sample = empty(504, "Told to fail: the answer was lost.");

/// Answers of a path of Kinde's management API: its own, what it refuses, and what it fails with
/// when told to.
const fn as_kinde(done: &'static [&'static Thing]) -> [Sample; 7] {
    let done = json(200, "As Kinde answers.", done);
    [done, BAD, NO_TOKEN, NO_SCOPE, LIMITED, BROKEN, LOST]
}

pub(super) const AREA: Area = Area {
    name: "Stand-in",
    about: "A provider of our own that speaks Kinde's API, signs its own webhooks and fails on \
            demand. Only with PROVIDER=standin. Kinde's paths need the stand-in's own access \
            token, the controls the operator's.",
    operations: OPERATIONS,
};

const OPERATIONS: &[Operation] = &[
    route(Post, "/standin/oauth2/token", "Get an access token")
        .answers(&[
            json(200, "As Kinde answers.", &[&TOKEN]),
            json(400, "The form is not what Kinde takes.", &[&TOKEN_REFUSED]),
            json(401, "There is no such client.", &[&TOKEN_REFUSED]),
            LIMITED,
            BROKEN,
            LOST,
        ])
        .problems(OF_PATHS),
    route(Get, "/standin/.well-known/jwks", "Read the signing keys")
        .answers(&[
            json(200, "As Kinde answers.", &[&KEYS]),
            json(403, "The keys are public: no token here.", REFUSED),
            LIMITED,
            BROKEN,
            LOST,
        ])
        .problems(OF_PATHS),
    route(Get, "/standin/api/v1/billing/entitlements", "Read limits")
        .query(&[must("customer_id", Id, "Whose.")])
        .answers(&as_kinde(&[&ENTITLEMENTS]))
        .problems(OF_PATHS),
    route(Get, "/standin/api/v1/billing/agreements", "Read agreements")
        .query(&[must("customer_id", Id, "Whose.")])
        .answers(&as_kinde(&[&AGREEMENTS]))
        .problems(OF_PATHS),
    route(Get, "/standin/api/v1/billing/meter_usage", "Read a meter")
        .query(&[
            must("customer_agreement_id", Id, "Of which agreement."),
            must("billing_feature_code", Id, "Of which feature."),
            may(
                "all_cycles",
                Word(&["true", "false"]),
                "Of every cycle, as a list.",
            ),
        ])
        .answers(&as_kinde(&[&METER_USAGE]))
        .problems(OF_PATHS),
    route(Post, "/standin/api/v1/billing/meter_usage", "Write a meter")
        .body(&[
            must("customer_agreement_id", Id, "Of which agreement."),
            must("billing_feature_code", Id, "Of which feature."),
            must("meter_value", Text, "A whole number, as text."),
            may(
                "meter_type_code",
                OrNull(&Word(&["absolute", "delta"])),
                "`absolute` by default: it sets the total.",
            ),
            may("meter_usage_timestamp", OrNull(&Text), "Now by default."),
        ])
        .answers(&as_kinde(&[&WRITTEN]))
        .problems(OF_PATHS),
    route(
        Put,
        "/standin/customers/{customer_id}",
        "Set a customer's plan, limits or period",
    )
    .body(&[
        may(
            "plan",
            OrNull(&Id),
            "`null` ends the agreement and makes none.",
        ),
        may(
            "agreement_id",
            OrNull(&Id),
            "Without it a changed plan makes a new one.",
        ),
        may("limits", OrNull(&LIMITS), "Override the plan's."),
        may("period_start", OrNull(&Moment), "Where the period begins."),
        may("period_end", OrNull(&Moment), "Where it ends."),
    ])
    .answers(&[json(200, "What is now set.", &[&CUSTOMER])]),
    route(
        Get,
        "/standin/meters/{agreement_id}/{feature}",
        "Read a meter behind Counterfoil's back",
    )
    .answers(&[json(200, "Its total.", &[&METER])]),
    route(
        Put,
        "/standin/meters/{agreement_id}/{feature}",
        "Move a meter behind Counterfoil's back",
    )
    .body(&[must("total", Kind::COUNT, "The new total.")])
    .answers(&[json(200, "Its total.", &[&METER])]),
    route(Put, "/standin/faults", "Make an operation fail")
        .body(&[
            must("operation", Word(OPERATION_NAMES), "Which."),
            must("mode", Word(MODES), "How."),
            may("times", OrNull(&Kind::UNITS), "Until set to ok without it."),
        ])
        .answers(&[json(200, "What is now set.", &[&FAULT])]),
    route(Post, "/standin/events", "Sign an event and deliver it")
        .details(
            "With `deliver` 0 it is only signed, whatever its `type`, `event_id`, `timestamp` and \
             size; what is delivered must be what the inbox takes.",
        )
        .body(&[
            must("type", Text, "Kinde's name of it."),
            must("customer_id", Text, "Whose."),
            may("data", OrNull(&Object), "Added to `{customer_id}`."),
            may("event_id", OrNull(&Text), "Made up where left out."),
            may("webhook_id", OrNull(&Text), "Made up where left out."),
            may("event_timestamp", OrNull(&Text), "When it happened."),
            may(
                "timestamp",
                OrNull(&Text),
                "When it was sent; now by default.",
            ),
            may(
                "deliver",
                OrNull(&Int(0, 1000)),
                "How often; 1 by default, 0 only signs.",
            ),
            may(
                "to",
                OrNull(&Text),
                "Where to; our own inbox by default. A path of ours, our address, or a loopback \
                 address.",
            ),
        ])
        .answers(&[json(
            200,
            "The signed event, and how each delivery was answered.",
            &[&SIGNED],
        )]),
    route(Post, "/standin/keys/rotate", "Make a new signing key")
        .body(&[may(
            "drop",
            OrNull(&Bool),
            "Take the old one out of the JWKS at once.",
        )])
        .answers(&[json(200, "The new key's id.", &[&NEW_KEY])]),
    route(Put, "/standin/clock", "Move the clock")
        .details("Never lower than before: an object's time never goes back.")
        .body(&[must(
            "offset_ms",
            Int(-CLOCK_OFFSET_MS_MAX, CLOCK_OFFSET_MS_MAX),
            "Added to every reading of the time.",
        )])
        .answers(&[json(200, "What is now set.", &[&CLOCK])]),
    route(Get, "/standin/calls", "Read what it was asked")
        .list()
        .answers(&[items("Newest first, the last thousand.", &[&CALL])]),
];

/// What may come before the stand-in is asked, or instead of its answer.
const OF_PATHS: &[&str] = &["too_large", "unavailable", "newer_schema"];
