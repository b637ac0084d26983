//! Closing what a person has looked at. What that does depends on the kind of the item; each does
//! it in one batch with the item's end, so that it happens once.

use std::rc::Rc;

use serde_json::Value as Json;

use super::billed::{self, Billed};
use super::carry::{By, end, still_open};
use super::meter_rules::{MOVED_END_AHEAD_MS, moved_end};
use super::meter_store::{accept_foreign, end_doubt};
use super::review::ReviewKind;
use crate::accounts::{AnchorSource, audit, store};
use crate::cycle::{Anchor, Cycle};
use crate::fault::Fault;
use crate::gate;
use crate::moment::{DAY_MS, civil};
use crate::params;
use crate::ports::{Db, Row, Statement};
use crate::units::{AccountId, CycleName, Millis};
use crate::world::{World, mint};

/// One item as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its id.
    pub review_id: String,
    /// Its kind as stored.
    pub kind: String,
    /// Whose.
    pub account: Option<String>,
    /// Of what.
    pub feature: Option<String>,
    /// In which cycle.
    pub cycle: Option<String>,
    /// What was found.
    pub numbers: Json,
    /// When.
    pub at: Millis,
    /// `closed`, `carried` or `replaced`; absent while it is open.
    pub outcome: Option<String>,
    /// When it ended.
    pub ended_at: Option<Millis>,
}

impl Item {
    fn of_row(row: &Row) -> Result<Self, Fault> {
        let text = |name: &str| row.opt_text(name).map(|text| text.map(str::to_owned));
        Ok(Self {
            review_id: row.text("review_id")?.to_owned(),
            kind: row.text("kind")?.to_owned(),
            account: text("account_id")?,
            feature: text("feature")?,
            cycle: text("cycle")?,
            numbers: serde_json::from_str(row.text("numbers")?)
                .map_err(|e| Fault::unreadable("read a review item", e))?,
            at: row.millis("opened_at_ms")?,
            outcome: text("outcome")?,
            ended_at: row.opt_millis("closed_at_ms")?,
        })
    }
}

const COLUMNS: &str = "review_id, kind, account_id, feature, cycle, numbers, opened_at_ms, \
    outcome, closed_at_ms";

/// The item of that id.
pub async fn find(ledger: &dyn Db, review_id: &str) -> Result<Option<Item>, Fault> {
    let sql = format!("select {COLUMNS} from review where review_id = ?1");
    let rows = ledger
        .query(Statement::new(sql, params![review_id]))
        .await?;
    rows.first().map(Item::of_row).transpose()
}

/// Open items, oldest first, after the item `after`. Where no account is asked for, those of the
/// JSON list `hidden` are left out.
pub async fn list(
    ledger: &dyn Db,
    account: Option<&AccountId>,
    hidden: &str,
    kind: Option<ReviewKind>,
    after: Option<&str>,
    rows: i64,
) -> Result<Vec<Item>, Fault> {
    let sql = format!(
        "select {COLUMNS} from review r where closed_at_ms is null \
         and (?1 is null or account_id = ?1) and (?4 is null or kind = ?4) \
         and (?1 is not null or account_id is null \
           or account_id not in (select value from json_each(?5))) \
         and (?2 is null or exists (select 1 from review a where a.review_id = ?2 \
           and (r.opened_at_ms > a.opened_at_ms \
             or (r.opened_at_ms = a.opened_at_ms and r.review_id > a.review_id)))) \
         order by opened_at_ms, review_id limit cast(?3 as integer)"
    );
    let params = params![
        account.map(AccountId::as_str),
        after,
        rows,
        kind.map(ReviewKind::name),
        hidden
    ];
    let rows = ledger.query(Statement::new(sql, params)).await?;
    rows.iter().map(Item::of_row).collect()
}

/// Why an item is not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseRefused {
    /// There is no such item.
    NotFound,
    /// It ended otherwise before.
    AlreadyClosed,
    /// The provider's period ends too soon to move our cycle's end to it, or is not known.
    TooSoon,
}

