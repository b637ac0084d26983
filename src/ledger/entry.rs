//! One ledger row: what it says, its JSON form in batches, and ids that a repeat makes again.

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::ports::Row;
use crate::units::{
    AccountId, CallerKey, CycleName, Delta, EntryId, FeatureName, JobId, LinkCode, Millis,
};

/// What kind of fact an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A redirect that was answered.
    Click,
    /// Plain usage, by the caller's key.
    Usage,
    /// A booking of a gated job.
    Job,
    /// Takes back units of the entry that it names.
    Correction,
    /// Moves a difference of a closed cycle into the open one.
    Carry,
}

impl EntryKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Click,
        Self::Usage,
        Self::Job,
        Self::Correction,
        Self::Carry,
    ];

    /// As it is stored and answered.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Click => "click",
            Self::Usage => "usage",
            Self::Job => "job",
            Self::Correction => "correction",
            Self::Carry => "carry",
        }
    }

    /// From its name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == text)
    }
}

/// One fact of usage. When it was recorded is no part of it: the ledger adds that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The same on every try.
    pub entry_id: EntryId,
    /// Whose usage.
    pub account_id: AccountId,
    /// Of what.
    pub feature: FeatureName,
    /// In which cycle it counts.
    pub cycle: CycleName,
    /// How much; negative takes back.
    pub units: Delta,
    /// What kind of fact.
    pub kind: EntryKind,
    /// The link, of a click and its corrections.
    pub code: Option<LinkCode>,
    /// The job, of a booking.
    pub job_id: Option<JobId>,
    /// The caller's key, of plain usage.
    pub key: Option<CallerKey>,
    /// The entry that a correction takes units back from.
    pub corrects: Option<EntryId>,
    /// Why it was corrected or carried.
    pub reason: Option<String>,
    /// The rule and its version, where a rule corrected.
    pub rule: Option<String>,
    /// Who, where a person corrected or carried.
    pub actor: Option<String>,
    /// Two letters, as the platform says.
    pub country: Option<String>,
    /// The host that referred the visitor.
    pub referrer_host: Option<String>,
    /// When it happened.
    pub occurred_at: Millis,
}

impl Entry {
    /// An entry of which only the common part is known.
    pub fn new(
        entry_id: EntryId,
        kind: EntryKind,
        (account_id, feature, cycle): (AccountId, FeatureName, CycleName),
        units: Delta,
        occurred_at: Millis,
    ) -> Self {
        Self {
            entry_id,
            account_id,
            feature,
            cycle,
            units,
            kind,
            code: None,
            job_id: None,
            key: None,
            corrects: None,
            reason: None,
            rule: None,
            actor: None,
            country: None,
            referrer_host: None,
            occurred_at,
        }
    }

    /// The correction of this entry by a rule, for all of its units, in its own cycle.
    #[must_use]
    pub fn corrected_by_rule(&self, reason: &str, rule: &str) -> Self {
        let units = self.units.negated();
        let owner = (
            self.account_id.clone(),
            self.feature.clone(),
            self.cycle.clone(),
        );
        let id = correction_id(&self.entry_id, reason, units);
        let mut correction = Self::new(id, EntryKind::Correction, owner, units, self.occurred_at);
        correction.code.clone_from(&self.code);
        correction.job_id.clone_from(&self.job_id);
        correction.corrects = Some(self.entry_id.clone());
        correction.reason = Some(reason.to_owned());
        correction.rule = Some(rule.to_owned());
        correction
    }

    /// As it stands in a message or a batch.
    pub fn wire(&self) -> EntryWire {
        EntryWire {
            id: self.entry_id.to_string(),
            account: self.account_id.to_string(),
            feature: self.feature.to_string(),
            cycle: self.cycle.to_string(),
            units: self.units.get(),
            kind: self.kind.name().to_owned(),
            code: self.code.as_ref().map(ToString::to_string),
            job: self.job_id.as_ref().map(ToString::to_string),
            key: self.key.as_ref().map(ToString::to_string),
            corrects: self.corrects.as_ref().map(ToString::to_string),
            reason: self.reason.clone(),
            rule: self.rule.clone(),
            actor: self.actor.clone(),
            country: self.country.clone(),
            referrer: self.referrer_host.clone(),
            at: self.occurred_at.get(),
            undated: None,
        }
    }

    /// From a row of the table `entry`.
    pub fn of_row(row: &Row) -> Result<Self, Fault> {
        let wire = EntryWire {
            id: row.text("entry_id")?.to_owned(),
            account: row.text("account_id")?.to_owned(),
            feature: row.text("feature")?.to_owned(),
            cycle: row.text("cycle")?.to_owned(),
            units: row.int("units")?,
            kind: row.text("kind")?.to_owned(),
            code: row.opt_text("code")?.map(str::to_owned),
            job: row.opt_text("job_id")?.map(str::to_owned),
            key: row.opt_text("key")?.map(str::to_owned),
            corrects: row.opt_text("corrects")?.map(str::to_owned),
            reason: row.opt_text("reason")?.map(str::to_owned),
            rule: row.opt_text("rule")?.map(str::to_owned),
            actor: row.opt_text("actor")?.map(str::to_owned),
            country: row.opt_text("country")?.map(str::to_owned),
            referrer: row.opt_text("referrer_host")?.map(str::to_owned),
            at: row.int("occurred_at_ms")?,
            undated: None,
        };
        wire.entry()
    }
}

