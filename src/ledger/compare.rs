//! One comparison of the reconciler: a counter with its entries, a meter with the ledger.
//!
//! The meter is first read without a lease: where it holds what it should, nobody needs to wait.
//! Where it differs, it is read again under the lease of the one writing function, with the total
//! of that moment; that is what the verdict and the repair stand on.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::json;

use super::base_rules::{Agreement, is_other_meter, known_together};
use super::billed::{Billed, cycle_named};
use super::carry::look_at_closed;
use super::evidence::{self, Evidence};
use super::meter::{Held, How, Pass, Subject, Written};
use super::meter_rules::{Cause, Facts, Outcome, Turn, Verdict, judge};
use super::meter_store::{self, IdleRead, Pair};
use super::totals::{self, Sum};
use super::turn_guard::{self, write_guarded};
use crate::accounts::store;
use crate::fault::Fault;
use crate::ports::Statement;
use crate::tally;
use crate::units::{Delta, Millis, Units};
use crate::world::World;

/// Pairs that one dry run shows; its counts tell of all.
const DIFFERS_MAX: usize = 100;

/// What became of one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What was found.
    pub verdict: Verdict,
    /// Whether the pair was marked before.
    pub was_marked: bool,
    /// Whether it was written and read back.
    pub is_repaired: bool,
    /// Whether it differs still.
    pub is_failed: bool,
}

/// Under which one count of a run a pair stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// The meter holds what the ledger says.
    Matched,
    /// It was written and read back.
    Repaired,
    /// It could not be read, or not be said what it should hold.
    Unreadable,
    /// The ledger lacks something.
    Incomplete,
    /// It should have been repaired, and was not.
    Failed,
    /// It differs, and is not to be written now: a dry run, an open item, a closed cycle.
    Left,
}

impl Seen {
    /// A comparison after which nothing was written.
    pub const fn only(verdict: Verdict, was_marked: bool) -> Self {
        Self {
            verdict,
            was_marked,
            is_repaired: false,
            is_failed: false,
        }
    }

    /// The one count that it belongs to.
    pub const fn count(self) -> Count {
        match self.verdict {
            _ if self.is_failed => Count::Failed,
            _ if self.is_repaired => Count::Repaired,
            Verdict::Match => Count::Matched,
            Verdict::Unreadable => Count::Unreadable,
            Verdict::Incomplete => Count::Incomplete,
            Verdict::ClosedCycleDrift | Verdict::OverBilled | Verdict::UnderBilled => Count::Left,
        }
    }

    /// Whether it differed though nothing was marked.
    pub const fn is_drift(self) -> bool {
        let differs = matches!(
            self.verdict,
            Verdict::ClosedCycleDrift | Verdict::OverBilled | Verdict::UnderBilled
        );
        differs && !self.was_marked
    }
}

/// What all comparisons of one run share.
pub struct Comparer<'a> {
    /// Ports, settings, clock.
    pub world: &'a Rc<World>,
    /// The run.
    pub pass: &'a Pass,
    /// Whether nothing may be written.
    pub is_dry: bool,
    /// Whether the account is a demonstration, which no sum for `/metrics` counts.
    pub is_demo: bool,
    /// What a dry run found that does not match; other runs store it.
    pub differs: &'a RefCell<Vec<Evidence>>,
    /// What is to be stored of pairs that matched: of a whole page together.
    pub matches: &'a RefCell<Vec<Found>>,
}

/// What a comparison leaves behind where nothing was written to the meter.
#[derive(Clone, Debug)]
pub struct Found {
    evidence: Evidence,
    idle_read: Option<IdleRead>,
}

/// The statements that store what was found.
pub fn store_found(found: &[Found]) -> Vec<Statement> {
    let idle_reads = found.iter().filter_map(|one| one.idle_read.as_ref());
    let evidence = found.iter().map(|one| &one.evidence);
    vec![
        meter_store::note_idle_reads(idle_reads),
        evidence::add_all(evidence),
    ]
}

