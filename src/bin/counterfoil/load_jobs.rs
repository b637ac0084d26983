//! `counterfoil load jobs`: many jobs at once against one limit, then proof that it held.
//!
//! A fresh stand-in account is given the limit. Every job holds its estimate, charges half of it,
//! and settles at the whole; a killed worker charges half and is never heard of again, so the
//! sweeper settles its job. Meanwhile the budget is looked at all the time, and at the end budget,
//! ledger and what the answers said are compared.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::{Client, Failed, escaped};
use crate::load_clicks::{milliseconds, percentile, rate};
use crate::{Outcome, table};

/// Start jobs against a limit on a fresh stand-in account, then check that it held.
#[derive(Debug, Args)]
pub struct LoadJobs {
    /// How many jobs ask.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    jobs: u64,
    /// What each holds and uses.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(i64).range(1..))]
    estimate: i64,
    /// What the plan allows in all.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(i64).range(0..))]
    limit: i64,
    /// How many at a time.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    concurrency: u64,
    /// The share of started jobs whose worker dies half way, 0 to 1.
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    kill_workers: f64,
}

fn share(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "it must be a number from 0 to 1".to_owned())
}

/// The feature that the jobs use.
const FEATURE: &str = "tokens";
/// How long a killed worker's job lives on.
const LEASE_SECONDS: u64 = 10;
/// The last entry must be in the ledger within this.
const RECORDED_WITHIN: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How one job ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ended {
    /// It settled.
    Done,
    /// Its worker was killed after a charge.
    Killed,
    /// It was not admitted, for that reason.
    Refused(String),
    /// It did not get the answers that it should.
    Failed(String),
}

/// What all jobs together were told.
#[derive(Debug, Default)]
struct Told {
    ended: BTreeMap<Ended, u64>,
    charged: i64,
    latencies: Vec<u64>,
}

impl Told {
    fn count(&self, which: impl Fn(&Ended) -> bool) -> u64 {
        let chosen = self.ended.iter().filter(|(ended, _)| which(ended));
        chosen.map(|(_, count)| count).sum()
    }
}

/// What the budget said.
#[derive(Clone, Copy, Debug)]
struct Budget {
    used: i64,
    held: i64,
}

impl LoadJobs {
    /// Makes the account, runs the jobs, looks, compares.
    pub async fn run(&self, client: &Client) -> Result<Outcome, Failed> {
        let (account, owner) = self.account(client).await?;
        let watching = Arc::new(AtomicBool::new(true));
        let watcher = tokio::spawn(watch(owner.clone(), self.limit, Arc::clone(&watching)));
        let begin = Instant::now();
        let mut told = self.work(&owner).await?;
        let took = begin.elapsed();
        let budget = self.settled_budget(&owner, &told).await?;
        watching.store(false, Ordering::Relaxed);
        let passed = watcher
            .await
            .map_err(|e| Failed(format!("the watcher failed: {e}")))?;
        let ledger = wait_for_ledger(client, &account, budget.used).await?;
        let passed = passed || budget.used + budget.held > self.limit;
        told.latencies.sort_unstable();
        self.print(&told, budget, (ledger, took), passed);
        let right = !passed
            && budget.held == 0
            && budget.used == told.charged
            && ledger == budget.used
            && told.count(|ended| matches!(ended, Ended::Failed(_))) == 0;
        Ok(if right {
            Outcome::Right
        } else {
            Outcome::Differs
        })
    }

