//! A loop around a model's stream: hold, charge every few hundred tokens, stop when the budget is
//! spent, true up, settle.
//!
//! ```text
//! cargo run --example stream -- ACCOUNT_API_KEY [http://localhost:8787]
//! ```
//!
//! The model here only counts; put your own stream in its place.

use std::error::Error;

use serde_json::{Value, json};

/// A first hold that is small enough for many to run, and what it is extended by.
const HOLD: i64 = 1_000;
/// Tokens between two charges. What a crash can lose is at most this much.
const CHARGE_EVERY: i64 = 250;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let key = arguments.next().ok_or("name the account's API key")?;
    let url = arguments.next();
    let gate = Gate {
        http: reqwest::Client::new(),
        url: url.unwrap_or_else(|| "http://localhost:8787".to_owned()),
        key,
    };
    let request = format!("chat-{}", std::process::id());
    let job = gate.hold(&request).await?;
    let outcome = answer(&gate, &job).await;
    // Whatever happened, the job is settled at what it used: what was charged stays charged.
    let (used, done) = match &outcome {
        Ok(used) => (Some(*used), "done"),
        Err(_) => (None, "failed"),
    };
    let end = gate.settle(&job, used, done).await?;
    println!("settled: {end}");
    outcome.map(|_| ())
}

/// Streams one answer; gives the tokens that it took.
async fn answer(gate: &Gate, job: &str) -> Result<i64, Box<dyn Error>> {
    let mut model = Model { left: 3_210 };
    let (mut used, mut charged, mut step) = (0, 0, 0);
    while let Some(tokens) = model.next_piece() {
        used += tokens;
        if used - charged < CHARGE_EVERY {
            continue;
        }
        step += 1;
        let units = used - charged;
        charged += units;
        // The step's name makes a repeated charge the same charge.
        if gate.charge(job, units, step).await? && !gate.extend(job, step).await? {
            println!("the budget is spent: stopping after {used} tokens");
            break;
        }
    }
    Ok(used)
}

/// A stand-in for a model: pieces of 40 tokens.
struct Model {
    left: i64,
}

impl Model {
    fn next_piece(&mut self) -> Option<i64> {
        let piece = self.left.min(40);
        self.left -= piece;
        (piece > 0).then_some(piece)
    }
}

/// The four calls.
struct Gate {
    http: reqwest::Client,
    url: String,
    key: String,
}

impl Gate {
    /// Sends a call until it is answered: every call is safe to repeat.
    async fn post(&self, path: &str, body: &Value) -> Result<(u16, Value), Box<dyn Error>> {
        let mut tries = 0;
        loop {
            let url = format!("{}{path}", self.url);
            let sent = self.http.post(url).bearer_auth(&self.key).json(body).send();
            tries += 1;
            match sent.await {
                Ok(response) if response.status() != 503 || tries == 5 => {
                    let status = response.status().as_u16();
                    return Ok((status, response.json().await?));
                }
                Err(error) if tries == 5 => return Err(error.into()),
                Ok(_) | Err(_) => tokio::time::sleep(std::time::Duration::from_secs(1)).await,
            }
        }
    }

    async fn hold(&self, key: &str) -> Result<String, Box<dyn Error>> {
        let body = json!({"key": key, "feature": "tokens", "hold": HOLD});
        let (status, job) = self.post("/v1/jobs", &body).await?;
        match job.get("id").and_then(Value::as_str) {
            Some(id) => Ok(id.to_owned()),
            None => Err(format!("not admitted: {status} {job}").into()),
        }
    }

    /// Charges; gives whether the hold did not suffice.
    async fn charge(&self, job: &str, units: i64, step: i64) -> Result<bool, Box<dyn Error>> {
        let body = json!({"units": units, "step": format!("charge-{step}")});
        let (status, answer) = self.post(&format!("/v1/jobs/{job}/charges"), &body).await?;
        if status != 200 {
            return Err(format!("not charged: {status} {answer}").into());
        }
        // Ask for more before the hold is used up, not only when a charge was cut.
        let number = |name: &str| answer.get(name).and_then(Value::as_i64).unwrap_or(0);
        Ok(number("held") - number("used") < CHARGE_EVERY)
    }

    /// Asks for more hold; gives whether there is more.
    async fn extend(&self, job: &str, step: i64) -> Result<bool, Box<dyn Error>> {
        let body = json!({"units": HOLD, "step": format!("more-{step}")});
        let (status, answer) = self.post(&format!("/v1/jobs/{job}/extend"), &body).await?;
        match status {
            200 => Ok(true),
            402 => Ok(false),
            _ => Err(format!("not extended: {status} {answer}").into()),
        }
    }

    /// The provider's own count, known at the end, trues the charges up.
    async fn settle(
        &self,
        job: &str,
        used: Option<i64>,
        outcome: &str,
    ) -> Result<Value, Box<dyn Error>> {
        let mut body = json!({"outcome": outcome});
        if let (Some(used), Some(members)) = (used, body.as_object_mut()) {
            members.insert("used".to_owned(), json!(used));
        }
        let (status, end) = self.post(&format!("/v1/jobs/{job}/settle"), &body).await?;
        match status {
            200 => Ok(end),
            _ => Err(format!("settle: {status} {end}").into()),
        }
    }
}
