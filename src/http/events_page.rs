//! What `/app/events` and `/app/engine-room` show.

use serde_json::Value;

use super::app::Call;
use super::auth::Role;
use super::events::filter;
use super::list::Page;
use super::pages::{fields, html};
use super::reply::{Answer, Problem, Response};
use crate::inbox::apply::Doorbell;
use crate::inbox::engine;
use crate::inbox::listing::{self, Filter, STATES};
use crate::pages::{self, EventsView};

/// Dead events shown above the list.
const DEAD_ROWS: i64 = 50;

/// `GET /app/events`
pub async fn events_page(call: Call) -> Answer {
    let page = Page::of(&call.request)?;
    let asked = filter(&call)?;
    let db = &*call.world.db;
    let dead = if asked.status.is_none() && page.after.is_none() {
        let dead = Filter {
            status: Some("dead".to_owned()),
            ..asked.clone()
        };
        listing::list(db, &dead, None, DEAD_ROWS).await?
    } else {
        Vec::new()
    };
    let rows = listing::list(db, &asked, page.after.as_deref(), page.rows()).await?;
    let (events, next) = page.cut(rows, |event| event.id.clone());
    let view = EventsView {
        account: asked.account.map(|account| account.to_string()),
        status: asked.status,
        type_name: asked.type_name,
        states: STATES.to_vec(),
        dead,
        events,
        next,
        is_operator: call.caller()?.role == Role::Operator,
    };
    Ok(html(200, pages::events(&call.viewer(), &view)))
}

fn needs_stand_in(call: &Call) -> Result<(), Problem> {
    if call.world.settings.has_stand_in() {
        Ok(())
    } else {
        Err(Problem::not_found())
    }
}

/// `GET /app/engine-room`
pub async fn engine_room(call: Call) -> Answer {
    needs_stand_in(&call)?;
    Ok(html(200, pages::engine_room(&call.viewer(), None)))
}

/// `POST /app/engine-room/run`: a page, or JSON where that is asked for.
pub async fn run_engine_room(call: Call) -> Answer {
    needs_stand_in(&call)?;
    let doorbell = doorbell(&call)?;
    let report = engine::run(&call.world, doorbell).await?;
    let accept = call.request.header("accept").unwrap_or_default();
    if accept.contains("application/json") {
        return Ok(Response::json(200, &report.json()));
    }
    Ok(html(200, pages::engine_room(&call.viewer(), Some(&report))))
}

/// From the page's form, or from JSON.
fn doorbell(call: &Call) -> Result<Doorbell, Problem> {
    let mut fields = fields(&call.request.body)?;
    let rings = match fields.take("doorbell") {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(value) if value == 1 => true,
        Some(value) if value == 0 => false,
        Some(_) => return Err(fields.wrong("doorbell", "It must be true or false.")),
    };
    fields.finish()?;
    Ok(if rings {
        Doorbell::Rings
    } else {
        Doorbell::Silent
    })
}
