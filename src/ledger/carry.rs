//! Closed cycles: what their meters lack, and moving it into the open cycle, once.
//!
//! A closed meter is never written: what it is sent would be booked to the next period. So the
//! difference goes to a person, who leaves it as it is or carries it: −n in the closed cycle, +n
//! in the open one, in one batch with the item's end.

use std::rc::Rc;

use serde_json::json;

use super::base_rules::last_known;
use super::batch;
use super::billed::cycle_named;
use super::entry::{Entry, EntryKind, made_of};
use super::evidence::Evidence;
use super::meter_rules::{CarryRefused, ClosedDrift, Facts, Verdict, closed_drift};
use super::meter_store::{Meter, Pair, meters_of};
use super::review::{Review, ReviewKind};
use super::totals::{self, Sum, within};
use crate::accounts::{Account, store};
use crate::cycle::Cycle;
use crate::fault::Fault;
use crate::params;
use crate::ports::Statement;
use crate::settings::CarryTail;
use crate::units::{Delta, Millis};
use crate::world::World;

/// What the meters of a closed cycle say together.
struct Known {
    /// What they are known to hold.
    held: Delta,
    /// What they confirmed.
    sent: Delta,
    /// Whether one holds something else than it confirmed.
    moved: bool,
    /// Whether a write to one is in doubt.
    in_doubt: bool,
    /// The last one's agreement.
    agreement_id: Option<String>,
}

fn known(meters: &[Meter]) -> Option<Known> {
    let mut all = Known {
        held: Delta::ZERO,
        sent: Delta::ZERO,
        moved: false,
        in_doubt: false,
        agreement_id: meters.last().map(|meter| meter.agreement_id.clone()),
    };
    for meter in meters {
        let held = last_known(meter.held);
        let sent = meter.sent.unwrap_or(Delta::ZERO);
        all.held = all.held.plus(held)?;
        all.sent = all.sent.plus(sent)?;
        all.moved |= held != sent;
        all.in_doubt |= meter.is_doubtful();
    }
    Some(all)
}

/// Looks at a closed cycle, once for each version of its counter. `None` where nothing of it was
/// ever to be billed. What a dry run finds is not stored.
pub async fn look_at_closed(
    world: &Rc<World>,
    sum: &Sum,
    billed_since: Option<Millis>,
    cycle: &Cycle,
    dry_run: bool,
) -> Result<Option<Evidence>, Fault> {
    let meters = meters_of(&*world.ledger, &sum.pair).await?;
    let was_billed = billed_since.is_some_and(|since| since < cycle.ends_at);
    let is_billed = !meters.is_empty() || was_billed;
    let drift = known(&meters).and_then(|known| {
        let (moved, doubt) = (known.moved, known.in_doubt);
        let drift = closed_drift(sum.ledger, known.held, sum.left_as_is, moved, doubt)?;
        Some((known, drift))
    });
    let Some((known, drift)) = drift.filter(|_| is_billed) else {
        if !dry_run {
            world.ledger.query(looked(sum, cycle)).await?;
        }
        return Ok(None);
    };
    let verdict = match drift {
        ClosedDrift::None => Verdict::Match,
        ClosedDrift::Tail(_) | ClosedDrift::Other(_) => Verdict::ClosedCycleDrift,
    };
    let evidence = evidence(world, sum, &known, verdict);
    if dry_run {
        return Ok(Some(evidence));
    }
    let now = world.now();
    // A person may have closed an older item meanwhile: what is left as it is counts once.
    let mut statements = vec![
        as_read(&sum.pair, (sum.version, sum.left_as_is)),
        evidence.add(),
    ];
    let review = item(sum, &known, drift, now);
    statements.push(replace_older(&sum.pair, review.as_ref(), now));
    statements.extend(review.as_ref().map(Review::open));
    statements.push(looked(sum, cycle));
    world.ledger.batch(statements).await?;
    let is_tail = matches!(drift, ClosedDrift::Tail(_));
    if let Some(review) = review.filter(|_| is_tail)
        && world.settings.carry_tail == CarryTail::Auto
    {
        let by = By {
            actor: "CARRY_TAIL",
            reason: Some("tail"),
        };
        carry(world, &review.review_id, &by).await?.ok();
    }
    Ok(Some(evidence))
}

fn evidence(world: &World, sum: &Sum, known: &Known, verdict: Verdict) -> Evidence {
    Evidence {
        pair: sum.pair.clone(),
        agreement_id: known.agreement_id.clone(),
        facts: Facts {
            ledger: sum.ledger,
            base: Delta::ZERO,
            sent: Some(known.sent),
            provider: Some(known.held),
            complete: true,
            closed: true,
            last: None,
            in_doubt: known.in_doubt,
            base_is_new: false,
        },
        counters: sum.counters,
        verdict,
        cause: None,
        repaired_to: None,
        read_back: None,
        at: world.now(),
    }
}