    /// A fresh account of the stand-in with that limit; its id, and a client with its API key.
    async fn account(&self, client: &Client) -> Result<(String, Client), Failed> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|e| Failed(format!("no random bits: {e}")))?;
        let unique = format!("{:016x}", u64::from_be_bytes(random));
        let (account, customer) = (format!("load-{unique}"), format!("customer_load_{unique}"));
        let limits = json!({"plan": "pro", "limits": {FEATURE: self.limit}});
        let path = format!("/standin/customers/{customer}");
        let made = client.ask(Method::PUT, &path, Some(&limits)).await?;
        if made.status != 200 {
            return Err(Failed("this needs a server with the stand-in".to_owned()));
        }
        let body = json!({"id": account, "customer_id": customer,
            "jobs_per_minute": self.jobs.max(120)});
        let made = client.post("/v1/accounts", &body).await?;
        let key = made.get("api_key").and_then(Value::as_str);
        let key = key.ok_or_else(|| Failed("the account has no API key".to_owned()))?;
        Ok((account, client.with_token(key)))
    }

    async fn work(&self, owner: &Client) -> Result<Told, Failed> {
        let bar = progress(self.jobs);
        let next = Arc::new(AtomicU64::new(0));
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..self.concurrency.min(self.jobs) {
            let (next, owner, bar) = (Arc::clone(&next), owner.clone(), bar.clone());
            let (jobs, estimate, kill) = (self.jobs, self.estimate, self.kill_workers);
            workers.spawn(async move {
                let mut told = Told::default();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= jobs {
                        return told;
                    }
                    let ended =
                        one_job(&owner, number, estimate, is_killed(number, kill), &mut told);
                    let ended = ended.await.unwrap_or_else(|failed| Ended::Failed(failed.0));
                    *told.ended.entry(ended).or_default() += 1;
                    bar.inc(1);
                }
            });
        }
        let mut all = Told::default();
        while let Some(told) = workers.join_next().await {
            let told = told.map_err(|e| Failed(format!("a worker failed: {e}")))?;
            for (ended, count) in told.ended {
                *all.ended.entry(ended).or_default() += count;
            }
            all.charged += told.charged;
            all.latencies.extend(told.latencies);
        }
        bar.finish_and_clear();
        Ok(all)
    }

    /// The budget once every lease of a killed worker has run out.
    async fn settled_budget(&self, owner: &Client, told: &Told) -> Result<Budget, Failed> {
        let killed = told.count(|ended| *ended == Ended::Killed);
        let wait = if killed > 0 { LEASE_SECONDS + 20 } else { 0 };
        let until = Instant::now() + Duration::from_secs(wait);
        loop {
            let budget = look(owner).await?;
            if budget.held == 0 || Instant::now() > until {
                return Ok(budget);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn print(&self, told: &Told, budget: Budget, (ledger, took): (i64, Duration), passed: bool) {
        let started = told.count(|ended| matches!(ended, Ended::Done | Ended::Killed));
        let mut rows = vec![("started", started.to_string())];
        let killed = told.count(|ended| *ended == Ended::Killed);
        if killed > 0 {
            rows.push(("of these killed", killed.to_string()));
        }
        let refused = told.count(|ended| matches!(ended, Ended::Refused(_)));
        rows.push(("refused", refused.to_string()));
        let failed = told.count(|ended| matches!(ended, Ended::Failed(_)));
        rows.push(("failed", failed.to_string()));
        rows.push(("limit", self.limit.to_string()));
        rows.push(("spent", budget.used.to_string()));
        rows.push(("still held", budget.held.to_string()));
        rows.push(("ledger", ledger.to_string()));
        rows.push(("rate", format!("{} jobs/s", rate(self.jobs, took))));
        rows.push(("p50", milliseconds(percentile(&told.latencies, 50))));
        rows.push(("p95", milliseconds(percentile(&told.latencies, 95))));
        rows.push(("p99", milliseconds(percentile(&told.latencies, 99))));
        let held = if passed { "NO" } else { "yes" };
        rows.push(("the limit held", held.to_owned()));
        table::print(&rows);
        for (ended, count) in &told.ended {
            match ended {
                Ended::Refused(reason) => println!("{count} refused: {reason}"),
                Ended::Failed(why) => println!("{count} failed: {why}"),
                Ended::Done | Ended::Killed => {}
            }
        }
        if budget.used != told.charged {
            println!("spent differs from what the answers said: {}", told.charged);
        }
    }
}

/// Spread evenly over the numbers, the same in every run.
#[expect(clippy::float_arithmetic, reason = "a share of a load test, no amount")]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of jobs are small"
)]
fn is_killed(number: u64, share: f64) -> bool {
    let before = (number as f64 * share).floor() as u64;
    let after = ((number + 1) as f64 * share).floor() as u64;
    after > before
}

