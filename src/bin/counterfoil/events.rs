//! `counterfoil events list|show|replay`: the inbox from a terminal.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::Outcome;
use crate::client::{Client, Failed, escaped};

/// The inbox from a terminal.
#[derive(Debug, Subcommand)]
pub enum Events {
    /// List events, newest first.
    List(List),
    /// Show one event with its deliveries, runs and payload.
    Show(Show),
    /// Put an event that is at an end back in the queue, or many of them.
    Replay(Replay),
}

/// Which events.
#[derive(Debug, Args)]
pub struct List {
    /// Only of this account.
    #[arg(long)]
    account: Option<String>,
    /// Only in this state: received, processing, waiting, failed, applied, ignored, skipped, dead.
    #[arg(long)]
    status: Option<String>,
    /// Only of this type.
    #[arg(long)]
    r#type: Option<String>,
    /// At most so many.
    #[arg(long, default_value_t = 50)]
    limit: u32,
}

/// Which event.
#[derive(Debug, Args)]
pub struct Show {
    /// Its id, `evt_…`.
    id: String,
}

/// Which event, or which many.
#[derive(Debug, Args)]
pub struct Replay {
    /// Its id, `evt_…`.
    #[arg(required_unless_present = "status", conflicts_with = "status")]
    id: Option<String>,
    /// All in this state instead: applied, ignored, skipped, dead, failed, waiting.
    #[arg(long)]
    status: Option<String>,
    /// Of these only this type.
    #[arg(long, requires = "status")]
    r#type: Option<String>,
}

impl Events {
    /// Runs the command that was given.
    pub async fn run(&self, client: &Client) -> Result<Outcome, Failed> {
        match self {
            Self::List(command) => command.run(client).await,
            Self::Show(command) => command.run(client).await,
            Self::Replay(command) => command.run(client).await,
        }
    }
}

fn text<'a>(event: &'a Value, name: &str) -> &'a str {
    event.get(name).and_then(Value::as_str).unwrap_or("-")
}

impl List {
    async fn run(&self, client: &Client) -> Result<Outcome, Failed> {
        let mut path = format!("/v1/events?limit={}", self.limit);
        let given = [
            ("account", &self.account),
            ("status", &self.status),
            ("type", &self.r#type),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                path = format!("{path}&{name}={}", escaped(value));
            }
        }
        let answer = client.get(&path).await?;
        let items = answer.get("items").and_then(Value::as_array);
        for event in items.into_iter().flatten() {
            let seen = event.get("seen").and_then(Value::as_i64).unwrap_or(0);
            println!(
                "{}  {}  {:<10} {:<32} {:<16} x{seen}  {}",
                text(event, "received_at"),
                text(event, "id"),
                text(event, "status"),
                text(event, "type"),
                text(event, "account"),
                text(event, "result"),
            );
        }
        Ok(Outcome::Right)
    }
}

impl Show {
    async fn run(&self, client: &Client) -> Result<Outcome, Failed> {
        let event = client
            .get(&format!("/v1/events/{}", escaped(&self.id)))
            .await?;
        let shown = serde_json::to_string_pretty(&event)
            .map_err(|e| Failed(format!("the answer cannot be shown: {e}")))?;
        println!("{shown}");
        Ok(Outcome::Right)
    }
}

impl Replay {
    async fn run(&self, client: &Client) -> Result<Outcome, Failed> {
        if let Some(id) = &self.id {
            let path = format!("/v1/events/{}/replay", escaped(id));
            client.post(&path, &json!({})).await?;
            println!("{id} is queued");
            return Ok(Outcome::Right);
        }
        let mut body = json!({"status": self.status});
        if let (Some(kind), Some(members)) = (&self.r#type, body.as_object_mut()) {
            members.insert("type".to_owned(), json!(kind));
        }
        let answer = client.post("/v1/events/replay", &body).await?;
        let queued = answer.get("queued").and_then(Value::as_i64).unwrap_or(0);
        println!("{queued} queued");
        Ok(Outcome::Right)
    }
}
