//! Which meter is which, and what the earlier ones of a cycle hold.
//!
//! A meter is one agreement's feature in one period of the provider. The base of the current one is
//! what the cycle's other meters hold together; it is never fixed over a write whose outcome is
//! unknown. What can be read again is waited for, what cannot goes to a person.

use super::meter_rules::{Period, SAME_MS};
use crate::cycle::Cycle;
use crate::units::{AgreementId, Delta, Millis};

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
    // What was never read holds whatever somebody else wrote: as before a first write, it is read,
    // unless the provider has no way to say it.
    let is_known = !earlier.is_doubtful && earlier.held.is_some();
    match read {
        EarlierRead::Total(total) => Holding::Known(total),
        EarlierRead::Never if !earlier.is_doubtful => Holding::Known(last_known(earlier.held)),
        EarlierRead::Failed if is_known => Holding::Known(last_known(earlier.held)),
        EarlierRead::Failed if now.since(earlier.since) < DOUBT_MS => Holding::Wait,
        EarlierRead::Failed | EarlierRead::Never => Holding::Ask,
    }
}

/// Whether the last total that a meter confirmed may stand in the next period of its agreement: it
/// was sent when that had begun and we did not know of it, and a provider books what it is sent to
/// its current period. Then what the meter itself holds is what it held before.
pub fn may_have_gone_astray(
    sent: Option<Delta>,
    last_at: Option<Millis>,
    next_start: Millis,
) -> bool {
    sent.is_some() && last_at.is_some_and(|at| at >= next_start)
}

/// What these meters hold together, without asking the provider; `None` while one is in doubt, or
/// was neither written nor read yet.
pub fn known_together(meters: impl IntoIterator<Item = Earlier>) -> Option<Delta> {
    let mut sum = Delta::ZERO;
    for meter in meters {
        sum = sum.plus(meter.held.filter(|_| !meter.is_doubtful)?)?;
    }
    Some(sum)
}

/// An agreement of an account, as it was last read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The provider's id.
    pub agreement_id: AgreementId,
    /// The provider's keys of what it contains; empty where the provider does not say.
    pub feature_keys: Vec<String>,
    /// The period in which it was last seen.
    pub period: Period,
    /// When it ends or ended, if it does.
    pub expires_at: Option<Millis>,
    /// When we first heard of it.
    pub first_seen: Millis,
}

impl Agreement {
    /// Whether it contains a feature, as far as the provider says.
    pub fn contains(&self, provider_key: &str) -> bool {
        self.feature_keys.is_empty() || self.feature_keys.iter().any(|key| key == provider_key)
    }

    /// Its meter in the period in which it was last seen.
    pub fn identity(&self) -> Identity<'_> {
        (self.agreement_id.as_str(), self.period.starts_at)
    }

    /// Whether its meter may have been written in that cycle. One that had ended when we first
    /// heard of it (the provider's clock may be behind), or before the cycle, was not; nor was one
    /// whose period ends elsewhere.
    fn ran_in(&self, cycle: &Cycle) -> bool {
        let over = |at: Millis| at.after(SAME_MS) <= self.first_seen || at <= cycle.starts_at;
        let fits = |end: Millis| end.since(cycle.ends_at).abs() <= SAME_MS;
        !self.expires_at.is_some_and(over) && self.period.ends_at.is_none_or(fits)
    }
}

