//! When a meter may be written, what it is sent, and what a comparison with it means.
//!
//! The meter is a copy of the ledger. It is written only while the provider's current period is
//! certainly our cycle, because a provider books what it is sent to *its* current period, whatever
//! we meant: a total that arrives a second late overwrites the next cycle's.

use crate::cycle::Cycle;
use crate::units::{Delta, Millis, Units};

/// The period's end may differ from our cycle's by this much: clocks and their rounding.
pub const SAME_MS: i64 = 60_000;
/// Nothing is sent with less than this left, so that it arrives in the period it is meant for.
pub const CLOSING_MS: i64 = 30_000;
/// Where no period is given, the provider's turn is only assumed: this much after ours it has come.
pub const OPENING_MS: i64 = 300_000;
/// A period that stays different for so long is not a turn in progress; a person must look.
pub const MISMATCH_MS: i64 = 3_600_000;
/// How far ahead a moved end must lie, so that every cache of anchors has heard of it in time.
pub const MOVED_END_AHEAD_MS: i64 = 600_000;
/// How long one sender has a meter to itself.
pub const SEND_LEASE_MS: i64 = 60_000;
/// The client gives up after this; with less of the lease left nothing is sent.
pub const SEND_TIMEOUT_MS: i64 = 10_000;

/// The provider's current period as last read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Its start; older servers do not tell.
    pub starts_at: Option<Millis>,
    /// Its end; may lie in the past while the provider's own sync lags.
    pub ends_at: Option<Millis>,
}

/// Whether a meter may be written now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It may.
    Open,
    /// Our cycle has not begun or is over: it is never written.
    Closed,
    /// Too near to a turn, in time or because no period is given: the next run tries again.
    Turning,
    /// The stored period has ended: it must be read again before anything is known.
    Ended,
    /// The provider's period ends elsewhere than our cycle.
    Differs,
}

/// The turn guard. Looked at before each single write, with the time of that moment.
pub fn turn(cycle: &Cycle, period: Period, now: Millis) -> Turn {
    if !cycle.holds(now) {
        return Turn::Closed;
    }
    let left = |end: Millis| end.since(now);
    let Some(end) = period.ends_at else {
        let opening = now.since(cycle.starts_at) < OPENING_MS;
        return if opening || left(cycle.ends_at) < CLOSING_MS {
            Turn::Turning
        } else {
            Turn::Open
        };
    };
    if end <= now {
        Turn::Ended
    } else if end.since(cycle.ends_at).abs() > SAME_MS {
        Turn::Differs
    } else if left(end) < CLOSING_MS {
        Turn::Turning
    } else {
        Turn::Open
    }
}

/// What the meter is sent: the cycle's total less its base. Below zero nothing is sent.
pub fn to_send(total: Delta, base: Delta) -> Option<Units> {
    total.minus(base).and_then(|left| Units::new(left.get()))
}

/// How the last attempt to report a meter ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The provider confirmed it.
    Confirmed,
    /// The provider refused it; nothing was done.
    Refused,
    /// Nobody knows whether it took effect.
    Unknown,
    /// Confirmed, but read back as something else.
    ReadBackDiffers,
    /// It could not be read where it had to be, so nothing was sent.
    Unreadable,
    /// Someone else's total stands in it; a person must look.
    Foreign,
    /// The total is below zero.
    Negative,
    /// What an earlier meter of the cycle holds cannot be known; a person must look.
    BaseInDoubt,
}

impl Outcome {
    /// As it is stored and answered.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::ReadBackDiffers => "read_back_differs",
            Self::Unreadable => "unreadable",
            Self::Foreign => "foreign_total",
            Self::Negative => "below_zero",
            Self::BaseInDoubt => "base_in_doubt",
        }
    }

    /// From its name.
    pub fn parse(name: &str) -> Option<Self> {
        [
            Self::Confirmed,
            Self::Refused,
            Self::Unknown,
            Self::ReadBackDiffers,
            Self::Unreadable,
            Self::Foreign,
            Self::Negative,
            Self::BaseInDoubt,
        ]
        .into_iter()
        .find(|outcome| outcome.name() == name)
    }
}

