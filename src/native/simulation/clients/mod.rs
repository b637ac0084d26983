//! Who talks to the machine: jobs, visitors, counters of usage, the provider, operators. Each
//! repeats under the same key until it hears an answer, as the contract tells clients to.

pub mod jobs;
pub mod operators;
pub mod provider;
pub mod usage;
pub mod visitors;

use serde_json::Value as Json;

use super::world::{Heard, World};

/// So often a client asks again before it gives up.
const TRIES: u32 = 12;

/// Asks until something other than 503 or silence is heard.
pub async fn persist(world: &World, method: &str, target: &str, body: &Json) -> Heard {
    let mut heard = Heard::Nothing;
    for round in 0..TRIES {
        heard = world.send(method, target, body).await;
        if !matches!(heard.status(), 0 | 503) {
            if round > 0 {
                world.stats().count("client_retry_succeeded");
            }
            return heard;
        }
        world.stats().count("client_retried");
    }
    heard
}

/// The answer's code where it has one, else its status.
pub fn told(heard: &Heard) -> String {
    let code = heard.member("code").and_then(Json::as_str);
    code.map_or_else(|| heard.status().to_string(), str::to_owned)
}
