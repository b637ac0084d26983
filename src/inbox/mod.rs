//! The inbox: webhooks verified, stored, answered, then applied exactly once in effect.
