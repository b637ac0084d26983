//! What may be done with an account, and where its cycles begin. Pure.

use super::AnchorSource;
use crate::cycle::Anchor;
use crate::moment::{civil, of_civil_clamped};
use crate::settings::LateAnchor;
use crate::units::Millis;

/// What accounts refuse. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The id is another account's, made with another body.
    AccountExists,
    /// Another account has that customer.
    CustomerTaken,
    /// It has another customer already.
    CustomerFixed,
    /// A day that not every month has.
    AnchorDay,
    /// The first redirect or admission came before.
    AnchorFixed,
    /// It needs a customer at the provider.
    NoCustomer,
}

impl Refused {
    /// Stable; for machines.
    pub const fn code(self) -> &'static str {
        match self {
            Self::AccountExists => "account_exists",
            Self::CustomerTaken => "customer_taken",
            Self::CustomerFixed => "customer_fixed",
            Self::AnchorDay => "anchor_day",
            Self::AnchorFixed => "anchor_fixed",
            Self::NoCustomer => "no_customer",
        }
    }

    /// One sentence for people.
    pub const fn message(self) -> &'static str {
        match self {
            Self::AccountExists => "An account of that id was made with another body.",
            Self::CustomerTaken => "Another account has that customer.",
            Self::CustomerFixed => "The account has another customer already.",
            Self::AnchorDay => "A cycle may not begin on a day that some months do not have.",
            Self::AnchorFixed => "Usage was counted already, so the cycles can no longer move.",
            Self::NoCustomer => "The account has no customer at the provider.",
        }
    }
}

/// What the provider says of when the current agreement began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Began {
    /// The current period's start.
    pub period_start: Option<Millis>,
    /// The current period's end.
    pub period_end: Option<Millis>,
    /// When the plan was subscribed to.
    pub subscribed_on: Option<Millis>,
}

/// The anchor that a person gives. The day is kept, also where it is one of the late ones.
pub fn given_anchor(at: Millis, late: LateAnchor) -> Result<Anchor, Refused> {
    let anchor = Anchor::first(at);
    match late {
        LateAnchor::Refuse if anchor.day > 28 => Err(Refused::AnchorDay),
        LateAnchor::Refuse | LateAnchor::Clamp => Ok(anchor),
    }
}

/// The anchor of an account whose start nobody gave: the current period's start, else the day of
/// subscription, else the first of the month.
pub fn found_anchor(began: Began, now: Millis) -> (Anchor, AnchorSource) {
    if let Some(start) = began.period_start {
        let mut anchor = Anchor::first(start);
        // A period that was pushed to the end of a short month began on a later day.
        if is_last_of_month(start) {
            anchor.day = anchor.day.max(later_day(began, anchor.day));
        }
        return (anchor, AnchorSource::Period);
    }
    if let Some(at) = began.subscribed_on {
        return (Anchor::first(at), AnchorSource::SubscribedOn);
    }
    let (year, month, ..) = civil(now);
    let first = of_civil_clamped(year, month, 1, 0).unwrap_or(Millis::ZERO);
    (Anchor::first(first), AnchorSource::Calendar)
}

/// The day that a period which begins at a short month's end, on `day`, really has. The month after
/// a short one has 31 days, so the period's end is never pushed and shows it; a period that ends
/// earlier in its month than it began was cut, and then the day of subscription is all there is.
fn later_day(began: Began, day: u8) -> u8 {
    let day_of = |at: Option<Millis>| at.map_or(0, |at| civil(at).2);
    match day_of(began.period_end) {
        shown if shown >= day => shown,
        _ => day_of(began.subscribed_on),
    }
}

fn is_last_of_month(at: Millis) -> bool {
    let (year, month, day, _) = civil(at);
    of_civil_clamped(year, month, 31, 0).is_some_and(|last| civil(last).2 == day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::cycle_at;
    use crate::moment::{format, parse_millis};

    fn at(text: &str) -> Millis {
        parse_millis(text).expect("a moment")
    }

    fn found(period: Option<&str>, subscribed: Option<&str>) -> (Anchor, AnchorSource) {
        let began = Began {
            period_start: period.map(at),
            subscribed_on: subscribed.map(at),
            ..Began::default()
        };
        found_anchor(began, at("2026-11-10T12:00:00Z"))
    }

    /// The day of the anchor of a period.
    fn day(start: &str, end: &str, subscribed: Option<&str>) -> u8 {
        let began = Began {
            period_start: Some(at(start)),
            period_end: Some(at(end)),
            subscribed_on: subscribed.map(at),
        };
        found_anchor(began, at(start)).0.day
    }

    #[test]
    fn a_late_day_that_a_person_gives_is_refused_or_kept() {
        for day in 1..=31 {
            let start = at(&format!("2026-01-{day:02}T10:00:00Z"));
            let refused = given_anchor(start, LateAnchor::Refuse) == Err(Refused::AnchorDay);
            assert_eq!(refused, day > 28, "{day}");
            let clamped = given_anchor(start, LateAnchor::Clamp).expect("it is kept");
            assert_eq!((clamped.at, clamped.day), (start, day));
        }
    }

    #[test]
    fn the_period_comes_before_the_subscription_and_that_before_the_calendar() {
        let (anchor, source) = found(Some("2026-10-20T15:29:00Z"), Some("2026-01-05T00:00:00Z"));
        assert_eq!((anchor.day, source), (20, AnchorSource::Period));
        let (anchor, source) = found(None, Some("2026-01-31T08:00:00Z"));
        assert_eq!((anchor.day, source), (31, AnchorSource::SubscribedOn));
        let (anchor, source) = found(None, None);
        assert_eq!(format(anchor.at), "2026-11-01T00:00:00.000Z");
        assert_eq!(source, AnchorSource::Calendar);
    }

    #[test]
    fn a_period_pushed_to_a_short_months_end_keeps_the_day_of_subscription() {
        let (anchor, _) = found(Some("2026-02-28T10:00:00Z"), Some("2026-01-31T10:00:00Z"));
        let next = cycle_at(&[anchor], at("2026-04-01T00:00:00Z"));
        assert_eq!(format(next.starts_at), "2026-03-31T10:00:00.000Z");
        let (anchor, _) = found(Some("2026-02-27T10:00:00Z"), Some("2026-01-31T10:00:00Z"));
        assert_eq!(anchor.day, 27);
        let (anchor, _) = found(Some("2026-02-28T10:00:00Z"), Some("2026-01-15T10:00:00Z"));
        assert_eq!(anchor.day, 28);
    }
    #[test]
    fn a_period_pushed_to_a_short_months_end_shows_its_day_by_its_own_end() {
        let (april, may) = ("2026-04-30T10:00:00Z", "2026-05-31T10:00:00Z");
        assert_eq!(day(april, may, None), 31);
        // The plan was changed since, in the same period: that day says nothing of the period.
        assert_eq!(day(april, may, Some("2026-04-12T08:00:00Z")), 31);
        assert_eq!(
            day(april, "2026-05-30T10:00:00Z", Some("2026-01-31T10:00:00Z")),
            30
        );
        let february = "2026-02-28T10:00:00Z";
        assert_eq!(day(february, "2026-03-29T10:00:00Z", None), 29);
        assert_eq!(day(february, "2026-03-28T10:00:00Z", None), 28);
        let cut = "2026-03-10T10:00:00Z";
        assert_eq!(day(february, cut, Some("2026-01-31T10:00:00Z")), 31);
        assert_eq!(day(february, cut, None), 28);
        assert_eq!(
            day("2026-01-31T10:00:00Z", "2026-02-28T10:00:00Z", None),
            31
        );
    }
}
