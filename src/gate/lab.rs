//! The Concurrency Lab's plain check: what the gate is there to replace.
//!
//! It reads what is spent, lets the job work, and writes the spending down afterwards, as most
//! budgets of most products do. Between reading and writing others read the same. It spends in a
//! demo table of its own; no account's budget, ledger or meter is touched.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::accounts::create::{Asked, Created, create};
use crate::fault::Fault;
use crate::parallel;
use crate::params;
use crate::plans::sync::SyncFault;
use crate::ports::{Later, Statement};
use crate::provider::standin::{self, wire};
use crate::settings::FeatureKind;
use crate::units::{CustomerId, FeatureName, Units};
use crate::world::World;

/// How long a job works, between the check and the end. The race needs no more than a moment.
pub const WORK_MS: u32 = 50;
/// What the plain check wrote down is forgotten after a day.
const KEEP_MS: i64 = 86_400_000;

/// What is raced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Race {
    /// What the plan allows.
    pub limit: Units,
    /// How many jobs.
    pub jobs: i64,
    /// What each needs.
    pub amount: Units,
    /// How many start at the same moment.
    pub at_once: usize,
}

/// What a job was told by the plain check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Whether it went to work.
    pub started: bool,
    /// What the check believed to be left.
    pub left: Units,
}

/// Races the jobs against the plain check; what each was told, and what was spent.
pub async fn plain(world: &World, race: Race) -> Result<(Vec<Checked>, i64), Fault> {
    let run_id = world.mint("lab_")?;
    let forget = "delete from lab_spend where at_ms < ?1";
    let before = world.now().after(-KEEP_MS);
    world
        .db
        .query(Statement::new(forget, params![before]))
        .await?;
    let works = (0..race.jobs)
        .map(|job| -> Later<'_, Result<Checked, Fault>> {
            Box::pin(check_then_spend(world, &run_id, race, job))
        })
        .collect();
    let told = parallel::all(works, race.at_once).await;
    let told = told.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok((told, spent(world, &run_id).await?))
}

async fn check_then_spend(
    world: &World,
    run_id: &str,
    race: Race,
    job: i64,
) -> Result<Checked, Fault> {
    let spent = Units::new(spent(world, run_id).await?).unwrap_or(Units::MAX);
    let left = race.limit.less(spent);
    let started = race.amount <= left;
    if started {
        world.timer.pause(WORK_MS).await;
        let note = "insert into lab_spend (run_id, job, amount, at_ms) values (?1, ?2, ?3, ?4)";
        let row = params![run_id, job, race.amount, world.now()];
        world.db.query(Statement::new(note, row)).await?;
    }
    Ok(Checked { started, left })
}

async fn spent(world: &World, run_id: &str) -> Result<i64, Fault> {
    let sum = "select coalesce(sum(amount), 0) as spent from lab_spend where run_id = ?1";
    let rows = world.db.query(Statement::new(sum, params![run_id])).await?;
    rows.first().map_or(Ok(0), |row| row.int("spent"))
}

/// A fresh demo account of the stand-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// Its id.
    pub account_id: String,
    /// Its API key.
    pub api_key: String,
    /// The gated feature that is limited.
    pub feature: FeatureName,
}

/// Makes a fresh demo account whose plan allows that much of the first gated feature.
pub async fn fresh_account(world: &Rc<World>, race: Race) -> Result<Fresh, Fault> {
    let doing = "make an account of the Lab";
    let features = &world.settings.features;
    let gated = features.iter().find(|(_, f)| f.kind == FeatureKind::Gated);
    let (feature, known) = gated.ok_or_else(|| Fault::not_configured("a gated feature"))?;
    let customer = world.mint("customer_demo")?;
    let limits = BTreeMap::from([(known.provider_key.clone(), Some(race.limit.get()))]);
    let put = wire::Ask::PutCustomer(wire::PutCustomer {
        customer_id: customer.clone(),
        plan: wire::PlanChange::Keep,
        agreement_id: None,
        limits: Some(limits),
        period_start_ms: None,
        period_end_ms: None,
    });
    match standin::ask(&*world.objects, put).await? {
        wire::Reply::Done(_) => {}
        _ => return Err(Fault::unreadable(doing, "it is not what was asked")),
    }
    let asked = Asked {
        customer_id: CustomerId::new(customer),
        name: Some("Concurrency Lab".to_owned()),
        jobs_per_minute: Some(race.jobs.max(world.settings.jobs_per_minute)),
        demo: true,
        ..Asked::default()
    };
    let created = create(world, &asked, "concurrency-lab").await;
    match created.map_err(SyncFault::fault)? {
        Created::New(account, api_key) => Ok(Fresh {
            account_id: account.account_id.to_string(),
            api_key,
            feature: feature.clone(),
        }),
        Created::Known(_) | Created::Refused(_) => Err(Fault::unavailable(doing, "it is not new")),
    }
}
