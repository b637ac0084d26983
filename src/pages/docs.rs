//! `/docs`: the description of the API as a page, written from the same data as
//! `/openapi.json`.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::sheet::{Column, table};
use super::{Tone, Viewer, badge, frame};
use crate::http::openapi::{
    AREAS, Area, Content, Field, Kind, Operation, PROBLEMS, Thing, example, roles,
};

/// The page.
pub fn docs(viewer: &Viewer) -> String {
    frame(
        "API",
        viewer,
        &html! {
            p {
                "JSON in, JSON out. The same as OpenAPI 3.1: "
                a href="/openapi.json" { "/openapi.json" } "."
            }
            (rules())
            ul.jumps {
                @for area in AREAS { li { a href={ "#" (slug(area.name)) } { (area.name) } } }
                li { a href="#problems" { "Problems" } }
            }
            @for area in AREAS { (section(area)) }
            (problems())
        },
    )
}

fn rules() -> Markup {
    html! {
        h2 { "For every route" }
        ul {
            li {
                code { "Authorization: Bearer TOKEN" }
                ": the operator's, a backend's, or an account's API key. Operator and backend name "
                "the account with " code { "?account=ID" } "; an API key has its own."
            }
            li {
                "Amounts are whole JSON numbers up to 9,007,199,254,740,991. Times are RFC 3339; "
                "answers are in UTC with milliseconds."
            }
            li {
                "Lists take " code { "?limit=" } " (50, at most 500) and " code { "&after=" }
                " and answer " code { "{items, next}" } "."
            }
            li {
                "Errors are " code { "application/problem+json" } " with a stable "
                code { "code" } ". A 503 with " code { "Retry-After" } " is safe to try again. "
                "Every answer carries " code { "X-Request-Id" } "."
            }
            li {
                "Where there is a " code { "GET" } ", " code { "HEAD" } " answers the same "
                "without a body; " code { "OPTIONS" } " answers 204 with " code { "Allow" } "."
            }
            li { "Looked at in this order: path 404, method 405, token 401, role 403, size 413, "
                "JSON 400, account 422 or 404, body 422, then the thing itself." }
        }
    }
}

fn section(area: &Area) -> Markup {
    html! {
        h2 id=(slug(area.name)) { (area.name) }
        p { (prose(area.about)) }
        @for operation in area.operations { (one(operation)) }
    }
}

fn one(operation: &Operation) -> Markup {
    html! {
        section.panel.route {
            h3 {
                code { (operation.method.name()) " " (operation.pattern) }
                " " (operation.summary)
            }
            p.soft { (who(operation)) }
            @if !operation.details.is_empty() { p { (prose(operation.details)) } }
            @if !operation.head.is_empty() { p { code { "HEAD" } " " (prose(operation.head)) } }
            @if !operation.query.is_empty() { (fields("Query", operation.query)) }
            @if !operation.body.is_empty() { (fields("Body", operation.body)) }
            @for answer in operation.answers {
                p { b { (answer.status) } " " (prose(answer.about)) }
                @match answer.body {
                    Content::Empty => {}
                    Content::Json(things) => { (examples(things, |one| one)) }
                    Content::List(things) => {
                        (examples(things, |one| json!({"items": [one], "next": null})))
                    }
                    Content::Other(content_type) => { p { code { (content_type) } } }
                }
            }
            @let problems = operation.all_problems();
            @if !problems.is_empty() {
                p.soft {
                    "Problems: "
                    @for (index, problem) in problems.iter().enumerate() {
                        @if index > 0 { " · " }
                        (problem.status) " " a href={ "#" (problem.code) } { (problem.code) }
                    }
                }
            }
        }
    }
}

fn who(operation: &Operation) -> String {
    match roles(operation.access()) {
        [] => "No token needed.".to_owned(),
        roles => format!("For: {}.", roles.join(", ")),
    }
}

fn fields(title: &'static str, fields: &[Field]) -> Markup {
    let columns = [
        Column::Text(title),
        Column::Text("Holds"),
        Column::Text("Meaning"),
    ];
    let rows: Vec<Vec<Markup>> = (fields.iter())
        .map(|field| {
            vec![
                html! {
                    code { (field.name) }
                    @if field.required { " " (badge(Tone::Soft, "required")) }
                },
                html! { (kind(field.kind)) },
                prose(field.about),
            ]
        })
        .collect();
    table(title, &columns, &rows)
}

/// A sentence whose `code` stands between backticks.
fn prose(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn kind(kind: Kind) -> String {
    match kind {
        Kind::Text => "text".to_owned(),
        Kind::Id => "an id".to_owned(),
        Kind::Key => "1 to 200 visible ASCII characters".to_owned(),
        Kind::Int(min, max) => format!("a whole number, {min} to {max}"),
        Kind::Moment => "a time".to_owned(),
        Kind::Url => "an address".to_owned(),
        Kind::Bool => "true or false".to_owned(),
        Kind::Word(words) => words.join(", "),
        Kind::OrNull(inner) => format!("{}, or null", self::kind(*inner)),
        Kind::Either([one, other]) => format!("{}; or {}", self::kind(*one), self::kind(*other)),
        Kind::List(item) => format!("a list, each item {}", self::kind(*item)),
        Kind::UpTo(most, item) => format!("a list of 1 to {most}, each {}", self::kind(*item)),
        Kind::Map(value) => format!("an object, by name {}", self::kind(*value)),
        Kind::Fields(fields) => {
            let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
            format!("{{{}}}", names.join(", "))
        }
        Kind::Object => "an object".to_owned(),
        Kind::Any => "anything".to_owned(),
    }
}

fn problems() -> Markup {
    let columns = [
        Column::Number("Status"),
        Column::Text("Code"),
        Column::Text("Meaning"),
    ];
    let rows: Vec<Vec<Markup>> = (PROBLEMS.iter())
        .map(|problem| {
            vec![
                html! { (problem.status) },
                html! { code id=(problem.code) { (problem.code) } },
                prose(problem.about),
            ]
        })
        .collect();
    html! {
        h2 #problems { "Problems" }
        (table("Problems", &columns, &rows))
    }
}

fn examples(things: &[&Thing], wrapped: impl Fn(Value) -> Value) -> Markup {
    html! {
        @for thing in things {
            pre { (serde_json::to_string_pretty(&wrapped(example(thing))).unwrap_or_default()) }
        }
    }
}

fn slug(name: &str) -> String {
    name.to_ascii_lowercase().replace(' ', "-")
}
