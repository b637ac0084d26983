//! API keys: `cfk_{id}_{secret}`, of which only a hash is stored.
//!
//! The secret is 256 random bits, so a plain SHA-256 is enough: there is nothing to guess.

use std::rc::Rc;

use ct_codecs::{Encoder, Hex};
use hmac_sha256::Hash;

use crate::fault::Fault;
use crate::limits::KEY_USE_NOTED_MS;
use crate::params;
use crate::ports::{Db, Row, Statement};
use crate::units::{AccountId, Millis, is_path_id};
use crate::world::World;

/// How every API key begins.
pub const PREFIX: &str = "cfk_";

/// A stored key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// The part between `cfk_` and the secret.
    pub key_id: String,
    /// The one account it is for.
    pub account_id: AccountId,
    /// For people.
    pub name: Option<String>,
    /// SHA-256 of the whole key, in hex.
    pub secret_hash: String,
    /// When it was made.
    pub created_at: Millis,
    /// When it was last used, to about ten minutes.
    pub last_used_at: Option<Millis>,
    /// When it was revoked.
    pub revoked_at: Option<Millis>,
}

/// A new key as it is shown, once, and what is stored of it.
pub fn make(
    world: &World,
    account_id: &AccountId,
    name: Option<&str>,
) -> Result<(String, ApiKey), Fault> {
    let key_id = world.mint("")?;
    let secret = [world.ids.random()?, world.ids.random()?].concat();
    let text = format!("{PREFIX}{key_id}_{}", hex(&secret)?);
    let stored = ApiKey {
        key_id,
        account_id: account_id.clone(),
        name: name.map(str::to_owned),
        secret_hash: hash(&text)?,
        created_at: world.now(),
        last_used_at: None,
        revoked_at: None,
    };
    Ok((text, stored))
}

/// Stores a new key. Nothing is stored where the account is not there.
pub fn insert(key: &ApiKey) -> Statement {
    Statement::new(
        "insert into api_key (key_id, account_id, name, secret_hash, created_at_ms) \
         select ?1, account_id, ?3, ?4, ?5 from account where account_id = ?2",
        params![
            key.key_id.as_str(),
            key.account_id.as_str(),
            key.name.as_deref(),
            key.secret_hash.as_str(),
            key.created_at
        ],
    )
}

/// Whose key that is, if it is one that works. It may have been revoked `KEY_CACHE_SECONDS` ago.
pub async fn find(world: &Rc<World>, text: &str, now: Millis) -> Result<Option<ApiKey>, Fault> {
    let rest = text.strip_prefix(PREFIX).unwrap_or_default();
    let Some((key_id, _)) = rest.split_once('_') else {
        return Ok(None);
    };
    let found = by_id(world, key_id, now).await?;
    let hash = hash(text)?;
    Ok(found.filter(|key| same(key.secret_hash.as_bytes(), hash.as_bytes())))
}

/// The key of that id, if it works; through this isolate's memory.
pub async fn by_id(world: &Rc<World>, key_id: &str, now: Millis) -> Result<Option<ApiKey>, Fault> {
    if !is_path_id(key_id) {
        return Ok(None);
    }
    let memory = &world.isolate.accounts;
    let age_ms = world.settings.key_cache_seconds * 1000;
    if let Some(key) = memory.key(key_id, now, age_ms) {
        return Ok(Some(key));
    }
    let sql = format!("{SELECT} where key_id = ?1 and revoked_at_ms is null");
    let rows = world.db.query(Statement::new(sql, params![key_id])).await?;
    let Some(key) = rows.first().map(of_row).transpose()? else {
        return Ok(None);
    };
    memory.keep_key(&key, now);
    let noted = key.last_used_at.unwrap_or(Millis::ZERO);
    if now.since(noted) >= KEY_USE_NOTED_MS {
        note_use(world, key_id, now);
    }
    Ok(Some(key))
}

