//! What is told of jobs and refusals: rows in, messages out.

use std::collections::BTreeMap;

use super::books::Books;
use super::calls::{is_shown, next_lease};
use super::limit::limit_of;
use super::rules::{self, Asked, Look, Reason, Refused};
use super::store::JobRow;
use super::wire::{Amounts, HoldView, JobView, RefusalView, RefusedView, SettledView};
use crate::fault::Fault;
use crate::limits::NO_CUSTOMER_RETRY_SECONDS;
use crate::units::{FeatureName, Millis, Units};

/// One job, with what is left of each of its features.
pub fn job(books: &mut Books<'_>, job: &JobRow, look: Look) -> Result<JobView, Fault> {
    let (mut holds, mut remaining) = (BTreeMap::new(), BTreeMap::new());
    for (feature, total) in job.totals()? {
        let view = HoldView {
            held: total.hold.held.get(),
            used: total.hold.charged.get(),
        };
        holds.insert(feature.to_string(), view);
        let budget = books.budget(&feature)?;
        let top = limit_of(books, &feature, look).number();
        let left = top.map(|top| budget.remaining(top).get());
        remaining.insert(feature.to_string(), left);
    }
    Ok(JobView {
        id: job.job_id.to_string(),
        key: job.key.clone(),
        state: job.state.name().to_owned(),
        capped: job.capped,
        cycle: job.cycle.to_string(),
        holds,
        remaining,
        lease_ends_at_ms: job.lease_ends_at.get(),
        lease_seconds: job.lease_seconds,
        created_at_ms: job.created_at.get(),
        ended_at_ms: job.ended_at.map(Millis::get),
        outcome: job.outcome.clone(),
    })
}

/// What a job holds and what of it is charged, by feature.
pub fn held_and_used(job: &JobRow) -> Result<(Amounts, Amounts), Fault> {
    let (mut held, mut used) = (Amounts::new(), Amounts::new());
    for (feature, total) in job.totals()? {
        held.insert(feature.to_string(), total.hold.held.get());
        used.insert(feature.to_string(), total.hold.charged.get());
    }
    Ok((held, used))
}

/// The amounts for every feature of the job, zero where none is given.
pub fn all(of: &Amounts, given: &Amounts) -> Amounts {
    of.keys()
        .map(|name| (name.clone(), given.get(name).copied().unwrap_or(0)))
        .collect()
}

/// How a job ended.
pub fn settled(job: &JobRow) -> Result<SettledView, Fault> {
    let mut view = SettledView {
        state: job.state.name().to_owned(),
        charged: Amounts::new(),
        released: Amounts::new(),
        uncovered: Amounts::new(),
        by_cycle: BTreeMap::new(),
        late: Amounts::new(),
        ended_at_ms: job.ended_at.map_or(0, Millis::get),
        by_hand: job.by_hand.clone(),
    };
    for (feature, total) in job.totals()? {
        let name = feature.to_string();
        let hold = total.hold;
        view.charged.insert(name.clone(), hold.charged.get());
        view.released
            .insert(name.clone(), hold.held.less(hold.charged).get());
        let late = total.late;
        let uncovered = total.uncovered.max(late);
        view.uncovered.insert(name.clone(), uncovered.get());
        if late > Units::ZERO {
            view.late.insert(name, late.get());
        }
    }
    for row in &job.holds {
        view.by_cycle
            .entry(row.cycle.to_string())
            .or_default()
            .insert(row.feature.to_string(), row.hold.charged.get());
    }
    Ok(view)
}

/// A refusal as it is told. `line` is the feature it is about and what was asked of it.
pub fn refused(
    books: &Books<'_>,
    why: Refused,
    line: Option<(&FeatureName, &Asked)>,
    look: Look,
    job: Option<&JobRow>,
) -> Result<RefusedView, Fault> {
    let feature = line.map_or_else(String::new, |(feature, _)| feature.to_string());
    Ok(match why {
        Refused::KeyConflict => RefusedView::KeyConflict,
        Refused::JobOver(state) => RefusedView::JobOver {
            state: state.name().to_owned(),
            charged: match job {
                Some(job) => held_and_used(job)?.1,
                None => Amounts::new(),
            },
        },
        Refused::LimitUnknown => RefusedView::LimitUnknown {
            feature,
            retry_after_seconds: match look {
                Look::Unknown { until: Some(at) } => rules::seconds_until(at, books.now),
                Look::Unknown { until: None } => NO_CUSTOMER_RETRY_SECONDS,
                Look::Fresh | Look::Stale | Look::Read => 1,
            },
        },
        Refused::NotInPlan => RefusedView::NotInPlan { feature },
        Refused::RateLimited => {
            let next_minute = Millis::new((rules::minute_of(books.now) + 1) * 60_000);
            let retry_after_seconds = rules::seconds_until(next_minute, books.now);
            RefusedView::RateLimited {
                retry_after_seconds,
            }
        }
        Refused::OverLimit { reason, remaining } => {
            let next = next_lease(books)?;
            let (asked, budget, limit) = match line {
                Some((_, asked)) => (asked.units, asked.budget, asked.limit.number()),
                None => Default::default(),
            };
            RefusedView::OverLimit {
                feature,
                reason: reason.name().to_owned(),
                asked: asked.get(),
                remaining: remaining.get(),
                used: budget.used.get(),
                held: budget.held.get(),
                limit: limit.map(Units::get),
                next_lease_ends_at_ms: next.map(Millis::get),
                retry_after_seconds: next
                    .filter(|_| reason == Reason::Held)
                    .map(|at| rules::seconds_until(at, books.now)),
            }
        }
    })
}

/// Keeps a refusal where people look at it.
pub fn note(
    books: &mut Books<'_>,
    operation: &str,
    subject: &str,
    why: Refused,
    line: Option<(&FeatureName, &Asked)>,
) -> Result<(), Fault> {
    if !is_shown(why) {
        return Ok(());
    }
    let (reason, remaining) = match why {
        Refused::OverLimit { reason, remaining } => (Some(reason.name()), Some(remaining.get())),
        _ => (None, None),
    };
    books.note_refusal(&RefusalView {
        at_ms: books.now.get(),
        operation: operation.to_owned(),
        subject: subject.to_owned(),
        code: why.code().to_owned(),
        feature: line.map(|(feature, _)| feature.to_string()),
        reason: reason.map(str::to_owned),
        asked: line.map(|(_, asked)| asked.units.get()),
        remaining,
    })
}
