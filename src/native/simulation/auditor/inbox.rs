//! Events, plans and alerts.

use serde_json::{Value as Json, json};

use super::ledger::rows;
use crate::fault::Fault;
use crate::native::simulation::books::text;
use crate::native::simulation::world::{OPERATOR, World};

/// Invariants 8 and 10: what was answered 200 is stored; what is stored has ended, with a reason
/// or an alert; and of several claims of an event one took effect, unless it was replayed.
pub fn events_have_ended(world: &World) -> Result<(), Fault> {
    let control = &world.machine.control;
    let mut broken = Vec::new();
    let mut stored = Vec::new();
    for row in rows(control, "select event_id, status, result from event")? {
        let (id, status) = (row.text("event_id")?.to_owned(), row.text("status")?);
        let has_reason = row.opt_text("result")?.is_some_and(|text| !text.is_empty());
        let is_over = match status {
            "applied" | "dead" => true,
            "ignored" | "skipped" => has_reason,
            _ => false,
        };
        if !is_over {
            broken.push(format!("an event has not ended: {row:?}"));
        }
        stored.push(id);
    }
    for (id, book) in &world.books.borrow().events {
        if book.is_stored && !stored.contains(id) {
            broken.push(format!("{id} was answered 200 and is not stored: {book:?}"));
        }
    }
    let silent = "select e.event_id from event e where e.status = 'dead' and not exists \
        (select 1 from alert a where a.kind = 'dead' and a.subject like e.id || '/%')";
    for row in rows(control, silent)? {
        broken.push(format!("dead and not alerted: {row:?}"));
    }
    let twice = "select id from run where outcome in ('applied', 'ignored') \
        group by id having count(*) > 1";
    for row in rows(control, twice)? {
        if !world.books.borrow().replayed.contains(row.text("id")?) {
            broken.push(format!("an event was applied twice: {row:?}"));
        }
    }
    world.books.borrow_mut().broken.extend(broken);
    Ok(())
}

/// What the provider holds of a customer, asked of the provider.
pub fn plan_at_provider(world: &World, customer: &str) -> String {
    let target = format!("/standin/customers/{customer}");
    let (_, body) = world.machine.call("PUT", &target, OPERATOR, &json!({}));
    let plan = body.get("plan").and_then(Json::as_str);
    plan.unwrap_or("free").to_owned()
}

/// The account as it is answered.
pub fn account(world: &World, account: &str) -> Json {
    let target = format!("/v1/accounts/{account}");
    world.machine.call("GET", &target, OPERATOR, &Json::Null).1
}

/// Invariant 9, and the promise that a customer who paid is not left on the wrong plan. What the
/// provider holds is asked of the provider: a change that came late is a change too.
pub fn plans_are_the_providers(world: &World) {
    let accounts = world.books.borrow().accounts.clone();
    for (id, book) in accounts {
        let held = plan_at_provider(world, &book.customer_id);
        let answer = account(world, &id);
        if text(&answer, "plan") != held {
            let plan = text(&answer, "plan");
            world.complain(format!("{id} is on {plan} and not on {held}"));
        }
        let was_pro = book.plans.iter().any(|(_, plan)| plan == "pro");
        let credits = |json: &Json| json.get("balance")?.get("credits")?.as_i64();
        let granted = credits(&answer).unwrap_or(0);
        let fits = match granted {
            500 => was_pro,
            10 => held != "pro",
            _ => false,
        };
        if !fits {
            world.complain(format!("{id} has {granted} credits on {held}"));
        }
    }
}

/// A known object that begins a new epoch is alerted, while the ledger remembers the one before.
/// The first batch of one that was lost before the ledger knew it may land behind its successor's.
pub fn lost_storages_are_alerted(world: &World) -> Result<(), Fault> {
    if world.books.borrow().restores > 0 {
        return Ok(());
    }
    let lives = "select object, count(*) - 1 as more from feed group by object having count(*) > 1";
    for row in rows(&world.machine.ledger, lives)? {
        let (object, more) = (row.text("object")?, row.int("more")?);
        if world.books.borrow().lost_unknown.contains(object) {
            continue;
        }
        let told = format!(
            "select count(*) as n from alert where kind = 'new_feed_epoch' \
             and subject like '{object} %'"
        );
        let told = rows(&world.machine.control, &told)?;
        let told = told.first().map_or(Ok(0), |row| row.int("n"))?;
        if told < more {
            world.complain(format!("{object}: {more} new epochs, {told} alerts"));
        }
        world.stats().count("new_epoch_alerted");
    }
    Ok(())
}
