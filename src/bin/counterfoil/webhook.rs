//! `counterfoil webhook send`: has the stand-in sign an event and deliver it.

use clap::Args;
use serde_json::{Value, json};

use crate::Outcome;
use crate::client::{Client, Failed};
use crate::table;

/// Have the stand-in sign an event and deliver it, as often as asked.
#[derive(Debug, Args)]
pub struct Send {
    /// Its type, such as `customer.plan_changed`.
    r#type: String,
    /// The customer that it is about.
    customer: String,
    /// The plan that it names.
    #[arg(long)]
    plan: Option<String>,
    /// The agreement that it names.
    #[arg(long)]
    agreement: Option<String>,
    /// Further members of `data`, as a JSON object.
    #[arg(long)]
    data: Option<String>,
    /// The signed id; a new one where it is left out.
    #[arg(long)]
    event_id: Option<String>,
    /// When it happened; now where it is left out.
    #[arg(long)]
    at: Option<String>,
    /// How often it is delivered; 0 prints the signed token instead.
    #[arg(long, default_value_t = 1)]
    deliver: u32,
}

impl Send {
    /// Sends it; the outcome is right where every delivery was answered 200.
    pub async fn run(&self, client: &Client) -> Result<Outcome, Failed> {
        let answer = client.post("/standin/events", &self.body()?).await?;
        let text = |name: &str| {
            let found = answer.get(name).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        if self.deliver == 0 {
            println!("{}", text("jwt"));
            return Ok(Outcome::Right);
        }
        let answers = answer.get("answers").and_then(Value::as_array);
        let answers = answers.cloned().unwrap_or_default();
        let statuses: Vec<String> = answers.iter().map(ToString::to_string).collect();
        table::print(&[
            ("event", text("event_id")),
            ("webhook-id", text("webhook_id")),
            ("answered", statuses.join(" ")),
        ]);
        let right = answers.iter().all(|status| status.as_u64() == Some(200));
        Ok(if right {
            Outcome::Right
        } else {
            Outcome::Differs
        })
    }

    fn body(&self) -> Result<Value, Failed> {
        let mut data = match &self.data {
            None => json!({}),
            Some(text) => serde_json::from_str(text)
                .map_err(|e| Failed(format!("--data is not JSON: {e}")))?,
        };
        let Some(members) = data.as_object_mut() else {
            return Err(Failed("--data is not a JSON object".to_owned()));
        };
        if let Some(plan) = &self.plan {
            members.insert("plan".to_owned(), json!({"key": plan}));
        }
        if let Some(agreement) = &self.agreement {
            members.insert("agreement_id".to_owned(), json!(agreement));
        }
        let mut body = json!({"type": self.r#type, "customer_id": self.customer, "data": data,
            "deliver": self.deliver});
        if let Some(members) = body.as_object_mut() {
            let given = [("event_id", &self.event_id), ("event_timestamp", &self.at)];
            for (name, value) in given {
                if let Some(value) = value {
                    members.insert(name.to_owned(), json!(value));
                }
            }
        }
        Ok(body)
    }
}