impl Comparer<'_> {
    /// One pair: counters, then the meter. `None` where there is nothing to compare.
    pub async fn pair(
        &self,
        sum: &Sum,
        billed: &Billed,
        is_complete: bool,
    ) -> Result<Option<Seen>, Fault> {
        let now = self.world.now();
        let cycle = cycle_named(&billed.account.anchors, &sum.pair.cycle);
        let Some(cycle) = cycle.filter(|cycle| cycle.starts_at <= now && !sum.is_archived) else {
            return Ok(None);
        };
        let mut sum = sum.clone();
        let counters = sum.counters;
        if is_complete && !self.is_dry && sum.counters != sum.ledger {
            self.rebuild(&sum.pair, now).await?;
            sum.version += 1;
            sum.counters = sum.ledger;
        }
        let agreement = billed.agreement.as_ref();
        if !is_complete {
            return match agreement {
                None => Ok(None),
                Some(agreement) => self.incomplete(&sum, counters, agreement).await.map(Some),
            };
        }
        if cycle.ends_at <= now {
            if !self.is_dry {
                // Entries name the cycle, and nobody may have reported it while it was open.
                let row = store::cycle_row(&sum.pair.account_id, &cycle);
                self.world.db.query(row).await?;
            }
            let since = agreement.map(|agreement| agreement.first_seen);
            let found = look_at_closed(self.world, &sum, since, &cycle, self.is_dry).await?;
            return Ok(found.map(|found| {
                let seen = Seen::only(found.verdict, false);
                self.show(found);
                seen
            }));
        }
        let feature = self.world.settings.feature(&sum.pair.feature);
        let (Some(agreement), Some(feature)) = (agreement, feature) else {
            return Ok(None);
        };
        if !billed.account.anchor_fixed && !self.is_dry && sum.version > 0 {
            store::fix_anchor(&*self.world.db, &billed.account.account_id, now).await?;
        }
        let subject = Subject {
            pair: sum.pair.clone(),
            provider_key: feature.provider_key.clone(),
            cycle,
            agreement: agreement.clone(),
            agreements: billed.agreements.clone(),
            meter: sum.meter.clone(),
        };
        let open = OpenPair {
            by: self,
            was_marked: is_marked(&sum, &subject),
            sum,
            counters,
        };
        open.look(subject).await.map(Some)
    }

    /// Keeps what a dry run found.
    fn show(&self, found: Evidence) {
        let mut differs = self.differs.borrow_mut();
        if self.is_dry && found.verdict != Verdict::Match && differs.len() < DIFFERS_MAX {
            differs.push(found);
        }
    }

    async fn rebuild(&self, pair: &Pair, now: Millis) -> Result<(), Fault> {
        let mut batch = vec![totals::rebuild(pair, now)];
        if !self.is_demo {
            batch.push(tally::add("counterfoil_counters_rebuilt_total", 1));
        }
        self.world.ledger.batch(batch).await?;
        let fields = json!({"account": pair.account_id.as_str(),
            "feature": pair.feature.as_str(), "cycle": pair.cycle.as_str()});
        self.world.log.line("warn", "counter.rebuilt", fields);
        Ok(())
    }

    async fn incomplete(
        &self,
        sum: &Sum,
        counters: Delta,
        agreement: &Agreement,
    ) -> Result<Seen, Fault> {
        let mut facts = facts_of(sum, None);
        facts.complete = false;
        let (verdict, cause) = judge(&facts);
        let found = Said {
            facts,
            verdict,
            cause,
            sent: None,
            read_back: None,
        };
        self.note(sum, counters, agreement, &found, None).await?;
        Ok(Seen::only(verdict, false))
    }

    /// The evidence of one comparison, with what was read of the meter.
    async fn note(
        &self,
        sum: &Sum,
        counters: Delta,
        agreement: &Agreement,
        said: &Said,
        idle_read: Option<IdleRead>,
    ) -> Result<(), Fault> {
        let evidence = Evidence {
            pair: sum.pair.clone(),
            agreement_id: Some(agreement.agreement_id.to_string()),
            facts: said.facts,
            counters,
            verdict: said.verdict,
            cause: said.cause,
            repaired_to: said.sent,
            read_back: said.read_back,
            at: self.world.now(),
        };
        if self.is_dry {
            self.show(evidence);
            return Ok(());
        }
        let found = Found {
            evidence,
            idle_read,
        };
        if said.verdict == Verdict::Match && said.sent.is_none() {
            self.matches.borrow_mut().push(found);
            return Ok(());
        }
        let mut statements = store_found(&[found]);
        if said.verdict.is_drift() && !self.is_demo {
            let name = format!(
                "counterfoil_drift_total{{verdict=\"{}\"}}",
                said.verdict.name()
            );
            statements.push(tally::add(&name, 1));
        }
        self.world.ledger.batch(statements).await?;
        Ok(())
    }
}

