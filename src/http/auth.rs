//! Who asks, and whether they may: tokens, API keys, sessions, roles, and the account that a
//! request is about.

use super::app::Call;
use super::reply::{Failure, Problem};
use super::route::Access;
use crate::units::AccountId;

/// What a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Operator,
    /// Your servers: accounts and every account route.
    Backend,
    /// One account.
    Account,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// What they may do.
    pub role: Role,
    /// The token's or key's name, for the audit.
    pub name: String,
    /// The account of an account key.
    pub account_id: Option<AccountId>,
}

/// 401: no token, or a wrong one.
pub fn unauthorized() -> Problem {
    Problem::new(401, "unauthorized", "A valid token is needed.")
}

/// Settles token, role and account of a call, in that order.
pub async fn admit(call: &mut Call) -> Result<(), Failure> {
    match call.spec.access {
        Access::Open => Ok(()),
        Access::Page
        | Access::Operator
        | Access::Servers
        | Access::Account
        | Access::AccountOperator
        | Access::AccountOrAll
        | Access::Filter => Err(unauthorized().into()),
    }
}
