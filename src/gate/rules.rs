//! What the gate decides: facts in, decision out. No clock, no storage, no randomness.
//!
//! Each operation is a ladder of guards, each one named refusal; behind the last guard it must
//! succeed. Amounts are added only after a guard has shown that the sum fits, so a sum that does
//! not is impossible; where the type asks, the greatest amount stands in.

use crate::units::{Millis, Units};

/// How far the limit of one feature is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// That many per cycle.
    Known(Units),
    /// The plan names the feature with no maximum; still at most 2^53 − 1.
    Unlimited,
    /// The plan does not name the feature.
    Absent,
    /// Nobody can say: the gate is closed.
    Unknown,
    /// Nobody can say, and the feature is cheap enough to be admitted all the same.
    Open,
}

impl Limit {
    /// The most that `used + held` may reach; `None` where nothing may be admitted.
    pub const fn top(self) -> Option<Units> {
        match self {
            Self::Known(limit) => Some(limit),
            Self::Unlimited | Self::Open => Some(Units::MAX),
            Self::Absent | Self::Unknown => None,
        }
    }

    /// The number that clients are told; none where there is none.
    pub const fn number(self) -> Option<Units> {
        match self {
            Self::Known(limit) => Some(limit),
            Self::Unlimited | Self::Absent | Self::Unknown | Self::Open => None,
        }
    }
}

/// What is used and held of one feature in one cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// By jobs that ended, and by running jobs in cycles that are over.
    pub used: Units,
    /// By running jobs.
    pub held: Units,
}

impl Budget {
    /// What may still be held; nothing where the limit was lowered below what is taken.
    pub fn remaining(self, top: Units) -> Units {
        top.less(self.used).less(self.held)
    }
}

/// Why there is not enough room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// More than the whole limit.
    TooBig,
    /// More than the limit less what is used: only a new cycle or another plan helps.
    UsedUp,
    /// It would fit if running jobs gave back what they hold.
    Held,
}

impl Reason {
    /// As answered.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooBig => "too_big",
            Self::UsedUp => "used_up",
            Self::Held => "held",
        }
    }
}

/// How a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It holds, may charge, and must give signs of life.
    Running,
    /// Its owner said what it used.
    Settled,
    /// Its lease ran out.
    Expired,
}

impl State {
    /// As stored and answered.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Settled => "settled",
            Self::Expired => "expired",
        }
    }

    /// As it was stored.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "running" => Some(Self::Running),
            "settled" => Some(Self::Settled),
            "expired" => Some(Self::Expired),
            _ => None,
        }
    }
}

/// The domain says no; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The key or step was used for another request.
    KeyConflict,
    /// The job is over.
    JobOver(State),
    /// The limit is not known.
    LimitUnknown,
    /// The plan does not name the feature.
    NotInPlan,
    /// Too many new jobs in this minute.
    RateLimited,
    /// There is not enough room.
    OverLimit {
        /// Why.
        reason: Reason,
        /// How much is left.
        remaining: Units,
    },
}

impl Refused {
    /// As answered.
    pub const fn code(self) -> &'static str {
        match self {
            Self::KeyConflict => "key_conflict",
            Self::JobOver(_) => "job_over",
            Self::LimitUnknown => "limit_unknown",
            Self::NotInPlan => "feature_not_in_plan",
            Self::RateLimited => "rate_limited",
            Self::OverLimit { .. } => "over_limit",
        }
    }
}

/// What is known of the key or step of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    Never,
    /// It came with this same request.
    Same,
    /// It came with another one.
    Other,
}

/// What one feature of a request asks for, and what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// How much.
    pub units: Units,
    /// How far the limit is known.
    pub limit: Limit,
    /// What is taken.
    pub budget: Budget,
}

impl Asked {
    /// Whether it fits.
    pub fn fits(self) -> Result<(), Refused> {
        let Some(top) = self.limit.top() else {
            return Err(if self.limit == Limit::Absent {
                Refused::NotInPlan
            } else {
                Refused::LimitUnknown
            });
        };
        let remaining = self.budget.remaining(top);
        if self.units <= remaining {
            return Ok(());
        }
        let reason = if self.units > top {
            Reason::TooBig
        } else if self.units > top.less(self.budget.used) {
            Reason::UsedUp
        } else {
            Reason::Held
        };
        Err(Refused::OverLimit { reason, remaining })
    }
}

/// New jobs of this minute, and how many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Admitted in this minute.
    pub taken: i64,
    /// At most so many.
    pub allowed: i64,
}

/// What becomes of a request for a new job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is admitted: hold what it asked for.
    New,
    /// It was admitted before and runs: nothing is held again.
    Same,
}

/// A request for a new job. `key` and `state` say what is known of its key; `asked` has one line
/// for each feature, all or nothing. The refusal names the feature it is about, by its place.
pub fn admit(
    key: Seen,
    state: State,
    asked: &[Asked],
    rate: Rate,
) -> Result<Admission, (Refused, Option<usize>)> {
    match (key, state) {
        (Seen::Other, _) => return Err((Refused::KeyConflict, None)),
        (Seen::Same, State::Running) => return Ok(Admission::Same),
        (Seen::Same, State::Settled | State::Expired) => {
            return Err((Refused::JobOver(state), None));
        }
        (Seen::Never, _) => {}
    }
    let place_of = |limit: Limit| asked.iter().position(|line| line.limit == limit);
    if let Some(place) = place_of(Limit::Unknown) {
        return Err((Refused::LimitUnknown, Some(place)));
    }
    if let Some(place) = place_of(Limit::Absent) {
        return Err((Refused::NotInPlan, Some(place)));
    }
    if rate.taken >= rate.allowed {
        return Err((Refused::RateLimited, None));
    }
    for (place, line) in asked.iter().enumerate() {
        line.fits().map_err(|refused| (refused, Some(place)))?;
    }
    Ok(Admission::New)
}

