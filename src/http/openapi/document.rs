//! The description as OpenAPI 3.1.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::super::request::Method;
use super::super::route::Access;
use super::{AREAS, Area, Content, Field, Kind, Operation, PROBLEMS, Sample, Thing};

/// The whole document; `server` is where this API is asked for it.
pub fn document(server: &str) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for area in AREAS {
        for operation in area.operations {
            let path = paths.entry(operation.pattern).or_insert_with(|| json!({}));
            if let Value::Object(methods) = path {
                let method = operation.method.name().to_ascii_lowercase();
                let get = described(area, operation);
                if !operation.head.is_empty() {
                    let head = described_head(operation, get.clone());
                    methods.insert("head".to_owned(), Value::Object(head));
                }
                methods.insert(method, Value::Object(get));
            }
        }
    }
    let tags: Vec<Value> = AREAS
        .iter()
        .map(|area| json!({"name": area.name, "description": area.about}))
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Counterfoil",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Usage billing that is exact at the edge.",
            "description": "Every path that has a GET answers HEAD like it: the same status and \
                headers, without a body. OPTIONS answers 204 with `Allow`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": server}],
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An operator's or a backend's token, or an API key (cfk_…).",
                },
                "session": {"type": "apiKey", "in": "cookie", "name": "counterfoil_session"},
            },
            "schemas": schemas(),
        },
    })
}

/// Every thing that some answer holds, and what every problem is.
fn schemas() -> Map<String, Value> {
    let mut all = Map::new();
    let operations = AREAS.iter().flat_map(|area| area.operations);
    for answer in operations.flat_map(|operation| operation.answers) {
        if let Content::Json(things) | Content::List(things) = answer.body {
            for thing in things {
                all.insert(thing.name.to_owned(), object(thing.fields));
            }
        }
    }
    all.insert("Problem".to_owned(), problem_schema());
    all
}

/// What every problem has, and what some have beside it.
fn problem_schema() -> Value {
    let codes: Vec<&str> = PROBLEMS.iter().map(|problem| problem.code).collect();
    let amount = || schema(Kind::COUNT);
    json!({
        "type": "object",
        "required": ["type", "title", "status", "code", "detail", "request_id"],
        "properties": {
            "type": {"type": "string", "description": "Where the code is explained."},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "code": {"type": "string", "enum": codes, "description": "Stable; for machines."},
            "detail": {"type": "string", "description": "One sentence for people."},
            "request_id": {"type": "string"},
            "field": {"type": "string", "description": "With 422: which field is wrong."},
            "feature": {"type": "string", "description": "Of the gate: which feature."},
            "reason": {"type": "string", "enum": ["too_big", "used_up", "held"],
                "description": "With `over_limit`."},
            "asked": amount(), "remaining": amount(), "used": amount(), "held": amount(),
            "limit": schema(Kind::OrNull(&Kind::COUNT)),
            "next_lease_ends_at": schema(Kind::OrNull(&Kind::Moment)),
            "state": {"type": "string", "enum": ["settled", "expired"],
                "description": "With `job_over`: how it ended."},
            "charged": schema(Kind::Map(&Kind::COUNT)),
            "key": {"type": "string", "description": "With `key_conflict`: which of several."},
            "left": {"type": "integer", "description": "What may still be corrected."},
        },
        "additionalProperties": false,
    })
}

fn described(area: &Area, operation: &Operation) -> Map<String, Value> {
    let mut out = Map::new();
    let id = operation_id(operation.method, operation.pattern);
    out.insert("operationId".to_owned(), json!(id));
    out.insert("summary".to_owned(), json!(operation.summary));
    if !operation.details.is_empty() {
        out.insert("description".to_owned(), json!(operation.details));
    }
    out.insert("tags".to_owned(), json!([area.name]));
    out.insert("security".to_owned(), security(operation.access()));
    out.insert("x-roles".to_owned(), json!(roles(operation.access())));
    let parameters = parameters(operation);
    if !parameters.is_empty() {
        out.insert("parameters".to_owned(), json!(parameters));
    }
    if !operation.body.is_empty() {
        let required = operation.body.iter().any(|field| field.required);
        let content = json!({"application/json": {"schema": object(&[operation.body])}});
        let body = json!({"required": required, "content": content});
        out.insert("requestBody".to_owned(), body);
    }
    out.insert("responses".to_owned(), responses(operation));
    out
}

