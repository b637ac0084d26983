//! The keys that sign sessions: those of `SESSION_KEY`, or, under `DEV=1` without any, one that is
//! made at the first start and kept in DB.

use ct_codecs::{Encoder, Hex};

use crate::fault::Fault;
use crate::params;
use crate::ports::Statement;
use crate::world::World;

/// The keys: the first signs, all are accepted. Without any it is a fault that says so.
pub async fn session_keys(world: &World) -> Result<Vec<String>, Fault> {
    let set = &world.settings.session_keys;
    if !set.is_empty() {
        return Ok(set.clone());
    }
    if !world.settings.dev {
        return Err(Fault::not_configured("SESSION_KEY"));
    }
    if let Some(key) = world.isolate.accounts.session_key() {
        return Ok(vec![key]);
    }
    let bytes = [world.ids.random()?, world.ids.random()?].concat();
    let made =
        Hex::encode_to_string(bytes).map_err(|e| Fault::unavailable("make a session key", e))?;
    let insert = Statement::new(
        "insert into secret (name, value, made_at_ms) values ('session', ?1, ?2) \
         on conflict (name) do nothing",
        params![made, world.now()],
    );
    let read = Statement::new("select value from secret where name = 'session'", vec![]);
    let results = world.db.batch(vec![insert, read]).await?;
    let row = results.last().and_then(|rows| rows.first());
    let row = row.ok_or_else(|| Fault::unreadable("read the session key", "it is not there"))?;
    let key = row.text("value")?.to_owned();
    world.isolate.accounts.keep_session_key(&key);
    Ok(vec![key])
}
