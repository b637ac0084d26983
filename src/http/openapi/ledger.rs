//! Meters, evidence, review.

use super::super::request::Method::{Get, Post};
use super::Kind::{Bool, Id, Ids, Text, Word};
use super::{Area, Operation, items, json, may, must, route};

const REVIEW: &str = r#"{"id": "rev_0198", "kind": "tail", "account": "acme",
"feature": "clicks", "cycle": "2026-10", "numbers": {"ledger": 5000, "provider": 4990},
"at": "2026-11-20T15:30:00.000Z", "state": "open"}"#;

pub(super) const AREA: Area = Area {
    name: "Meters",
    about: "The provider's meter is a copy of the ledger: sent as a total, read back and proven.",
    operations: OPERATIONS,
};

const OPERATIONS: &[Operation] = &[
    route(Get, "/v1/meters", "List meters")
        .query(&[may("account", Id, "Only this account's.")])
        .list()
        .answers(&[items(
            "`ledger` is the cycle's total, `sent` the last total the provider confirmed.",
            r#"{"account": "acme", "feature": "clicks", "cycle": "2026-10",
            "agreement_id": "agreement_0198", "ledger": 5000, "base": 0, "sent": 5000,
            "provider": 5000, "read_at": "2026-10-20T15:29:00.000Z", "marked": false,
            "last_report": {"at": "2026-10-20T15:29:00.000Z", "outcome": "confirmed"}}"#,
        )]),
    route(Post, "/v1/run/{job}", "Run a job of the cron, now")
        .details(
            "sweeper, reporter, inbox, reconciler or plans; each with a summary of its own. Where \
             the calls of one run are used up, `done` is false and the next call goes on. \
             `account` and `dry_run` are the reconciler's: of what it `checked`, each pair of \
             account, feature and cycle is one of `matched`, `repaired`, `unreadable`, \
             `incomplete`, `failed` (not repaired although it should be) and `left` (it differs \
             and is not to be written now: a dry run, an open item of review, a closed cycle). \
             `drifted` says how many of them differed though nothing was marked. A dry run also \
             answers `differs`: the first 100 pairs that do not match, as evidence would say it.",
        )
        .query(&[may("account", Id, "Only this account.")])
        .body(&[
            may("account", Id, "Only this account."),
            may("dry_run", Bool, "Compare and write nothing."),
        ])
        .answers(&[json(
            200,
            "The summary; this is the reconciler's.",
            r#"{"checked": 4, "matched": 3, "repaired": 1, "drifted": 1, "unreadable": 0,
            "incomplete": 0, "failed": 0, "left": 0, "done": true}"#,
        )]),
    route(Get, "/v1/evidence", "List evidence")
        .query(&[
            may("account", Id, "Only this account's."),
            may("feature", Id, "Only this feature's."),
            may("cycle", Id, "Only this cycle's."),
        ])
        .list()
        .answers(&[items(
            "Newest first.",
            r#"{"number": 7, "account": "acme", "feature": "clicks", "cycle": "2026-10",
            "agreement_id": "agreement_0198", "ledger": 5000, "counters": 5000, "base": 0,
            "sent": 4990, "provider": 4990, "verdict": "under_billed",
            "cause": "last_report_failed", "repaired_to": 5000, "read_back": 5000,
            "at": "2026-10-20T02:00:00.000Z"}"#,
        )]),
    route(Get, "/v1/review", "List what a person must look at")
        .query(&[
            may("account", Id, "Only this account's."),
            may("kind", Word(KINDS), "Only these."),
        ])
        .list()
        .answers(&[items("Oldest first.", REVIEW)]),
    route(Post, "/v1/review/{id}/close", "Close an item of the review")
        .details(
            "Closed cycle, tail, late use, conflict: left as it is. Foreign total: the ledger's \
             total replaces it. Base in doubt: the earlier meter counts as what it is last known \
             to hold. Period mismatch: the running cycle ends with the provider's period. Feed: \
             the named loss is accepted and it goes on.",
        )
        .body(&[must("reason", Text, "Why.")])
        .answers(&[json(200, "Closed.", REVIEW)])
        .problems(&["review_closed", "too_soon"]),
    route(
        Post,
        "/v1/review/{id}/carry",
        "Carry a difference into the open cycle",
    )
    .body(&[may("reason", Text, "Why.")])
    .answers(&[json(200, "Carried, once.", REVIEW)])
    .problems(&[
        "review_closed",
        "not_carried",
        "nothing_to_carry",
        "in_doubt",
    ]),
    route(Post, "/v1/review/close", "Close several items")
        .body(&[must("ids", Ids, "Which."), must("reason", Text, "Why.")])
        .answers(&[json(
            200,
            "Each with its outcome.",
            r#"{"items": [], "next": null}"#,
        )]),
    route(Post, "/v1/review/carry", "Carry several differences")
        .body(&[must("ids", Ids, "Which."), may("reason", Text, "Why.")])
        .answers(&[json(
            200,
            "Each with its outcome.",
            r#"{"items": [], "next": null}"#,
        )]),
];

const KINDS: &[&str] = &[
    "closed_cycle",
    "tail",
    "late_use",
    "conflict",
    "foreign_total",
    "base_in_doubt",
    "period_mismatch",
    "feed",
    "customer_deleted",
];
