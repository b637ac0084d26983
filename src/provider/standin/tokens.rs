//! The stand-in's token endpoint and the check of its tokens.

use serde_json::json;
use url::form_urlencoded;

use super::api::{Refused, media_type, plain};
use super::wire::{HttpAsk, Reply};
use super::{ORIGIN, credentials, keys};
use crate::fault::Fault;
use crate::object::Object;
use crate::params;
use crate::provider::wire::{AUDIENCE, SCOPES};
use crate::units::Millis;

/// How long a token lives: a day, as Kinde's tokens by default.
const LIFETIME_SECONDS: i64 = 86_400;

/// `POST /oauth2/token`
pub async fn issue(object: &Object, ask: &HttpAsk) -> Result<Reply, Fault> {
    let granted = match granted(object, ask) {
        Ok(granted) => granted,
        Err((status, error, why)) => {
            let body = json!({"error": error, "error_description": why});
            return Ok(plain(status, body.to_string()));
        }
    };
    let key = keys::current(object).await?;
    let now = object.now()?;
    let issued = now.get() / 1000;
    let jti = u128::from_be_bytes(object.world.ids.random()?);
    let payload = json!({
        "aud": [granted.audience], "azp": granted.client_id, "gty": ["client_credentials"],
        "iat": issued, "exp": issued + LIFETIME_SECONDS, "iss": ORIGIN,
        "jti": format!("{jti:032x}"), "scope": granted.scopes.join(" "),
        "scp": granted.scopes, "v": "2",
    });
    let token = key.sign(object, &payload).await?;
    let sql = &*object.sql;
    let expires_at = now.after(LIFETIME_SECONDS * 1000);
    sql.query(
        "delete from access_token where expires_at_ms <= ?1",
        &params![now],
    )?;
    sql.query(
        "insert into access_token (access_token, scopes, expires_at_ms) values (?1, ?2, ?3) \
         on conflict (access_token) do nothing",
        &params![token.as_str(), granted.scopes.join(" "), expires_at],
    )?;
    let answer = json!({"access_token": token, "token_type": "Bearer",
        "expires_in": LIFETIME_SECONDS, "scope": granted.scopes.join(" ")});
    Ok(plain(200, answer.to_string()))
}

/// The tenant's address and `/api`, whatever address the stand-in was reached at; `/api/v1` is a
/// slip of one page of Kinde's documentation.
fn is_management_api(audience: &str) -> bool {
    let web = audience.starts_with("https://") || audience.starts_with("http://");
    web && audience.ends_with(AUDIENCE)
}

struct Granted {
    client_id: String,
    audience: String,
    scopes: Vec<String>,
}

/// Status, `error` and `error_description`.
type TokenRefused = (u16, &'static str, &'static str);

fn granted(object: &Object, ask: &HttpAsk) -> Result<Granted, TokenRefused> {
    if media_type(ask.content_type.as_deref()) != "application/x-www-form-urlencoded" {
        return Err((400, "invalid_request", "The content type is a form's."));
    }
    if ask.authorization.is_some() {
        let why = "Credentials go into the form (client_secret_post), not into a header.";
        return Err((401, "invalid_client", why));
    }
    let form: Vec<(String, String)> = form_urlencoded::parse(ask.body.as_bytes())
        .into_owned()
        .collect();
    let all = |name: &str| {
        let found = form.iter().filter(|(key, _)| key == name);
        found.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    let one = |name: &str| all(name).into_iter().next();
    match one("grant_type").as_deref() {
        Some("client_credentials") => {}
        Some(_) => return Err((400, "unsupported_grant_type", "It is client_credentials.")),
        None => return Err((400, "invalid_request", "grant_type is missing.")),
    }
    let (client_id, client_secret) = credentials(&object.world.settings);
    if one("client_id") != Some(client_id.clone()) || one("client_secret") != Some(client_secret) {
        return Err((401, "invalid_client", "There is no such client and secret."));
    }
    let audience = one("audience").ok_or((400, "invalid_request", "audience is missing."))?;
    if !all("audience")
        .iter()
        .any(|audience| is_management_api(audience))
    {
        let why = "The application is not authorised for this audience.";
        return Err((400, "unauthorized_client", why));
    }
    let scopes: Vec<String> = match one("scope") {
        None => SCOPES.iter().map(|scope| (*scope).to_owned()).collect(),
        Some(asked) => asked.split_whitespace().map(str::to_owned).collect(),
    };
    if !scopes.iter().all(|scope| SCOPES.contains(&scope.as_str())) {
        return Err((400, "invalid_scope", "The application does not have it."));
    }
    Ok(Granted {
        client_id,
        audience,
        scopes,
    })
}

/// Why the request's token does not do: 401 where it is none of ours or has ended, 403 where it
/// lacks the scope.
pub fn refusal(
    object: &Object,
    ask: &HttpAsk,
    scope: &str,
    now: Millis,
) -> Result<Option<Refused>, Fault> {
    let unknown = || Refused {
        status: 401,
        code: "TOKEN_INVALID",
        message: "An access token is needed.".to_owned(),
    };
    let token = ask.authorization.as_deref();
    let Some(token) = token.and_then(|text| text.strip_prefix("Bearer ")) else {
        return Ok(Some(unknown()));
    };
    let rows = object.sql.query(
        "select scopes from access_token where access_token = ?1 and expires_at_ms > ?2",
        &params![token, now],
    )?;
    let Some(row) = rows.first() else {
        return Ok(Some(unknown()));
    };
    if row.text("scopes")?.split(' ').any(|held| held == scope) {
        return Ok(None);
    }
    Ok(Some(Refused {
        status: 403,
        code: "SCOPE_MISSING",
        message: format!("The token lacks {scope}."),
    }))
}
