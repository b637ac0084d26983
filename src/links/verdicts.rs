//! What an isolate remembers of user agents, so that the whole list is not gone through again for
//! each click of the same program.
//!
//! Source: `crawlers::judge`, which is part of the program: what is remembered is never stale.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::crawlers::{Verdict, judge};

/// User agents that are remembered at most; then all are forgotten.
const REMEMBERED_MAX: usize = 512;
/// Longer ones are judged anew each time: real ones are under 500 bytes.
const BYTES_MAX: usize = 512;

/// Verdicts on the user agents that an isolate has met.
#[derive(Default)]
pub struct Verdicts(RefCell<BTreeMap<String, Option<Verdict>>>);

impl Verdicts {
    /// The verdict of [`judge`]; of an empty text as where there is none.
    pub fn on(&self, user_agent: &str) -> Option<Verdict> {
        if let Some(known) = self.0.borrow().get(user_agent) {
            return *known;
        }
        let verdict = judge(Some(user_agent));
        if user_agent.len() <= BYTES_MAX {
            let mut known = self.0.borrow_mut();
            if known.len() >= REMEMBERED_MAX {
                known.clear();
            }
            known.insert(user_agent.to_owned(), verdict);
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_what_would_be_said_anew_and_is_bounded() {
        let verdicts = Verdicts::default();
        for round in 0..2 {
            for number in 0..REMEMBERED_MAX + 10 {
                let name = if number % 2 == 0 {
                    "Googlebot"
                } else {
                    "Firefox"
                };
                let agent = format!("Mozilla/5.0 {name}/{number}.0");
                assert_eq!(verdicts.on(&agent), judge(Some(&agent)), "round {round}");
                assert_eq!(
                    verdicts.on(&agent),
                    judge(Some(&agent)),
                    "round {round}, again"
                );
            }
        }
        assert!(verdicts.0.borrow().len() <= REMEMBERED_MAX);
        let long = format!("{} Googlebot/2.1", "x".repeat(BYTES_MAX));
        assert_eq!(verdicts.on(&long), judge(Some(&long)));
        assert!(!verdicts.0.borrow().contains_key(&long));
        assert_eq!(verdicts.on(""), judge(None));
    }
}
