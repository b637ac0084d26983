//! The stand-in's clock: an offset that is added to every reading of the time, in the Worker, in
//! every object and in the stand-in itself. For tests and demonstrations of what takes a month.
//!
//! The stand-in keeps it. Setting it tells every shard and every account before it is answered; an
//! object whose storage is new asks for it; an isolate hears of it at most a second later.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::wire::{Ask, Reply};
use crate::accounts::store;
use crate::fault::Fault;
use crate::gate::wire::{self as gate, AccountAsk};
use crate::ledger::wire::{self, ShardAsk};
use crate::object::Object;
use crate::parallel;
use crate::ports::ObjectName;
use crate::world::World;

/// An isolate asks no more often.
const REFRESH_MS: i64 = 1000;
/// Objects that are told at the same time.
const TOLD_AT_ONCE: usize = 10;
/// Accounts are read a page at a time.
const ACCOUNTS_PAGE: i64 = 200;

#[derive(Debug, Serialize, Deserialize)]
struct Offset {
    offset_ms: i64,
}

/// Whether there is nothing to hear of, or this isolate has done so within a second.
pub fn is_heard(world: &World) -> bool {
    let machine = world.clock.read();
    let lately = |at: crate::units::Millis| machine.since(at).abs() < REFRESH_MS;
    !world.settings.has_stand_in() || world.isolate.clock_heard_at.get().is_some_and(lately)
}

/// Hears the offset where this isolate has not done so for a second. First in every request and
/// every tick of the cron. Where the stand-in is out of reach the last one stays.
pub async fn refresh(world: &Rc<World>) {
    if is_heard(world) {
        return;
    }
    let heard_at = &world.isolate.clock_heard_at;
    heard_at.set(Some(world.clock.read()));
    match ask_offset(world).await {
        Ok(offset_ms) => world.isolate.clock_offset_ms.set(offset_ms),
        Err(fault) => {
            heard_at.set(None);
            let fields = json!({"cause": fault.to_string()});
            world.log.line("error", "standin.clock", fields);
        }
    }
}

/// Sets the offset everywhere; gives the refusal where it is lower than the one before.
pub async fn set(world: &Rc<World>, offset_ms: i64) -> Result<Reply, Fault> {
    let reply = super::ask(&*world.objects, Ask::Clock { offset_ms }).await?;
    let Reply::Done(_) = reply else {
        return Ok(reply);
    };
    world.isolate.clock_offset_ms.set(offset_ms);
    world.isolate.clock_heard_at.set(Some(world.clock.read()));
    let told: ShardAsk = ShardAsk::Clock {
        v: wire::VERSION,
        offset_ms,
    };
    let message = json!(told).to_string();
    let shards = (0..world.settings.shards).map(ObjectName::LedgerShard);
    tell(world, shards.collect(), &message).await?;
    let message = AccountAsk::plain(gate::Ask::Clock { offset_ms }).to_json()?;
    let mut after = String::new();
    loop {
        let page = store::ids_after(&*world.db, &after, ACCOUNTS_PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(reply);
        };
        after = last.to_string();
        let accounts = page.into_iter().map(ObjectName::Account);
        tell(world, accounts.collect(), &message).await?;
    }
}

async fn tell(world: &World, objects: Vec<ObjectName>, message: &str) -> Result<(), Fault> {
    let asks = objects
        .into_iter()
        .map(|object| world.objects.ask(object, message.to_owned()));
    for answer in parallel::all(asks.collect(), TOLD_AT_ONCE).await {
        answer?;
    }
    Ok(())
}

/// New storage asks for the offset before its object does anything, and the isolate that the
/// object runs in hears of it. Right after `wake`.
pub async fn learn(object: &Object) -> Result<(), Fault> {
    if !object.world.settings.has_stand_in() {
        return Ok(());
    }
    if !object.knows_clock_offset()? {
        let offset_ms = ask_offset(&object.world).await?;
        // Being told while this was under way is newer.
        if !object.knows_clock_offset()? {
            object.set_clock_offset(offset_ms)?;
        }
    }
    let isolate = &object.world.isolate;
    let offset_ms = object.clock_offset_ms()?;
    // An object that is told only in a moment must not set back an isolate that knows.
    if isolate.clock_heard_at.get().is_none() || offset_ms > isolate.clock_offset_ms.get() {
        isolate.clock_offset_ms.set(offset_ms);
    }
    Ok(())
}

async fn ask_offset(world: &Rc<World>) -> Result<i64, Fault> {
    match super::ask(&*world.objects, Ask::Offset).await? {
        Reply::Done(answer) => {
            let offset: Offset = serde_json::from_value(answer)
                .map_err(|error| Fault::unreadable("read the clock's offset", error))?;
            Ok(offset.offset_ms)
        }
        Reply::Http { .. } | Reply::Lost { .. } | Reply::NotFound | Reply::Wrong { .. } => Err(
            Fault::unreadable("read the clock's offset", "it is another answer"),
        ),
    }
}

/// The stand-in's own part: its offset as it stands.
pub(super) fn offset(object: &Object) -> Result<Reply, Fault> {
    let offset_ms = object.clock_offset_ms()?;
    Ok(Reply::Done(json!(Offset { offset_ms })))
}

/// The stand-in's own part: stores an offset that is not lower than the one before.
pub(super) fn store_offset(object: &Object, offset_ms: i64) -> Result<Reply, Fault> {
    if object.knows_clock_offset()? && offset_ms < object.clock_offset_ms()? {
        return Ok(Reply::Wrong {
            field: "offset_ms".to_owned(),
            detail: "It is lower than the one before, and no object's time goes back.".to_owned(),
        });
    }
    object.set_clock_offset(offset_ms)?;
    Ok(Reply::Done(json!(Offset { offset_ms })))
}
