//! What each call does with the open books: facts to the rules, decision to the rows.

use std::collections::BTreeMap;

use serde_json::json;

use super::account::{read_json, write_json};
use super::books::{Books, SWEEP};
use super::limit::{limit_of, look_at, state_name};
use super::rules::{self, Asked, Look, Refused, State};
use super::store::{self, HoldRow, JobRow, sum};
use super::view::{self, refused};
use super::wire::{
    Amounts, BudgetView, ByHand, ChargeAsk, ChargedView, ExtendAsk, Given, ListAsk, RefusedView,
    SettleAsk, Told, units_of,
};
use crate::fault::Fault;
use crate::ledger::review::{Review, ReviewKind};
use crate::units::{FeatureName, JobId, Millis, Units};

/// What a call came to.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "made once a call and taken apart at once; on wasm it is not large"
)]
pub enum Outcome {
    /// The answer.
    Told(Told),
    /// The provider's limits have to be read first; nothing was decided.
    ReadFirst,
}

impl From<RefusedView> for Outcome {
    fn from(why: RefusedView) -> Self {
        Self::Told(Told::Refused(why))
    }
}

/// A feature's name in a message.
pub fn feature_of(name: &str) -> Result<FeatureName, Fault> {
    FeatureName::new(name).ok_or_else(|| Fault::unreadable("read a message", "a feature's name"))
}

/// The amounts by feature, of features that the job has; else the field that is wrong.
fn by_feature(
    job: &JobRow,
    given: &Given,
) -> Result<Result<BTreeMap<FeatureName, Units>, &'static str>, Fault> {
    let totals = job.totals()?;
    let amounts: Amounts = match given {
        Given::Each(amounts) => amounts.clone(),
        Given::One { feature, units } => {
            let name = match (feature, totals.len()) {
                (Some(name), _) => name.clone(),
                (None, 1) => totals.keys().map(ToString::to_string).collect(),
                (None, _) => return Ok(Err("feature")),
            };
            Amounts::from([(name, *units)])
        }
    };
    let mut result = BTreeMap::new();
    for (name, units) in amounts {
        let feature = feature_of(&name)?;
        if !totals.contains_key(&feature) {
            return Ok(Err("feature"));
        }
        result.insert(feature, units_of(units)?);
    }
    Ok(Ok(result))
}

fn wrong(field: &str) -> Outcome {
    let field = field.to_owned();
    RefusedView::Feature { field }.into()
}

fn plain(amounts: &BTreeMap<FeatureName, Units>) -> Amounts {
    amounts
        .iter()
        .map(|(feature, units)| (feature.to_string(), units.get()))
        .collect()
}

/// What is known of a step: `Ok(None)` where it is new.
fn replay(
    books: &Books<'_>,
    job_id: &str,
    step: Option<&str>,
    request: &str,
) -> Result<Option<Outcome>, Fault> {
    let Some(step) = step else { return Ok(None) };
    let Some((ask, answer)) = store::step(&*books.object.sql, job_id, step)? else {
        return Ok(None);
    };
    if ask == request {
        let told = read_json(&answer)?;
        return Ok(Some(Outcome::Told(told)));
    }
    Ok(Some(RefusedView::KeyConflict.into()))
}

fn keep_step(
    books: &Books<'_>,
    job_id: &str,
    step: Option<&str>,
    request: &str,
    told: &Told,
) -> Result<(), Fault> {
    let Some(step) = step else { return Ok(()) };
    let answer = write_json(told)?;
    store::insert_step(&*books.object.sql, job_id, step, request, &answer)
}

/// A sign of life: the lease begins anew.
fn renew_lease(books: &mut Books<'_>, job: &mut JobRow) {
    job.lease_ends_at = books.now.after(job.lease_seconds * 1000);
    // With a shorter clock step than the lease this is later than what is owed; the sweep looks.
    books.owe_by(SWEEP, job.lease_ends_at);
    books.touch();
}

