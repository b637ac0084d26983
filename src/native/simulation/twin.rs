//! The undisturbed twin: the same accounts and the same facts on a machine where nothing goes
//! wrong. It must end with the same totals, plans and balances.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Value as Json, json};

use super::auditor::inbox::{account, plan_at_provider};
use super::auditor::ledger::rows;
use super::books::text;
use super::world::{OPERATOR, World};
use crate::fault::Fault;
use crate::native::hashes::Hashes;
use crate::native::machine::{Gear, Machine, request};
use crate::ports::Signatures;

/// Nothing goes wrong, and signatures cost nothing.
struct Undisturbed;

impl Gear for Undisturbed {
    fn signatures(&self) -> Rc<dyn Signatures> {
        Rc::new(Hashes::default())
    }
}

const SETTINGS: &[(&str, &str)] = &[
    ("SHARDS", "1"),
    ("JOBS_PER_MINUTE", "100000"),
    (
        "FEATURES",
        "clicks=clicks:counted tokens=tokens:gated images=images:gated",
    ),
];

struct Twin {
    machine: Machine,
    broken: Vec<String>,
}

impl Twin {
    fn ok(&mut self, method: &str, target: &str, body: &Json) -> Json {
        let (status, answer) = self.machine.call(method, target, OPERATOR, body);
        if !(200..303).contains(&status) {
            self.broken
                .push(format!("the twin: {method} {target}: {status} {answer}"));
        }
        answer
    }

    fn found(&mut self, id: &str, customer: &str) {
        let limits = json!({"limits": {"tokens": null, "images": null}});
        self.ok("PUT", &format!("/standin/customers/{customer}"), &limits);
        let body = json!({"id": id, "customer_id": customer});
        self.ok("POST", "/v1/accounts", &body);
        let code = id.replace("sim-", "code-");
        let link = json!({"code": code, "destination": "https://example.com/"});
        self.ok("POST", &format!("/v1/links?account={id}"), &link);
    }

    /// The provider's plan as it was in the end, told once.
    fn change_plan(&mut self, customer: &str, plan: &str) {
        let target = format!("/standin/customers/{customer}");
        self.ok("PUT", &target, &json!({"plan": plan}));
        let event = json!({"type": "customer.plan_changed", "customer_id": customer,
            "data": {"plan": {"key": plan}}, "deliver": 1});
        self.ok("POST", "/standin/events", &event);
        self.machine.advance(61_000);
    }

    fn job(&mut self, id: &str, key: &str, feature: &str, units: i64) {
        let body = json!({"key": format!("{key}-{feature}"), "feature": feature, "hold": units});
        let job = self.ok("POST", &format!("/v1/jobs?account={id}"), &body);
        let target = format!("/v1/jobs/{}/settle?account={id}", text(&job, "id"));
        self.ok(
            "POST",
            &target,
            &json!({"used": units, "reason": "it is done"}),
        );
    }

    fn click(&mut self, id: &str, is_machine: bool) {
        let code = id.replace("sim-", "code-");
        let mut click = request("GET", &format!("/{code}"), "", &Json::Null);
        let agent = if is_machine {
            "Twitterbot/1.0"
        } else {
            "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"
        };
        click.headers = vec![("user-agent".to_owned(), agent.to_owned())];
        let status = self.machine.handle(click).status;
        if status != 302 {
            self.broken.push(format!("the twin: {code}: {status}"));
        }
    }
}

/// Does what was accepted again, in order and without trouble, and compares the ends.
pub fn compare(world: &World) -> Result<(), Fault> {
    let mut twin = Twin {
        machine: Machine::geared(SETTINGS, Rc::new(Undisturbed))?,
        broken: Vec::new(),
    };
    let accounts = world.books.borrow().accounts.clone();
    for (id, book) in &accounts {
        twin.found(id, &book.customer_id);
        if book.plans.iter().any(|(_, plan)| plan == "pro") {
            twin.change_plan(&book.customer_id, "pro");
        }
        twin.change_plan(
            &book.customer_id,
            &plan_at_provider(world, &book.customer_id),
        );
    }
    do_again(world, &mut twin)?;
    twin.machine.advance(3_600_000);
    for job in ["sweeper", "inbox", "plans", "reporter", "reconciler"] {
        twin.ok("POST", &format!("/v1/run/{job}"), &json!({}));
    }
    for id in accounts.keys() {
        let (ours, theirs) = (account(world, id), {
            let target = format!("/v1/accounts/{id}");
            twin.ok("GET", &target, &Json::Null)
        });
        if ours.get("plan") != theirs.get("plan") {
            twin.broken
                .push(format!("{id}: {ours}, undisturbed {theirs}"));
        }
        let credits = |json: &Json| json.get("balance")?.get("credits")?.as_i64();
        // A plan of an earlier cycle, or one that nobody was told of in time, grants nothing now.
        if credits(&ours) > credits(&theirs) {
            twin.broken
                .push(format!("{id}: {ours}, undisturbed {theirs}"));
        }
    }
    let (ours, theirs) = (totals(&world.machine)?, totals(&twin.machine)?);
    if ours != theirs {
        twin.broken
            .push(format!("{ours:?}, undisturbed {theirs:?}"));
    }
    world.stats().count("twin_compared");
    twin.machine.objects.forget_world();
    world.books.borrow_mut().broken.extend(twin.broken);
    Ok(())
}

/// Every fact that the ledger ended with, as its client would have sent it.
fn do_again(world: &World, twin: &mut Twin) -> Result<(), Fault> {
    let jobs = world.books.borrow().jobs.clone();
    let charged = super::auditor::ledger::job_sums(world)?;
    for ((id, key), job) in jobs {
        for feature in job.lines.keys() {
            let place = (job.job_id.clone().unwrap_or_default(), feature.clone());
            if let Some(units) = charged.get(&place).copied().filter(|units| *units > 0) {
                twin.job(&id, &key, feature, units);
            }
        }
    }
    let usage = world.books.borrow().usage.clone();
    for row in rows(
        &world.machine.ledger,
        "select account_id, key from entry where kind = 'usage' order by 1, 2",
    )? {
        let place = (
            row.text("account_id")?.to_owned(),
            row.text("key")?.to_owned(),
        );
        if let Some(book) = usage.get(&place) {
            let body = json!({"key": place.1, "feature": "clicks", "units": book.units});
            twin.ok("POST", &format!("/v1/usage?account={}", place.0), &body);
        }
    }
    let visits = world.books.borrow().visits.clone();
    for row in rows(
        &world.machine.ledger,
        "select referrer_host as host from entry where kind = 'click' order by 1",
    )? {
        if let Some(book) = visits.get(row.opt_text("host")?.unwrap_or_default()) {
            twin.click(&book.account, book.is_machine);
        }
    }
    Ok(())
}

/// What each account used of each feature over all cycles, before people and the double-click rule
/// took anything back: those depend on who looked and when.
fn totals(machine: &Machine) -> Result<BTreeMap<(String, String), i64>, Fault> {
    let sql = "select account_id, feature, sum(units) as total from entry \
        where kind <> 'carry' and not (kind = 'correction' and (rule is null \
          or reason = 'double_click')) group by 1, 2";
    rows(&machine.ledger, sql)?
        .iter()
        .map(|row| {
            let place = (
                row.text("account_id")?.to_owned(),
                row.text("feature")?.to_owned(),
            );
            Ok((place, row.int("total")?))
        })
        .collect()
}
