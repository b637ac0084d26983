//! Which agreement is current, when an account may lose its plan, where its cycle begins.
//!
//! Pure: a complete read and what is stored in, a decision out.

use crate::accounts::AnchorSource;
use crate::accounts::rules::{Began, found_anchor};
use crate::cycle::Anchor;
use crate::moment::EventTime;
use crate::provider::Agreement;
use crate::units::{AgreementId, Millis, PlanCode};

/// A second complete read counts as one of its own only so long after the first.
pub const SECOND_READ_MS: i64 = 60_000;

/// The current one of a complete list: not ended; of several, first one without an end, then the
/// latest period, then the greatest id.
pub fn current(agreements: &[Agreement], now: Millis) -> Option<&Agreement> {
    agreements
        .iter()
        .filter(|one| one.expires_at.is_none_or(|end| end > now))
        .max_by_key(|one| {
            (
                one.expires_at.is_none(),
                one.period_start,
                one.agreement_id.as_str(),
            )
        })
}

/// Where the account's cycles begin as far as the provider tells; the rule is the accounts'.
pub fn anchor(
    agreement: &Agreement,
    subscribed_on: Option<Millis>,
) -> Option<(Anchor, AnchorSource)> {
    let began = Began {
        period_start: agreement.period_start,
        period_end: agreement.period_end,
        subscribed_on,
    };
    let told = began.period_start.or(subscribed_on)?;
    Some(found_anchor(began, told))
}

/// What is stored of an account's plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The plan.
    pub plan: PlanCode,
    /// The current agreement as last known.
    pub agreement_id: Option<AgreementId>,
    /// Since when the plan holds; absent before the first sync.
    pub since: Option<Millis>,
    /// When the stored agreement ends or ended, if it is known to.
    pub ends_at: Option<Millis>,
    /// Whether a cancellation of exactly the stored agreement is stored.
    pub cancelled: bool,
    /// Complete reads since then named no current agreement.
    pub empty_since: Option<Millis>,
    /// The plan that the newest event or the checkout named, while no read confirmed it.
    pub wanted: Option<PlanCode>,
}

/// Why an account without a current agreement may be moved to the free plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A cancellation of the current agreement is stored.
    Cancelled,
    /// Its end has passed.
    Expired,
    /// A second complete read, at least a minute after the first, said the same.
    TwiceEmpty,
}

/// Why the provider has to be asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// It could not be read.
    Unreadable,
    /// There is no current agreement.
    NoAgreement,
    /// The plan is not the one that the newest event or the checkout named.
    OtherPlan,
}

/// What a complete read makes of the stored plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The plan to store.
    pub plan: PlanCode,
    /// The current agreement to store.
    pub agreement_id: Option<AgreementId>,
    /// Whether the plan differs from the stored one.
    pub plan_changed: bool,
    /// Whether plan or agreement differ from the stored ones.
    pub changed: bool,
    /// Whether the read itself named the plan; otherwise it is kept, or free by proof.
    pub read: bool,
    /// To store: since when complete reads have named no current agreement.
    pub empty_since: Option<Millis>,
    /// Why the plan was taken away, if it was.
    pub proof: Option<Proof>,
    /// Whether to ask again.
    pub unfinished: Option<Unfinished>,
}

/// Decides from a complete list of agreements, whose read began at `began`.
pub fn decide(
    stored: &Stored,
    agreements: &[Agreement],
    free: &PlanCode,
    began: Millis,
) -> Outcome {
    let found = current(agreements, began);
    let proof = match found {
        Some(_) => None,
        None => proof(stored, agreements, began),
    };
    let (plan, agreement_id) = match (found, proof) {
        (Some(one), _) => (one.plan.clone(), Some(one.agreement_id.clone())),
        (None, Some(_)) => (free.clone(), None),
        (None, None) => (stored.plan.clone(), stored.agreement_id.clone()),
    };
    let other = stored.wanted.as_ref().is_some_and(|want| *want != plan);
    let unfinished = if other {
        Some(Unfinished::OtherPlan)
    } else if found.is_none() && proof.is_none() && plan != *free {
        Some(Unfinished::NoAgreement)
    } else {
        None
    };
    let plan_changed = plan != stored.plan;
    Outcome {
        plan_changed,
        changed: plan_changed || agreement_id != stored.agreement_id,
        read: found.is_some(),
        empty_since: match found {
            Some(_) => None,
            None => Some(stored.empty_since.unwrap_or(began)),
        },
        plan,
        agreement_id,
        proof,
        unfinished,
    }
}

/// The proof that the account's agreement is over, given a complete list without a current one.
fn proof(stored: &Stored, agreements: &[Agreement], began: Millis) -> Option<Proof> {
    let listed_end = agreements
        .iter()
        .find(|one| Some(&one.agreement_id) == stored.agreement_id.as_ref())
        .and_then(|one| one.expires_at);
    let ended = |at: Option<Millis>| at.is_some_and(|at| at <= began);
    if stored.cancelled {
        Some(Proof::Cancelled)
    } else if ended(listed_end) || ended(stored.ends_at) {
        Some(Proof::Expired)
    } else if ended(stored.empty_since.map(|at| at.after(SECOND_READ_MS))) {
        Some(Proof::TwiceEmpty)
    } else {
        None
    }
}

/// Seconds until the provider is asked again. `asked`: follow-ups already made. An unreadable
/// provider is asked for ever, at the last step; a lagging one only as often as there are steps,
/// then its word stands.
pub fn follow_up(unfinished: Option<Unfinished>, asked: i64, steps: &[i64]) -> Option<i64> {
    let step = usize::try_from(asked)
        .ok()
        .and_then(|n| steps.get(n).copied());
    match unfinished? {
        Unfinished::Unreadable => step.or(steps.last().copied()),
        Unfinished::NoAgreement | Unfinished::OtherPlan => step,
    }
}

/// The later of two moments; what does not read is earlier than anything.
pub fn newest(a: Option<EventTime>, b: Option<EventTime>) -> Option<EventTime> {
    a.max(b)
}

/// Whether a payment of `cycle_ends_at`'s cycle may grant the present plan's allowance there: not
/// where that cycle was over before the plan began.
pub fn payment_grants(plan_since: Option<Millis>, cycle_ends_at: Millis) -> bool {
    plan_since.is_none_or(|since| since < cycle_ends_at)
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
