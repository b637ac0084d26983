//! The stand-in's customers: plan, agreement, limits and period, each as it now is.
//!
//! A customer that nobody set is on the plan `free`, with an agreement and the current calendar
//! month. Periods follow each other monthly by themselves; meters belong to an agreement and a
//! period, so they begin at 0 with a new one of either.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::wire::{PlanChange, PutCustomer, Reply};
use crate::cycle::{Anchor, cycle_at};
use crate::fault::Fault;
use crate::moment;
use crate::object::Object;
use crate::params;
use crate::ports::{Row, Sql, transact};
use crate::units::Millis;

/// What a plan says of each feature; `None` is no maximum.
type Features = BTreeMap<String, Option<i64>>;

/// The plan of a customer that nobody set.
const FIRST_PLAN: &str = "free";

/// The features of a plan; one that is not known has none.
fn features_of(plan: &str) -> Features {
    let tokens = match plan {
        "free" => 10_000,
        "pro" => 100_000,
        _ => return Features::new(),
    };
    let features = [("clicks", None), ("tokens", Some(tokens))];
    features
        .map(|(feature, limit)| (feature.to_owned(), limit))
        .into()
}

/// A customer as it now is.
#[derive(Clone, Debug)]
pub struct Customer {
    /// Its id at the provider.
    pub id: String,
    /// The current agreement and its plan.
    pub agreement: Option<(String, String)>,
    overrides: Features,
    pub subscribed_on: Millis,
    anchor: Anchor,
    pub period_start: Millis,
    pub period_end: Millis,
}

impl Customer {
    /// Each feature's limit; empty without a plan.
    pub fn limits(&self) -> Features {
        let Some((_, plan)) = &self.agreement else {
            return Features::new();
        };
        let mut limits = features_of(plan);
        limits.extend(self.overrides.clone());
        limits
    }

    fn describe(&self) -> Value {
        let (agreement_id, plan) = self.agreement.clone().unzip();
        json!({
            "customer_id": self.id,
            "plan": plan,
            "agreement_id": agreement_id,
            "limits": self.limits(),
            "period_start": moment::format(self.period_start),
            "period_end": moment::format(self.period_end),
        })
    }
}

/// An agreement of a customer.
pub struct Agreement {
    pub id: String,
    pub customer_id: String,
    pub plan: String,
    pub expires_at: Option<Millis>,
    /// Set once it has ended; while it runs, the customer's.
    period: Option<(Millis, Millis)>,
}

impl Agreement {
    fn of_row(row: &Row) -> Result<Self, Fault> {
        let start = row.opt_millis("period_start_ms")?;
        Ok(Self {
            id: row.text("agreement_id")?.to_owned(),
            customer_id: row.text("customer_id")?.to_owned(),
            plan: row.text("plan")?.to_owned(),
            expires_at: row.opt_millis("expires_at_ms")?,
            period: start.zip(row.opt_millis("period_end_ms")?),
        })
    }

    /// Its current period, or the one in which it ended.
    pub fn period(&self, customer: &Customer) -> (Millis, Millis) {
        self.period
            .unwrap_or((customer.period_start, customer.period_end))
    }

    /// The features that it contains.
    pub fn features(&self, customer: &Customer) -> Features {
        let mut features = features_of(&self.plan);
        features.extend(customer.overrides.clone());
        features
    }
}

/// The customer, made where nobody asked of it before, in the period that now runs.
pub fn current(object: &Object, customer_id: &str, now: Millis) -> Result<Customer, Fault> {
    let sql = &*object.sql;
    if let Some(customer) = load(sql, customer_id)? {
        return rolled(sql, customer, now);
    }
    let agreement_id = mint(object, "agreement_")?;
    transact(sql, || {
        let mut customer = unset(customer_id, now);
        begin(sql, &mut customer, &agreement_id, FIRST_PLAN, now)?;
        save(sql, &customer)?;
        Ok(customer)
    })
}

/// Changes a customer and gives what is now set.
pub fn put(object: &Object, change: &PutCustomer, now: Millis) -> Result<Reply, Fault> {
    let fresh_id = mint(object, "agreement_")?;
    let sql = &*object.sql;
    transact(sql, || {
        let known = load(sql, &change.customer_id)?;
        let mut customer = match known.clone() {
            Some(customer) => rolled(sql, customer, now)?,
            None => unset(&change.customer_id, now),
        };
        if let Some(wrong) = wrong_in(sql, change, &customer, known.is_some())? {
            return Ok(wrong);
        }
        if let Some(limits) = &change.limits {
            customer.overrides.clone_from(limits);
        }
        // An agreement ends in the period that ran until now, so the period is changed after it.
        let ended = customer.clone();
        set_period(&mut customer, change);
        set_plan(
            sql,
            change,
            &ended,
            &mut customer,
            &fresh_id,
            known.is_none(),
            now,
        )?;
        save(sql, &customer)?;
        let customer = rolled(sql, customer, now)?;
        Ok(Reply::Done(customer.describe()))
    })
}

