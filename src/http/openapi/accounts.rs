//! Accounts, API keys, sync, audit.

use super::super::request::Method::{Delete, Get, Patch, Post};
use super::Kind::{Id, Int, Moment, Text};
use super::{Area, Operation, empty, items, json, may, route};
use crate::limits::JOBS_PER_MINUTE_MAX;

const ACCOUNT: &str = r#"{"id": "acme", "name": "Acme", "customer_id": "customer_0198",
"plan": "pro", "plan_since": "2026-10-20T15:29:00.000Z", "payment": "ok",
"agreement_id": "agreement_0198", "jobs_per_minute": null,
"anchor": {"at": "2026-10-20T15:29:00.000Z", "source": "current_period_start", "fixed": true},
"cycle": {"name": "2026-10", "starts_at": "2026-10-20T15:29:00.000Z",
"ends_at": "2026-11-20T15:29:00.000Z"}, "balance": {"credits": 500}}"#;

const ONE_ACCOUNT: &str = r#"{"id": "acme", "name": "Acme", "customer_id": "customer_0198",
"plan": "pro", "plan_since": "2026-10-20T15:29:00.000Z", "payment": "ok",
"agreement_id": "agreement_0198", "jobs_per_minute": null,
"anchor": {"at": "2026-10-20T15:29:00.000Z", "source": "current_period_start", "fixed": true},
"cycle": {"name": "2026-10", "starts_at": "2026-10-20T15:29:00.000Z",
"ends_at": "2026-11-20T15:29:00.000Z"}, "balance": {"credits": 500},
"budgets": [{"feature": "tokens", "cycle": "2026-10", "limit": 100000, "limit_state": "known",
"used": 1200, "held": 800, "remaining": 98000}]}"#;

const NEW_ACCOUNT: &str = r#"{"id": "acme", "api_key": "cfk_0198_5f0c", "name": "Acme",
"customer_id": "customer_0198", "plan": "pro", "plan_since": "2026-10-20T15:29:00.000Z",
"payment": "ok", "agreement_id": "agreement_0198", "jobs_per_minute": null,
"anchor": {"at": "2026-10-20T15:29:00.000Z", "source": "current_period_start", "fixed": false},
"cycle": {"name": "2026-10", "starts_at": "2026-10-20T15:29:00.000Z",
"ends_at": "2026-11-20T15:29:00.000Z"}, "balance": {"credits": 500}}"#;

const KEY: &str = r#"{"id": "0198", "name": "shop", "created_at": "2026-10-20T15:29:00.000Z",
"last_used_at": null, "revoked_at": null}"#;

const NEW_KEY: &str = r#"{"id": "0198", "api_key": "cfk_0198_5f0c", "name": "shop",
"created_at": "2026-10-20T15:29:00.000Z", "last_used_at": null, "revoked_at": null}"#;

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
            may("name", Text, "For people; at most 200 characters."),
            may("customer_id", Id, "The account's id at the provider."),
            may("starts_at", Moment, "Where cycles begin, each month anew."),
            may(
                "jobs_per_minute",
                Int(1, JOBS_PER_MINUTE_MAX),
                "Instead of the setting JOBS_PER_MINUTE.",
            ),
        ])
        .answers(&[
            json(201, "Made; the API key is shown this once.", NEW_ACCOUNT),
            json(200, "It was made before with the same body.", ACCOUNT),
        ])
        .problems(&["account_exists", "customer_taken", "anchor_day"]),
    route(Get, "/v1/accounts", "List accounts")
        .list()
        .answers(&[items("In the order of their ids.", ACCOUNT)]),
    route(
        Get,
        "/v1/accounts/{id}",
        "Read an account, with its budgets",
    )
    .answers(&[json(
        200,
        "Budgets come from the account's own object.",
        ONE_ACCOUNT,
    )]),
    route(Patch, "/v1/accounts/{id}", "Change an account")
        .details(
            "`customer_id` while it has none; the provider is then read as when an account is \
             made. `starts_at` for the operator only, before the first redirect or admission. \
             `null` takes name or rate away.",
        )
        .body(&[
            may("name", Text, "For people."),
            may("customer_id", Id, "The account's id at the provider."),
            may(
                "jobs_per_minute",
                Int(1, JOBS_PER_MINUTE_MAX),
                "Instead of the setting.",
            ),
            may("starts_at", Moment, "Where cycles begin."),
        ])
        .answers(&[json(200, "As it now is.", ACCOUNT)])
        .problems(&[
            "customer_taken",
            "customer_fixed",
            "anchor_fixed",
            "anchor_day",
        ]),
    route(Post, "/v1/accounts/{id}/keys", "Make another API key")
        .body(&[may("name", Text, "For people.")])
        .answers(&[json(201, "The key is shown this once.", NEW_KEY)]),
    route(Get, "/v1/accounts/{id}/keys", "List API keys")
        .list()
        .answers(&[items(
            "Oldest first, revoked ones too; last use to about ten minutes.",
            KEY,
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
        ACCOUNT,
    )]),
    route(
        Post,
        "/v1/account/sync",
        "Read plan and limits from the provider, now",
    )
    .answers(&[json(
        200,
        "As the provider has it.",
        r#"{"plan": "pro", "since": "2026-10-20T15:29:00.000Z", "changed": false,
        "source": "button"}"#,
    )])
    .problems(&["no_customer", "provider_unreadable"]),
    route(Get, "/v1/audit", "Read what was done by hand")
        .query(&[may("account", Id, "Only this account's.")])
        .list()
        .answers(&[items(
            "Newest first.",
            r#"{"id": "aud_0198", "at": "2026-10-20T15:29:00.000Z", "actor": "ann",
            "action": "key.create", "target": "0198", "account": "acme", "reason": null}"#,
        )]),
];
