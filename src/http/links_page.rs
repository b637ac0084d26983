//! What the page of links shows, read from both databases.

use std::collections::BTreeMap;

use super::app::Call;
use super::links::short_url;
use super::list::Page;
use super::pages::html;
use super::reply::Answer;
use crate::accounts::{Account, store as accounts};
use crate::fault::Fault;
use crate::ledger::clicks::FEATURE;
use crate::ledger::entries::{self, Sums};
use crate::limits::LIST_ROWS_DEFAULT;
use crate::links::code;
use crate::links::store::{self, Link};
use crate::moment::{self, DAY_MS};
use crate::pages::{self, DayLine, LinkLine, LinksView};
use crate::units::{CycleName, FeatureName, LinkCode, Millis};

/// `GET /app/links`
pub async fn links_page(call: Call) -> Answer {
    let Some(account) = &call.account else {
        let some = accounts::list(&*call.world.db, "", LIST_ROWS_DEFAULT).await?;
        let ids: Vec<String> = some.iter().map(|one| one.account_id.to_string()).collect();
        return Ok(html(200, pages::links_of_whom(&call.viewer(), &ids)));
    };
    let page = Page::of(&call.request)?;
    let search = call.request.query_param("q").unwrap_or_default();
    let (db, id) = (&*call.world.db, &account.account_id);
    let rows = store::list(db, id, &search, page.after_or_first(), page.rows()).await?;
    let (rows, next) = page.cut(rows, |link| link.code.to_string());
    let cycle = account.cycle_at(call.now);
    let clicks = clicks_of(&call, account, &cycle.name, &rows).await?;
    let chosen = call.request.query_param("code");
    let chosen = chosen.and_then(|text| code::fold(&text));
    let days = days_of(&call, account, &cycle.name, chosen.as_ref()).await?;
    let view = LinksView {
        account: id.to_string(),
        cycle: cycle.name.to_string(),
        search,
        links: rows.iter().map(|link| line(&call, link, &clicks)).collect(),
        next,
        chosen: chosen.map(|code| code.to_string()),
        days,
    };
    Ok(html(200, pages::links(&call.viewer(), &view)))
}

fn line(call: &Call, link: &Link, clicks: &BTreeMap<String, i64>) -> LinkLine {
    LinkLine {
        code: link.code.to_string(),
        url: short_url(call, &link.code),
        destination: link.destination.to_string(),
        disabled: link.disabled,
        expires_at: link.expires_at.map(|at| (at, at <= call.now)),
        clicks: clicks.get(link.code.as_str()).copied().unwrap_or(0),
    }
}

fn feature() -> Result<FeatureName, Fault> {
    let none = || Fault::unreadable("name a feature", FEATURE);
    FeatureName::new(FEATURE).ok_or_else(none)
}

async fn clicks_of(
    call: &Call,
    account: &Account,
    cycle: &CycleName,
    links: &[Link],
) -> Result<BTreeMap<String, i64>, Fault> {
    let codes: Vec<&str> = links.iter().map(|link| link.code.as_str()).collect();
    let owner = (&account.account_id, &feature()?, cycle);
    entries::totals_by_code(&*call.world.ledger, owner, &codes).await
}

async fn days_of(
    call: &Call,
    account: &Account,
    cycle: &CycleName,
    chosen: Option<&LinkCode>,
) -> Result<Vec<DayLine>, Fault> {
    let owner = (&account.account_id, &feature()?, cycle);
    let sums = entries::sums(&*call.world.ledger, owner, chosen, true).await?;
    Ok(sums
        .iter()
        .filter_map(|(day, sums)| Some(day_line((*day)?, sums)))
        .collect())
}

fn day_line(day: i64, sums: &Sums) -> DayLine {
    let at = moment::format(Millis::new(day.saturating_mul(DAY_MS)));
    DayLine {
        day: at.get(..10).unwrap_or(&at).to_owned(),
        gross: sums.gross,
        corrected: sums.corrected.values().sum(),
        total: sums.total(),
    }
}
