//! The turn guard's shell: what it needs read again, and what it must tell a person.
//!
//! A provider books what it is sent to its current period. So a meter is written only while that
//! period is our cycle; a period that has ended, and one whose agreement refused a write, is read
//! again; one that stays different for an hour goes to review.

use std::rc::Rc;

use serde_json::json;

use super::billed;
use super::meter::{Held, How, Pass, Refreshed, Subject, Written, write};
use super::meter_rules::{MISMATCH_MS, Outcome, Turn};
use super::review::{Review, ReviewKind};
use crate::fault::Fault;
use crate::moment;
use crate::params;
use crate::plans::sync::{Cause, SyncFault, sync};
use crate::ports::Statement;
use crate::units::{AccountId, Millis};
use crate::world::World;

/// Writes the meter, after reading the agreement again where its stored period has ended. A period
/// that differs is watched; a refused write makes the agreement be read again.
pub async fn write_guarded(
    world: &Rc<World>,
    pass: &Pass,
    subject: &mut Subject,
    how: How,
) -> Result<Written, Fault> {
    let mut written = write(world, pass, subject, how).await?;
    if written.held == Some(Held::Turn(Turn::Ended)) && refresh(world, pass, subject).await? {
        written = write(world, pass, subject, how).await?;
    }
    if written.held == Some(Held::Turn(Turn::Differs)) {
        differs(world, pass, subject).await?;
    }
    if written.outcome == Some(Outcome::Refused) && !pass.told_to_wait.get() {
        refresh(world, pass, subject).await?;
    }
    Ok(written)
}

/// Reads the agreement again, at most once an account and run: for another feature of the account
/// it is what was found then. `false` where nothing new is known.
pub async fn refresh(world: &Rc<World>, pass: &Pass, subject: &mut Subject) -> Result<bool, Fault> {
    let account_id = &subject.pair.account_id;
    let known = pass.refreshed.borrow().get(account_id).cloned();
    let found = if let Some(found) = known {
        found.filter(|(agreement, _)| *agreement != subject.agreement)
    } else {
        pass.refreshed.borrow_mut().insert(account_id.clone(), None);
        let found = read_again(world, account_id).await?;
        let remembered = (account_id.clone(), found.clone());
        pass.refreshed.borrow_mut().extend([remembered]);
        found
    };
    let Some((agreement, agreements)) = found else {
        return Ok(false);
    };
    subject.agreement = agreement;
    subject.agreements = agreements;
    Ok(true)
}

async fn read_again(world: &Rc<World>, account_id: &AccountId) -> Result<Option<Refreshed>, Fault> {
    match sync(world, account_id, Cause::Nightly).await {
        Ok(_) => {}
        Err(SyncFault::Fault(fault)) => return Err(fault),
        Err(SyncFault::NoAccount | SyncFault::NoCustomer | SyncFault::Unreadable(_)) => {
            return Ok(None);
        }
    }
    let mut loaded = billed::load(&*world.db, std::slice::from_ref(account_id)).await?;
    let billed = loaded.remove(account_id);
    Ok(billed.and_then(|billed| Some((billed.agreement?, billed.agreements))))
}

/// Notes since when the period differs; after an hour, and another read, a person must look.
pub async fn differs(world: &Rc<World>, pass: &Pass, subject: &mut Subject) -> Result<(), Fault> {
    let now = world.now();
    let Some(since) = watch(world, subject, now).await? else {
        return Ok(());
    };
    if now.since(since) < MISMATCH_MS {
        return Ok(());
    }
    refresh(world, pass, subject).await?;
    if subject.turn(world.now()) != Turn::Differs {
        return Ok(());
    }
    let (pair, period) = (&subject.pair, subject.agreement.period);
    let (account, cycle) = (pair.account_id.as_str(), pair.cycle.as_str());
    let end = period.ends_at.map(moment::format).unwrap_or_default();
    let numbers = json!({
        "agreement_id": subject.agreement.agreement_id.as_str(),
        "cycle_starts_at": moment::format(subject.cycle.starts_at),
        "cycle_ends_at": moment::format(subject.cycle.ends_at),
        "period_starts_at": period.starts_at.map(moment::format),
        "period_ends_at": end,
    });
    let about = [account, cycle, end.as_str()];
    let review = Review::new(ReviewKind::PeriodMismatch, &about, numbers, now).of(
        account,
        None,
        Some(cycle),
    );
    world.ledger.query(review.open()).await?;
    Ok(())
}

async fn watch(world: &World, subject: &Subject, now: Millis) -> Result<Option<Millis>, Fault> {
    let Some(end) = subject.agreement.period.ends_at else {
        return Ok(None);
    };
    let sql = "insert into period_watch (account_id, cycle, period_end_ms, since_ms) \
        values (?1, ?2, ?3, ?4) on conflict (account_id) do update set \
        since_ms = case when cycle = excluded.cycle and period_end_ms = excluded.period_end_ms \
          then since_ms else excluded.since_ms end, \
        cycle = excluded.cycle, period_end_ms = excluded.period_end_ms returning since_ms";
    let params = params![
        subject.pair.account_id.as_str(),
        subject.pair.cycle.as_str(),
        end,
        now
    ];
    let rows = world.ledger.query(Statement::new(sql, params)).await?;
    rows.first().map(|row| row.millis("since_ms")).transpose()
}

/// These accounts' periods agree with their cycles again: what was noted of them is over.
pub fn agrees(accounts: &[&str]) -> Statement {
    Statement::new(
        "delete from period_watch where account_id in (select value from json_each(?1))",
        params![json!(accounts).to_string()],
    )
}
