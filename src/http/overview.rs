//! What the overview shows, read from both databases.

use std::collections::BTreeMap;

use super::app::Call;
use super::list::Page;
use super::reply::{Answer, Failure, Response};
use crate::accounts::{Account, store};
use crate::cron::Job;
use crate::fault::Fault;
use crate::ledger::totals::within;
use crate::moment::DAY_MS;
use crate::pages::{self, AccountLine, AlertLine, Counts, Overview};
use crate::params;
use crate::ports::{Db, Row, Statement};
use crate::units::Millis;
use crate::world::World;

/// Alerts on the page.
const ALERTS_SHOWN: i64 = 10;

/// `GET /app`: an account is sent to its own page.
pub async fn overview(call: Call) -> Answer {
    if let Some(own) = call.caller()?.account_id.as_ref() {
        return Ok(Response::see_other(&format!("/app/accounts/{own}")));
    }
    let page = Page::of(&call.request)?;
    let view = load(&call.world, &page, call.now).await?;
    Ok(super::pages::html(
        200,
        pages::overview(&call.viewer(), &view),
    ))
}

async fn load(world: &World, page: &Page, now: Millis) -> Result<Overview, Failure> {
    let (db, ledger) = (&*world.db, &*world.ledger);
    let rows = store::list(db, page.after_or_first(), page.rows()).await?;
    let (accounts, next) = page.cut(rows, |account| account.account_id.to_string());
    let hidden = store::demo_ids(world).await?;
    Ok(Overview {
        counts: counts(world, &hidden, now).await?,
        features: features(ledger, &hidden).await?,
        events: events(db).await?,
        runs: runs(db).await?,
        alerts: alerts(db).await?,
        accounts: accounts.iter().map(|account| line(account, now)).collect(),
        next,
        read_at: now,
    })
}

async fn counts(world: &World, hidden: &str, now: Millis) -> Result<Vec<Counts>, Fault> {
    let sql = "select (select count(*) from account where demo = 0) as accounts, \
        (select count(*) from link l join account a on a.account_id = l.account_id \
        where a.demo = 0) as links, \
        (select count(*) from account where payment = 'overdue' and demo = 0) as overdue, \
        (select count(*) from event e left join account a on a.customer_id = e.customer_id \
        where e.status = 'dead' and coalesce(a.demo, 0) = 0) as dead, \
        (select count(*) from alert where raised_at_ms > ?1) as alerts";
    let control = one(&*world.db, Statement::new(sql, params![now.after(-DAY_MS)])).await?;
    let sql = "select (select count(*) from review where closed_at_ms is null \
        and (account_id is null or account_id not in (select value from json_each(?1)))) \
        as review, (select count(*) from feed where due_at_ms is not null) as busy";
    let ledgers = one(&*world.ledger, Statement::new(sql, params![hidden])).await?;
    let count = |row: &Row, label, name, href, watch| {
        let value = row.int(name)?;
        Ok::<_, Fault>(Counts {
            label,
            value,
            href,
            watch,
        })
    };
    Ok(vec![
        count(&control, "accounts", "accounts", Some("#accounts"), false)?,
        count(&control, "links", "links", Some("/app/links"), false)?,
        count(&ledgers, "objects with something due", "busy", None, false)?,
        count(
            &ledgers,
            "to be reviewed",
            "review",
            Some("/app/reconcile"),
            true,
        )?,
        count(
            &control,
            "dead events",
            "dead",
            Some("/app/events?status=dead"),
            true,
        )?,
        count(&control, "payments overdue", "overdue", None, true)?,
        count(&control, "alerts in 24 hours", "alerts", None, true)?,
    ])
}

async fn one(db: &dyn Db, statement: Statement) -> Result<Row, Fault> {
    let rows = db.query(statement).await?;
    rows.into_iter()
        .next()
        .ok_or_else(|| Fault::unreadable("count", "no row"))
}

async fn features(ledger: &dyn Db, hidden: &str) -> Result<Vec<(String, i64, i64)>, Fault> {
    let sql = format!(
        "select feature, {} as total, sum(version > told) as marked \
         from counter where account_id not in (select value from json_each(?1)) \
         group by feature order by feature",
        within("sum(total)")
    );
    let rows = ledger.query(Statement::new(sql, params![hidden])).await?;
    rows.iter()
        .map(|row| {
            let feature = row.text("feature")?.to_owned();
            Ok((feature, row.int("total")?, row.int("marked")?))
        })
        .collect()
}

async fn events(db: &dyn Db) -> Result<Vec<(String, i64)>, Fault> {
    let sql = "select e.status as status, count(*) as events from event e \
        left join account a on a.customer_id = e.customer_id where coalesce(a.demo, 0) = 0 \
        group by e.status order by e.status";
    let rows = db.query(Statement::new(sql, vec![])).await?;
    rows.iter()
        .map(|row| Ok((row.text("status")?.to_owned(), row.int("events")?)))
        .collect()
}

/// Every job that the cron does, also one that it has not done yet.
async fn runs(db: &dyn Db) -> Result<Vec<(String, Option<Millis>)>, Fault> {
    let sql = "select name, finished_at_ms from cron where finished_at_ms is not null";
    let rows = db.query(Statement::new(sql, vec![])).await?;
    let mut finished = BTreeMap::new();
    for row in &rows {
        finished.insert(row.text("name")?, row.millis("finished_at_ms")?);
    }
    let names = ["tick"].into_iter().chain(Job::ALL.map(Job::name));
    Ok(names
        .map(|name| (name.to_owned(), finished.get(name).copied()))
        .collect())
}

async fn alerts(db: &dyn Db) -> Result<Vec<AlertLine>, Fault> {
    let sql = "select kind, subject, raised_at_ms, sent_at_ms from alert \
        order by raised_at_ms desc, kind, subject limit cast(?1 as integer)";
    let rows = db.query(Statement::new(sql, params![ALERTS_SHOWN])).await?;
    rows.iter()
        .map(|row| {
            Ok(AlertLine {
                at: row.millis("raised_at_ms")?,
                kind: row.text("kind")?.to_owned(),
                subject: row.text("subject")?.to_owned(),
                is_sent: row.opt_millis("sent_at_ms")?.is_some(),
            })
        })
        .collect()
}

fn line(account: &Account, now: Millis) -> AccountLine {
    let cycle = account.cycle_at(now);
    AccountLine {
        id: account.account_id.to_string(),
        name: account.name.clone(),
        plan: account.plan.to_string(),
        payment: account.payment.clone(),
        cycle: (cycle.name.to_string(), cycle.ends_at),
    }
}
