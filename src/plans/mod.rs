//! Plans and grants: which plan an account has, from the provider's current state.
//!
//! Promise: the stored plan is what the last complete read said, or what a newer event said where
//! the provider could not be read; the order of events and of reads does not matter. Every fetch
//! takes a ticket from the customer's lane before it begins, and a result is written only where no
//! later ticket has written. A failed or partial answer never downgrades anyone; a complete one
//! that names no current agreement does so only with proof (`rules::proof`).
//!
//! Four callers, one sync: an event (inside its lane, `crate::inbox::apply`), the return from
//! checkout, the route or button, and the nightly reconcile (`nightly`). Each grants the plan's
//! allowance of the current cycle; the balance of a cycle is its largest grant.

pub mod grants;
pub mod nightly;
pub mod rules;
pub mod store;
pub mod sync;

use std::rc::Rc;

use crate::accounts::Account;
use crate::fault::Fault;
use crate::gate;
use crate::gate::wire::{Ask, Told};
use crate::world::World;

/// Tells the account's gate that its limits may have changed: the cached limit is dropped, and the
/// answer to a read that is under way will not be believed.
pub async fn ring(world: &Rc<World>, account: &Account) -> Result<(), Fault> {
    let told = gate::tell(world, &account.account_id, Ask::Ring).await?;
    match told {
        Told::Done => Ok(()),
        _ => Err(Fault::unreadable(
            "ring the gate",
            "it is not what was asked",
        )),
    }
}
