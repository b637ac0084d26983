//! Plain usage, entries, corrections.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::app::Call;
use super::body::Fields;
use super::list::{Page, feature_param, id_param, moment_param};
use super::reply::{Answer, Problem, Response};
use crate::cycle::Cycle;
use crate::ledger::billed::cycle_named;
use crate::ledger::clicks::FEATURE;
use crate::ledger::correction::{self, Ask};
use crate::ledger::entries::{self, Filter, Recorded, Sums, read_place};
use crate::ledger::entry::EntryKind;
use crate::ledger::rules::Refused;
use crate::ledger::usage::{self, Item, Outcome, UsageRefused};
use crate::limits::{REASON_CHARS_MAX, USAGE_ITEMS_MAX};
use crate::links::code;
use crate::moment;
use crate::units::{CallerKey, CycleName, EntryId, FeatureName, JobId, LinkCode, Millis, SAFE_MAX};

const DAY_MS: i64 = 86_400_000;

/// `GET /v1/usage`
pub async fn get_usage(call: Call) -> Answer {
    let account = call.account()?;
    let feature = known_feature(&call)?;
    let code = code_param(&call)?;
    let by_day = match call.request.query_param("by").as_deref() {
        None => false,
        Some("day") => true,
        Some(_) => return Err(Problem::field("by", "It can only be day.").into()),
    };
    let cycle = match id_param(&call.request, "cycle", CycleName::new)? {
        None => account.cycle_at(call.now),
        Some(name) => cycle_named(&account.anchors, &name)
            .ok_or_else(|| Problem::field("cycle", "There is no such cycle."))?,
    };
    let owner = (&account.account_id, &feature, &cycle.name);
    let days = entries::sums(&*call.world.ledger, owner, code.as_ref(), by_day).await?;
    Ok(Response::json(200, &usage_view(&cycle, &days, by_day)))
}

fn usage_view(cycle: &Cycle, days: &BTreeMap<Option<i64>, Sums>, by_day: bool) -> Value {
    let mut whole = Sums::default();
    for sums in days.values() {
        whole.gross += sums.gross;
        whole.carried += sums.carried;
        for (reason, units) in &sums.corrected {
            *whole.corrected.entry(reason.clone()).or_default() += units;
        }
    }
    let mut view = sums_view(&whole);
    view.insert("cycle".to_owned(), json!(cycle.name.as_str()));
    view.insert(
        "starts_at".to_owned(),
        json!(moment::format(cycle.starts_at)),
    );
    view.insert("ends_at".to_owned(), json!(moment::format(cycle.ends_at)));
    if by_day {
        let days = days.iter().filter_map(|(day, sums)| {
            let at = moment::format(Millis::new((*day)?.saturating_mul(DAY_MS)));
            let mut view = sums_view(sums);
            view.insert("day".to_owned(), json!(at.get(..10)?));
            Some(Value::Object(view))
        });
        view.insert("days".to_owned(), days.collect());
    }
    Value::Object(view)
}

fn sums_view(sums: &Sums) -> Map<String, Value> {
    let mut view = Map::new();
    // No number that JavaScript would read as another one.
    let within = |sum: i64| sum.clamp(-SAFE_MAX, SAFE_MAX);
    let corrected: BTreeMap<&str, i64> = (sums.corrected.iter())
        .map(|(reason, sum)| (reason.as_str(), within(*sum)))
        .collect();
    view.insert("total".to_owned(), json!(within(sums.total())));
    view.insert("gross".to_owned(), json!(within(sums.gross)));
    view.insert("corrected".to_owned(), json!(corrected));
    view.insert("carried".to_owned(), json!(within(sums.carried)));
    view
}

/// The feature of the query, clicks where none is named: 422 where it is not metered.
fn known_feature(call: &Call) -> Result<FeatureName, Problem> {
    let unknown = || Problem::field("feature", "There is no such feature.");
    match feature_param(&call.request, &call.world.settings)? {
        Some(feature) => Ok(feature),
        None => FeatureName::new(FEATURE)
            .filter(|clicks| call.world.settings.features.contains_key(clicks))
            .ok_or_else(unknown),
    }
}

fn code_param(call: &Call) -> Result<Option<LinkCode>, Problem> {
    id_param(&call.request, "code", |text| code::fold(&text))
}

/// `POST /v1/usage`
pub async fn record_usage(call: Call) -> Answer {
    let account = call.account()?;
    let mut fields = call.fields()?;
    let is_list = fields.has("items");
    let items = if is_list {
        let items = items_of(&call, fields.take("items"))?;
        fields.finish()?;
        items
    } else {
        vec![item_of(&call, fields)?]
    };
    let outcome = usage::record(&call.world, account, &items, call.now).await?;
    let (recorded, is_new) = match outcome {
        Outcome::Recorded(recorded, is_new) => (recorded, is_new),
        Outcome::Refused(refused) => return Err(refusal(refused, is_list).into()),
    };
    let status = if is_new { 201 } else { 200 };
    let mut views = recorded.iter().map(Recorded::view);
    let body = if is_list {
        json!({"items": views.collect::<Vec<_>>()})
    } else {
        views.next().unwrap_or_default()
    };
    Ok(Response::json(status, &body))
}

