//! Counters of plain usage, people who correct entries, and those who send an old fact again.

use std::rc::Rc;

use serde_json::{Value as Json, json};

use super::{persist, told};
use crate::moment;
use crate::native::simulation::books::{CorrectionBook, UsageBook, text};
use crate::native::simulation::world::World;

/// Sends one fact until it is heard.
pub async fn count(world: Rc<World>, account: String, key: String, units: i64) {
    let occurred_at = (units % 3 == 0).then(|| moment::format(world.now()));
    let book = UsageBook {
        units,
        occurred_at,
        heard: false,
        excused: false,
    };
    world
        .books
        .borrow_mut()
        .usage
        .insert((account.clone(), key.clone()), book);
    send(&world, account, key).await;
}

async fn send(world: &World, account: String, key: String) {
    let target = format!("/v1/usage?account={account}");
    let id = (account, key);
    let Some(book) = world.books.borrow().usage.get(&id).cloned() else {
        return;
    };
    let mut body = json!({"key": id.1, "feature": "clicks", "units": book.units});
    if let (Some(at), Some(members)) = (book.occurred_at, body.as_object_mut()) {
        members.insert("occurred_at".to_owned(), json!(at));
    }
    let restores = world.books.borrow().restores;
    let heard = persist(world, "POST", &target, &body).await;
    world.stats().count(&format!("usage_{}", told(&heard)));
    let mut books = world.books.borrow_mut();
    // What was lost with the ledger has been sent again, unless the answer is older than that.
    let is_back = books.restores == restores;
    if matches!(heard.status(), 200 | 201)
        && let Some(book) = books.usage.get_mut(&id)
    {
        book.heard = true;
        book.excused &= !is_back;
    }
}

/// Sends a fact that was heard long ago again: it is the same fact.
pub async fn repeat(world: Rc<World>) {
    let heard: Vec<_> = {
        let books = world.books.borrow();
        let heard = books.usage.iter().filter(|(_, book)| book.heard);
        heard.map(|(id, _)| id.clone()).collect()
    };
    if let Some((account, key)) = heard.get(world.draw(heard.len())).cloned() {
        world.stats().count("usage_sent_again");
        send(&world, account, key).await;
    }
}

/// A person takes an entry back, in part or as a whole.
pub async fn correct(world: Rc<World>, account: String, number: u64) {
    let target = format!("/v1/entries?account={account}&limit=500");
    let entries = persist(&world, "GET", &target, &Json::Null).await.items();
    let facts: Vec<_> = entries
        .iter()
        .filter(|entry| matches!(text(entry, "kind"), "click" | "usage" | "job"))
        .collect();
    let Some(entry) = facts.get(world.draw(facts.len())) else {
        return;
    };
    let id = text(entry, "id").to_owned();
    let reason = format!("corrected-{number}");
    let mut body = json!({"reason": reason});
    if number.is_multiple_of(2)
        && text(entry, "kind") != "click"
        && let Some(members) = body.as_object_mut()
    {
        members.insert("units".to_owned(), json!(1));
    }
    let target = format!("/v1/entries/{id}/correction?account={account}");
    let place = (id, reason);
    let before = world.books.borrow().restores;
    let heard = persist(&world, "POST", &target, &body).await;
    world.stats().count(&format!("correction_{}", told(&heard)));
    if let (200 | 201, Some(units)) = (heard.status(), heard.number("units")) {
        let mut books = world.books.borrow_mut();
        // The answer may be older than a ledger that was put back meanwhile.
        let excused = books.restores != before;
        let book = CorrectionBook {
            account,
            units: units.abs(),
            excused,
        };
        books.corrections.insert(place, book);
    }
}
