//! The one function that writes meters, for reporter, reconciler and button.
//!
//! A meter is a copy of the ledger: it is sent the cycle's total, less what the cycle's earlier
//! meters hold, and never an increment. One sender at a time has it (a token and a lease in its
//! row), with the version and the total that its claim returned together; so no older total wins.
//! What nobody knows, a lost answer or a write that arrives late, stays marked until a later write
//! was confirmed and read back.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use serde_json::json;

use super::base::{self, Base};
use super::base_rules::{Agreement, Identity, is_other_meter, without_row};
use super::evidence::Evidence;
use super::meter_rules::{
    Cause, Facts, Outcome, Recorded, SEND_TIMEOUT_MS, Turn, Verdict, is_foreign, judge, to_send,
    turn,
};
use super::meter_store::{self as store, Claim, Meter, Pair};
use super::review::{Review, ReviewKind};
use super::runs;
use crate::cycle::Cycle;
use crate::fault::Fault;
use crate::ports::Statement;
use crate::provider::ProviderFault;
use crate::units::{AccountId, Delta, Millis, Units};
use crate::world::World;

/// An account's current agreement and all of them, as they were read again.
pub type Refreshed = (Agreement, Vec<Agreement>);

/// One run of the reporter or the reconciler.
#[derive(Debug, Default)]
pub struct Pass {
    /// Its number.
    pub run: i64,
    /// A token that DB has reached; `LEDGER_0` must have it for anything to be written.
    pub token: RefCell<String>,
    /// Whether the provider asked us to wait: nothing more is sent in this run.
    pub told_to_wait: Cell<bool>,
    /// Accounts whose agreements were read again in this run, with what was then found, for their
    /// other features too; once is enough.
    pub refreshed: RefCell<BTreeMap<AccountId, Option<Refreshed>>>,
    /// Counts for `/metrics`.
    pub tallies: RefCell<BTreeMap<String, i64>>,
}

impl Pass {
    /// A run under that number and token.
    pub fn new(run: i64, token: String) -> Self {
        Self {
            run,
            token: RefCell::new(token),
            ..Self::default()
        }
    }

    /// Counts one more of `name`.
    pub fn count(&self, name: &str) {
        *self
            .tallies
            .borrow_mut()
            .entry(name.to_owned())
            .or_default() += 1;
    }
}

/// Why the meter is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is marked: send the total.
    Report,
    /// It is compared: read it, send the total where it differs, read it back.
    Reconcile,
}

/// One account's feature in its current cycle, and the meter it belongs into.
#[derive(Clone, Debug)]
pub struct Subject {
    /// What it is about.
    pub pair: Pair,
    /// The provider's key of the feature.
    pub provider_key: String,
    /// The pair's cycle.
    pub cycle: Cycle,
    /// The account's current agreement.
    pub agreement: Agreement,
    /// All its agreements.
    pub agreements: Vec<Agreement>,
    /// The cycle's current meter as last loaded.
    pub meter: Option<Meter>,
}

impl Subject {
    /// The turn guard's word at that moment.
    pub fn turn(&self, now: Millis) -> Turn {
        turn(&self.cycle, self.agreement.period, now)
    }

    /// The loaded meter, where it is that of the agreement in its present period.
    pub fn current_meter(&self) -> Option<&Meter> {
        let meter = self.meter.as_ref();
        meter.filter(|meter| !is_other_meter(meter.identity(), self.agreement.identity()))
    }

    /// The cycle's earlier meters that are not among these rows.
    pub fn without_row(&self, rows: &[Meter]) -> Vec<Identity<'_>> {
        let known: Vec<_> = rows.iter().map(Meter::identity).collect();
        let current = Some(&self.agreement.agreement_id);
        let agreements = (self.agreements.as_slice(), current);
        without_row(&self.cycle, &self.provider_key, agreements, &known)
    }
}

/// Why nothing was sent, where nothing failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// By the turn guard.
    Turn(Turn),
    /// Another sender has it, or an item must be closed first, or a 429 is being waited for, or
    /// the ledger was put back.
    Busy,
    /// What an earlier meter of the cycle holds is not known.
    BaseInDoubt,
    /// Too little of the lease is left.
    NoLease,
}

/// What stood in the meter when it was read under the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The numbers.
    pub facts: Facts,
    /// What they say.
    pub verdict: Verdict,
    /// Why.
    pub cause: Option<Cause>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// How the attempt ended; absent where nothing was tried.
    pub outcome: Option<Outcome>,
    /// Why nothing was tried.
    pub held: Option<Held>,
    /// What was found, where it was compared.
    pub found: Option<Found>,
    /// What was sent.
    pub sent: Option<Units>,
    /// What was read back.
    pub read_back: Option<Delta>,
}

