//! Clicks of one load: each is told apart by the page it came from, so that afterwards the ledger
//! says of every single one whether it is there.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::client::{Client, Failed, Visit, escaped};

/// A server that cannot be reached is waited for so long, and asked again so often.
const BACK_WITHIN: Duration = Duration::from_mins(1);
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// Clicks that break off within this of each other broke off together.
const BREAK: Duration = Duration::from_secs(1);
/// A redirect that was answered this shortly before a break may not have been written yet: after so
/// long its own request writes it by another way.
const WRITTEN_WITHIN: Duration = Duration::from_secs(2);

/// One click's end.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Which of the load.
    pub number: u64,
    /// What became of it.
    pub visit: Visit,
    /// How long its answer took.
    pub micros: u64,
    /// When.
    pub at: Instant,
}

impl Ended {
    /// Whether its visitor was led on.
    pub const fn is_redirect(&self) -> bool {
        matches!(self.visit, Visit::Answered(302))
    }

    /// Whether no answer came.
    pub const fn is_broken(&self) -> bool {
        matches!(self.visit, Visit::Broken)
    }
}

/// How many are so.
pub fn count(clicks: &[Ended], which: impl Fn(&Ended) -> bool) -> u64 {
    clicks.iter().filter(|click| which(click)).count() as u64
}

/// The clicks of one run of the tool.
#[derive(Clone, Debug)]
pub struct Load {
    code: String,
    name: String,
}

impl Load {
    /// A load of that link.
    pub fn new(code: &str) -> Self {
        let begin = std::time::SystemTime::UNIX_EPOCH.elapsed();
        let millis = begin.map_or(0, |since| since.as_millis());
        Self {
            code: code.to_lowercase(),
            name: format!("load-{millis}.invalid"),
        }
    }

    fn host(&self, number: u64) -> String {
        format!("visitor-{number}.{}", self.name)
    }

