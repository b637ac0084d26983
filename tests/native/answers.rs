//! A client that believes the description: whatever it is answered must be described there, by
//! route, status and content type, and be what the schema says.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use counterfoil::http::openapi::{AREAS, Content, document};
use counterfoil::http::reply::Response;
use counterfoil::http::request::{Body, Method, Request};
use counterfoil::http::route::{Found, Spec, find};
use counterfoil::native::machine::{Machine, request};
use serde_json::{Value, json};

use crate::json_schema::wrong;
use crate::quick::QuickSignatures;

pub const OPERATOR: &str = "dev-operator";
pub const BACKEND: &str = "dev-backend";
pub const NONE: Value = Value::Null;
const ORIGIN: &str = "http://localhost:8787";

/// What was answered so far, by all clients together: method, pattern, status, content type.
#[derive(Default)]
pub struct Seen(RefCell<BTreeSet<String>>, RefCell<BTreeSet<String>>);

impl Seen {
    /// The answers that were not as they are described.
    pub fn wrong(&self) -> BTreeSet<String> {
        self.1.borrow().clone()
    }

    /// The answers of the description that nobody was given, but for problems.
    pub fn missing(&self) -> Vec<String> {
        let seen = self.0.borrow();
        let operations = AREAS.iter().flat_map(|area| area.operations);
        let described = operations.flat_map(|operation| {
            let (method, pattern) = (operation.method.name(), operation.pattern);
            operation.answers.iter().flat_map(move |answer| {
                let place = format!("{method} {pattern} {}", answer.status);
                match answer.body {
                    Content::Empty => vec![place],
                    Content::Other(content_type) => vec![format!("{place} {content_type}")],
                    Content::Json(things) | Content::List(things) => things
                        .iter()
                        .map(|thing| format!("{place} {}", thing.name))
                        .collect(),
                }
            })
        });
        described.filter(|one| !seen.contains(one)).collect()
    }
}

/// A machine, and what its client was answered.
pub struct Talk<'a> {
    pub machine: Machine,
    document: Value,
    seen: &'a Seen,
}

impl<'a> Talk<'a> {
    pub fn new(settings: &[(&str, &str)], seen: &'a Seen) -> Self {
        let machine = Machine::geared(settings, Rc::new(QuickSignatures)).expect("it starts");
        Self {
            machine,
            document: document(ORIGIN),
            seen,
        }
    }

