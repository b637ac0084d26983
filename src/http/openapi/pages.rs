//! Pages and signing in: for people, described so that nothing is left out.

use super::super::request::Method::{Get, Post};
use super::Kind::{Bool, Fields, Id, Int, List, Moment, OrNull, Text, Word};
use super::{Area, Field, Kind, Operation, Sample, Thing, empty, has, json, may, other, route};
use crate::inbox::listing::STATES;
use crate::limits::{LAB_AMOUNT_MAX, LAB_JOBS_MAX};

const SIDE: Kind = Fields(&[
    has("plan", Text),
    has("balance", Kind::COUNT),
    has("note", Text),
]);

const ENGINE_RUN: Thing = Thing {
    name: "EngineRoomRun",
    fields: &[&[
        has("doorbell", Bool),
        has("account", Id),
        has(
            "steps",
            List(&Fields(&[
                has("delivery", Text),
                has("naive", SIDE),
                has("pipeline", SIDE),
            ])),
        ),
        has("arrived", Kind::COUNT),
        has("stored", Kind::COUNT),
        has("dropped", Kind::COUNT),
        has("finished", Kind::COUNT),
        has("ignored", List(&Text)),
        has("granted", Kind::COUNT),
    ]],
    example: r#"{"doorbell": false, "account": "demo_0198",
"steps": [{"delivery": "plan changed, 1",
"naive": {"plan": "pro", "balance": 500, "note": ""},
"pipeline": {"plan": "pro", "balance": 500, "note": ""}}], "arrived": 9, "stored": 3,
"dropped": 6, "finished": 1, "ignored": ["a newer plan change is already stored"],
"granted": 1}"#,
};

const RACE: Thing = Thing {
    name: "LabRun",
    fields: &[&[
        has("limit", Kind::COUNT),
        has("account", Id),
        has(
            "jobs",
            List(&Fields(&[
                has(
                    "plain",
                    Fields(&[has("started", Bool), has("left", Kind::COUNT)]),
                ),
                has(
                    "gate",
                    Fields(&[
                        has("started", Bool),
                        has("left", OrNull(&Kind::COUNT)),
                        has("said", Text),
                    ]),
                ),
            ])),
        ),
        has("plain", Fields(&[has("spent", Kind::COUNT)])),
        has(
            "gate",
            Fields(&[has("spent", Kind::COUNT), has("held", Kind::COUNT)]),
        ),
    ]],
    example: r#"{"limit": 100000, "account": "demo_0198",
"jobs": [{"plain": {"started": true, "left": 100000},
"gate": {"started": true, "left": 60000, "said": "201 running, settled 200"}}],
"plain": {"spent": 200000}, "gate": {"spent": 80000, "held": 0}}"#,
};

pub(super) const AREA: Area = Area {
    name: "Pages",
    about: "For people. `/signin` takes the operator's token or an account's API key and sets a \
            session cookie of 12 hours; a request that changes something with it needs a matching \
            Origin. A browser is told of a problem by a page, others as everywhere.",
    operations: OPERATIONS,
};

const HTML: &str = "text/html; charset=utf-8";
const SHOWN: Sample = other(200, "A page.", HTML);
const TO_SIGN_IN: Sample = empty(303, "To /signin, without a session.");
const PAGE: &[Sample] = &[SHOWN, TO_SIGN_IN];
/// Without a session a form is not sent on to /signin: it would be lost there.
const FORM: &[Sample] = &[SHOWN];
const OF_ACCOUNT: Field = may("account", Id, "Only this account's.");

const OPERATIONS: &[Operation] = &[
    route(Get, "/", "The way in").answers(&[empty(303, "To /app.")]),
    route(Get, "/app", "Overview").list().answers(&[
        SHOWN,
        empty(303, "To /signin, or to an account's own page."),
    ]),
    route(Get, "/app/lab", "Concurrency Lab").answers(PAGE),
    route(Post, "/app/lab/run", "Run the Concurrency Lab")
        .details("As a form or as JSON; answered as JSON where that is asked for.")
        .body(&[
            may("limit", OrNull(&Int(1, LAB_AMOUNT_MAX)), "The limit."),
            may("amount", OrNull(&Int(1, LAB_AMOUNT_MAX)), "Each job's."),
            may("jobs", OrNull(&Int(1, LAB_JOBS_MAX)), "How many."),
            may(
                "concurrency",
                OrNull(&Int(1, LAB_JOBS_MAX)),
                "How many at a time.",
            ),
        ])
        .answers(&[SHOWN, json(200, "What both sides did.", &[&RACE])]),
    route(Get, "/app/reconcile", "Reconcile")
        .query(&[OF_ACCOUNT])
        .list()
        .answers(PAGE),
    route(
        Post,
        "/app/reconcile/run",
        "Run the reconciler and show what it found",
    )
    .details("As a form.")
    .body(&[
        may("account", Id, "Only this account."),
        may(
            "dry_run",
            Word(&["0", "1"]),
            "1: compare and write nothing.",
        ),
    ])
    .answers(FORM),
    route(Get, "/app/engine-room", "Engine Room").answers(PAGE),
    route(
        Post,
        "/app/engine-room/run",
        "Run a scene of the Engine Room",
    )
    .details("As a form or as JSON; answered as JSON where that is asked for.")
    .body(&[may("doorbell", Bool, "Whether the provider is asked.")])
    .answers(&[SHOWN, json(200, "What both sides did.", &[&ENGINE_RUN])]),
    route(Get, "/app/links", "Links")
        .query(&[
            OF_ACCOUNT,
            may("q", Text, "Only codes and destinations that hold it."),
            may("code", Text, "The link whose days are shown."),
        ])
        .list()
        .answers(PAGE),
    route(Get, "/app/jobs", "Jobs")
        .query(&[OF_ACCOUNT])
        .list()
        .answers(PAGE),
    route(Get, "/app/accounts/{id}", "An account").answers(PAGE),
    route(Get, "/app/events", "Events")
        .query(&[
            OF_ACCOUNT,
            may("status", Word(&STATES), "Only these."),
            may("type", Text, "Only this type."),
            may("from", Moment, "Received from then on."),
            may("to", Moment, "Received before then."),
        ])
        .list()
        .answers(PAGE),
    route(Get, "/app/style.css", "The pages' style").answers(&[other(
        200,
        "CSS.",
        "text/css; charset=utf-8",
    )]),
    route(Get, "/app/script.js", "The pages' script").answers(&[other(
        200,
        "JavaScript.",
        "text/javascript; charset=utf-8",
    )]),
    route(Get, "/signin", "The form to sign in")
        .query(&[may("next", Text, "A path to come back to.")])
        .answers(&[SHOWN])
        .problems(&["invalid_field"]),
    route(Post, "/signin", "Sign in")
        .details("As a form or as JSON.")
        .body(&[
            may("token", Text, "The operator's token, or an API key."),
            may("next", Text, "A path to come back to."),
            may("dev", Text, "With DEV=1: instead of a token."),
        ])
        .answers(&[empty(303, "Signed in.")])
        .problems(&["unauthorized", "origin", "not_configured", "unavailable"]),
    route(Post, "/signout", "Sign out")
        .details("The session counts no more, wherever its cookie was copied to.")
        .answers(&[empty(303, "To /signin.")])
        .problems(&["origin", "not_configured", "unavailable"]),
];
