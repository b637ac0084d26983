//! Admissions of one account that arrive while a call to its object is under way travel together
//! in the next one: each is decided on its own, all in one transaction.
//!
//! I/O that one request began completes for that request alone, so nobody awaits another's call:
//! each looks at the shared result in pauses of its own, the first of them until about when it
//! should be there. Whoever carried goes on behind its answer while others wait. Whoever is not
//! told in time, because the request that carried it is gone, asks alone; its key makes that the
//! same job. A combined call that faults is repeated one by one.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::wire::{About, AccountAsk, AdmitAsk, Admitted, Ask, Told};
use crate::accounts::{Account, store};
use crate::fault::Fault;
use crate::limits::{ADMIT_TOGETHER_MAX, ADMIT_WAITING_MAX};
use crate::units::{AccountId, Millis};
use crate::world::World;

/// The second pause between two looks; doubled up to the longest.
const LOOK_MS: u32 = 1;
const LOOK_MS_MAX: u32 = 8;
/// The first pause at most.
const FIRST_LOOK_MS_MAX: i64 = 100;
/// Calls that one request makes for others behind its answer.
const CALLS_BEHIND_MAX: u32 = 50;
/// Without an answer for so long, a request asks alone.
const PATIENCE_MS: u32 = 2_000;

/// The admissions of this isolate that are on their way.
#[derive(Default)]
pub struct Travelling(RefCell<BTreeMap<AccountId, Line>>);

/// Those of one account. It is forgotten with its last request.
#[derive(Default)]
struct Line {
    tickets: u64,
    present: usize,
    waiting: VecDeque<(u64, AdmitAsk)>,
    told: BTreeMap<u64, Fate>,
    under_way: bool,
    /// When the call that is under way began, and how long the last one took.
    began: Option<Millis>,
    took_ms: i64,
}

/// What became of an admission that another request carried.
enum Fate {
    Told(Box<Admitted>),
    Failed(Fault),
    /// The combined call faulted: ask alone.
    Alone,
}

/// One request's place in its account's line; given up when it is dropped.
struct Place<'a> {
    travelling: &'a Travelling,
    account_id: &'a AccountId,
    ticket: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.travelling.0.borrow_mut();
        let Some(line) = lines.get_mut(self.account_id) else {
            return;
        };
        line.present = line.present.saturating_sub(1);
        line.told.remove(&self.ticket);
        line.waiting.retain(|(ticket, _)| *ticket != self.ticket);
        if line.present == 0 {
            lines.remove(self.account_id);
        }
    }
}

/// Says that no call is under way any more, also where its request was given up.
struct Lead<'a> {
    travelling: &'a Travelling,
    account_id: &'a AccountId,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if let Some(line) = self.travelling.0.borrow_mut().get_mut(self.account_id) {
            line.under_way = false;
        }
    }
}

impl Travelling {
    fn enter<'a>(&'a self, account_id: &'a AccountId, ask: &AdmitAsk) -> Option<Place<'a>> {
        let mut lines = self.0.borrow_mut();
        let line = lines.entry(account_id.clone()).or_default();
        if line.waiting.len() >= ADMIT_WAITING_MAX {
            return None;
        }
        line.tickets += 1;
        line.present += 1;
        line.waiting.push_back((line.tickets, ask.clone()));
        Some(Place {
            travelling: self,
            account_id,
            ticket: line.tickets,
        })
    }

    fn fate(&self, place: &Place<'_>) -> Option<Fate> {
        let mut lines = self.0.borrow_mut();
        lines.get_mut(place.account_id)?.told.remove(&place.ticket)
    }

    /// Becomes the one who calls, where somebody waits and nobody does.
    fn lead<'a>(&'a self, account_id: &'a AccountId) -> Option<Lead<'a>> {
        let mut lines = self.0.borrow_mut();
        let line = lines.get_mut(account_id)?;
        if line.under_way || line.waiting.is_empty() {
            return None;
        }
        line.under_way = true;
        Some(Lead {
            travelling: self,
            account_id,
        })
    }

    /// Those that wait, for the next call.
    fn take(&self, account_id: &AccountId, now: Millis) -> Vec<(u64, AdmitAsk)> {
        let mut lines = self.0.borrow_mut();
        let Some(line) = lines.get_mut(account_id) else {
            return Vec::new();
        };
        let count = line.waiting.len().min(ADMIT_TOGETHER_MAX);
        line.began = Some(now);
        line.waiting.drain(..count).collect()
    }