/// Why a change cannot be made.
fn wrong_in(
    sql: &dyn Sql,
    change: &PutCustomer,
    customer: &Customer,
    is_known: bool,
) -> Result<Option<Reply>, Fault> {
    let wrong = |field: &str, detail: &str| {
        Ok(Some(Reply::Wrong {
            field: field.to_owned(),
            detail: detail.to_owned(),
        }))
    };
    if let Some(agreement_id) = &change.agreement_id {
        let other = agreement(sql, agreement_id)?;
        if other.is_some_and(|other| other.customer_id != change.customer_id) {
            return wrong("agreement_id", "Another customer has this agreement.");
        }
        if change.plan == PlanChange::End {
            return wrong("agreement_id", "Without a plan there is no agreement.");
        }
        if change.plan == PlanChange::Keep && is_known && customer.agreement.is_none() {
            return wrong("plan", "An agreement needs a plan.");
        }
    }
    let mut after = customer.clone();
    set_period(&mut after, change);
    if after.period_start >= after.period_end {
        return wrong("period_end", "A period ends after its start.");
    }
    Ok(None)
}

/// What is asked of the period: a start alone gives a month from there, an end is where the
/// following ones begin.
fn set_period(customer: &mut Customer, change: &PutCustomer) {
    let start = change.period_start_ms.map(Millis::new);
    let end = change.period_end_ms.map(Millis::new);
    if let Some(start) = start {
        customer.period_start = start;
        customer.anchor = Anchor::first(start);
        customer.period_end = cycle_at(&[customer.anchor], start).ends_at;
    }
    if let Some(end) = end.filter(|end| *end != customer.period_end) {
        customer.period_end = end;
        customer.anchor = Anchor::first(end);
    }
}

/// What is asked of plan and agreement. A changed plan ends the agreement and makes a new one,
/// unless the agreement is named too.
fn set_plan(
    sql: &dyn Sql,
    change: &PutCustomer,
    before: &Customer,
    customer: &mut Customer,
    fresh_id: &str,
    is_new: bool,
    now: Millis,
) -> Result<(), Fault> {
    let current = before.agreement.clone();
    let running = current.as_ref().map(|(_, plan)| plan.as_str());
    let plan = match &change.plan {
        PlanChange::End => return end(sql, before, customer, now),
        PlanChange::To(plan) => Some(plan.as_str()),
        PlanChange::Keep if is_new => Some(FIRST_PLAN),
        PlanChange::Keep => running,
    };
    let Some(plan) = plan.map(str::to_owned) else {
        return Ok(());
    };
    match (&current, &change.agreement_id) {
        (Some((id, _)), Some(asked)) if id == asked => {
            sql.query(
                "update agreement set plan = ?2 where agreement_id = ?1",
                &params![id.as_str(), plan.as_str()],
            )?;
            customer.agreement = Some((id.clone(), plan));
            Ok(())
        }
        (Some((_, running)), None) if *running == plan => Ok(()),
        _ => {
            end(sql, before, customer, now)?;
            let id = change.agreement_id.as_deref().unwrap_or(fresh_id);
            begin(sql, customer, id, &plan, now)
        }
    }
}

/// Ends the current agreement in its period.
fn end(
    sql: &dyn Sql,
    before: &Customer,
    customer: &mut Customer,
    now: Millis,
) -> Result<(), Fault> {
    if let Some((agreement_id, _)) = &before.agreement {
        sql.query(
            "update agreement set expires_at_ms = ?2, period_start_ms = ?3, period_end_ms = ?4 \
             where agreement_id = ?1",
            &params![
                agreement_id.as_str(),
                now,
                before.period_start,
                before.period_end
            ],
        )?;
    }
    customer.agreement = None;
    Ok(())
}

/// Begins an agreement, or one that had ended again.
fn begin(
    sql: &dyn Sql,
    customer: &mut Customer,
    agreement_id: &str,
    plan: &str,
    now: Millis,
) -> Result<(), Fault> {
    sql.query(
        "insert into agreement (agreement_id, number, customer_id, plan, created_at_ms) \
         values (?1, (select coalesce(max(number), 0) + 1 from agreement), ?2, ?3, ?4) \
         on conflict (agreement_id) do update set plan = excluded.plan, expires_at_ms = null, \
         period_start_ms = null, period_end_ms = null",
        &params![agreement_id, customer.id.as_str(), plan, now],
    )?;
    customer.agreement = Some((agreement_id.to_owned(), plan.to_owned()));
    customer.subscribed_on = now;
    Ok(())
}

