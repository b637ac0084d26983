//! The gate: jobs and budgets.

use super::super::request::Method::{Get, Post};
use super::Kind::{Amounts, Id, Int, Key, PerFeature, Text, Word};
use super::{Area, Operation, items, json, may, must, route};
use crate::units::SAFE_MAX;

const JOB: &str = r#"{"id": "job_0198", "key": "order-7", "state": "running", "capped": false,
"cycle": "2026-10", "holds": {"tokens": {"held": 1000, "used": 0}}, "remaining": {"tokens": 99000},
"lease_ends_at": "2026-10-20T15:31:00.000Z", "lease_seconds": 120,
"created_at": "2026-10-20T15:29:00.000Z", "ended_at": null, "outcome": null}"#;

const SETTLED: &str = r#"{"state": "settled", "charged": {"tokens": 700},
"released": {"tokens": 300}, "uncovered": {"tokens": 0},
"by_cycle": {"2026-10": {"tokens": 700}}}"#;

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
            may("hold", Int(1, SAFE_MAX), "How much the work may cost."),
            may("holds", PerFeature, "Instead of `feature` and `hold`."),
            may(
                "lease_seconds",
                Int(1, 3600),
                "How long without a sign of life.",
            ),
        ])
        .answers(&[
            json(201, "Admitted.", JOB),
            json(200, "The same job, still live.", JOB),
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
        must("units", Amounts(1), "How much the step costs."),
        may("feature", Id, "May be left out where the job has one."),
        may("step", Key, "The same step counts once."),
    ])
    .answers(&[json(
        200,
        "Recorded; the lease is renewed.",
        r#"{"charged": 100, "capped": false, "uncovered": 0, "held": 900, "used": 100,
            "lease_ends_at": "2026-10-20T15:31:00.000Z"}"#,
    )])
    .problems(&["job_over", "key_conflict"]),
    route(Post, "/v1/jobs/{id}/extend", "Ask for more hold")
        .body(&[
            must("units", Int(1, SAFE_MAX), "How much more."),
            may("feature", Id, "May be left out where the job has one."),
            may("step", Key, "The same step counts once."),
        ])
        .answers(&[json(200, "Held; the lease is renewed.", JOB)])
        .problems(&[
            "over_limit",
            "feature_not_in_plan",
            "job_over",
            "key_conflict",
            "limit_unknown",
        ]),
    route(Post, "/v1/jobs/{id}/renew", "Give a sign of life")
        .answers(&[json(
            200,
            "The lease is renewed.",
            r#"{"lease_ends_at": "2026-10-20T15:31:00.000Z"}"#,
        )])
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
        may("used", Amounts(0), "Without it: what the charges recorded."),
        may("outcome", Word(&["done", "failed"]), "For the record."),
        may("reason", Text, "Required from the operator."),
    ])
    .answers(&[json(200, "Settled, once.", SETTLED)]),
    route(Get, "/v1/jobs/{id}", "Read a job").answers(&[json(200, "As it is.", JOB)]),
    route(Get, "/v1/jobs", "List jobs")
        .details(
            "The operator may leave the account out; then each item is an account with live holds: \
             `{account, features: {feature: {used, held, jobs}}}`.",
        )
        .query(&[
            may(
                "state",
                Word(&["running", "settled", "expired"]),
                "Only these.",
            ),
            may("feature", Id, "Only jobs that hold it."),
        ])
        .list()
        .answers(&[items("Newest first.", JOB)]),
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
        r#"{"feature": "tokens", "cycle": "2026-10", "jobs": 120,
        "capped": 2, "expired": 1, "held": 120000, "charged": 96000,
        "tenths": [0, 0, 1, 2, 5, 9, 20, 40, 30, 13]}"#,
    )]),
    route(Get, "/v1/budget", "Read a budget")
        .details("For a counted feature `used` is the ledger's total.")
        .query(&[must("feature", Id, "The feature.")])
        .answers(&[json(
            200,
            "`remaining` and `limit` are null where there is no limit or none is known.",
            r#"{"feature": "tokens", "cycle": "2026-10", "limit": 100000, "limit_state": "known",
            "used": 1200, "held": 800, "remaining": 98000}"#,
        )]),
];
