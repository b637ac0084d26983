//! What an event does, and when it is tried again. Pure.
//!
//! Order is by the event's own time, to the nanosecond. Equal or unreadable times mean: the order
//! is not known, the provider must be asked. An event's time is looked at before its agreement.

use crate::moment::EventTime;
use crate::plans::rules::{Outcome, Proof, Unfinished};
use crate::units::{AgreementId, Millis, PlanCode};

/// Reason of an event that is older than what is stored and changes nothing.
pub const NEWER_STORED: &str = "a newer plan change is already stored";
/// An event of a customer without an account waits so long.
pub const WAIT_MS_MAX: i64 = 30 * 86_400_000;
/// How often it is looked at meanwhile, should nothing wake it earlier.
pub const WAIT_STEP_MS: i64 = 3_600_000;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A plan or agreement began or changed.
    Changed,
    /// An agreement ended, or will.
    Ended,
    /// Money came.
    Paid,
    /// Money did not come.
    Unpaid,
    /// A meter was written.
    MeterUsage,
    /// A user or an organisation is gone.
    Deleted,
    /// Nothing that has an effect here.
    Other,
}

impl Kind {
    /// From the provider's type.
    pub fn of_type(name: &str) -> Self {
        match name {
            "customer.agreement_created"
            | "customer.plan_created"
            | "customer.plan_assigned"
            | "customer.plan_changed" => Self::Changed,
            "customer.agreement_cancelled" => Self::Ended,
            "customer.payment_succeeded" => Self::Paid,
            "customer.payment_failed" | "customer.invoice_overdue" => Self::Unpaid,
            "customer.meter_usage_updated" => Self::MeterUsage,
            "user.deleted" | "organization.deleted" => Self::Deleted,
            _ => Self::Other,
        }
    }
}

/// The facts of an event that decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What it is about.
    pub kind: Kind,
    /// When it happened, where that reads.
    pub at: Option<EventTime>,
    /// The agreement that it names.
    pub agreement_id: Option<AgreementId>,
    /// The plan that it names.
    pub plan: Option<PlanCode>,
}

/// What is stored of the account that an event is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The plan.
    pub plan: PlanCode,
    /// The current agreement.
    pub agreement_id: Option<AgreementId>,
    /// The newest plan change.
    pub known_at: Option<EventTime>,
    /// When the last complete read began.
    pub read_at: Option<Millis>,
    /// The newest payment event, and whether it was one that failed.
    pub payment_at: Option<EventTime>,
    /// Whether a payment is overdue.
    pub is_overdue: bool,
}

/// How an event ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It took effect, or nothing was left to do.
    Applied(String),
    /// It has no effect, for this reason.
    Ignored(String),
}

impl Verdict {
    /// The event's status, and its result.
    pub fn told(self) -> (&'static str, String) {
        match self {
            Self::Applied(result) => ("applied", result),
            Self::Ignored(result) => ("ignored", result),
        }
    }
}

/// What a subscription event does where the provider cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It stays until the provider can be read.
    Wait,
    /// Its own word is taken.
    Take {
        /// The plan.
        plan: PlanCode,
        /// The agreement; none after an end.
        agreement_id: Option<AgreementId>,
    },
    /// It changes nothing.
    End(Verdict),
}

/// How an event ends whose type alone says that nothing is left to do once it is stored. It needs
/// no lane: there is no effect that another event could overtake.
pub fn judge_type(type_name: &str) -> Option<Verdict> {
    match Kind::of_type(type_name) {
        Kind::MeterUsage => Some(Verdict::Applied("kept as information".to_owned())),
        Kind::Other => Some(Verdict::Ignored(format!(
            "type {type_name} has no effect here"
        ))),
        Kind::Changed | Kind::Ended | Kind::Paid | Kind::Unpaid | Kind::Deleted => None,
    }
}

/// Whether an event may only be judged behind a read of the provider.
pub fn asks_provider(told: &Told, standing: &Standing) -> bool {
    match told.kind {
        Kind::Changed | Kind::Ended => true,
        // It may be the agreement of a plan change that is still on its way.
        Kind::Unpaid => names_other(told, standing),
        Kind::Paid | Kind::MeterUsage | Kind::Deleted | Kind::Other => false,
    }
}

fn is_older(at: Option<EventTime>, than: Option<EventTime>) -> bool {
    at.zip(than).is_some_and(|(at, than)| at < than)
}

fn names_other(told: &Told, standing: &Standing) -> bool {
    told.agreement_id.is_some() && told.agreement_id != standing.agreement_id
}

fn not_current(told: &Told) -> String {
    let named = told.agreement_id.as_ref().map_or("", AgreementId::as_str);
    format!("agreement {named} is not current")
}

