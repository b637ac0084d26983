//! The provider's webhooks.

use super::super::request::Method::{Get, Post};
use super::Kind::{Id, Moment, Text, Word};
use super::{Area, Operation, empty, items, json, may, must, route};

const EVENT: &str = r#"{"id": "evt_0198", "event_id": "event_0198", "type": "customer.plan_changed",
"account": "acme", "customer_id": "customer_0198", "status": "applied",
"result": "the plan is pro", "seen": 1, "attempts": 1,
"next_at": null, "occurred_at": "2026-10-20T15:29:00.000Z",
"received_at": "2026-10-20T15:29:01.000Z", "conflict": false,
"receipts": [{"at": "2026-10-20T15:29:01.000Z", "sent_at": "2026-10-20T15:29:00.000Z",
"webhook_id": "wh_1", "kid": "k1", "outcome": "stored", "note": null}],
"runs": [{"began_at": "2026-10-20T15:29:01.000Z", "ended_at": "2026-10-20T15:29:01.000Z",
"outcome": "applied"}], "payload": {}}"#;

const STATUSES: &[&str] = &[
    "received",
    "processing",
    "waiting",
    "failed",
    "applied",
    "ignored",
    "skipped",
    "dead",
];

pub(super) const AREA: Area = Area {
    name: "Inbox",
    about: "A stored event is applied exactly once in effect, in any order, after any crash.",
    operations: OPERATIONS,
};

const OPERATIONS: &[Operation] = &[
    route(Post, "/webhooks/kinde", "Receive an event")
        .details("The body is the JWT, whatever the content type. 200 means stored, not applied.")
        .answers(&[json(
            200,
            "Stored now, or a copy.",
            r#"{"id": "evt_0198", "copy": false}"#,
        )])
        .problems(&[
            "not_a_jwt",
            "wrong_algorithm",
            "unknown_key",
            "bad_signature",
            "wrong_token",
            "keys_unavailable",
            "stale",
            "too_large",
            "unavailable",
        ]),
    route(Get, "/v1/events", "List events")
        .query(&[
            may("account", Id, "Only this account's."),
            may("status", Word(STATUSES), "Only these."),
            may("type", Text, "Only this type."),
            may("from", Moment, "Received from then on."),
            may("to", Moment, "Received before then."),
        ])
        .list()
        .answers(&[items("Newest first; an account sees its own.", EVENT)]),
    route(Get, "/v1/events/{id}", "Read an event").answers(&[json(
        200,
        "`payload` for the operator only.",
        EVENT,
    )]),
    route(
        Post,
        "/v1/events/{id}/replay",
        "Apply an event again, or at once",
    )
    .details(
        "An event that is at an end goes back into its lane; one that failed or waits is due \
             at once. Only what is being applied right now is refused.",
    )
    .answers(&[json(
        202,
        "Back in the queue.",
        r#"{"id": "evt_0198", "status": "received"}"#,
    )])
    .problems(&["event_in_work"]),
    route(
        Post,
        "/v1/events/replay",
        "Apply many events again, or at once",
    )
    .body(&[
        must(
            "status",
            Word(&["applied", "ignored", "skipped", "dead", "failed", "waiting"]),
            "Which.",
        ),
        may("type", Text, "Only this type."),
        may("since", Moment, "Received from then on."),
        may("until", Moment, "Received before then."),
    ])
    .answers(&[json(
        202,
        "So many are back in the queue.",
        r#"{"queued": 3}"#,
    )]),
    route(
        Post,
        "/v1/events/{id}/skip",
        "Give an event up, with a reason",
    )
    .body(&[must("reason", Text, "Why.")])
    .answers(&[json(
        202,
        "Skipped.",
        r#"{"id": "evt_0198", "status": "skipped"}"#,
    )])
    .problems(&["event_in_work", "event_applied"]),
    route(
        Get,
        "/billing/return",
        "Come back from the provider's checkout",
    )
    .details("For a signed-in account: reads the plan, then leads to APP_URL.")
    .query(&[
        may("to", Text, "A path; begins with one `/`, holds no `\\`."),
        may(
            "plan",
            Id,
            "The plan that was bought: while the provider names another, it is asked again after \
             30 s and 5 min.",
        ),
        may(
            "account",
            Id,
            "Where the operator is signed in: whose plan is read.",
        ),
    ])
    .answers(&[empty(
        303,
        "To APP_URL and the path; to /signin without a session.",
    )])
    .problems(&["invalid_field", "not_configured", "unavailable"]),
];