/// Closes the item. Closing it again is answered as the first time.
pub async fn close(
    world: &Rc<World>,
    review_id: &str,
    by: &By<'_>,
) -> Result<Result<(), CloseRefused>, Fault> {
    let Some(item) = find(&*world.ledger, review_id).await? else {
        return Ok(Err(CloseRefused::NotFound));
    };
    match item.outcome.as_deref() {
        None => {}
        Some("closed") => return Ok(Ok(())),
        Some(_) => return Ok(Err(CloseRefused::AlreadyClosed)),
    }
    let mut statements = vec![still_open(review_id)];
    match ReviewKind::parse(&item.kind) {
        Some(ReviewKind::Tail | ReviewKind::ClosedCycle) => statements.push(leave(&item)),
        Some(ReviewKind::ForeignTotal) => statements.push(accept_foreign(review_id)),
        Some(ReviewKind::BaseInDoubt) => statements.push(end_doubt(review_id)),
        Some(ReviewKind::PeriodMismatch) => match move_end(world, &item).await? {
            Ok(moved) => statements.extend(moved),
            Err(refused) => return Ok(Err(refused)),
        },
        // A stopped feed asks whether its item is closed; the others are left as they are.
        Some(
            ReviewKind::Feed
            | ReviewKind::Conflict
            | ReviewKind::LateUse
            | ReviewKind::CustomerDeleted,
        )
        | None => {}
    }
    statements.push(end(review_id, "closed", by, world.now()));
    if let Err(fault) = world.ledger.batch(statements).await {
        return match find(&*world.ledger, review_id).await? {
            Some(again) if again.outcome.as_deref() == Some("closed") => Ok(Ok(())),
            Some(again) if again.outcome.is_some() => Ok(Err(CloseRefused::AlreadyClosed)),
            _ => Err(fault),
        };
    }
    Ok(Ok(()))
}

/// The difference of a closed cycle stays as it is, also when more is found later. Never more than
/// there is of it now: a meter may have been found to hold it since the item was opened.
const LEAVE: &str = "update counter set left_as_is = left_as_is + now.units from (\
    select c.account_id, c.feature, c.cycle, case when c.lacks < 0 \
    then min(0, max(cast(?4 as integer), c.lacks)) \
    else max(0, min(cast(?4 as integer), c.lacks)) end as units from (\
      select account_id, feature, cycle, total - left_as_is - coalesce((\
        select sum(m.held) from meter m where m.account_id = k.account_id \
        and m.feature = k.feature and m.cycle = k.cycle), 0) as lacks from counter k \
      where account_id = ?1 and feature = ?2 and cycle = ?3) c) now \
    where counter.account_id = now.account_id and counter.feature = now.feature \
    and counter.cycle = now.cycle";

fn leave(item: &Item) -> Statement {
    let difference = item
        .numbers
        .get("difference")
        .and_then(Json::as_i64)
        .unwrap_or(0);
    Statement::new(
        LEAVE,
        params![
            item.account.as_deref(),
            item.feature.as_deref(),
            item.cycle.as_deref(),
            difference
        ],
    )
}

/// Moves the end of the running cycle to that of the provider's period, by one more anchor in DB;
/// gives what `LEDGER_0` must learn of it. An end that was moved before is not moved again.
async fn move_end(
    world: &Rc<World>,
    item: &Item,
) -> Result<Result<Vec<Statement>, CloseRefused>, Fault> {
    let Some(id) = item.account.clone().and_then(AccountId::new) else {
        return Ok(Err(CloseRefused::NotFound));
    };
    let mut loaded = billed::load(&*world.db, std::slice::from_ref(&id)).await?;
    let Some(Billed {
        account,
        agreement: Some(agreement),
        ..
    }) = loaded.remove(&id)
    else {
        return Ok(Err(CloseRefused::TooSoon));
    };
    let now = world.now();
    let cycle = account.cycle_at(now);
    let was_moved = account
        .anchors
        .iter()
        .any(|anchor| anchor.opens == Some(cycle.starts_at));
    let is_this = item.cycle.clone().and_then(CycleName::new).as_ref() == Some(&cycle.name);
    if !is_this || was_moved {
        // The cycle is over, or a first try moved its end: the item tells of nothing any more.
        gate::teach(world, &account).await?;
        return Ok(Ok(ends(&id, &cycle)));
    }
    let Some(ends_at) = moved_end(&cycle, agreement.period, now) else {
        return Ok(Err(CloseRefused::TooSoon));
    };
    let moved = Cycle {
        ends_at,
        ..cycle.clone()
    };
    let anchor = Anchor {
        at: ends_at,
        day: day_of(ends_at, agreement.period.starts_at),
        opens: Some(cycle.starts_at),
    };
    store::fix_anchor(&*world.db, &id, now).await?;
    let batch = vec![add_anchor(&id, anchor, now), store::cycle_row(&id, &moved)];
    world.db.batch(batch).await?;
    if let Some(account) = store::load(&*world.db, &id).await? {
        gate::teach(world, &account).await?;
    }
    Ok(Ok(ends(&id, &moved)))
}