/// What is said of a comparison.
struct Said {
    facts: Facts,
    verdict: Verdict,
    cause: Option<Cause>,
    sent: Option<Units>,
    read_back: Option<Delta>,
}

/// The pair is marked while its current meter is missing or knows an older version.
fn is_marked(sum: &Sum, subject: &Subject) -> bool {
    match subject.current_meter() {
        Some(meter) => sum.version > meter.reported,
        None => sum.version > 0,
    }
}

/// The facts as they were loaded, without a lease.
fn facts_of(sum: &Sum, provider: Option<Delta>) -> Facts {
    let meter = sum.meter.as_ref();
    Facts {
        ledger: sum.ledger,
        base: meter.and_then(|m| m.base).unwrap_or(Delta::ZERO),
        sent: meter.and_then(|m| m.sent),
        provider,
        complete: true,
        closed: false,
        last: meter.and_then(|m| m.last_outcome),
        in_doubt: meter.is_some_and(|m| m.in_doubt),
        base_is_new: false,
    }
}

/// What is said of a meter that was read without a lease; `None` while its base is not known.
fn said_of(sum: &Sum, subject: &Subject, provider: Delta, base: Option<Delta>) -> Option<Said> {
    let mut facts = facts_of(sum, Some(provider));
    facts.base = base?;
    if subject.current_meter().is_none() {
        facts.sent = None;
        facts.last = None;
        facts.in_doubt = false;
        facts.base_is_new = sum.meter.is_some();
    }
    let (verdict, cause) = judge(&facts);
    Some(Said {
        facts,
        verdict,
        cause,
        sent: None,
        read_back: None,
    })
}

/// A pair of an open cycle, with its agreement.
struct OpenPair<'a> {
    by: &'a Comparer<'a>,
    sum: Sum,
    counters: Delta,
    was_marked: bool,
}

