//! The LedgerShard object: the durable buffer and sharded counters of clicks.

use crate::fault::Fault;
use crate::object::Object;

/// One shard, awake.
pub struct ShardObject {
    object: Object,
}

impl ShardObject {
    /// Wakes on its storage.
    pub fn new(object: Object) -> Self {
        Self { object }
    }

    /// Answers a message.
    pub async fn ask(&self, message: &str) -> Result<String, Fault> {
        self.object.wake(&[])?;
        Err(Fault::unreadable("read a message to a shard", message))
    }

    /// Does what is due.
    pub async fn alarm(&self) -> Result<(), Fault> {
        self.object.arm().await
    }
}