/// The meters of a feature in a running cycle, but for the current one, that hold something if
/// anybody has written them and are not among those that the ledger knows: nobody met them while
/// their agreement was the current one, or it was put back to before they were made.
pub fn without_row<'a>(
    cycle: &Cycle,
    provider_key: &str,
    (agreements, current): (&'a [Agreement], Option<&AgreementId>),
    known: &[Identity<'_>],
) -> Vec<Identity<'a>> {
    let mut meters = Vec::new();
    let is_possible = |one: &&Agreement| one.contains(provider_key) && one.ran_in(cycle);
    for one in agreements.iter().filter(is_possible) {
        let present = one.identity();
        let is_earlier =
            |meter: &&Identity<'_>| meter.0 == present.0 && is_other_meter(**meter, present);
        let began_anew = |start: Millis| {
            start.since(cycle.starts_at) > SAME_MS
                && one.first_seen < start
                && !known.iter().any(|meter| is_earlier(&meter))
        };
        if one.period.starts_at.is_some_and(began_anew) {
            meters.push((present.0, Some(cycle.starts_at)));
        }
        let is_current = current == Some(&one.agreement_id);
        if !is_current && known.iter().all(|meter| is_other_meter(*meter, present)) {
            meters.push(present);
        }
    }
    meters
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
        }
    }

    #[test]
    fn what_was_never_read_is_waited_for_unless_the_provider_cannot_say_it() {
        let unread = earlier(None, false);
        let at = |read, now| holding(unread, read, now);
        assert_eq!(at(EarlierRead::Never, NOW), Holding::Known(Delta::ZERO));
        assert_eq!(at(EarlierRead::Failed, NOW), Holding::Wait);
        assert_eq!(at(EarlierRead::Failed, NOW.after(DOUBT_MS)), Holding::Ask);
        let read = EarlierRead::Total(delta(9));
        assert_eq!(at(read, NOW), Holding::Known(delta(9)));
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
    fn a_total_that_was_confirmed_after_the_next_period_began_may_stand_there() {
        let sent = Some(delta(7));
        assert!(!may_have_gone_astray(sent, Some(NOW.after(-1)), NOW));
        assert!(may_have_gone_astray(sent, Some(NOW), NOW));
        assert!(!may_have_gone_astray(None, Some(NOW), NOW));
        assert!(!may_have_gone_astray(sent, None, NOW));
    }

    #[test]
    fn meters_are_known_together_only_where_each_is_known_and_none_in_doubt() {
        let sure = [earlier(Some(7), false), earlier(Some(2), false)];
        assert_eq!(known_together(sure), Some(delta(9)));
        let unread = [earlier(Some(7), false), earlier(None, false)];
        assert_eq!(known_together(unread), None);
        assert_eq!(known_together([]), Some(Delta::ZERO));
        let doubtful = [earlier(Some(7), false), earlier(Some(1), true)];
        assert_eq!(known_together(doubtful), None);
    }

    fn cycle() -> Cycle {
        let at = parse_millis("2026-11-10T00:00:00Z").expect("a moment");
        crate::cycle::cycle_at(&[crate::cycle::Anchor::calendar_months()], at)
    }

    fn agreement(id: &str, first_seen: &str, starts_at: &str) -> Agreement {
        let at = |text| parse_millis(text).expect("a moment");
        Agreement {
            agreement_id: AgreementId::new(id).expect("an id"),
            feature_keys: vec![],
            first_seen: at(first_seen),
            period: Period {
                starts_at: Some(at(starts_at)),
                ends_at: Some(cycle().ends_at),
            },
            expires_at: Some(at("2026-11-08T00:00:00Z")),
        }
    }

    fn lacks<'a>(
        agreement: &'a Agreement,
        current: Option<&AgreementId>,
        known: &[Identity<'_>],
    ) -> Vec<Identity<'a>> {
        let agreements = std::slice::from_ref(agreement);
        without_row(&cycle(), "clicks", (agreements, current), known)
    }

    #[test]
    fn a_replaced_agreement_without_a_meter_may_have_been_written_while_it_ran_in_the_cycle() {
        let start = "2026-11-01T00:00:00Z";
        let was = agreement("a", "2026-10-05T00:00:00Z", start);
        let meter = was.identity();
        assert_eq!(lacks(&was, None, &[]), [meter]);
        assert_eq!(lacks(&was, None, &[("b", None)]), [meter]);
        assert_eq!(lacks(&was, None, &[("a", None)]), []);
        assert_eq!(lacks(&was, Some(&was.agreement_id), &[]), []);
        let none = |change: fn(&mut Agreement)| {
            let mut other = was.clone();
            change(&mut other);
            assert_eq!(lacks(&other, None, &[]), [], "{other:?}");
        };
        none(|one| one.feature_keys = vec!["tokens".to_owned()]);
        none(|one| one.expires_at = parse_millis("2026-11-01T00:00:00Z"));
        none(|one| one.first_seen = Millis::new(i64::MAX));
        none(|one| one.period.ends_at = parse_millis("2026-11-20T00:00:00Z"));
    }

    #[test]
    fn a_period_that_began_anew_in_the_cycle_may_have_had_a_meter_before() {
        let start = "2026-11-05T00:00:00Z";
        let mut one = agreement("a", "2026-10-05T00:00:00Z", start);
        one.expires_at = None;
        let (current, present) = (Some(&one.agreement_id), one.identity());
        let before = ("a", Some(cycle().starts_at));
        assert_eq!(lacks(&one, current, &[present]), [before]);
        assert_eq!(lacks(&one, current, &[before]), []);
        assert_eq!(lacks(&one, None, &[]), [before, present]);
        let new = agreement("a", start, start);
        assert_eq!(lacks(&new, current, &[present]), []);
    }
}