/// Whether a job still runs: a lease that has run out ends it, swept or not yet swept.
pub fn running(state: State, lease_ends_at: Millis, now: Millis) -> Result<(), Refused> {
    match state {
        State::Running if lease_ends_at > now => Ok(()),
        State::Running => Err(Refused::JobOver(State::Expired)),
        State::Settled | State::Expired => Err(Refused::JobOver(state)),
    }
}

/// More hold for a running job, under the rules of admission.
pub fn extend(
    state: State,
    lease_ends_at: Millis,
    now: Millis,
    asked: Asked,
) -> Result<(), Refused> {
    running(state, lease_ends_at, now)?;
    asked.fits()
}

/// What a job holds of one feature, over all its cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// Put aside.
    pub held: Units,
    /// Charged of it.
    pub charged: Units,
}

/// A charge of one feature: what fits, and what does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Charged.
    pub charged: Units,
    /// Past the hold.
    pub uncovered: Units,
}

/// Cuts a charge to the room left in the hold.
pub fn charge(hold: Hold, units: Units) -> Cut {
    let charged = units.min(hold.held.less(hold.charged));
    Cut {
        charged,
        uncovered: units.less(charged),
    }
}

/// How one feature of a job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// What is charged on top of the charges recorded.
    pub more: Units,
    /// What goes back.
    pub released: Units,
    /// Past the hold.
    pub uncovered: Units,
}

/// Settles at `used`: never less than the charges recorded, never more than the hold. Without
/// `used`: at the charges recorded, and `uncovered` is what they could not cover.
pub fn settle(hold: Hold, used: Option<Units>, uncovered: Units) -> End {
    let Some(used) = used else {
        return End {
            more: Units::ZERO,
            released: hold.held.less(hold.charged),
            uncovered,
        };
    };
    let charged = used.max(hold.charged).min(hold.held);
    End {
        more: charged.less(hold.charged),
        released: hold.held.less(charged),
        uncovered: used.less(charged),
    }
}

/// Use that a settle reports after the job had expired at what its charges recorded.
pub fn late(hold: Hold, used: Option<Units>) -> Units {
    used.map_or(Units::ZERO, |used| used.less(hold.charged))
}

/// A running job's hold at the turn of the cycle: what was charged stays in the old cycle, the
/// rest moves to the new one and is never refused there.
pub fn split(hold: Hold) -> (Hold, Hold) {
    let rest = hold.held.less(hold.charged);
    let old = Hold {
        held: hold.charged,
        charged: hold.charged,
    };
    let new = Hold {
        held: rest,
        charged: Units::ZERO,
    };
    (old, new)
}

/// Which tenth of its hold a job was charged, 0 to 9; all of it counts as the last.
pub fn tenth(hold: Hold) -> i64 {
    let tenths = i128::from(hold.charged.get()) * 10;
    let whole = i128::from(hold.held.get().max(1));
    i64::try_from((tenths / whole).min(9)).unwrap_or(9)
}

/// The number of a UTC minute.
pub const fn minute_of(now: Millis) -> i64 {
    now.get().div_euclid(60_000)
}

/// Whole seconds from `now` until `at`, rounded up, at least one.
pub const fn seconds_until(at: Millis, now: Millis) -> i64 {
    let ms = at.since(now);
    if ms <= 1000 { 1 } else { (ms + 999) / 1000 }
}

/// What is known of the last answers about an account's limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitFacts {
    /// Whether the provider knows the account.
    pub has_customer: bool,
    /// When the stored limits were read.
    pub read_at: Option<Millis>,
    /// When the last read failed, where none succeeded since.
    pub failed_at: Option<Millis>,
    /// Whether this same call has already waited for a read.
    pub waited: bool,
}

/// How long an answer is used, and how long a failed read is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitTimes {
    /// As it is.
    pub fresh_ms: i64,
    /// While the provider cannot be read.
    pub stale_ms: i64,
    /// After a failed read.
    pub pause_ms: i64,
}

/// What to do for the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The stored ones are used as they are.
    Fresh,
    /// The stored ones are used although they are old.
    Stale,
    /// The provider is read first.
    Read,
    /// They are not known before that moment.
    Unknown {
        /// When reading again makes sense; `None` where it never does.
        until: Option<Millis>,
    },
}

/// Decides between the stored limits and a read.
pub fn look(facts: LimitFacts, times: LimitTimes, now: Millis) -> Look {
    if !facts.has_customer {
        return Look::Unknown { until: None };
    }
    let age = facts.read_at.map(|at| now.since(at));
    let just_read = facts.waited && facts.failed_at.is_none();
    if age.is_some_and(|age| age <= times.fresh_ms || just_read) {
        return Look::Fresh;
    }
    let again_at = facts.failed_at.map(|at| at.after(times.pause_ms));
    match again_at.filter(|at| *at > now) {
        None => Look::Read,
        Some(_) if age.is_some_and(|age| age <= times.stale_ms) => Look::Stale,
        Some(at) => Look::Unknown { until: Some(at) },
    }
}

#[cfg(test)]
mod tests;
