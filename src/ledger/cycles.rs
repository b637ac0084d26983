//! The cycle in which a fact counts: from the account's anchors, which are fixed before the first
//! entry refers to one of its cycles.
//!
//! An isolate remembers what it read for a few minutes. A boundary that is moved lies at least ten
//! minutes ahead, so every isolate knows of it in time.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::accounts::store;
use crate::cycle::{Anchor, Cycle, cycle_at};
use crate::fault::Fault;
use crate::units::{AccountId, CycleName, Millis};
use crate::world::World;

/// For how long anchors are believed without asking again.
const KNOWN_FOR_MS: i64 = 300_000;
/// Accounts that one isolate remembers.
const ACCOUNTS_MAX: usize = 5_000;

#[derive(Clone)]
struct Known {
    anchors: Vec<Anchor>,
    read_at: Millis,
    /// The cycle whose row was stored last.
    stored: Option<CycleName>,
}

/// Fixed anchors of the accounts that were met last.
#[derive(Default)]
pub struct Remembered(RefCell<BTreeMap<AccountId, Known>>);

impl Remembered {
    /// Whether no account was met yet.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    fn get(&self, account_id: &AccountId) -> Option<Known> {
        self.0.borrow().get(account_id).cloned()
    }

    fn keep(&self, account_id: &AccountId, known: Known) {
        let mut map = self.0.borrow_mut();
        if map.len() >= ACCOUNTS_MAX && !map.contains_key(account_id) {
            map.clear();
        }
        map.insert(account_id.clone(), known);
    }
}

/// The cycle of the account in which `at` lies, its anchor fixed and its row stored. While the
/// database cannot be read, what was read before is used.
pub async fn cycle_for(world: &World, account_id: &AccountId, at: Millis) -> Result<Cycle, Fault> {
    let (memory, now) = (&world.isolate.cycles, world.now());
    let before = memory.get(account_id);
    if let Some(known) = &before
        && now.since(known.read_at) < KNOWN_FOR_MS
    {
        let cycle = cycle_at(&known.anchors, at);
        if known.stored.as_ref() == Some(&cycle.name) {
            return Ok(cycle);
        }
    }
    match fix_and_store(world, account_id, at, now).await {
        Ok(cycle) => Ok(cycle),
        Err(fault) => match before {
            Some(known) => Ok(cycle_at(&known.anchors, at)),
            None => Err(fault),
        },
    }
}

async fn fix_and_store(
    world: &World,
    account_id: &AccountId,
    at: Millis,
    now: Millis,
) -> Result<Cycle, Fault> {
    let anchors = store::fix_anchor(&*world.db, account_id, now).await?;
    let cycle = cycle_at(&anchors, at);
    world.db.query(store::cycle_row(account_id, &cycle)).await?;
    let known = Known {
        anchors,
        read_at: now,
        stored: Some(cycle.name.clone()),
    };
    world.isolate.cycles.keep(account_id, known);
    Ok(cycle)
}
