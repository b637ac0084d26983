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
/// Cycles of one account that an isolate remembers.
const CYCLES_MAX: usize = 4;
/// Accounts that one isolate remembers.
const ACCOUNTS_MAX: usize = 5_000;

#[derive(Clone)]
struct Known {
    anchors: Vec<Anchor>,
    read_at: Millis,
    /// The cycles whose rows were stored; a fact lies in the running or the next one.
    stored: Vec<Cycle>,
}

impl Known {
    /// The cycle in which `at` lies, where its row was stored and the anchors are still believed.
    fn cycle(&self, at: Millis, now: Millis) -> Option<&Cycle> {
        let holds = |cycle: &&Cycle| cycle.starts_at <= at && at < cycle.ends_at;
        let stored = self.stored.iter().find(holds);
        stored.filter(|_| now.since(self.read_at) < KNOWN_FOR_MS)
    }
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

/// The name of the account's cycle in which `at` lies, where this isolate knows it.
pub fn known_at_once(world: &World, account_id: &AccountId, at: Millis) -> Option<CycleName> {
    let memory = world.isolate.cycles.0.borrow();
    let cycle = memory.get(account_id)?.cycle(at, world.now())?;
    Some(cycle.name.clone())
}

/// The cycle of the account in which `at` lies, its anchor fixed and its row stored. While the
/// database cannot be read, what was read before is used.
pub async fn cycle_for(world: &World, account_id: &AccountId, at: Millis) -> Result<Cycle, Fault> {
    let (memory, now) = (&world.isolate.cycles, world.now());
    let before = memory.get(account_id);
    if let Some(cycle) = before.as_ref().and_then(|known| known.cycle(at, now)) {
        return Ok(cycle.clone());
    }
    match fix_and_store(world, account_id, at, before.as_ref()).await {
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
    before: Option<&Known>,
) -> Result<Cycle, Fault> {
    let now = world.now();
    let anchors = store::fix_anchor(&*world.db, account_id, now).await?;
    let cycle = cycle_at(&anchors, at);
    world.db.query(store::cycle_row(account_id, &cycle)).await?;
    let same = before.filter(|known| known.anchors == anchors);
    let mut stored = same.map_or_else(Vec::new, |known| known.stored.clone());
    if stored.len() >= CYCLES_MAX {
        stored.clear();
    }
    stored.retain(|one| *one != cycle);
    stored.push(cycle.clone());
    let known = Known {
        anchors,
        read_at: now,
        stored,
    };
    world.isolate.cycles.keep(account_id, known);
    Ok(cycle)
}