/// What the reconciler found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The meter could not be read, or is not our cycle's.
    Unreadable,
    /// An object has had a batch confirmed that the ledger does not have.
    Incomplete,
    /// The meter holds what the ledger says.
    Match,
    /// A closed cycle's last known total differs from the ledger.
    ClosedCycleDrift,
    /// The meter holds more than the ledger.
    OverBilled,
    /// The meter holds less than the ledger.
    UnderBilled,
}

impl Verdict {
    /// As it is stored and answered.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Incomplete => "incomplete",
            Self::Match => "match",
            Self::ClosedCycleDrift => "closed_cycle_drift",
            Self::OverBilled => "over_billed",
            Self::UnderBilled => "under_billed",
        }
    }

    /// Whether an open cycle's meter differs.
    pub const fn is_drift(self) -> bool {
        matches!(self, Self::OverBilled | Self::UnderBilled)
    }
}

/// Why the meter differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The last report failed or its outcome is unknown.
    LastReportFailed,
    /// The ledger changed after the last report.
    ChangedAfterReport,
    /// The meter does not hold what it last confirmed: somebody else wrote it.
    MeterMovedByOther,
    /// The cycle's earlier meters changed what this one must hold.
    BaseChanged,
    /// Nothing was ever reported to this meter.
    NotYetReported,
}

impl Cause {
    /// As it is stored and answered.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LastReportFailed => "last_report_failed",
            Self::ChangedAfterReport => "changed_after_report",
            Self::MeterMovedByOther => "meter_moved_by_other",
            Self::BaseChanged => "base_changed",
            Self::NotYetReported => "not_yet_reported",
        }
    }
}

/// What is known when a verdict is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four facts that do not depend on each other"
)]
pub struct Facts {
    /// The sum of every entry of the cycle.
    pub ledger: Delta,
    /// What the cycle's earlier meters hold; of a closed cycle zero.
    pub base: Delta,
    /// The last total that the provider confirmed.
    pub sent: Option<Delta>,
    /// What the meter holds; of a closed cycle what all its meters are known to hold.
    pub provider: Option<Delta>,
    /// Whether everything that objects had confirmed is in the ledger.
    pub complete: bool,
    /// Whether the cycle is over.
    pub closed: bool,
    /// How the last report ended.
    pub last: Option<Outcome>,
    /// Whether a write's outcome is unknown.
    pub in_doubt: bool,
    /// Whether the base was fixed just now.
    pub base_is_new: bool,
}

/// The verdict, and where an open cycle's meter differs, why.
pub fn judge(facts: &Facts) -> (Verdict, Option<Cause>) {
    if !facts.complete {
        return (Verdict::Incomplete, None);
    }
    let Some(provider) = facts.provider else {
        return (Verdict::Unreadable, None);
    };
    let Some(expected) = facts.ledger.minus(facts.base) else {
        return (Verdict::Unreadable, None);
    };
    if expected == provider {
        return (Verdict::Match, None);
    }
    if facts.closed {
        return (Verdict::ClosedCycleDrift, None);
    }
    let verdict = if provider > expected {
        Verdict::OverBilled
    } else {
        Verdict::UnderBilled
    };
    (verdict, Some(cause(facts, provider)))
}

fn cause(facts: &Facts, provider: Delta) -> Cause {
    let failed = facts.last.is_some_and(|last| last != Outcome::Confirmed);
    if facts.base_is_new {
        Cause::BaseChanged
    } else if facts.last == Some(Outcome::Foreign) {
        Cause::MeterMovedByOther
    } else if facts.in_doubt || failed {
        Cause::LastReportFailed
    } else {
        match facts.sent {
            None if provider == Delta::ZERO => Cause::NotYetReported,
            None => Cause::MeterMovedByOther,
            Some(sent) if sent != provider => Cause::MeterMovedByOther,
            Some(_) => Cause::ChangedAfterReport,
        }
    }
}

