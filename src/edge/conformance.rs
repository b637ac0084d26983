//! Runs the conformance list inside workerd: over D1, over an object's SQLite, over `WebCrypto`.
//! Only with the feature `conformance`.

use serde_json::{Value, json};
use worker::{Env, Response, Url, web_sys};

use super::db::Database;
use super::signatures::WebCrypto;
use super::sql::Storage;
use super::transport::Outside;
use crate::conformance::{Subject, Verdict, run, run_signatures};
use crate::ports::{Outgoing, Transport};

/// The path of the route, and of the call to the object.
pub const PATH: &str = "/conformance";

/// The report that a URL asks for: `/conformance` runs every driver's list, with `?url=` the
/// transport sends one request there and tells what came back.
pub async fn report(url: &str, env: &Env) -> Option<worker::Result<web_sys::Response>> {
    let url = Url::parse(url).ok()?;
    if url.path() != PATH {
        return None;
    }
    let target = url.query_pairs().find(|(name, _)| name == "url");
    Some(match target {
        Some((_, target)) => sent(target.into_owned()).await,
        None => every_driver(env).await,
    })
}

/// `{"d1": [{"case", "failure"}], …}`
async fn every_driver(env: &Env) -> worker::Result<web_sys::Response> {
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

/// `{"status", "headers", "body"}` or `{"fault"}`
async fn sent(url: String) -> worker::Result<web_sys::Response> {
    let headers = vec![("x-sent".to_owned(), "yes".to_owned())];
    let request = Outgoing {
        method: "POST",
        url,
        headers,
        body: "héllo".to_owned(),
    };
    let report = match Outside.send(request).await {
        Ok(answer) => json!({"status": answer.status, "headers": answer.headers,
            "body": answer.body}),
        Err(fault) => json!({"fault": fault.to_string()}),
    };
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