/// A charge: cut to the hold, counted once under its step, renews the lease.
pub fn charge(books: &mut Books<'_>, ask: &ChargeAsk) -> Result<Outcome, Fault> {
    let sql = &*books.object.sql;
    let Some(mut job) = store::job(sql, &ask.job_id)? else {
        return Ok(RefusedView::NotFound.into());
    };
    let units = match by_feature(&job, &ask.units)? {
        Ok(units) => units,
        Err(field) => return Ok(wrong(field)),
    };
    let request = write_json(&("charge", plain(&units)))?;
    if let Some(outcome) = replay(books, &ask.job_id, ask.step.as_deref(), &request)? {
        return Ok(outcome);
    }
    if let Err(why) = rules::running(job.state, job.lease_ends_at, books.now) {
        return Ok(refused(books, why, None, Look::Fresh, Some(&job))?.into());
    }
    let (mut charged, mut uncovered) = (Amounts::new(), Amounts::new());
    for (feature, units) in &units {
        let mut row = books.current_row(&mut job, feature)?.clone();
        let cut = rules::charge(row.hold, *units);
        row.uncovered = row.uncovered.plus(cut.uncovered).unwrap_or(Units::MAX);
        books.charge(&job, &mut row, cut.charged)?;
        store::put_hold(sql, &job.job_id, &row)?;
        *books.current_row(&mut job, feature)? = row;
        charged.insert(feature.to_string(), cut.charged.get());
        uncovered.insert(feature.to_string(), cut.uncovered.get());
    }
    let capped = uncovered.values().any(|units| *units > 0);
    job.capped |= capped;
    renew_lease(books, &mut job);
    store::update_job(sql, &job)?;
    books.tally("counterfoil_charges_total", 1);
    let (held, used) = view::held_and_used(&job)?;
    let told = Told::Charged(ChargedView {
        charged: view::all(&held, &charged),
        capped,
        uncovered: view::all(&held, &uncovered),
        held,
        used,
        lease_ends_at_ms: job.lease_ends_at.get(),
    });
    keep_step(books, &ask.job_id, ask.step.as_deref(), &request, &told)?;
    Ok(Outcome::Told(told))
}

/// More hold under the rules of admission; renews the lease.
pub fn extend(books: &mut Books<'_>, ask: &ExtendAsk, waited: bool) -> Result<Outcome, Fault> {
    let sql = &*books.object.sql;
    let Some(mut job) = store::job(sql, &ask.job_id)? else {
        return Ok(RefusedView::NotFound.into());
    };
    let given = Given::One {
        feature: ask.feature.clone(),
        units: ask.units,
    };
    let (feature, units) = match by_feature(&job, &given)? {
        Ok(units) => match units.into_iter().next() {
            Some(line) => line,
            None => return Ok(wrong("feature")),
        },
        Err(field) => return Ok(wrong(field)),
    };
    let request = write_json(&("extend", feature.as_str(), units.get()))?;
    if let Some(outcome) = replay(books, &ask.job_id, ask.step.as_deref(), &request)? {
        return Ok(outcome);
    }
    let look = look_at(books, waited);
    if look == Look::Read && job.state == State::Running {
        return Ok(Outcome::ReadFirst);
    }
    let asked = Asked {
        units,
        limit: limit_of(books, &feature, look),
        budget: books.budget(&feature)?,
    };
    if let Err(why) = rules::extend(job.state, job.lease_ends_at, books.now, asked) {
        let line = Some((&feature, &asked));
        let view = refused(books, why, line, look, Some(&job))?;
        view::note(books, "extend", &ask.job_id, why, line)?;
        return Ok(view.into());
    }
    books.hold(&feature, units)?;
    let mut row = books.current_row(&mut job, &feature)?.clone();
    row.hold.held = sum(row.hold.held, units)?;
    store::put_hold(sql, &job.job_id, &row)?;
    *books.current_row(&mut job, &feature)? = row;
    renew_lease(books, &mut job);
    store::update_job(sql, &job)?;
    books.tally("counterfoil_extensions_total{result=\"admitted\"}", 1);
    let told = Told::Job(view::job(books, &job, look)?);
    keep_step(books, &ask.job_id, ask.step.as_deref(), &request, &told)?;
    Ok(Outcome::Told(told))
}

