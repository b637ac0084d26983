//! The messages between the Worker and an account's object, and their answers.
//!
//! JSON, versioned: a release reads its own version and the one before. Times are milliseconds,
//! amounts plain integers; both are checked where a message is read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::accounts::Account;
use crate::cycle::Anchor;
use crate::fault::Fault;
use crate::ledger::feed::FeedState;
use crate::ledger::stream::FeedRow;
use crate::units::{AccountId, Millis, Units};

/// The version of the messages that this release writes.
pub const VERSION: u32 = 1;

/// Amounts by feature.
pub type Amounts = BTreeMap<String, i64>;

/// A message to an account's object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountAsk {
    /// [`VERSION`] of the sender.
    pub v: u32,
    /// What the sender knows of the account; absent where the message is not about its budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
    /// What is asked.
    pub ask: Ask,
}

impl AccountAsk {
    /// A message about an account's jobs and budget.
    pub fn about(account: &Account, ask: Ask) -> Self {
        let about = Some(About::of(account));
        let v = VERSION;
        Self { v, about, ask }
    }

    /// A message that needs nothing of the account.
    pub const fn plain(ask: Ask) -> Self {
        let (v, about) = (VERSION, None);
        Self { v, about, ask }
    }

    /// As it is sent.
    pub fn to_json(&self) -> Result<String, Fault> {
        serde_json::to_string(self).map_err(|e| Fault::unreadable("write a message", e))
    }

    /// As it was sent, by this release or the one before.
    pub fn of_json(text: &str) -> Result<Self, Fault> {
        let ask: Self = serde_json::from_str(text)
            .map_err(|e| Fault::unreadable("read a message to an account", e))?;
        if ask.v > VERSION {
            let cause = format!("its version is {}", ask.v);
            return Err(Fault::unreadable("read a message to an account", cause));
        }
        Ok(ask)
    }
}

/// What DB says of the account at the time of the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The account.
    pub account_id: String,
    /// Its id at the provider; without one every limit is unknown.
    pub customer_id: Option<String>,
    /// In the order in which they were made.
    pub anchors: Vec<AnchorWire>,
    /// Whether the first anchor is fixed; only then does the object remember them.
    pub anchors_fixed: bool,
    /// New jobs a minute, where it differs from the setting.
    pub jobs_per_minute: Option<i64>,
    /// Of the Lab or the Engine Room: left out of metrics.
    pub demo: bool,
}

impl About {
    /// What stands in the account's row.
    pub fn of(account: &Account) -> Self {
        Self {
            account_id: account.account_id.to_string(),
            customer_id: account.customer_id.as_ref().map(ToString::to_string),
            anchors: account.anchors.iter().map(AnchorWire::of).collect(),
            anchors_fixed: account.anchor_fixed,
            jobs_per_minute: account.jobs_per_minute,
            demo: account.demo,
        }
    }

    /// The account, where it has the form of one.
    pub fn account_id(&self) -> Option<AccountId> {
        AccountId::new(self.account_id.clone())
    }
}

/// An anchor on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnchorWire {
    /// See [`Anchor::at`].
    pub at_ms: i64,
    /// See [`Anchor::day`].
    pub day: u8,
    /// See [`Anchor::opens`].
    pub opens_ms: Option<i64>,
}

impl AnchorWire {
    /// To be sent or stored.
    pub fn of(anchor: &Anchor) -> Self {
        Self {
            at_ms: anchor.at.get(),
            day: anchor.day,
            opens_ms: anchor.opens.map(Millis::get),
        }
    }

    /// As it was.
    pub fn anchor(self) -> Anchor {
        Anchor {
            at: Millis::new(self.at_ms),
            day: self.day,
            opens: self.opens_ms.map(Millis::new),
        }
    }
}

/// What an account's object can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// New jobs, each decided on its own, all in one transaction.
    Admit {
        /// In the order in which they are decided.
        jobs: Vec<AdmitAsk>,
    },
    /// A step of work is about to be done.
    Charge(ChargeAsk),
    /// More hold for a running job.
    Extend(ExtendAsk),
    /// A sign of life.
    Renew {
        /// The job.
        job_id: String,
    },
    /// The job is over.
    Settle(SettleAsk),
    /// One job.
    Get {
        /// The job.
        job_id: String,
    },
    /// Jobs, newest first.
    List(ListAsk),
    /// The budgets of these features in the current cycle.
    Budget {
        /// By our own names.
        features: Vec<String>,
    },
    /// The same without asking the provider for a limit that is not known.
    Live {
        /// By our own names.
        features: Vec<String>,
    },
    /// How far estimates were from cost.
    Estimates {
        /// The feature.
        feature: String,
        /// The current one where it is left out.
        cycle: Option<String>,
    },
    /// The last refusals.
    Refusals,
    /// The plan may have changed: the cached limit is dropped.
    Ring,
    /// Something is due in the account's inbox.
    Lane {
        /// The account.
        account_id: String,
    },
    /// The account's own feed rows as the ledger database has them.
    TakeFeed {
        /// One for each life of its storage.
        rows: Vec<FeedRow>,
    },
    /// The stand-in's clock was moved.
    Clock {
        /// Added to every reading of the time.
        offset_ms: i64,
    },
}

