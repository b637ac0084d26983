//! The Account object: the account's one serial point for admission, charges and settlement.
//!
//! A message is answered in one storage transaction; only a read of the provider's limits is
//! awaited in between, and nothing that was read before it, the time included, is used after it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use serde_json::json;

use super::account::write_json;
use super::books::Books;
use super::calls::{self, Outcome};
use super::schema::STEPS;
use super::wire::{About, AccountAsk, Ask, RefusedView, Told};
use super::{admission, limit, store};
use crate::accounts;
use crate::cycle::Cycle;
use crate::fault::Fault;
use crate::inbox::watchdog;
use crate::ledger::feed::Feed;
use crate::limits::{LIMIT_PAUSE_MS, LIMIT_PAUSE_MS_MAX, LIMIT_READS_MAX};
use crate::object::Object;
use crate::ports::{ObjectName, transact};
use crate::provider::standin::clock;
use crate::provider::{Limits, ProviderFault};
use crate::units::AccountId;

/// What the object owes and remembers for its account's inbox.
const INBOX: &str = "inbox";
/// It looks at its inbox no more often than this: another worker may hold the lane.
const INBOX_PAUSE_MS: i64 = 1000;

/// One account's object, awake.
pub struct AccountObject {
    object: Object,
    feed: Rc<Feed>,
    reading: Reading,
    /// Whether this instance has looked at its schema; it stays as it is while we are awake.
    awake: Cell<bool>,
}

/// Whether the provider's limits are being read, and who waits for it.
#[derive(Default)]
struct Reading {
    under_way: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

/// Ends the read when it is dropped, also where its call was given up, so that nobody waits for
/// a read that will never end.
struct Turn<'a>(&'a Reading);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.under_way.set(false);
        for waker in self.0.waiting.take() {
            waker.wake();
        }
    }
}

impl AccountObject {
    /// Wakes on its storage.
    pub fn new(object: Object) -> Self {
        let feed = Feed::new(object.clone());
        let reading = Reading::default();
        Self {
            object,
            feed,
            reading,
            awake: Cell::new(false),
        }
    }

    /// Answers a message.
    pub async fn ask(&self, message: &str) -> Result<String, Fault> {
        self.wake()?;
        clock::learn(&self.object).await?;
        let outcome = match AccountAsk::of_json(message) {
            Ok(ask) => self.answer(&ask).await,
            Err(fault) => Err(fault),
        };
        let armed = self.object.arm().await;
        let told = outcome?;
        armed?;
        write_json(&told)
    }

    /// Does what is due.
    pub async fn alarm(&self) -> Result<(), Fault> {
        self.object.alarm_fired();
        self.wake()?;
        clock::learn(&self.object).await?;
        let done = self.do_due().await;
        let done = done.and(self.tend_due().await);
        let armed = self.object.arm().await;
        done.and(armed)
    }

    fn wake(&self) -> Result<(), Fault> {
        if !self.awake.get() {
            self.object.wake(STEPS)?;
            self.awake.set(true);
        }
        Ok(())
    }

    const fn parts(&self) -> (&Object, &Rc<Feed>) {
        (&self.object, &self.feed)
    }

    async fn do_due(&self) -> Result<(), Fault> {
        let facts = Books::during(self.parts(), None, |books| {
            books.tidy()?;
            Ok((
                books.account.account_id.clone(),
                books.cycle.clone(),
                books.unstored_cycle(),
            ))
        })?;
        let Some((account_id, cycle, unstored)) = facts else {
            return self.feed.flush_if_due().await;
        };
        for feature in store::unbalanced(&*self.object.sql, cycle.name.as_str())? {
            let fields = json!({"account": account_id.as_str(), "feature": feature});
            self.object
                .world
                .log
                .line("error", "gate.books_differ", fields);
        }
        let stored = match unstored {
            Some(cycle) => self.store_cycle(&account_id, &cycle).await,
            None => Ok(()),
        };
        self.feed.flush_if_due().await.and(stored)
    }

    /// Entries name their cycle; the control database says when it begins and ends.
    async fn store_cycle(&self, account_id: &AccountId, cycle: &Cycle) -> Result<(), Fault> {
        let row = accounts::store::cycle_row(account_id, cycle);
        self.object.world.db.batch(vec![row]).await?;
        Books::during(self.parts(), None, |books| {
            books.cycle_is_stored(cycle);
            Ok(())
        })?;
        Ok(())
    }

    /// The account's inbox, where something of it is due.
    async fn tend_due(&self) -> Result<(), Fault> {
        let now = self.object.now()?;
        let due = self.object.owed_at(INBOX)?.filter(|at| *at <= now);
        match self.object.meta(INBOX)?.filter(|_| due.is_some()) {
            Some(account_id) => self.tend(&account_id).await,
            None => Ok(()),
        }
    }