/// Whether a total that was read before a meter's first write was written by somebody else. A
/// total that equals what would be sent needs nobody to look at it.
pub fn is_foreign(read: Delta, target: Units) -> bool {
    read != Delta::ZERO && read != Delta::from(target)
}

/// How a closed cycle differs from the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosedDrift {
    /// Not at all.
    None,
    /// Entries came after the last confirmed write; the meter itself holds what was sent.
    Tail(Delta),
    /// Anything else.
    Other(Delta),
}

/// What a closed cycle's meters lack: ledger − what they are known to hold − what a person has
/// already left as it is.
pub fn closed_drift(
    ledger: Delta,
    known: Delta,
    left: Delta,
    moved: bool,
    in_doubt: bool,
) -> Option<ClosedDrift> {
    let lacks = ledger.minus(known)?.minus(left)?;
    Some(if lacks == Delta::ZERO {
        ClosedDrift::None
    } else if moved || in_doubt {
        ClosedDrift::Other(lacks)
    } else {
        ClosedDrift::Tail(lacks)
    })
}

/// Why a closed cycle's difference is not carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarryRefused {
    /// The item is not about a closed cycle's difference.
    NotClosedCycle,
    /// It was closed or carried before.
    AlreadyClosed,
    /// A write to one of its meters is in doubt: nobody knows what it holds.
    InDoubt,
    /// Nothing differs any more.
    Nothing,
    /// The open cycle's total would pass 2^53 − 1.
    TooMuch,
}

/// Whether `LEDGER_0` was put back to an earlier state: a run writes its number there first, and
/// whoever sends a total its token, so DB never knows more than the ledger.
pub const fn was_restored(in_ledger: i64, in_control: i64, has_token: bool) -> bool {
    in_ledger < in_control || !has_token
}

/// What became of a token that was to be written to DB before anything is sent under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// DB knows it, or one that was given after it.
    Yes,
    /// `LEDGER_0` was put back: it lacks what DB knows.
    Restored,
    /// `LEDGER_0` was put back to before it gave this token, but not to before what DB knows.
    Lost,
}

/// Says that of a token which DB did not take, because it knows one that was not given before it.
pub const fn recorded(has_own: bool, has_latest: bool) -> Recorded {
    match (has_own, has_latest) {
        // Both are in the ledger, so DB's was given after this one.
        (true, true) => Recorded::Yes,
        (_, false) => Recorded::Restored,
        (false, true) => Recorded::Lost,
    }
}

