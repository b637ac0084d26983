//! `counterfoil load clicks`: many visitors at once, then proof that none was lost.
//!
//! Every visitor has a browser's user agent of its own and follows no redirect. Afterwards the
//! reporter and the reconciler run, and sent, redirected, recorded, ledger and meter are compared.
//! A server that dies meanwhile is waited for; what it lost is counted, and held against what was
//! on its way when it died.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::{Client, Failed, Visit, escaped};
use crate::visits::{Breaks, Ended, Found, Load, count, wait_for};
use crate::{Outcome, table};

/// Send clicks to a link, then compare sent, recorded, ledger and meter.
#[derive(Debug, Args)]
pub struct LoadClicks {
    /// The link's code.
    code: String,
    /// How many clicks.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..))]
    clicks: u64,
    /// How many at a time.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    concurrency: u64,
    /// All clicks come from one visitor (shows the double-click rule).
    #[arg(long)]
    same_visitor: bool,
    /// The account of the link; looked for where it is left out.
    #[arg(long)]
    account: Option<String>,
}

/// What the provider has of the account's clicks in the current cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metered {
    /// The account has no agreement, and so no meter.
    Nowhere,
    /// A meter was not read.
    Unread,
    /// All meters of the cycle together.
    Holds(i64),
}

impl fmt::Display for Metered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => f.write_str("none: the account has no agreement"),
            Self::Unread => f.write_str("not read"),
            Self::Holds(total) => total.fmt(f),
        }
    }
}

/// What the ledger has of the link in the current cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Figures {
    gross: i64,
    net: i64,
}

/// Clicks are written after their answer; within this the last one must be in the ledger.
const RECORDED_WITHIN: Duration = Duration::from_mins(1);
/// The same after a break: by then shards have everything that they will ever have.
const TAKEN_IN_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(250);

impl LoadClicks {
    /// Sends, waits, reports, reconciles, compares.
    pub async fn run(&self, client: &Client) -> Result<Outcome, Failed> {
        let account = match &self.account {
            Some(account) => account.clone(),
            None => account_of(client, &self.code).await?,
        };
        let before = self.figures(client, &account).await?;
        let begin = Instant::now();
        let load = Load::new(&self.code);
        let clicks = self.send(client, &load).await?;
        let took = begin.elapsed();
        let breaks = Breaks::among(&clicks);
        let redirected = count(&clicks, Ended::is_redirect);
        let now = if breaks.times > 0 {
            wait_for(client).await?;
            tokio::time::sleep(TAKEN_IN_WITHIN).await;
            // Every shard sends what it has; what is not there then was lost.
            client.run_job("sweeper", &json!({})).await?;
            self.figures(client, &account).await?
        } else {
            self.wait(client, &account, before, redirected).await?
        };
        let recorded = u64::try_from(now.gross - before.gross).unwrap_or(0);
        let found = if breaks.times > 0 {
            load.look_for(client, &account, &clicks).await?
        } else {
            Found::all_of(redirected, recorded)
        };
        client.run_job("reporter", &json!({})).await?;
        let body = json!({"account": account});
        client.run_job("reconciler", &body).await?;
        let (ledger, meter) = totals(client, &account).await?;
        let mut latencies: Vec<u64> = clicks.iter().map(|click| click.micros).collect();
        latencies.sort_unstable();
        let sent = count(&clicks, |click| click.visit != Visit::NotSent);
        table::print(&[
            ("sent", sent.to_string()),
            ("redirected", redirected.to_string()),
            ("recorded", recorded.to_string()),
            ("lost", found.lost.to_string()),
            ("gross", now.gross.to_string()),
            ("corrected", (now.gross - now.net).to_string()),
            ("net", now.net.to_string()),
            ("ledger", ledger.to_string()),
            ("meter", meter.to_string()),
            ("rate", format!("{}/s", rate(sent, took))),
            ("p50", milliseconds(percentile(&latencies, 50))),
            ("p95", milliseconds(percentile(&latencies, 95))),
            ("p99", milliseconds(percentile(&latencies, 99))),
        ]);
        let mut right = said(&clicks, self.clicks);
        right &= broke(&breaks, found);
        right &= agree(&clicks, recorded, (ledger, meter));
        Ok(if right {
            Outcome::Right
        } else {
            Outcome::Differs
        })
    }