fn items_of(call: &Call, value: Option<Value>) -> Result<Vec<Item>, Problem> {
    let wrong = || Problem::field("items", format!("A list of 1 to {USAGE_ITEMS_MAX} items."));
    let Some(Value::Array(list)) = value else {
        return Err(wrong());
    };
    if list.is_empty() || list.len() > USAGE_ITEMS_MAX {
        return Err(wrong());
    }
    let mut items = Vec::new();
    for (place, value) in list.into_iter().enumerate() {
        items.push(item_of(
            call,
            Fields::nested(value, &format!("items[{place}]."))?,
        )?);
    }
    Ok(items)
}

fn item_of(call: &Call, mut fields: Fields) -> Result<Item, Problem> {
    let key = fields.id("key", CallerKey::new)?;
    let feature = fields.id("feature", FeatureName::new)?;
    let units = fields.units("units", 1)?;
    let occurred_at = fields.opt_moment("occurred_at")?;
    match call.world.settings.features.get(&feature) {
        None => return Err(fields.wrong("feature", "There is no such feature.")),
        Some(metered) if metered.kind.is_gated() => {
            let detail = "Usage of a gated feature is recorded by its jobs.";
            return Err(fields.wrong("feature", detail));
        }
        Some(_) => {}
    }
    fields.finish()?;
    Ok(Item {
        key,
        feature,
        units,
        occurred_at,
    })
}

fn refusal(refused: UsageRefused, is_list: bool) -> Problem {
    match refused {
        UsageRefused::Conflict(key) => {
            let detail = "This key stands for another fact.";
            Problem::new(409, "key_conflict", detail).with("key", key.as_str())
        }
        UsageRefused::Time(place, why) => {
            let prefix = if is_list {
                format!("items[{place}].")
            } else {
                String::new()
            };
            Problem::field(&format!("{prefix}occurred_at"), why.message())
        }
        UsageRefused::TooMuch => {
            let detail = "The sum of this cycle would be beyond 9007199254740991.";
            Problem::field(if is_list { "items" } else { "units" }, detail)
        }
    }
}

/// `GET /v1/entries`
pub async fn list_entries(call: Call) -> Answer {
    let account_id = &call.account()?.account_id;
    let page = Page::of(&call.request)?;
    let request = &call.request;
    let kind = match request.query_param("kind") {
        None => None,
        Some(text) => Some(
            EntryKind::parse(&text)
                .ok_or_else(|| Problem::field("kind", "There is no such kind."))?,
        ),
    };
    let filter = Filter {
        feature: feature_param(request, &call.world.settings)?,
        cycle: id_param(request, "cycle", CycleName::new)?,
        code: code_param(&call)?,
        job: id_param(request, "job", JobId::new)?,
        kind,
        from: moment_param(request, "from")?,
        to: moment_param(request, "to")?,
    };
    let after = page.place(read_place)?;
    let ledger = &*call.world.ledger;
    let found = entries::list(ledger, account_id, &filter, after, page.rows()).await?;
    Ok(page.answer(found, Recorded::place, Recorded::view))
}

/// `POST /v1/entries/{id}/correction`
pub async fn correct_entry(call: Call) -> Answer {
    let account = call.account()?;
    let mut fields = call.fields()?;
    let reason = fields.opt_text("reason")?;
    let units = fields.opt_units("units", 1)?;
    let reason = reason
        .filter(|text| (1..=REASON_CHARS_MAX).contains(&text.trim().chars().count()))
        .ok_or_else(|| {
            let detail = format!("A text of 1 to {REASON_CHARS_MAX} characters.");
            fields.wrong("reason", &detail)
        })?;
    fields.finish()?;
    let ask = Ask {
        entry_id: EntryId::new(call.path_value(0)?).ok_or_else(Problem::not_found)?,
        reason: reason.trim().to_owned(),
        units,
        actor: call.caller()?.name.clone(),
    };
    match correction::correct(&call.world, account, &ask, call.now).await? {
        correction::Outcome::New(row) => Ok(Response::json(201, &row.view())),
        correction::Outcome::Again(row) => Ok(Response::json(200, &row.view())),
        correction::Outcome::Unknown => Err(Problem::not_found().into()),
        correction::Outcome::Refused(refused) => {
            Err(correction_refused(refused, units.is_some()).into())
        }
    }
}

fn correction_refused(refused: Refused, names_units: bool) -> Problem {
    match refused {
        Refused::MoreThanLeft { left } if names_units => {
            Problem::field("units", refused.message()).with("left", left.get())
        }
        Refused::MoreThanLeft { left } => {
            Problem::new(409, refused.code(), refused.message()).with("left", left.get())
        }
        Refused::NotCorrectable => {
            Problem::new(422, refused.code(), refused.message()).with("field", "id")
        }
    }
}