/// The end to which a `period_mismatch` moves the running cycle, if it lies far enough ahead.
pub fn moved_end(cycle: &Cycle, period: Period, now: Millis) -> Option<Millis> {
    period
        .ends_at
        .filter(|end| end.since(now) >= MOVED_END_AHEAD_MS && *end > cycle.starts_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::{Anchor, cycle_at};
    use crate::moment::parse_millis;

    fn at(text: &str) -> Millis {
        parse_millis(text).expect("a moment")
    }

    fn delta(units: i64) -> Delta {
        Delta::new(units).expect("safe")
    }

    /// 2026-10-20T15:29Z to 2026-11-20T15:29Z.
    fn cycle() -> Cycle {
        let anchor = Anchor::first(at("2026-10-20T15:29:00Z"));
        cycle_at(&[anchor], at("2026-11-01T00:00:00Z"))
    }

    fn period(end: &str) -> Period {
        Period {
            starts_at: Some(at("2026-10-20T15:29:00Z")),
            ends_at: Some(at(end)),
        }
    }

    #[test]
    fn a_ledger_behind_in_number_or_without_the_last_token_was_put_back() {
        for (in_ledger, in_control, has_token, expected) in [
            (7, 7, true, false),
            (8, 7, true, false),
            (6, 7, true, true),
            (7, 7, false, true),
            (8, 7, false, true),
        ] {
            let said = format!("{in_ledger} {in_control} {has_token}");
            let found = was_restored(in_ledger, in_control, has_token);
            assert_eq!(found, expected, "{said}");
        }
    }

    #[test]
    fn a_token_that_db_did_not_take_is_good_only_while_the_ledger_has_both() {
        assert_eq!(recorded(true, true), Recorded::Yes);
        assert_eq!(recorded(true, false), Recorded::Restored);
        assert_eq!(recorded(false, false), Recorded::Restored);
        assert_eq!(recorded(false, true), Recorded::Lost);
    }

    #[test]
    fn a_meter_is_written_while_period_and_cycle_end_together() {
        let noon = at("2026-11-10T12:00:00Z");
        for (end, expected) in [
            ("2026-11-20T15:29:00Z", Turn::Open),
            ("2026-11-20T15:30:00Z", Turn::Open),
            ("2026-11-20T15:28:00Z", Turn::Open),
            ("2026-11-20T15:30:00.001Z", Turn::Differs),
            ("2026-11-20T15:27:59.999Z", Turn::Differs),
            ("2026-12-20T15:29:00Z", Turn::Differs),
            ("2026-11-10T12:00:00Z", Turn::Ended),
        ] {
            assert_eq!(turn(&cycle(), period(end), noon), expected, "{end}");
        }
    }

    #[test]
    fn nothing_is_written_in_the_last_thirty_seconds_of_the_provider_s_period() {
        let same = period("2026-11-20T15:29:00Z");
        let earlier = period("2026-11-20T15:28:20Z");
        for (now, with_same, with_earlier) in [
            ("2026-11-20T15:27:50Z", Turn::Open, Turn::Open),
            ("2026-11-20T15:27:50.001Z", Turn::Open, Turn::Turning),
            ("2026-11-20T15:28:20Z", Turn::Open, Turn::Ended),
            ("2026-11-20T15:28:30Z", Turn::Open, Turn::Ended),
            ("2026-11-20T15:28:30.001Z", Turn::Turning, Turn::Ended),
            ("2026-11-20T15:29:00Z", Turn::Closed, Turn::Closed),
        ] {
            assert_eq!(turn(&cycle(), same, at(now)), with_same, "{now}");
            assert_eq!(turn(&cycle(), earlier, at(now)), with_earlier, "{now}");
        }
    }

    #[test]
    fn without_a_period_the_first_five_minutes_and_the_last_thirty_seconds_are_left_alone() {
        for (now, expected) in [
            ("2026-10-20T15:29:00Z", Turn::Turning),
            ("2026-10-20T15:33:59.999Z", Turn::Turning),
            ("2026-10-20T15:34:00Z", Turn::Open),
            ("2026-11-20T15:28:30Z", Turn::Open),
            ("2026-11-20T15:28:30.001Z", Turn::Turning),
            ("2026-11-20T15:29:00Z", Turn::Closed),
            ("2026-10-20T15:28:59.999Z", Turn::Closed),
        ] {
            assert_eq!(
                turn(&cycle(), Period::default(), at(now)),
                expected,
                "{now}"
            );
        }
    }

    #[test]
    fn a_provider_that_turned_seconds_early_never_gets_the_old_total_in_its_new_period() {
        // Our cycle still runs for 20 s; the provider's new period ends a month later.
        let now = at("2026-11-20T15:28:40Z");
        assert_eq!(
            turn(&cycle(), period("2026-12-20T15:28:20Z"), now),
            Turn::Differs
        );
    }

    #[test]
    fn a_total_below_zero_is_never_sent() {
        assert_eq!(to_send(delta(10), delta(4)), Units::new(6));
        assert_eq!(to_send(delta(4), delta(4)), Some(Units::ZERO));
        assert_eq!(to_send(delta(3), delta(4)), None);
        assert_eq!(to_send(delta(-1), Delta::ZERO), None);
    }

    fn facts(ledger: i64, provider: Option<i64>, sent: Option<i64>) -> Facts {
        Facts {
            ledger: delta(ledger),
            base: Delta::ZERO,
            sent: sent.map(delta),
            provider: provider.map(delta),
            complete: true,
            closed: false,
            last: sent.map(|_| Outcome::Confirmed),
            in_doubt: false,
            base_is_new: false,
        }
    }

    #[test]
    fn each_difference_has_its_cause() {
        use {Cause as C, Verdict as V};
        let judged = |facts: &Facts| judge(facts);
        assert_eq!(judged(&facts(5, Some(5), Some(5))), (V::Match, None));
        assert_eq!(
            judged(&facts(1000, Some(574), Some(1000))),
            (V::UnderBilled, Some(C::MeterMovedByOther))
        );
        assert_eq!(
            judged(&facts(1000, Some(1426), Some(1000))),
            (V::OverBilled, Some(C::MeterMovedByOther))
        );
        assert_eq!(
            judged(&facts(1001, Some(1000), Some(1000))),
            (V::UnderBilled, Some(C::ChangedAfterReport))
        );
        assert_eq!(
            judged(&facts(7, Some(0), None)),
            (V::UnderBilled, Some(C::NotYetReported))
        );
        let doubtful = Facts {
            in_doubt: true,
            ..facts(7, Some(3), Some(5))
        };
        assert_eq!(
            judged(&doubtful),
            (V::UnderBilled, Some(C::LastReportFailed))
        );
        let refused = Facts {
            last: Some(Outcome::Refused),
            ..facts(7, Some(5), Some(5))
        };
        assert_eq!(
            judged(&refused),
            (V::UnderBilled, Some(C::LastReportFailed))
        );
        let replaced = Facts {
            base: delta(3),
            base_is_new: true,
            ..facts(7, Some(0), None)
        };
        assert_eq!(judged(&replaced), (V::UnderBilled, Some(C::BaseChanged)));
        assert_eq!(judged(&facts(5, None, Some(5))), (V::Unreadable, None));
    }

    #[test]
    fn an_incomplete_ledger_is_never_a_reason_to_write() {
        let facts = Facts {
            complete: false,
            ..facts(5, Some(9), Some(9))
        };
        assert_eq!(judge(&facts), (Verdict::Incomplete, None));
    }

    #[test]
    fn a_closed_cycle_s_difference_is_a_tail_only_where_the_meter_holds_what_was_sent() {
        let drift = |ledger, known, left, moved, doubt| {
            closed_drift(delta(ledger), delta(known), delta(left), moved, doubt)
        };
        assert_eq!(drift(10, 10, 0, false, false), Some(ClosedDrift::None));
        assert_eq!(
            drift(12, 10, 0, false, false),
            Some(ClosedDrift::Tail(delta(2)))
        );
        assert_eq!(
            drift(9, 10, 0, false, false),
            Some(ClosedDrift::Tail(delta(-1)))
        );
        assert_eq!(
            drift(12, 11, 0, true, false),
            Some(ClosedDrift::Other(delta(1)))
        );
        assert_eq!(
            drift(12, 10, 0, false, true),
            Some(ClosedDrift::Other(delta(2)))
        );
        assert_eq!(drift(12, 10, 2, false, false), Some(ClosedDrift::None));
    }

    #[test]
    fn a_total_that_we_did_not_write_is_foreign() {
        let target = Units::new(5).expect("units");
        assert!(!is_foreign(delta(0), target));
        assert!(!is_foreign(delta(5), target));
        assert!(is_foreign(delta(4), target));
    }

    #[test]
    fn an_end_is_moved_only_where_every_cache_hears_of_it_in_time() {
        let now = at("2026-11-10T12:00:00Z");
        let moved = |end| moved_end(&cycle(), period(end), now);
        assert_eq!(moved("2026-11-10T12:09:59.999Z"), None);
        assert_eq!(
            moved("2026-11-10T12:10:00Z"),
            Some(at("2026-11-10T12:10:00Z"))
        );
        assert_eq!(moved_end(&cycle(), Period::default(), now), None);
    }
}
