//! The ledger's decisions, pure: where a feed stands, what a double click is, what may still be
//! corrected.

use crate::units::{Delta, Millis};

/// What an object knows of its own stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Every batch up to here is delivered, as far as the object knows.
    pub confirmed: i64,
    /// The last batch that was frozen; `confirmed` where none waits.
    pub frozen: i64,
    /// The first batch that the object still has; `frozen + 1` where it has none.
    pub kept_from: i64,
}

/// Where the ledger's row says that the stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The last batch that the ledger took; 0 where it has no row.
    pub last: i64,
    /// Whether that batch has the id of ours of that number; absent where we no longer have it.
    pub same_id: Option<bool>,
}

/// What the comparison of both says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Everything up to this batch is delivered, what follows it is to be sent (again).
    Delivered(i64),
    /// The object's own storage was put back: the ledger has batches of this life that it does
    /// not know. It begins a new epoch.
    PutBack,
    /// The ledger was restored further back than batches are kept: these are lost to it.
    Gap {
        /// The first batch that cannot be sent again.
        from: i64,
        /// The last one.
        to: i64,
    },
}

/// Compares an object's stream with the ledger's row of its epoch.
pub fn compare(stream: Stream, reached: Reached) -> Standing {
    let Reached { last, same_id } = reached;
    if last > stream.frozen {
        return Standing::PutBack;
    }
    if same_id == Some(false) {
        return Standing::PutBack;
    }
    if last + 1 < stream.kept_from {
        return Standing::Gap {
            from: last + 1,
            to: stream.kept_from - 1,
        };
    }
    Standing::Delivered(last)
}

/// Whether a click at `at` is a double click: of the same visitor's clicks on the same link that
/// counted, the nearest lies less than the window away. Clicks may arrive out of their order.
pub fn is_double_click(counted_at: Option<Millis>, at: Millis, window_ms: i64) -> bool {
    counted_at.is_some_and(|counted| at.since(counted).abs() < window_ms)
}

/// How far ahead of our clock a caller's may be.
const AHEAD_MS_MAX: i64 = 300_000;

/// Why a time of plain usage is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeRefused {
    /// Its cycle has ended.
    ClosedCycle,
    /// More than five minutes ahead.
    Ahead,
}

impl TimeRefused {
    /// One sentence for people.
    pub const fn message(self) -> &'static str {
        match self {
            Self::ClosedCycle => "The cycle of this time has ended.",
            Self::Ahead => "This time is more than five minutes ahead.",
        }
    }
}

/// Whether new usage at `at`, in a cycle that ends then, can be recorded now.
pub fn time_of_usage(cycle_ends_at: Millis, at: Millis, now: Millis) -> Result<(), TimeRefused> {
    if cycle_ends_at <= now {
        return Err(TimeRefused::ClosedCycle);
    }
    if at.since(now) > AHEAD_MS_MAX {
        return Err(TimeRefused::Ahead);
    }
    Ok(())
}

/// Why a correction is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Only what counts can be corrected: a correction or a carry cannot.
    NotCorrectable,
    /// More is asked than is left of the entry.
    MoreThanLeft {
        /// What is left.
        left: Delta,
    },
}

impl Refused {
    /// Stable, for machines.
    pub const fn code(self) -> &'static str {
        match self {
            Self::NotCorrectable => "not_correctable",
            Self::MoreThanLeft { .. } => "nothing_left",
        }
    }

    /// One sentence for people.
    pub fn message(self) -> String {
        match self {
            Self::NotCorrectable => "This kind of entry cannot be corrected.".to_owned(),
            Self::MoreThanLeft { left } => format!("{left} units are left of this entry."),
        }
    }
}

