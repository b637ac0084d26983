//! The sweeper: every minute, whoever owes something and did not do it by itself is woken.
//!
//! Alarms can be lost and objects can be restored; nothing is true only because a timer ran. Every
//! shard that is configured or has a feed is handed its rows, and so is every account whose due
//! time has passed: it sweeps its leases, turns its cycle, and sends what waits. Idempotent, in
//! pages, longest overdue first, each account at most once a run.

use std::rc::Rc;

use serde_json::{Value as Json, json};

use crate::accounts::Account;
use crate::fault::Fault;
use crate::ledger::feeds;
use crate::ledger::stream::{self, Overdue};
use crate::units::AccountId;
use crate::world::{Calls, World};

/// Accounts in one page.
const PAGE_ROWS: i64 = 100;
/// What a page costs beside its accounts: the list, and their rows.
const CALLS_PER_PAGE: u32 = 2;
/// The shards' rows and one shard, a page and one account.
pub const CALLS_LEAST: u32 = 2 + CALLS_PER_PAGE + 1;

/// What one run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Shards that were visited.
    pub shards: i64,
    /// Accounts that were visited.
    pub accounts: i64,
    /// Of these, how many did not answer, or lack in the ledger what it once had confirmed.
    pub behind: i64,
    /// Whether nobody is left that is overdue.
    pub done: bool,
}

impl Summary {
    /// As the route answers it.
    pub fn json(&self) -> Json {
        json!({"shards": self.shards, "accounts": self.accounts, "behind": self.behind,
            "done": self.done})
    }
}

/// One run.
pub async fn run(world: &Rc<World>, calls: &Calls) -> Result<Summary, Fault> {
    let mut summary = Summary::default();
    let all_shards = visit_shards(world, calls, &mut summary).await?;
    let all_accounts = visit_accounts(world, calls, &mut summary).await?;
    summary.done = all_shards && all_accounts;
    Ok(summary)
}

/// One account alone, overdue or not.
pub async fn run_account(world: &World, account: &Account) -> Result<Summary, Fault> {
    let rows = feeds::rows_of_accounts(world, std::iter::once(&account.account_id)).await?;
    let behind = feeds::hand_to_accounts(world, rows).await;
    Ok(Summary {
        accounts: 1,
        behind: i64::try_from(behind.len()).unwrap_or(i64::MAX),
        done: true,
        ..Summary::default()
    })
}

/// Half of the calls at most, so that many shards never keep overdue accounts waiting.
async fn visit_shards(world: &World, calls: &Calls, summary: &mut Summary) -> Result<bool, Fault> {
    let most = usize::try_from(calls.left() / 2).unwrap_or(usize::MAX);
    // The minute's number, so that where not all are visited each has its turn.
    let minute = usize::try_from(world.now().get().div_euclid(60_000)).unwrap_or(0);
    let turn = feeds::hand_to_some_shards(world, minute.saturating_mul(most), most).await?;
    summary.shards += i64::try_from(turn.visited).unwrap_or(i64::MAX);
    summary.behind += turn.behind;
    Ok(turn.visited == turn.all)
}

async fn visit_accounts(
    world: &World,
    calls: &Calls,
    summary: &mut Summary,
) -> Result<bool, Fault> {
    let now = world.now();
    let mut after: Option<Overdue> = None;
    loop {
        let affordable = i64::from(calls.left().saturating_sub(CALLS_PER_PAGE)).min(PAGE_ROWS);
        if affordable == 0 {
            return Ok(false);
        }
        let page =
            stream::overdue_accounts(&*world.ledger, now, after.as_ref(), affordable).await?;
        let ids: Vec<AccountId> = page
            .iter()
            .filter_map(|(_, object)| object.strip_prefix("account/"))
            .filter_map(AccountId::new)
            .collect();
        if !ids.is_empty() {
            let rows = feeds::rows_of_accounts(world, ids.iter()).await?;
            let behind = feeds::hand_to_accounts(world, rows).await;
            summary.behind += i64::try_from(behind.len()).unwrap_or(i64::MAX);
        }
        summary.accounts += i64::try_from(ids.len()).unwrap_or(i64::MAX);
        if i64::try_from(page.len()).unwrap_or(0) < affordable {
            return Ok(true);
        }
        after = page.into_iter().next_back();
    }
}
