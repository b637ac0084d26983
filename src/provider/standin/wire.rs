//! Messages to the stand-in and its answers.

#![allow(missing_docs)] // A field is what api.md and kinde's specification call by its name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A message.
#[derive(Debug, Serialize, Deserialize)]
pub struct Message {
    /// The form of the message.
    pub v: u8,
    /// What is asked.
    pub ask: Ask,
}

/// What is asked of the stand-in.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// A request to Kinde's own paths.
    Http(HttpAsk),
    /// The clock's offset.
    Offset,
    /// Set the clock's offset.
    Clock { offset_ms: i64 },
    /// Change a customer.
    PutCustomer(PutCustomer),
    /// A meter's total.
    GetMeter {
        agreement_id: String,
        feature: String,
    },
    /// Move a meter.
    PutMeter {
        agreement_id: String,
        feature: String,
        total: i64,
    },
    /// Fail from now on.
    PutFault {
        operation: String,
        mode: String,
        times: Option<i64>,
    },
    /// Sign an event and deliver it.
    Event(EventAsk),
    /// Take a new signing key.
    RotateKeys { drop: bool },
    /// What was asked, newest first, numbers below `before`.
    Calls { limit: i64, before: Option<i64> },
}

/// A request to Kinde's own paths.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HttpAsk {
    pub method: String,
    pub path: String,
    pub query: String,
    pub authorization: Option<String>,
    pub content_type: Option<String>,
    pub body: String,
}

/// What is to change of a customer; what is absent stays.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PutCustomer {
    pub customer_id: String,
    pub plan: PlanChange,
    pub agreement_id: Option<String>,
    pub limits: Option<BTreeMap<String, Option<i64>>>,
    pub period_start_ms: Option<i64>,
    pub period_end_ms: Option<i64>,
}

/// What becomes of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanChange {
    /// It stays.
    Keep,
    /// There is none.
    End,
    /// It is this one.
    To(String),
}

/// An event to sign.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventAsk {
    pub r#type: String,
    pub customer_id: String,
    pub data: BTreeMap<String, Value>,
    pub event_id: Option<String>,
    pub webhook_id: Option<String>,
    pub event_timestamp: Option<String>,
    pub timestamp: Option<String>,
    pub deliver: u32,
    /// A path of our own, or a whole address.
    pub to: String,
}

/// What the stand-in answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The answer to a request to Kinde's own paths.
    Http {
        status: u16,
        headers: Vec<(String, String)>,
        body: String,
    },
    /// The answer to such a request was lost.
    Lost { why: String },
    /// The answer of a control.
    Done(Value),
    /// There is no such thing.
    NotFound,
    /// A field of a control is wrong.
    Wrong { field: String, detail: String },
}
