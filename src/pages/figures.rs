//! Figures: numbers, moments, words for codes, tiles, badges and bars.

use maud::{Markup, html};

use crate::moment::{civil, format};
use crate::units::Millis;

/// How something is to be taken; each has a colour, and a word or number beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// Somebody should look.
    Warn,
    /// Wrong.
    Bad,
    /// Of no concern.
    Soft,
}

impl Tone {
    /// As a class.
    pub const fn class(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Good => "good",
            Self::Warn => "warn",
            Self::Bad => "bad",
            Self::Soft => "soft",
        }
    }
}

/// A moment for people, to the second in UTC and without seconds where there are none; exact for
/// machines.
pub fn moment(at: Millis) -> Markup {
    let exact = format(at);
    let shown = if civil(at).3 % 60_000 == 0 { 16 } else { 19 };
    let short = exact.get(..shown).unwrap_or(&exact).replacen('T', " ", 1);
    html! { time datetime=(exact) title=(exact) { (short) " UTC" } }
}

/// How long something lasts still: `9 min 48 s`.
pub fn duration(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// `1234567` as `1,234,567`.
pub fn number(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    if value < 0 {
        text.push('−');
    }
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number, or a dash where there is none.
pub fn number_or_dash(value: Option<i64>) -> String {
    value.map_or_else(|| "–".to_owned(), number)
}

/// Some text, or a dash where there is none.
pub fn or_dash(text: Option<&str>) -> &str {
    text.filter(|text| !text.is_empty()).unwrap_or("–")
}

/// A code as people read it: `under_billed` as `under billed`.
pub fn words(code: &str) -> String {
    code.replace('_', " ")
}

/// A code with its colour; the code itself stays beside it for machines.
pub fn badge(tone: Tone, code: &str) -> Markup {
    html! { span class={ "badge " (tone.class()) } data-code=(code) { (words(code)) } }
}

/// A number that is looked at first, and what it counts.
pub fn tile(tone: Tone, value: &str, label: impl maud::Render) -> Markup {
    html! { div.tile { b class=(tone.class()) { (value) } span { (label) } } }
}

/// How wide a bar is drawn, in its own units.
const BAR_WIDTH: i64 = 1000;

/// Parts of a whole beside each other, with a mark where `limit` is; `label` is read out.
pub fn bar(label: &str, parts: &[(Tone, i64)], limit: i64) -> Markup {
    let sum = parts
        .iter()
        .fold(0_i64, |sum, (_, part)| sum.saturating_add((*part).max(0)));
    let scale = sum.max(limit).max(1);
    let width = |value: i64| {
        let scaled = i128::from(value.max(0)) * i128::from(BAR_WIDTH) / i128::from(scale);
        i64::try_from(scaled).unwrap_or(BAR_WIDTH)
    };
    let mut from = 0;
    let drawn: Vec<(Tone, i64, i64)> = (parts.iter())
        .map(|(tone, part)| {
            let at = from;
            from += width(*part);
            (*tone, at, width(*part))
        })
        .collect();
    html! {
        svg.bar role="img" aria-label=(label) viewBox={ "0 0 " (BAR_WIDTH) " 12" }
            preserveAspectRatio="none" {
            @for (tone, at, wide) in drawn {
                rect class=(tone.class()) x=(at) y="0" width=(wide) height="12" {}
            }
            @if limit > 0 && limit < scale {
                rect.limit x=(width(limit) - 2) y="0" width="4" height="12" {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three() {
        assert_eq!(number(0), "0");
        assert_eq!(number(999), "999");
        assert_eq!(number(-1000), "−1,000");
        assert_eq!(number(9_007_199_254_740_991), "9,007,199,254,740,991");
    }

    #[test]
    fn a_moment_says_that_it_is_utc_and_shows_no_seconds_where_there_are_none() {
        let shown = |ms| moment(Millis::new(ms)).into_string();
        assert!(shown(0).ends_with(">1970-01-01 00:00 UTC</time>"));
        assert!(shown(1_500).contains("datetime=\"1970-01-01T00:00:01.500Z\""));
        assert!(shown(1_500).ends_with(">1970-01-01 00:00:01 UTC</time>"));
    }

    #[test]
    fn a_duration_has_at_most_two_units() {
        let shown = [-1, 999, 61_500, 3_599_999, 7_260_000].map(duration);
        assert_eq!(
            shown,
            ["0 s", "0 s", "1 min 1 s", "59 min 59 s", "2 h 1 min"]
        );
    }

    #[test]
    fn a_bar_keeps_its_parts_inside_and_marks_a_limit_that_is_passed() {
        let most = 9_007_199_254_740_991;
        let shown = bar("used", &[(Tone::Bad, most), (Tone::Soft, -5)], most / 2).into_string();
        assert!(
            shown.contains("class=\"bad\" x=\"0\" y=\"0\" width=\"1000\""),
            "{shown}"
        );
        assert!(shown.contains("class=\"limit\" x=\"497\""), "{shown}");
        assert!(
            !bar("used", &[(Tone::Good, 5)], 10)
                .into_string()
                .contains("limit")
        );
    }
}
