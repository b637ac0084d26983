//! Billing cycles: half-open, UTC, to the millisecond, always computed from the original anchor.
//!
//! An account has one anchor; closing a `period_mismatch` adds a further one, which begins where
//! the running cycle then ends. Pure: anchors and a moment in, a cycle out.

use crate::moment::{civil, of_civil_clamped};
use crate::units::{CycleName, Millis};

/// Where cycles begin, each month anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// A moment at which a cycle begins.
    pub at: Millis,
    /// The day of the month, 1 to 31, kept although `at` may lie in a shorter month.
    pub day: u8,
    /// Absent on the first anchor. On a later one: the start of the cycle whose end was moved to
    /// `at`; the cycle `[opens, at)` is the last under the anchors before.
    pub opens: Option<Millis>,
}

impl Anchor {
    /// A first anchor, on the day that `at` itself has.
    pub fn first(at: Millis) -> Self {
        Self {
            at,
            day: civil(at).2,
            opens: None,
        }
    }

    /// The first anchor of an account about which nothing is known: calendar months.
    pub fn calendar_months() -> Self {
        Self::first(Millis::ZERO)
    }

    /// The boundary `months` months from the anchor's own month.
    fn boundary(self, months: i64) -> Millis {
        let (year, month, _, ms) = civil(self.at);
        let index = i64::from(year) * 12 + i64::from(month) - 1 + months;
        let year = i32::try_from(index.div_euclid(12)).unwrap_or(i32::MAX);
        let month = u8::try_from(index.rem_euclid(12) + 1).unwrap_or(1);
        let edge = if months < 0 {
            Millis::new(i64::MIN)
        } else {
            Millis::new(i64::MAX)
        };
        of_civil_clamped(year, month, self.day, ms).unwrap_or(edge)
    }

    /// The boundaries around `at`, as if this were the only anchor.
    fn bounds(self, at: Millis) -> (Millis, Millis) {
        let months = |moment: Millis| {
            let (year, month, ..) = civil(moment);
            i64::from(year) * 12 + i64::from(month)
        };
        let mut index = months(at) - months(self.at);
        if self.boundary(index) > at {
            index -= 1;
        }
        (self.boundary(index), self.boundary(index + 1))
    }
}

/// One billing cycle of one account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cycle {
    /// Its first millisecond.
    pub starts_at: Millis,
    /// The first millisecond of the next one.
    pub ends_at: Millis,
    /// The month it starts in; with `.2`, `.3` where an earlier cycle started in that month too.
    pub name: CycleName,
}

impl Cycle {
    /// Whether `at` lies in it.
    pub fn holds(&self, at: Millis) -> bool {
        self.starts_at <= at && at < self.ends_at
    }
}

/// The cycle in which `at` lies. `anchors` in the order in which they were fixed, the first one
/// without `opens`; none at all means calendar months.
pub fn cycle_at(anchors: &[Anchor], at: Millis) -> Cycle {
    let (starts_at, ends_at) = bounds(anchors, at);
    let (year, month, ..) = civil(starts_at);
    let mut nth = 1_u32;
    let mut start = starts_at;
    // At most one round for each anchor: under one anchor no month has two starts.
    for _ in anchors {
        start = bounds(anchors, start.after(-1)).0;
        let (y, m, ..) = civil(start);
        if (y, m) != (year, month) {
            break;
        }
        nth += 1;
    }
    Cycle {
        starts_at,
        ends_at,
        name: CycleName::of(year, month, nth),
    }
}