/// The `HEAD` of a `GET`: what it answers, without any body.
fn described_head(get: &Operation, mut out: Map<String, Value>) -> Map<String, Value> {
    let id = operation_id(Method::Head, get.pattern);
    out.insert("operationId".to_owned(), json!(id));
    out.insert("description".to_owned(), json!(get.head));
    if let Some(Value::Object(responses)) = out.get_mut("responses") {
        for response in responses.values_mut().filter_map(Value::as_object_mut) {
            response.remove("content");
        }
    }
    out
}

/// `get_v1_jobs_id`
fn operation_id(method: Method, pattern: &str) -> String {
    let path = pattern.replace(['{', '}'], "");
    let words: Vec<&str> = path
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    format!("{}_{}", method.name().to_ascii_lowercase(), words.join("_"))
}

fn security(access: Access) -> Value {
    match access {
        Access::Open => json!([]),
        Access::Page => json!([{"session": []}]),
        Access::Operator
        | Access::Servers
        | Access::Account
        | Access::AccountOperator
        | Access::AccountOrAll
        | Access::Filter => json!([{"bearer": []}, {"session": []}]),
    }
}

/// Who may use a route, in words.
pub fn roles(access: Access) -> &'static [&'static str] {
    match access {
        Access::Open => &[],
        Access::Operator | Access::AccountOperator => &["operator"],
        Access::Servers => &["operator", "backend"],
        Access::Page => &["operator", "account"],
        Access::Account | Access::AccountOrAll | Access::Filter => {
            &["operator", "backend", "account"]
        }
    }
}

/// Names in `{…}`.
fn path_names(pattern: &str) -> impl Iterator<Item = &str> {
    pattern
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn parameters(operation: &Operation) -> Vec<Value> {
    let mut all: Vec<Value> = path_names(operation.pattern)
        .map(|name| {
            let schema = match name {
                "job" => json!({"type": "string",
                    "enum": ["sweeper", "reporter", "inbox", "reconciler", "plans"]}),
                _ => schema(Kind::Id),
            };
            json!({"name": name, "in": "path", "required": true, "schema": schema})
        })
        .collect();
    let (about, required) = match operation.access() {
        Access::Account => ("Required from operator and backend.", false),
        Access::AccountOperator => ("Whose.", true),
        Access::AccountOrAll => ("Required from a backend.", false),
        Access::Open | Access::Page | Access::Operator | Access::Servers | Access::Filter => {
            ("", false)
        }
    };
    if !about.is_empty() {
        all.push(
            json!({"name": "account", "in": "query", "required": required,
            "description": about, "schema": schema(Kind::Id)}),
        );
    }
    all.extend(operation.query.iter().map(|field| {
        json!({"name": field.name, "in": "query", "required": field.required,
            "description": field.about, "schema": schema(field.kind)})
    }));
    if operation.list {
        all.push(json!({"name": "limit", "in": "query", "required": false,
            "description": "How many items; 50 by default.",
            "schema": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}}));
        all.push(json!({"name": "after", "in": "query", "required": false,
            "description": "`next` of the page before.", "schema": {"type": "string"}}));
    }
    all
}

fn object(groups: &[&[Field]]) -> Value {
    let fields = || groups.iter().copied().flatten();
    let required: Vec<&str> = fields().filter(|f| f.required).map(|f| f.name).collect();
    let properties: Map<String, Value> = fields()
        .map(|field| {
            let mut schema = schema(field.kind);
            if let Value::Object(members) = &mut schema
                && !field.about.is_empty()
            {
                members.insert("description".to_owned(), json!(field.about));
            }
            (field.name.to_owned(), schema)
        })
        .collect();
    json!({"type": "object", "required": required, "properties": properties,
        "additionalProperties": false})
}

/// What a field holds, as JSON Schema.
fn schema(kind: Kind) -> Value {
    match kind {
        Kind::Text => json!({"type": "string"}),
        Kind::Id => json!({"type": "string",
            "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$"}),
        Kind::Key => json!({"type": "string", "pattern": "^[!-~]{1,200}$"}),
        Kind::Int(min, max) => json!({"type": "integer", "minimum": min, "maximum": max}),
        Kind::Moment => json!({"type": "string", "format": "date-time"}),
        Kind::Url => json!({"type": "string", "format": "uri"}),
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Word(words) => json!({"type": "string", "enum": words}),
        Kind::OrNull(kind) => or_null(schema(*kind)),
        Kind::Either(kinds) => json!({"anyOf": kinds.map(schema)}),
        Kind::List(kind) => json!({"type": "array", "items": schema(*kind)}),
        Kind::UpTo(most, kind) => json!({"type": "array", "items": schema(*kind),
            "minItems": 1, "maxItems": most}),
        Kind::Map(kind) => json!({"type": "object", "additionalProperties": schema(*kind)}),
        Kind::Fields(fields) => object(&[fields]),
        Kind::Object => json!({"type": "object"}),
        Kind::Any => json!({}),
    }
}

