//! An object's feed: what it wrote into its outbox reaches the ledger database exactly once, after
//! any crash, at any statement.
//!
//! One batch is under way at a time. What an error meant is never guessed: the object compares its
//! stream with its row in `feed` and goes on from there. design.md, "From an object to D1", says
//! what each standing means. The other half is `ledger::batch`, the SQL in the ledger database.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::batch::{self, FeedMove};
use super::entry::Entry;
use super::outbox::{Batch, Booking, Outbox, State};
use super::review::{self, Review, ReviewKind};
use super::rules::{Reached, Standing, Stream, compare};
use super::stream::{self, FeedRow};
use crate::fault::Fault;
use crate::inbox::alerts;
use crate::object::Object;
use crate::ports::{ObjectName, transact};
use crate::units::{EntryId, JobId, Millis};
use crate::world::mint;

pub use super::outbox::{COUNTED, STEP};

/// Under this name the object owes the sending of what waits.
const SEND: &str = "~feed";
/// Under this name the object owes the forgetting of old batches.
const PRUNE: &str = "~feed_prune";
/// Under this name the object remembers what it is called in `feed`.
const NAME: &str = "object_name";
/// Under this name an object remembers that its account is a demonstration: no sum counts it.
pub const DEMO: &str = "demo";
/// Batches that one call sends at most; the alarm goes on with the rest.
const BATCHES_PER_FLUSH: u32 = 50;
/// Sums that travel alone wait this long for company.
const TALLY_WAIT_MS: i64 = 60_000;
/// A failed batch is tried again after this, doubled each time up to [`RETRY_MS_MAX`].
const RETRY_MS: i64 = 1_000;
const RETRY_MS_MAX: i64 = 60_000;
/// While the double-click rule is on, ids of delivered clicks are known for at least this long.
const REPEAT_MS: i64 = 15 * 60_000;
/// Looks at a batch that is under way, before a visitor is told that it is.
const LANDING_LOOKS: u32 = 100;
const LANDING_LOOK_MS: u32 = 20;
const HOUR_MS: i64 = 3_600_000;

/// What an object says of its feed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedState {
    /// Which life of its storage; absent before its first batch.
    pub epoch: Option<String>,
    /// The last batch that the ledger is known to have.
    pub confirmed: i64,
    /// The highest batch that was ever confirmed. More than `confirmed`: the ledger was restored
    /// and is still being filled again.
    pub best: i64,
    /// Whether rows or batches wait to be sent.
    pub waits: bool,
    /// The review item that holds the feed, where it has stopped at a gap.
    pub stopped_by: Option<String>,
    /// A batch was under way for so long that the ledger's row could not be compared.
    #[serde(default)]
    pub unsure: bool,
}

impl FeedState {
    /// Whether the ledger lacks, or may lack, what it once had confirmed.
    pub fn is_behind(&self) -> bool {
        self.best > self.confirmed || self.stopped_by.is_some() || self.unsure
    }
}

/// One object's feed. The object keeps it in memory: it knows whether a batch is under way.
pub struct Feed {
    object: Object,
    name: RefCell<Option<String>>,
    under_way: Cell<bool>,
    failures: Cell<u32>,
}

