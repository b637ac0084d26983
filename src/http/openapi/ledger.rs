//! Meters, evidence, review.

use super::super::request::Method::{Get, Post};
use super::Kind::{Bool, Fields, Id, Int, List, Moment, Object, OrNull, Text, UpTo, Word};
use super::{Area, Field, Kind, Operation, Thing, has, items, json, may, must, route};
use crate::units::SAFE_MAX;

const REPORTS: &[&str] = &[
    "confirmed",
    "refused",
    "unknown",
    "read_back_differs",
    "unreadable",
    "foreign_total",
    "below_zero",
    "base_in_doubt",
];

const METER: Thing = Thing {
    name: "Meter",
    fields: &[&[
        has("account", Id),
        has("feature", Id),
        has("cycle", Id),
        has("agreement_id", OrNull(&Id)),
        has("ledger", Kind::CHANGE),
        has("base", Kind::CHANGE),
        has("sent", OrNull(&Kind::CHANGE)),
        has("provider", OrNull(&Kind::CHANGE)),
        has("read_at", OrNull(&Moment)),
        must("marked", Bool, "Still to be told of the ledger's total."),
        has(
            "last_report",
            OrNull(&Fields(&[
                has("at", OrNull(&Moment)),
                has("outcome", Word(REPORTS)),
            ])),
        ),
    ]],
    example: r#"{"account": "acme", "feature": "clicks", "cycle": "2026-10",
"agreement_id": "agreement_0198", "ledger": 5000, "base": 0, "sent": 5000,
"provider": 5000, "read_at": "2026-10-20T15:29:00.000Z", "marked": false,
"last_report": {"at": "2026-10-20T15:29:00.000Z", "outcome": "confirmed"}}"#,
};

const VERDICTS: &[&str] = &[
    "unreadable",
    "incomplete",
    "match",
    "closed_cycle_drift",
    "over_billed",
    "under_billed",
];

const CAUSES: &[&str] = &[
    "last_report_failed",
    "changed_after_report",
    "meter_moved_by_other",
    "base_changed",
    "not_yet_reported",
];

/// What a comparison says.
const COMPARED: &[Field] = &[
    has("account", Id),
    has("feature", Id),
    has("cycle", Id),
    has("agreement_id", OrNull(&Id)),
    has("ledger", Kind::CHANGE),
    has("counters", Kind::CHANGE),
    has("base", Kind::CHANGE),
    has("sent", OrNull(&Kind::CHANGE)),
    has("provider", OrNull(&Kind::CHANGE)),
    has("verdict", Word(VERDICTS)),
    has("cause", OrNull(&Word(CAUSES))),
];

const EVIDENCE: Thing = Thing {
    name: "Evidence",
    fields: &[
        &[has("number", Int(1, SAFE_MAX))],
        COMPARED,
        &[
            has("repaired_to", OrNull(&Kind::COUNT)),
            has("read_back", OrNull(&Kind::CHANGE)),
            has("at", Moment),
        ],
    ],
    example: r#"{"number": 7, "account": "acme", "feature": "clicks", "cycle": "2026-10",
"agreement_id": "agreement_0198", "ledger": 5000, "counters": 5000, "base": 0,
"sent": 4990, "provider": 4990, "verdict": "under_billed",
"cause": "last_report_failed", "repaired_to": 5000, "read_back": 5000,
"at": "2026-10-20T02:00:00.000Z"}"#,
};

const REVIEW: Thing = Thing {
    name: "ReviewItem",
    fields: &[&[
        has("id", Id),
        has("kind", Word(KINDS)),
        may("account", Id, ""),
        may("feature", Id, ""),
        may("cycle", Id, ""),
        must("numbers", Object, "What was found; by kind."),
        has("at", Moment),
        must(
            "state",
            Word(&["open", "closed", "carried", "replaced"]),
            "`replaced`: a later finding of the same cycle stands in its place.",
        ),
    ]],
    example: r#"{"id": "rev_0198", "kind": "tail", "account": "acme",
"feature": "clicks", "cycle": "2026-10", "numbers": {"ledger": 5000, "provider": 4990},
"at": "2026-11-20T15:30:00.000Z", "state": "open"}"#,
};

const NOT_DONE: Thing = Thing {
    name: "ReviewItemRefused",
    fields: &[&[
        has("id", Text),
        has("state", Word(&["refused"])),
        must("code", Text, "As the item's own route would answer it."),
        has("detail", Text),
    ]],
    example: r#"{"id": "rev_0199", "state": "refused", "code": "not_found",
"detail": "There is nothing here."}"#,
};

const SWEPT: Thing = Thing {
    name: "SweeperSummary",
    fields: &[&[
        has("shards", Kind::COUNT),
        has("accounts", Kind::COUNT),
        must(
            "behind",
            Kind::COUNT,
            "Did not answer, or lack what was confirmed.",
        ),
        has("done", Bool),
    ]],
    example: r#"{"shards": 64, "accounts": 3, "behind": 0, "done": true}"#,
};

const REPORTED: Thing = Thing {
    name: "ReporterSummary",
    fields: &[&[
        has("tried", Kind::COUNT),
        has("reported", Kind::COUNT),
        has("failed", Kind::COUNT),
        must(
            "held",
            Kind::COUNT,
            "By turn guard, another sender or a review.",
        ),
        must(
            "restored",
            Bool,
            "LEDGER_0 was restored; nothing is written.",
        ),
        has("done", Bool),
    ]],
    example: r#"{"tried": 12, "reported": 11, "failed": 1, "held": 0, "restored": false,
"done": true}"#,
};

