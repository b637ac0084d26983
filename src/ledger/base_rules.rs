//! Which meter is which, and what the earlier ones of a cycle hold.
//!
//! A meter is one agreement's feature in one period of the provider. The base of the current one is
//! what the cycle's other meters hold together; it is never fixed over a write whose outcome is
//! unknown. What can be read again is waited for, what cannot goes to a person.

use super::meter_rules::SAME_MS;
use crate::units::{Delta, Millis};

/// A doubt whose meter could not be read for so long goes to a person.
pub const DOUBT_MS: i64 = 3_600_000;

/// An agreement in a period that began then, as far as the provider tells.
pub type Identity<'a> = (&'a str, Option<Millis>);

/// Whether these are two meters: the agreement was replaced, or its period began anew inside the
/// cycle. A start that only became known is the same period.
pub fn is_other_meter(meter: Identity<'_>, agreement: Identity<'_>) -> bool {
    let began_anew = match (meter.1, agreement.1) {
        (Some(before), Some(after)) => after.since(before).abs() > SAME_MS,
        _ => false,
    };
    meter.0 != agreement.0 || began_anew
}

/// What a meter is known to hold, the later of what was confirmed and what was read: nothing where
/// neither ever was.
pub fn last_known(held: Option<Delta>) -> Delta {
    held.unwrap_or(Delta::ZERO)
}

/// An earlier meter of the cycle, as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// The later of what was confirmed and what was read.
    pub held: Option<Delta>,
    /// Whether the outcome of a write to it is unknown.
    pub is_doubtful: bool,
    /// Since when.
    pub since: Millis,
    /// Whether a sender may still be writing it.
    pub is_leased: bool,
}

/// What a read of an earlier meter gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierRead {
    /// What it holds.
    Total(Delta),
    /// Not this time.
    Failed,
    /// The provider has no way to say it: it refuses, or its period is over.
    Never,
}

/// What is known of an earlier meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// It holds this.
    Known(Delta),
    /// That is not known yet; the next run looks again.
    Wait,
    /// Nobody will know; a person decides what it counts as.
    Ask,
}

/// Whether a sender may be writing it now: then there is no use in reading it.
pub fn holding(earlier: Earlier, read: EarlierRead, now: Millis) -> Holding {
    if earlier.is_leased {
        return Holding::Wait;
    }
    match read {
        EarlierRead::Total(total) => Holding::Known(total),
        _ if !earlier.is_doubtful => Holding::Known(last_known(earlier.held)),
        EarlierRead::Failed if now.since(earlier.since) < DOUBT_MS => Holding::Wait,
        EarlierRead::Failed | EarlierRead::Never => Holding::Ask,
    }
}

/// What these meters hold together, without asking the provider; `None` while one is in doubt.
pub fn known_together(meters: impl IntoIterator<Item = Earlier>) -> Option<Delta> {
    let mut sum = Delta::ZERO;
    for meter in meters {
        if meter.is_doubtful {
            return None;
        }
        sum = sum.plus(last_known(meter.held))?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::parse_millis;

    fn delta(units: i64) -> Delta {
        Delta::new(units).expect("safe")
    }

    const NOW: Millis = Millis::new(10_000_000);

    fn earlier(held: Option<i64>, is_doubtful: bool) -> Earlier {
        Earlier {
            held: held.map(delta),
            is_doubtful,
            since: NOW,
            is_leased: false,
        }
    }

    #[test]
    fn another_agreement_or_a_period_that_began_anew_is_another_meter() {
        let at = |text| parse_millis(text).expect("a moment");
        let start = Some(at("2026-10-20T15:29:00Z"));
        let later = Some(at("2026-11-05T00:00:00Z"));
        let nearly = Some(at("2026-10-20T15:29:30Z"));
        assert!(!is_other_meter(("a", start), ("a", start)));
        assert!(!is_other_meter(("a", start), ("a", nearly)));
        assert!(!is_other_meter(("a", None), ("a", start)));
        assert!(!is_other_meter(("a", start), ("a", None)));
        assert!(is_other_meter(("a", start), ("a", later)));
        assert!(is_other_meter(("a", start), ("b", start)));
    }

    #[test]
    fn what_was_read_counts_and_else_what_was_last_known() {
        let sure = earlier(Some(7), false);
        let doubtful = earlier(Some(7), true);
        let read = EarlierRead::Total(delta(9));
        assert_eq!(holding(sure, read, NOW), Holding::Known(delta(9)));
        assert_eq!(holding(doubtful, read, NOW), Holding::Known(delta(9)));
        for silent in [EarlierRead::Failed, EarlierRead::Never] {
            assert_eq!(holding(sure, silent, NOW), Holding::Known(delta(7)));
            let never = earlier(None, false);
            assert_eq!(holding(never, silent, NOW), Holding::Known(Delta::ZERO));
        }
    }

    #[test]
    fn a_doubt_waits_while_a_read_may_end_it_and_asks_a_person_when_none_can() {
        let doubtful = earlier(Some(7), true);
        let failed = |now| holding(doubtful, EarlierRead::Failed, now);
        assert_eq!(failed(NOW), Holding::Wait);
        assert_eq!(failed(NOW.after(DOUBT_MS - 1)), Holding::Wait);
        assert_eq!(failed(NOW.after(DOUBT_MS)), Holding::Ask);
        assert_eq!(holding(doubtful, EarlierRead::Never, NOW), Holding::Ask);
        let leased = Earlier {
            is_leased: true,
            ..doubtful
        };
        for read in [EarlierRead::Never, EarlierRead::Total(delta(9))] {
            assert_eq!(holding(leased, read, NOW), Holding::Wait);
        }
    }

    #[test]
    fn meters_are_known_together_only_where_none_is_in_doubt() {
        let sure = [earlier(Some(7), false), earlier(None, false)];
        assert_eq!(known_together(sure), Some(delta(7)));
        assert_eq!(known_together([]), Some(Delta::ZERO));
        let doubtful = [earlier(Some(7), false), earlier(Some(1), true)];
        assert_eq!(known_together(doubtful), None);
    }
}