/// A sign of life.
pub fn renew(books: &mut Books<'_>, job_id: &str) -> Result<Outcome, Fault> {
    let sql = &*books.object.sql;
    let Some(mut job) = store::job(sql, job_id)? else {
        return Ok(RefusedView::NotFound.into());
    };
    if let Err(why) = rules::running(job.state, job.lease_ends_at, books.now) {
        return Ok(refused(books, why, None, Look::Fresh, Some(&job))?.into());
    }
    renew_lease(books, &mut job);
    store::update_job(sql, &job)?;
    let lease_ends_at_ms = job.lease_ends_at.get();
    Ok(Outcome::Told(Told::Renewed { lease_ends_at_ms }))
}

/// The end of a job, once; again it answers as the first time.
pub fn settle(books: &mut Books<'_>, ask: &SettleAsk) -> Result<Outcome, Fault> {
    let sql = &*books.object.sql;
    let Some(mut job) = store::job(sql, &ask.job_id)? else {
        return Ok(RefusedView::NotFound.into());
    };
    let used = match &ask.used {
        None => BTreeMap::new(),
        Some(given) => match by_feature(&job, given)? {
            Ok(used) => used,
            Err(_) => return Ok(wrong("used")),
        },
    };
    match job.state {
        State::Running => settle_now(books, &mut job, &used, ask)?,
        State::Expired => keep_late(books, &mut job, &used, ask)?,
        State::Settled => {}
    }
    Ok(Outcome::Told(Told::Settled(view::settled(&job)?)))
}

fn settle_now(
    books: &mut Books<'_>,
    job: &mut JobRow,
    used: &BTreeMap<FeatureName, Units>,
    ask: &SettleAsk,
) -> Result<(), Fault> {
    for (feature, total) in job.totals()? {
        let used = used.get(&feature).copied();
        let end = rules::settle(total.hold, used, total.uncovered);
        let mut row = books.current_row(job, &feature)?.clone();
        books.charge(job, &mut row, end.more)?;
        // The settle says how much no budget covers, over all cycles: it stands in one row.
        row.uncovered = end.uncovered;
        for old in job.holds.iter_mut().filter(|old| old.feature == feature) {
            if old.cycle == row.cycle {
                *old = row.clone();
                store::put_hold(&*books.object.sql, &job.job_id, old)?;
            } else if old.uncovered > Units::ZERO {
                old.uncovered = Units::ZERO;
                store::put_hold(&*books.object.sql, &job.job_id, old)?;
            }
        }
    }
    job.outcome.clone_from(&ask.outcome);
    job.by_hand = by_hand(books, ask);
    books.end(job, State::Settled)
}

/// Use reported after the sweep: it changes no budget and is kept once.
fn keep_late(
    books: &Books<'_>,
    job: &mut JobRow,
    used: &BTreeMap<FeatureName, Units>,
    ask: &SettleAsk,
) -> Result<(), Fault> {
    let totals = job.totals()?;
    if totals.values().any(|total| total.late > Units::ZERO) {
        return Ok(());
    }
    for (feature, total) in totals {
        let late = rules::late(total.hold, used.get(&feature).copied());
        let last = job.holds.iter_mut().rfind(|row| row.feature == feature);
        if let Some(row) = last.filter(|_| late > Units::ZERO) {
            row.late = late;
            store::put_hold(&*books.object.sql, &job.job_id, row)?;
            let review = late_use(books, &job.job_id, row);
            books.feed.put_review(&review, books.now)?;
            job.by_hand = by_hand(books, ask);
            store::update_job(&*books.object.sql, job)?;
        }
    }
    Ok(())
}

fn by_hand(books: &Books<'_>, ask: &SettleAsk) -> Option<ByHand> {
    let at_ms = books.now.get();
    let person = ask.person.clone()?;
    Some(ByHand { person, at_ms })
}

/// To show what is left, an old limit is better than none; nothing is admitted by it.
pub fn for_reading(books: &Books<'_>) -> Look {
    match look_at(books, false) {
        Look::Read if books.limits.read_at.is_some() => Look::Stale,
        look => look,
    }
}

