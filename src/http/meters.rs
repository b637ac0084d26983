//! Meters, evidence, review.

use serde_json::{Value, json};

use super::app::Call;
use super::body::Fields;
use super::list::{Page, feature_param, id_param};
use super::reply::{Answer, Failure, Problem, Response};
use crate::accounts::store;
use crate::fault::Fault;
use crate::ledger::carry::{self, By};
use crate::ledger::closing::{self, CloseRefused, Item, MOVED_END_AHEAD_MINUTES};
use crate::ledger::evidence::{self, Filter};
use crate::ledger::meter_rules::CarryRefused;
use crate::ledger::meters;
use crate::ledger::review::ReviewKind;
use crate::moment;
use crate::units::CycleName;

/// Items of one bulk call: each is a batch of its own.
const BULK_MAX: usize = 100;
/// Characters of a reason.
const REASON_MAX: usize = 500;

/// `GET /v1/meters`
pub async fn list_meters(call: Call) -> Answer {
    let page = Page::of(&call.request)?;
    let account = call.account.as_ref().map(|account| &account.account_id);
    let (ledger, now) = (&*call.world.ledger, call.now);
    let hidden = store::demo_ids(&call.world).await?;
    let after = page.place(meters::read_place)?;
    let rows = meters::list(ledger, account, &hidden, after, page.rows(), now).await?;
    Ok(page.answer(rows, meters::Row::place, meters::Row::view))
}

/// `GET /v1/evidence`
pub async fn list_evidence(call: Call) -> Answer {
    let page = Page::of(&call.request)?;
    let filter = Filter {
        account: call
            .account
            .as_ref()
            .map(|account| account.account_id.clone()),
        feature: feature_param(&call.request, &call.world.settings)?,
        cycle: id_param(&call.request, "cycle", CycleName::new)?,
    };
    let before = page.number()?;
    let ledger = &*call.world.ledger;
    let hidden = store::demo_ids(&call.world).await?;
    let rows = evidence::list(ledger, &filter, &hidden, before, page.rows()).await?;
    let items = rows
        .iter()
        .map(|row| Ok((row.int("number")?.to_string(), evidence::view(row)?)))
        .collect::<Result<Vec<_>, Fault>>()?;
    Ok(page.answer(items, |(id, _)| id.clone(), |(_, view)| view.clone()))
}

/// `GET /v1/review`
pub async fn list_review(call: Call) -> Answer {
    let page = Page::of(&call.request)?;
    let account = call.account.as_ref().map(|account| &account.account_id);
    let kind = match call.request.query_param("kind") {
        None => None,
        Some(text) => Some(
            ReviewKind::parse(&text)
                .ok_or_else(|| Problem::field("kind", "There is no such kind."))?,
        ),
    };
    let ledger = &*call.world.ledger;
    let after = page.after.as_deref();
    let hidden = store::demo_ids(&call.world).await?;
    let items = closing::list(ledger, account, &hidden, kind, after, page.rows()).await?;
    Ok(page.answer(items, |item| item.review_id.clone(), view))
}

fn view(item: &Item) -> Value {
    let mut view = json!({
        "id": item.review_id,
        "kind": item.kind,
        "numbers": item.numbers,
        "at": moment::format(item.at),
        "state": item.outcome.as_deref().unwrap_or("open"),
    });
    for (name, value) in [
        ("account", &item.account),
        ("feature", &item.feature),
        ("cycle", &item.cycle),
    ] {
        if let (Some(value), Some(members)) = (value, view.as_object_mut()) {
            members.insert(name.to_owned(), json!(value));
        }
    }
    view
}

/// What a person does with an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Close,
    Carry,
}

/// `POST /v1/review/{id}/close`
pub async fn close_review(call: Call) -> Answer {
    one(call, Act::Close).await
}

/// `POST /v1/review/{id}/carry`
pub async fn carry_review(call: Call) -> Answer {
    one(call, Act::Carry).await
}

/// `POST /v1/review/close`
pub async fn close_reviews(call: Call) -> Answer {
    several(call, Act::Close).await
}

/// `POST /v1/review/carry`
pub async fn carry_reviews(call: Call) -> Answer {
    several(call, Act::Carry).await
}

async fn one(call: Call, act: Act) -> Answer {
    let mut fields = call.fields()?;
    let reason = reason(&mut fields, act)?;
    fields.finish()?;
    let id = call.path_value(0)?;
    let item = done(&call, id, act, reason.as_deref()).await?;
    Ok(Response::json(200, &view(&item)))
}

