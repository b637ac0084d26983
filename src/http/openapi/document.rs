//! The description as OpenAPI 3.1.

use serde_json::{Map, Value, json};

use super::super::route::Access;
use super::{AREAS, Area, Content, Field, Kind, Operation, Sample};
use crate::units::SAFE_MAX;

/// The whole document; `server` is where this API is asked for it.
pub fn document(server: &str) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for area in AREAS {
        for operation in area.operations {
            let path = paths.entry(operation.pattern).or_insert_with(|| json!({}));
            if let Value::Object(methods) = path {
                let method = operation.method.name().to_ascii_lowercase();
                methods.insert(method, described(area, operation));
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
            "schemas": {"Problem": problem_schema()},
        },
    })
}

fn problem_schema() -> Value {
    json!({
        "type": "object",
        "required": ["type", "title", "status", "code", "detail", "request_id"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "code": {"type": "string", "description": "Stable; for machines."},
            "detail": {"type": "string", "description": "One sentence for people."},
            "request_id": {"type": "string"},
            "field": {"type": "string", "description": "With 422: which field is wrong."},
        },
        "additionalProperties": true,
    })
}

fn described(area: &Area, operation: &Operation) -> Value {
    let mut out = Map::new();
    out.insert("operationId".to_owned(), json!(operation_id(operation)));
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
        let content = json!({"application/json": {"schema": object(operation.body)}});
        let body = json!({"required": required, "content": content});
        out.insert("requestBody".to_owned(), body);
    }
    out.insert("responses".to_owned(), responses(operation));
    Value::Object(out)
}

/// `get_v1_jobs_id`
fn operation_id(operation: &Operation) -> String {
    let path = operation.pattern.replace(['{', '}'], "");
    let words: Vec<&str> = path
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    format!(
        "{}_{}",
        operation.method.name().to_ascii_lowercase(),
        words.join("_")
    )
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

fn object(fields: &[Field]) -> Value {
    let required: Vec<&str> = fields
        .iter()
        .filter(|f| f.required)
        .map(|f| f.name)
        .collect();
    let properties: Map<String, Value> = fields
        .iter()
        .map(|field| {
            let mut schema = schema(field.kind);
            if let Value::Object(members) = &mut schema {
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
    let amount = |min: i64| json!({"type": "integer", "minimum": min, "maximum": SAFE_MAX});
    let per_feature = |min: i64| json!({"type": "object", "additionalProperties": amount(min)});
    match kind {
        Kind::Text => json!({"type": "string"}),
        Kind::Id => json!({"type": "string",
            "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$"}),
        Kind::Key => json!({"type": "string", "pattern": "^[!-~]{1,200}$"}),
        Kind::Int(min, max) => json!({"type": "integer", "minimum": min, "maximum": max}),
        Kind::Change => amount(-SAFE_MAX),
        Kind::Amounts(min) => json!({"anyOf": [amount(min), per_feature(min)]}),
        Kind::PerFeature => per_feature(1),
        Kind::Limits => json!({"type": "object", "additionalProperties":
            {"type": ["integer", "null"], "minimum": 0, "maximum": SAFE_MAX}}),
        Kind::Moment => json!({"type": "string", "format": "date-time"}),
        Kind::Url => json!({"type": "string", "format": "uri"}),
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Word(words) => json!({"type": "string", "enum": words}),
        Kind::Ids => json!({"type": "array", "items": schema(Kind::Id)}),
        Kind::Objects => json!({"type": "array", "maxItems": 100, "items": {"type": "object"}}),
        Kind::Object => json!({"type": "object"}),
    }
}

fn responses(operation: &Operation) -> Value {
    let mut all: Map<String, Value> = Map::new();
    for answer in operation.answers {
        all.insert(answer.status.to_string(), response(answer));
    }
    for problem in operation.all_problems() {
        let entry = all.entry(problem.status.to_string()).or_insert_with(|| {
            json!({"description": "", "content": {"application/problem+json":
                {"schema": {"$ref": "#/components/schemas/Problem"}}}})
        });
        let line = format!("`{}`: {}", problem.code, problem.about);
        if let Some(Value::String(about)) = entry.get_mut("description") {
            if !about.is_empty() {
                about.push('\n');
            }
            about.push_str(&line);
        }
    }
    Value::Object(all)
}

fn response(answer: &Sample) -> Value {
    let json_body = |example: Value| {
        json!({"description": answer.about, "content": {"application/json":
            {"schema": schema_of(&example), "example": example}}})
    };
    match answer.body {
        Content::Empty => json!({"description": answer.about}),
        Content::Json(text) => json_body(example(text)),
        Content::List(text) => json_body(json!({"items": [example(text)], "next": null})),
        Content::Other(content_type) => {
            json!({"description": answer.about, "content": {content_type: {}}})
        }
    }
}

/// An example's text as JSON; a test reads every one of them.
pub fn example(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

/// The schema that an example has.
fn schema_of(example: &Value) -> Value {
    match example {
        Value::Null => json!({}),
        Value::Bool(_) => json!({"type": "boolean"}),
        Value::Number(_) => json!({"type": "integer"}),
        Value::String(_) => json!({"type": "string"}),
        Value::Array(items) => {
            json!({"type": "array", "items": items.first().map_or_else(|| json!({}), schema_of)})
        }
        Value::Object(members) => {
            let properties: Map<String, Value> = members
                .iter()
                .map(|(name, value)| (name.clone(), schema_of(value)))
                .collect();
            json!({"type": "object", "properties": properties})
        }
    }
}
