//! The Account object: the account's one serial point for admission, charges and settlement.

use crate::fault::Fault;
use crate::object::Object;

/// One account's object, awake.
pub struct AccountObject {
    object: Object,
}

impl AccountObject {
    /// Wakes on its storage.
    pub fn new(object: Object) -> Self {
        Self { object }
    }

    /// Answers a message.
    pub async fn ask(&self, message: &str) -> Result<String, Fault> {
        self.object.wake(&[])?;
        Err(Fault::unreadable("read a message to an account", message))
    }

    /// Does what is due.
    pub async fn alarm(&self) -> Result<(), Fault> {
        self.object.arm().await
    }
}