    /// Asks, and wants this status; gives the answer's JSON.
    pub fn is(&self, status: u16, token: &str, call: &str, body: &Value) -> Value {
        let (method, target) = call.split_once(' ').expect("a method and a target");
        let response = self.send(request(method, target, token, body));
        let text = String::from_utf8_lossy(&response.body).into_owned();
        assert_eq!(response.status, status, "{call}: {text}");
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    /// The same, for a problem with this code.
    pub fn refused(&self, status: u16, code: &str, token: &str, call: &str, body: &Value) -> Value {
        let problem = self.is(status, token, call, body);
        assert_eq!(problem["code"], code, "{call}: {problem}");
        problem
    }

    /// Sends any request, and looks whether its answer is one that the description has.
    pub fn send(&self, asked: Request) -> Response {
        let (method, path) = (asked.method, asked.path.clone());
        let Found::Route(spec, _) = find(method, &path) else {
            panic!("{} {path} is no route", method.name());
        };
        let body = match &asked.body {
            Body::Whole(bytes) => serde_json::from_slice(bytes).ok(),
            Body::TooLarge => None,
        };
        let response = self.machine.handle(asked);
        self.judge(method, spec, &response);
        if response.status < 300 {
            self.judge_body(spec, body.as_ref());
        }
        response
    }

    fn operation(&self, method: Method, spec: &Spec) -> &Value {
        let method = method.name().to_ascii_lowercase();
        &self.document["paths"][spec.pattern][method]
    }

    fn judge(&self, method: Method, spec: &Spec, response: &Response) {
        let status = response.status;
        let place = format!("{} {} {status}", method.name(), spec.pattern);
        let text = String::from_utf8_lossy(&response.body);
        let described = &self.operation(method, spec)["responses"][status.to_string()];
        if !described.is_object() {
            return self.blame(format!("{place} is not described: {text}"));
        }
        if method == Method::Head {
            assert!(response.body.is_empty(), "{place} has a body");
            assert!(described.get("content").is_none(), "{place} has a body");
            self.seen.0.borrow_mut().insert(place);
            return;
        }
        let Some(content_type) = response.header("content-type") else {
            assert!(response.body.is_empty(), "{place} has a body of no type");
            self.seen.0.borrow_mut().insert(place);
            return;
        };
        let Some(content) = described["content"].get(content_type) else {
            return self.blame(format!("{place}: {content_type}: {text}"));
        };
        if let Some(schema) = content.get("schema") {
            let value: Value = serde_json::from_slice(&response.body)
                .unwrap_or_else(|why| panic!("{place}: {why}: {text}"));
            if let Some(why) = wrong(&self.document, schema, &value) {
                self.blame(format!("{place}: {why}"));
            }
            self.note(&place, schema, &value);
        } else {
            let place = format!("{place} {content_type}");
            self.seen.0.borrow_mut().insert(place);
        }
        Self::judge_headers(&place, response);
    }

    fn blame(&self, why: String) {
        self.seen.1.borrow_mut().insert(why);
    }

    /// Notes which of the things that an answer may be it was.
    fn note(&self, place: &str, schema: &Value, value: &Value) {
        let items = schema["properties"]["items"].get("items");
        let (schema, values) = match items {
            Some(of_item) => (
                of_item,
                value["items"].as_array().cloned().unwrap_or_default(),
            ),
            None => (schema, vec![value.clone()]),
        };
        let one = [schema.clone()];
        let choices = schema["oneOf"].as_array().map_or(&one[..], Vec::as_slice);
        for choice in choices {
            let Some((_, name)) = choice["$ref"]
                .as_str()
                .and_then(|path| path.rsplit_once('/'))
            else {
                continue;
            };
            let is_it = |value: &Value| wrong(&self.document, choice, value).is_none();
            if values.iter().any(is_it) {
                self.seen.0.borrow_mut().insert(format!("{place} {name}"));
            }
        }
    }

    /// 503 can be repeated and says when, but for a prefetch; 401 says how.
    fn judge_headers(place: &str, response: &Response) {
        if response.header("content-type") != Some("application/problem+json") {
            return;
        }
        let seconds = response.header("retry-after").map(str::parse::<u32>);
        match response.status {
            401 => assert_eq!(
                response.header("www-authenticate"),
                Some("Bearer"),
                "{place}"
            ),
            429 | 503 if !place.starts_with("GET /{code}") => {
                assert!(matches!(seconds, Some(Ok(1..))), "{place}");
            }
            _ => {}
        }
    }

    /// What is taken must be what the description says that is taken.
    fn judge_body(&self, spec: &Spec, body: Option<&Value>) {
        let asked = &self.operation(spec.method, spec)["requestBody"];
        let schema = &asked["content"]["application/json"]["schema"];
        if let (Some(body), true) = (body, schema.is_object())
            && let Some(why) = wrong(&self.document, schema, body)
        {
            let (method, pattern) = (spec.method.name(), spec.pattern);
            self.blame(format!("{method} {pattern} takes {body}: {why}"));
        }
    }
}

/// A request with one more header.
pub fn with_header(mut asked: Request, name: &str, value: &str) -> Request {
    asked.headers.push((name.to_owned(), value.to_owned()));
    asked
}

/// A form of a page of ours.
pub fn form(target: &str, token: &str, text: &str) -> Request {
    let mut asked = request("POST", target, token, &NONE);
    asked.body = Body::Whole(text.as_bytes().to_vec());
    let kind = "application/x-www-form-urlencoded";
    let asked = with_header(asked, "origin", ORIGIN);
    with_header(asked, "content-type", kind)
}

/// An account with a customer of that plan; gives its API key.
pub fn account(talk: &Talk, id: &str, plan: &str) -> String {
    let customer = format!("customer_{id}");
    let target = format!("PUT /standin/customers/{customer}");
    talk.is(200, OPERATOR, &target, &json!({"plan": plan}));
    let body = json!({"id": id, "customer_id": customer});
    let made = talk.is(201, BACKEND, "POST /v1/accounts", &body);
    made["api_key"].as_str().expect("a key").to_owned()
}

/// The first item of a list.
pub fn first(list: &Value) -> &Value {
    list["items"]
        .get(0)
        .unwrap_or_else(|| panic!("no item in {list}"))
}

/// Text of an answer.
pub fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name]
        .as_str()
        .unwrap_or_else(|| panic!("no {name} in {value}"))
}
