//! Accounts, API keys, sync, audit.

use super::app::{Call, unbuilt};
use super::reply::Answer;

/// `POST /v1/accounts`
pub async fn create_account(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /v1/accounts`
pub async fn list_accounts(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /v1/accounts/{id}`
pub async fn get_account(call: Call) -> Answer {
    unbuilt(&call)
}

/// `PATCH /v1/accounts/{id}`
pub async fn patch_account(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /v1/accounts/{id}/keys`
pub async fn create_key(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /v1/accounts/{id}/keys`
pub async fn list_keys(call: Call) -> Answer {
    unbuilt(&call)
}

/// `DELETE /v1/accounts/{id}/keys/{key_id}`
pub async fn revoke_key(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /v1/account`
pub async fn get_own_account(call: Call) -> Answer {
    unbuilt(&call)
}

/// `POST /v1/account/sync`
pub async fn sync_account(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /v1/audit`
pub async fn list_audit(call: Call) -> Answer {
    unbuilt(&call)
}

/// `GET /billing/return`
pub async fn billing_return(call: Call) -> Answer {
    unbuilt(&call)
}