/// Says that no batch is under way any more, also where the call that sent it was given up.
struct Landing<'a>(&'a Cell<bool>);

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Feed {
    /// Over an object's storage.
    pub fn new(object: Object) -> Rc<Self> {
        Rc::new(Self {
            object,
            name: RefCell::new(None),
            under_way: Cell::new(false),
            failures: Cell::new(0),
        })
    }

    fn outbox(&self) -> Outbox<'_> {
        Outbox::new(&*self.object.sql)
    }

    /// Tells the object what it is called; its callers know, its platform does not say.
    pub fn tell_name(&self, name: &ObjectName) -> Result<(), Fault> {
        if self.name.borrow().is_none() {
            let name = name.name();
            if self.object.meta(NAME)?.as_ref() != Some(&name) {
                self.object.set_meta(NAME, &name)?;
            }
            self.name.replace(Some(name));
        }
        Ok(())
    }

    fn object_name(&self) -> Result<String, Fault> {
        if let Some(name) = self.name.borrow().clone() {
            return Ok(name);
        }
        let name = self.object.meta(NAME)?;
        let name = name.ok_or_else(|| Fault::unreadable("read an object's name", "not told"))?;
        self.name.replace(Some(name.clone()));
        Ok(name)
    }

    /// Puts entries that travel together, unless their first one waits or was delivered a while
    /// ago. In the caller's transaction.
    pub fn put(&self, entries: &[Entry], now: Millis) -> Result<(), Fault> {
        self.outbox().put(entries)?;
        self.due_soon(now)
    }

    /// Whether entries that begin with this one wait or were delivered a while ago.
    pub fn is_known(&self, first: &EntryId) -> Result<bool, Fault> {
        self.outbox().is_known(first)
    }

    /// Puts a booking of a job's use, merged with what is unsent of the same job, feature and
    /// cycle. In the caller's transaction.
    pub fn put_merged(&self, booking: &Booking, now: Millis) -> Result<(), Fault> {
        self.outbox().book(booking)?;
        self.due_soon(now)
    }

    /// Whether every booking of the job is delivered.
    pub fn is_delivered(&self, job_id: &JobId) -> Result<bool, Fault> {
        self.outbox().is_delivered(job_id)
    }

    /// Forgets the numbers of a job's bookings: together with the job's own row, once
    /// [`Feed::is_delivered`].
    pub fn forget_job(&self, job_id: &JobId) -> Result<(), Fault> {
        self.outbox().forget_job(job_id)
    }

    /// Puts a finding for review. In the caller's transaction.
    pub fn put_review(&self, review: &Review, now: Millis) -> Result<(), Fault> {
        self.outbox().put_review(review)?;
        self.due_soon(now)
    }

    /// Adds to a sum for `/metrics` that travels with the next batch. In the caller's transaction.
    pub fn count(&self, name: &str, by: i64, now: Millis) -> Result<(), Fault> {
        self.outbox().count(name, by)?;
        self.object.owe_by(SEND, now.after(TALLY_WAIT_MS))
    }

    /// What waits is sent within `FLUSH_MS`.
    pub fn due_soon(&self, now: Millis) -> Result<(), Fault> {
        let flush_ms = self.object.world.settings.flush_ms;
        self.object.owe_by(SEND, now.after(flush_ms))
    }

    /// Tells the ledger at once where the object now owes something that it did not, or sooner:
    /// an idle account has become busy. The caller's answer does not wait for it. After the
    /// caller's transaction.
    pub fn announce(self: &Rc<Self>) -> Result<(), Fault> {
        if !self.must_tell(self.object.now()?)? {
            return Ok(());
        }
        let feed = Rc::clone(self);
        self.object.world.background.spawn(Box::pin(async move {
            let outcome = feed.flush().await;
            let armed = feed.object.arm().await;
            if let Err(fault) = outcome.and(armed) {
                feed.complain("feed.fault", &fault);
            }
        }));
        Ok(())
    }

    /// Sends what waits, unless a batch is under way; owes what is left.
    pub async fn flush(&self) -> Result<(), Fault> {
        let Some(_landing) = self.take_off() else {
            return Ok(());
        };
        let outcome = self.send_all().await;
        let failures = if outcome.is_ok() {
            0
        } else {
            self.failures.get().saturating_add(1)
        };
        self.failures.set(failures);
        self.owe_the_rest()?;
        outcome
    }

    /// The same where it is due; does nothing else.
    pub async fn flush_if_due(&self) -> Result<(), Fault> {
        let now = self.object.now()?;
        let due = |at: Option<Millis>| at.is_some_and(|at| at <= now);
        if due(self.object.owed_at(SEND)?) || due(self.object.owed_at(PRUNE)?) {
            return self.flush().await;
        }
        Ok(())
    }

    /// Compares the stream with the ledger's rows of this object, as a caller read them, and
    /// sends what the ledger lacks.
    pub async fn take_rows(&self, rows: &[FeedRow]) -> Result<FeedState, Fault> {
        let mut unsure = false;
        if !self.agrees(rows)? {
            self.wait_for_landing().await;
            // A row may be older than the last batch, so one that differs is read anew.
            match self.take_off() {
                Some(_landing) => self.find_standing().await.map(|_| ())?,
                None => unsure = true,
            }
        }
        if !self.is_idle()? {
            self.flush().await?;
        }
        let state = self.state()?;
        Ok(FeedState { unsure, ..state })
    }

    /// Whether nothing waits, nothing is to be told, no sending or forgetting is due, and no item
    /// that may have been closed holds the feed.
    fn is_idle(&self) -> Result<bool, Fault> {
        let now = self.object.now()?;
        let prune_is_due = self.object.owed_at(PRUNE)?.is_some_and(|at| at <= now);
        let owes_nothing = self.object.owed_at(SEND)?.is_none() && !prune_is_due;
        let state = self.state()?;
        let is_held = state.stopped_by.is_some();
        Ok(owes_nothing && !state.waits && !is_held && !self.must_tell(now)?)
    }

    fn agrees(&self, rows: &[FeedRow]) -> Result<bool, Fault> {
        let Some(state) = self.outbox().state()? else {
            return Ok(true);
        };
        match rows.iter().find(|row| row.epoch == state.epoch) {
            None => Ok(state.confirmed == 0),
            Some(row) => Ok(row.last == state.confirmed
                && self.outbox().batch_id(row.last)?.as_ref() == Some(&row.last_id)),
        }
    }

    /// Gives the batch that is under way some time to land.
    async fn wait_for_landing(&self) {
        for _ in 0..LANDING_LOOKS {
            if !self.under_way.get() {
                return;
            }
            self.object.world.timer.pause(LANDING_LOOK_MS).await;
        }
    }

    /// Where the feed stands, as far as the object knows.
    pub fn state(&self) -> Result<FeedState, Fault> {
        let Some(state) = self.outbox().state()? else {
            let waits = self.outbox().has_waiting(0)?;
            return Ok(FeedState {
                waits,
                ..FeedState::default()
            });
        };
        let waits =
            state.frozen > state.confirmed || self.outbox().has_waiting(state.frozen_to_seq)?;
        Ok(FeedState {
            epoch: Some(state.epoch),
            confirmed: state.confirmed,
            best: state.best,
            waits,
            stopped_by: state.stopped_by,
            unsure: false,
        })
    }

    fn take_off(&self) -> Option<Landing<'_>> {
        (!self.under_way.replace(true)).then(|| Landing(&self.under_way))
    }

    async fn send_all(&self) -> Result<(), Fault> {
        if let Some(review_id) = self.outbox().state()?.and_then(|state| state.stopped_by)
            && !self.goes_on(&review_id).await?
        {
            return Ok(());
        }
        for _ in 0..BATCHES_PER_FLUSH {
            let Some(batch) = self.next_batch()? else {
                break;
            };
            self.send(&batch).await?;
            if self
                .outbox()
                .state()?
                .is_some_and(|s| s.stopped_by.is_some())
            {
                break;
            }
        }
        Ok(())
    }

    /// The first batch that is not confirmed, freezing one where none waits.
    fn next_batch(&self) -> Result<Option<Batch>, Fault> {
        let now = self.object.now()?;
        transact(&*self.object.sql, || {
            let outbox = self.outbox();
            if outbox.state()?.is_none() {
                outbox.begin(&self.mint("epoch_")?)?;
            }
            if let Some(batch) = outbox.first_unconfirmed()? {
                return Ok(Some(batch));
            }
            let must_tell = self.must_tell(now)?;
            let due_at = self.due_at()?;
            if !outbox.freeze(&self.mint("batch_")?, due_at, must_tell, now)? {
                return Ok(None);
            }
            self.object.keep_time(now)?;
            outbox.first_unconfirmed()
        })
    }

    async fn send(&self, batch: &Batch) -> Result<(), Fault> {
        let state = self.outbox().state()?;
        let state = state.ok_or_else(|| Fault::unreadable("send a batch", "no epoch"))?;
        let step = FeedMove {
            object: self.object_name()?,
            epoch: state.epoch.clone(),
            number: batch.number,
            batch_id: batch.batch_id.clone(),
            due_at: batch.due_at,
        };
        let now = self.object.now()?;
        let mut tallies = batch.tallies.clone();
        if self.object.meta(DEMO)?.is_none() {
            tallies.push(("counterfoil_batches_total".to_owned(), 1));
        }
        let mut all = batch::statements(Some(&step), &batch.rows_json, &tallies, now);
        all.extend(batch.reviews.iter().map(Review::open));
        if batch.number == 1 {
            self.tell_of_new_epoch(&step, now).await?;
        }
        match self.object.world.ledger.batch(all).await {
            Ok(_) => {
                let now = self.object.now()?;
                transact(&*self.object.sql, || {
                    self.still(&step.epoch)?;
                    self.outbox().stand_at(batch.number, now)
                })
            }
            Err(fault) => match self.find_standing().await? {
                Standing::Delivered(last) if last + 1 == batch.number => Err(fault),
                Standing::Delivered(_) | Standing::PutBack | Standing::Gap { .. } => Ok(()),
            },
        }
    }

    /// Reads the ledger's row and takes the stream to where it stands. While nothing else sends.
    async fn find_standing(&self) -> Result<Standing, Fault> {
        let Some(state) = self.outbox().state()? else {
            return Ok(Standing::Delivered(0));
        };
        let name = self.object_name()?;
        let row = stream::row(&*self.object.world.ledger, &name, &state.epoch).await?;
        let state = self.still(&state.epoch)?;
        let standing = self.compare(&state, row.as_ref())?;
        if let Standing::Gap { from, to } = standing {
            return self.stop(&state, &name, (from, to)).await;
        }
        let now = self.object.now()?;
        transact(&*self.object.sql, || {
            match standing {
                Standing::Delivered(number) => self.outbox().stand_at(number, now)?,
                Standing::PutBack => {
                    let epoch = self.mint("epoch_")?;
                    self.outbox().new_epoch(&epoch, state.confirmed)?;
                }
                Standing::Gap { .. } => {}
            }
            Ok(standing)
        })
    }

    /// The stream as it stands now, in the life in which it was before an await.
    fn still(&self, epoch: &str) -> Result<State, Fault> {
        let state = self.outbox().state()?;
        let state = state.filter(|state| state.epoch == epoch);
        state.ok_or_else(|| Fault::unavailable("send a batch", "another epoch has begun"))
    }

    fn compare(&self, state: &State, row: Option<&FeedRow>) -> Result<Standing, Fault> {
        let stream = Stream {
            confirmed: state.confirmed,
            frozen: state.frozen,
            kept_from: self.outbox().kept_from(state)?,
        };
        let last = row.map_or(0, |row| row.last);
        let ours = self.outbox().batch_id(last)?;
        let same_id = row.and_then(|row| ours.map(|ours| ours == row.last_id));
        Ok(compare(stream, Reached { last, same_id }))
    }

    /// Opens the review item first: a feed that stands still is never silent.
    async fn stop(
        &self,
        state: &State,
        name: &str,
        (from, to): (i64, i64),
    ) -> Result<Standing, Fault> {
        let subject = [
            name,
            state.epoch.as_str(),
            &from.to_string(),
            &to.to_string(),
        ];
        let numbers = json!({"object": name, "epoch": state.epoch, "from_batch": from,
            "to_batch": to});
        let item = Review::new(ReviewKind::Feed, &subject, numbers, self.object.now()?);
        let item = match name.strip_prefix("account/") {
            Some(account) => item.of(account, None, None),
            None => item,
        };
        self.object.world.ledger.query(item.open()).await?;
        transact(&*self.object.sql, || self.outbox().stop(&item.review_id))?;
        let fields = json!({"object": name, "from_batch": from, "to_batch": to,
            "review_id": item.review_id});
        self.object.world.log.line("error", "feed.stopped", fields);
        Ok(Standing::Gap { from, to })
    }

    /// Whether a feed that this item holds goes on. It does once a person closed the item: then the
    /// named loss is accepted, and everything that is still kept is sent again, in a new epoch. An
    /// item that is gone went with a ledger that was put back since: what that one lacks decides.
    async fn goes_on(&self, review_id: &str) -> Result<bool, Fault> {
        match review::is_closed(&*self.object.world.ledger, review_id).await? {
            Some(true) => transact(&*self.object.sql, || {
                let outbox = self.outbox();
                if let Some(state) = outbox.state()? {
                    let lost_to = outbox.kept_from(&state)? - 1;
                    outbox.new_epoch(&self.mint("epoch_")?, lost_to)?;
                }
                Ok(true)
            }),
            Some(false) => Ok(false),
            None => {
                transact(&*self.object.sql, || self.outbox().resume())?;
                Ok(!matches!(self.find_standing().await?, Standing::Gap { .. }))
            }
        }
    }

    /// When the object next owes something that others rely on. A name that begins with `~` is
    /// its own housekeeping.
    fn due_at(&self) -> Result<Option<Millis>, Fault> {
        let rows = self.object.sql.query(
            "select min(at_ms) as at_ms from due where substr(name, 1, 1) <> '~'",
            &[],
        )?;
        rows.first().map_or(Ok(None), |row| row.opt_millis("at_ms"))
    }

    /// Whether the ledger must hear of the due time although no row waits: it knows of none, or of
    /// a later one, or of one that has passed and is no longer owed.
    fn must_tell(&self, now: Millis) -> Result<bool, Fault> {
        let told = self.outbox().state()?.and_then(|state| state.told_due_at);
        Ok(match (told, self.due_at()?) {
            (None, None) => false,
            (None, Some(_)) => true,
            (Some(told), None) => told <= now,
            (Some(told), Some(due)) => due < told || (told <= now && due > told),
        })
    }

    /// Forgets old batches and sets both due times from what is left.
    fn owe_the_rest(&self) -> Result<(), Fault> {
        let settings = &self.object.world.settings;
        let mut keep_ms = settings.batch_keep_hours * HOUR_MS;
        if settings.double_click_ms > 0 {
            keep_ms = keep_ms.max(REPEAT_MS);
        }
        let now = self.object.now()?;
        let tries = self.failures.get();
        transact(&*self.object.sql, || {
            let oldest = self.outbox().prune(now.after(-keep_ms))?;
            let prune_at = oldest.map(|at| at.after(keep_ms + 1).max(now.after(TALLY_WAIT_MS)));
            self.object.owe(PRUNE, prune_at)?;
            let state = self.state()?;
            let at = if state.stopped_by.is_some() {
                Some(now.after(RETRY_MS_MAX))
            } else if tries > 0 {
                let wait = RETRY_MS << tries.saturating_sub(1).min(6);
                Some(now.after(wait.min(RETRY_MS_MAX)))
            } else if state.waits || self.must_tell(now)? {
                Some(now.after(settings.flush_ms))
            } else {
                None
            };
            self.object.owe(SEND, at)
        })
    }

    fn mint(&self, prefix: &str) -> Result<String, Fault> {
        let world = &self.object.world;
        Ok(mint(prefix, self.object.now()?, world.ids.random()?))
    }

    /// A known object with a new epoch has lost what it had not sent, or its storage was put back.
    /// Alerted before the first batch, so that no crash can swallow it.
    async fn tell_of_new_epoch(&self, step: &FeedMove, now: Millis) -> Result<(), Fault> {
        let world = &self.object.world;
        if !stream::has_earlier_life(&*world.ledger, &step.object, &step.epoch).await? {
            return Ok(());
        }
        let fields = json!({"object": step.object, "epoch": step.epoch});
        let subject = format!("{} {}", step.object, step.epoch);
        let alert = alerts::raise("new_feed_epoch", &subject, &fields, now);
        world.db.query(alert).await?;
        world.log.line("error", "feed.new_epoch", fields);
        Ok(())
    }

    fn complain(&self, event: &str, fault: &Fault) {
        let fields = json!({"code": fault.code(), "doing": fault.doing, "cause": fault.cause});
        self.object.world.log.line("error", event, fields);
    }
}