impl OpenPair<'_> {
    async fn look(&self, mut subject: Subject) -> Result<Seen, Fault> {
        let by = self.by;
        let mut turn = subject.turn(by.world.now());
        if turn == Turn::Ended && !by.is_dry {
            turn_guard::refresh(by.world, by.pass, &mut subject).await?;
            turn = subject.turn(by.world.now());
        }
        if turn == Turn::Differs && !by.is_dry {
            turn_guard::differs(by.world, by.pass, &mut subject).await?;
        }
        // A meter of another period than our cycle says nothing about it.
        if turn != Turn::Open {
            return self.unreadable(&subject).await;
        }
        let Some(provider) = self.read(&subject).await else {
            return self.unreadable(&subject).await;
        };
        let base = self.base(&subject).await?;
        let said = said_of(&self.sum, &subject, provider, base);
        let is_settled = match &said {
            Some(said) => said.verdict == Verdict::Match || self.is_held(),
            None => false,
        };
        match said {
            Some(said) if is_settled => self.said(&subject, &said).await,
            _ if by.is_dry => self.again(&subject).await,
            said => {
                if self.sum.version == 0 {
                    let counter = meter_store::create_counter(&self.sum.pair);
                    by.world.ledger.query(counter).await?;
                }
                let written =
                    write_guarded(by.world, by.pass, &mut subject, How::Reconcile).await?;
                self.after_write(&subject, said, written).await
            }
        }
    }

    /// Whether an item must be closed before anything is written.
    fn is_held(&self) -> bool {
        let meter = self.sum.meter.as_ref();
        meter.is_some_and(|meter| meter.review_id.is_some())
    }

    /// The meter's base; of one that is not the current one yet, what it will be. `None` where that
    /// is not known.
    async fn base(&self, subject: &Subject) -> Result<Option<Delta>, Fault> {
        if let Some(meter) = subject.current_meter() {
            return Ok(meter.base);
        }
        let (ledger, now) = (&*self.by.world.ledger, self.by.world.now());
        let meters = meter_store::meters_of(ledger, &subject.pair).await?;
        if !subject.without_row(&meters).is_empty() {
            return Ok(None);
        }
        let others = meters
            .iter()
            .filter(|meter| is_other_meter(meter.identity(), subject.agreement.identity()));
        Ok(known_together(others.map(|meter| meter.earlier(now))))
    }

    /// Reads the meter without a lease. `None` where it cannot be read.
    async fn read(&self, subject: &Subject) -> Option<Delta> {
        let agreement = &subject.agreement.agreement_id;
        let provider = &self.by.world.provider;
        let read = provider.read_meter(agreement, &subject.provider_key).await;
        read.ok()
    }

    /// Compares once more, with everything read anew: what differed may have been on its way.
    async fn again(&self, subject: &Subject) -> Result<Seen, Fault> {
        let pair = std::slice::from_ref(&self.sum.pair);
        let sums = totals::sums(&*self.by.world.ledger, pair, &[]).await?;
        let provider = self.read(subject).await;
        let (Some(sum), Some(provider)) = (sums.into_iter().next(), provider) else {
            return self.not_now(subject).await;
        };
        let subject = Subject {
            meter: sum.meter.clone(),
            ..subject.clone()
        };
        let is_busy = sum.meter.as_ref().is_some_and(|meter| meter.is_claimed);
        let base = self.base(&subject).await?;
        match said_of(&sum, &subject, provider, base) {
            Some(said) if said.verdict == Verdict::Match => self.said(&subject, &said).await,
            Some(said) if self.by.is_dry && !is_busy => self.said(&subject, &said).await,
            _ => self.not_now(&subject).await,
        }
    }

    /// Nothing is concluded, and nothing stored, from what is changing or did not answer.
    async fn not_now(&self, subject: &Subject) -> Result<Seen, Fault> {
        if self.by.is_dry {
            return self.unreadable(subject).await;
        }
        Ok(Seen::only(Verdict::Unreadable, self.was_marked))
    }

    async fn after_write(
        &self,
        subject: &Subject,
        said: Option<Said>,
        written: Written,
    ) -> Result<Seen, Fault> {
        if let Some(found) = written.found {
            let is_repaired =
                written.outcome == Some(Outcome::Confirmed) && written.read_back.is_some();
            let said = Said {
                facts: found.facts,
                verdict: found.verdict,
                cause: found.cause,
                sent: written.sent.filter(|_| is_repaired),
                read_back: written.read_back,
            };
            let seen = self.said(subject, &said).await?;
            let is_foreign = written.outcome == Some(Outcome::Foreign);
            let is_failed = said.verdict.is_drift() && !is_repaired && !is_foreign;
            if is_failed {
                self.complain(subject, &written);
            }
            return Ok(Seen {
                is_repaired,
                is_failed,
                ..seen
            });
        }
        if written.held != Some(Held::Busy) {
            return self.unreadable(subject).await;
        }
        // Somebody else has it. Where its last report is known to have failed, what was read
        // tells of a real difference; otherwise it may just be changing.
        let has_failed =
            |said: &Said| said.facts.in_doubt || said.facts.last == Some(Outcome::Unknown);
        match said.filter(has_failed) {
            Some(said) => self.said(subject, &said).await,
            None => self.again(subject).await,
        }
    }

    fn complain(&self, subject: &Subject, written: &Written) {
        let outcome = written.outcome.map(Outcome::name);
        let fields = json!({"account": subject.pair.account_id.as_str(),
            "feature": subject.pair.feature.as_str(), "cycle": subject.pair.cycle.as_str(),
            "outcome": outcome, "read_back": written.read_back.map(Delta::get)});
        self.by
            .world
            .log
            .line("error", "reconciler.not_repaired", fields);
    }

    async fn said(&self, subject: &Subject, said: &Said) -> Result<Seen, Fault> {
        let idle_read = match (subject.current_meter(), said.facts.provider) {
            (Some(meter), Some(read)) if said.sent.is_none() => {
                let now = self.by.world.now();
                Some(IdleRead::new(&subject.pair, meter, read, now))
            }
            _ => None,
        };
        let agreement = &subject.agreement;
        self.by
            .note(&self.sum, self.counters, agreement, said, idle_read)
            .await?;
        Ok(Seen::only(said.verdict, self.was_marked))
    }

    async fn unreadable(&self, subject: &Subject) -> Result<Seen, Fault> {
        let facts = facts_of(&self.sum, None);
        let said = Said {
            facts,
            verdict: Verdict::Unreadable,
            cause: None,
            sent: None,
            read_back: None,
        };
        self.said(subject, &said).await
    }
}
