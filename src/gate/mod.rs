//! The gate: hold part of the limit before a job starts, charge each step, settle at the real
//! cost; the limit is never passed.
//!
//! An account's object is the one serial point for its admissions, charges and settlements. Each
//! call is one storage transaction: it loads the facts, sweeps what is due, splits running jobs
//! where the cycle has turned, decides (`rules`), and writes. A refusal changes nothing but the
//! list of refusals that people look at.
//!
//! What it promises:
//! - `used + held` never passes the limit, whatever starts together, dies or retries; only a limit
//!   that is lowered, or the rest of holds that a cycle turn moves, may stand above it for a while.
//! - A hold ends once: settled by its owner, or expired when its lease runs out.
//! - The same key with the same request is the same job; with another it is refused.
//! - What is charged reaches the ledger exactly once, in the cycle in which it was charged.
//!
//! What it does not do: compare with the provider's meter (`ledger`), decide the plan (`plans`).
//! The Worker's half is `http::jobs`; the object is woken by its alarm and by `sweeper`.

mod account;
mod admission;
mod books;
pub mod busy;
mod calls;
pub mod lab;
mod limit;
pub mod object;
pub mod rules;
mod schema;
mod store;
pub mod together;
mod view;
pub mod wire;

use crate::accounts::Account;
use crate::fault::Fault;
use crate::ports::ObjectName;
use crate::units::AccountId;
use crate::world::World;
use wire::{AccountAsk, Ask, Told};

/// Asks the account's object something about its jobs and budget.
pub async fn ask(world: &World, account: &Account, ask: Ask) -> Result<Told, Fault> {
    send(world, &account.account_id, &AccountAsk::about(account, ask)).await
}

/// Tells the account's object something that is not about its jobs.
pub async fn tell(world: &World, account_id: &AccountId, ask: Ask) -> Result<Told, Fault> {
    send(world, account_id, &AccountAsk::plain(ask)).await
}

/// Tells the account's object what stands in DB of its account now: an anchor more, for one. Its
/// running jobs must not turn their cycle by what it knew before.
pub async fn teach(world: &World, account: &Account) -> Result<(), Fault> {
    let features = Vec::new();
    ask(world, account, Ask::Live { features })
        .await
        .map(|_| ())
}

async fn send(world: &World, account_id: &AccountId, ask: &AccountAsk) -> Result<Told, Fault> {
    let name = ObjectName::Account(account_id.clone());
    let answer = world.objects.ask(name, ask.to_json()?).await?;
    serde_json::from_str(&answer).map_err(|e| Fault::unreadable("read the answer of an account", e))
}
