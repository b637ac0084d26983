//! Accounts, API keys, sync, audit.

use super::super::request::Method::{Delete, Get, Patch, Post};
use super::Kind::{Bool, Fields, Id, Int, List, Map, Moment, OrNull, Text, Word};
use super::gate::BUDGET;
use super::{Area, Field, Kind, Operation, Thing, empty, has, items, json, may, must, route};
use crate::limits::JOBS_PER_MINUTE_MAX;

const RATE: Kind = Int(1, JOBS_PER_MINUTE_MAX);

const OF_ACCOUNT: &[Field] = &[
    has("id", Id),
    has("name", OrNull(&Text)),
    has("customer_id", OrNull(&Id)),
    has("plan", Id),
    has("plan_since", OrNull(&Moment)),
    has("payment", Word(&["ok", "overdue"])),
    has("agreement_id", OrNull(&Id)),
    must(
        "jobs_per_minute",
        OrNull(&RATE),
        "Where it has its own; null: the setting JOBS_PER_MINUTE.",
    ),
    has(
        "anchor",
        Fields(&[
            has("at", Moment),
            has("source", Word(ANCHOR_SOURCES)),
            must("fixed", Bool, "Usage was counted, so it no longer moves."),
        ]),
    ),
    has(
        "cycle",
        Fields(&[
            has("name", Id),
            has("starts_at", Moment),
            has("ends_at", Moment),
        ]),
    ),
    must("balance", Map(&Kind::COUNT), "Granted in this cycle."),
];

const ANCHOR_SOURCES: &[&str] = &[
    "starts_at",
    "current_period_start",
    "subscribed_on",
    "calendar_month",
    "period_mismatch",
];

const ACCOUNT: Thing = Thing {
    name: "Account",
    fields: &[OF_ACCOUNT],
    example: r#"{"id": "acme", "name": "Acme", "customer_id": "customer_0198",
"plan": "pro", "plan_since": "2026-10-20T15:29:00.000Z", "payment": "ok",
"agreement_id": "agreement_0198", "jobs_per_minute": null,
"anchor": {"at": "2026-10-20T15:29:00.000Z", "source": "current_period_start", "fixed": true},
"cycle": {"name": "2026-10", "starts_at": "2026-10-20T15:29:00.000Z",
"ends_at": "2026-11-20T15:29:00.000Z"}, "balance": {"credits": 500}}"#,
};

const ONE_ACCOUNT: Thing = Thing {
    name: "AccountWithBudgets",
    fields: &[OF_ACCOUNT, &[has("budgets", List(&Fields(BUDGET)))]],
    example: r#"{"id": "acme", "name": "Acme", "customer_id": "customer_0198",
"plan": "pro", "plan_since": "2026-10-20T15:29:00.000Z", "payment": "ok",
"agreement_id": "agreement_0198", "jobs_per_minute": null,
"anchor": {"at": "2026-10-20T15:29:00.000Z", "source": "current_period_start", "fixed": true},
"cycle": {"name": "2026-10", "starts_at": "2026-10-20T15:29:00.000Z",
"ends_at": "2026-11-20T15:29:00.000Z"}, "balance": {"credits": 500},
"budgets": [{"feature": "tokens", "cycle": "2026-10", "limit": 100000, "limit_state": "known",
"used": 1200, "held": 800, "remaining": 98000}]}"#,
};

const NEW_ACCOUNT: Thing = Thing {
    name: "NewAccount",
    fields: &[OF_ACCOUNT, &[has("api_key", Text)]],
    example: r#"{"id": "acme", "api_key": "cfk_0198_5f0c", "name": "Acme",
"customer_id": "customer_0198", "plan": "pro", "plan_since": "2026-10-20T15:29:00.000Z",
"payment": "ok", "agreement_id": "agreement_0198", "jobs_per_minute": null,
"anchor": {"at": "2026-10-20T15:29:00.000Z", "source": "current_period_start", "fixed": false},
"cycle": {"name": "2026-10", "starts_at": "2026-10-20T15:29:00.000Z",
"ends_at": "2026-11-20T15:29:00.000Z"}, "balance": {"credits": 500}}"#,
};

const OF_KEY: &[Field] = &[
    has("id", Id),
    has("name", OrNull(&Text)),
    has("created_at", Moment),
    has("last_used_at", OrNull(&Moment)),
    has("revoked_at", OrNull(&Moment)),
];

const KEY: Thing = Thing {
    name: "ApiKey",
    fields: &[OF_KEY],
    example: r#"{"id": "0198", "name": "shop", "created_at": "2026-10-20T15:29:00.000Z",
"last_used_at": null, "revoked_at": null}"#,
};

const NEW_KEY: Thing = Thing {
    name: "NewApiKey",
    fields: &[OF_KEY, &[has("api_key", Text)]],
    example: r#"{"id": "0198", "api_key": "cfk_0198_5f0c", "name": "shop",
"created_at": "2026-10-20T15:29:00.000Z", "last_used_at": null, "revoked_at": null}"#,
};

