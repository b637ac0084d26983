//! Who talks to the machine: jobs, visitors, counters of usage, the provider, operators. Each
//! repeats under the same key until it hears an answer, as the contract tells clients to.

use std::rc::Rc;

use serde_json::{Value as Json, json};

use super::world::{Heard, OPERATOR, World};
use crate::http::request::Request;
use crate::native::machine::request;

/// So often a client asks again before it gives up.
const TRIES: u32 = 12;

/// Asks until something other than 503 or silence is heard.
async fn persist(world: &World, method: &str, target: &str, body: &Json) -> Heard {
    let mut heard = Heard::Nothing;
    for round in 0..TRIES {
        heard = world.send(method, target, OPERATOR, body).await;
        if !matches!(heard.status(), 0 | 503) {
            if round > 0 {
                world.stats().count("client_retry_succeeded");
            }
            return heard;
        }
        world.stats().count("client_retried");
    }
    heard
}

/// What a job of the simulation does.
#[derive(Clone, Copy, Debug)]
pub struct JobPlan {
    /// Asked for at admission.
    pub hold: i64,
    /// How many charges.
    pub charges: i64,
    /// Each of so much.
    pub charge: i64,
    /// Whether it ends without a word.
    pub abandon: bool,
    /// Seconds of its lease.
    pub lease_seconds: i64,
}

/// A worker with one job.
pub async fn worker(world: Rc<World>, account: String, key: String, plan: JobPlan) {
    let target = format!("/v1/jobs?account={account}");
    let body = json!({"key": key, "feature": "tokens", "hold": plan.hold,
        "lease_seconds": plan.lease_seconds});
    let heard = persist(&world, "POST", &target, &body).await;
    world.stats().count(&format!("admit_{}", told(&heard)));
    world.books.borrow_mut().job(&account, &key).held = plan.hold;
    let Some(job_id) = heard.member("id").and_then(Json::as_str).map(str::to_owned) else {
        return;
    };
    world.books.borrow_mut().job(&account, &key).job_id = Some(job_id.clone());
    for number in 0..plan.charges {
        if !charge(&world, &account, &key, &job_id, (number, plan.charge)).await {
            return;
        }
    }
    if plan.abandon {
        world.stats().count("job_abandoned");
        return;
    }
    settle(&world, &account, &key, &job_id, plan).await;
}

/// One charge, heard or not; false where the job is over.
async fn charge(
    world: &World,
    account: &str,
    key: &str,
    job_id: &str,
    (number, units): (i64, i64),
) -> bool {
    let step = format!("step-{number}");
    let target = format!("/v1/jobs/{job_id}/charges?account={account}");
    let body = json!({"units": units, "step": step});
    world
        .books
        .borrow_mut()
        .job(account, key)
        .charges
        .insert(step.clone(), (units, None));
    let heard = persist(world, "POST", &target, &body).await;
    world.stats().count(&format!("charge_{}", told(&heard)));
    if heard.status() == 409 {
        // Over before this charge came: it was never recorded, unless an unheard try was.
        return false;
    }
    let Some(charged) = heard.member("charged").and_then(Json::as_i64) else {
        return true;
    };
    let note = (units, Some(charged));
    world
        .books
        .borrow_mut()
        .job(account, key)
        .charges
        .insert(step.clone(), note);
    if heard.member("capped") == Some(&Json::Bool(true)) {
        world.stats().count("capped");
    }
    let again = world.send("POST", &target, OPERATOR, &body).await;
    if let Some(second) = again.member("charged").and_then(Json::as_i64)
        && second != charged
    {
        let what = format!("{job_id} {step} charged {charged}, repeated {second}");
        world.books.borrow_mut().complain(what);
    }
    true
}

async fn settle(world: &World, account: &str, key: &str, job_id: &str, plan: JobPlan) {
    let used = world.chaos.chance.borrow_mut().between(0, plan.hold + 2);
    let target = format!("/v1/jobs/{job_id}/settle?account={account}");
    let body = json!({"used": used, "reason": "the simulation settles it"});
    world.books.borrow_mut().job(account, key).settle = Some((used, None));
    let first = persist(world, "POST", &target, &body).await;
    let state = first
        .member("state")
        .and_then(Json::as_str)
        .unwrap_or("nothing")
        .to_owned();
    world.stats().count(&format!("settle_{state}"));
    let Heard::Answer(200, answer) = first else {
        return;
    };
    world.books.borrow_mut().job(account, key).settle = Some((used, Some(answer.clone())));
    if let Heard::Answer(200, again) = world
        .send(
            "POST",
            &target,
            OPERATOR,
            &json!({"used": 0, "reason": "again"}),
        )
        .await
        && again.get("charged") != answer.get("charged")
    {
        let what = format!("{job_id} settled as {answer}, then as {again}");
        world.books.borrow_mut().complain(what);
    }
}

