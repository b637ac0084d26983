//! The API, described once as data: `/openapi.json` and `/docs` are both written from it.
//!
//! What holds for every route (tokens, ids in paths, lists, the problems that anybody may meet) is
//! added here from the route table, so that an area's file says only what is its own. A test
//! compares the description with the router, route by route.

mod document;
mod gate;
mod inbox;
mod ledger;
mod links;
mod operations;
mod problems;
mod standin;

mod accounts;
mod pages;

pub use document::{document, example, roles};
pub use problems::{PROBLEMS, ProblemKind};

use super::request::Method;
use super::route::{Access, ROUTES, Spec};

/// One route, described.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// As in the route table.
    pub method: Method,
    /// As in the route table.
    pub pattern: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// What else a caller has to know; may be empty.
    pub details: &'static str,
    /// Query parameters of its own.
    pub query: &'static [Field],
    /// Fields of the JSON body.
    pub body: &'static [Field],
    /// Whether it is a list with `limit` and `after`.
    pub list: bool,
    /// What it answers when it does what it was asked.
    pub answers: &'static [Sample],
    /// The codes of its own problems, beside those that every route may answer.
    pub problems: &'static [&'static str],
}

/// An answer: its status, when it comes, and an example.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The HTTP status.
    pub status: u16,
    /// When it comes.
    pub about: &'static str,
    /// What the body is.
    pub body: Content,
}

/// What a body is.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// None.
    Empty,
    /// JSON; the text is an example with every field.
    Json(&'static str),
    /// A list of these: `{items: […], next}`.
    List(&'static str),
    /// Something else, of that content type.
    Other(&'static str),
}

/// A field of a body, or a query parameter.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether it must be there.
    pub required: bool,
    /// What it means.
    pub about: &'static str,
}

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Text.
    Text,
    /// `[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}`.
    Id,
    /// 1 to 200 visible ASCII characters.
    Key,
    /// A whole number within bounds.
    Int(i64, i64),
    /// A whole number, of any sign.
    Change,
    /// A whole number from 1, or one for each feature.
    Amounts(i64),
    /// `{feature: amount}`.
    PerFeature,
    /// `{feature: amount or null}`.
    Limits,
    /// RFC 3339.
    Moment,
    /// An address.
    Url,
    /// True or false.
    Bool,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of ids.
    Ids,
    /// A list of objects.
    Objects,
    /// Any object.
    Object,
}

/// A field that may be left out.
pub(super) const fn may(name: &'static str, kind: Kind, about: &'static str) -> Field {
    let required = false;
    Field {
        name,
        kind,
        required,
        about,
    }
}

/// A field that must be there.
pub(super) const fn must(name: &'static str, kind: Kind, about: &'static str) -> Field {
    let required = true;
    Field {
        name,
        kind,
        required,
        about,
    }
}

/// A JSON answer.
pub(super) const fn json(status: u16, about: &'static str, example: &'static str) -> Sample {
    let body = Content::Json(example);
    Sample {
        status,
        about,
        body,
    }
}

/// A list of such items.
pub(super) const fn items(about: &'static str, example: &'static str) -> Sample {
    let (status, body) = (200, Content::List(example));
    Sample {
        status,
        about,
        body,
    }
}

/// An answer without a body.
pub(super) const fn empty(status: u16, about: &'static str) -> Sample {
    let body = Content::Empty;
    Sample {
        status,
        about,
        body,
    }
}

/// An answer that is not JSON.
pub(super) const fn other(status: u16, about: &'static str, content_type: &'static str) -> Sample {
    let body = Content::Other(content_type);
    Sample {
        status,
        about,
        body,
    }
}

/// Nothing but a method and a path: what the description of a route begins with.
pub(super) const fn route(
    method: Method,
    pattern: &'static str,
    summary: &'static str,
) -> Operation {
    Operation {
        method,
        pattern,
        summary,
        details: "",
        query: &[],
        body: &[],
        list: false,
        answers: &[],
        problems: &[],
    }
}

impl Operation {
    const fn details(mut self, details: &'static str) -> Self {
        self.details = details;
        self
    }

    const fn query(mut self, query: &'static [Field]) -> Self {
        self.query = query;
        self
    }

    const fn body(mut self, body: &'static [Field]) -> Self {
        self.body = body;
        self
    }

    const fn list(mut self) -> Self {
        self.list = true;
        self
    }

    const fn answers(mut self, answers: &'static [Sample]) -> Self {
        self.answers = answers;
        self
    }

    const fn problems(mut self, problems: &'static [&'static str]) -> Self {
        self.problems = problems;
        self
    }

    /// The route of the table that this describes.
    pub fn spec(&self) -> Option<&'static Spec> {
        ROUTES
            .iter()
            .find(|spec| spec.method == self.method && spec.pattern == self.pattern)
    }

    /// Who may use it.
    pub fn access(&self) -> Access {
        self.spec().map_or(Access::Operator, |spec| spec.access)
    }

    /// Every problem that it may answer: its own, and those of its kind of route.
    pub fn all_problems(&self) -> Vec<&'static ProblemKind> {
        let mut codes: Vec<&str> = self.problems.to_vec();
        match self.access() {
            Access::Open => {}
            Access::Page => codes.extend(["unauthorized", "not_allowed", "origin"]),
            Access::Filter | Access::Account | Access::AccountOrAll => {
                codes.extend(["unauthorized", "not_found"]);
            }
            Access::Operator | Access::Servers | Access::AccountOperator => {
                codes.extend(["unauthorized", "not_allowed"]);
            }
        }
        if self.access() != Access::Open {
            codes.extend(["unavailable", "not_configured"]);
        }
        if self.pattern.contains('{') {
            codes.push("not_found");
        }
        if !self.body.is_empty() {
            codes.extend(["invalid_json", "too_large", "invalid_field"]);
        }
        let named = matches!(self.access(), Access::Account | Access::AccountOperator);
        if self.list || !self.query.is_empty() || named {
            codes.push("invalid_field");
        }
        PROBLEMS
            .iter()
            .filter(|problem| codes.contains(&problem.code))
            .collect()
    }
}

/// One part of the API.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// Its name.
    pub name: &'static str,
    /// What it promises.
    pub about: &'static str,
    /// Its routes.
    pub operations: &'static [Operation],
}

/// The whole API, in reading order.
pub static AREAS: &[Area] = &[
    accounts::AREA,
    gate::AREA,
    links::AREA,
    ledger::AREA,
    inbox::AREA,
    operations::AREA,
    standin::AREA,
    pages::AREA,
];
