//! What happens at the provider: plans change, with an agreement and a period of their own or
//! without; events are told in any order, twice, late or never; somebody moves meters; it fails.

use std::rc::Rc;

use serde_json::{Value as Json, json};

use super::persist;
use crate::http::request::{Body, Request};
use crate::moment;
use crate::native::machine::request;
use crate::native::simulation::books::{EventBook, text};
use crate::native::simulation::chaos::turn;
use crate::native::simulation::world::World;
use crate::units::Millis;

/// So many turns a delayed event is on its way at most.
const DELAY_TURNS: usize = 900;
/// A period lasts at least so long.
const PERIOD_MS_MIN: i64 = 180_000;

/// How a plan changes.
#[derive(Clone, Debug)]
pub struct Change {
    /// The plan; none ends the agreement.
    pub plan: Option<&'static str>,
    /// Whether an earlier agreement is taken up again.
    pub again: bool,
    /// Whether a period of its own begins.
    pub new_period: bool,
}

impl World {
    /// The provider changes one customer's plan; one change of a customer at a time.
    pub fn start_plan_change(self: &Rc<Self>, account: &str, change: Change, number: u64) {
        if !self.books.borrow_mut().changing.insert(account.to_owned()) {
            return;
        }
        let (world, account) = (Rc::clone(self), account.to_owned());
        self.start_client(Box::pin(async move {
            change_plan(&world, &account, &change, number).await;
            world.books.borrow_mut().changing.remove(&account);
        }));
    }
}

fn customer_of(world: &World, account: &str) -> Option<String> {
    let books = world.books.borrow();
    books
        .accounts
        .get(account)
        .map(|book| book.customer_id.clone())
}

async fn change_plan(world: &Rc<World>, account: &str, change: &Change, number: u64) {
    let Some(customer) = customer_of(world, account) else {
        return;
    };
    let target = format!("/standin/customers/{customer}");
    note_plan(world, account, change.plan);
    let mut body = json!({"plan": change.plan});
    if change.again && change.plan.is_some() {
        let known = persist(
            world,
            "GET",
            &format!("/v1/accounts/{account}"),
            &Json::Null,
        )
        .await;
        if let Some(id) = known.member("agreement_id").and_then(Json::as_str) {
            world.stats().count("agreement_taken_up_again");
            add(&mut body, "agreement_id", json!(id));
        }
    }
    if change.new_period
        && let Some((start, end)) = cycle(world, account).await
        && may_begin_anew(world, account, start)
    {
        world.stats().count("plan_changed_with_new_period");
        let now = world.now();
        add(&mut body, "period_start", json!(moment::format(now)));
        add(&mut body, "period_end", json!(moment::format(end)));
    }
    let heard = persist(world, "PUT", &target, &body).await;
    // Heard or not, and however late it came, it may be in force from now on.
    note_plan(world, account, change.plan);
    if heard.status() != 200 {
        return;
    }
    world.stats().count("plan_changed");
    if change.plan.is_none() {
        world.stats().count("plan_ended");
    }
    let agreement = heard.member("agreement_id").cloned().unwrap_or(Json::Null);
    tell(world, account, &customer, (change.plan, &agreement), number).await;
}

fn add(body: &mut Json, name: &str, value: Json) {
    if let Some(members) = body.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}

fn note_plan(world: &World, account: &str, plan: Option<&str>) {
    let now = world.now().get();
    if let Some(book) = world.books.borrow_mut().accounts.get_mut(account) {
        let limit = if plan == Some("pro") { 100_000 } else { 10_000 };
        let known = book.limits.entry("tokens".to_owned()).or_insert(limit);
        *known = (*known).max(limit);
        book.plans.push((now, plan.unwrap_or("free").to_owned()));
    }
}

/// Where the account's running cycle begins and ends.
async fn cycle(world: &World, account: &str) -> Option<(Millis, Millis)> {
    let target = format!("/v1/accounts/{account}");
    let known = persist(world, "GET", &target, &Json::Null).await;
    let cycle = known.member("cycle")?;
    let at = |name: &str| moment::parse_millis(text(cycle, name));
    at("starts_at").zip(at("ends_at"))
}

/// Periods that begin within a minute of each other are one: no provider begins two so soon.
fn may_begin_anew(world: &World, account: &str, cycle_starts_at: Millis) -> bool {
    let now = world.now();
    let mut books = world.books.borrow_mut();
    let Some(book) = books.accounts.get_mut(account) else {
        return false;
    };
    let last = book.period_began.max(cycle_starts_at.get());
    let may = now.get() - last > PERIOD_MS_MIN;
    if may {
        book.period_began = now.get();
    }
    may
}

