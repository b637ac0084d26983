//! Links, redirects, usage, entries.

use super::super::request::Method::{Get, Patch, Post};
use super::Kind::{Bool, Fields, Id, Int, Key, List, Map, Moment, OrNull, Text, UpTo, Url, Word};
use super::{
    Area, Field, Kind, Operation, Thing, empty, has, items, json, may, must, other, route,
};
use crate::limits::USAGE_ITEMS_MAX;

const LINK: Thing = Thing {
    name: "Link",
    fields: &[&[
        has("code", Text),
        has("url", Url),
        has("destination", Url),
        has("disabled", Bool),
        has("expires_at", OrNull(&Moment)),
        has("created_at", Moment),
        has("updated_at", Moment),
    ]],
    example: r#"{"code": "spring", "url": "https://go.example.com/spring",
"destination": "https://example.com/sale", "disabled": false, "expires_at": null,
"created_at": "2026-10-20T15:29:00.000Z", "updated_at": "2026-10-20T15:29:00.000Z"}"#,
};

const KINDS: &[&str] = &["click", "usage", "job", "correction", "carry"];

/// What an entry has not is left out.
const OF_ENTRY: &[Field] = &[
    has("id", Id),
    has("feature", Id),
    has("cycle", Id),
    has("units", Kind::CHANGE),
    has("kind", Word(KINDS)),
    may("code", Text, ""),
    may("job_id", Id, ""),
    may("key", Key, ""),
    may("corrects", Id, ""),
    may("reason", Text, ""),
    may("rule", Text, ""),
    may("actor", Text, ""),
    may("country", Text, ""),
    may("referrer_host", Text, ""),
    has("occurred_at", Moment),
    has("recorded_at", Moment),
];

const ENTRY: Thing = Thing {
    name: "Entry",
    fields: &[OF_ENTRY],
    example: r#"{"id": "clk_0198", "feature": "clicks", "cycle": "2026-10", "units": 1,
"kind": "click", "code": "spring", "country": "NZ", "referrer_host": "example.org",
"occurred_at": "2026-10-20T15:29:00.000Z", "recorded_at": "2026-10-20T15:29:01.000Z"}"#,
};

const USED: Thing = Thing {
    name: "RecordedUsage",
    fields: &[OF_ENTRY],
    example: r#"{"id": "use_0198", "feature": "clicks", "cycle": "2026-10", "units": 5,
"kind": "usage", "key": "order-7", "occurred_at": "2026-10-20T15:29:00.000Z",
"recorded_at": "2026-10-20T15:29:01.000Z"}"#,
};

const USED_ITEMS: Thing = Thing {
    name: "RecordedUsageItems",
    fields: &[&[has("items", List(&Fields(OF_ENTRY)))]],
    example: r#"{"items": [{"id": "use_0198", "feature": "clicks", "cycle": "2026-10", "units": 5,
"kind": "usage", "key": "order-7", "occurred_at": "2026-10-20T15:29:00.000Z",
"recorded_at": "2026-10-20T15:29:01.000Z"}]}"#,
};

const CORRECTION: Thing = Thing {
    name: "Correction",
    fields: &[OF_ENTRY],
    example: r#"{"id": "cor_0198", "feature": "clicks", "cycle": "2026-10",
"units": -1, "kind": "correction", "code": "spring", "corrects": "clk_0198", "reason": "double",
"actor": "ann", "occurred_at": "2026-10-20T15:29:00.000Z",
"recorded_at": "2026-10-20T15:30:00.000Z"}"#,
};

const SUMS: &[Field] = &[
    must("total", Kind::CHANGE, "gross − corrected + carried"),
    has("gross", Kind::CHANGE),
    must("corrected", Map(&Kind::CHANGE), "By reason."),
    has("carried", Kind::CHANGE),
];

const USAGE: Thing = Thing {
    name: "Usage",
    fields: &[
        &[
            has("cycle", Id),
            has("starts_at", Moment),
            has("ends_at", Moment),
        ],
        SUMS,
        &[may(
            "days",
            List(&Fields(&[
                must("day", Text, "UTC."),
                has("total", Kind::CHANGE),
                has("gross", Kind::CHANGE),
                has("corrected", Map(&Kind::CHANGE)),
                has("carried", Kind::CHANGE),
            ])),
            "With `by=day`.",
        )],
    ],
    example: r#"{"cycle": "2026-10", "starts_at": "2026-10-20T15:29:00.000Z",
"ends_at": "2026-11-20T15:29:00.000Z", "total": 4990, "gross": 5000,
"corrected": {"bot": 10}, "carried": 0, "days": [{"day": "2026-10-20", "total": 4990,
"gross": 5000, "corrected": {"bot": 10}, "carried": 0}]}"#,
};