    /// Sends all clicks.
    async fn send(&self, client: &Client, load: &Load) -> Result<Vec<Ended>, Failed> {
        let bar = progress(self.clicks);
        let next = Arc::new(AtomicU64::new(0));
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..self.concurrency.min(self.clicks) {
            let (client, bar, next) = (client.clone(), bar.clone(), Arc::clone(&next));
            let (load, clicks, same) = (load.clone(), self.clicks, self.same_visitor);
            workers.spawn(async move {
                let mut done = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= clicks {
                        return done;
                    }
                    let agent = user_agent(if same { 0 } else { number });
                    done.push(load.click(&client, number, &agent).await);
                    bar.inc(1);
                }
            });
        }
        let mut clicks = Vec::new();
        while let Some(done) = workers.join_next().await {
            clicks.extend(done.map_err(|e| Failed(format!("a visitor failed: {e}")))?);
        }
        bar.finish_and_clear();
        Ok(clicks)
    }

    /// Waits until every redirect is in the ledger, or no longer.
    async fn wait(
        &self,
        client: &Client,
        account: &str,
        before: Figures,
        redirected: u64,
    ) -> Result<Figures, Failed> {
        let bar = ProgressBar::new_spinner().with_message("waiting for the ledger");
        let expected = i64::try_from(redirected).unwrap_or(i64::MAX);
        let begin = Instant::now();
        loop {
            let now = self.figures(client, account).await?;
            if now.gross - before.gross >= expected || begin.elapsed() > RECORDED_WITHIN {
                bar.finish_and_clear();
                return Ok(now);
            }
            bar.tick();
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// What the ledger has of this link in the current cycle.
    async fn figures(&self, client: &Client, account: &str) -> Result<Figures, Failed> {
        let (account, code) = (escaped(account), escaped(&self.code.to_lowercase()));
        let path = format!("/v1/usage?feature=clicks&account={account}&code={code}");
        let usage = client.get(&path).await?;
        let number = |name: &str| usage.get(name).and_then(Value::as_i64);
        match (number("gross"), number("total")) {
            (Some(gross), Some(net)) => Ok(Figures { gross, net }),
            _ => Err(Failed("the usage has no gross and total".to_owned())),
        }
    }
}

/// Says what was answered but redirects; whether every click was answered one or broke off.
fn said(clicks: &[Ended], wanted: u64) -> bool {
    let mut statuses: BTreeMap<u16, u64> = BTreeMap::new();
    for click in clicks {
        match click.visit {
            Visit::Answered(302) | Visit::Broken | Visit::NotSent => {}
            Visit::Answered(status) => *statuses.entry(status).or_default() += 1,
        }
    }
    for (status, times) in statuses {
        println!("{times} clicks were answered {status}");
    }
    count(clicks, |click| click.is_redirect() || click.is_broken()) == wanted
}

/// Says what the server lost; whether that is no more than was on its way when it broke off, and
/// nothing is there twice.
fn broke(breaks: &Breaks, found: Found) -> bool {
    if breaks.times > 0 {
        println!(
            "the server broke off {} times: {} clicks had no answer, of which {} are in the \
             ledger, and {} redirects had just been answered",
            breaks.times, breaks.broken, found.unheard, breaks.unsure
        );
    }
    if found.lost > 0 {
        println!(
            "lost: {} redirects are not in the ledger, and {} clicks were on their way when the \
             server broke off",
            found.lost,
            breaks.on_their_way()
        );
    }
    if found.twice > 0 {
        println!("{} clicks are in the ledger twice", found.twice);
    }
    found.lost <= breaks.on_their_way() && found.twice == 0
}

/// Says where the figures differ; whether they do not.
fn agree(clicks: &[Ended], recorded: u64, (ledger, meter): (i64, Metered)) -> bool {
    let (redirected, broken) = (
        count(clicks, Ended::is_redirect),
        count(clicks, Ended::is_broken),
    );
    let mut right = true;
    if recorded > redirected + broken {
        println!("recorded differs from redirected: {recorded} and {redirected}");
        right = false;
    }
    if !matches!(meter, Metered::Nowhere) && meter != Metered::Holds(ledger) {
        println!("ledger and meter differ");
        right = false;
    }
    right
}

/// The account that has the link, among all accounts.
async fn account_of(client: &Client, code: &str) -> Result<String, Failed> {
    let code = escaped(code);
    let mut after = String::new();
    loop {
        let page = client
            .get(&format!("/v1/accounts?limit=500{after}"))
            .await?;
        let items = page.get("items").and_then(Value::as_array);
        for item in items.into_iter().flatten() {
            let Some(id) = item.get("id").and_then(Value::as_str) else {
                continue;
            };
            let path = format!("/v1/links/{code}?account={}", escaped(id));
            let answered = client.ask(reqwest::Method::GET, &path, None).await?;
            if answered.status == 200 {
                return Ok(id.to_owned());
            }
        }
        match page.get("next").and_then(Value::as_str) {
            Some(next) => after = format!("&after={}", escaped(next)),
            None => return Err(Failed(format!("no account has the link {code}"))),
        }
    }
}

/// The account's clicks in the current cycle, and what the cycle's meters hold together.
async fn totals(client: &Client, account: &str) -> Result<(i64, Metered), Failed> {
    let account = escaped(account);
    let usage = client
        .get(&format!("/v1/usage?feature=clicks&account={account}"))
        .await?;
    let total = usage.get("total").and_then(Value::as_i64);
    let total = total.ok_or_else(|| Failed("the usage has no total".to_owned()))?;
    let cycle = text(&usage, "cycle");
    let page = client
        .get(&format!("/v1/meters?limit=500&account={account}"))
        .await?;
    let items = page.get("items").and_then(Value::as_array);
    let ours = |meter: &&Value| text(meter, "feature") == "clicks" && text(meter, "cycle") == cycle;
    let meters: Vec<&Value> = items.into_iter().flatten().filter(ours).collect();
    if meters.is_empty() {
        return Ok((total, Metered::Nowhere));
    }
    let held = meters
        .iter()
        .map(|meter| meter.get("provider").and_then(Value::as_i64));
    let held: Option<Vec<i64>> = held.collect();
    Ok((
        total,
        held.map_or(Metered::Unread, |held| Metered::Holds(held.iter().sum())),
    ))
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A browser of its own for each visitor: the versions spell the number.
fn user_agent(number: u64) -> String {
    let (build, patch) = (number / 1000, number % 1000);
    format!(
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
         Chrome/149.0.{build}.{patch} Safari/537.36"
    )
}

fn progress(clicks: u64) -> ProgressBar {
    let bar = ProgressBar::new(clicks);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} clicks, {per_sec}, {eta} left");
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// How many a second.
pub fn rate(clicks: u64, took: Duration) -> u128 {
    u128::from(clicks) * 1_000_000 / took.as_micros().max(1)
}

/// The value that `percent` of all lie at or below; the list is sorted.
pub fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(rank).copied().unwrap_or(0)
}

/// Microseconds as people read them.
pub fn milliseconds(micros: u64) -> String {
    format!("{}.{} ms", micros / 1000, micros % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterfoil::links::crawlers::judge;

    #[test]
    fn every_visitor_is_a_person_with_a_browser_of_its_own() {
        let agents: Vec<String> = (0..5000).map(user_agent).collect();
        assert!(agents.iter().all(|agent| judge(Some(agent)).is_none()));
        let mut unique = agents.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), agents.len());
    }

    #[test]
    fn a_percentile_is_a_value_that_was_seen() {
        let sorted: Vec<u64> = (1..=100).collect();
        assert_eq!(percentile(&sorted, 50), 50);
        assert_eq!(percentile(&sorted, 99), 99);
        assert_eq!(percentile(&[7], 99), 7);
        assert_eq!(percentile(&[], 50), 0);
    }
}
