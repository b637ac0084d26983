//! Signing in and out: a token or API key for a signed cookie.

use serde_json::Value;

use super::app::Call;
use super::auth::{self, is_local_path};
use super::body::{Fields, too_large};
use super::reply::{Answer, Problem, Response};
use super::request::Body;
use super::session::{self, Proof};
use crate::accounts::keys;
use crate::fault::Fault;
use crate::pages;
use crate::settings::NamedToken;

/// `GET /signin`
pub async fn sign_in_page(mut call: Call) -> Answer {
    let next = next_of(call.request.query_param("next"))?;
    call.caller = auth::visitor(&call).await?;
    let page = pages::sign_in(&call.viewer(), call.world.settings.dev, &next, None);
    Ok(super::pages::html(200, page))
}

/// `POST /signin`: `token` and `next` of a form or of a JSON object; with `DEV=1`, `dev` alone.
pub async fn sign_in(call: Call) -> Answer {
    if !session::is_same_origin(&call.request) {
        return Err(auth::foreign_origin().into());
    }
    let form = Form::read(&call.request.body)?;
    let next = next_of(form.next)?;
    let settings = &call.world.settings;
    let (token, key);
    let (proof, home) = if settings.dev && form.dev {
        let first = settings.operator_tokens.first();
        let first = first.ok_or_else(|| Fault::not_configured("OPERATOR_TOKEN"))?;
        (Proof::Operator(first), "/app".to_owned())
    } else if form.token.starts_with(keys::PREFIX) {
        key = keys::find(&call.world, &form.token, call.now).await?;
        let Some(key) = &key else {
            return Ok(refused(&call, &next));
        };
        (Proof::Key(key), format!("/app/accounts/{}", key.account_id))
    } else {
        token = operator(&call, &form.token)?;
        let Some(token) = token else {
            return Ok(refused(&call, &next));
        };
        (Proof::Operator(token), "/app".to_owned())
    };
    let cookie = session::open(&call.world, &call.request, &proof).await?;
    let target = if next == "/app" { home } else { next };
    Ok(Response::see_other(&target).with("set-cookie", cookie))
}

/// `POST /signout`
pub async fn sign_out(call: Call) -> Answer {
    if !session::is_same_origin(&call.request) {
        return Err(auth::foreign_origin().into());
    }
    let cookie = session::close(&call.world, &call.request, call.now).await?;
    Ok(Response::see_other("/signin").with("set-cookie", cookie))
}

fn operator<'a>(call: &'a Call, token: &str) -> Result<Option<&'a NamedToken>, Fault> {
    let known = &call.world.settings.operator_tokens;
    if known.is_empty() {
        return Err(Fault::not_configured("OPERATOR_TOKEN"));
    }
    Ok(auth::match_token(known, token))
}

/// 401: for a browser the form again, for others a problem.
fn refused(call: &Call, next: &str) -> Response {
    if !call.request.wants_html() {
        return auth::unauthorized().response(&call.request_id);
    }
    let detail = "That is neither the operator's token nor an API key that works.";
    let dev = call.world.settings.dev;
    let page = pages::sign_in(&call.viewer(), dev, next, Some(detail));
    super::pages::html(401, page).with("www-authenticate", "Bearer")
}

fn next_of(given: Option<String>) -> Result<String, Problem> {
    match given.filter(|text| !text.is_empty()) {
        None => Ok("/app".to_owned()),
        Some(path) if is_local_path(&path) => Ok(path),
        Some(_) => Err(Problem::field("next", "It must be a path of this service.")),
    }
}

/// What the form sends.
#[derive(Default)]
struct Form {
    token: String,
    next: Option<String>,
    dev: bool,
}

impl Form {
    fn read(body: &Body) -> Result<Self, Problem> {
        let Body::Whole(bytes) = body else {
            return Err(too_large());
        };
        if bytes.trim_ascii_start().starts_with(b"{") {
            let mut fields = Fields::parse(body)?;
            let form = Self {
                token: fields.opt_text("token")?.unwrap_or_default(),
                next: fields.opt_text("next")?,
                dev: fields
                    .take("dev")
                    .is_some_and(|dev| dev != Value::Bool(false)),
            };
            fields.finish()?;
            return Ok(form);
        }
        let mut form = Self::default();
        for (name, value) in url::form_urlencoded::parse(bytes) {
            match &*name {
                "token" => value.trim().clone_into(&mut form.token),
                "next" => form.next = Some(value.into_owned()),
                "dev" => form.dev = true,
                _ => return Err(Problem::field(&name, "There is no such field.")),
            }
        }
        Ok(form)
    }
}