/// Tells of the change: each kind of event once, twice, late or never, in any order.
async fn tell(
    world: &Rc<World>,
    account: &str,
    customer: &str,
    (plan, agreement): (Option<&str>, &Json),
    number: u64,
) {
    let mut kinds = match plan {
        Some(_) => vec!["plan_changed", "agreement_created", "payment_succeeded"],
        None => vec!["agreement_cancelled"],
    };
    if world.chaos.strikes(100) {
        kinds.push("payment_failed");
    }
    if world.chaos.strikes(300) {
        world.stats().count("events_reordered");
        kinds.reverse();
    }
    for (index, kind) in kinds.iter().enumerate() {
        if world.chaos.strikes(250) {
            world.stats().count("event_never_sent");
            continue;
        }
        let event_id = format!("event_{:032x}", u128::from(number) * 8 + index as u128);
        let mut data = json!({"plan": {"key": plan.unwrap_or("free")}});
        if agreement.is_string() {
            add(&mut data, "agreement_id", agreement.clone());
        }
        let late = world.chaos.strikes(200);
        let deliver = world.chaos.chance.borrow_mut().between(1, 3);
        let body = json!({"type": format!("customer.{kind}"), "customer_id": customer,
            "event_id": event_id, "deliver": if late { 0 } else { deliver }, "data": data});
        let book = EventBook {
            account: account.to_owned(),
            kind: (*kind).to_owned(),
            plan: plan.unwrap_or("free").to_owned(),
            at: world.now().get(),
            is_stored: false,
        };
        world
            .books
            .borrow_mut()
            .events
            .insert(event_id.clone(), book);
        let heard = persist(world, "POST", "/standin/events", &body).await;
        world.stats().count(&format!("event_{}", heard.status()));
        if late {
            if let Some(jwt) = heard.member("jwt").and_then(Json::as_str) {
                let arrival = deliver_late(Rc::clone(world), event_id, jwt.to_owned());
                world.start_client(Box::pin(arrival));
            }
        } else if let Some(answers) = heard.member("answers").and_then(Json::as_array)
            && answers.contains(&json!(200))
        {
            is_stored(world, &event_id);
        }
    }
}

fn is_stored(world: &World, event_id: &str) {
    if let Some(book) = world.books.borrow_mut().events.get_mut(event_id) {
        book.is_stored = true;
    }
}

/// A delivery that takes its time.
async fn deliver_late(world: Rc<World>, event_id: String, jwt: String) {
    for _ in 0..world.draw(DELAY_TURNS) {
        turn().await;
    }
    world.stats().count("event_delayed");
    let heard = world.send_request(delivery(&event_id, jwt)).await;
    if heard.status() == 200 {
        is_stored(&world, &event_id);
    }
}

fn delivery(event_id: &str, jwt: String) -> Request {
    let mut delivery = request("POST", "/webhooks/kinde", "", &Json::Null);
    delivery.headers = vec![
        ("content-type".to_owned(), "application/jwt".to_owned()),
        ("webhook-id".to_owned(), format!("webhook_{event_id}")),
    ];
    delivery.body = Body::Whole(jwt.into_bytes());
    delivery
}

/// The provider's period turns a little before or after our cycle, or somewhere else altogether.
pub async fn move_period(world: Rc<World>, account: String, by_ms: i64) {
    let (Some(customer), Some((start, end))) =
        (customer_of(&world, &account), cycle(&world, &account).await)
    else {
        return;
    };
    let body = json!({"period_end": moment::format(end.after(by_ms))});
    let note_other = || {
        if let Some(book) = world.books.borrow_mut().accounts.get_mut(&account) {
            book.has_other_period = true;
        }
    };
    // One that turns before the month's end turns on an earlier day from then on.
    if !(0..=60_000).contains(&by_ms) {
        note_other();
    }
    let target = format!("/standin/customers/{customer}");
    let heard = persist(&world, "PUT", &target, &body).await;
    if heard.status() == 200 {
        // Our cycle has turned and the provider's period had not: now it lies across two cycles.
        let began = heard.member("period_start").and_then(Json::as_str);
        let began = began.and_then(moment::parse_millis);
        if began.is_some_and(|began| start.since(began) > 60_000) {
            note_other();
        }
        let name = match by_ms {
            ..-60_000 | 60_001.. => "period_elsewhere",
            ..0 => "period_turns_before",
            _ => "period_turns_after",
        };
        world.stats().count(name);
    }
}

/// Somebody else moves a meter behind our back.
pub async fn meddle(world: Rc<World>, account: String, total: i64) {
    let target = format!("/v1/accounts/{account}");
    let heard = persist(&world, "GET", &target, &Json::Null).await;
    let Some(agreement) = heard.member("agreement_id").and_then(Json::as_str) else {
        return;
    };
    world
        .books
        .borrow_mut()
        .meddled
        .insert(agreement.to_owned());
    let target = format!("/standin/meters/{agreement}/clicks");
    let heard = persist(&world, "PUT", &target, &json!({"total": total})).await;
    world
        .stats()
        .count(&format!("meter_moved_{}", heard.status()));
}

/// The provider fails in that way, so many times.
pub async fn fail(world: Rc<World>, operation: &'static str, mode: &'static str, times: i64) {
    let body = json!({"operation": operation, "mode": mode, "times": times});
    let heard = persist(&world, "PUT", "/standin/faults", &body).await;
    world
        .stats()
        .count(&format!("fault_{mode}_{}", heard.status()));
}
