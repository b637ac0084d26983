//! The reporter: every minute, whatever the meters do not know of yet is sent as a total.
//!
//! Each run takes marked pairs a page at a time, each at most once, until none is left or its
//! calls are used up. A failure leaves the mark and stops nobody else; a 429 stops all, until the
//! moment that the provider named.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::{Value as Json, json};

use crate::accounts::{Account, store};
use crate::cycle::Cycle;
use crate::fault::Fault;
use crate::ledger::base;
use crate::ledger::billed::{self, Billed, cycle_named};
use crate::ledger::marks::{self, Agreed, Mark, Note};
use crate::ledger::meter::{Held, How, Pass, Subject, Written};
use crate::ledger::meter_rules::{Outcome, Turn};
use crate::ledger::meter_store::Pair;
use crate::ledger::runs::{self, Begun};
use crate::ledger::turn_guard::{self, write_guarded};
use crate::parallel;
use crate::params;
use crate::ports::{Later, Statement};
use crate::tally;
use crate::units::{AccountId, Millis};
use crate::world::{Calls, World};

/// Marks in one page.
const PAGE_ROWS: i64 = 100;
/// What one page costs beside its meters, and what is kept back for the end of the run.
const CALLS_PER_PAGE: u32 = 16;
/// Where the runs stand, agreements, the run's number, and one meter whose agreement is read again
/// and was replaced.
pub const CALLS_LEAST: u32 =
    10 + CALLS_PER_PAGE + CALLS_PER_METER + base::CALLS + CALLS_PER_REFRESH;
/// What one meter may cost: make, claim, token, read, write, confirm. The few whose token another
/// sender's overtakes take two more, of what `CALLS_PER_RUN` leaves below the platform's limit.
const CALLS_PER_METER: u32 = 7;
/// What reading an agreement again may cost: ticket, read, facts, batch, and loading it.
const CALLS_PER_REFRESH: u32 = 20;
/// Agreements looked at in one statement.
const AGREEMENT_ROWS: i64 = 500;
/// How far a clock of another invocation may be behind: agreements read so long ago are looked at
/// again.
const OVERLAP_MS: i64 = 120_000;
/// A pair without an agreement is tried again after this; a new agreement wakes it sooner.
const WITHOUT_AGREEMENT_MS: i64 = 3_600_000;

/// What one run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Meters that were tried.
    pub tried: i64,
    /// Of these, confirmed.
    pub reported: i64,
    /// Of these, refused, unknown, unreadable or faulty: still marked.
    pub failed: i64,
    /// Of these, held back by turn guard, another sender, or a review.
    pub held: i64,
    /// `LEDGER_0` was restored: nothing is written until it is filled again.
    pub restored: bool,
    /// Whether none is left that this run could try.
    pub done: bool,
}

impl Summary {
    /// As the route answers it.
    pub fn json(&self) -> Json {
        json!({"tried": self.tried, "reported": self.reported, "failed": self.failed,
            "held": self.held, "restored": self.restored, "done": self.done})
    }
}

/// One run.
pub async fn run(world: &Rc<World>, calls: &Calls) -> Result<Summary, Fault> {
    run_of(world, calls, None).await
}

/// One run for the meters of one account alone.
pub async fn run_account(
    world: &Rc<World>,
    calls: &Calls,
    account: &Account,
) -> Result<Summary, Fault> {
    run_of(world, calls, Some(&account.account_id)).await
}

async fn run_of(
    world: &Rc<World>,
    calls: &Calls,
    only: Option<&AccountId>,
) -> Result<Summary, Fault> {
    let mut summary = Summary::default();
    let standing = runs::standing(world).await?;
    if standing.restored {
        return Ok(restored(world, standing.number));
    }
    look_at_agreements(world, calls).await?;
    if standing.not_before > world.now() {
        summary.done = true;
        return Ok(summary);
    }
    let pass = match runs::begin(world, &standing).await? {
        Begun::Run(number, token) => Pass::new(number, token),
        Begun::Restored => return Ok(restored(world, standing.number)),
        Begun::Overtaken => return Ok(summary),
    };
    let run = Run {
        world,
        calls,
        only,
        pass,
    };
    run.find_ends().await?;
    while run.page(&mut summary).await? {}
    Ok(summary)
}

