//! `counterfoil reconcile`: the reconciler, run to its end.

use clap::Args;
use serde_json::json;

use crate::Outcome;
use crate::client::{Client, Failed, sum};
use crate::table;

/// Compare the ledger with the provider's meters now, and repair what differs.
#[derive(Debug, Args)]
pub struct Reconcile {
    /// Only say what differs; write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Only this account.
    #[arg(long)]
    account: Option<String>,
}

/// What the summary counts, in the order of interest (api.md, "Meters").
const COUNTS: [&str; 6] = [
    "checked",
    "matched",
    "drifted",
    "repaired",
    "unreadable",
    "incomplete",
];

impl Reconcile {
    /// Runs the reconciler until it is done and prints its counts. What was found and not repaired
    /// makes the outcome differ.
    pub async fn run(&self, client: &Client) -> Result<Outcome, Failed> {
        let mut body = json!({"dry_run": self.dry_run});
        if let (Some(account), Some(fields)) = (&self.account, body.as_object_mut()) {
            fields.insert("account".to_owned(), json!(account));
        }
        let summaries = client.run_job("reconciler", &body).await?;
        let rows = COUNTS.map(|name| (name, sum(&summaries, name).to_string()));
        table::print(&rows);
        let count = |name| sum(&summaries, name);
        let right = count("checked") == count("matched") + count("repaired");
        Ok(if right {
            Outcome::Right
        } else {
            Outcome::Differs
        })
    }
}