/// The same schema, which takes null too.
fn or_null(mut schema: Value) -> Value {
    let Value::Object(members) = &mut schema else {
        return schema;
    };
    match members.get_mut("type") {
        Some(known) => *known = json!([known.take(), "null"]),
        None => return json!({"anyOf": [schema, {"type": "null"}]}),
    }
    if let Some(Value::Array(words)) = members.get_mut("enum") {
        words.push(Value::Null);
    }
    schema
}

fn responses(operation: &Operation) -> Value {
    let mut all: Map<String, Value> = Map::new();
    for answer in operation.answers {
        add(&mut all, answer.status, answer.about, content(answer));
    }
    let problems = operation.all_problems();
    let statuses: BTreeSet<u16> = problems.iter().map(|problem| problem.status).collect();
    for status in statuses {
        let of_status = problems.iter().filter(|problem| problem.status == status);
        let (codes, lines): (Vec<&str>, Vec<String>) = of_status
            .map(|problem| {
                let line = format!("`{}`: {}", problem.code, problem.about);
                (problem.code, line)
            })
            .unzip();
        let body = problem_content(&codes, operation.answers_browsers());
        add(&mut all, status, &lines.join("\n"), Some(body));
        if let (402 | 429 | 503, Some(Value::Object(response))) =
            (status, all.get_mut(&status.to_string()))
        {
            response.insert("headers".to_owned(), retry_after());
        }
    }
    Value::Object(all)
}

/// A problem with one of these codes; for browsers also as a page.
fn problem_content(codes: &[&str], answers_browsers: bool) -> Map<String, Value> {
    let schema = json!({"allOf": [{"$ref": "#/components/schemas/Problem"},
        {"properties": {"code": {"enum": codes}}}]});
    let mut content = Map::new();
    content.insert(
        "application/problem+json".to_owned(),
        json!({"schema": schema}),
    );
    if answers_browsers {
        content.insert("text/html; charset=utf-8".to_owned(), json!({}));
    }
    content
}

/// Where it is worth to try again: seconds.
fn retry_after() -> Value {
    json!({"Retry-After": {"description": "Seconds after which to try again.",
        "schema": {"type": "integer", "minimum": 1}}})
}

/// Several answers of one status stand beside each other, each with its content type.
fn add(all: &mut Map<String, Value>, status: u16, about: &str, body: Option<Map<String, Value>>) {
    let entry = all
        .entry(status.to_string())
        .or_insert_with(|| json!({"description": ""}));
    let Value::Object(response) = entry else {
        return;
    };
    if let Some(Value::String(text)) = response.get_mut("description") {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(about);
    }
    if let Some(body) = body {
        let content = response.entry("content").or_insert_with(|| json!({}));
        if let Value::Object(content) = content {
            content.extend(body);
        }
    }
}

fn content(answer: &Sample) -> Option<Map<String, Value>> {
    let (content_type, body) = match answer.body {
        Content::Empty => return None,
        Content::Json(things) => {
            let shown = examples(things, |one| one);
            let body = json!({"schema": one_of(things), "examples": shown});
            ("application/json", body)
        }
        Content::List(things) => {
            let shown = examples(things, |one| json!({"items": [one], "next": null}));
            let body = json!({"schema": list_of(&one_of(things)), "examples": shown});
            ("application/json", body)
        }
        Content::Other(content_type) => (content_type, json!({})),
    };
    Some(Map::from_iter([(content_type.to_owned(), body)]))
}

fn one_of(things: &[&Thing]) -> Value {
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    match things {
        [only] => reference(only.name),
        several => {
            let references: Vec<Value> = several.iter().map(|one| reference(one.name)).collect();
            json!({"oneOf": references})
        }
    }
}

fn list_of(items: &Value) -> Value {
    json!({"type": "object", "required": ["items", "next"],
        "properties": {"items": {"type": "array", "items": items},
            "next": {"type": ["string", "null"],
                "description": "`after` of the next page; null on the last."}},
        "additionalProperties": false})
}

fn examples(things: &[&Thing], wrapped: impl Fn(Value) -> Value) -> Map<String, Value> {
    let shown = |thing: &&Thing| {
        let value = wrapped(example(thing));
        (thing.name.to_owned(), json!({"value": value}))
    };
    things.iter().map(shown).collect()
}

/// A thing's example as JSON; a test reads every one of them.
pub fn example(thing: &Thing) -> Value {
    serde_json::from_str(thing.example).unwrap_or(Value::Null)
}