/// How a subscription event ends behind a complete read; `standing` is from before its outcome.
pub fn judge_read(told: &Told, standing: &Standing, outcome: &Outcome) -> Verdict {
    if outcome.changed {
        let how = match outcome.proof {
            Some(Proof::Cancelled) => ": the agreement was cancelled",
            Some(Proof::Expired) => ": the agreement has ended",
            Some(Proof::TwiceEmpty) => ": two reads named no agreement",
            None => "",
        };
        return Verdict::Applied(format!("plan {}{how}", outcome.plan));
    }
    if is_older(told.at, standing.known_at) {
        return Verdict::Ignored(NEWER_STORED.to_owned());
    }
    let current = outcome.agreement_id.as_ref();
    if told.kind == Kind::Ended
        && told.agreement_id.is_some()
        && told.agreement_id.as_ref() != current
    {
        return Verdict::Ignored(not_current(told));
    }
    let plan = &outcome.plan;
    Verdict::Applied(match outcome.unfinished {
        None => format!("plan {plan}, as the provider says"),
        Some(Unfinished::NoAgreement) => {
            format!("plan {plan} kept: the provider names no agreement, it is asked again")
        }
        Some(Unfinished::OtherPlan | Unfinished::Unreadable) => {
            format!("plan {plan}, as the provider still says; it is asked again")
        }
    })
}

/// What a subscription event does while the provider cannot be read. A missing answer never takes
/// a plan away.
pub fn judge_unread(told: &Told, standing: &Standing) -> Unread {
    let at = match (told.at, standing.known_at) {
        (None, _) => return Unread::Wait,
        (Some(at), Some(known)) if at < known => {
            return Unread::End(Verdict::Ignored(NEWER_STORED.to_owned()));
        }
        (Some(at), _) => at,
    };
    if told.kind == Kind::Ended {
        return if names_other(told, standing) {
            Unread::End(Verdict::Ignored(not_current(told)))
        } else {
            Unread::Wait
        };
    }
    let behind_read = standing.read_at.is_some_and(|read| at.at <= read);
    match &told.plan {
        Some(plan) if !behind_read && Some(at) != standing.known_at => take(told, plan),
        Some(_) | None => Unread::Wait,
    }
}

fn take(told: &Told, plan: &PlanCode) -> Unread {
    Unread::Take {
        plan: plan.clone(),
        agreement_id: told.agreement_id.clone(),
    }
}

/// What a subscription event does by payload and time alone, as the Engine Room shows it: the same
/// order of looks, but nothing can be waited for.
pub fn judge_alone(told: &Told, standing: &Standing, free: &PlanCode) -> Unread {
    if is_older(told.at, standing.known_at) {
        return Unread::End(Verdict::Ignored(NEWER_STORED.to_owned()));
    }
    if told.kind == Kind::Ended {
        return if names_other(told, standing) {
            Unread::End(Verdict::Ignored(not_current(told)))
        } else {
            Unread::Take {
                plan: free.clone(),
                agreement_id: None,
            }
        };
    }
    match &told.plan {
        Some(plan) => take(told, plan),
        None => Unread::End(Verdict::Applied("it names no plan".to_owned())),
    }
}

/// What becomes of the payment state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payment {
    /// It is paid.
    Ok,
    /// It is overdue.
    Overdue,
}

/// What a payment event does to the account's payment state: nothing, with the reason, or that.
/// Of two of the same moment the money that came wins.
pub fn judge_payment(told: &Told, standing: &Standing) -> Result<Payment, String> {
    let newer = "a newer payment is already stored";
    if is_older(told.at, standing.payment_at) {
        return Err(newer.to_owned());
    }
    if told.kind == Kind::Paid {
        return Ok(Payment::Ok);
    }
    if names_other(told, standing) {
        return Err(not_current(told));
    }
    let same_moment = told.at.is_some() && told.at == standing.payment_at;
    if same_moment && !standing.is_overdue {
        return Err(newer.to_owned());
    }
    Ok(Payment::Overdue)
}

/// What a failed try leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Another try after so many milliseconds.
    After(i64),
    /// None: it is dead.
    Dead,
}

/// After the `attempts`-th failure. `spread` is 0 to 999: up to a tenth is added to the wait, so
/// that what failed together does not come back together.
pub fn retry(attempts: i64, steps: &[i64], spread: i64) -> Retry {
    let index = usize::try_from(attempts - 1).unwrap_or(0);
    match steps.get(index) {
        Some(seconds) => Retry::After(spread_out(*seconds, spread)),
        None => Retry::Dead,
    }
}

/// How long an event waits for a provider that cannot be read; `outages` waits came before.
pub fn outage_wait(outages: i64, steps: &[i64], spread: i64) -> i64 {
    let step = usize::try_from(outages).ok().and_then(|n| steps.get(n));
    spread_out(step.or(steps.last()).copied().unwrap_or(60), spread)
}

fn spread_out(seconds: i64, spread: i64) -> i64 {
    let wait_ms = seconds.saturating_mul(1000);
    wait_ms.saturating_add(wait_ms / 10 * spread.clamp(0, 999) / 1000)
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
