//! `counterfoil export ledger`: an account's cycle as CSV.

use std::io::Write;

use clap::Args;
use serde_json::Value;

use crate::Outcome;
use crate::client::{Client, Failed, escaped};

/// Every entry of an account's cycle as CSV, oldest first.
#[derive(Debug, Args)]
pub struct ExportLedger {
    /// The account.
    #[arg(long)]
    account: String,
    /// The cycle's name, such as `2026-10`; the current one by default.
    #[arg(long)]
    cycle: Option<String>,
    /// Only this feature.
    #[arg(long)]
    feature: Option<String>,
}

/// The fields of an entry, in the order of the columns (api.md, `GET /v1/entries`).
const COLUMNS: [&str; 16] = [
    "id",
    "feature",
    "cycle",
    "units",
    "kind",
    "code",
    "job_id",
    "key",
    "corrects",
    "reason",
    "rule",
    "actor",
    "country",
    "referrer_host",
    "occurred_at",
    "recorded_at",
];

impl ExportLedger {
    /// Prints all pages to stdout.
    pub async fn run(&self, client: &Client) -> Result<Outcome, Failed> {
        let cycle = match &self.cycle {
            Some(cycle) => cycle.clone(),
            None => self.current_cycle(client).await?,
        };
        let mut target = format!(
            "/v1/entries?account={}&cycle={}&limit=500",
            escaped(&self.account),
            escaped(&cycle)
        );
        if let Some(feature) = &self.feature {
            target = format!("{target}&feature={}", escaped(feature));
        }
        let mut out = std::io::stdout().lock();
        write_line(&mut out, COLUMNS.iter().map(|name| (*name).to_owned()))?;
        let mut after = String::new();
        loop {
            let page = client.get(&format!("{target}{after}")).await?;
            let items = page.get("items").and_then(Value::as_array);
            let items = items.ok_or_else(|| Failed("the answer is no list".to_owned()))?;
            for item in items {
                write_line(&mut out, COLUMNS.iter().map(|name| cell(item.get(*name))))?;
            }
            match page.get("next").and_then(Value::as_str) {
                Some(next) => after = format!("&after={}", escaped(next)),
                None => return Ok(Outcome::Right),
            }
        }
    }
}

impl ExportLedger {
    async fn current_cycle(&self, client: &Client) -> Result<String, Failed> {
        let target = format!("/v1/account?account={}", escaped(&self.account));
        let account = client.get(&target).await?;
        let name = account.get("cycle").and_then(|cycle| cycle.get("name"));
        let name = name.and_then(Value::as_str).map(str::to_owned);
        name.ok_or_else(|| Failed("the account's cycle has no name".to_owned()))
    }
}

fn write_line(out: &mut impl Write, cells: impl Iterator<Item = String>) -> Result<(), Failed> {
    let line = cells.collect::<Vec<_>>().join(",");
    // RFC 4180 ends lines so.
    write!(out, "{line}\r\n").map_err(|e| Failed(format!("stdout: {e}")))
}

/// One cell, quoted where a comma, quote or line break stands in it (RFC 4180). A text that a
/// spreadsheet would take for a formula is kept as text by an apostrophe: a caller's key may
/// begin with `=`.
fn cell(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => return String::new(),
        Some(Value::String(text)) if text.starts_with(['=', '+', '-', '@']) => format!("'{text}"),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cell_survives_commas_quotes_and_formulas() {
        assert_eq!(cell(Some(&json!("a,b"))), "\"a,b\"");
        assert_eq!(cell(Some(&json!("say \"no\""))), "\"say \"\"no\"\"\"");
        assert_eq!(cell(Some(&json!("=1+1"))), "'=1+1");
        assert_eq!(cell(Some(&json!(-1))), "-1");
        assert_eq!(cell(None), "");
    }
}
