//! The auditor's own books: plain maps of what clients sent and heard, and of what was lost. They
//! share no code with the rules that they check.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

/// One feature of a job, as its client knows it.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Heard to be held: at admission and by extensions.
    pub held: i64,
    /// Asked for by extensions of which nothing was heard.
    pub maybe_held: i64,
    /// Step → asked, and what was heard to be charged.
    pub charges: BTreeMap<String, (i64, Option<i64>)>,
    /// What settle was told.
    pub used: Option<i64>,
    /// What settle said was charged.
    pub said: Option<i64>,
    /// What the ledger had of it when its account's storage was lost: the rest may be gone.
    pub floor: Option<i64>,
    /// Units of it that were lost with a copy of the ledger.
    pub lost: i64,
}

impl Line {
    /// Charges that were heard.
    pub fn heard(&self) -> i64 {
        self.charges.values().filter_map(|(_, heard)| *heard).sum()
    }

    /// Whether the outcome of a request was never heard.
    pub fn is_unsure(&self) -> bool {
        self.maybe_held > 0 || self.charges.values().any(|(_, heard)| heard.is_none())
    }

    /// The least that the ledger must have.
    pub fn least(&self) -> i64 {
        let sure = self.said.unwrap_or_else(|| self.heard());
        self.floor.unwrap_or(sure) - self.lost
    }

    /// The most that it may have.
    pub fn most(&self) -> i64 {
        let charges = self.charges.values();
        let charges: i64 = charges.map(|(asked, heard)| heard.unwrap_or(*asked)).sum();
        let possible = charges.max(self.used.unwrap_or(0));
        self.said
            .unwrap_or_else(|| possible.min(self.held + self.maybe_held))
    }
}

/// What one client knows of its job.
#[derive(Clone, Debug, Default)]
pub struct JobBook {
    /// Known once an admission was heard.
    pub job_id: Option<String>,
    /// By feature.
    pub lines: BTreeMap<String, Line>,
    /// The state in which settle found or left it.
    pub state: Option<String>,
}

/// What was heard of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visited {
    /// The redirect.
    Redirected,
    /// Nothing.
    Unheard,
    /// Something else: nothing was recorded.
    Refused,
}

/// One visit of a short link, named by the host that referred it.
#[derive(Clone, Debug)]
pub struct VisitBook {
    /// Whose link.
    pub account: String,
    /// A machine that says so.
    pub is_machine: bool,
    /// The other one of two quick clicks by the same visitor.
    pub twin: Option<String>,
    /// What was heard.
    pub visited: Visited,
    /// It may be lost: the machine died, or a storage was lost, before it was safe.
    pub excused: bool,
}

/// A fact of plain usage.
#[derive(Clone, Debug)]
pub struct UsageBook {
    /// How much.
    pub units: i64,
    /// When it was, where the client says.
    pub occurred_at: Option<String>,
    /// Whether 200 or 201 was heard.
    pub heard: bool,
    /// It may be lost with the ledger that it was written to.
    pub excused: bool,
}

/// A correction by a person.
#[derive(Clone, Debug)]
pub struct CorrectionBook {
    /// Whose entry.
    pub account: String,
    /// How much is taken back, as it was answered.
    pub units: i64,
    /// It may be lost with the ledger that it was written to.
    pub excused: bool,
}

/// One event.
#[derive(Clone, Debug, Default)]
pub struct EventBook {
    /// Whose.
    pub account: String,
    /// Its type.
    pub kind: String,
    /// The plan that it names.
    pub plan: String,
    /// When it happened.
    pub at: i64,
    /// Whether a delivery was answered 200.
    pub is_stored: bool,
}

/// One account, as its owner sees it.
#[derive(Clone, Debug)]
pub struct AccountBook {
    /// At the provider.
    pub customer_id: String,
    /// Feature → the highest limit that was ever in force.
    pub limits: BTreeMap<String, i64>,
    /// When each plan was set at the provider, heard or not.
    pub plans: Vec<(i64, String)>,
    /// When the storage of its object was last lost.
    pub lost_at: Option<i64>,
    /// When a period of its own last began.
    pub period_began: i64,
    /// Somebody moved the provider's period away from the account's cycle.
    pub has_other_period: bool,
}

/// A row of the ledger that was there before the ledger was put back.
#[derive(Clone, Debug)]
pub struct Owed {
    /// When the ledger had it.
    pub recorded_at: i64,
    /// Whether its object knew that it was delivered.
    pub is_confirmed: bool,
    /// What it says.
    pub row: crate::ports::Row,
}

/// Everything that the auditor knows by itself.
#[derive(Debug, Default)]
pub struct Books {
    /// Account → its book.
    pub accounts: BTreeMap<String, AccountBook>,
    /// (Account, job key) → its book.
    pub jobs: BTreeMap<(String, String), JobBook>,
    /// The referring host of a visit → its book.
    pub visits: BTreeMap<String, VisitBook>,
    /// (Account, usage key) → its book.
    pub usage: BTreeMap<(String, String), UsageBook>,
    /// (Entry, reason) → the correction.
    pub corrections: BTreeMap<(String, String), CorrectionBook>,
    /// Event id → its book.
    pub events: BTreeMap<String, EventBook>,
    /// Accounts whose plan is being changed at the provider.
    pub changing: BTreeSet<String>,
    /// Events that were sent back to the queue, by their id in the inbox.
    pub replayed: BTreeSet<String>,
    /// Agreements whose meters somebody else moved.
    pub meddled: BTreeSet<String>,
    /// Entries that objects must hand in again, by id.
    pub owed: BTreeMap<String, Owed>,
    /// How often the ledger was put back.
    pub restores: u32,
    /// Objects whose storage was lost while the ledger had no batch of them yet.
    pub lost_unknown: BTreeSet<String>,
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

    /// One feature of a job.
    pub fn line(&mut self, account: &str, key: &str, feature: &str) -> &mut Line {
        let job = self.job(account, key);
        job.lines.entry(feature.to_owned()).or_default()
    }

    /// What the ledger may lack from now on: an entry that nobody will send again.
    pub fn excuse(&mut self, row: &crate::ports::Row) {
        let text = |name: &str| {
            row.opt_text(name)
                .ok()
                .flatten()
                .unwrap_or_default()
                .to_owned()
        };
        let account = text("account_id");
        match text("kind").as_str() {
            "usage" => {
                if let Some(book) = self.usage.get_mut(&(account, text("key"))) {
                    book.excused = true;
                }
            }
            "click" => {
                if let Some(book) = self.visits.get_mut(&text("referrer_host")) {
                    book.excused = true;
                }
            }
            "correction" => {
                let place = (text("corrects"), text("reason"));
                if let Some(book) = self.corrections.get_mut(&place) {
                    book.excused = true;
                }
            }
            "job" => {
                let (job_id, units) = (text("job_id"), row.int("units").unwrap_or(0));
                let is_it = |job: &&mut JobBook| job.job_id.as_ref() == Some(&job_id);
                if let Some(job) = self.jobs.values_mut().find(is_it)
                    && let Some(line) = job.lines.get_mut(&text("feature"))
                {
                    line.lost += units;
                }
            }
            _ => {}
        }
    }
}

/// A text member of JSON.
pub fn text<'a>(body: &'a Json, name: &str) -> &'a str {
    body.get(name).and_then(Json::as_str).unwrap_or_default()
}
