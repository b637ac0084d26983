//! Moments as text: a tolerant reader for the provider, a strict one for callers, one writer.
//!
//! The provider's are RFC 3339 with `Z`, `+HH`, `+HHMM` or `+HH:MM` and 0 to 9 fraction digits:
//! Kinde writes `+11`, which RFC 3339 does not know (<https://docs.kinde.com> samples, 2026).
//! Callers keep to RFC 3339. Written: UTC with milliseconds. The calendar comes from the `time`
//! crate.

use time::{Date, Month};

use crate::units::Millis;

/// Milliseconds of a day.
pub const DAY_MS: i64 = 86_400_000;

/// A moment to the nanosecond: only the order of events needs more than milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventTime {
    /// The millisecond.
    pub at: Millis,
    /// Nanoseconds within it: 0 to 999,999.
    pub nanos: u32,
}

/// The Julian day of 1970-01-01.
const EPOCH_DAY: i64 = 2_440_588;

/// 0000-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z: what lies outside cannot be written with
/// four digits of a year, so an offset that leads there is refused too.
const FIRST_MS: i64 = -62_167_219_200_000;
/// See [`FIRST_MS`].
const LAST_MS: i64 = 253_402_300_799_999;

/// Reads a moment; `None` where it is not one. Leap seconds (`:60`) are not moments.
pub fn parse(text: &str) -> Option<EventTime> {
    let bytes = text.as_bytes();
    if bytes.len() < 20 || bytes.len() > 40 || !text.is_ascii() {
        return None;
    }
    let year = number(text.get(0..4)?)?;
    let month = number(text.get(5..7)?)?;
    let day = number(text.get(8..10)?)?;
    let hour = number(text.get(11..13)?)?;
    let minute = number(text.get(14..16)?)?;
    let second = number(text.get(17..19)?)?;
    let marks = (
        text.get(4..5)?,
        text.get(7..8)?,
        text.get(13..14)?,
        text.get(16..17)?,
    );
    if marks != ("-", "-", ":", ":") || !matches!(text.get(10..11)?, "T" | "t" | " ") {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (nanos, rest) = fraction(text.get(19..)?)?;
    let offset_minutes = offset(rest)?;
    let day_ms = ((hour * 60 + minute) * 60 + second) * 1000;
    let local = days_of(year, month, day)? * DAY_MS + day_ms;
    let at = local + i64::from(nanos / 1_000_000) - offset_minutes * 60_000;
    (FIRST_MS..=LAST_MS).contains(&at).then_some(EventTime {
        at: Millis::new(at),
        nanos: nanos % 1_000_000,
    })
}

/// Reads a moment to the millisecond (what is finer is cut off).
pub fn parse_millis(text: &str) -> Option<Millis> {
    parse(text).map(|time| time.at)
}

/// Reads what a caller gives, to the millisecond: RFC 3339 and nothing else (api.md, "Rules for
/// every route").
pub fn parse_rfc3339(text: &str) -> Option<Millis> {
    let bytes = text.as_bytes();
    let from_end = |back: usize| bytes.get(bytes.len().checked_sub(back)?).copied();
    let has_t = matches!(bytes.get(10), Some(b'T' | b't'));
    let has_zone = matches!(from_end(1), Some(b'Z' | b'z'))
        || matches!((from_end(6), from_end(3)), (Some(b'+' | b'-'), Some(b':')));
    (has_t && has_zone).then(|| parse_millis(text))?
}

/// `2026-10-20T15:29:00.000Z`.
pub fn format(at: Millis) -> String {
    let (year, month, day, ms) = civil(at);
    let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
    let (second, millis) = (ms / 1000 % 60, ms % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Year, month (1–12), day and the milliseconds since midnight, in UTC.
pub fn civil(at: Millis) -> (i32, u8, u8, i64) {
    let days = at.get().div_euclid(DAY_MS);
    let julian = i32::try_from(days + EPOCH_DAY).unwrap_or(i32::MAX);
    let date =
        Date::from_julian_day(julian).unwrap_or(if days < 0 { Date::MIN } else { Date::MAX });
    (
        date.year(),
        u8::from(date.month()),
        date.day(),
        at.get().rem_euclid(DAY_MS),
    )
}

/// The moment `ms` milliseconds after midnight of a day; a day past the month's end is its last.
pub fn of_civil_clamped(year: i32, month: u8, day: u8, ms: i64) -> Option<Millis> {
    let month = Month::try_from(month).ok()?;
    let day = day.min(month.length(year));
    let date = Date::from_calendar_date(year, month, day).ok()?;
    Some(Millis::new(
        (i64::from(date.to_julian_day()) - EPOCH_DAY) * DAY_MS + ms,
    ))
}

fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let date =
        Date::from_calendar_date(i32::try_from(year).ok()?, month, u8::try_from(day).ok()?).ok()?;
    Some(i64::from(date.to_julian_day()) - EPOCH_DAY)
}

fn number(digits: &str) -> Option<i64> {
    digits
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

/// The fraction in nanoseconds, and what follows it.
fn fraction(text: &str) -> Option<(u32, &str)> {
    let Some(after) = text.strip_prefix('.') else {
        return Some((0, text));
    };
    let length = after.bytes().take_while(u8::is_ascii_digit).count();
    if !(1..=9).contains(&length) {
        return None;
    }
    let digits: u32 = after.get(..length)?.parse().ok()?;
    let scale = 10_u32.pow(9 - u32::try_from(length).ok()?);
    Some((digits * scale, after.get(length..)?))
}

/// Minutes east of UTC.
fn offset(text: &str) -> Option<i64> {
    if matches!(text, "Z" | "z") {
        return Some(0);
    }
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits.len() {
        2 => (digits, "00"),
        4 => digits.split_at_checked(2)?,
        5 => digits
            .split_once(':')
            .filter(|(hours, _)| hours.len() == 2)?,
        _ => return None,
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 60 + minutes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> Option<i64> {
        parse_millis(text).map(Millis::get)
    }

    #[test]
    fn every_offset_form_that_the_provider_writes_reads_as_the_same_moment() {
        let utc = ms("2024-11-18T02:32:03Z");
        assert_eq!(utc, Some(1_731_897_123_000));
        for same in [
            "2024-11-18T13:32:03+11",
            "2024-11-18T13:32:03+1100",
            "2024-11-18T13:32:03+11:00",
            "2024-11-18T13:32:03.000000000+11:00",
            "2024-11-17T21:02:03-0530",
        ] {
            assert_eq!(ms(same), utc, "{same}");
        }
    }

    #[test]
    fn a_caller_writes_rfc_3339_with_any_offset_and_up_to_nine_fraction_digits() {
        let utc = parse_millis("2024-11-18T02:32:03.100Z");
        for good in [
            "2024-11-18T02:32:03.1Z",
            "2024-11-18t02:32:03.10z",
            "2024-11-18T13:32:03.100000000+11:00",
            "2024-11-18T13:32:03.100999999+11:00",
            "2024-11-17T21:02:03.100-05:30",
            "2024-11-18T02:32:03.1-00:00",
            "2024-11-19T02:31:03.1+23:59",
        ] {
            assert_eq!(parse_rfc3339(good), utc, "{good}");
        }
        assert_eq!(
            parse_rfc3339("2024-11-18T02:32:03Z").map(Millis::get),
            ms("2024-11-18T02:32:03Z")
        );
        for bad in [
            "",
            "Z",
            "2024-11-18",
            "2024-11-18T02:32:03",
            "2024-11-18 02:32:03Z",
            "2024-11-18T13:32:03+11",
            "2024-11-18T13:32:03+1100",
            "2024-11-18T02:32:03.0123456789Z",
            "2024-11-18T02:32Z",
            "1731897123000",
        ] {
            assert_eq!(parse_rfc3339(bad), None, "{bad}");
        }
    }

    #[test]
    fn nine_fraction_digits_order_two_events_of_one_millisecond() {
        let first = parse("2026-10-21T02:29:24.481368869+11:00");
        let second = parse("2026-10-21T02:29:24.48136887+11:00");
        assert!(first < second);
        assert_eq!(first.map(|t| t.nanos), Some(368_869));
    }

    #[test]
    fn what_is_not_a_moment_is_refused() {
        for bad in [
            "",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00.0123456789Z",
            "2026-01-01T00:00:00+1",
            "2026-01-01T00:00:00+11:0",
            "2026-01-01T00:00:00+99:00",
            "20é6-01-01T00:00:00Z",
            "+026-01-01T00:00:00Z",
            "9999-12-31T23:59:59.999-00:01",
            "0000-01-01T00:00:00+00:01",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for at in [
            FIRST_MS,
            0,
            1,
            -1,
            951_782_400_000,
            1_792_510_140_123,
            LAST_MS,
        ] {
            assert_eq!(ms(&format(Millis::new(at))), Some(at));
        }
        assert_eq!(
            format(Millis::new(1_792_510_140_123)),
            "2026-10-20T15:29:00.123Z"
        );
    }
}