impl Written {
    const fn held(held: Held) -> Self {
        let (outcome, found, sent, read_back) = (None, None, None, None);
        Self {
            outcome,
            held: Some(held),
            found,
            sent,
            read_back,
        }
    }

    fn ended(outcome: Outcome) -> Self {
        Self {
            outcome: Some(outcome),
            ..Self::default()
        }
    }
}

/// Writes the meter, if turn guard, lease and review allow it. A fault leaves the mark.
pub async fn write(
    world: &World,
    pass: &Pass,
    subject: &Subject,
    how: How,
) -> Result<Written, Fault> {
    let turn = subject.turn(world.now());
    if turn != Turn::Open {
        return Ok(Written::held(Held::Turn(turn)));
    }
    if pass.told_to_wait.get() {
        return Ok(Written::held(Held::Busy));
    }
    let number = base::open(world, subject).await?;
    let token = world.mint("tok_")?;
    let now = world.now();
    let known = pass.token.borrow().clone();
    let (pair, start) = (&subject.pair, subject.agreement.period.starts_at);
    let statement = store::claim(pair, number, start, &token, (now, &known));
    let rows = world.ledger.query(statement).await?;
    let Some(claim) = store::claimed(&rows, token, now)? else {
        return Ok(Written::held(Held::Busy));
    };
    let lease = Lease {
        world,
        pass,
        subject,
        number,
        claim,
    };
    if lease.claim.agreement_id != subject.agreement.agreement_id.as_str() {
        // Somebody met a newer agreement than we loaded.
        return lease.put_back(Written::held(Held::Busy)).await;
    }
    match lease.record().await {
        Ok(Recorded::Yes) => lease.work(how).await,
        Ok(Recorded::Restored | Recorded::Lost) => lease.put_back(Written::held(Held::Busy)).await,
        Err(fault) => {
            lease.put_back(Written::default()).await?;
            Err(fault)
        }
    }
}

/// What a read gave.
enum Read {
    Total(Delta),
    /// The tenant refuses the read altogether.
    Refused,
    /// Not this time.
    Failed,
}

/// A claimed meter.
struct Lease<'a> {
    world: &'a World,
    pass: &'a Pass,
    subject: &'a Subject,
    number: i64,
    claim: Claim,
}