fn told(heard: &Heard) -> String {
    let code = heard.member("code").and_then(Json::as_str);
    code.map_or_else(|| heard.status().to_string(), str::to_owned)
}

/// A visitor of a short link.
pub async fn visitor(world: Rc<World>, account: String, code: String, number: u64) {
    let agents = [
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/130.0.0.0 Safari/537.36",
        "Twitterbot/1.0",
    ];
    let machine = number.is_multiple_of(5);
    let agent = if machine { agents[1] } else { agents[0] };
    let heard = world
        .send_request(click(&code, &format!("{agent} v{number}")))
        .await;
    let mut books = world.books.borrow_mut();
    let book = books.links.entry((account, code)).or_default();
    match (heard.status(), machine) {
        (302, true) => book.machines += 1,
        (302, false) => book.people += 1,
        (0, _) => book.unheard += 1,
        (_, _) => {}
    }
    drop(books);
    world.stats().count(&format!("visit_{}", heard.status()));
}

fn click(code: &str, agent: &str) -> Request {
    let mut click = request("GET", &format!("/{code}"), "", &Json::Null);
    click.headers = vec![("user-agent".to_owned(), agent.to_owned())];
    click
}

/// Somebody who counts other things.
pub async fn counter(world: Rc<World>, account: String, key: String, units: i64) {
    let target = format!("/v1/usage?account={account}");
    let body = json!({"key": key, "feature": "clicks", "units": units});
    let id = (account, key);
    let book = super::books::UsageBook {
        units,
        heard: false,
    };
    world
        .books
        .borrow_mut()
        .usage
        .insert(id.clone(), book.clone());
    let heard = persist(&world, "POST", &target, &body).await;
    world.stats().count(&format!("usage_{}", told(&heard)));
    if matches!(heard.status(), 200 | 201) {
        let book = super::books::UsageBook {
            heard: true,
            ..book
        };
        world.books.borrow_mut().usage.insert(id, book);
    }
}

/// The provider changes a customer's plan and tells of it, more than once, late, or never.
pub async fn plan_change(world: Rc<World>, account: String, plan: &'static str, number: u64) {
    let Some(customer) = world
        .books
        .borrow()
        .accounts
        .get(&account)
        .map(|b| b.customer_id.clone())
    else {
        return;
    };
    let target = format!("/standin/customers/{customer}");
    // Heard or not, and however late it comes, it may be in force from now on.
    if let Some(book) = world.books.borrow_mut().accounts.get_mut(&account) {
        let limit = if plan == "pro" { 100_000 } else { 10_000 };
        book.limit_max = book.limit_max.max(limit);
    }
    let heard = persist(&world, "PUT", &target, &json!({"plan": plan})).await;
    if heard.status() != 200 {
        return;
    }
    world.stats().count("plan_changed");
    for (index, kind) in ["plan_changed", "agreement_created", "payment_succeeded"]
        .iter()
        .enumerate()
    {
        if world.chaos.strikes(250) {
            world.stats().count("event_never_sent");
            continue;
        }
        let event_id = format!("event_{:032x}", u128::from(number) * 8 + index as u128);
        let deliver = world.chaos.chance.borrow_mut().between(1, 3);
        let body = json!({"type": format!("customer.{kind}"), "customer_id": customer,
            "event_id": event_id, "deliver": deliver, "data": {"plan": {"key": plan}}});
        let heard = persist(&world, "POST", "/standin/events", &body).await;
        world.stats().count(&format!("event_{}", heard.status()));
    }
}

/// Somebody else moves a meter behind our back.
pub async fn meddler(world: Rc<World>, account: String, total: i64) {
    let heard = persist(
        &world,
        "GET",
        &format!("/v1/accounts/{account}"),
        &Json::Null,
    )
    .await;
    let Some(agreement) = heard.member("agreement_id").and_then(Json::as_str) else {
        return;
    };
    let target = format!("/standin/meters/{agreement}/clicks");
    let heard = persist(&world, "PUT", &target, &json!({"total": total})).await;
    world
        .stats()
        .count(&format!("meter_moved_{}", heard.status()));
}

/// An operator runs one of the jobs of cron by hand, now and then while cron does too.
pub async fn operator(world: Rc<World>, job: &'static str) {
    let heard = world
        .send("POST", &format!("/v1/run/{job}"), OPERATOR, &json!({}))
        .await;
    world
        .stats()
        .count(&format!("run_{job}_{}", heard.status()));
}

/// An operator makes the provider fail.
pub async fn fault(world: Rc<World>, operation: &'static str, mode: &'static str, times: i64) {
    let body = json!({"operation": operation, "mode": mode, "times": times});
    let heard = persist(&world, "PUT", "/standin/faults", &body).await;
    world
        .stats()
        .count(&format!("fault_{mode}_{}", heard.status()));
}