/// Notes, after the answer, that a key was used; at most every ten minutes and isolate.
fn note_use(world: &Rc<World>, key_id: &str, now: Millis) {
    let statement = Statement::new(
        "update api_key set last_used_at_ms = ?2 \
         where key_id = ?1 and coalesce(last_used_at_ms, 0) < ?2",
        params![key_id, now],
    );
    let db = Rc::clone(&world.db);
    let log = Rc::clone(&world.log);
    world.background.spawn(Box::pin(async move {
        if let Err(fault) = db.query(statement).await {
            let fields = serde_json::json!({"cause": fault.to_string()});
            log.line("warn", "api_key.use_not_noted", fields);
        }
    }));
}

const SELECT: &str = "select key_id, account_id, name, secret_hash, created_at_ms, \
    last_used_at_ms, revoked_at_ms from api_key";

fn of_row(row: &Row) -> Result<ApiKey, Fault> {
    Ok(ApiKey {
        key_id: row.text("key_id")?.to_owned(),
        account_id: row.id("account_id", AccountId::new)?,
        name: row.opt_text("name")?.map(str::to_owned),
        secret_hash: row.text("secret_hash")?.to_owned(),
        created_at: row.millis("created_at_ms")?,
        last_used_at: row.opt_millis("last_used_at_ms")?,
        revoked_at: row.opt_millis("revoked_at_ms")?,
    })
}

/// An account's keys, oldest first, revoked ones too.
pub async fn list(
    db: &dyn Db,
    account_id: &AccountId,
    after: &str,
    rows: i64,
) -> Result<Vec<ApiKey>, Fault> {
    let sql = format!(
        "{SELECT} where account_id = ?1 and key_id > ?2 order by key_id limit cast(?3 as integer)"
    );
    let rows = db
        .query(Statement::new(
            sql,
            params![account_id.as_str(), after, rows],
        ))
        .await?;
    rows.iter().map(of_row).collect()
}

/// The account's key of that id, revoked or not.
pub async fn find_of(
    db: &dyn Db,
    account_id: &AccountId,
    key_id: &str,
) -> Result<Option<ApiKey>, Fault> {
    let sql = format!("{SELECT} where key_id = ?1 and account_id = ?2");
    let rows = db
        .query(Statement::new(sql, params![key_id, account_id.as_str()]))
        .await?;
    rows.first().map(of_row).transpose()
}

/// Revokes a key; the first time of it stays.
pub fn revoke(account_id: &AccountId, key_id: &str, now: Millis) -> Statement {
    Statement::new(
        "update api_key set revoked_at_ms = ?3 \
         where key_id = ?1 and account_id = ?2 and revoked_at_ms is null",
        params![key_id, account_id.as_str(), now],
    )
}

/// SHA-256 in hex.
pub fn hash(text: &str) -> Result<String, Fault> {
    hex(&Hash::hash(text.as_bytes()))
}

fn hex(bytes: &[u8]) -> Result<String, Fault> {
    Hex::encode_to_string(bytes).map_err(|e| Fault::unavailable("write hex", e))
}

/// Whether both are the same, in a time that does not tell where they differ.
pub fn same(left: &[u8], right: &[u8]) -> bool {
    let differing = left
        .iter()
        .zip(right)
        .fold(0_u8, |seen, (a, b)| std::hint::black_box(seen | (a ^ b)));
    left.len() == right.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_texts_are_the_same_only_where_every_byte_is() {
        assert!(same(b"abc", b"abc"));
        assert!(!same(b"abc", b"abd"));
        assert!(!same(b"abc", b"ab"));
        assert!(!same(b"", b"a"));
    }

    #[test]
    fn the_hash_does_not_hold_the_secret() {
        let hashed = hash("cfk_1_secret").expect("hex");
        assert_eq!(hashed.len(), 64);
        assert!(!hashed.contains("secret"));
    }
}
