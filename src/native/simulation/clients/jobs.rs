//! Workers: each holds, charges, extends and settles a job of one feature or of two, or dies.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Value as Json, json};

use super::{persist, told};
use crate::native::simulation::books::text;
use crate::native::simulation::chaos::turn;
use crate::native::simulation::world::{Heard, World};

/// So many turns a worker waits for the end of its lease.
const PATIENCE: u32 = 600;

/// What a job of the simulation does.
#[derive(Clone, Debug)]
pub struct JobPlan {
    /// Feature → asked for at admission.
    pub holds: BTreeMap<&'static str, i64>,
    /// How many charges.
    pub charges: i64,
    /// Each of so much.
    pub charge: i64,
    /// Asked for by an extension; 0 is none.
    pub extend: i64,
    /// Whether it gives signs of life in between.
    pub renew: bool,
    /// Whether it ends without a word.
    pub abandon: bool,
    /// Whether it settles only after its lease has run out.
    pub is_late: bool,
    /// Seconds of its lease.
    pub lease_seconds: i64,
}

/// A worker with one job.
pub struct Worker {
    world: Rc<World>,
    account: String,
    key: String,
    plan: JobPlan,
    job_id: String,
}

/// Does the job from its admission to its end.
pub async fn work(world: Rc<World>, account: String, key: String, plan: JobPlan) {
    let mut worker = Worker {
        world,
        account,
        key,
        plan,
        job_id: String::new(),
    };
    if worker.admit().await && worker.use_it().await {
        worker.end().await;
    }
}

impl Worker {
    fn count(&self, what: &str, heard: &Heard) {
        self.world.stats().count(&format!("{what}_{}", told(heard)));
    }

    async fn admit(&mut self) -> bool {
        let mut body = json!({"key": self.key, "lease_seconds": self.plan.lease_seconds});
        let holds: Vec<_> = self.plan.holds.clone().into_iter().collect();
        if let [(feature, hold)] = holds.as_slice() {
            merge(&mut body, json!({"feature": feature, "hold": hold}));
        } else {
            self.world.stats().count("admit_of_several");
            merge(&mut body, json!({"holds": self.plan.holds}));
        }
        let target = format!("/v1/jobs?account={}", self.account);
        let heard = persist(&self.world, "POST", &target, &body).await;
        self.count("admit", &heard);
        if let Some(reason) = heard.member("reason").and_then(Json::as_str) {
            self.world.stats().count(&format!("over_limit_{reason}"));
        }
        let Some(id) = heard.member("id").and_then(Json::as_str) else {
            return false;
        };
        id.clone_into(&mut self.job_id);
        let mut books = self.world.books.borrow_mut();
        books.job(&self.account, &self.key).job_id = Some(self.job_id.clone());
        for (feature, hold) in holds {
            let line = books.line(&self.account, &self.key, feature);
            line.held = hold;
        }
        true
    }

    async fn post(&self, what: &str, body: &Json) -> Heard {
        let target = format!("/v1/jobs/{}/{what}?account={}", self.job_id, self.account);
        let heard = persist(&self.world, "POST", &target, body).await;
        self.count(what, &heard);
        heard
    }

    /// Charges, extends, renews; false where the job is over or gone.
    async fn use_it(&self) -> bool {
        let features: Vec<_> = self.plan.holds.keys().copied().collect();
        for number in 0..self.plan.charges {
            let turn = usize::try_from(number).unwrap_or(0) % features.len().max(1);
            let Some(feature) = features.get(turn) else {
                return false;
            };
            if !self.charge(feature, number).await {
                return false;
            }
            if number == 1 && self.plan.extend > 0 && !self.extend(feature).await {
                return false;
            }
            if self.plan.renew && self.post("renew", &json!({})).await.status() == 409 {
                return false;
            }
        }
        true
    }

    async fn charge(&self, feature: &str, number: i64) -> bool {
        let (units, step) = (self.plan.charge, format!("step-{number}"));
        let body = json!({"units": units, "feature": feature, "step": step});
        let note = |heard| {
            let mut books = self.world.books.borrow_mut();
            let line = books.line(&self.account, &self.key, feature);
            line.charges.insert(step.clone(), (units, heard));
        };
        note(None);
        let heard = self.post("charges", &body).await;
        if matches!(heard.status(), 404 | 409) {
            // Over before this charge came: it was never recorded, unless an unheard try was.
            return false;
        }
        let Some(charged) = amount(&heard, "charged", feature) else {
            return true;
        };
        note(Some(charged));
        if heard.member("capped") == Some(&Json::Bool(true)) {
            self.world.stats().count("capped");
        }
        let target = format!("/v1/jobs/{}/charges?account={}", self.job_id, self.account);
        let again = self.world.send("POST", &target, &body).await;
        if let Some(second) = amount(&again, "charged", feature).filter(|n| *n != charged) {
            let what = format!("{} {step}: charged {charged}, then {second}", self.job_id);
            self.world.complain(what);
        }
        true
    }