    /// One click; a server that cannot be reached is waited for.
    pub async fn click(&self, client: &Client, number: u64, agent: &str) -> Ended {
        let path = format!("/{}", escaped(&self.code));
        let host = self.host(number);
        let first = Instant::now();
        loop {
            let begin = Instant::now();
            let visit = client.visit(&path, (agent, &host)).await;
            if visit != Visit::NotSent || first.elapsed() > BACK_WITHIN {
                let micros = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
                let at = Instant::now();
                return Ended {
                    number,
                    visit,
                    micros,
                    at,
                };
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    /// Looks for each click among the link's entries.
    pub async fn look_for(
        &self,
        client: &Client,
        account: &str,
        clicks: &[Ended],
    ) -> Result<Found, Failed> {
        let mut times: BTreeMap<String, u64> = BTreeMap::new();
        let (account, code) = (escaped(account), escaped(&self.code));
        let list = "/v1/entries?feature=clicks&kind=click&limit=500";
        let mut after = String::new();
        loop {
            let path = format!("{list}&account={account}&code={code}{after}");
            let page = client.get(&path).await?;
            let items = page.get("items").and_then(Value::as_array);
            for item in items.into_iter().flatten() {
                let host = item.get("referrer_host").and_then(Value::as_str);
                if let Some(host) = host.filter(|host| host.ends_with(&self.name)) {
                    *times.entry(host.to_owned()).or_default() += 1;
                }
            }
            match page.get("next").and_then(Value::as_str) {
                Some(next) => after = format!("&after={}", escaped(next)),
                None => break,
            }
        }
        let is_there = |click: &Ended| times.contains_key(&self.host(click.number));
        Ok(Found {
            lost: count(clicks, |click| click.is_redirect() && !is_there(click)),
            unheard: count(clicks, |click| click.is_broken() && is_there(click)),
            twice: times.values().filter(|times| **times > 1).count() as u64,
        })
    }
}

/// What the ledger has of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Redirects that are not there.
    pub lost: u64,
    /// Clicks that are there though their answer never came.
    pub unheard: u64,
    /// Clicks that are there more than once.
    pub twice: u64,
}

impl Found {
    /// Where nothing broke off, counting says the same.
    pub const fn all_of(redirected: u64, recorded: u64) -> Self {
        Self {
            lost: redirected.saturating_sub(recorded),
            unheard: 0,
            twice: recorded.saturating_sub(redirected),
        }
    }
}

/// Waits until the server is there again.
pub async fn wait_for(client: &Client) -> Result<(), Failed> {
    let begin = Instant::now();
    loop {
        match client.get("/healthz").await {
            Ok(_) => return Ok(()),
            Err(failed) if begin.elapsed() > BACK_WITHIN => return Err(failed),
            Err(_) => tokio::time::sleep(ASK_AGAIN).await,
        }
    }
}

/// How often the server died under the load, and what that may have cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breaks {
    /// How often.
    pub times: u64,
    /// Clicks that had no answer.
    pub broken: u64,
    /// Redirects that were answered too shortly before to be surely written.
    pub unsure: u64,
}

impl Breaks {
    /// Those of a load.
    pub fn among(clicks: &[Ended]) -> Self {
        let broken = clicks.iter().filter(|click| click.is_broken());
        let mut broken: Vec<Instant> = broken.map(|click| click.at).collect();
        broken.sort_unstable();
        let mut begins: Vec<Instant> = Vec::new();
        let mut last: Option<Instant> = None;
        for at in &broken {
            if last.is_none_or(|last| at.duration_since(last) > BREAK) {
                begins.push(*at);
            }
            last = Some(*at);
        }
        let is_unsure = |click: &Ended| {
            let since = |begin: &Instant| begin.checked_duration_since(click.at);
            let mut ages = begins.iter().filter_map(since);
            click.is_redirect() && ages.any(|age| age < WRITTEN_WITHIN)
        };
        Self {
            times: begins.len() as u64,
            broken: broken.len() as u64,
            unsure: count(clicks, is_unsure),
        }
    }

    /// The clicks that were on their way when the server broke off.
    pub const fn on_their_way(&self) -> u64 {
        self.broken + self.unsure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clicks that ended so, each so many milliseconds after the first.
    fn clicks(ends: &[(u64, Visit)]) -> Vec<Ended> {
        let first = Instant::now();
        let ended = |(number, (after, visit)): (u64, &(u64, Visit))| Ended {
            number,
            visit: *visit,
            micros: 1,
            at: first + Duration::from_millis(*after),
        };
        (0..).zip(ends).map(ended).collect()
    }

    #[test]
    fn what_broke_off_together_is_one_break_and_counts_what_was_on_its_way() {
        let redirect = Visit::Answered(302);
        let breaks = Breaks::among(&clicks(&[
            (0, redirect),           // written long before anything broke off
            (5_000, redirect),       // on its way
            (6_000, Visit::Broken),  // the first break
            (6_400, Visit::Broken),  // the same
            (6_500, redirect),       // from after it: the server was back
            (20_000, redirect),      // on its way at the second break
            (20_001, Visit::Broken), // the second break
            (20_001, Visit::Answered(503)),
        ]));
        let expected = Breaks {
            times: 2,
            broken: 3,
            unsure: 2,
        };
        assert_eq!(breaks, expected);
        assert_eq!(breaks.on_their_way(), 5);
        assert_eq!(Breaks::among(&clicks(&[(0, redirect)])), Breaks::default());
    }

    #[test]
    fn without_a_break_counting_says_what_is_lost_or_there_twice() {
        let found = |lost, twice| Found {
            lost,
            unheard: 0,
            twice,
        };
        assert_eq!(Found::all_of(5, 5), found(0, 0));
        assert_eq!(Found::all_of(5, 3), found(2, 0));
        assert_eq!(Found::all_of(5, 6), found(0, 1));
    }
}
