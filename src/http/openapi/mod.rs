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
use crate::units::SAFE_MAX;

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
    /// What its `HEAD` is for, where it is more than any `GET` without its body; may be empty.
    pub head: &'static str,
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

/// An answer: its status, when it comes, and what it holds.
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
    /// JSON: one of these.
    Json(&'static [&'static Thing]),
    /// A list, each of its items one of these: `{items: […], next}`.
    List(&'static [&'static Thing]),
    /// Something else, of that content type.
    Other(&'static str),
}

/// What an answer holds, by name: a schema of the document.
#[derive(Clone, Copy, Debug)]
pub struct Thing {
    /// Its name in the document.
    pub name: &'static str,
    /// All its fields, in groups that other things share. It has no others.
    pub fields: &'static [&'static [Field]],
    /// One as it may be answered, in JSON.
    pub example: &'static str,
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
    /// RFC 3339.
    Moment,
    /// An address.
    Url,
    /// True or false.
    Bool,
    /// One of these words.
    Word(&'static [&'static str]),
    /// This, or null.
    OrNull(&'static Kind),
    /// One of these two.
    Either(&'static [Kind; 2]),
    /// A list of these.
    List(&'static Kind),
    /// The same of 1 to so many.
    UpTo(usize, &'static Kind),
    /// An object with a value of this kind for each name, and the names are not ours.
    Map(&'static Kind),
    /// An object with these fields and no others.
    Fields(&'static [Field]),
    /// An object of anything.
    Object,
    /// Anything.
    Any,
}

impl Kind {
    /// A whole number from 0.
    const COUNT: Self = Self::Int(0, SAFE_MAX);
    /// A whole number from 1.
    const UNITS: Self = Self::Int(1, SAFE_MAX);
    /// A whole number of either sign.
    const CHANGE: Self = Self::Int(-SAFE_MAX, SAFE_MAX);
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

/// A field that an answer always has and that says by its name what it is.
pub(super) const fn has(name: &'static str, kind: Kind) -> Field {
    must(name, kind, "")
}

/// A JSON answer, which is one of these.
pub(super) const fn json(
    status: u16,
    about: &'static str,
    things: &'static [&'static Thing],
) -> Sample {
    let body = Content::Json(things);
    Sample {
        status,
        about,
        body,
    }
}

/// A list of such items.
pub(super) const fn items(about: &'static str, things: &'static [&'static Thing]) -> Sample {
    let (status, body) = (200, Content::List(things));
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
        head: "",
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

    const fn head(mut self, head: &'static str) -> Self {
        self.head = head;
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

    /// Whether a browser that asks for a page is told of a problem by one.
    pub fn answers_browsers(&self) -> bool {
        ["/app", "/signin", "/{code}"]
            .iter()
            .any(|start| self.pattern.starts_with(start))
    }

    /// Every problem that it may answer: its own, and those of its kind of route.
    pub fn all_problems(&self) -> Vec<&'static ProblemKind> {
        let mut codes: Vec<&str> = self.problems.to_vec();
        let access = self.access();
        match access {
            Access::Open => {}
            Access::Filter | Access::Account | Access::AccountOrAll => codes.push("not_found"),
            Access::Page | Access::Operator | Access::Servers | Access::AccountOperator => {
                codes.push("not_allowed");
            }
        }
        if access != Access::Open {
            codes.extend([
                "unauthorized",
                "unavailable",
                "newer_schema",
                "not_configured",
            ]);
        }
        let has_body = matches!(self.method, Method::Post | Method::Put | Method::Patch);
        if access != Access::Open && (has_body || self.method == Method::Delete) {
            codes.push("origin");
        }
        let names_account = self.query.iter().any(|field| field.name == "account");
        if self.pattern.contains('{') || names_account || access == Access::AccountOperator {
            codes.push("not_found");
        }
        if !self.body.is_empty() || has_body && access != Access::Open {
            // Where there are no fields, one that is sent all the same is refused.
            codes.extend(["invalid_json", "too_large", "invalid_field"]);
        }
        let named = matches!(access, Access::Account | Access::AccountOperator);
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
