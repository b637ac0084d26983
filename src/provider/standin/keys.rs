//! The stand-in's signing keys and its JWKS.

use ct_codecs::{Base64UrlSafeNoPadding, Encoder};
use serde_json::{Value, json};

use crate::fault::Fault;
use crate::object::Object;
use crate::params;
use crate::ports::{Row, Sql};
use crate::units::Millis;

/// So long an old key stays in the JWKS after a rotation: longer than a receiver may keep what it
/// read (5 to 15 minutes).
const OLD_KEY_MS: i64 = 3_600_000;

/// A key pair.
pub struct Key {
    /// Sixteen bytes in hexadecimal with colons between them, as Kinde names its keys.
    pub kid: String,
    jwk: String,
}

impl Key {
    fn of_row(row: &Row) -> Result<Self, Fault> {
        Ok(Self {
            kid: row.text("kid")?.to_owned(),
            jwk: row.text("jwk")?.to_owned(),
        })
    }

    /// A compact JWS of the payload.
    pub async fn sign(&self, object: &Object, payload: &Value) -> Result<String, Fault> {
        let header = json!({"alg": "RS256", "kid": self.kid, "typ": "JWT"});
        let head = encode(header.to_string().as_bytes())?;
        let message = format!("{head}.{}", encode(payload.to_string().as_bytes())?);
        let signatures = &object.world.signatures;
        let signature = signatures.sign(&self.jwk, message.as_bytes()).await?;
        Ok(format!("{message}.{}", encode(&signature)?))
    }
}

/// The key that signs now; made when the stand-in first needs one.
pub async fn current(object: &Object) -> Result<Key, Fault> {
    if let Some(key) = newest(&*object.sql)? {
        return Ok(key);
    }
    let jwk = object.world.signatures.generate().await?;
    // Another call may have made one while this one waited.
    match newest(&*object.sql)? {
        Some(key) => Ok(key),
        None => add(&*object.sql, jwk),
    }
}

/// Takes a new key. The one before stays in the JWKS for a while, or is dropped at once.
pub async fn rotate(object: &Object, drop_old: bool) -> Result<Value, Fault> {
    let jwk = object.world.signatures.generate().await?;
    let sql = &*object.sql;
    let now = object.now()?;
    if drop_old {
        sql.query("delete from signing_key", &[])?;
    }
    sql.query(
        "delete from signing_key where serve_until_ms <= ?1",
        &params![now],
    )?;
    sql.query(
        "update signing_key set serve_until_ms = ?1 where serve_until_ms is null",
        &params![now.after(OLD_KEY_MS)],
    )?;
    let key = add(sql, jwk)?;
    Ok(json!({"kid": key.kid}))
}

/// The public keys, newest first.
pub async fn jwks(object: &Object) -> Result<Value, Fault> {
    current(object).await?;
    let now: Millis = object.now()?;
    let rows = object.sql.query(
        "select kid, n, e from signing_key where serve_until_ms is null or serve_until_ms > ?1 \
         order by number desc",
        &params![now],
    )?;
    let mut keys = Vec::new();
    for row in &rows {
        keys.push(
            json!({"e": row.text("e")?, "n": row.text("n")?, "alg": "RS256",
            "kid": row.text("kid")?, "kty": "RSA", "use": "sig"}),
        );
    }
    Ok(json!({"keys": keys}))
}

fn newest(sql: &dyn Sql) -> Result<Option<Key>, Fault> {
    let rows = sql.query(
        "select kid, jwk from signing_key order by number desc limit 1",
        &[],
    )?;
    rows.first().map(Key::of_row).transpose()
}

fn add(sql: &dyn Sql, jwk: String) -> Result<Key, Fault> {
    let read: Value = serde_json::from_str(&jwk).unwrap_or_default();
    let member = |name: &str| {
        let text = read.get(name).and_then(Value::as_str).map(str::to_owned);
        text.ok_or_else(|| Fault::unreadable("make a signing key", "it has no public part"))
    };
    let (n, e) = (member("n")?, member("e")?);
    let digest = hmac_sha256::Hash::hash(n.as_bytes());
    let bytes: Vec<String> = digest
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let key = Key {
        kid: bytes.join(":"),
        jwk,
    };
    sql.query(
        "insert into signing_key (kid, jwk, n, e) values (?1, ?2, ?3, ?4)",
        &params![key.kid.as_str(), key.jwk.as_str(), n, e],
    )?;
    Ok(key)
}

fn encode(bytes: &[u8]) -> Result<String, Fault> {
    Base64UrlSafeNoPadding::encode_to_string(bytes)
        .map_err(|error| Fault::unavailable("encode a token", error))
}
