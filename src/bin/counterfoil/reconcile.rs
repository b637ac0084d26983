//! `counterfoil reconcile`: the reconciler, run to its end.

use clap::Args;
use serde_json::{Value, json};

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
const COUNTS: [&str; 8] = [
    "checked",
    "matched",
    "drifted",
    "repaired",
    "unreadable",
    "incomplete",
    "failed",
    "left",
];

/// What a line says of a pair that differs: the column, and the member of the answer.
const COLUMNS: [(&str, &str); 7] = [
    ("account", "account"),
    ("feature", "feature"),
    ("cycle", "cycle"),
    ("ledger", "ledger"),
    ("meter", "provider"),
    ("verdict", "verdict"),
    ("cause", "cause"),
];

impl Reconcile {
    /// Runs the reconciler until it is done and prints its counts, and of a dry run a line for
    /// each pair that differs. What was found and not repaired makes the outcome differ.
    pub async fn run(&self, client: &Client) -> Result<Outcome, Failed> {
        let mut body = json!({"dry_run": self.dry_run});
        if let (Some(account), Some(fields)) = (&self.account, body.as_object_mut()) {
            fields.insert("account".to_owned(), json!(account));
        }
        let summaries = client.run_job("reconciler", &body).await?;
        let count = |name| sum(&summaries, name);
        let differ = count("checked") - count("matched") - count("repaired");
        if self.dry_run {
            print_differing(&summaries, differ);
        }
        let rows = COUNTS.map(|name| (name, count(name).to_string()));
        table::print(&rows);
        Ok(if differ == 0 {
            Outcome::Right
        } else {
            Outcome::Differs
        })
    }
}

/// A line for each pair that the dry run names, and how many more there are.
fn print_differing(summaries: &[Value], all: i64) {
    let named = summaries.iter().filter_map(|one| one.get("differs"));
    let named: Vec<&Value> = named.filter_map(Value::as_array).flatten().collect();
    if named.is_empty() {
        return;
    }
    let mut lines = vec![COLUMNS.map(|(column, _)| column.to_owned())];
    let cell = |pair: &Value, member| match pair.get(member) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    lines.extend(
        named
            .iter()
            .map(|pair| COLUMNS.map(|(_, member)| cell(pair, member))),
    );
    table::print_columns(&lines);
    let more = all - i64::try_from(named.len()).unwrap_or(all);
    if more > 0 {
        println!("and {more} more");
    }
    println!();
}
