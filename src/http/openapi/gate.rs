//! The gate: jobs and budgets.

use super::super::request::Method::{Get, Post};
use super::Kind::{Bool, Either, Fields, Id, Int, Key, List, Map, Moment, OrNull, Text, Word};
use super::{Area, Field, Kind, Operation, Thing, has, items, json, may, must, route};

const STATES: &[&str] = &["running", "settled", "expired"];
const OUTCOMES: &[&str] = &["done", "failed"];

/// One amount, or one for each feature.
const AMOUNTS: Kind = Either(&[Kind::COUNT, BY_FEATURE]);
const BY_FEATURE: Kind = Map(&Kind::COUNT);

pub(super) const BUDGET: &[Field] = &[
    has("feature", Id),
    has("cycle", Id),
    has("limit", OrNull(&Kind::COUNT)),
    has(
        "limit_state",
        Word(&["known", "stale", "unlimited", "absent", "unknown"]),
    ),
    has("used", Kind::CHANGE),
    has("held", Kind::COUNT),
    has("remaining", OrNull(&Kind::COUNT)),
];

const ONE_BUDGET: Thing = Thing {
    name: "Budget",
    fields: &[BUDGET],
    example: r#"{"feature": "tokens", "cycle": "2026-10", "limit": 100000, "limit_state": "known",
"used": 1200, "held": 800, "remaining": 98000}"#,
};

const JOB: Thing = Thing {
    name: "Job",
    fields: &[&[
        has("id", Id),
        has("key", Key),
        has("state", Word(STATES)),
        must(
            "capped",
            Bool,
            "A charge was cut to the room that was left.",
        ),
        has("cycle", Id),
        has(
            "holds",
            Map(&Fields(&[
                has("held", Kind::COUNT),
                has("used", Kind::COUNT),
            ])),
        ),
        must(
            "remaining",
            Map(&OrNull(&Kind::COUNT)),
            "What the account has left; null without a number.",
        ),
        has("lease_ends_at", Moment),
        has("lease_seconds", Int(1, 3600)),
        has("created_at", Moment),
        has("ended_at", OrNull(&Moment)),
        has("outcome", OrNull(&Word(OUTCOMES))),
    ]],
    example: r#"{"id": "job_0198", "key": "order-7", "state": "running", "capped": false,
"cycle": "2026-10", "holds": {"tokens": {"held": 1000, "used": 0}}, "remaining": {"tokens": 99000},
"lease_ends_at": "2026-10-20T15:31:00.000Z", "lease_seconds": 120,
"created_at": "2026-10-20T15:29:00.000Z", "ended_at": null, "outcome": null}"#,
};

const BUSY: Thing = Thing {
    name: "AccountWithHolds",
    fields: &[&[
        has("account", Id),
        has(
            "features",
            Map(&Fields(&[
                has("used", Kind::COUNT),
                has("held", Kind::COUNT),
                has("jobs", Kind::COUNT),
            ])),
        ),
    ]],
    example: r#"{"account": "acme",
"features": {"tokens": {"used": 1200, "held": 800, "jobs": 3}}}"#,
};

const CHARGED: Thing = Thing {
    name: "Charged",
    fields: &[&[
        has("charged", AMOUNTS),
        has("capped", Bool),
        must("uncovered", AMOUNTS, "What did not fit in the hold."),
        has("held", AMOUNTS),
        has("used", AMOUNTS),
        has("lease_ends_at", Moment),
    ]],
    example: r#"{"charged": 100, "capped": false, "uncovered": 0, "held": 900, "used": 100,
"lease_ends_at": "2026-10-20T15:31:00.000Z"}"#,
};

const RENEWED: Thing = Thing {
    name: "Renewed",
    fields: &[&[has("lease_ends_at", Moment)]],
    example: r#"{"lease_ends_at": "2026-10-20T15:31:00.000Z"}"#,
};

const SETTLED: Thing = Thing {
    name: "Settled",
    fields: &[&[
        has("state", Word(&["settled", "expired"])),
        has("charged", BY_FEATURE),
        has("released", BY_FEATURE),
        has("uncovered", BY_FEATURE),
        has("by_cycle", Map(&BY_FEATURE)),
    ]],
    example: r#"{"state": "settled", "charged": {"tokens": 700},
"released": {"tokens": 300}, "uncovered": {"tokens": 0},
"by_cycle": {"2026-10": {"tokens": 700}}}"#,
};

const ESTIMATES: Thing = Thing {
    name: "Estimates",
    fields: &[&[
        has("feature", Id),
        has("cycle", Id),
        has("jobs", Kind::COUNT),
        has("capped", Kind::COUNT),
        has("expired", Kind::COUNT),
        has("held", Kind::COUNT),
        has("charged", Kind::COUNT),
        must("tenths", List(&Kind::COUNT), "Jobs by charged/held."),
    ]],
    example: r#"{"feature": "tokens", "cycle": "2026-10", "jobs": 120,
"capped": 2, "expired": 1, "held": 120000, "charged": 96000,
"tenths": [0, 0, 1, 2, 5, 9, 20, 40, 30, 13]}"#,
};