/// Nothing is written until a reconciler run has seen everything come back.
fn restored(world: &World, number: i64) -> Summary {
    world
        .log
        .line("error", "ledger.restored", json!({"run": number}));
    Summary {
        restored: true,
        done: true,
        ..Summary::default()
    }
}

struct Run<'a> {
    world: &'a Rc<World>,
    calls: &'a Calls,
    only: Option<&'a AccountId>,
    pass: Pass,
}

/// What became of one mark.
struct Tried {
    account_id: AccountId,
    agrees: bool,
    outcome: Result<Written, Fault>,
}

impl Run<'_> {
    /// Asks the accounts' anchors when the cycles of new counters end, and stores the cycles' rows:
    /// where DB was out of reach at the first use of a cycle, entries name one that it lacks.
    async fn find_ends(&self) -> Result<(), Fault> {
        while self.calls.left() > CALLS_PER_PAGE {
            let ledger = &*self.world.ledger;
            let pairs = marks::without_end(ledger, AGREEMENT_ROWS).await?;
            if pairs.is_empty() {
                return Ok(());
            }
            let billed = billed::load(&*self.world.db, &accounts_of(pairs.iter())).await?;
            let cycles: Vec<Option<Cycle>> = pairs
                .iter()
                .map(|pair| {
                    let account = &billed.get(&pair.account_id)?.account;
                    cycle_named(&account.anchors, &pair.cycle)
                })
                .collect();
            let known = pairs.iter().zip(&cycles);
            let rows = known
                .clone()
                .filter_map(|(pair, cycle)| Some((&pair.account_id, cycle.as_ref()?)));
            self.world.db.query(store::cycle_rows(rows)).await?;
            // Of a cycle that nobody knows nothing is ever sent: as if it were over.
            let end = |cycle: &Option<Cycle>| cycle.as_ref().map_or(Millis::ZERO, |c| c.ends_at);
            let notes: Vec<Note> = known
                .map(|(pair, cycle)| Note {
                    at: end(cycle),
                    pair: pair.clone(),
                })
                .collect();
            ledger.query(marks::set_ends(&notes)).await?;
            if i64::try_from(notes.len()).unwrap_or(0) < AGREEMENT_ROWS {
                return Ok(());
            }
        }
        Ok(())
    }

    /// One page. `false` where none is left, the provider asked us to wait, or calls are used up.
    async fn page(&self, summary: &mut Summary) -> Result<bool, Fault> {
        let left = self.calls.left().saturating_sub(CALLS_PER_PAGE);
        let affordable = i64::from(left / CALLS_PER_METER).min(PAGE_ROWS);
        if self.pass.told_to_wait.get() {
            summary.done = true;
        }
        if affordable == 0 || summary.done {
            return Ok(false);
        }
        let ledger = &*self.world.ledger;
        let now = self.world.now();
        let marks = marks::page(ledger, self.only, self.pass.run, now, affordable).await?;
        summary.done = i64::try_from(marks.len()).unwrap_or(0) < affordable;
        let accounts = accounts_of(marks.iter().map(|mark| &mark.pair));
        let billed = billed::load(&*self.world.db, &accounts).await?;
        let (mut subjects, mut notes) = (Vec::new(), Vec::new());
        let mut cost = 0;
        for mark in marks {
            let (subject, wait_until) = self.subject(&mark, &billed, now);
            let is_ended = |subject: &Subject| subject.turn(now) == Turn::Ended;
            cost += CALLS_PER_METER + subject.as_ref().map_or(0, base::calls);
            if subject.as_ref().is_some_and(is_ended) {
                cost += CALLS_PER_REFRESH;
            }
            if cost > left && !notes.is_empty() {
                // What does not fit is not tried: the next run begins with it.
                summary.done = false;
                break;
            }
            notes.push(Note {
                pair: mark.pair,
                at: wait_until,
            });
            subjects.extend(subject);
        }
        ledger
            .query(marks::set_tried(&notes, self.pass.run, now))
            .await?;
        let works = subjects
            .into_iter()
            .map(|subject| -> Later<'_, Tried> { Box::pin(self.one(subject)) })
            .collect();
        let tried = parallel::all(works, self.world.settings.meter_concurrency).await;
        let is_demo = |id: &AccountId| billed.get(id).is_some_and(|one| one.account.demo);
        self.count_all(tried.iter().filter(|one| !is_demo(&one.account_id)));
        self.end_page(&tried, summary).await?;
        Ok(!summary.done)
    }

    /// What is to be written, or until when the pair waits.
    fn subject(
        &self,
        mark: &Mark,
        billed: &BTreeMap<AccountId, Billed>,
        now: Millis,
    ) -> (Option<Subject>, Millis) {
        let later = now.after(WITHOUT_AGREEMENT_MS);
        let settings = &self.world.settings;
        let billed = billed.get(&mark.pair.account_id);
        let (Some(billed), Some(feature)) = (billed, settings.feature(&mark.pair.feature)) else {
            return (None, later);
        };
        let cycle = cycle_named(&billed.account.anchors, &mark.pair.cycle);
        let (Some(agreement), Some(cycle)) = (&billed.agreement, cycle) else {
            return (None, later);
        };
        if now < cycle.starts_at {
            return (None, cycle.starts_at);
        }
        let subject = Subject {
            pair: mark.pair.clone(),
            provider_key: feature.provider_key.clone(),
            cycle,
            agreement: agreement.clone(),
            agreements: billed.agreements.clone(),
            meter: mark.meter.clone(),
        };
        (Some(subject), Millis::ZERO)
    }

    async fn one(&self, mut subject: Subject) -> Tried {
        let outcome = write_guarded(self.world, &self.pass, &mut subject, How::Report).await;
        if let Err(fault) = &outcome {
            let fields = json!({"account": subject.pair.account_id.as_str(),
                "feature": subject.pair.feature.as_str(), "cause": fault.to_string()});
            self.world.log.line("error", "reporter.fault", fields);
        }
        let differs = matches!(&outcome, Ok(w) if w.held == Some(Held::Turn(Turn::Differs)));
        Tried {
            account_id: subject.pair.account_id,
            agrees: !differs,
            outcome,
        }
    }

    /// For `/metrics`.
    fn count_all<'t>(&self, tried: impl Iterator<Item = &'t Tried>) {
        for one in tried {
            let result = match one.outcome.as_ref().map(|written| written.outcome) {
                Ok(Some(outcome)) => outcome.name(),
                Ok(None) => "held",
                Err(_) => "fault",
            };
            self.pass
                .count(&format!("counterfoil_reports_total{{result=\"{result}\"}}"));
        }
    }

    async fn end_page(&self, tried: &[Tried], summary: &mut Summary) -> Result<(), Fault> {
        for one in tried {
            summary.tried += 1;
            match one.outcome.as_ref().map(|written| written.outcome) {
                Ok(Some(Outcome::Confirmed)) => summary.reported += 1,
                Ok(None) => summary.held += 1,
                Ok(Some(_)) | Err(_) => summary.failed += 1,
            }
        }
        let differ: BTreeSet<&str> = tried
            .iter()
            .filter(|one| !one.agrees)
            .map(|one| one.account_id.as_str())
            .collect();
        let agree: BTreeSet<&str> = tried
            .iter()
            .map(|one| one.account_id.as_str())
            .filter(|id| !differ.contains(id))
            .collect();
        let agree: Vec<&str> = agree.into_iter().collect();
        let mut statements = vec![turn_guard::agrees(&agree)];
        let tallies = std::mem::take(&mut *self.pass.tallies.borrow_mut());
        statements.extend(tallies.iter().map(|(name, by)| tally::add(name, *by)));
        self.world.ledger.batch(statements).await?;
        Ok(())
    }
}