/// How much a correction takes back: what is asked, or all that is left.
pub fn correct(
    units: Delta,
    is_fact: bool,
    corrected: Delta,
    asked: Option<Delta>,
) -> Result<Delta, Refused> {
    if !is_fact || units <= Delta::ZERO {
        return Err(Refused::NotCorrectable);
    }
    // Corrections are negative, so the sum is what is left.
    let left = units.plus(corrected).unwrap_or(Delta::ZERO);
    let asked = asked.unwrap_or(left);
    if asked <= Delta::ZERO || asked > left {
        return Err(Refused::MoreThanLeft { left });
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(confirmed: i64, frozen: i64, kept_from: i64) -> Stream {
        Stream {
            confirmed,
            frozen,
            kept_from,
        }
    }

    fn reached(last: i64, same_id: Option<bool>) -> Reached {
        Reached { last, same_id }
    }

    #[test]
    fn a_batch_whose_answer_was_lost_counts_as_delivered_once_the_ledger_names_it() {
        let waiting = stream(4, 5, 1);
        assert_eq!(
            compare(waiting, reached(5, Some(true))),
            Standing::Delivered(5)
        );
        assert_eq!(
            compare(waiting, reached(4, Some(true))),
            Standing::Delivered(4)
        );
    }

    #[test]
    fn a_restored_ledger_is_sent_everything_that_is_kept() {
        assert_eq!(
            compare(stream(9, 9, 3), reached(2, None)),
            Standing::Delivered(2)
        );
        assert_eq!(
            compare(stream(9, 9, 1), reached(0, None)),
            Standing::Delivered(0)
        );
    }

    #[test]
    fn a_gap_is_named_to_the_batch() {
        assert_eq!(
            compare(stream(9, 9, 4), reached(2, None)),
            Standing::Gap { from: 3, to: 3 }
        );
        assert_eq!(
            compare(stream(9, 9, 10), reached(8, None)),
            Standing::Gap { from: 9, to: 9 }
        );
    }

    #[test]
    fn a_ledger_that_is_ahead_or_has_another_batch_means_own_storage_was_put_back() {
        assert_eq!(
            compare(stream(4, 4, 1), reached(5, None)),
            Standing::PutBack
        );
        assert_eq!(
            compare(stream(4, 5, 1), reached(5, Some(false))),
            Standing::PutBack
        );
        assert_eq!(
            compare(stream(4, 5, 1), reached(4, Some(false))),
            Standing::PutBack
        );
    }

    #[test]
    fn a_double_click_is_less_than_the_window_away_on_either_side() {
        let at = Millis::new;
        assert!(!is_double_click(None, at(0), 1000));
        assert!(is_double_click(Some(at(0)), at(999), 1000));
        assert!(!is_double_click(Some(at(0)), at(1000), 1000));
        assert!(is_double_click(Some(at(1000)), at(1), 1000));
        assert!(is_double_click(Some(at(5)), at(5), 1000));
        assert!(!is_double_click(Some(at(5)), at(5), 0));
    }

    #[test]
    fn usage_is_recorded_until_its_cycle_ends_and_at_most_five_minutes_ahead() {
        let at = Millis::new;
        assert_eq!(time_of_usage(at(100), at(99), at(99)), Ok(()));
        let closed = Err(TimeRefused::ClosedCycle);
        assert_eq!(time_of_usage(at(100), at(99), at(100)), closed);
        let far = at(1_000_000_000);
        assert_eq!(time_of_usage(far, at(300_000), at(0)), Ok(()));
        assert_eq!(
            time_of_usage(far, at(300_001), at(0)),
            Err(TimeRefused::Ahead)
        );
    }

    #[test]
    fn a_correction_takes_back_at_most_what_is_left() {
        let d = |n| Delta::new(n).unwrap();
        assert_eq!(correct(d(10), true, d(-4), None), Ok(d(6)));
        assert_eq!(correct(d(10), true, d(-4), Some(d(6))), Ok(d(6)));
        let refused = Err(Refused::MoreThanLeft { left: d(6) });
        assert_eq!(correct(d(10), true, d(-4), Some(d(7))), refused);
        let nothing = Err(Refused::MoreThanLeft { left: d(0) });
        assert_eq!(correct(d(10), true, d(-10), None), nothing);
        assert_eq!(
            correct(d(-1), true, d(0), None),
            Err(Refused::NotCorrectable)
        );
        assert_eq!(
            correct(d(5), false, d(0), None),
            Err(Refused::NotCorrectable)
        );
    }
}