pub(super) const AREA: Area = Area {
    name: "Gate",
    about: "Hold part of a limit before work starts, charge as it goes, settle what it cost. \
            `used + held` never passes the limit, whatever starts together, dies or retries.",
    operations: OPERATIONS,
};

const OPERATIONS: &[Operation] = &[
    route(Post, "/v1/jobs", "Start a job: hold an amount")
        .details(
            "Either `feature` and `hold`, or `holds` for several features, all or nothing. The \
             same key and request while the job is live is the same job. A refusal is not \
             remembered: the same key may be admitted later.",
        )
        .body(&[
            must("key", Key, "The same key is the same job."),
            may("feature", Id, "With `hold`."),
            may("hold", Kind::UNITS, "How much the work may cost."),
            may(
                "holds",
                Map(&Kind::UNITS),
                "Instead of `feature` and `hold`.",
            ),
            may(
                "lease_seconds",
                OrNull(&Int(1, 3600)),
                "How long without a sign of life.",
            ),
        ])
        .answers(&[
            json(201, "Admitted.", &[&JOB]),
            json(200, "The same job, still live.", &[&JOB]),
        ])
        .problems(&[
            "over_limit",
            "feature_not_in_plan",
            "key_conflict",
            "job_over",
            "rate_limited",
            "limit_unknown",
        ]),
    route(
        Post,
        "/v1/jobs/{id}/charges",
        "Charge before a step of work",
    )
    .details(
        "What does not fit in the hold is cut to the room left and told as `uncovered`. A \
             charge with a step counts once. Numbers, or one per feature if the job has several.",
    )
    .body(&[
        must(
            "units",
            Either(&[Kind::UNITS, Map(&Kind::UNITS)]),
            "How much the step costs.",
        ),
        may(
            "feature",
            OrNull(&Id),
            "May be left out where the job has one.",
        ),
        may("step", OrNull(&Key), "The same step counts once."),
    ])
    .answers(&[json(200, "Recorded; the lease is renewed.", &[&CHARGED])])
    .problems(&["job_over", "key_conflict"]),
    route(Post, "/v1/jobs/{id}/extend", "Ask for more hold")
        .body(&[
            must("units", Kind::UNITS, "How much more."),
            may(
                "feature",
                OrNull(&Id),
                "May be left out where the job has one.",
            ),
            may("step", OrNull(&Key), "The same step counts once."),
        ])
        .answers(&[json(200, "Held; the lease is renewed.", &[&JOB])])
        .problems(&[
            "over_limit",
            "feature_not_in_plan",
            "job_over",
            "key_conflict",
            "limit_unknown",
        ]),
    route(Post, "/v1/jobs/{id}/renew", "Give a sign of life")
        .answers(&[json(200, "The lease is renewed.", &[&RENEWED])])
        .problems(&["job_over"]),
    route(
        Post,
        "/v1/jobs/{id}/settle",
        "End a job: charge what it cost, return the rest",
    )
    .details(
        "Never less than the charges recorded, never more than the hold. Again: the same \
             answer. On an expired job: what the sweep charged, with `state` `expired`; what was \
             used beyond is kept as late use.",
    )
    .body(&[
        may(
            "used",
            OrNull(&AMOUNTS),
            "Without it: what the charges recorded.",
        ),
        may("outcome", OrNull(&Word(OUTCOMES)), "For the record."),
        may("reason", OrNull(&Text), "Required from the operator."),
    ])
    .answers(&[json(200, "Settled, once.", &[&SETTLED])]),
    route(Get, "/v1/jobs/{id}", "Read a job").answers(&[json(200, "As it is.", &[&JOB])]),
    route(Get, "/v1/jobs", "List jobs")
        .details(
            "The operator may leave the account out; then each item is an account with live holds: \
             `{account, features: {feature: {used, held, jobs}}}`.",
        )
        .query(&[
            may("state", Word(STATES), "Only these."),
            may("feature", Id, "Only jobs that hold it."),
        ])
        .list()
        .answers(&[items(
            "Newest first; accounts in the order of their ids.",
            &[&JOB, &BUSY],
        )]),
    route(
        Get,
        "/v1/jobs/estimates",
        "Read how far estimates are from cost",
    )
    .query(&[
        must("feature", Id, "The feature."),
        may("cycle", Id, "The current one by default."),
    ])
    .answers(&[json(
        200,
        "`tenths`: ten counts of jobs by charged/held.",
        &[&ESTIMATES],
    )]),
    route(Get, "/v1/budget", "Read a budget")
        .details("For a counted feature `used` is the ledger's total.")
        .query(&[must("feature", Id, "The feature.")])
        .answers(&[json(
            200,
            "`remaining` and `limit` are null where there is no limit or none is known.",
            &[&ONE_BUDGET],
        )]),
];