    /// Runs the account's lane and wakes again for it; the table in DB is the schedule.
    async fn tend(&self, account_id: &str) -> Result<(), Fault> {
        let id = AccountId::new(account_id);
        let id = id.ok_or_else(|| Fault::unreadable("read a message", "an account's id"))?;
        // An account that only gets webhooks is called by nobody else, and its feed needs a name.
        self.feed.tell_name(&ObjectName::Account(id.clone()))?;
        self.object.set_meta(INBOX, account_id)?;
        self.object.owe(INBOX, None)?;
        let next = watchdog::tend(&self.object.world, &id).await?;
        let soonest = self.object.now()?.after(INBOX_PAUSE_MS);
        self.object.owe(INBOX, next.map(|at| at.max(soonest)))
    }

    async fn answer(&self, ask: &AccountAsk) -> Result<Told, Fault> {
        match &ask.ask {
            Ask::Clock { offset_ms } => {
                self.object.set_clock_offset(*offset_ms)?;
                Ok(Told::Done)
            }
            Ask::Ring => transact(&*self.object.sql, || {
                limit::ring(&*self.object.sql)?;
                Ok(Told::Done)
            }),
            Ask::TakeFeed { rows } => {
                let done = self.do_due().await;
                let state = self.feed.take_rows(rows).await?;
                done?;
                Ok(Told::Feed(state))
            }
            Ask::Lane { account_id } => {
                self.tend(account_id).await?;
                Ok(Told::Done)
            }
            _ => self.decide(ask).await,
        }
    }

    /// Decides in one transaction; where the limits have to be read first, reads and begins anew.
    async fn decide(&self, ask: &AccountAsk) -> Result<Told, Fault> {
        if let Some(account_id) = ask.about.as_ref().and_then(About::account_id) {
            self.feed.tell_name(&ObjectName::Account(account_id))?;
        }
        for round in 0..=LIMIT_READS_MAX {
            let waited = round > 0;
            let about = ask.about.as_ref();
            let work = |books: &mut Books<'_>| call(books, &ask.ask, waited);
            match Books::during(self.parts(), about, work)? {
                Some(Outcome::Told(told)) => return Ok(told),
                Some(Outcome::ReadFirst) => self.read_limits().await?,
                None => return Ok(Told::Refused(RefusedView::NotFound)),
            }
        }
        let cause = "the plan kept changing while they were read";
        Err(Fault::unavailable("read the limits", cause))
    }

    /// Reads the limits once for however many calls wait for them.
    async fn read_limits(&self) -> Result<(), Fault> {
        if self.reading.under_way.get() {
            self.reading.ended().await;
            return Ok(());
        }
        self.reading.under_way.set(true);
        let _turn = Turn(&self.reading);
        let facts = Books::during(self.parts(), None, |books| {
            Ok((books.limits.rings, books.account.customer_id.clone()))
        })?;
        let Some((rings, Some(customer))) = facts else {
            return Ok(());
        };
        let answer = self.object.world.provider.limits(&customer).await;
        self.keep(rings, answer)
    }

    /// Stores what a read brought, unless the account was rung since it began.
    fn keep(&self, rings: i64, answer: Result<Limits, ProviderFault>) -> Result<(), Fault> {
        if let Err(ProviderFault::NotConfigured(name)) = answer {
            return Err(Fault::not_configured(name));
        }
        let sql = &*self.object.sql;
        Books::during(self.parts(), None, |books| {
            let now = books.now;
            match answer {
                _ if books.limits.rings != rings => Ok(()),
                // An empty answer names no feature at all: nothing may be concluded from it.
                Ok(limits) if !limits.is_empty() => limit::keep_answer(sql, rings, &limits, now),
                Err(ProviderFault::RateLimited { wait_ms }) => {
                    let wait_ms = wait_ms.clamp(LIMIT_PAUSE_MS, LIMIT_PAUSE_MS_MAX);
                    limit::keep_failure(sql, rings, now.after(wait_ms - LIMIT_PAUSE_MS))
                }
                Ok(_) | Err(_) => limit::keep_failure(sql, rings, now),
            }
        })?;
        Ok(())
    }
}

impl Reading {
    /// Waits until the read that is under way has ended, however it ends.
    async fn ended(&self) {
        poll_fn(|context| {
            if self.under_way.get() {
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }
}

fn call(books: &mut Books<'_>, ask: &Ask, waited: bool) -> Result<Outcome, Fault> {
    match ask {
        Ask::Admit { jobs } => admission::admit(books, jobs, waited),
        Ask::Charge(ask) => calls::charge(books, ask),
        Ask::Extend(ask) => calls::extend(books, ask, waited),
        Ask::Renew { job_id } => calls::renew(books, job_id),
        Ask::Settle(ask) => calls::settle(books, ask),
        Ask::Get { job_id } => calls::get(books, job_id),
        Ask::List(ask) => calls::list(books, ask),
        Ask::Budget { features } => calls::budgets(books, features, waited),
        Ask::Live { features } => calls::live(books, features),
        Ask::Estimates { feature, cycle } => calls::estimates(books, feature, cycle.as_deref()),
        Ask::Refusals => {
            let items = store::refusals(&*books.object.sql)?;
            Ok(Outcome::Told(Told::Refusals(items)))
        }
        Ask::Ring | Ask::TakeFeed { .. } | Ask::Lane { .. } | Ask::Clock { .. } => {
            Ok(Outcome::Told(Told::Done))
        }
    }
}
