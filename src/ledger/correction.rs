//! A person's correction: up to what is left of the entry, in the entry's own cycle, once.

use serde_json::json;

use super::batch;
use super::entries::{self, Recorded};
use super::entry::{Entry, EntryKind, manual_id};
use super::rules::{self, Refused};
use crate::accounts::{Account, audit};
use crate::fault::Fault;
use crate::params;
use crate::ports::Statement;
use crate::units::{Delta, EntryId, Millis, Units};
use crate::world::{World, mint};

/// What a person asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The entry.
    pub entry_id: EntryId,
    /// Why.
    pub reason: String,
    /// How much; absent: all that is left.
    pub units: Option<Units>,
    /// Who.
    pub actor: String,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was written now.
    New(Recorded),
    /// The same stands already.
    Again(Recorded),
    /// The account has no such entry.
    Unknown,
    /// The domain says no.
    Refused(Refused),
}

/// Corrects an entry, and leaves an audit row.
pub async fn correct(
    world: &World,
    account: &Account,
    ask: &Ask,
    now: Millis,
) -> Result<Outcome, Fault> {
    let outcome = decided(world, account, ask, now).await?;
    if let Outcome::New(correction) | Outcome::Again(correction) = &outcome {
        leave_audit(world, account, ask, correction).await?;
    }
    Ok(outcome)
}

/// Where another correction of the entry came between reading and writing, what is now there is
/// looked at anew, as often as that happens; a write that fails twice over the same sum is a fault.
async fn decided(
    world: &World,
    account: &Account,
    ask: &Ask,
    now: Millis,
) -> Result<Outcome, Fault> {
    let ledger = &*world.ledger;
    let asked = ask.units.map(Delta::from);
    let id = manual_id(&ask.entry_id, &ask.reason, asked.map(Delta::negated));
    let ids_json = json!([id.as_str()]).to_string();
    let mut failed_over = None;
    loop {
        let found = entries::with_corrections(ledger, &account.account_id, &ask.entry_id).await?;
        let Some((corrected, sum)) = found else {
            return Ok(Outcome::Unknown);
        };
        let stored = ledger.query(entries::by_ids(&ids_json)).await?;
        if let Some(row) = stored.first() {
            return Ok(Outcome::Again(Recorded::of_row(row)?));
        }
        let is_fact = match corrected.entry.kind {
            EntryKind::Click | EntryKind::Usage | EntryKind::Job => true,
            EntryKind::Correction | EntryKind::Carry => false,
        };
        let units = match rules::correct(corrected.entry.units, is_fact, sum, asked) {
            Ok(units) => units.negated(),
            Err(refused) => return Ok(Outcome::Refused(refused)),
        };
        let correction = correction_of(&corrected.entry, id.clone(), units, ask);
        match write(world, &correction, &ids_json, now).await {
            Ok(outcome) => return Ok(outcome),
            Err(fault) if failed_over == Some(sum) => return Err(fault),
            Err(_) => failed_over = Some(sum),
        }
    }
}

async fn write(
    world: &World,
    correction: &Entry,
    ids_json: &str,
    now: Millis,
) -> Result<Outcome, Fault> {
    let rows_json = batch::rows_json([correction])?;
    let mut all = vec![
        // Another that asks the same may have been quicker.
        entries::by_ids(ids_json),
        batch::no_conflict(&rows_json),
        still_left(correction),
    ];
    all.extend(batch::statements(None, &rows_json, &[], now));
    all.push(entries::by_ids(ids_json));
    let results = world.ledger.batch(all).await?;
    let row = results.last().and_then(|rows| rows.first());
    let row = row.ok_or_else(|| Fault::unreadable("read a correction back", "not there"))?;
    let recorded = Recorded::of_row(row)?;
    let was_there = results.first().is_some_and(|rows| !rows.is_empty());
    Ok(if was_there {
        Outcome::Again(recorded)
    } else {
        Outcome::New(recorded)
    })
}

fn correction_of(corrected: &Entry, id: EntryId, units: Delta, ask: &Ask) -> Entry {
    let owner = (
        corrected.account_id.clone(),
        corrected.feature.clone(),
        corrected.cycle.clone(),
    );
    let at = corrected.occurred_at;
    let mut correction = Entry::new(id, EntryKind::Correction, owner, units, at);
    correction.code.clone_from(&corrected.code);
    correction.job_id.clone_from(&corrected.job_id);
    correction.corrects = Some(corrected.entry_id.clone());
    correction.reason = Some(ask.reason.clone());
    correction.actor = Some(ask.actor.clone());
    correction
}

/// Fails the batch where less is left of the entry than the correction takes.
fn still_left(correction: &Entry) -> Statement {
    Statement::new(
        "insert into guard (held) select null from entry e where e.entry_id = ?1 \
         and e.units + (select coalesce(sum(c.units), 0) from entry c where c.corrects = ?1) \
         + cast(?2 as integer) < 0",
        params![
            correction.corrects.as_ref().map(EntryId::as_str),
            correction.units
        ],
    )
}

/// The audit stands in the other database. Its id is made from the correction, so that a repeat
/// after a crash between the two leaves the one row that is missing.
async fn leave_audit(
    world: &World,
    account: &Account,
    ask: &Ask,
    correction: &Recorded,
) -> Result<(), Fault> {
    let digest = hmac_sha256::Hash::hash(correction.entry.entry_id.as_str().as_bytes());
    let mut bits = [0; 16];
    for (bit, byte) in bits.iter_mut().zip(digest) {
        *bit = byte;
    }
    let audit_id = mint("aud_", correction.recorded_at, bits);
    let find = "select 1 as there from audit where audit_id = ?1";
    let there = world
        .db
        .query(Statement::new(find, params![audit_id.as_str()]))
        .await?;
    if there.is_empty() {
        let actor = correction.entry.actor.as_deref().unwrap_or(&ask.actor);
        let row = audit::row(
            correction.recorded_at,
            &audit_id,
            actor,
            "entry.correct",
            ask.entry_id.as_str(),
            Some(&account.account_id),
            Some(&ask.reason),
        );
        world.db.query(row).await?;
    }
    Ok(())
}