fn accounts_of<'a>(pairs: impl Iterator<Item = &'a Pair>) -> Vec<AccountId> {
    let ids: BTreeSet<&AccountId> = pairs.map(|pair| &pair.account_id).collect();
    ids.into_iter().cloned().collect()
}

/// Looks at the agreements that were read since the last run: a replaced one has another meter.
/// Where the last run ended stands in DB; what was read a little before it is looked at again.
async fn look_at_agreements(world: &Rc<World>, calls: &Calls) -> Result<(), Fault> {
    let sql = "select after from cron where name = 'agreements'";
    let rows = world.db.query(Statement::new(sql, vec![])).await?;
    let stored = rows.first().map(|row| row.opt_text("after")).transpose()?;
    let mut after = Place::parse(stored.flatten().unwrap_or_default());
    while calls.left() > CALLS_PER_PAGE {
        let (agreed, last) = agreed_after(world, &after).await?;
        marks::mark_replaced(&*world.ledger, &agreed, world.now()).await?;
        let is_last = i64::try_from(agreed.len()).unwrap_or(0) < AGREEMENT_ROWS;
        let reached = match last {
            Some(last) if is_last => last.not_after(world.now().after(-OVERLAP_MS)),
            Some(last) => last,
            None => return Ok(()),
        };
        if reached == after {
            return Ok(());
        }
        let sql = "insert into cron (name, after) values ('agreements', ?1) \
            on conflict (name) do update set after = excluded.after";
        let store = Statement::new(sql, params![reached.text()]);
        world.db.query(store).await?;
        if is_last {
            return Ok(());
        }
        after = reached;
    }
    Ok(())
}