const TENDED: Thing = Thing {
    name: "InboxSummary",
    fields: &[&[
        has("lanes", Kind::COUNT),
        has("events", Kind::COUNT),
        has("followups", Kind::COUNT),
        has("emptied", Kind::COUNT),
        has("alerts", Kind::COUNT),
        has("done", Bool),
    ]],
    example: r#"{"lanes": 2, "events": 3, "followups": 0, "emptied": 0, "alerts": 0,
"done": true}"#,
};

const RECONCILED: Thing = Thing {
    name: "ReconcilerSummary",
    fields: &[&[
        has("checked", Kind::COUNT),
        has("matched", Kind::COUNT),
        has("repaired", Kind::COUNT),
        has("drifted", Kind::COUNT),
        has("unreadable", Kind::COUNT),
        has("incomplete", Kind::COUNT),
        has("failed", Kind::COUNT),
        has("left", Kind::COUNT),
        may("differs", List(&Fields(COMPARED)), "Of a dry run."),
        has("done", Bool),
    ]],
    example: r#"{"checked": 4, "matched": 3, "repaired": 1, "drifted": 1, "unreadable": 0,
"incomplete": 0, "failed": 0, "left": 0, "done": true}"#,
};

const PLANS: Thing = Thing {
    name: "PlansSummary",
    fields: &[&[
        has("checked", Kind::COUNT),
        has("changed", Kind::COUNT),
        has("unreadable", Kind::COUNT),
        must("missed", List(&Text), "The events that never came."),
        has("done", Bool),
    ]],
    example: r#"{"checked": 40, "changed": 0, "unreadable": 0, "missed": [], "done": true}"#,
};

pub(super) const AREA: Area = Area {
    name: "Meters",
    about: "The provider's meter is a copy of the ledger: sent as a total, read back and proven.",
    operations: OPERATIONS,
};

const OWN: Field = may("account", Id, "Only this account's.");
const REASON: &str = "Why; 1 to 500 characters.";

const OPERATIONS: &[Operation] = &[
    route(Get, "/v1/meters", "List meters")
        .query(&[OWN])
        .list()
        .answers(&[items(
            "`ledger` is the cycle's total, `sent` the last total the provider confirmed.",
            &[&METER],
        )]),
    route(Post, "/v1/run/{job}", "Run a job of the cron, now")
        .details(
            "sweeper, reporter, inbox, reconciler or plans; each with a summary of its own. Where \
             the calls of one run are used up, `done` is false and the next call goes on. \
             The body is the reconciler's: of what it `checked`, each pair of \
             account, feature and cycle is one of `matched`, `repaired`, `unreadable`, \
             `incomplete`, `failed` (not repaired although it should be) and `left` (it differs \
             and is not to be written now: a dry run, an open item of review, a closed cycle). \
             `drifted` says how many of them differed though nothing was marked. A dry run also \
             answers `differs`: the first 100 pairs that do not match, as evidence would say it.",
        )
        .query(&[may("account", Id, "Only this account.")])
        .body(&[
            may(
                "account",
                OrNull(&Id),
                "The reconciler's: only this account.",
            ),
            may(
                "dry_run",
                OrNull(&Bool),
                "The reconciler's: compare and write nothing.",
            ),
        ])
        .answers(&[json(
            200,
            "The summary of that job.",
            &[&RECONCILED, &SWEPT, &TENDED, &REPORTED, &PLANS],
        )]),
    route(Get, "/v1/evidence", "List evidence")
        .query(&[
            OWN,
            may("feature", Id, "Only this feature's."),
            may("cycle", Id, "Only this cycle's."),
        ])
        .list()
        .answers(&[items("Newest first.", &[&EVIDENCE])]),
    route(Get, "/v1/review", "List what a person must look at")
        .query(&[OWN, may("kind", Word(KINDS), "Only these.")])
        .list()
        .answers(&[items("Oldest first.", &[&REVIEW])]),
    route(Post, "/v1/review/{id}/close", "Close an item of the review")
        .details(
            "Closed cycle, tail, late use, conflict: left as it is. Foreign total: the ledger's \
             total replaces it. Base in doubt: the earlier meter counts as what it is last known \
             to hold. Period mismatch: the running cycle ends with the provider's period. Feed: \
             the named loss is accepted and it goes on.",
        )
        .query(&[OWN])
        .body(&[must("reason", Text, REASON)])
        .answers(&[json(200, "Closed.", &[&REVIEW])])
        .problems(&["review_closed", "too_soon"]),
    route(
        Post,
        "/v1/review/{id}/carry",
        "Carry a difference into the open cycle",
    )
    .query(&[OWN])
    .body(&[may("reason", OrNull(&Text), REASON)])
    .answers(&[json(200, "Carried, once.", &[&REVIEW])])
    .problems(&[
        "review_closed",
        "not_carried",
        "nothing_to_carry",
        "too_much",
        "in_doubt",
    ]),
    route(Post, "/v1/review/close", "Close several items")
        .query(&[OWN])
        .body(&[
            must("ids", UpTo(100, &Text), "Which."),
            must("reason", Text, REASON),
        ])
        .answers(&[items("Each with its outcome.", &[&REVIEW, &NOT_DONE])]),
    route(Post, "/v1/review/carry", "Carry several differences")
        .query(&[OWN])
        .body(&[
            must("ids", UpTo(100, &Text), "Which."),
            may("reason", OrNull(&Text), REASON),
        ])
        .answers(&[items("Each with its outcome.", &[&REVIEW, &NOT_DONE])]),
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
