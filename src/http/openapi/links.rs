//! Links, redirects, usage, entries.

use super::super::request::Method::{Get, Patch, Post};
use super::Kind::{Bool, Id, Int, Key, Moment, Objects, Text, Url, Word};
use super::{Area, Operation, empty, items, json, may, must, other, route};
use crate::units::SAFE_MAX;

const LINK: &str = r#"{"code": "spring", "url": "https://go.example.com/spring",
"destination": "https://example.com/sale", "disabled": false, "expires_at": null,
"created_at": "2026-10-20T15:29:00.000Z", "updated_at": "2026-10-20T15:29:00.000Z"}"#;

const ENTRY: &str = r#"{"id": "clk_0198", "feature": "clicks", "cycle": "2026-10", "units": 1,
"kind": "click", "code": "spring", "job_id": "job_0198", "key": "order-7", "corrects": "clk_0197",
"reason": "bot", "rule": "bots.1", "actor": "ann", "country": "NZ",
"referrer_host": "example.org", "occurred_at": "2026-10-20T15:29:00.000Z",
"recorded_at": "2026-10-20T15:29:01.000Z"}"#;

const USAGE: &str = r#"{"id": "use_0198", "feature": "clicks", "cycle": "2026-10", "units": 5,
"kind": "usage", "key": "order-7", "occurred_at": "2026-10-20T15:29:00.000Z",
"recorded_at": "2026-10-20T15:29:01.000Z"}"#;

const CORRECTION: &str = r#"{"id": "cor_0198", "feature": "clicks", "cycle": "2026-10",
"units": -1, "kind": "correction", "code": "spring", "corrects": "clk_0198", "reason": "double",
"rule": "manual", "actor": "ann", "occurred_at": "2026-10-20T15:29:00.000Z",
"recorded_at": "2026-10-20T15:30:00.000Z"}"#;

pub(super) const AREA: Area = Area {
    name: "Links and clicks",
    about: "Short links whose clicks are usage, usage of your own, and the rows of both. A \
            redirect is never refused for a limit.",
    operations: OPERATIONS,
};

const OPERATIONS: &[Operation] = &[
    route(Post, "/v1/links", "Make a short link")
        .body(&[
            must("destination", Url, "http or https, without credentials."),
            may(
                "code",
                Text,
                "a-z 0-9 - _, 1 to 64; made up where left out.",
            ),
            may("expires_at", Moment, "After that it answers 410."),
        ])
        .answers(&[
            json(201, "Made; it works at once.", LINK),
            json(200, "The same code and destination again.", LINK),
        ])
        .problems(&["code_taken"]),
    route(Get, "/v1/links", "List links")
        .query(&[may("q", Text, "Only codes and destinations that hold it.")])
        .list()
        .answers(&[items("The account's links.", LINK)]),
    route(Get, "/v1/links/{code}", "Read a link").answers(&[json(200, "As it is.", LINK)]),
    route(Patch, "/v1/links/{code}", "Change a link")
        .details("In force everywhere within LINK_CACHE_SECONDS.")
        .body(&[
            may("destination", Url, "The new one."),
            may("disabled", Bool, "A disabled link answers 410."),
            may("expires_at", Moment, "`null` takes it away."),
        ])
        .answers(&[json(200, "As it now is.", LINK)]),
    route(Get, "/v1/links/{code}/qr.svg", "Picture of a link, to scan").answers(&[other(
        200,
        "Quiet zone 4 modules.",
        "image/svg+xml",
    )]),
    route(Get, "/v1/links/{code}/qr.png", "Picture of a link, to scan")
        .query(&[may("size", Int(64, 2048), "Pixels; 512 by default.")])
        .answers(&[other(200, "Error correction M.", "image/png")]),
    route(Get, "/{code}", "Follow a short link")
        .details(
            "Answered before the click is written. HEAD is the same, empty and not counted. A \
             browser's prefetch is answered 503, so that it asks again when a person clicks.",
        )
        .answers(&[empty(302, "To the stored destination.")])
        .problems(&["gone", "prefetch"]),
    route(Get, "/v1/usage", "Read what was used in a cycle")
        .details("total = gross − corrected + carried")
        .query(&[
            may("feature", Id, "`clicks` by default."),
            may("cycle", Id, "The current one by default."),
            may("code", Text, "Only this link's."),
            may("by", Word(&["day"]), "Also each day's sum."),
        ])
        .answers(&[json(
            200,
            "From the ledger; `days` only with `by=day`.",
            r#"{"cycle": "2026-10", "starts_at": "2026-10-20T15:29:00.000Z",
            "ends_at": "2026-11-20T15:29:00.000Z", "total": 4990, "gross": 5000,
            "corrected": {"bot": 10}, "carried": 0, "days": [{"day": "2026-10-20", "total": 4990,
            "gross": 5000, "corrected": {"bot": 10}, "carried": 0}]}"#,
        )]),
    route(Post, "/v1/usage", "Record usage of a counted feature")
        .details("One, or up to 100 in `items`, all or nothing.")
        .body(&[
            may("key", Key, "The same key counts once."),
            may("feature", Id, "A counted one."),
            may("units", Int(1, SAFE_MAX), "How much."),
            may(
                "occurred_at",
                Moment,
                "Now by default; at most 5 minutes ahead.",
            ),
            may(
                "items",
                Objects,
                "Instead: a list of objects of these four fields.",
            ),
        ])
        .answers(&[
            json(201, "Recorded; with `items`: `{items: […]}`.", USAGE),
            json(200, "The same again.", USAGE),
        ])
        .problems(&["key_conflict"]),
    route(Get, "/v1/entries", "List the ledger's rows")
        .query(&[
            may("feature", Id, "Only this feature's."),
            may("cycle", Id, "Only this cycle's."),
            may("code", Text, "Only this link's."),
            may("job", Id, "Only this job's."),
            may(
                "kind",
                Word(&["click", "usage", "job", "correction", "carry"]),
                "Only these.",
            ),
            may("from", Moment, "From then on."),
            may("to", Moment, "Before then."),
        ])
        .list()
        .answers(&[items(
            "Oldest first; what an entry has not is left out.",
            ENTRY,
        )]),
    route(
        Post,
        "/v1/entries/{id}/correction",
        "Take back what was counted wrongly",
    )
    .details("Adds an entry of negative units in the same cycle; nothing is deleted.")
    .body(&[
        must("reason", Text, "Why."),
        may("units", Int(1, SAFE_MAX), "All that is left by default."),
    ])
    .answers(&[
        json(201, "Corrected.", CORRECTION),
        json(200, "The same again.", CORRECTION),
    ])
    .problems(&["nothing_left", "not_correctable"]),
];