fn bounds(anchors: &[Anchor], at: Millis) -> (Millis, Millis) {
    let fallback = Anchor::calendar_months();
    let mut current = anchors.first().copied().unwrap_or(fallback);
    let mut limit = None;
    for anchor in anchors.iter().skip(1) {
        if at < anchor.at {
            if let Some(opens) = anchor.opens.filter(|opens| *opens <= at) {
                return (opens, anchor.at);
            }
            limit = anchor.opens;
            break;
        }
        current = *anchor;
    }
    let (start, end) = current.bounds(at);
    let start = if current.opens.is_some() {
        start.max(current.at)
    } else {
        start
    };
    (start, limit.map_or(end, |opens| end.min(opens)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::{format, parse_millis};

    fn at(text: &str) -> Millis {
        parse_millis(text).expect("a moment")
    }

    fn named(anchors: &[Anchor], moment: &str) -> (String, String, String) {
        let cycle = cycle_at(anchors, at(moment));
        (
            cycle.name.to_string(),
            format(cycle.starts_at),
            format(cycle.ends_at),
        )
    }

    #[test]
    fn without_an_anchor_a_cycle_is_a_calendar_month() {
        let (name, start, end) = named(&[], "2026-11-30T23:59:59.999Z");
        assert_eq!(
            (name.as_str(), start.as_str()),
            ("2026-11", "2026-11-01T00:00:00.000Z")
        );
        assert_eq!(end, "2026-12-01T00:00:00.000Z");
    }

    #[test]
    fn a_click_belongs_to_the_cycle_of_its_own_millisecond() {
        let anchors = [Anchor::first(at("2026-10-20T15:29:00Z"))];
        assert_eq!(named(&anchors, "2026-11-20T15:28:59.999Z").0, "2026-10");
        assert_eq!(named(&anchors, "2026-11-20T15:29:00.000Z").0, "2026-11");
        assert_eq!(named(&anchors, "2026-10-20T15:28:59.999Z").0, "2026-09");
    }

    #[test]
    fn a_late_day_is_clamped_from_the_original_day_each_month() {
        let anchors = [Anchor::first(at("2027-01-31T10:00:00Z"))];
        let starts: Vec<String> = ["2027-02-28", "2027-03-31", "2027-04-30", "2027-05-31"]
            .iter()
            .map(|day| named(&anchors, &format!("{day}T10:00:00Z")).1)
            .collect();
        assert_eq!(
            starts,
            [
                "2027-02-28T10:00:00.000Z",
                "2027-03-31T10:00:00.000Z",
                "2027-04-30T10:00:00.000Z",
                "2027-05-31T10:00:00.000Z",
            ]
        );
    }

    #[test]
    fn a_moved_end_shortens_or_lengthens_only_the_running_cycle() {
        let first = Anchor::first(at("2026-01-10T00:00:00Z"));
        for end in ["2026-03-25T00:00:00Z", "2026-04-05T00:00:00Z"] {
            let moved = Anchor {
                at: at(end),
                day: civil(at(end)).2,
                opens: Some(at("2026-03-10T00:00:00Z")),
            };
            let anchors = [first, moved];
            assert_eq!(named(&anchors, "2026-03-09T23:59:59.999Z").0, "2026-02");
            let running = cycle_at(&anchors, at("2026-03-20T00:00:00Z"));
            assert_eq!(running.name.as_str(), "2026-03");
            assert_eq!(running.ends_at, at(end));
            let next = cycle_at(&anchors, at(end));
            assert_eq!(next.starts_at, at(end));
        }
        let moved = Anchor {
            at: at("2026-03-25T00:00:00Z"),
            day: 25,
            opens: Some(at("2026-03-10T00:00:00Z")),
        };
        assert_eq!(
            named(&[first, moved], "2026-03-25T00:00:00Z").0,
            "2026-03.2"
        );
        assert_eq!(named(&[first, moved], "2026-04-25T00:00:00Z").0, "2026-04");
    }

    #[test]
    fn cycles_follow_each_other_without_gap_for_every_anchor_day_over_thirty_years() {
        for day in 1..=31 {
            let anchor = Anchor::first(at(&format!("2024-01-{day:02}T23:59:59.999Z")));
            let mut cycle = cycle_at(&[anchor], anchor.at);
            assert_eq!(cycle.starts_at, anchor.at);
            for _ in 0..360 {
                let last = cycle_at(&[anchor], cycle.ends_at.after(-1));
                assert_eq!(last, cycle);
                let next = cycle_at(&[anchor], cycle.ends_at);
                assert_eq!(next.starts_at, cycle.ends_at);
                assert!(next.name > cycle.name);
                cycle = next;
            }
        }
    }
}
