//! Evidence: one row for each comparison that says something new.
//!
//! A run that found drift in an open cycle always adds its row. Otherwise none is added where
//! verdict and numbers equal the latest row's, or where it is a match at that row's read-back: the
//! repair already said so.

use serde_json::{Value as Json, json};

use super::meter_rules::{Cause, Facts, Verdict};
use super::meter_store::Pair;
use crate::fault::Fault;
use crate::moment;
use crate::params;
use crate::ports::{Db, Row, Statement};
use crate::units::{AccountId, CycleName, Delta, FeatureName, Millis, Units};

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Of what.
    pub pair: Pair,
    /// The current meter's agreement, where there is one.
    pub agreement_id: Option<String>,
    /// The numbers.
    pub facts: Facts,
    /// The counter as it was found.
    pub counters: Delta,
    /// What they say.
    pub verdict: Verdict,
    /// Why.
    pub cause: Option<Cause>,
    /// What was written.
    pub repaired_to: Option<Units>,
    /// What was read back.
    pub read_back: Option<Delta>,
    /// When.
    pub at: Millis,
}

const ADD: &str = "with said as (select value ->> 'account' as account_id, \
    value ->> 'feature' as feature, value ->> 'cycle' as cycle, \
    value ->> 'agreement_id' as agreement_id, value ->> 'ledger' as ledger, \
    value ->> 'counters' as counters, value ->> 'base' as base, value ->> 'sent' as sent, \
    value ->> 'provider' as provider, value ->> 'verdict' as verdict, \
    value ->> 'cause' as cause, value ->> 'repaired_to' as repaired_to, \
    value ->> 'read_back' as read_back, value ->> 'at' as at_ms, value ->> 'always' as always \
    from json_each(?1)) \
    insert into evidence (account_id, feature, cycle, agreement_id, ledger, counters, base, sent, \
    provider, verdict, cause, repaired_to, read_back, at_ms) \
    select s.account_id, s.feature, s.cycle, s.agreement_id, s.ledger, s.counters, s.base, \
    s.sent, s.provider, s.verdict, s.cause, s.repaired_to, s.read_back, s.at_ms from said s \
    where s.always = 1 or not exists (select 1 from evidence l \
    where l.number = (select max(n.number) from evidence n where n.account_id = s.account_id \
      and n.feature = s.feature and n.cycle = s.cycle) \
    and ((l.verdict = s.verdict and l.ledger = s.ledger and l.counters = s.counters \
        and l.base = s.base and l.sent is s.sent and l.provider is s.provider \
        and l.agreement_id is s.agreement_id) \
      or (s.verdict = 'match' and l.read_back = s.provider and l.ledger = s.ledger \
        and l.base = s.base)))";

/// Adds these rows, each if it says something new; no pair stands among them twice.
pub fn add_all<'a>(rows: impl IntoIterator<Item = &'a Evidence>) -> Statement {
    let rows: Vec<Json> = rows.into_iter().map(Evidence::row).collect();
    Statement::new(ADD, params![json!(rows).to_string()])
}

impl Evidence {
    /// Adds the row, if it says something new.
    pub fn add(&self) -> Statement {
        add_all([self])
    }

    /// What a dry run answers, and what was done beside it.
    fn row(&self) -> Json {
        let always = self.verdict.is_drift() && !self.facts.closed;
        let done = [
            ("repaired_to", json!(self.repaired_to.map(Units::get))),
            ("read_back", json!(self.read_back.map(Delta::get))),
            ("at", json!(self.at.get())),
            ("always", json!(i64::from(always))),
        ];
        let mut row = self.json();
        if let Some(members) = row.as_object_mut() {
            members.extend(done.map(|(name, value)| (name.to_owned(), value)));
        }
        row
    }

    /// As a dry run answers it: what its row would say, without what was not written.
    pub fn json(&self) -> Json {
        json!({
            "account": self.pair.account_id.as_str(),
            "feature": self.pair.feature.as_str(),
            "cycle": self.pair.cycle.as_str(),
            "agreement_id": self.agreement_id,
            "ledger": self.facts.ledger.get(),
            "counters": self.counters.get(),
            "base": self.facts.base.get(),
            "sent": self.facts.sent.map(Delta::get),
            "provider": self.facts.provider.map(Delta::get),
            "verdict": self.verdict.name(),
            "cause": self.cause.map(Cause::name),
        })
    }
}

/// Which rows a list shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only this account's.
    pub account: Option<AccountId>,
    /// Only of this feature.
    pub feature: Option<FeatureName>,
    /// Only of this cycle.
    pub cycle: Option<CycleName>,
}

/// Newest first, from before the row of the number `before`. Where no account is asked for, those
/// of the JSON list `hidden` are left out.
pub async fn list(
    ledger: &dyn Db,
    filter: &Filter,
    hidden: &str,
    before: Option<i64>,
    rows: i64,
) -> Result<Vec<Row>, Fault> {
    let sql = "select * from evidence where (?1 is null or account_id = ?1) \
        and (?2 is null or feature = ?2) and (?3 is null or cycle = ?3) \
        and (?4 is null or number < ?4) \
        and (?1 is not null or account_id not in (select value from json_each(?6))) \
        order by number desc limit cast(?5 as integer)";
    let params = params![
        filter.account.as_ref().map(AccountId::as_str),
        filter.feature.as_ref().map(FeatureName::as_str),
        filter.cycle.as_ref().map(CycleName::as_str),
        before,
        rows,
        hidden
    ];
    ledger.query(Statement::new(sql, params)).await
}

/// A row as it is answered.
pub fn view(row: &Row) -> Result<Json, Fault> {
    Ok(json!({
        "number": row.int("number")?,
        "account": row.text("account_id")?,
        "feature": row.text("feature")?,
        "cycle": row.text("cycle")?,
        "agreement_id": row.opt_text("agreement_id")?,
        "ledger": row.int("ledger")?,
        "counters": row.int("counters")?,
        "base": row.int("base")?,
        "sent": row.opt_int("sent")?,
        "provider": row.opt_int("provider")?,
        "verdict": row.text("verdict")?,
        "cause": row.opt_text("cause")?,
        "repaired_to": row.opt_int("repaired_to")?,
        "read_back": row.opt_int("read_back")?,
        "at": moment::format(row.millis("at_ms")?),
    }))
}
