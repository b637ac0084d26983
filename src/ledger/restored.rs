//! What a `LEDGER_0` that was put back cannot know of its meters.
//!
//! A meter of a running cycle may have been written since, so what its row says it holds is in
//! doubt; and rows that were made since are gone, although their meters hold what they were sent.
//! Without them the base of the cycle's current meter would come out too low and the cycle be
//! billed twice. They are found again from the agreements that DB knows, before anything is
//! written: `base` then reads what each holds, and a person is asked where nobody can say.

use std::collections::BTreeMap;

use serde_json::json;

use super::base_rules::without_row;
use super::billed::Billed;
use super::meter_store::{self as store, Meter, Pair};
use crate::fault::Fault;
use crate::units::AccountId;
use crate::world::World;

/// Puts every meter of these accounts' running cycles in doubt, and makes the rows of those that
/// the ledger has forgotten.
pub async fn doubt_meters(
    world: &World,
    billed: &BTreeMap<AccountId, Billed>,
) -> Result<(), Fault> {
    let now = world.now();
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
    let mut found = Vec::new();
    for (one, cycle) in &cycles {
        // Whether somebody else or we wrote the current one, nobody can tell.
        let agreements = (one.agreements.as_slice(), None);
        for (name, feature) in &world.settings.features {
            let pair = Pair {
                account_id: one.account.account_id.clone(),
                feature: name.clone(),
                cycle: cycle.name.clone(),
            };
            let of_pair = meters.get(&pair).map(Vec::as_slice).unwrap_or_default();
            let identities: Vec<_> = of_pair.iter().map(Meter::identity).collect();
            let missing = without_row(cycle, &feature.provider_key, agreements, &identities);
            found.push((pair, missing));
        }
    }
    let statements = vec![store::find(&found, now), store::doubt_all(&running)];
    world.ledger.batch(statements).await?;
    Ok(())
}