const ONE_FACT: &[Field] = &[
    must("key", Key, "The same key counts once."),
    must("feature", Id, "A counted one."),
    must("units", Kind::UNITS, "How much."),
    may(
        "occurred_at",
        OrNull(&Moment),
        "Now by default; at most 5 minutes ahead.",
    ),
];

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
                OrNull(&Text),
                "a-z 0-9 - _, 1 to 64; made up where left out.",
            ),
            may("expires_at", OrNull(&Moment), "After that it answers 410."),
        ])
        .answers(&[
            json(201, "Made; it works at once.", &[&LINK]),
            json(200, "The same code and destination again.", &[&LINK]),
        ])
        .problems(&["code_taken"]),
    route(Get, "/v1/links", "List links")
        .query(&[may("q", Text, "Only codes and destinations that hold it.")])
        .list()
        .answers(&[items("The account's links.", &[&LINK])]),
    route(Get, "/v1/links/{code}", "Read a link").answers(&[json(200, "As it is.", &[&LINK])]),
    route(Patch, "/v1/links/{code}", "Change a link")
        .details("In force everywhere within LINK_CACHE_SECONDS.")
        .body(&[
            may("destination", OrNull(&Url), "The new one."),
            may("disabled", OrNull(&Bool), "A disabled link answers 410."),
            may("expires_at", OrNull(&Moment), "`null` takes it away."),
        ])
        .answers(&[json(200, "As it now is.", &[&LINK])]),
    route(Get, "/v1/links/{code}/qr.svg", "Picture of a link, to scan")
        .answers(&[other(200, "Quiet zone 4 modules.", "image/svg+xml")])
        .problems(&["invalid_field", "unavailable"]),
    route(Get, "/v1/links/{code}/qr.png", "Picture of a link, to scan")
        .query(&[may("size", Int(64, 2048), "Pixels; 512 by default.")])
        .answers(&[other(200, "Error correction M.", "image/png")])
        .problems(&["unavailable"]),
    route(Get, "/{code}", "Follow a short link")
        .details(
            "Answered before the click is written. A browser's prefetch is answered 503, so that \
             it asks again when a person clicks.",
        )
        .head("What GET answers, without a body. It is never counted as a click.")
        .answers(&[empty(302, "To the stored destination.")])
        .problems(&["gone", "prefetch", "unavailable"]),
    route(Get, "/v1/usage", "Read what was used in a cycle")
        .details(
            "total = gross − corrected + carried. What is stored is exact; a sum past \
             9,007,199,254,740,991 is told as that.",
        )
        .query(&[
            may("feature", Id, "`clicks` by default."),
            may("cycle", Id, "The current one by default."),
            may("code", Text, "Only this link's."),
            may("by", Word(&["day"]), "Also each day's sum."),
        ])
        .answers(&[json(
            200,
            "From the ledger; `days` only with `by=day`.",
            &[&USAGE],
        )]),
    route(Post, "/v1/usage", "Record usage of a counted feature")
        .details("One fact, or up to 100 in `items` and nothing else, all or nothing.")
        .body(&[
            may("key", Key, "The same key counts once."),
            may("feature", Id, "A counted one."),
            may("units", Kind::UNITS, "How much."),
            may(
                "occurred_at",
                OrNull(&Moment),
                "Now by default; at most 5 minutes ahead.",
            ),
            may(
                "items",
                UpTo(USAGE_ITEMS_MAX, &Fields(ONE_FACT)),
                "Instead: a list of objects of these four fields.",
            ),
        ])
        .answers(&[
            json(
                201,
                "Recorded; with `items`: a list.",
                &[&USED, &USED_ITEMS],
            ),
            json(200, "The same again.", &[&USED, &USED_ITEMS]),
        ])
        .problems(&["key_conflict"]),
    route(Get, "/v1/entries", "List the ledger's rows")
        .query(&[
            may("feature", Id, "Only this feature's."),
            may("cycle", Id, "Only this cycle's."),
            may("code", Text, "Only this link's."),
            may("job", Id, "Only this job's."),
            may("kind", Word(KINDS), "Only these."),
            may("from", Moment, "From then on."),
            may("to", Moment, "Before then."),
        ])
        .list()
        .answers(&[items(
            "Oldest first; what an entry has not is left out.",
            &[&ENTRY],
        )]),
    route(
        Post,
        "/v1/entries/{id}/correction",
        "Take back what was counted wrongly",
    )
    .details("Adds an entry of negative units in the same cycle; nothing is deleted.")
    .body(&[
        must("reason", Text, "Why; 1 to 500 characters."),
        may(
            "units",
            OrNull(&Kind::UNITS),
            "All that is left by default.",
        ),
    ])
    .answers(&[
        json(201, "Corrected.", &[&CORRECTION]),
        json(200, "The same again.", &[&CORRECTION]),
    ])
    .problems(&["nothing_left", "not_correctable"]),
];
