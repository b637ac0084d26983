//! The stand-in over HTTP: strict as Kinde's documentation, and controls as api.md has them.

mod controls;
mod signals;
mod strict;

use serde_json::Value;

use crate::http::request::{Body, Method, Request};
use crate::moment;
use crate::native::machine::Machine;

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
const USAGE: &str = "/standin/api/v1/billing/meter_usage";
const ENTITLEMENTS: &str = "/standin/api/v1/billing/entitlements";
const AGREEMENTS: &str = "/standin/api/v1/billing/agreements";
const DAY: i64 = moment::DAY_MS;

struct Client {
    machine: Machine,
}

impl Client {
    fn new() -> Self {
        let machine = Machine::new(&[]).expect("it starts");
        Self { machine }
    }

    fn raw(
        &self,
        method: &str,
        target: &str,
        authorization: &str,
        content_type: &str,
        body: &str,
    ) -> (u16, Value) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut headers = Vec::new();
        for (name, value) in [
            ("authorization", authorization),
            ("content-type", content_type),
        ] {
            if !value.is_empty() {
                headers.push((name.to_owned(), value.to_owned()));
            }
        }
        let response = self.machine.handle(Request {
            method: Method::parse(method),
            path: path.to_owned(),
            query: query.to_owned(),
            origin: "http://localhost:8787".to_owned(),
            headers,
            body: Body::Whole(body.as_bytes().to_vec()),
            peer: None,
            country: None,
        });
        let json = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
        (response.status, json)
    }

    fn control(&self, method: &str, target: &str, body: &Value) -> (u16, Value) {
        self.machine.call(method, target, "dev-operator", body)
    }

    fn put(&self, target: &str, body: &Value) -> Value {
        let (status, answer) = self.control("PUT", target, body);
        assert_eq!(status, 200, "{target} {body}: {answer}");
        answer
    }

    fn customer(&self, body: &Value) -> Value {
        self.put("/standin/customers/customer_1", body)
    }

    fn token(&self, scope: Option<&str>) -> String {
        let scope = scope.map_or(String::new(), |scope| format!("&scope={scope}"));
        let form = format!(
            "grant_type=client_credentials&client_id=standin&client_secret=standin-secret\
             &audience=http%3A%2F%2Flocalhost%3A8787%2Fstandin%2Fapi{scope}"
        );
        let (status, answer) = self.raw("POST", "/standin/oauth2/token", "", FORM, &form);
        assert_eq!(status, 200, "{answer}");
        format!("Bearer {}", answer["access_token"].as_str().expect("text"))
    }

    fn write(&self, token: &str, body: &Value) -> (u16, Value) {
        self.raw("POST", USAGE, token, JSON, &body.to_string())
    }

    fn total(&self, agreement: &str) -> i64 {
        let target = format!("/standin/meters/{agreement}/tokens");
        let (status, answer) = self.control("GET", &target, &Value::Null);
        assert_eq!(status, 200, "{answer}");
        answer["total"].as_i64().expect("a number")
    }
}

fn code(answer: &Value) -> &str {
    let errors = &answer["errors"];
    let code = errors[0]["code"].as_str().or(errors["code"].as_str());
    code.or(answer["error"].as_str()).unwrap_or("none")
}

fn text<'a>(answer: &'a Value, name: &str) -> &'a str {
    answer[name].as_str().unwrap_or_default()
}
