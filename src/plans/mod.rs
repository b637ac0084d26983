//! Plans: synced from the provider's current state; what a plan grants.