async fn agreed_after(world: &World, after: &Place) -> Result<(Vec<Agreed>, Option<Place>), Fault> {
    let sql = "select g.account_id as account_id, g.agreement_id as agreement_id, \
        g.period_start_ms as period_start_ms, g.read_at_ms as read_at_ms \
        from agreement g join account a \
        on a.account_id = g.account_id and a.agreement_id = g.agreement_id \
        where g.read_at_ms > ?1 or (g.read_at_ms = ?1 and g.account_id > ?2) \
        order by g.read_at_ms, g.account_id limit cast(?3 as integer)";
    let params = params![after.read_at, after.account.as_str(), AGREEMENT_ROWS];
    let rows = world.db.query(Statement::new(sql, params)).await?;
    let mut agreed = Vec::new();
    let mut last = None;
    for row in &rows {
        let account_id = row.id("account_id", AccountId::new)?;
        last = Some(Place {
            read_at: row.millis("read_at_ms")?,
            account: account_id.to_string(),
        });
        agreed.push(Agreed {
            account_id,
            agreement_id: row.text("agreement_id")?.to_owned(),
            period_start: row.opt_millis("period_start_ms")?,
        });
    }
    Ok((agreed, last))
}

/// A place in the order of agreements: when they were read, then whose they are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    read_at: Millis,
    account: String,
}

impl Place {
    fn parse(text: &str) -> Self {
        let (at, account) = text.split_once(' ').unwrap_or((text, ""));
        Self {
            read_at: at.parse().map_or(Millis::ZERO, Millis::new),
            account: account.to_owned(),
        }
    }

    fn text(&self) -> String {
        format!("{} {}", self.read_at.get(), self.account)
    }

    fn not_after(self, limit: Millis) -> Self {
        if self.read_at <= limit {
            return self;
        }
        Self {
            read_at: limit,
            account: String::new(),
        }
    }
}
