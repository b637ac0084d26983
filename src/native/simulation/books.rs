//! The auditor's own books: plain maps of what clients sent and heard. They share no code with the
//! rules that they check.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

/// What one client knows of its job.
#[derive(Clone, Debug, Default)]
pub struct JobBook {
    /// Asked for at admission and extension together.
    pub held: i64,
    /// Known once an admission was heard.
    pub job_id: Option<String>,
    /// Step → asked, and what was heard to be charged.
    pub charges: BTreeMap<String, (i64, Option<i64>)>,
    /// What settle was told, and its first answer.
    pub settle: Option<(i64, Option<Json>)>,
}

impl JobBook {
    /// Charges that were heard.
    pub fn heard(&self) -> i64 {
        self.charges.values().filter_map(|(_, heard)| *heard).sum()
    }

    /// The most that can have been charged: everything asked, heard or not.
    pub fn possible(&self) -> i64 {
        let charges: i64 = self
            .charges
            .values()
            .map(|(asked, heard)| heard.unwrap_or(*asked))
            .sum();
        charges.max(self.settle.as_ref().map_or(0, |(used, _)| *used))
    }
}

/// What visitors know of one link.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkBook {
    /// Redirects that were heard, by people.
    pub people: i64,
    /// Redirects that were heard, by self-declared machines.
    pub machines: i64,
    /// Requests of which nothing was heard.
    pub unheard: i64,
}

/// A fact of plain usage.
#[derive(Clone, Debug)]
pub struct UsageBook {
    /// How much.
    pub units: i64,
    /// Whether 200 or 201 was heard.
    pub heard: bool,
}

/// One stored webhook.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventBook {
    /// Deliveries that were answered 200.
    pub accepted: u64,
    /// All deliveries.
    pub sent: u64,
}

/// One account, as its owner sees it.
#[derive(Clone, Debug)]
pub struct AccountBook {
    /// At the provider.
    pub customer_id: String,
    /// The highest token limit that was ever in force.
    pub limit_max: i64,
}

/// Everything that the auditor knows by itself.
#[derive(Debug, Default)]
pub struct Books {
    /// Account → its book.
    pub accounts: BTreeMap<String, AccountBook>,
    /// (Account, job key) → its book.
    pub jobs: BTreeMap<(String, String), JobBook>,
    /// (Account, code) → its book.
    pub links: BTreeMap<(String, String), LinkBook>,
    /// (Account, usage key) → its book.
    pub usage: BTreeMap<(String, String), UsageBook>,
    /// Event id → its book.
    pub events: BTreeMap<String, EventBook>,
    /// Accounts whose plan is being changed at the provider.
    pub changing: BTreeSet<String>,
    /// Rules that were seen broken, in words.
    pub broken: Vec<String>,
}

impl Books {
    /// Notes a broken rule.
    pub fn complain(&mut self, what: String) {
        self.broken.push(what);
    }

    /// The book of a job, made where it is new.
    pub fn job(&mut self, account: &str, key: &str) -> &mut JobBook {
        self.jobs
            .entry((account.to_owned(), key.to_owned()))
            .or_default()
    }
}
