//! Links and QR codes. The redirect itself is in `redirect`.

use serde_json::{Value, json};

use super::app::Call;
use super::list::Page;
use super::reply::{Answer, Failure, Problem, Response};
use super::route::RESERVED;
use crate::limits::{QR_PIXELS_DEFAULT, QR_PIXELS_MAX, QR_PIXELS_MIN};
use crate::links::code::{self, CodeRefused};
use crate::links::destination::DestinationRefused;
use crate::links::qr::{Picture, PictureRefused};
use crate::links::store::{self, Change, Expiry, Link, Made};
use crate::links::{Destination, OwnHosts};
use crate::moment;
use crate::units::LinkCode;

impl From<CodeRefused> for Problem {
    fn from(refused: CodeRefused) -> Self {
        Self::field("code", refused.message())
    }
}

impl From<DestinationRefused> for Problem {
    fn from(refused: DestinationRefused) -> Self {
        Self::field("destination", refused.message())
    }
}

impl From<PictureRefused> for Problem {
    fn from(refused: PictureRefused) -> Self {
        match refused {
            PictureRefused::TooSmall { least } => {
                Self::field("size", format!("This code needs {least} pixels or more."))
            }
            PictureRefused::TextTooLong => {
                Self::field("code", "This link's address does not fit into a QR code.")
            }
        }
    }
}

/// Random codes that were taken by others one after the other; each is one in a thousand even
/// with a thousand million links.
const CODES_TRIED_MAX: usize = 5;

/// `POST /v1/links`
pub async fn create_link(call: Call) -> Answer {
    let account = call.account()?.account_id.clone();
    let mut fields = call.fields()?;
    let destination = fields.opt_text("destination")?;
    let wanted = fields.opt_text("code")?;
    let expires_at = fields.opt_moment("expires_at")?;
    fields.finish()?;
    let destination =
        destination.ok_or_else(|| Problem::field("destination", "It is required."))?;
    let destination = Destination::parse(&destination, &own_hosts(&call)).map_err(Problem::from)?;
    let wanted = wanted.map(|text| code::wanted(&text, RESERVED));
    let wanted = wanted.transpose().map_err(Problem::from)?;
    for _ in 0..CODES_TRIED_MAX {
        let link = Link {
            code: match &wanted {
                Some(code) => code.clone(),
                None => made_code(&call)?,
            },
            account_id: account.clone(),
            destination: destination.clone(),
            disabled: false,
            expires_at,
            created_at: call.now,
            updated_at: call.now,
        };
        match store::make(&*call.world.db, &link).await? {
            Made::New(link) => return Ok(Response::json(201, &view(&call, &link))),
            Made::Same(link) => return Ok(Response::json(200, &view(&call, &link))),
            Made::OtherExpiry => {
                let detail = "You have this link, and it expires at another moment: PATCH \
                    /v1/links/{code} changes that.";
                return Err(Problem::new(409, "code_taken", detail).into());
            }
            Made::Taken if wanted.is_some() => break,
            Made::Taken => {}
        }
    }
    Err(Problem::new(409, "code_taken", "This code leads elsewhere.").into())
}

fn made_code(call: &Call) -> Result<LinkCode, Failure> {
    let code = code::of_random(call.world.ids.random()?);
    code.ok_or_else(|| Problem::new(409, "code_taken", "No code was found.").into())
}

/// `GET /v1/links`
pub async fn list_links(call: Call) -> Answer {
    let account = &call.account()?.account_id;
    let page = Page::of(&call.request)?;
    let text = call.request.query_param("q").unwrap_or_default();
    let db = &*call.world.db;
    let links = store::list(db, account, &text, page.after_or_first(), page.rows()).await?;
    Ok(page.answer(
        links,
        |link| link.code.to_string(),
        |link| view(&call, link),
    ))
}

/// `GET /v1/links/{code}`
pub async fn get_link(call: Call) -> Answer {
    let account = &call.account()?.account_id;
    let code = code_of(&call)?;
    let link = store::load(&*call.world.db, account, &code).await?;
    let link = link.ok_or_else(Problem::not_found)?;
    Ok(Response::json(200, &view(&call, &link)))
}

