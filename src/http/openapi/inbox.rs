//! The provider's webhooks.

use super::super::request::Method::{Get, Post};
use super::Kind::{Any, Bool, Fields, Id, List, Moment, OrNull, Text, Word};
use super::{Area, Field, Kind, Operation, Thing, empty, has, items, json, may, must, route};
use crate::inbox::listing::STATES;

/// How a run ended: the event's status after it, or that its worker was lost.
const RUN_OUTCOMES: &[&str] = &["applied", "ignored", "waiting", "failed", "dead", "lost"];

const OF_EVENT: &[Field] = &[
    has("id", Id),
    must("event_id", Text, "The signed one."),
    has("type", Text),
    has("account", OrNull(&Id)),
    has("customer_id", OrNull(&Text)),
    has("status", Word(&STATES)),
    must("result", OrNull(&Text), "Why, or what it did."),
    must("seen", Kind::COUNT, "Deliveries."),
    must("attempts", Kind::COUNT, "Tries to apply it."),
    has("next_at", OrNull(&Moment)),
    has("occurred_at", OrNull(&Moment)),
    has("received_at", Moment),
    must("conflict", Bool, "It came again with other content."),
    has(
        "receipts",
        List(&Fields(&[
            has("at", Moment),
            has("sent_at", Moment),
            has("webhook_id", OrNull(&Text)),
            has("kid", Text),
            has("outcome", Word(&["stored", "copy", "conflict"])),
            has("note", OrNull(&Text)),
        ])),
    ),
    may(
        "payload",
        Any,
        "For the operator; null where it is too long for a list or was emptied.",
    ),
];

const EVENT: Thing = Thing {
    name: "Event",
    fields: &[OF_EVENT],
    example: r#"{"id": "evt_0198", "event_id": "event_0198", "type": "customer.plan_changed",
"account": "acme", "customer_id": "customer_0198", "status": "applied",
"result": "the plan is pro", "seen": 1, "attempts": 1,
"next_at": null, "occurred_at": "2026-10-20T15:29:00.000Z",
"received_at": "2026-10-20T15:29:01.000Z", "conflict": false,
"receipts": [{"at": "2026-10-20T15:29:01.000Z", "sent_at": "2026-10-20T15:29:00.000Z",
"webhook_id": "wh_1", "kid": "k1", "outcome": "stored", "note": null}], "payload": {}}"#,
};

const ONE_EVENT: Thing = Thing {
    name: "EventWithRuns",
    fields: &[
        OF_EVENT,
        &[has(
            "runs",
            List(&Fields(&[
                has("began_at", Moment),
                has("ended_at", OrNull(&Moment)),
                has("outcome", OrNull(&Word(RUN_OUTCOMES))),
            ])),
        )],
    ],
    example: r#"{"id": "evt_0198", "event_id": "event_0198", "type": "customer.plan_changed",
"account": "acme", "customer_id": "customer_0198", "status": "applied",
"result": "the plan is pro", "seen": 1, "attempts": 1,
"next_at": null, "occurred_at": "2026-10-20T15:29:00.000Z",
"received_at": "2026-10-20T15:29:01.000Z", "conflict": false,
"receipts": [{"at": "2026-10-20T15:29:01.000Z", "sent_at": "2026-10-20T15:29:00.000Z",
"webhook_id": "wh_1", "kid": "k1", "outcome": "stored", "note": null}],
"runs": [{"began_at": "2026-10-20T15:29:01.000Z", "ended_at": "2026-10-20T15:29:01.000Z",
"outcome": "applied"}], "payload": {}}"#,
};

const RECEIVED: Thing = Thing {
    name: "Received",
    fields: &[&[has("id", Id), has("copy", Bool)]],
    example: r#"{"id": "evt_0198", "copy": false}"#,
};

const REPLAYED: Thing = Thing {
    name: "Replayed",
    fields: &[&[has("id", Id), has("status", Word(&["received"]))]],
    example: r#"{"id": "evt_0198", "status": "received"}"#,
};

const QUEUED: Thing = Thing {
    name: "Queued",
    fields: &[&[has("queued", Kind::COUNT)]],
    example: r#"{"queued": 3}"#,
};

const SKIPPED: Thing = Thing {
    name: "Skipped",
    fields: &[&[has("id", Id), has("status", Word(&["skipped"]))]],
    example: r#"{"id": "evt_0198", "status": "skipped"}"#,
};

pub(super) const AREA: Area = Area {
    name: "Inbox",
    about: "A stored event is applied exactly once in effect, in any order, after any crash.",
    operations: OPERATIONS,
};

const OPERATIONS: &[Operation] = &[
    route(Post, "/webhooks/kinde", "Receive an event")
        .details("The body is the JWT, whatever the content type. 200 means stored, not applied.")
        .answers(&[json(200, "Stored now, or a copy.", &[&RECEIVED])])
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
            may("status", Word(&STATES), "Only these."),
            may("type", Text, "Only this type."),
            may("from", Moment, "Received from then on."),
            may("to", Moment, "Received before then."),
        ])
        .list()
        .answers(&[items("Newest first; an account sees its own.", &[&EVENT])]),
    route(Get, "/v1/events/{id}", "Read an event")
        .query(&[may("account", Id, "Only where it is this account's.")])
        .answers(&[json(200, "`payload` for the operator only.", &[&ONE_EVENT])]),
    route(
        Post,
        "/v1/events/{id}/replay",
        "Apply an event again, or at once",
    )
    .details(
        "An event that is at an end goes back into its lane; one that failed or waits is due \
             at once. Only what is being applied right now is refused.",
    )
    .query(&[may("account", Id, "Only where it is this account's.")])
    .answers(&[json(202, "Back in the queue.", &[&REPLAYED])])
    .problems(&["event_in_work"]),
    route(
        Post,
        "/v1/events/replay",
        "Apply many events again, or at once",
    )
    .query(&[may("account", Id, "Only this account's.")])
    .body(&[
        must(
            "status",
            Word(&["applied", "ignored", "skipped", "dead", "failed", "waiting"]),
            "Which.",
        ),
        may("type", OrNull(&Text), "Only this type."),
        may("since", OrNull(&Moment), "Received from then on."),
        may("until", OrNull(&Moment), "Received before then."),
    ])
    .answers(&[json(202, "So many are back in the queue.", &[&QUEUED])]),
    route(
        Post,
        "/v1/events/{id}/skip",
        "Give an event up, with a reason",
    )
    .query(&[may("account", Id, "Only where it is this account's.")])
    .body(&[must("reason", Text, "Why.")])
    .answers(&[json(202, "Skipped.", &[&SKIPPED])])
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
