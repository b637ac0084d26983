//! Every id and quantity of Counterfoil, parsed once at the door.
//!
//! Amounts and times are integers within ±(2^53 − 1), because that is what JSON, JavaScript and
//! the bindings of both databases carry exactly. Arithmetic is checked; nothing wraps.

use std::fmt;

/// The greatest integer that JavaScript, and so every binding below us, carries exactly: 2^53 − 1.
pub const SAFE_MAX: i64 = 9_007_199_254_740_991;

/// An amount of a feature: 0 to 2^53 − 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Units(i64);

impl Units {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The greatest amount.
    pub const MAX: Self = Self(SAFE_MAX);

    /// `None` outside 0 to 2^53 − 1.
    pub const fn new(units: i64) -> Option<Self> {
        if 0 <= units && units <= SAFE_MAX {
            Some(Self(units))
        } else {
            None
        }
    }

    /// The plain number.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The sum; `None` past the greatest amount.
    pub fn plus(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).and_then(Self::new)
    }

    /// The difference, zero where `other` is more.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0).max(0))
    }
}

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A change or a sum that may be negative: ±(2^53 − 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Delta(i64);

impl Delta {
    /// No change.
    pub const ZERO: Self = Self(0);

    /// `None` outside ±(2^53 − 1).
    pub const fn new(units: i64) -> Option<Self> {
        if -SAFE_MAX <= units && units <= SAFE_MAX {
            Some(Self(units))
        } else {
            None
        }
    }

    /// The plain number.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The sum; `None` past the safe range.
    pub fn plus(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).and_then(Self::new)
    }

    /// `self − other`; `None` past the safe range.
    pub fn minus(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).and_then(Self::new)
    }

    /// The other sign.
    #[must_use]
    pub const fn negated(self) -> Self {
        Self(-self.0)
    }
}

impl From<Units> for Delta {
    fn from(units: Units) -> Self {
        Self(units.0)
    }
}

impl fmt::Display for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A moment in milliseconds since 1970-01-01 UTC, or a span of milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(i64);

impl Millis {
    /// 1970-01-01T00:00:00Z.
    pub const ZERO: Self = Self(0);

    /// Clamped to ±(2^53 − 1), far beyond any calendar we compute with.
    pub const fn new(ms: i64) -> Self {
        if ms > SAFE_MAX {
            Self(SAFE_MAX)
        } else if ms < -SAFE_MAX {
            Self(-SAFE_MAX)
        } else {
            Self(ms)
        }
    }

    /// The plain number.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// That many milliseconds later (earlier where negative), clamped.
    #[must_use]
    pub const fn after(self, ms: i64) -> Self {
        Self::new(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to `self`, negative where it is later.
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A text that has a form.
pub trait Formed {
    /// The form in words, as it follows "It must be".
    const FORM: &'static str;
}

/// Declares a text newtype: private field, one fallible constructor, the form in words.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $form:expr, $fits:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// `None` where the text does not have the form that the type promises.
            pub fn new(text: impl Into<String>) -> Option<Self> {
                let text = text.into();
                let fits: fn(&str) -> bool = $fits;
                fits(&text).then_some(Self(text))
            }

            /// The plain text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Formed for $name {
            const FORM: &'static str = $form;
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

const PATH_ID: &str = "1 to 64 of A-Z a-z 0-9 . _ -, and not begin with a point";
const CALLER_TEXT: &str = "1 to 200 visible ASCII characters";

/// `[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}`: what may stand in a path (api.md, "Rules for every route").
pub fn is_path_id(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    text.len() <= 64
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|b| word(b) || b == b'.')
}

/// Two lower-case characters for each byte.
pub fn hex<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> String {
    let digit = |bits: u8| char::from_digit(u32::from(bits), 16);
    let digits = bytes
        .into_iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    digits.flatten().collect()
}

/// 1 to 200 visible ASCII characters: what a caller may choose as a key or a step.
pub fn is_caller_text(text: &str) -> bool {
    (1..=200).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

text_id! {
    /// One customer of the operator; a path id.
    AccountId, PATH_ID, is_path_id
}
text_id! {
    /// The account's id at the provider, such as `customer_0198…`; a path id.
    CustomerId, PATH_ID, is_path_id
}
text_id! {
    /// The provider's subscription; a path id.
    AgreementId, PATH_ID, is_path_id
}
text_id! {
    /// A metered thing by our own name (`clicks`, `tokens`); listed in `FEATURES`.
    FeatureName, PATH_ID, is_path_id
}
text_id! {
    /// A plan's code at the provider (`free`, `pro`); a path id.
    PlanCode, PATH_ID, is_path_id
}
text_id! {
    /// A running or ended job of the gate; random, `job_…`.
    JobId, PATH_ID, is_path_id
}
text_id! {
    /// The key that a caller gives a job or a fact of usage: 1 to 200 visible ASCII characters.
    CallerKey, CALLER_TEXT, is_caller_text
}
text_id! {
    /// The name that a caller gives one charge of a job: 1 to 200 visible ASCII characters.
    Step, CALLER_TEXT, is_caller_text
}
text_id! {
    /// A ledger row's id; a path id.
    EntryId, PATH_ID, is_path_id
}
text_id! {
    /// A cycle's name: the month it starts in, `2026-10`, or `2026-10.2` for a second one in it.
    CycleName, "a cycle's name such as 2026-10 or 2026-10.2", |text| {
        is_path_id(text) && text.len() >= 7
    }
}
text_id! {
    /// A short link's code: 1 to 64 of `a-z 0-9 - _`, already folded to lower case.
    LinkCode, "1 to 64 of a-z 0-9 - _", |text| {
        (1..=64).contains(&text.len())
            && text.bytes().all(|b| {
                b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_'
            })
    }
}

impl EntryId {
    /// A prefix such as `use_` and the first 160 bits of a hash.
    pub fn of_digest(prefix: &'static str, digest: &[u8; 32]) -> Self {
        Self(format!("{prefix}{}", hex(digest.iter().take(20))))
    }
}

impl CycleName {
    /// The name of the `nth` (from 1) cycle that starts in that month.
    pub fn of(year: i32, month: u8, nth: u32) -> Self {
        let name = format!("{year:04}-{month:02}");
        Self(if nth == 1 {
            name
        } else {
            format!("{name}.{nth}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_bounded_at_both_ends() {
        assert_eq!(Units::new(-1), None);
        assert_eq!(Units::new(SAFE_MAX), Some(Units::MAX));
        assert_eq!(Units::new(SAFE_MAX + 1), None);
        assert_eq!(Units::MAX.plus(Units(1)), None);
        assert_eq!(Units(3).less(Units(5)), Units::ZERO);
        assert_eq!(Delta::new(-SAFE_MAX - 1), None);
    }

    #[test]
    fn a_path_id_never_begins_with_a_dot_and_has_at_most_64_characters() {
        assert!(is_path_id("a.b-c_D9"));
        assert!(!is_path_id(".a"));
        assert!(!is_path_id(""));
        assert!(!is_path_id("a/b"));
        assert!(is_path_id(&"a".repeat(64)));
        assert!(!is_path_id(&"a".repeat(65)));
    }

    #[test]
    fn a_caller_key_is_visible_ascii_only() {
        assert!(is_caller_text("order:7/step#1"));
        assert!(!is_caller_text("with space"));
        assert!(!is_caller_text("ключ"));
        assert!(!is_caller_text(&"k".repeat(201)));
    }
}
