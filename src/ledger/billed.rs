//! An account and its agreements, as DB has them: whose meters are written, and in which period of
//! the provider.

use std::collections::BTreeMap;

use serde_json::json;

use super::base_rules::Agreement;
use super::meter_rules::Period;
use crate::accounts::{Account, store};
use crate::cycle::{Anchor, Cycle, cycle_at};
use crate::fault::Fault;
use crate::moment::of_civil_clamped;
use crate::params;
use crate::ports::{Db, Row, Statement, Value};
use crate::units::{AccountId, AgreementId, CycleName};

/// An account and what is billed for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Billed {
    /// The account with its anchors.
    pub account: Account,
    /// The agreement that the account's row names; absent while nothing is billed.
    pub agreement: Option<Agreement>,
    /// All its agreements, in the order in which we heard of them.
    pub agreements: Vec<Agreement>,
}

/// These accounts, those of them that exist, in one batch.
pub async fn load(db: &dyn Db, ids: &[AccountId]) -> Result<BTreeMap<AccountId, Billed>, Fault> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let list: Vec<&str> = ids.iter().map(AccountId::as_str).collect();
    let list = json!(list).to_string();
    read(db, LISTED, params![list]).await
}

/// The next accounts in the order of their ids, in one batch.
pub async fn page(
    db: &dyn Db,
    after: &str,
    rows: i64,
) -> Result<BTreeMap<AccountId, Billed>, Fault> {
    read(db, FOLLOWING, params![after, rows]).await
}

/// Which accounts: those of a JSON list.
const LISTED: &str = "select value from json_each(?1)";
/// Which accounts: so many after an id.
const FOLLOWING: &str = "select account_id from account where account_id > ?1 \
    order by account_id limit cast(?2 as integer)";

async fn read(
    db: &dyn Db,
    which: &str,
    params: Vec<Value>,
) -> Result<BTreeMap<AccountId, Billed>, Fault> {
    let agreements = format!(
        "select g.account_id, g.agreement_id, g.period_start_ms, g.period_end_ms, \
         g.feature_keys, g.expires_at_ms, g.first_seen_ms from agreement g \
         where g.account_id in ({which}) order by g.first_seen_ms, g.agreement_id"
    );
    let agreements = Statement::new(agreements, params.clone());
    let results = db
        .batch(vec![store::all_of(which, params), agreements])
        .await?;
    let mut results = results.into_iter();
    let accounts = store::each_of(&results.next().unwrap_or_default())?;
    let mut agreements: BTreeMap<AccountId, Vec<Agreement>> = BTreeMap::new();
    for row in results.next().unwrap_or_default() {
        let id = row.id("account_id", AccountId::new)?;
        agreements.entry(id).or_default().push(agreement_of(&row)?);
    }
    let billed = |account: Account| {
        let id = account.account_id.clone();
        let agreements = agreements.remove(&id).unwrap_or_default();
        let is_current =
            |one: &&Agreement| account.agreement_id.as_ref() == Some(&one.agreement_id);
        let billed = Billed {
            agreement: agreements.iter().find(is_current).cloned(),
            agreements,
            account,
        };
        (id, billed)
    };
    Ok(accounts.into_iter().map(billed).collect())
}

fn agreement_of(row: &Row) -> Result<Agreement, Fault> {
    let keys = row.text("feature_keys")?;
    Ok(Agreement {
        agreement_id: row.id("agreement_id", AgreementId::new)?,
        feature_keys: serde_json::from_str(keys)
            .map_err(|e| Fault::unreadable("read an agreement's feature keys", e))?,
        period: Period {
            starts_at: row.opt_millis("period_start_ms")?,
            ends_at: row.opt_millis("period_end_ms")?,
        },
        expires_at: row.opt_millis("expires_at_ms")?,
        first_seen: row.millis("first_seen_ms")?,
    })
}

/// The cycle of that name under these anchors; `None` where there is none of that name.
pub fn cycle_named(anchors: &[Anchor], name: &CycleName) -> Option<Cycle> {
    let text = name.as_str();
    let year = text.get(0..4)?.parse().ok()?;
    let month = text.get(5..7)?.parse().ok()?;
    let last_day = of_civil_clamped(year, month, 31, 86_399_999)?;
    let mut cycle = cycle_at(anchors, last_day);
    // One round for each cycle that starts in the month: one, and one more for each anchor.
    for _ in 0..=anchors.len() + 1 {
        if cycle.name == *name {
            return Some(cycle);
        }
        cycle = cycle_at(anchors, cycle.starts_at.after(-1));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::parse_millis;

    #[test]
    fn a_cycle_is_found_again_by_its_name_also_where_two_start_in_a_month() {
        let at = |text: &str| parse_millis(text).expect("a moment");
        let anchors = [
            Anchor::first(at("2026-01-10T00:00:00Z")),
            Anchor {
                at: at("2026-03-25T00:00:00Z"),
                day: 25,
                opens: Some(at("2026-03-10T00:00:00Z")),
            },
        ];
        for moment in [
            "2026-01-31",
            "2026-03-12",
            "2026-03-25",
            "2026-04-24",
            "2027-02-01",
        ] {
            let cycle = cycle_at(&anchors, at(&format!("{moment}T00:00:00Z")));
            assert_eq!(cycle_named(&anchors, &cycle.name), Some(cycle));
        }
        let nowhere = CycleName::of(2026, 7, 2);
        assert_eq!(cycle_named(&anchors, &nowhere), None);
    }
}
