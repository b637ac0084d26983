//! What a run really exercised. A run that exercised nothing proves nothing, so every counter that
//! a suite of seeds expects must be above zero at its end.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// Counters by name.
#[derive(Debug, Default)]
pub struct Stats(RefCell<BTreeMap<String, u64>>);

impl Stats {
    /// One more of `name`.
    pub fn count(&self, name: &str) {
        self.add(name, 1);
    }

    /// So many more of `name`.
    pub fn add(&self, name: &str, by: u64) {
        *self.0.borrow_mut().entry(name.to_owned()).or_insert(0) += by;
    }

    /// All counters in the order of their names.
    pub fn all(&self) -> BTreeMap<String, u64> {
        self.0.borrow().clone()
    }

    /// Adds another run's counters.
    pub fn merge(&self, other: &Self) {
        for (name, by) in other.all() {
            self.add(&name, by);
        }
    }

    /// Those of `expected` that stand at zero.
    pub fn missing(&self, expected: &[&str]) -> Vec<String> {
        let seen = self.0.borrow();
        let stands_at_zero = |name: &&&str| seen.get(**name).is_none_or(|count| *count == 0);
        expected
            .iter()
            .filter(stands_at_zero)
            .map(|name| (*name).to_owned())
            .collect()
    }
}