    async fn extend(&self, feature: &str) -> bool {
        let units = self.plan.extend;
        let line = |change: fn(&mut crate::native::simulation::books::Line, i64)| {
            let mut books = self.world.books.borrow_mut();
            change(books.line(&self.account, &self.key, feature), units);
        };
        line(|line, units| line.maybe_held += units);
        let body = json!({"units": units, "feature": feature, "step": "extend"});
        let heard = self.post("extend", &body).await;
        match heard.status() {
            200 => line(|line, units| {
                line.maybe_held -= units;
                line.held += units;
            }),
            404 | 409 => return false,
            // Refused: nothing was held, unless by a try that was not heard.
            _ => {}
        }
        true
    }

    async fn end(&self) {
        if self.plan.abandon {
            self.world.stats().count("job_abandoned");
            return;
        }
        if self.plan.is_late {
            self.wait_for_the_lease().await;
        }
        let mut used = BTreeMap::new();
        for (feature, hold) in &self.plan.holds {
            let most = if self.plan.is_late {
                hold * 2
            } else {
                hold + 2
            };
            let units = self.world.chaos.chance.borrow_mut().between(0, most);
            used.insert(*feature, units);
            let mut books = self.world.books.borrow_mut();
            books.line(&self.account, &self.key, feature).used = Some(units);
        }
        let body = json!({"used": used, "reason": "the simulation settles it"});
        let first = self.post("settle", &body).await;
        let Heard::Answer(200, answer) = first else {
            return;
        };
        let state = text(&answer, "state").to_owned();
        self.world.stats().count(&format!("settle_{state}"));
        self.look_at(&answer, &state);
        let body = json!({"used": 0, "reason": "again"});
        let target = format!("/v1/jobs/{}/settle?account={}", self.job_id, self.account);
        if let Heard::Answer(200, again) = self.world.send("POST", &target, &body).await
            && again.get("charged") != answer.get("charged")
        {
            let what = format!("{} settled as {answer}, then as {again}", self.job_id);
            self.world.complain(what);
        }
    }

    /// Until the lease has certainly run out, or nothing moves the clock for too long.
    async fn wait_for_the_lease(&self) {
        let until = self.world.now().after(self.plan.lease_seconds * 1000 + 1);
        for _ in 0..PATIENCE {
            if self.world.now() > until {
                self.world.stats().count("settled_late");
                return;
            }
            turn().await;
        }
    }

    /// What settle says must follow from what was held, charged and used.
    fn look_at(&self, answer: &Json, state: &str) {
        let mut books = self.world.books.borrow_mut();
        let mut broken = Vec::new();
        for feature in self.plan.holds.keys() {
            let number = |name: &str| answer.get(name)?.get(feature)?.as_i64();
            let Some(charged) = number("charged") else {
                broken.push(format!("{}: settled as {answer}", self.job_id));
                continue;
            };
            let line = books.line(&self.account, &self.key, feature);
            line.said = Some(charged);
            if line.floor.is_some() || line.is_unsure() {
                continue;
            }
            let expected = if state == "settled" {
                line.used.unwrap_or(0).max(line.heard()).min(line.held)
            } else {
                line.heard()
            };
            let released = number("released").unwrap_or(-1);
            if charged != expected || charged + released != line.held {
                broken.push(format!("{}: settled as {answer}: {line:?}", self.job_id));
            }
        }
        books.job(&self.account, &self.key).state = Some(state.to_owned());
        books.broken.extend(broken);
    }
}

/// An amount of one feature: a number, or a map by feature.
fn amount(heard: &Heard, name: &str, feature: &str) -> Option<i64> {
    let member = heard.member(name)?;
    member.as_i64().or_else(|| member.get(feature)?.as_i64())
}

fn merge(body: &mut Json, more: Json) {
    if let (Some(body), Json::Object(more)) = (body.as_object_mut(), more) {
        body.extend(more);
    }
}
