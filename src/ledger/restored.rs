//! What a `LEDGER_0` that was put back cannot know of its meters.
//!
//! A meter of a running cycle may have been written since, so what its row says it holds is in
//! doubt; and rows that were made since are gone, although their meters hold what they were sent.
//! Without them the base of the cycle's current meter would come out too low and the cycle be
//! billed twice. They are found again from the agreements that DB knows, before anything is
//! written: `base` then reads what each holds, and a person is asked where nobody can say.

use std::collections::BTreeMap;

use serde_json::json;

use super::base_rules::{KnownAgreement, forgotten};
use super::billed::Billed;
use super::meter_rules::Period;
use super::meter_store::{self as store, Meter, Pair};
use crate::fault::Fault;
use crate::params;
use crate::ports::{Row, Statement};
use crate::units::{AccountId, Millis};
use crate::world::World;

/// An agreement's row in DB.
struct Agreement {
    id: String,
    feature_keys: Vec<String>,
    period: Period,
    expires_at: Option<Millis>,
    first_seen: Millis,
}

impl Agreement {
    fn of_row(row: &Row) -> Result<Self, Fault> {
        let keys = row.text("feature_keys")?;
        Ok(Self {
            id: row.text("agreement_id")?.to_owned(),
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
}

impl Agreement {
    fn known<'a>(&'a self, billed: &Billed) -> KnownAgreement<'a> {
        let current = billed.account.agreement_id.as_ref();
        KnownAgreement {
            agreement_id: &self.id,
            is_current: current.is_some_and(|id| id.as_str() == self.id),
            first_seen: self.first_seen,
            period: self.period,
            expires_at: self.expires_at,
        }
    }

    fn contains(&self, provider_key: &String) -> bool {
        self.feature_keys.is_empty() || self.feature_keys.contains(provider_key)
    }
}

/// Puts every meter of these accounts' running cycles in doubt, and makes the rows of those that
/// the ledger has forgotten.
pub async fn doubt_meters(
    world: &World,
    billed: &BTreeMap<AccountId, Billed>,
) -> Result<(), Fault> {
    let now = world.now();
    let agreements = agreements_of(world, billed).await?;
    let cycles: Vec<_> = billed
        .values()
        .map(|one| (one, one.account.cycle_at(now)))
        .collect();
    let running: Vec<_> = cycles
        .iter()
        .map(|(one, cycle)| [one.account.account_id.as_str(), cycle.name.as_str()])
        .collect();
    let running = json!(running).to_string();
    let meters = store::meters_in(&*world.ledger, &running).await?;
    let mut statements = vec![store::doubt_all(&running)];
    for (one, cycle) in &cycles {
        let known = agreements.get(&one.account.account_id);
        let known = known.map(Vec::as_slice).unwrap_or_default();
        for (name, feature) in &world.settings.features {
            let pair = Pair {
                account_id: one.account.account_id.clone(),
                feature: name.clone(),
                cycle: cycle.name.clone(),
            };
            let of_pair = meters.get(&pair).map(Vec::as_slice).unwrap_or_default();
            let identities: Vec<_> = of_pair.iter().map(Meter::identity).collect();
            let last = of_pair.last().map_or(0, |meter| meter.number);
            let of_feature: Vec<_> = known
                .iter()
                .filter(|agreement| agreement.contains(&feature.provider_key))
                .map(|agreement| agreement.known(one))
                .collect();
            let missing = forgotten(cycle, &of_feature, &identities);
            let again = (last + 1..).zip(missing);
            statements.extend(again.map(|(number, meter)| store::find_again(&pair, number, meter)));
        }
    }
    world.ledger.batch(statements).await?;
    Ok(())
}

async fn agreements_of(
    world: &World,
    billed: &BTreeMap<AccountId, Billed>,
) -> Result<BTreeMap<AccountId, Vec<Agreement>>, Fault> {
    let ids: Vec<&str> = billed.keys().map(AccountId::as_str).collect();
    let sql = "select account_id, agreement_id, feature_keys, period_start_ms, period_end_ms, \
        expires_at_ms, first_seen_ms from agreement \
        where account_id in (select value from json_each(?1)) \
        order by account_id, first_seen_ms, agreement_id";
    let statement = Statement::new(sql, params![json!(ids).to_string()]);
    let mut agreements: BTreeMap<AccountId, Vec<Agreement>> = BTreeMap::new();
    for row in world.db.query(statement).await? {
        let id = row.id("account_id", AccountId::new)?;
        agreements
            .entry(id)
            .or_default()
            .push(Agreement::of_row(&row)?);
    }
    Ok(agreements)
}