/// A new job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmitAsk {
    /// The caller's key of it.
    pub key: String,
    /// What it wants to hold, by feature.
    pub holds: Amounts,
    /// As the caller gave it; the setting where it was left out.
    pub lease_seconds: Option<i64>,
}

/// Amounts as a caller gives them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Given {
    /// One number, of the named feature or of the job's only one.
    One {
        /// May be left out where the job has one feature.
        feature: Option<String>,
        /// The number.
        units: i64,
    },
    /// By feature.
    Each(Amounts),
}

/// A charge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChargeAsk {
    /// The job.
    pub job_id: String,
    /// How much.
    pub units: Given,
    /// The caller's name of it: under one name it counts once.
    pub step: Option<String>,
}

/// More hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtendAsk {
    /// The job.
    pub job_id: String,
    /// May be left out where the job has one feature.
    pub feature: Option<String>,
    /// How much more.
    pub units: i64,
    /// The caller's name of it: under one name it counts once.
    pub step: Option<String>,
}

/// The end of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettleAsk {
    /// The job.
    pub job_id: String,
    /// What was used in all; what the charges recorded where it is left out.
    pub used: Option<Given>,
    /// `done` or `failed`, as the caller says.
    pub outcome: Option<String>,
    /// Where a person ends it in its owner's place.
    #[serde(default)]
    pub person: Option<Person>,
}

/// Who ends a job in its owner's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// The name of the token.
    pub actor: String,
    /// Why.
    pub reason: String,
}

/// That a person ended a job, or told of its late use, in its owner's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByHand {
    /// Who, and why.
    pub person: Person,
    /// When it took effect.
    pub at_ms: i64,
}

/// A page of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListAsk {
    /// Only jobs in that state.
    pub state: Option<String>,
    /// Only jobs that hold that feature.
    pub feature: Option<String>,
    /// At most so many.
    pub limit: i64,
    /// Only jobs older than that one.
    pub after: Option<String>,
}

/// What an account's object answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// One for each of the jobs, in their order.
    Admitted(Vec<Admitted>),
    /// One of the jobs would be admitted, but no anchor is fixed yet: nothing was decided. Fix
    /// it and ask again.
    AnchorFirst,
    /// A charge was taken, or had been.
    Charged(ChargedView),
    /// A job.
    Job(JobView),
    /// The lease was renewed.
    Renewed {
        /// When it ends now.
        lease_ends_at_ms: i64,
    },
    /// The job is over.
    Settled(SettledView),
    /// A page of jobs.
    Jobs {
        /// Newest first.
        items: Vec<JobView>,
        /// What to ask with `after` for the next page.
        next: Option<String>,
    },
    /// Budgets.
    Budgets(Vec<BudgetView>),
    /// How far estimates were from cost.
    Estimates(EstimatesView),
    /// The last refusals, newest first.
    Refusals(Vec<RefusalView>),
    /// Where the object's feed stands.
    Feed(FeedState),
    /// The domain said no; nothing changed.
    Refused(RefusedView),
    /// It was done, there is nothing to tell.
    Done,
}

/// What one new job was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Admitted {
    /// It runs.
    New(JobView),
    /// The same key and request: it ran already.
    Same(JobView),
    /// No.
    Refused(RefusedView),
}

/// One job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    /// Its id.
    pub id: String,
    /// The caller's key of it.
    pub key: String,
    /// `running`, `settled` or `expired`.
    pub state: String,
    /// Whether a charge was ever cut.
    pub capped: bool,
    /// The cycle in which it was admitted.
    pub cycle: String,
    /// By feature.
    pub holds: BTreeMap<String, HoldView>,
    /// What is left of each feature's limit; absent where there is none or it is not known.
    pub remaining: BTreeMap<String, Option<i64>>,
    /// When its lease ends or ended.
    pub lease_ends_at_ms: i64,
    /// What every sign of life adds.
    pub lease_seconds: i64,
    /// When it was admitted.
    pub created_at_ms: i64,
    /// When it was settled or swept.
    pub ended_at_ms: Option<i64>,
    /// `done` or `failed`, where the caller said so.
    pub outcome: Option<String>,
}