/// `PATCH /v1/links/{code}`
pub async fn patch_link(call: Call) -> Answer {
    let account = call.account()?.account_id.clone();
    let mut fields = call.fields()?;
    let destination = fields.opt_text("destination")?;
    let disabled = fields.opt_bool("disabled")?;
    let names_expiry = fields.has("expires_at");
    let expiry = match fields.opt_moment("expires_at")? {
        Some(at) => Expiry::At(at),
        None if names_expiry => Expiry::Never,
        None => Expiry::Kept,
    };
    fields.finish()?;
    let own = own_hosts(&call);
    let destination = destination.map(|text| Destination::parse(&text, &own));
    let destination = destination.transpose().map_err(Problem::from)?;
    let code = code_of(&call)?;
    let change = Change {
        destination,
        disabled,
        expiry,
    };
    let changed = store::change(&*call.world.db, &account, &code, &change, call.now).await?;
    call.world.isolate.links.forget(&code);
    let link = changed.ok_or_else(Problem::not_found)?;
    Ok(Response::json(200, &view(&call, &link)))
}

/// `GET /v1/links/{code}/qr.svg`
pub async fn link_qr_svg(call: Call) -> Answer {
    let picture = picture_of(&call).await?;
    Ok(pictured("image/svg+xml", picture.svg().into_bytes()))
}

/// `GET /v1/links/{code}/qr.png`
pub async fn link_qr_png(call: Call) -> Answer {
    let size = match call.request.query_param("size") {
        None => QR_PIXELS_DEFAULT,
        Some(text) => (text.parse::<u32>().ok())
            .filter(|size| text.bytes().all(|b| b.is_ascii_digit()) && in_bounds(*size))
            .ok_or_else(|| {
                let detail = format!("It must be {QR_PIXELS_MIN} to {QR_PIXELS_MAX} pixels.");
                Problem::field("size", detail)
            })?,
    };
    let picture = picture_of(&call).await?;
    let bytes = picture.png(size)?.map_err(Problem::from)?;
    Ok(pictured("image/png", bytes))
}

fn in_bounds(size: u32) -> bool {
    (QR_PIXELS_MIN..=QR_PIXELS_MAX).contains(&size)
}

/// A link's picture never changes: it says the code, not the destination.
fn pictured(content_type: &str, bytes: Vec<u8>) -> Response {
    Response::of(200, content_type, bytes)
        .with("cache-control", "public, max-age=3600")
        .with("x-content-type-options", "nosniff")
}

async fn picture_of(call: &Call) -> Result<Picture, Failure> {
    let code = code_of(call)?;
    if !store::exists(&*call.world.db, &code).await? {
        return Err(Problem::not_found().into());
    }
    Ok(Picture::of(&short_url(call, &code)).map_err(Problem::from)?)
}

fn code_of(call: &Call) -> Result<LinkCode, Problem> {
    code::fold(call.path_value(0)?).ok_or_else(Problem::not_found)
}

/// Where we answer: `PUBLIC_URL` and the address of this request.
fn own_hosts(call: &Call) -> OwnHosts {
    let public = call.world.settings.public_url.as_deref();
    OwnHosts::of(&[public.unwrap_or_default(), &call.request.origin])
}

/// The address that is printed: it does not depend on the host through which it was asked for,
/// where `PUBLIC_URL` is set.
pub fn short_url(call: &Call, code: &LinkCode) -> String {
    let public = call.world.settings.public_url.as_deref();
    format!("{}/{code}", public.unwrap_or(&call.request.origin))
}

fn view(call: &Call, link: &Link) -> Value {
    json!({
        "code": link.code.as_str(),
        "url": short_url(call, &link.code),
        "destination": link.destination.as_str(),
        "disabled": link.disabled,
        "expires_at": link.expires_at.map(moment::format),
        "created_at": moment::format(link.created_at),
        "updated_at": moment::format(link.updated_at),
    })
}
