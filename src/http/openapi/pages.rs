//! Pages and signing in: for people, described so that nothing is left out.

use super::super::request::Method::{Get, Post};
use super::Kind::Text;
use super::{Area, Operation, Sample, empty, may, other, route};

pub(super) const AREA: Area = Area {
    name: "Pages",
    about: "For people. `/signin` takes the operator's token or an account's API key and sets a \
            session cookie of 12 hours; a request that changes something with it needs a matching \
            Origin.",
    operations: OPERATIONS,
};

const PAGE: &[Sample] = &[
    other(200, "A page.", "text/html; charset=utf-8"),
    empty(303, "To /signin, without a session."),
];

const OPERATIONS: &[Operation] = &[
    route(Get, "/", "The way in").answers(&[empty(303, "To /app.")]),
    route(Get, "/app", "Overview").answers(PAGE),
    route(Get, "/app/lab", "Concurrency Lab").answers(PAGE),
    route(Post, "/app/lab/run", "Run the Concurrency Lab").answers(PAGE),
    route(Get, "/app/reconcile", "Reconcile").answers(PAGE),
    route(
        Post,
        "/app/reconcile/run",
        "Run the reconciler and show what it found",
    )
    .answers(PAGE),
    route(Get, "/app/engine-room", "Engine Room").answers(PAGE),
    route(
        Post,
        "/app/engine-room/run",
        "Run a scene of the Engine Room",
    )
    .answers(PAGE),
    route(Get, "/app/links", "Links").answers(PAGE),
    route(Get, "/app/jobs", "Jobs").answers(PAGE),
    route(Get, "/app/accounts/{id}", "An account").answers(PAGE),
    route(Get, "/app/events", "Events").answers(PAGE),
    route(Get, "/app/style.css", "The pages' style").answers(&[other(200, "CSS.", "text/css")]),
    route(Get, "/app/script.js", "The pages' script").answers(&[other(
        200,
        "JavaScript.",
        "text/javascript",
    )]),
    route(Get, "/signin", "The form to sign in")
        .query(&[may("next", Text, "A path to come back to.")])
        .answers(&[other(200, "A page.", "text/html; charset=utf-8")])
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