/// What a job holds of one feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldView {
    /// All that was put aside for it.
    pub held: i64,
    /// What was charged of it.
    pub used: i64,
}

/// What a charge did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChargedView {
    /// By this charge.
    pub charged: Amounts,
    /// Whether this charge was cut.
    pub capped: bool,
    /// What did not fit.
    pub uncovered: Amounts,
    /// The job's hold.
    pub held: Amounts,
    /// What is charged of it by now.
    pub used: Amounts,
    /// When the lease ends now.
    pub lease_ends_at_ms: i64,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettledView {
    /// `settled` or `expired`.
    pub state: String,
    /// In all.
    pub charged: Amounts,
    /// What went back.
    pub released: Amounts,
    /// What was used beyond the hold, or after the job had expired.
    pub uncovered: Amounts,
    /// Cycle → feature → charged.
    pub by_cycle: BTreeMap<String, Amounts>,
    /// Use that was reported after the job had expired: goes to review, once.
    pub late: Amounts,
    /// When the job ended.
    pub ended_at_ms: i64,
    /// Where that was done by hand.
    #[serde(default)]
    pub by_hand: Option<ByHand>,
}

/// One feature's budget in the current cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetView {
    /// The feature.
    pub feature: String,
    /// The cycle.
    pub cycle: String,
    /// Absent where there is none or it is not known.
    pub limit: Option<i64>,
    /// `known`, `stale`, `unlimited`, `absent` or `unknown`.
    pub limit_state: String,
    /// What ended jobs used.
    pub used: i64,
    /// What running jobs hold.
    pub held: i64,
    /// Absent where the limit is.
    pub remaining: Option<i64>,
    /// Running jobs that hold some of it.
    pub running: i64,
}

/// Estimates against cost of the jobs that ended in a cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EstimatesView {
    /// The cycle.
    pub cycle: String,
    /// How many ended.
    pub jobs: i64,
    /// Of these, how many were capped.
    pub capped: i64,
    /// Of these, how many expired.
    pub expired: i64,
    /// What they held.
    pub held: i64,
    /// What they were charged.
    pub charged: i64,
    /// Ten counts of jobs by charged/held.
    pub tenths: Vec<i64>,
}

/// A refusal, kept for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalView {
    /// When.
    pub at_ms: i64,
    /// `admit` or `extend`.
    pub operation: String,
    /// The key of the job or the job's id.
    pub subject: String,
    /// As answered.
    pub code: String,
    /// Of which feature.
    pub feature: Option<String>,
    /// `too_big`, `used_up` or `held`.
    pub reason: Option<String>,
    /// How much was asked.
    pub asked: Option<i64>,
    /// How much was left.
    pub remaining: Option<i64>,
}

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedView {
    /// The account has no such job.
    NotFound,
    /// The job does not hold that feature, or has several and none was named.
    Feature {
        /// The field that is wrong.
        field: String,
    },
    /// The key or step was used for another request.
    KeyConflict,
    /// The job is over.
    JobOver {
        /// `settled` or `expired`.
        state: String,
        /// What it was charged.
        charged: Amounts,
    },
    /// The limit is not known, so the gate is closed.
    LimitUnknown {
        /// The feature.
        feature: String,
        /// When asking again makes sense.
        retry_after_seconds: i64,
    },
    /// The plan does not name the feature.
    NotInPlan {
        /// The feature.
        feature: String,
    },
    /// Too many new jobs in this minute.
    RateLimited {
        /// When the next minute begins.
        retry_after_seconds: i64,
    },
    /// There is not enough left.
    OverLimit {
        /// The feature.
        feature: String,
        /// `too_big`, `used_up` or `held`.
        reason: String,
        /// How much was asked.
        asked: i64,
        /// How much is left.
        remaining: i64,
        /// What ended jobs used.
        used: i64,
        /// What running jobs hold.
        held: i64,
        /// Absent where there is none.
        limit: Option<i64>,
        /// When the next lease ends.
        next_lease_ends_at_ms: Option<i64>,
        /// Seconds until then.
        retry_after_seconds: Option<i64>,
    },
}

/// An amount of a message.
pub fn units_of(amount: i64) -> Result<Units, Fault> {
    Units::new(amount).ok_or_else(|| Fault::unreadable("read a message", "an amount"))
}