/// The columns that [`Entry::of_row`] reads, and when it was recorded.
pub const COLUMNS: &str = "entry_id, account_id, feature, cycle, units, kind, code, job_id, key, \
    corrects, reason, rule, actor, country, referrer_host, occurred_at_ms, recorded_at_ms";

/// An entry in a message or a batch, version 1. The names are those that `ledger::batch` reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // The fields of `Entry` by shorter names.
pub struct EntryWire {
    pub id: String,
    pub account: String,
    pub feature: String,
    pub cycle: String,
    pub units: i64,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrects: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub country: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub referrer: Option<String>,
    pub at: i64,
    /// 1 where the caller named no time: a repeat is then the same fact at whatever time it comes,
    /// and the first time wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undated: Option<u8>,
}

impl EntryWire {
    /// The entry, every part of it checked.
    pub fn entry(self) -> Result<Entry, Fault> {
        let wrong = || Fault::unreadable("read an entry", "a part of it has not its form");
        Ok(Entry {
            entry_id: EntryId::new(self.id).ok_or_else(wrong)?,
            account_id: AccountId::new(self.account).ok_or_else(wrong)?,
            feature: FeatureName::new(self.feature).ok_or_else(wrong)?,
            cycle: CycleName::new(self.cycle).ok_or_else(wrong)?,
            units: Delta::new(self.units).ok_or_else(wrong)?,
            kind: EntryKind::parse(&self.kind).ok_or_else(wrong)?,
            code: read(self.code, LinkCode::new)?,
            job_id: read(self.job, JobId::new)?,
            key: read(self.key, CallerKey::new)?,
            corrects: read(self.corrects, EntryId::new)?,
            reason: self.reason,
            rule: self.rule,
            actor: self.actor,
            country: self.country,
            referrer_host: self.referrer,
            occurred_at: Millis::new(self.at),
        })
    }
}

fn read<T>(text: Option<String>, parse: fn(String) -> Option<T>) -> Result<Option<T>, Fault> {
    match text {
        None => Ok(None),
        Some(text) => parse(text)
            .map(Some)
            .ok_or_else(|| Fault::unreadable("read an entry", "an id has not its form")),
    }
}

/// An id that is always the same for the same parts: a prefix and 160 bits of their SHA-256.
/// Each part is hashed after its length, so that no two lists of parts are alike.
pub fn made_of(prefix: &'static str, parts: &[&str]) -> EntryId {
    let mut hash = hmac_sha256::Hash::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    EntryId::of_digest(prefix, &hash.finalize())
}

/// The id of plain usage: account and the caller's key.
pub fn usage_id(account_id: &AccountId, key: &CallerKey) -> EntryId {
    made_of("use_", &[account_id.as_str(), key.as_str()])
}

/// The id of a rule's correction: what it corrects, why, and by how much.
pub fn correction_id(corrects: &EntryId, reason: &str, units: Delta) -> EntryId {
    made_of("cor_", &[corrects.as_str(), reason, &units.to_string()])
}

/// The id of a person's correction, never that of a rule's; `None`: all that is left.
pub fn manual_id(corrects: &EntryId, reason: &str, units: Option<Delta>) -> EntryId {
    let units = units.map_or_else(|| "all".to_owned(), |units| units.to_string());
    made_of("cor_", &["by hand", corrects.as_str(), reason, &units])
}

/// The id of a job's booking: account, job, feature, cycle and the booking's number.
pub fn booking_id(
    account_id: &AccountId,
    job_id: &JobId,
    (feature, cycle): (&FeatureName, &CycleName),
    number: i64,
) -> EntryId {
    let number = number.to_string();
    let job = job_id.as_str();
    made_of(
        "job_",
        &[
            account_id.as_str(),
            job,
            feature.as_str(),
            cycle.as_str(),
            &number,
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_different_parts_differ_also_where_the_parts_run_together_alike() {
        assert_ne!(made_of("use_", &["ab", "c"]), made_of("use_", &["a", "bc"]));
        assert_ne!(made_of("use_", &["a"]), made_of("use_", &["a", ""]));
        assert_eq!(made_of("use_", &["a", "b"]), made_of("use_", &["a", "b"]));
    }

    #[test]
    fn a_booking_in_another_feature_or_cycle_has_another_id() {
        let account = AccountId::new("a").unwrap();
        let job = JobId::new("job_1").unwrap();
        let (tokens, images) = (
            FeatureName::new("tokens").unwrap(),
            FeatureName::new("images").unwrap(),
        );
        let (old, new) = (CycleName::of(2026, 10, 1), CycleName::of(2026, 11, 1));
        let first = booking_id(&account, &job, (&tokens, &old), 1);
        assert_ne!(first, booking_id(&account, &job, (&images, &old), 1));
        assert_ne!(first, booking_id(&account, &job, (&tokens, &new), 1));
        assert_ne!(first, booking_id(&account, &job, (&tokens, &old), 2));
    }

    #[test]
    fn an_entry_reads_back_as_it_was_written() {
        let mut entry = Entry::new(
            EntryId::new("clk_1").unwrap(),
            EntryKind::Click,
            (
                AccountId::new("a").unwrap(),
                FeatureName::new("clicks").unwrap(),
                CycleName::of(2026, 11, 1),
            ),
            Delta::new(1).unwrap(),
            Millis::new(7),
        );
        entry.code = LinkCode::new("x");
        entry.country = Some("NZ".to_owned());
        let text = serde_json::to_string(&entry.wire()).unwrap();
        let wire: EntryWire = serde_json::from_str(&text).unwrap();
        assert_eq!(wire.entry().unwrap(), entry);
    }
}