/// The day on which periods begin: the last of a short month may stand for a later one.
fn day_of(ends_at: Millis, period_start: Option<Millis>) -> u8 {
    let day = civil(ends_at).2;
    let is_last = civil(ends_at.after(DAY_MS)).1 != civil(ends_at).1;
    match period_start {
        Some(start) if is_last => day.max(civil(start).2),
        _ => day,
    }
}

fn add_anchor(id: &AccountId, anchor: Anchor, now: Millis) -> Statement {
    Statement::new(
        "insert into anchor (account_id, number, at_ms, day, opens_ms, source, fixed_at_ms) \
         select ?1, max(number) + 1, ?2, ?3, ?4, ?5, ?6 from anchor where account_id = ?1 \
         having not exists (select 1 from anchor where account_id = ?1 and opens_ms = ?4)",
        params![
            id.as_str(),
            anchor.at,
            i64::from(anchor.day),
            anchor.opens,
            AnchorSource::PeriodMismatch.name(),
            now
        ],
    )
}

fn ends(id: &AccountId, cycle: &Cycle) -> Vec<Statement> {
    vec![
        Statement::new(
            "update counter set ends_at_ms = ?3 where account_id = ?1 and cycle = ?2",
            params![id.as_str(), cycle.name.as_str(), cycle.ends_at],
        ),
        Statement::new(
            "delete from period_watch where account_id = ?1",
            params![id.as_str()],
        ),
    ]
}

/// The audit stands in the other database. Its id is made from the item and its end, so that a
/// repeat after a crash between the two leaves the one row that is missing.
pub async fn leave_audit(world: &World, item: &Item, by: &By<'_>) -> Result<(), Fault> {
    let (Some(ended_at), Some(outcome)) = (item.ended_at, item.outcome.as_deref()) else {
        return Ok(());
    };
    let digest = hmac_sha256::Hash::hash(item.review_id.as_bytes());
    let mut bits = [0; 16];
    for (bit, byte) in bits.iter_mut().zip(digest) {
        *bit = byte;
    }
    let audit_id = mint("aud_", ended_at, bits);
    let sql = "select 1 as there from audit where audit_id = ?1";
    let find = Statement::new(sql, params![audit_id.as_str()]);
    if !world.db.query(find).await?.is_empty() {
        return Ok(());
    }
    let action = if outcome == "carried" {
        "review.carry"
    } else {
        "review.close"
    };
    let account = item.account.clone().and_then(AccountId::new);
    let row = audit::row(
        ended_at,
        &audit_id,
        by.actor,
        action,
        &item.review_id,
        account.as_ref(),
        by.reason,
    );
    world.db.query(row).await?;
    Ok(())
}

/// How far ahead a moved end must lie, in whole minutes, for people.
pub const MOVED_END_AHEAD_MINUTES: i64 = MOVED_END_AHEAD_MS / 60_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::parse_millis;

    #[test]
    fn the_last_day_of_a_short_month_keeps_the_later_day_that_it_stands_for() {
        let at = |text| parse_millis(text).expect("a moment");
        let start = Some(at("2027-01-31T10:00:00Z"));
        assert_eq!(day_of(at("2027-02-28T10:00:00Z"), start), 31);
        assert_eq!(day_of(at("2027-02-27T10:00:00Z"), start), 27);
        assert_eq!(day_of(at("2027-02-28T10:00:00Z"), None), 28);
    }
}