/// The customer's agreements, oldest first.
pub fn agreements(sql: &dyn Sql, customer_id: &str) -> Result<Vec<Agreement>, Fault> {
    let rows = sql.query(
        "select agreement_id, customer_id, plan, expires_at_ms, period_start_ms, period_end_ms \
         from agreement where customer_id = ?1 order by number",
        &params![customer_id],
    )?;
    rows.iter().map(Agreement::of_row).collect()
}

/// The agreement of that id.
pub fn agreement(sql: &dyn Sql, agreement_id: &str) -> Result<Option<Agreement>, Fault> {
    let rows = sql.query(
        "select agreement_id, customer_id, plan, expires_at_ms, period_start_ms, period_end_ms \
         from agreement where agreement_id = ?1",
        &params![agreement_id],
    )?;
    rows.first().map(Agreement::of_row).transpose()
}

/// A customer before anything was set: the calendar month in which `now` lies.
fn unset(customer_id: &str, now: Millis) -> Customer {
    let anchor = Anchor::calendar_months();
    let month = cycle_at(&[anchor], now);
    Customer {
        id: customer_id.to_owned(),
        agreement: None,
        overrides: Features::new(),
        subscribed_on: now,
        anchor,
        period_start: month.starts_at,
        period_end: month.ends_at,
    }
}

/// The customer in the period that now runs.
fn rolled(sql: &dyn Sql, mut customer: Customer, now: Millis) -> Result<Customer, Fault> {
    if now < customer.period_end {
        return Ok(customer);
    }
    let period = cycle_at(&[customer.anchor], now);
    customer.period_start = period.starts_at.max(customer.period_end);
    customer.period_end = period.ends_at;
    save(sql, &customer)?;
    Ok(customer)
}

fn load(sql: &dyn Sql, customer_id: &str) -> Result<Option<Customer>, Fault> {
    let rows = sql.query(
        "select c.customer_id, c.agreement_id, a.plan, c.limits, c.subscribed_on_ms, \
         c.anchor_at_ms, c.anchor_day, c.period_start_ms, c.period_end_ms \
         from customer c left join agreement a on a.agreement_id = c.agreement_id \
         where c.customer_id = ?1",
        &params![customer_id],
    )?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let unreadable = |what| Fault::unreadable("read a customer of the stand-in", what);
    let agreement_id = row.opt_text("agreement_id")?.map(str::to_owned);
    Ok(Some(Customer {
        id: row.text("customer_id")?.to_owned(),
        agreement: agreement_id.zip(row.opt_text("plan")?.map(str::to_owned)),
        overrides: serde_json::from_str(row.text("limits")?).map_err(|_| unreadable("limits"))?,
        subscribed_on: row.millis("subscribed_on_ms")?,
        anchor: Anchor {
            at: row.millis("anchor_at_ms")?,
            day: u8::try_from(row.int("anchor_day")?).map_err(|_| unreadable("anchor"))?,
            opens: None,
        },
        period_start: row.millis("period_start_ms")?,
        period_end: row.millis("period_end_ms")?,
    }))
}

fn save(sql: &dyn Sql, customer: &Customer) -> Result<(), Fault> {
    let agreement_id = customer.agreement.as_ref().map(|(id, _)| id.as_str());
    sql.query(
        "insert into customer (customer_id, agreement_id, limits, subscribed_on_ms, \
         anchor_at_ms, anchor_day, period_start_ms, period_end_ms) \
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) \
         on conflict (customer_id) do update set agreement_id = excluded.agreement_id, \
         limits = excluded.limits, subscribed_on_ms = excluded.subscribed_on_ms, \
         anchor_at_ms = excluded.anchor_at_ms, anchor_day = excluded.anchor_day, \
         period_start_ms = excluded.period_start_ms, period_end_ms = excluded.period_end_ms",
        &params![
            customer.id.as_str(),
            agreement_id,
            json!(customer.overrides).to_string(),
            customer.subscribed_on,
            customer.anchor.at,
            u32::from(customer.anchor.day),
            customer.period_start,
            customer.period_end
        ],
    )?;
    Ok(())
}

/// A new id: the prefix and 32 hexadecimal digits, as Kinde makes them.
pub fn mint(object: &Object, prefix: &str) -> Result<String, Fault> {
    let number = u128::from_be_bytes(object.world.ids.random()?);
    Ok(format!("{prefix}{number:032x}"))
}
