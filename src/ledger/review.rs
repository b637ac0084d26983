//! What a person must look at: `review` in `LEDGER_0`. An item's id is made from what it is about,
//! so that the same finding opens one item, however often it is met.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::entry::made_of;
use crate::fault::Fault;
use crate::params;
use crate::ports::{Db, Statement};
use crate::units::Millis;

/// Why a person must look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewKind {
    /// An entry came again with other content.
    Conflict,
    /// A settle reported use after its job had ended.
    LateUse,
    /// An object's stream has a gap that it cannot fill.
    Feed,
    /// A closed cycle has entries after its last confirmed report.
    Tail,
    /// A closed cycle differs otherwise.
    ClosedCycle,
    /// The provider held a total that we did not write.
    ForeignTotal,
    /// What an earlier meter of the cycle holds cannot be known.
    BaseInDoubt,
    /// The provider's period is not our cycle.
    PeriodMismatch,
    /// The provider deleted the user or organisation of an account.
    CustomerDeleted,
}

impl ReviewKind {
    /// As it is stored and answered.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::LateUse => "late_use",
            Self::Feed => "feed",
            Self::Tail => "tail",
            Self::ClosedCycle => "closed_cycle",
            Self::ForeignTotal => "foreign_total",
            Self::BaseInDoubt => "base_in_doubt",
            Self::PeriodMismatch => "period_mismatch",
            Self::CustomerDeleted => "customer_deleted",
        }
    }

    /// From its name.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_value(Json::String(text.to_owned())).ok()
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// Made from what it is about.
    pub review_id: String,
    /// Why a person must look.
    pub kind: ReviewKind,
    /// Whose.
    pub account: Option<String>,
    /// Of what.
    pub feature: Option<String>,
    /// In which cycle.
    pub cycle: Option<String>,
    /// What was found.
    pub numbers: Json,
    /// When.
    pub at: i64,
}

impl Review {
    /// A finding about `subject`: the parts that tell it from every other of its kind.
    pub fn new(kind: ReviewKind, subject: &[&str], numbers: Json, at: Millis) -> Self {
        let mut parts = vec![kind.name()];
        parts.extend(subject);
        let (account, feature, cycle) = (None, None, None);
        Self {
            review_id: made_of("rev_", &parts).to_string(),
            kind,
            account,
            feature,
            cycle,
            numbers,
            at: at.get(),
        }
    }

    /// The same, of an account's feature in a cycle.
    #[must_use]
    pub fn of(mut self, account: &str, feature: Option<&str>, cycle: Option<&str>) -> Self {
        self.account = Some(account.to_owned());
        self.feature = feature.map(str::to_owned);
        self.cycle = cycle.map(str::to_owned);
        self
    }

    /// Opens it; what was opened before, and perhaps closed, stays as it is.
    pub fn open(&self) -> Statement {
        Statement::new(
            "insert into review \
             (review_id, kind, account_id, feature, cycle, numbers, opened_at_ms) \
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7) on conflict (review_id) do nothing",
            params![
                self.review_id.as_str(),
                self.kind.name(),
                self.account.as_deref(),
                self.feature.as_deref(),
                self.cycle.as_deref(),
                self.numbers.to_string(),
                Millis::new(self.at)
            ],
        )
    }
}

/// Whether the item was closed; `None` where there is none, because the ledger was put back.
pub async fn is_closed(db: &dyn Db, review_id: &str) -> Result<Option<bool>, Fault> {
    let sql = "select closed_at_ms from review where review_id = ?1";
    let rows = db.query(Statement::new(sql, params![review_id])).await?;
    match rows.first() {
        None => Ok(None),
        Some(row) => Ok(Some(row.opt_millis("closed_at_ms")?.is_some())),
    }
}