const SYNCED: Thing = Thing {
    name: "Synced",
    fields: &[&[
        has("plan", Id),
        has("since", OrNull(&Moment)),
        must(
            "changed",
            Bool,
            "Whether this call found another plan than was stored.",
        ),
        must(
            "source",
            Word(&["provider", "stored"]),
            "`stored`: there is no current agreement, and nothing proven yet.",
        ),
    ]],
    example: r#"{"plan": "pro", "since": "2026-10-20T15:29:00.000Z", "changed": false,
"source": "provider"}"#,
};

const AUDIT: Thing = Thing {
    name: "AuditRow",
    fields: &[&[
        has("id", Id),
        has("at", Moment),
        has("actor", Text),
        has("action", Text),
        has("target", Text),
        has("account", OrNull(&Id)),
        has("reason", OrNull(&Text)),
    ]],
    example: r#"{"id": "aud_0198", "at": "2026-10-20T15:29:00.000Z", "actor": "ann",
"action": "key.create", "target": "0198", "account": "acme", "reason": null}"#,
};

pub(super) const AREA: Area = Area {
    name: "Accounts",
    about: "One account for each of your customers, with API keys, a plan and billing cycles.",
    operations: OPERATIONS,
};

const OPERATIONS: &[Operation] = &[
    route(Post, "/v1/accounts", "Make an account")
        .details(
            "With a customer the provider is read first: plan, agreement and, without \
             `starts_at`, the anchor come from it; where it cannot be read nothing is made (503). \
             Without a customer the cycles are calendar months. The same id with the same body \
             again is answered 200, without a key.",
        )
        .body(&[
            may("id", Id, "Made up where it is left out."),
            may("name", OrNull(&Text), "For people; at most 200 characters."),
            may(
                "customer_id",
                OrNull(&Id),
                "The account's id at the provider.",
            ),
            may(
                "starts_at",
                OrNull(&Moment),
                "Where cycles begin, each month anew.",
            ),
            may(
                "jobs_per_minute",
                OrNull(&RATE),
                "Instead of the setting JOBS_PER_MINUTE.",
            ),
        ])
        .answers(&[
            json(
                201,
                "Made; the API key is shown this once.",
                &[&NEW_ACCOUNT],
            ),
            json(200, "It was made before with the same body.", &[&ACCOUNT]),
        ])
        .problems(&[
            "account_exists",
            "customer_taken",
            "anchor_day",
            "provider_unreadable",
        ]),
    route(Get, "/v1/accounts", "List accounts")
        .list()
        .answers(&[items("In the order of their ids.", &[&ACCOUNT])]),
    route(
        Get,
        "/v1/accounts/{id}",
        "Read an account, with its budgets",
    )
    .answers(&[json(
        200,
        "Budgets come from the account's own object.",
        &[&ONE_ACCOUNT],
    )]),
    route(Patch, "/v1/accounts/{id}", "Change an account")
        .details(
            "`customer_id` while it has none; the provider is then read as when an account is \
             made. `starts_at` for the operator only, before the first redirect or admission. \
             `null` takes name or rate away.",
        )
        .body(&[
            may("name", OrNull(&Text), "For people."),
            may(
                "customer_id",
                OrNull(&Id),
                "The account's id at the provider.",
            ),
            may("jobs_per_minute", OrNull(&RATE), "Instead of the setting."),
            may("starts_at", OrNull(&Moment), "Where cycles begin."),
        ])
        .answers(&[json(200, "As it now is.", &[&ACCOUNT])])
        .problems(&[
            "customer_taken",
            "customer_fixed",
            "anchor_fixed",
            "anchor_day",
            "provider_unreadable",
        ]),
    route(Post, "/v1/accounts/{id}/keys", "Make another API key")
        .body(&[may("name", OrNull(&Text), "For people.")])
        .answers(&[json(201, "The key is shown this once.", &[&NEW_KEY])]),
    route(Get, "/v1/accounts/{id}/keys", "List API keys")
        .list()
        .answers(&[items(
            "Oldest first, revoked ones too; last use to about ten minutes.",
            &[&KEY],
        )]),
    route(
        Delete,
        "/v1/accounts/{id}/keys/{key_id}",
        "Revoke an API key",
    )
    .details("It works at most KEY_CACHE_SECONDS longer.")
    .answers(&[empty(204, "Revoked, now or before.")]),
    route(Get, "/v1/account", "Read plan, balance and cycle").answers(&[json(
        200,
        "The account that the key is for.",
        &[&ACCOUNT],
    )]),
    route(
        Post,
        "/v1/account/sync",
        "Read plan and limits from the provider, now",
    )
    .answers(&[json(200, "As the provider has it.", &[&SYNCED])])
    .problems(&["no_customer", "provider_unreadable"]),
    route(Get, "/v1/audit", "Read what was done by hand")
        .query(&[may("account", Id, "Only this account's.")])
        .list()
        .answers(&[items("Newest first.", &[&AUDIT])]),
];