fn item(sum: &Sum, known: &Known, drift: ClosedDrift, now: Millis) -> Option<Review> {
    let (kind, lacks) = match drift {
        ClosedDrift::None => return None,
        ClosedDrift::Tail(lacks) => (ReviewKind::Tail, lacks),
        ClosedDrift::Other(lacks) => (ReviewKind::ClosedCycle, lacks),
    };
    let (account, feature, cycle) = (
        sum.pair.account_id.as_str(),
        sum.pair.feature.as_str(),
        sum.pair.cycle.as_str(),
    );
    let numbers = json!({"ledger": sum.ledger.get(), "provider": known.held.get(),
        "sent": known.sent.get(), "left_as_is": sum.left_as_is.get(),
        "difference": lacks.get(), "in_doubt": known.in_doubt});
    let version = sum.version.to_string();
    let about = [account, feature, cycle, version.as_str()];
    Some(Review::new(kind, &about, numbers, now).of(account, Some(feature), Some(cycle)))
}

/// The cycle moved again: what was found before is part of what is found now.
fn replace_older(pair: &Pair, review: Option<&Review>, now: Millis) -> Statement {
    Statement::new(
        "update review set closed_at_ms = ?5, outcome = 'replaced' \
         where account_id = ?1 and feature = ?2 and cycle = ?3 \
         and kind in ('tail', 'closed_cycle') and closed_at_ms is null and review_id is not ?4",
        params![
            pair.account_id.as_str(),
            pair.feature.as_str(),
            pair.cycle.as_str(),
            review.map(|review| review.review_id.as_str()),
            now
        ],
    )
}

fn looked(sum: &Sum, cycle: &Cycle) -> Statement {
    Statement::new(
        "update counter set looked = ?4, told = max(told, ?4), ends_at_ms = ?5 \
         where account_id = ?1 and feature = ?2 and cycle = ?3 and version = ?4",
        params![
            sum.pair.account_id.as_str(),
            sum.pair.feature.as_str(),
            sum.pair.cycle.as_str(),
            sum.version,
            cycle.ends_at
        ],
    )
}

/// Who carries, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct By<'a> {
    /// For the entries and the audit.
    pub actor: &'a str,
    /// What they said.
    pub reason: Option<&'a str>,
}

/// What was carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Out of the closed cycle.
    pub units: Delta,
    /// Into this one.
    pub into: String,
}

/// Moves what the item's closed cycle lacks into the account's open cycle, once.
pub async fn carry(
    world: &Rc<World>,
    review_id: &str,
    by: &By<'_>,
) -> Result<Result<Carried, CarryRefused>, Fault> {
    let Some(found) = find(world, review_id).await? else {
        return Ok(Err(CarryRefused::NotClosedCycle));
    };
    if found.is_closed {
        return Ok(Err(CarryRefused::AlreadyClosed));
    }
    let meters = meters_of(&*world.ledger, &found.pair).await?;
    let lacks = known(&meters).and_then(|known| {
        if known.in_doubt {
            return None;
        }
        found.total.minus(known.held)?.minus(found.left)
    });
    let lacks = match lacks {
        None => return Ok(Err(CarryRefused::InDoubt)),
        Some(Delta::ZERO) => return Ok(Err(CarryRefused::Nothing)),
        Some(lacks) => lacks,
    };
    let account = store::load(&*world.db, &found.pair.account_id).await?;
    let closed = account
        .as_ref()
        .and_then(|account| cycle_named(&account.anchors, &found.pair.cycle));
    let (Some(account), Some(closed)) = (account, closed) else {
        return Ok(Err(CarryRefused::NotClosedCycle));
    };
    write(world, review_id, by, &found, (&account, &closed), lacks).await
}

/// An item about a closed cycle, with its counter.
struct Item {
    pair: Pair,
    is_closed: bool,
    total: Delta,
    version: i64,
    left: Delta,
}

