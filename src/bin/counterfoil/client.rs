//! JSON over HTTP to a running Counterfoil.

use std::fmt;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// Why a command could not do its work; one sentence for people.
#[derive(Debug)]
pub struct Failed(pub String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text, escaped for use in a path or query.
pub fn escaped(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// What a route answered.
#[derive(Debug)]
pub struct Answered {
    /// The HTTP status.
    pub status: u16,
    /// Null where it is not JSON.
    pub body: Value,
}

/// What became of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// The status of its answer.
    Answered(u16),
    /// It was sent and no answer came: it may have been counted or not.
    Broken,
    /// No connection could be made: nobody has seen it.
    NotSent,
}

/// A connection to one Counterfoil with one token.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: String,
}

impl Client {
    /// Connects at the first request.
    pub fn new(url: &str, token: &str) -> Result<Self, Failed> {
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_mins(1));
        // Once a process; a second client finds the same one there, which is no failure.
        let _ = rustls::crypto::ring::default_provider().install_default();
        if !url.starts_with("https:") {
            // No certificate is looked for, so that a machine without any will do.
            builder = builder.tls_certs_only([]);
        }
        let http = builder
            .build()
            .map_err(|e| Failed(format!("no HTTP client: {e}")))?;
        Ok(Self {
            http,
            base: url.trim_end_matches('/').to_owned(),
            token: token.to_owned(),
        })
    }

    /// The same Counterfoil with another token.
    pub fn with_token(&self, token: &str) -> Self {
        Self {
            token: token.to_owned(),
            ..self.clone()
        }
    }

    /// Sends a request and gives whatever was answered.
    pub async fn ask(
        &self,
        method: reqwest::Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answered, Failed> {
        let url = format!("{}{path}", self.base);
        let mut request = self.http.request(method, &url).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = (request.send().await)
            .map_err(|e| Failed(format!("{} does not answer: {e}", self.base)))?;
        let status = response.status().as_u16();
        let text = (response.text().await)
            .map_err(|e| Failed(format!("the answer of {path} broke off: {e}")))?;
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Answered { status, body })
    }

    /// `GET`; anything but a 2xx is a failure.
    pub async fn get(&self, path: &str) -> Result<Value, Failed> {
        let answered = self.ask(reqwest::Method::GET, path, None).await?;
        accepted("GET", path, answered)
    }

    /// `POST`; anything but a 2xx is a failure.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, Failed> {
        let answered = self.ask(reqwest::Method::POST, path, Some(body)).await?;
        accepted("POST", path, answered)
    }

    /// A visit of a short link by that browser, from a page of that host.
    pub async fn visit(&self, path: &str, (user_agent, host): (&str, &str)) -> Visit {
        let request = (self.http.get(format!("{}{path}", self.base)))
            .header(reqwest::header::USER_AGENT, user_agent)
            .header(reqwest::header::REFERER, format!("https://{host}/"));
        match request.send().await {
            Ok(response) => Visit::Answered(response.status().as_u16()),
            Err(error) if error.is_connect() => Visit::NotSent,
            Err(_) => Visit::Broken,
        }
    }

    /// One job of the crons, again and again until it says that nothing is left; its summaries.
    pub async fn run_job(&self, job: &str, body: &Value) -> Result<Vec<Value>, Failed> {
        let mut summaries = Vec::new();
        for _ in 0..RUNS_MAX {
            let summary = self.post(&format!("/v1/run/{job}"), body).await?;
            let done = summary.get("done").and_then(Value::as_bool) != Some(false);
            summaries.push(summary);
            if done {
                return Ok(summaries);
            }
        }
        Err(Failed(format!("{job} is not done after {RUNS_MAX} runs")))
    }
}

/// A job that still has work after so many runs makes no progress.
const RUNS_MAX: usize = 10_000;

fn accepted(method: &str, path: &str, answered: Answered) -> Result<Value, Failed> {
    if (200..300).contains(&answered.status) {
        return Ok(answered.body);
    }
    let detail = answered.body.get("detail").and_then(Value::as_str);
    let detail = detail.unwrap_or("no detail was given");
    let status = answered.status;
    Err(Failed(format!("{method} {path}: {status}, {detail}")))
}

/// The sum of a whole-number field over several summaries.
pub fn sum(summaries: &[Value], field: &str) -> i64 {
    let number = |summary: &Value| summary.get(field).and_then(Value::as_i64);
    summaries.iter().filter_map(number).sum()
}
