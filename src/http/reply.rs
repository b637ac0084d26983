//! Answers: JSON, problems, and what a handler may fail with.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::fault::Fault;

/// An answer. Header names are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Empty for 204 and 304.
    pub body: Vec<u8>,
}

impl Response {
    /// An answer without a body.
    pub fn empty(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// An answer with a body.
    pub fn of(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::empty(status)
            .with("content-type", content_type)
            .with_body(body.into())
    }

    /// A JSON answer.
    pub fn json(status: u16, value: &Value) -> Self {
        Self::of(status, "application/json", value.to_string())
    }

    /// An HTML page.
    pub fn html(status: u16, page: impl Into<String>) -> Self {
        Self::of(status, "text/html; charset=utf-8", page.into())
            .with("cache-control", "no-store")
            .with("x-content-type-options", "nosniff")
            .with("referrer-policy", "same-origin")
            .with("x-frame-options", "DENY")
    }

    /// A redirect that is not cached.
    pub fn see_other(location: &str) -> Self {
        Self::empty(303)
            .with("location", location)
            .with("cache-control", "no-store")
    }

    /// The same with one more header.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    fn with_body(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        self
    }

    /// The first header of that (lower-case) name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// An error for the client: `application/problem+json`. `code` is stable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// Stable; for machines.
    pub code: &'static str,
    /// One sentence for people.
    pub detail: String,
    /// Further members: `field`, `reason`, `remaining`, …
    pub members: Map<String, Value>,
    /// Seconds for `Retry-After`.
    pub retry_after: Option<i64>,
}

impl Problem {
    /// An error with nothing but a code and a sentence.
    pub fn new(status: u16, code: &'static str, detail: impl Into<String>) -> Self {
        let (members, retry_after) = (Map::new(), None);
        Self {
            status,
            code,
            detail: detail.into(),
            members,
            retry_after,
        }
    }

    /// 422: one field of the body or query is wrong. The sentence names it too, for those who see
    /// nothing else.
    pub fn field(field: &str, detail: impl fmt::Display) -> Self {
        Self::new(422, "invalid_field", format!("{field}: {detail}")).with("field", field)
    }

    /// 404, also for what belongs to another account.
    pub fn not_found() -> Self {
        Self::new(404, "not_found", "There is nothing here.")
    }

    /// The same with one more member.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// The same with `Retry-After`.
    #[must_use]
    pub fn retry_after(mut self, seconds: i64) -> Self {
        self.retry_after = Some(seconds.max(1));
        self
    }

    /// The answer.
    pub fn response(&self, request_id: &str) -> Response {
        let mut body = Map::new();
        body.insert("type".to_owned(), json!(format!("/docs#{}", self.code)));
        body.insert("title".to_owned(), json!(title(self.status)));
        body.insert("status".to_owned(), json!(self.status));
        body.insert("code".to_owned(), json!(self.code));
        body.insert("detail".to_owned(), json!(self.detail));
        body.insert("request_id".to_owned(), json!(request_id));
        for (name, value) in &self.members {
            body.entry(name.clone()).or_insert_with(|| value.clone());
        }
        let body = Value::Object(body).to_string();
        let mut response = Response::of(self.status, "application/problem+json", body);
        if let Some(seconds) = self.retry_after {
            response = response.with("retry-after", seconds.to_string());
        }
        if self.status == 401 {
            response = response.with("www-authenticate", "Bearer");
        }
        response.with("cache-control", "no-store")
    }
}

fn title(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        410 => "Gone",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        503 => "Service Unavailable",
        _ => "Error",
    }
}

/// What a handler gives instead of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The client is told; nothing changed.
    Refused(Problem),
    /// The world failed; logged once, answered 503.
    Fault(Fault),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

/// What every handler gives.
pub type Answer = Result<Response, Failure>;

/// The 503 of a fault: it can be repeated safely.
pub fn fault_problem(fault: &Fault) -> Problem {
    let detail = match fault.kind {
        crate::fault::FaultKind::NotConfigured => fault.cause.clone(),
        crate::fault::FaultKind::NewerSchema => {
            "The stored data was written by a newer release.".to_owned()
        }
        crate::fault::FaultKind::Unavailable
        | crate::fault::FaultKind::Unanswered
        | crate::fault::FaultKind::CallsUsedUp => {
            "Something behind this service did not answer. It is safe to try again.".to_owned()
        }
    };
    Problem::new(503, fault.code(), detail).retry_after(1)
}
