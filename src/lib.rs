//! Counterfoil.
