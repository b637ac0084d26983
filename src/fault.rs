//! The world failed: a database, an object or the provider did not do what it was asked.
//!
//! A fault is not a refusal (the domain says no, one enum beside each feature's rules) and not a
//! bug. Whatever was being done is rolled back or safe to repeat; the fault is logged once, at the
//! edge, and answered 503.

use std::fmt;

/// What kind of failure it was, as far as the answer to the client differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Out of reach, or it failed; the same request may simply be repeated.
    Unavailable,
    /// A call's answer was lost: it may have taken effect. The same call may be repeated.
    Unanswered,
    /// An object's storage was written by a newer release than this one; nothing was written.
    NewerSchema,
    /// A setting or secret that this request needs is missing.
    NotConfigured,
    /// The calls that one run may make are used up; the next run goes on.
    CallsUsedUp,
}

/// What was being done, and what went wrong. Never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Decides the answer's code.
    pub kind: FaultKind,
    /// What was being done, for the log: "insert into entry".
    pub doing: String,
    /// What the world said.
    pub cause: String,
}

impl Fault {
    /// Something was out of reach or failed; safe to repeat.
    pub fn unavailable(doing: impl Into<String>, cause: impl fmt::Display) -> Self {
        Self {
            kind: FaultKind::Unavailable,
            doing: doing.into(),
            cause: cause.to_string(),
        }
    }

    /// A call's answer was lost: neither success nor failure.
    pub fn unanswered(doing: impl Into<String>, cause: impl fmt::Display) -> Self {
        Self {
            kind: FaultKind::Unanswered,
            ..Self::unavailable(doing, cause)
        }
    }

    /// A setting or secret is missing.
    pub fn not_configured(name: &str) -> Self {
        Self {
            kind: FaultKind::NotConfigured,
            doing: "read the settings".to_owned(),
            cause: format!("{name} is not set"),
        }
    }

    /// A row, message or answer that does not read as it was written.
    pub fn unreadable(doing: impl Into<String>, cause: impl fmt::Display) -> Self {
        Self::unavailable(doing, cause)
    }

    /// The stable code of the answer.
    pub const fn code(&self) -> &'static str {
        match self.kind {
            FaultKind::Unavailable | FaultKind::Unanswered | FaultKind::CallsUsedUp => {
                "unavailable"
            }
            FaultKind::NewerSchema => "newer_schema",
            FaultKind::NotConfigured => "not_configured",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.doing, self.cause)
    }
}
