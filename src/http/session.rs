//! Sessions of the pages: a signed cookie; only that it was ended early is stored.
//!
//! The cookie says who signed in and until when, under HMAC-SHA256. It lasts 12 hours and not
//! longer than what it was opened with: an API key that is revoked, or an operator token that was
//! taken out of the settings, ends it too. Signing out ends it wherever its cookie was copied to.

use std::rc::Rc;

use ct_codecs::{Base64UrlSafeNoPadding as Base64, Decoder, Encoder};
use hmac_sha256::HMAC;
use serde::{Deserialize, Serialize};

use super::auth::{Caller, Role};
use super::request::Request;
use crate::accounts::keys;
use crate::accounts::secrets::session_keys;
use crate::accounts::sessions;
use crate::fault::Fault;
use crate::limits::SESSION_MS;
use crate::settings::NamedToken;
use crate::units::Millis;
use crate::world::World;

/// The version of the claims that this release writes and reads.
const VERSION: u8 = 2;

/// The cookie's name.
pub const COOKIE: &str = "counterfoil_session";

/// With what somebody signed in.
pub enum Proof<'a> {
    /// An operator's token.
    Operator(&'a NamedToken),
    /// An account's API key.
    Key(&'a keys::ApiKey),
}

/// What the cookie holds.
#[derive(Serialize, Deserialize)]
struct Claims {
    v: u8,
    /// Random: no two sessions share it.
    id: String,
    /// The operator token's name, with a mark of the token under the signing key.
    operator: Option<(String, String)>,
    /// The API key's id.
    key_id: Option<String>,
    until_ms: i64,
}

/// The `Set-Cookie` of a new session.
pub async fn open(world: &World, request: &Request, proof: &Proof<'_>) -> Result<String, Fault> {
    let keys = session_keys(world).await?;
    let key = keys.first().map(String::as_str).unwrap_or_default();
    let until = world.now().after(SESSION_MS);
    let (operator, key_id) = match proof {
        Proof::Operator(token) => (Some((token.name.clone(), mark(key, token)?)), None),
        Proof::Key(stored) => (None, Some(stored.key_id.clone())),
    };
    let claims = Claims {
        v: VERSION,
        id: world.mint("ses_")?,
        operator,
        key_id,
        until_ms: until.get(),
    };
    let text = serde_json::to_string(&claims).map_err(|e| Fault::unavailable("open", e))?;
    let text = encode(text.as_bytes())?;
    let signature = encode(&HMAC::mac(&text, key))?;
    let seconds = SESSION_MS / 1000;
    Ok(format!(
        "{COOKIE}={text}.{signature}; Path=/; Max-Age={seconds}; {}",
        attributes(request)
    ))
}

/// Ends the session that came with a request, if it is one, and gives the `Set-Cookie` that says
/// so to its browser.
pub async fn close(world: &World, request: &Request, now: Millis) -> Result<String, Fault> {
    if let Some((claims, _)) = signed(world, request, now).await? {
        let until = Millis::new(claims.until_ms);
        sessions::end(&*world.db, &claims.id, until, now).await?;
    }
    Ok(format!(
        "{COOKIE}=; Path=/; Max-Age=0; {}",
        attributes(request)
    ))
}

/// Who has the session that came with a request, if it is one that still counts.
pub async fn caller(
    world: &Rc<World>,
    request: &Request,
    now: Millis,
) -> Result<Option<Caller>, Fault> {
    let Some((claims, key)) = signed(world, request, now).await? else {
        return Ok(None);
    };
    if sessions::is_ended(&*world.db, &claims.id).await? {
        return Ok(None);
    }
    if let Some((name, marked)) = claims.operator {
        for token in &world.settings.operator_tokens {
            if token.name == name && mark(&key, token)? == marked {
                return Ok(Some(Caller::server(Role::Operator, name)));
            }
        }
        return Ok(None);
    }
    let key_id = claims.key_id.unwrap_or_default();
    Ok(keys::by_id(world, &key_id, now)
        .await?
        .as_ref()
        .map(Caller::of_key))
}

/// The claims that came with a request under one of our keys and are not over, with that key.
async fn signed(
    world: &World,
    request: &Request,
    now: Millis,
) -> Result<Option<(Claims, String)>, Fault> {
    let Some(cookie) = request.cookie(COOKIE) else {
        return Ok(None);
    };
    let mut keys = session_keys(world).await?.into_iter();
    let found = keys.find_map(|key| Some((read(cookie, &key)?, key)));
    Ok(found.filter(|(claims, _)| claims.v == VERSION && now < Millis::new(claims.until_ms)))
}

/// The claims of a cookie that this key signed.
fn read(cookie: &str, key: &str) -> Option<Claims> {
    let (text, signature) = cookie.split_once('.')?;
    let signature = Base64::decode_to_vec(signature, None).ok()?;
    if !keys::same(&signature, &HMAC::mac(text, key)) {
        return None;
    }
    let text = Base64::decode_to_vec(text, None).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Tells whether a token is still the one that a session was opened with.
fn mark(key: &str, token: &NamedToken) -> Result<String, Fault> {
    encode(&HMAC::mac(format!("operator token {}", token.token), key))
}

fn encode(bytes: &[u8]) -> Result<String, Fault> {
    Base64::encode_to_string(bytes).map_err(|e| Fault::unavailable("write base64", e))
}

/// `Secure` everywhere but on localhost, where browsers may have no TLS.
fn attributes(request: &Request) -> &'static str {
    let host = url::Url::parse(&request.origin)
        .ok()
        .and_then(|url| url.host_str().map(str::to_owned));
    match host.as_deref() {
        Some("localhost" | "127.0.0.1" | "[::1]") => "HttpOnly; SameSite=Lax",
        _ => "HttpOnly; SameSite=Lax; Secure",
    }
}

/// Whether a page of ours sent the request: its `Origin` is where the request came to. Without
/// one it is not.
pub fn is_same_origin(request: &Request) -> bool {
    let Some(origin) = request.header("origin") else {
        return false;
    };
    let by_host = || {
        let (_, host) = origin.split_once("://")?;
        Some(request.header("host")? == host)
    };
    origin == request.origin || by_host() == Some(true)
}
