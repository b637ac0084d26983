//! Operators: they run crons by hand, replay and skip events, sync plans, close and carry reviews,
//! now and then while cron and others do the same.

use std::rc::Rc;

use serde_json::{Value as Json, json};

use super::{persist, told};
use crate::native::simulation::books::text;
use crate::native::simulation::world::World;

/// Runs one of the jobs of cron.
pub async fn run(world: Rc<World>, job: &'static str) {
    let heard = world
        .send("POST", &format!("/v1/run/{job}"), &json!({}))
        .await;
    world
        .stats()
        .count(&format!("run_{job}_{}", heard.status()));
    if job == "reconciler" {
        count_found(&world, "reconciler", &heard);
    }
}

fn count_found(world: &World, what: &str, heard: &crate::native::simulation::world::Heard) {
    for name in ["matched", "repaired", "drifted", "unreadable", "incomplete"] {
        let found = heard.number(name).unwrap_or(0);
        let found = u64::try_from(found).unwrap_or(0);
        world.stats().add(&format!("{what}_{name}"), found);
    }
}

/// Compares one account, or all of them without writing.
pub async fn reconcile(world: Rc<World>, account: String, is_dry: bool) {
    let (what, body) = if is_dry {
        ("dry_run", json!({"dry_run": true}))
    } else {
        ("reconciler", json!({"account": account}))
    };
    let heard = world.send("POST", "/v1/run/reconciler", &body).await;
    world
        .stats()
        .count(&format!("run_{what}_{}", heard.status()));
    count_found(&world, what, &heard);
}

/// Asks for a sync of the plan.
pub async fn sync(world: Rc<World>, account: String) {
    let target = format!("/v1/account/sync?account={account}");
    let heard = world.send("POST", &target, &json!({})).await;
    world.stats().count(&format!("sync_{}", told(&heard)));
}

/// Replays an event, or skips one.
pub async fn judge_event(world: Rc<World>, account: String, skips: bool) {
    let target = format!("/v1/events?account={account}&limit=500");
    let events = persist(&world, "GET", &target, &Json::Null).await.items();
    let is_open = |event: &&Json| !matches!(text(event, "status"), "applied" | "ignored");
    let events: Vec<_> = events.iter().filter(|e| !skips || is_open(e)).collect();
    let Some(event) = events.get(world.draw(events.len())) else {
        return;
    };
    let (what, body) = if skips {
        ("skip", json!({"reason": "it is of no use"}))
    } else {
        ("replay", json!({}))
    };
    let id = text(event, "id").to_owned();
    let target = format!("/v1/events/{id}/{what}");
    world.books.borrow_mut().replayed.insert(id);
    let heard = persist(&world, "POST", &target, &body).await;
    world.stats().count(&format!("{what}_{}", told(&heard)));
}

/// Looks at the open reviews: closes some, carries what can be carried.
pub async fn review(world: Rc<World>) {
    let open = persist(&world, "GET", "/v1/review?limit=500", &Json::Null).await;
    for item in open.items() {
        let is_tail = matches!(text(&item, "kind"), "tail" | "closed_cycle");
        let what = if is_tail && world.draw(3) > 0 {
            "carry"
        } else {
            "close"
        };
        end_review(&world, &item, what).await;
    }
}

async fn end_review(world: &World, item: &Json, what: &str) {
    let target = format!("/v1/review/{}/{what}", text(item, "id"));
    let body = json!({"reason": "looked at"});
    let heard = persist(world, "POST", &target, &body).await;
    let name = if heard.status() == 200 {
        text(item, "kind").to_owned()
    } else {
        told(&heard)
    };
    world.stats().count(&format!("{what}_of_{name}"));
}
