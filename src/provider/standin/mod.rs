//! The built-in provider: speaks Kinde's HTTP API, signs its own webhooks, fails on demand.

use crate::fault::Fault;
use crate::object::Object;

/// The stand-in, awake.
pub struct StandInObject {
    object: Object,
}

impl StandInObject {
    /// Wakes on its storage.
    pub fn new(object: Object) -> Self {
        Self { object }
    }

    /// Answers a message.
    pub async fn ask(&self, message: &str) -> Result<String, Fault> {
        self.object.wake(&[])?;
        Err(Fault::unreadable("read a message to the stand-in", message))
    }

    /// Does what is due.
    pub async fn alarm(&self) -> Result<(), Fault> {
        self.object.arm().await
    }
}
