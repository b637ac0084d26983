//! Health, metrics, this description.

use super::super::request::Method::Get;
use super::Kind::{Bool, Text, Word};
use super::{Area, Operation, Thing, has, json, other, route};

const HEALTH: Thing = Thing {
    name: "Health",
    fields: &[&[
        has("ok", Bool),
        has("version", Text),
        has("build", Text),
        has("provider", Word(&["kinde", "standin"])),
    ]],
    example: r#"{"ok": true, "version": "0.1.0", "build": "4f2a90c1", "provider": "kinde"}"#,
};

pub(super) const AREA: Area = Area {
    name: "Operations",
    about: "Whether it runs, and how it fares.",
    operations: OPERATIONS,
};

const OPERATIONS: &[Operation] = &[
    route(Get, "/healthz", "Ask whether it runs").answers(&[json(200, "It runs.", &[&HEALTH])]),
    route(Get, "/metrics", "Read sums and gauges").answers(&[other(
        200,
        "Prometheus text.",
        "text/plain; version=0.0.4; charset=utf-8",
    )]),
    route(Get, "/openapi.json", "Read this description").answers(&[other(
        200,
        "OpenAPI 3.1.",
        "application/json",
    )]),
    route(Get, "/docs", "Read this description as a page").answers(&[other(
        200,
        "A page.",
        "text/html; charset=utf-8",
    )]),
];
