//! Codes of short links: folded to lower case, some reserved, some made by us.

use crate::units::LinkCode;

/// Why a code is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeRefused {
    /// Not 1 to 64 of `a-z 0-9 - _`.
    Malformed,
    /// A first path segment of our own.
    Reserved,
}

impl CodeRefused {
    /// One sentence for people.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Malformed => "It must be 1 to 64 of a-z, 0-9, - and _.",
            Self::Reserved => "This code is reserved.",
        }
    }
}

/// The code that a path's segment or a caller's text means. Only ASCII letters are folded: a
/// letter that merely looks like one of them makes another text, which is no code.
pub fn fold(text: &str) -> Option<LinkCode> {
    LinkCode::new(text.to_ascii_lowercase())
}

/// The code that a caller wants for a new link.
pub fn wanted(text: &str, reserved: &[&str]) -> Result<LinkCode, CodeRefused> {
    // A reserved word may hold a dot, which a code may not: it is reserved all the same.
    let folded = text.to_ascii_lowercase();
    if reserved.contains(&folded.as_str()) {
        return Err(CodeRefused::Reserved);
    }
    LinkCode::new(folded).ok_or(CodeRefused::Malformed)
}

/// Without `i l o u`, which are read as others or make words.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 32^8 is about 10^12: with a thousand million links, one try in a thousand meets a taken code.
const MADE_LENGTH: usize = 8;

/// A code from random bits, for a link whose code nobody chose.
pub fn of_random(random: [u8; 16]) -> Option<LinkCode> {
    let digit = |byte: &u8| {
        ALPHABET
            .get(usize::from(byte & 31))
            .copied()
            .map(char::from)
    };
    let text: Option<String> = random.iter().take(MADE_LENGTH).map(digit).collect();
    LinkCode::new(text?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RESERVED: &[&str] = &["app", "openapi.json"];

    #[test]
    fn a_code_is_folded_and_a_reserved_one_refused_in_any_case() {
        let taken = |text: &str| wanted(text, RESERVED).map(|code| code.to_string());
        assert_eq!(taken("Spring-26_x"), Ok("spring-26_x".to_owned()));
        assert_eq!(taken("APP"), Err(CodeRefused::Reserved));
        assert_eq!(taken("openapi.json"), Err(CodeRefused::Reserved));
        for bad in [
            "", "a b", "a/b", "a.b", "ü", "\u{212a}", "💥", "a\0", "%00", "a\n",
        ] {
            assert_eq!(taken(bad), Err(CodeRefused::Malformed), "{bad:?}");
        }
        assert!(taken(&"a".repeat(64)).is_ok());
        assert_eq!(taken(&"a".repeat(65)), Err(CodeRefused::Malformed));
    }

    #[test]
    fn a_made_code_has_eight_characters_whatever_the_bits() {
        for random in [[0; 16], [255; 16], [7; 16]] {
            let code = of_random(random).expect("it is a code");
            assert_eq!(code.as_str().len(), 8);
        }
    }

    proptest! {
        #[test]
        fn a_code_that_is_taken_is_safe_in_a_path_and_folds_to_itself(text in "\\PC{0,80}") {
            if let Ok(code) = wanted(&text, RESERVED) {
                prop_assert_eq!(fold(code.as_str()), Some(code.clone()));
                prop_assert!((1..=64).contains(&code.as_str().len()));
                prop_assert!(code.as_str().bytes().all(|b| b.is_ascii_graphic() && b != b'/'));
                prop_assert!(!RESERVED.contains(&code.as_str()));
            }
        }
    }
}