    fn has_waiting(&self, account_id: &AccountId) -> bool {
        let lines = self.0.borrow();
        lines
            .get(account_id)
            .is_some_and(|line| !line.waiting.is_empty())
    }

    /// How long the next answer for somebody who has just entered will take: the rest of the call
    /// that is under way, and the next one.
    fn first_look_ms(&self, account_id: &AccountId, now: Millis) -> u32 {
        let lines = self.0.borrow();
        let expected = lines.get(account_id).map_or(0, |line| {
            let since = line.began.map_or(0, |began| now.since(began).abs());
            2 * line.took_ms - since
        });
        u32::try_from(expected.clamp(i64::from(LOOK_MS), FIRST_LOOK_MS_MAX)).unwrap_or(LOOK_MS)
    }

    fn tell(&self, account_id: &AccountId, tickets: &[u64], fates: Vec<Fate>, now: Millis) {
        if let Some(line) = self.0.borrow_mut().get_mut(account_id) {
            line.told.extend(tickets.iter().copied().zip(fates));
            line.took_ms = line.began.map_or(0, |began| now.since(began).abs());
        }
    }
}

/// Asks for a new job, together with others of the account that ask meanwhile.
pub async fn admit(world: &Rc<World>, account: &Account, ask: AdmitAsk) -> Result<Admitted, Fault> {
    let travelling = &world.isolate.admissions;
    let account_id = &account.account_id;
    let Some(place) = travelling.enter(account_id, &ask) else {
        return alone(world, account, ask).await;
    };
    let mut pause = travelling.first_look_ms(account_id, world.now());
    let (mut waited, mut look) = (0, LOOK_MS);
    loop {
        match travelling.fate(&place) {
            Some(Fate::Told(answer)) => return Ok(*answer),
            Some(Fate::Failed(fault)) => return Err(fault),
            Some(Fate::Alone) => break,
            None => {}
        }
        if waited >= PATIENCE_MS {
            break;
        }
        if carry(world, account).await {
            if travelling.has_waiting(account_id) {
                let behind = carry_behind(Rc::clone(world), account.clone());
                world.background.spawn(Box::pin(behind));
            }
        } else {
            world.timer.pause(pause).await;
            waited += pause;
            pause = look;
            look = (look * 2).min(LOOK_MS_MAX);
        }
    }
    drop(place);
    alone(world, account, ask).await
}

/// Calls for those that entered meanwhile.
async fn carry_behind(world: Rc<World>, account: Account) {
    for _ in 0..CALLS_BEHIND_MAX {
        if !carry(&world, &account).await {
            return;
        }
    }
}

/// One call for those that wait; none where nobody does, or where another is under way.
async fn carry(world: &World, account: &Account) -> bool {
    let (travelling, account_id) = (&world.isolate.admissions, &account.account_id);
    let Some(_lead) = travelling.lead(account_id) else {
        return false;
    };
    let together = travelling.take(account_id, world.now());
    let (tickets, jobs): (Vec<u64>, Vec<AdmitAsk>) = together.into_iter().unzip();
    let count = jobs.len();
    let fates = match ask_all(world, account, jobs).await {
        Ok(answers) if answers.len() == count => {
            let told = answers.into_iter().map(|one| Fate::Told(Box::new(one)));
            told.collect()
        }
        Err(fault) if count == 1 => vec![Fate::Failed(fault)],
        Ok(_) | Err(_) => tickets.iter().map(|_| Fate::Alone).collect(),
    };
    travelling.tell(account_id, &tickets, fates, world.now());
    true
}

async fn alone(world: &World, account: &Account, ask: AdmitAsk) -> Result<Admitted, Fault> {
    let answers = ask_all(world, account, vec![ask]).await?;
    let first = answers.into_iter().next();
    first.ok_or_else(|| Fault::unreadable("read the answer of an account", "no answer"))
}

/// The anchor is fixed for an admission alone: the object says when it is needed, and admits
/// nothing before it knows it.
async fn ask_all(
    world: &World,
    account: &Account,
    jobs: Vec<AdmitAsk>,
) -> Result<Vec<Admitted>, Fault> {
    let account_id = &account.account_id;
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