async fn several(call: Call, act: Act) -> Answer {
    let mut fields = call.fields()?;
    let ids = ids(&mut fields)?;
    let reason = reason(&mut fields, act)?;
    fields.finish()?;
    let mut items = Vec::new();
    for id in &ids {
        match done(&call, id, act, reason.as_deref()).await {
            Ok(item) => items.push(view(&item)),
            Err(Failure::Refused(problem)) => items.push(json!({
                "id": id, "state": "refused", "code": problem.code, "detail": problem.detail,
            })),
            Err(Failure::Fault(fault)) => return Err(fault.into()),
        }
    }
    Ok(Response::json(200, &json!({"items": items, "next": null})))
}

fn reason(fields: &mut Fields, act: Act) -> Result<Option<String>, Problem> {
    let reason = fields.opt_text("reason")?;
    match &reason {
        None if act == Act::Close => Err(fields.wrong("reason", "It is required.")),
        Some(text) if text.trim().is_empty() || text.chars().count() > REASON_MAX => {
            let detail = format!("It must be 1 to {REASON_MAX} characters.");
            Err(fields.wrong("reason", &detail))
        }
        _ => Ok(reason),
    }
}

fn ids(fields: &mut Fields) -> Result<Vec<String>, Problem> {
    let form = format!("It must be a list of 1 to {BULK_MAX} ids.");
    let wrong = |fields: &Fields| fields.wrong("ids", &form);
    let Some(Value::Array(list)) = fields.take("ids") else {
        return Err(wrong(fields));
    };
    let ids: Option<Vec<String>> = list
        .into_iter()
        .map(|id| id.as_str().map(str::to_owned))
        .collect();
    ids.filter(|ids| (1..=BULK_MAX).contains(&ids.len()))
        .ok_or_else(|| wrong(fields))
}

/// Does it, with its row in the audit, and gives the item as it then stands.
async fn done(call: &Call, id: &str, act: Act, reason: Option<&str>) -> Result<Item, Failure> {
    let world = &call.world;
    let actor = call.caller()?.name.clone();
    let by = By {
        actor: &actor,
        reason,
    };
    let found = closing::find(&*world.ledger, id).await?;
    let mine = |item: &Item| match &call.account {
        None => true,
        Some(account) => item.account.as_deref() == Some(account.account_id.as_str()),
    };
    if !found.as_ref().is_some_and(mine) {
        return Err(Problem::not_found().into());
    }
    match act {
        Act::Close => {
            if let Err(refused) = closing::close(world, id, &by).await? {
                return Err(Problem::from(refused).into());
            }
        }
        Act::Carry => {
            let was_carried = found.is_some_and(|item| item.outcome.as_deref() == Some("carried"));
            if !was_carried && let Err(refused) = carry::carry(world, id, &by).await? {
                return Err(Problem::from(refused).into());
            }
        }
    }
    let item = closing::find(&*world.ledger, id).await?;
    let item = item.ok_or_else(Problem::not_found)?;
    closing::leave_audit(world, &item, &by).await?;
    Ok(item)
}

impl From<CloseRefused> for Problem {
    fn from(refused: CloseRefused) -> Self {
        match refused {
            CloseRefused::NotFound => Self::not_found(),
            CloseRefused::AlreadyClosed => already_closed(),
            CloseRefused::TooSoon => Self::new(
                409,
                "too_soon",
                format!(
                    "The provider's period must end at least {MOVED_END_AHEAD_MINUTES} minutes \
                     from now for our cycle's end to be moved to it."
                ),
            ),
        }
    }
}

impl From<CarryRefused> for Problem {
    fn from(refused: CarryRefused) -> Self {
        match refused {
            CarryRefused::NotClosedCycle => Self::new(
                409,
                "not_carried",
                "Only the difference of a closed cycle can be carried.",
            ),
            CarryRefused::AlreadyClosed => already_closed(),
            CarryRefused::InDoubt => Self::new(
                409,
                "in_doubt",
                "A write to one of the cycle's meters is in doubt: nobody knows what it holds.",
            ),
            CarryRefused::Nothing => {
                Self::new(409, "nothing_to_carry", "Nothing differs any more.")
            }
            CarryRefused::TooMuch => Self::new(
                409,
                "too_much",
                "The open cycle's total would pass 9,007,199,254,740,991.",
            ),
        }
    }
}

fn already_closed() -> Problem {
    Problem::new(409, "review_closed", "This item has ended already.")
}
