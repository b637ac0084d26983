//! Admissions of one account that arrive while a call to its object is under way travel together
//! in the next one: each is decided on its own, all in one transaction. A job's key makes a repeat
//! the same job.

use std::rc::Rc;

use super::wire::{About, AccountAsk, AdmitAsk, Admitted, Ask, Told};
use crate::accounts::{Account, store};
use crate::fault::Fault;
use crate::limits::ADMIT_TOGETHER_MAX;
use crate::ports::Later;
use crate::together::{self, Journey, Travelling};
use crate::units::AccountId;
use crate::world::World;

/// Calls to one account's object.
#[derive(Clone)]
pub struct Admissions(Account);

impl Journey for Admissions {
    type Key = AccountId;
    type Ask = AdmitAsk;
    type Told = Admitted;
    const TOGETHER_MAX: usize = ADMIT_TOGETHER_MAX;

    fn travelling(world: &World) -> &Travelling<Self> {
        &world.isolate.admissions
    }

    fn key(&self) -> &AccountId {
        &self.0.account_id
    }

    fn call<'a>(
        &'a self,
        world: &'a World,
        asks: Vec<AdmitAsk>,
    ) -> Later<'a, Result<Vec<Admitted>, Fault>> {
        Box::pin(ask_all(world, &self.0, asks))
    }
}

/// Asks for a new job, together with others of the account that ask meanwhile.
pub async fn admit(world: &Rc<World>, account: &Account, ask: AdmitAsk) -> Result<Admitted, Fault> {
    together::ask(world, &Admissions(account.clone()), ask).await
}

/// DB knows that the account may have jobs before its object is asked for the first one. The anchor
/// is fixed for an admission alone: the object says when it is needed, and admits nothing before
/// it knows it.
async fn ask_all(
    world: &World,
    account: &Account,
    jobs: Vec<AdmitAsk>,
) -> Result<Vec<Admitted>, Fault> {
    let account_id = &account.account_id;
    if !account.may_have_jobs {
        store::expect_jobs(world, account_id).await?;
    }
    let mut message = AccountAsk::about(account, Ask::Admit { jobs });
    let mut told = super::send(world, account_id, &message).await?;
    if told == Told::AnchorFirst {
        let fixed = Account {
            anchors: store::fix_anchor(&*world.db, account_id, world.now()).await?,
            anchor_fixed: true,
            ..account.clone()
        };
        message.about = Some(About::of(&fixed));
        told = super::send(world, account_id, &message).await?;
    }
    match told {
        Told::Admitted(answers) => Ok(answers),
        _ => Err(Fault::unreadable(
            "read the answer of an account",
            "it is not what was asked",
        )),
    }
}
