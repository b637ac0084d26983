//! Hands objects their feed rows as the ledger has them: each compares and sends what is lacking.
//!
//! An object that had a batch confirmed which the ledger does not have is *behind*: the ledger was
//! restored and is not yet filled again, so nothing that is read from it is complete.

use std::collections::{BTreeMap, BTreeSet};

use super::feed::FeedState;
use super::stream::{self, FeedRow};
use super::wire::{ShardAsk, VERSION};
use crate::fault::Fault;
use crate::gate;
use crate::gate::wire::{Ask, Told};
use crate::parallel;
use crate::ports::{Later, ObjectName};
use crate::units::AccountId;
use crate::world::World;

/// Objects asked at once.
const AT_ONCE: usize = 5;

/// Hands every configured shard, and every one that ever sent a batch, its rows. Gives how many
/// are behind or did not answer.
pub async fn hand_to_shards(world: &World) -> Result<i64, Fault> {
    let turn = hand_to_some_shards(world, 0, usize::MAX).await?;
    Ok(turn.behind)
}

/// How a turn of visits to shards went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardTurn {
    /// Shards that were asked.
    pub visited: usize,
    /// Shards that there are.
    pub all: usize,
    /// Of the visited ones, how many are behind or did not answer.
    pub behind: i64,
}

/// The same for at most `most` of them, beginning after the first `skip`: where a run may not make
/// enough calls for all, the next one begins elsewhere.
pub async fn hand_to_some_shards(
    world: &World,
    skip: usize,
    most: usize,
) -> Result<ShardTurn, Fault> {
    let rows = stream::shards(&*world.ledger).await?;
    let known = rows.iter().filter_map(|row| number_of(&row.object));
    let numbers: BTreeSet<u32> = known.chain(0..world.settings.shards).collect();
    let all = numbers.len();
    let rows = &rows;
    let works: Vec<_> = numbers
        .iter()
        .cycle()
        .skip(skip.checked_rem(all).unwrap_or(0))
        .take(most.min(all))
        .copied()
        .map(|number| -> Later<'_, bool> {
            let name = ObjectName::LedgerShard(number).name();
            let own: Vec<_> = rows.iter().filter(|r| r.object == name).cloned().collect();
            Box::pin(async move { ask_shard(world, number, own).await.unwrap_or(true) })
        })
        .collect();
    let visited = works.len();
    let behind = parallel::all(works, AT_ONCE).await;
    Ok(ShardTurn {
        visited,
        all,
        behind: count(&behind),
    })
}

fn number_of(object: &str) -> Option<u32> {
    object.strip_prefix("shard/")?.parse().ok()
}

async fn ask_shard(world: &World, shard: u32, rows: Vec<FeedRow>) -> Result<bool, Fault> {
    let v = VERSION;
    let ask: ShardAsk = ShardAsk::TakeFeed { v, shard, rows };
    let message = serde_json::to_string(&ask)
        .map_err(|e| Fault::unreadable("write a message to a shard", e))?;
    let name = ObjectName::LedgerShard(shard);
    let answer = world.objects.ask(name, message).await?;
    let state: FeedState = serde_json::from_str(&answer)
        .map_err(|e| Fault::unreadable("read the answer of a shard", e))?;
    Ok(state.is_behind())
}

/// Accounts with the rows of their objects, in the order in which they are to be visited.
pub type AccountRows = Vec<(AccountId, Vec<FeedRow>)>;

/// Reads the rows of these accounts' objects.
pub async fn rows_of_accounts<'a>(
    world: &World,
    accounts: impl Iterator<Item = &'a AccountId>,
) -> Result<AccountRows, Fault> {
    let accounts: Vec<_> = accounts.cloned().collect();
    let name = |id: &AccountId| ObjectName::Account(id.clone()).name();
    let names: Vec<_> = accounts.iter().map(name).collect();
    let mut all: BTreeMap<String, Vec<FeedRow>> = BTreeMap::new();
    for row in stream::rows_of(&*world.ledger, &names).await? {
        all.entry(row.object.clone()).or_default().push(row);
    }
    let rows = names
        .iter()
        .map(|name| all.remove(name).unwrap_or_default());
    Ok(accounts.into_iter().zip(rows).collect())
}

/// Hands these accounts' objects their rows. Gives those that are behind or did not answer.
pub async fn hand_to_accounts(world: &World, accounts: AccountRows) -> BTreeSet<AccountId> {
    let ask = |(id, rows)| -> Later<'_, (AccountId, bool)> {
        Box::pin(async move {
            let is_behind = ask_account(world, &id, rows).await.unwrap_or(true);
            (id, is_behind)
        })
    };
    let asked = parallel::all(accounts.into_iter().map(ask).collect(), AT_ONCE).await;
    let behind = asked.into_iter().filter(|(_, is_behind)| *is_behind);
    behind.map(|(id, _)| id).collect()
}

async fn ask_account(world: &World, id: &AccountId, rows: Vec<FeedRow>) -> Result<bool, Fault> {
    match gate::tell(world, id, Ask::TakeFeed { rows }).await? {
        Told::Feed(state) => Ok(state.is_behind()),
        _ => Err(Fault::unreadable(
            "read the answer of an account",
            "no feed",
        )),
    }
}

fn count(behind: &[bool]) -> i64 {
    i64::try_from(behind.iter().filter(|behind| **behind).count()).unwrap_or(i64::MAX)
}
