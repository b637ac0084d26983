//! Accounts: one customer of the operator each, with keys, an anchor and a plan.
//!
//! The account's row says what is known of it; the anchor is fixed by one conditional statement at
//! the first redirect or admission, and every cycle is computed from it by `crate::cycle`.

pub mod audit;
pub mod change;
pub mod create;
pub mod keys;
pub mod memory;
pub mod rules;
pub mod secrets;
pub mod sessions;
pub mod store;

use crate::cycle::{Anchor, Cycle, cycle_at};
use crate::units::{AccountId, AgreementId, CustomerId, Millis, PlanCode};

/// Where an anchor came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnchorSource {
    /// `starts_at` was given.
    Given,
    /// The current agreement's period.
    Period,
    /// When the plan was subscribed to.
    SubscribedOn,
    /// Nothing was known: the first of the month.
    Calendar,
    /// A closed `period_mismatch`.
    PeriodMismatch,
}

impl AnchorSource {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Given,
        Self::Period,
        Self::SubscribedOn,
        Self::Calendar,
        Self::PeriodMismatch,
    ];

    /// From what is stored.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.name() == text)
    }

    /// As it is stored and answered.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Given => "starts_at",
            Self::Period => "current_period_start",
            Self::SubscribedOn => "subscribed_on",
            Self::Calendar => "calendar_month",
            Self::PeriodMismatch => "period_mismatch",
        }
    }
}

/// What stands in DB of one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its id.
    pub account_id: AccountId,
    /// For people.
    pub name: Option<String>,
    /// The account's id at the provider.
    pub customer_id: Option<CustomerId>,
    /// Which ledger database holds its entries.
    pub ledger: String,
    /// New jobs a minute, where it differs from the setting.
    pub jobs_per_minute: Option<i64>,
    /// The plan as last known.
    pub plan: PlanCode,
    /// Since when; absent before the first sync.
    pub plan_since: Option<Millis>,
    /// `ok` or `overdue`.
    pub payment: String,
    /// The current agreement.
    pub agreement_id: Option<AgreementId>,
    /// Made by the Lab or the Engine Room.
    pub demo: bool,
    /// Whether its object may ever have admitted a job; one that never did owes the ledger nothing.
    pub may_have_jobs: bool,
    /// In the order in which they were made; the first one may still change until it is fixed.
    pub anchors: Vec<Anchor>,
    /// Where the first anchor came from.
    pub anchor_source: AnchorSource,
    /// Whether the first anchor is fixed.
    pub anchor_fixed: bool,
}

impl Account {
    /// The cycle in which `at` lies.
    pub fn cycle_at(&self, at: Millis) -> Cycle {
        cycle_at(&self.anchors, at)
    }
}