async fn find(world: &World, review_id: &str) -> Result<Option<Item>, Fault> {
    let sql = format!(
        "select r.account_id as account_id, r.feature as feature, r.cycle as cycle, \
         r.closed_at_ms is not null as is_closed, {} as total, c.version as version, \
         c.left_as_is as left_as_is from review r join counter c \
         on c.account_id = r.account_id and c.feature = r.feature and c.cycle = r.cycle \
         where r.review_id = ?1 and r.kind in ('tail', 'closed_cycle')",
        within("c.total")
    );
    let rows = world
        .ledger
        .query(Statement::new(sql, params![review_id]))
        .await?;
    let item = |row: &crate::ports::Row| {
        Ok(Item {
            pair: Pair::of_row(row)?,
            is_closed: row.int("is_closed")? != 0,
            total: row.delta("total")?,
            version: row.int("version")?,
            left: row.delta("left_as_is")?,
        })
    };
    rows.first().map(item).transpose()
}

async fn write(
    world: &World,
    review_id: &str,
    by: &By<'_>,
    item: &Item,
    (account, closed): (&Account, &Cycle),
    lacks: Delta,
) -> Result<Result<Carried, CarryRefused>, Fault> {
    let now = world.now();
    let open = account.cycle_at(now);
    let row = store::cycle_row(&account.account_id, &open);
    world.db.query(row).await?;
    let (from, into) = (&closed.name, &open.name);
    let mut out = entry(item, review_id, lacks.negated(), closed.ends_at.after(-1));
    let mut back = entry(item, review_id, lacks, now);
    back.cycle.clone_from(into);
    for (entry, reason) in [
        (&mut out, format!("carried to {into}")),
        (&mut back, format!("carried from {from}")),
    ] {
        entry.reason = Some(reason);
        entry.actor = Some(by.actor.to_owned());
    }
    let rows = batch::rows_json([&out, &back])?;
    let mut statements = vec![
        still_open(review_id),
        as_read(&item.pair, (item.version, item.left)),
        none_in_doubt(&item.pair),
        totals::none_beyond(&rows),
    ];
    let tally = ("counterfoil_carries_total".to_owned(), 1);
    statements.extend(batch::statements(None, &rows, &[tally], now));
    statements.push(end(review_id, "carried", by, now));
    if let Err(fault) = world.ledger.batch(statements).await {
        // The batch fails as a whole where the item was closed or the cycle moved meanwhile.
        return match find(world, review_id).await? {
            Some(again) if again.is_closed => Ok(Err(CarryRefused::AlreadyClosed)),
            _ if is_beyond(world, &rows).await? => Ok(Err(CarryRefused::TooMuch)),
            _ => Err(fault),
        };
    }
    Ok(Ok(Carried {
        units: lacks,
        into: into.to_string(),
    }))
}

async fn is_beyond(world: &World, rows_json: &str) -> Result<bool, Fault> {
    let beyond = totals::beyond(rows_json);
    Ok(!world.ledger.query(beyond).await?.is_empty())
}

fn entry(item: &Item, review_id: &str, units: Delta, at: Millis) -> Entry {
    let side = if units < Delta::ZERO { "less" } else { "more" };
    let id = made_of("car_", &[review_id, side]);
    let pair = item.pair.clone();
    let owner = (pair.account_id, pair.feature, pair.cycle);
    Entry::new(id, EntryKind::Carry, owner, units, at)
}

/// Fails the batch where the item is closed.
pub fn still_open(review_id: &str) -> Statement {
    Statement::new(
        "insert into guard (held) select null where not exists (select 1 from review \
         where review_id = ?1 and closed_at_ms is null)",
        params![review_id],
    )
}

/// Fails the batch where the closed cycle is not as it was read.
fn as_read(pair: &Pair, (version, left_as_is): (i64, Delta)) -> Statement {
    Statement::new(
        "insert into guard (held) select null where exists (select 1 from counter \
         where account_id = ?1 and feature = ?2 and cycle = ?3 \
         and (version <> ?4 or left_as_is <> ?5))",
        params![
            pair.account_id.as_str(),
            pair.feature.as_str(),
            pair.cycle.as_str(),
            version,
            left_as_is
        ],
    )
}

/// Fails the batch where a meter of the closed cycle is in doubt.
fn none_in_doubt(pair: &Pair) -> Statement {
    Statement::new(
        "insert into guard (held) select null where exists (select 1 from meter \
         where account_id = ?1 and feature = ?2 and cycle = ?3 \
         and (in_doubt = 1 or token is not null))",
        params![
            pair.account_id.as_str(),
            pair.feature.as_str(),
            pair.cycle.as_str()
        ],
    )
}

/// The item's end.
pub fn end(review_id: &str, outcome: &str, by: &By<'_>, now: Millis) -> Statement {
    Statement::new(
        "update review set closed_at_ms = ?2, closed_by = ?3, outcome = ?4, reason = ?5 \
         where review_id = ?1 and closed_at_ms is null",
        params![review_id, now, by.actor, outcome, by.reason],
    )
}