/// Holds, charges half, and settles at the whole or is killed. The first answer's time counts.
async fn one_job(
    owner: &Client,
    number: u64,
    estimate: i64,
    killed: bool,
    told: &mut Told,
) -> Result<Ended, Failed> {
    let mut body = json!({"key": format!("job-{number}"), "feature": FEATURE, "hold": estimate});
    if killed && let Some(body) = body.as_object_mut() {
        body.insert("lease_seconds".to_owned(), json!(LEASE_SECONDS));
    }
    let begin = Instant::now();
    let answered = owner.ask(Method::POST, "/v1/jobs", Some(&body)).await?;
    told.latencies
        .push(u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX));
    let text = |name: &str| answered.body.get(name).and_then(Value::as_str);
    if answered.status != 201 {
        let code = text("reason").or_else(|| text("code")).unwrap_or("no code");
        return Ok(match answered.status {
            402 | 403 | 429 => Ended::Refused(code.to_owned()),
            status => Ended::Failed(format!("admission: {status} {code}")),
        });
    }
    let id = text("id").unwrap_or_default();
    let half = estimate / 2;
    if half > 0 {
        let body = json!({"units": half, "step": "half"});
        let path = format!("/v1/jobs/{id}/charges");
        let charged = owner.post(&path, &body).await?;
        if charged.get("charged").and_then(Value::as_i64) != Some(half) {
            return Ok(Ended::Failed("a charge was cut".to_owned()));
        }
    }
    if killed {
        told.charged += half;
        return Ok(Ended::Killed);
    }
    let path = format!("/v1/jobs/{id}/settle");
    let settled = owner.post(&path, &json!({"used": estimate})).await?;
    let charged = settled.get("charged").and_then(|by| by.get(FEATURE));
    told.charged += charged.and_then(Value::as_i64).unwrap_or(0);
    Ok(Ended::Done)
}

async fn look(owner: &Client) -> Result<Budget, Failed> {
    let budget = owner.get(&format!("/v1/budget?feature={FEATURE}")).await?;
    let number = |name: &str| budget.get(name).and_then(Value::as_i64);
    match (number("used"), number("held")) {
        (Some(used), Some(held)) => Ok(Budget { used, held }),
        _ => Err(Failed("the budget has no used and held".to_owned())),
    }
}

/// Looks at the budget until told to stop; whether the limit was ever passed.
async fn watch(owner: Client, limit: i64, watching: Arc<AtomicBool>) -> bool {
    while watching.load(Ordering::Relaxed) {
        if let Ok(budget) = look(&owner).await
            && budget.used + budget.held > limit
        {
            return true;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    false
}

/// Waits until the ledger has what was spent, or no longer.
async fn wait_for_ledger(client: &Client, account: &str, spent: i64) -> Result<i64, Failed> {
    let path = format!("/v1/usage?feature={FEATURE}&account={}", escaped(account));
    let begin = Instant::now();
    loop {
        let usage = client.get(&path).await?;
        let total = usage.get("total").and_then(Value::as_i64).unwrap_or(0);
        if total == spent || begin.elapsed() > RECORDED_WITHIN {
            return Ok(total);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn progress(jobs: u64) -> ProgressBar {
    let bar = ProgressBar::new(jobs);
    match ProgressStyle::with_template("{bar:40} {pos}/{len} jobs, {per_sec}, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_workers_is_killed_and_the_same_ones_each_time() {
        let killed = (0..100).filter(|number| is_killed(*number, 0.2));
        assert_eq!(killed.count(), 20);
        assert!(!(0..100).any(|number| is_killed(number, 0.0)));
        assert!((0..100).all(|number| is_killed(number, 1.0)));
    }

    #[test]
    fn a_share_lies_between_nothing_and_all() {
        assert!(share("1.1").is_err());
        assert!(share("-0.1").is_err());
        assert!(share("x").is_err());
        assert!(share("0.2").is_ok());
    }
}
