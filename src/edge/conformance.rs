//! Runs the conformance list inside workerd: over D1, over an object's SQLite, over `WebCrypto`.
//! Only with the feature `conformance`.

use serde_json::{Value, json};
use worker::{Env, Response, web_sys};

use super::db::Database;
use super::signatures::WebCrypto;
use super::sql::Storage;
use crate::conformance::{Subject, Verdict, run, run_signatures};

/// The path of the route, and of the call to the object.
pub const PATH: &str = "/conformance";

/// Every driver's verdicts: `{"d1": [{"case", "failure"}], …}`.
pub async fn report(env: &Env) -> worker::Result<web_sys::Response> {
    let database = Database::new(env.clone(), "DB");
    let d1 = json_of(&run(Subject::Database(&database)).await);
    let stub = env
        .durable_object("LEDGER_SHARD")?
        .get_by_name("conformance")?;
    let mut answer = stub.fetch_with_str(&format!("http://object{PATH}")).await?;
    let object: Value = answer.json().await?;
    let web_crypto = json_of(&run_signatures(&WebCrypto).await);
    let report = json!({"d1": d1, "object": object, "web_crypto": web_crypto});
    Ok(Response::from_json(&report)?.into())
}

/// The verdicts of an object's own storage.
pub async fn report_object(storage: &Storage) -> worker::Result<Response> {
    Response::from_json(&json_of(&run(Subject::Object(storage)).await))
}

fn json_of(verdicts: &[Verdict]) -> Value {
    let verdict = |(case, failure): &Verdict| json!({"case": case, "failure": failure});
    verdicts.iter().map(verdict).collect()
}