fn late_use(books: &Books<'_>, job_id: &JobId, row: &HoldRow) -> Review {
    let account = books.account.account_id.as_str();
    let subject = [account, job_id.as_str(), row.feature.as_str()];
    let numbers = json!({"job": job_id.as_str(), "charged": row.hold.charged.get(),
        "late": row.late.get()});
    Review::new(ReviewKind::LateUse, &subject, numbers, books.now).of(
        account,
        Some(row.feature.as_str()),
        Some(row.cycle.as_str()),
    )
}

/// One job.
pub fn get(books: &mut Books<'_>, job_id: &str) -> Result<Outcome, Fault> {
    let look = for_reading(books);
    match store::job(&*books.object.sql, job_id)? {
        None => Ok(RefusedView::NotFound.into()),
        Some(job) => Ok(Outcome::Told(Told::Job(view::job(books, &job, look)?))),
    }
}

/// A page of jobs, newest first.
pub fn list(books: &mut Books<'_>, ask: &ListAsk) -> Result<Outcome, Fault> {
    let look = for_reading(books);
    let limit = ask.limit.clamp(1, crate::limits::LIST_ROWS_MAX);
    let mut jobs = store::jobs(
        &*books.object.sql,
        ask.state.as_deref(),
        ask.feature.as_deref(),
        limit + 1,
        ask.after.as_deref(),
    )?;
    let page = usize::try_from(limit).unwrap_or(1);
    let more = jobs.len() > page;
    jobs.truncate(page);
    let next = jobs
        .last()
        .filter(|_| more)
        .map(|job| job.job_id.to_string());
    let items = jobs
        .iter()
        .map(|job| view::job(books, job, look))
        .collect::<Result<_, _>>()?;
    Ok(Outcome::Told(Told::Jobs { items, next }))
}

/// The budgets of these features in the current cycle.
pub fn budgets(books: &mut Books<'_>, features: &[String], waited: bool) -> Result<Outcome, Fault> {
    match look_at(books, waited) {
        Look::Read => Ok(Outcome::ReadFirst),
        look => show_budgets(books, features, look),
    }
}

/// The same without asking the provider.
pub fn live(books: &mut Books<'_>, features: &[String]) -> Result<Outcome, Fault> {
    let look = for_reading(books);
    show_budgets(books, features, look)
}

fn show_budgets(books: &mut Books<'_>, features: &[String], look: Look) -> Result<Outcome, Fault> {
    let mut views = Vec::with_capacity(features.len());
    for name in features {
        let feature = feature_of(name)?;
        let limit = limit_of(books, &feature, look);
        let budget = books.budget(&feature)?;
        let cycle = books.cycle.name.to_string();
        let number = limit.number();
        views.push(BudgetView {
            feature: name.clone(),
            running: store::running_count(&*books.object.sql, name, &cycle)?,
            cycle,
            limit: number.map(Units::get),
            limit_state: state_name(limit, look).to_owned(),
            used: budget.used.get(),
            held: budget.held.get(),
            remaining: number.map(|top| budget.remaining(top).get()),
        });
    }
    Ok(Outcome::Told(Told::Budgets(views)))
}

/// Estimates against cost.
pub fn estimates(books: &Books<'_>, feature: &str, cycle: Option<&str>) -> Result<Outcome, Fault> {
    let cycle = cycle.unwrap_or_else(|| books.cycle.name.as_str());
    let view = store::estimates(&*books.object.sql, feature, cycle)?;
    Ok(Outcome::Told(Told::Estimates(view)))
}

/// When the running job's next sign of life is due at the latest, of all of them.
pub fn next_lease(books: &Books<'_>) -> Result<Option<Millis>, Fault> {
    store::next_lease(&*books.object.sql)
}

/// Whether a refusal is one that people look at.
pub const fn is_shown(why: Refused) -> bool {
    match why {
        Refused::LimitUnknown
        | Refused::NotInPlan
        | Refused::RateLimited
        | Refused::OverLimit { .. } => true,
        Refused::KeyConflict | Refused::JobOver(_) => false,
    }
}