impl Lease<'_> {
    /// Before anything stands on what the claim read: DB knows the token, so that a ledger which
    /// is put back to before the claim is recognised.
    async fn record(&self) -> Result<Recorded, Fault> {
        let (token, earlier) = (&self.claim.token, &self.claim.earlier);
        let recorded = runs::record(self.world, self.pass.run, token, earlier).await?;
        if recorded == Recorded::Yes {
            self.pass.token.replace(token.clone());
        }
        Ok(recorded)
    }

    async fn work(&self, how: How) -> Result<Written, Fault> {
        let claimed = (self.number, &self.claim);
        let (base, fixing) = match base::find(self.world, self.pass, self.subject, claimed).await? {
            Base::Fixed(units) => (units, None),
            Base::New(units, fixing) => (units, Some(fixing)),
            Base::Wait => return self.put_back(Written::held(Held::BaseInDoubt)).await,
            Base::Ask(doubtful) => return self.ask(&doubtful).await,
        };
        let is_first = self.claim.sent.is_none() && !self.claim.in_doubt;
        let read = if is_first || how == How::Reconcile {
            Some(self.read().await?)
        } else {
            None
        };
        let total = match read {
            Some(Read::Total(total)) => Some(total),
            Some(Read::Failed) => return self.unreadable(base, how).await,
            Some(Read::Refused) if how == How::Reconcile => {
                return self.unreadable(base, how).await;
            }
            Some(Read::Refused) | None => None,
        };
        let found = self.judge(base, fixing.is_some(), total);
        if let Some(fixing) = fixing {
            self.fix_base(fixing, found).await?;
        }
        let compared = |written: Written| Written {
            found: (how == How::Reconcile).then_some(found),
            ..written
        };
        let target = to_send(self.claim.total, base);
        if let Some(total) = total {
            let is_strange = is_first && !self.claim.foreign_accepted;
            if is_strange && target.is_none_or(|target| is_foreign(total, target)) {
                if total != Delta::ZERO {
                    return self.foreign(total).await.map(compared);
                }
            } else if how == How::Reconcile && found.verdict == Verdict::Match {
                return self.matches(total).await.map(compared);
            }
        }
        let Some(target) = target else {
            return self.fail(Outcome::Negative, "", total).await.map(compared);
        };
        self.send(target, how, total).await.map(compared)
    }

    fn judge(&self, base: Delta, base_is_new: bool, provider: Option<Delta>) -> Found {
        let facts = Facts {
            ledger: self.claim.total,
            base,
            sent: self.claim.sent,
            provider,
            complete: true,
            closed: false,
            last: self.claim.last_outcome,
            in_doubt: self.claim.in_doubt,
            base_is_new,
        };
        let (verdict, cause) = judge(&facts);
        Found {
            facts,
            verdict,
            cause,
        }
    }

    /// The base with its evidence, before the first write.
    async fn fix_base(&self, mut fixing: Vec<Statement>, found: Found) -> Result<(), Fault> {
        let evidence = Evidence {
            pair: self.subject.pair.clone(),
            agreement_id: Some(self.claim.agreement_id.clone()),
            facts: found.facts,
            counters: self.claim.total,
            verdict: found.verdict,
            cause: Some(Cause::BaseChanged),
            repaired_to: None,
            read_back: None,
            at: self.world.now(),
        };
        fixing.push(evidence.add());
        self.world.ledger.batch(fixing).await?;
        Ok(())
    }

    async fn read(&self) -> Result<Read, Fault> {
        let agreement = &self.subject.agreement.agreement_id;
        let key = &self.subject.provider_key;
        match self.world.provider.read_meter(agreement, key).await {
            Ok(total) => Ok(Read::Total(total)),
            Err(ProviderFault::Refused { .. }) => Ok(Read::Refused),
            Err(ProviderFault::Unknown(_) | ProviderFault::Incomplete(_)) => Ok(Read::Failed),
            Err(ProviderFault::RateLimited { wait_ms }) => {
                wait(self.world, self.pass, wait_ms).await?;
                Ok(Read::Failed)
            }
            Err(ProviderFault::NotConfigured(name)) => Err(Fault::not_configured(name)),
        }
    }

    async fn unreadable(&self, base: Delta, how: How) -> Result<Written, Fault> {
        let written = self.fail(Outcome::Unreadable, "", None).await?;
        let found = self.judge(base, false, None);
        Ok(Written {
            found: (how == How::Reconcile).then_some(found),
            ..written
        })
    }

    /// What an earlier meter holds nobody can know: a person must look.
    async fn ask(&self, doubtful: &Meter) -> Result<Written, Fault> {
        let now = self.world.now();
        let (pair, token) = (&self.subject.pair, self.claim.token.as_str());
        let mut statements = base::ask(self.subject, (self.number, &self.claim), doubtful, now);
        let ended = Some((Outcome::BaseInDoubt, ""));
        statements.push(store::give_back(pair, self.number, token, ended, now));
        self.world.ledger.batch(statements).await?;
        Ok(Written::ended(Outcome::BaseInDoubt))
    }

    async fn matches(&self, total: Delta) -> Result<Written, Fault> {
        let now = self.world.now();
        let (pair, token) = (&self.subject.pair, self.claim.token.as_str());
        let statements = vec![
            store::note_read(pair, self.number, token, total, now),
            store::give_back(pair, self.number, token, None, now),
        ];
        self.world.ledger.batch(statements).await?;
        Ok(Written::default())
    }

    async fn foreign(&self, total: Delta) -> Result<Written, Fault> {
        let now = self.world.now();
        let (pair, token) = (&self.subject.pair, self.claim.token.as_str());
        let (account, feature, cycle) = (
            pair.account_id.as_str(),
            pair.feature.as_str(),
            pair.cycle.as_str(),
        );
        let numbers = json!({"agreement_id": self.claim.agreement_id, "provider": total.get(),
            "ledger": self.claim.total.get(), "meter": self.number});
        // Each finding is another one: a number may be given again, and the item of an earlier
        // finding may be closed.
        let subject = [account, feature, cycle, token];
        let review = Review::new(ReviewKind::ForeignTotal, &subject, numbers, now).of(
            account,
            Some(feature),
            Some(cycle),
        );
        let statements = vec![
            review.open(),
            store::note_read(pair, self.number, token, total, now),
            store::hold_for_review(pair, self.number, token, &review.review_id),
            store::give_back(pair, self.number, token, Some((Outcome::Foreign, "")), now),
        ];
        self.world.ledger.batch(statements).await?;
        Ok(Written::ended(Outcome::Foreign))
    }

    /// Sends the total under the lease and stores what came of it.
    async fn send(&self, target: Units, how: How, read: Option<Delta>) -> Result<Written, Fault> {
        let now = self.world.now();
        if self.claim.until.since(now) < SEND_TIMEOUT_MS {
            return self.put_back(Written::held(Held::NoLease)).await;
        }
        let turn = self.subject.turn(now);
        if turn != Turn::Open {
            return self.put_back(Written::held(Held::Turn(turn))).await;
        }
        let agreement = &self.subject.agreement.agreement_id;
        let key = &self.subject.provider_key;
        let provider = &self.world.provider;
        match provider.write_meter(agreement, key, target, now).await {
            Ok(()) => self.sent(target, how).await,
            Err(fault @ ProviderFault::Refused { .. }) => {
                self.fail(Outcome::Refused, &fault.to_string(), read).await
            }
            Err(fault @ ProviderFault::RateLimited { wait_ms }) => {
                wait(self.world, self.pass, wait_ms).await?;
                self.fail(Outcome::Refused, &fault.to_string(), read).await
            }
            Err(ProviderFault::NotConfigured(name)) => {
                self.put_back(Written::default()).await?;
                Err(Fault::not_configured(name))
            }
            Err(ProviderFault::Unknown(detail) | ProviderFault::Incomplete(detail)) => {
                let (pair, token) = (&self.subject.pair, self.claim.token.as_str());
                let now = self.world.now();
                let statement = store::unknown(pair, self.number, token, &detail, now);
                self.world.ledger.query(statement).await?;
                Ok(Written::ended(Outcome::Unknown))
            }
        }
    }

    /// A 200. It is read back where a repair must be proven or an earlier write is in doubt.
    async fn sent(&self, target: Units, how: How) -> Result<Written, Fault> {
        let written = |outcome, read_back| Written {
            outcome: Some(outcome),
            sent: Some(target),
            read_back,
            ..Written::default()
        };
        if how == How::Report && !self.claim.in_doubt {
            self.confirm(target, None).await?;
            return Ok(written(Outcome::Confirmed, None));
        }
        let differs = match self.read().await? {
            Read::Total(read) if read == Delta::from(target) => {
                self.confirm(target, Some(read)).await?;
                return Ok(written(Outcome::Confirmed, Some(read)));
            }
            Read::Refused if how == How::Report => {
                self.confirm(target, None).await?;
                return Ok(written(Outcome::Confirmed, None));
            }
            Read::Total(read) => (Some(read), Outcome::ReadBackDiffers),
            Read::Refused | Read::Failed => (None, Outcome::Unreadable),
        };
        let (pair, now) = (&self.subject.pair, self.world.now());
        let statements = store::not_read_back(pair, self.number, &self.claim, target, differs, now);
        self.world.ledger.batch(statements).await?;
        Ok(written(differs.1, differs.0))
    }

    async fn confirm(&self, target: Units, read_back: Option<Delta>) -> Result<(), Fault> {
        let (pair, now) = (&self.subject.pair, self.world.now());
        let statements = store::confirm(pair, self.number, &self.claim, target, read_back, now);
        let results = self.world.ledger.batch(statements).await?;
        if results.last().is_none_or(Vec::is_empty) {
            return Err(Fault::unavailable("confirm a meter", "its lease was lost"));
        }
        Ok(())
    }

    /// The attempt ended without a write: the lease back, with how it ended.
    async fn fail(
        &self,
        outcome: Outcome,
        detail: &str,
        read: Option<Delta>,
    ) -> Result<Written, Fault> {
        let now = self.world.now();
        let (pair, token) = (&self.subject.pair, self.claim.token.as_str());
        let mut statements = Vec::new();
        if let Some(read) = read {
            statements.push(store::note_read(pair, self.number, token, read, now));
        }
        let ended = Some((outcome, detail));
        statements.push(store::give_back(pair, self.number, token, ended, now));
        self.world.ledger.batch(statements).await?;
        Ok(Written::ended(outcome))
    }

    /// Nothing was tried: the lease back as if it had not been taken.
    async fn put_back(&self, written: Written) -> Result<Written, Fault> {
        let (pair, token) = (&self.subject.pair, self.claim.token.as_str());
        let statement = store::give_back(pair, self.number, token, None, self.world.now());
        self.world.ledger.query(statement).await?;
        Ok(written)
    }
}

/// A 429: nothing is sent before then, by any run.
pub(super) async fn wait(world: &World, pass: &Pass, wait_ms: i64) -> Result<(), Fault> {
    pass.told_to_wait.set(true);
    let until = world.now().after(wait_ms.max(1000));
    world.ledger.query(runs::not_before(until)).await?;
    Ok(())
}
