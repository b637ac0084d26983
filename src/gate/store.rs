//! The rows of an account's object: read and written one by one, no decision here.

use std::collections::BTreeMap;

use super::account::{read_json, write_json};
use super::rules::{Hold, State};
use super::wire::{ByHand, EstimatesView, RefusalView};
use crate::fault::Fault;
use crate::params;
use crate::ports::{Row, Sql, Value};
use crate::units::{CycleName, FeatureName, JobId, Millis, Units};

/// A job's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow {
    pub job_id: JobId,
    pub key: String,
    /// The request that made it, in one canonical form.
    pub ask: String,
    pub state: State,
    pub capped: bool,
    pub cycle: CycleName,
    pub lease_seconds: i64,
    pub lease_ends_at: Millis,
    pub created_at: Millis,
    pub ended_at: Option<Millis>,
    pub outcome: Option<String>,
    pub by_hand: Option<ByHand>,
    /// By feature and cycle, in that order.
    pub holds: Vec<HoldRow>,
}

/// What a job holds of a feature in a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRow {
    pub feature: FeatureName,
    pub cycle: CycleName,
    pub hold: Hold,
    pub uncovered: Units,
    pub late: Units,
}

/// What a job holds of one feature, over all its cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    pub hold: Hold,
    pub uncovered: Units,
    pub late: Units,
}

impl JobRow {
    /// The job's features, each with its sums.
    pub fn totals(&self) -> Result<BTreeMap<FeatureName, Total>, Fault> {
        let mut totals: BTreeMap<FeatureName, Total> = BTreeMap::new();
        for row in &self.holds {
            let total = totals.entry(row.feature.clone()).or_default();
            total.hold.held = sum(total.hold.held, row.hold.held)?;
            total.hold.charged = sum(total.hold.charged, row.hold.charged)?;
            total.uncovered = total.uncovered.plus(row.uncovered).unwrap_or(Units::MAX);
            total.late = total.late.plus(row.late).unwrap_or(Units::MAX);
        }
        Ok(totals)
    }
}

/// A sum of stored amounts, which a guard has shown to fit.
pub fn sum(a: Units, b: Units) -> Result<Units, Fault> {
    a.plus(b)
        .ok_or_else(|| Fault::unreadable("add two stored amounts", "their sum is too large"))
}

const JOB: &str = "select j.job_id, j.key, j.ask, j.state, j.capped, j.cycle as job_cycle, \
    j.lease_seconds, j.lease_ends_ms, j.created_ms, j.ended_ms, j.outcome, \
    j.by_hand, \
    h.feature, h.cycle, h.held, h.charged, h.uncovered, h.late \
    from job j join hold h on h.job_id = j.job_id";

fn jobs_of(rows: &[Row]) -> Result<Vec<JobRow>, Fault> {
    let mut jobs: Vec<JobRow> = Vec::new();
    for row in rows {
        let job_id = row.id("job_id", JobId::new)?;
        if jobs.last().is_none_or(|job| job.job_id != job_id) {
            jobs.push(job_of(row, job_id)?);
        }
        let hold = HoldRow {
            feature: row.id("feature", FeatureName::new)?,
            cycle: row.id("cycle", CycleName::new)?,
            hold: Hold {
                held: row.units("held")?,
                charged: row.units("charged")?,
            },
            uncovered: row.units("uncovered")?,
            late: row.units("late")?,
        };
        if let Some(job) = jobs.last_mut() {
            job.holds.push(hold);
        }
    }
    Ok(jobs)
}

fn job_of(row: &Row, job_id: JobId) -> Result<JobRow, Fault> {
    let state = row.text("state")?;
    Ok(JobRow {
        job_id,
        key: row.text("key")?.to_owned(),
        ask: row.text("ask")?.to_owned(),
        state: State::parse(state).ok_or_else(|| Fault::unreadable("read a job", state))?,
        capped: row.int("capped")? != 0,
        cycle: row.id("job_cycle", CycleName::new)?,
        lease_seconds: row.int("lease_seconds")?,
        lease_ends_at: row.millis("lease_ends_ms")?,
        created_at: row.millis("created_ms")?,
        ended_at: row.opt_millis("ended_ms")?,
        outcome: row.opt_text("outcome")?.map(str::to_owned),
        by_hand: row.opt_text("by_hand")?.map(read_json).transpose()?,
        holds: Vec::new(),
    })
}

/// The job of that id.
pub fn job(sql: &dyn Sql, job_id: &str) -> Result<Option<JobRow>, Fault> {
    let text = format!("{JOB} where j.job_id = ?1 order by h.feature, h.cycle");
    Ok(jobs_of(&sql.query(&text, &params![job_id])?)?.pop())
}

/// The job of that key.
pub fn job_by_key(sql: &dyn Sql, key: &str) -> Result<Option<JobRow>, Fault> {
    let text = format!("{JOB} where j.key = ?1 order by h.feature, h.cycle");
    Ok(jobs_of(&sql.query(&text, &params![key])?)?.pop())
}

/// All running jobs.
pub fn running_jobs(sql: &dyn Sql) -> Result<Vec<JobRow>, Fault> {
    let text = format!("{JOB} where j.state = 'running' order by j.job_id, h.feature, h.cycle");
    jobs_of(&sql.query(&text, &[])?)
}

/// When the next lease of a running job ends.
pub fn next_lease(sql: &dyn Sql) -> Result<Option<Millis>, Fault> {
    let text = "select min(lease_ends_ms) as at_ms from job where state = 'running'";
    let rows = sql.query(text, &[])?;
    rows.first().map_or(Ok(None), |row| row.opt_millis("at_ms"))
}

/// How many running jobs hold something of the feature in that cycle.
pub fn running_count(sql: &dyn Sql, feature: &str, cycle: &str) -> Result<i64, Fault> {
    let text = "select count(*) as n from job j \
        join hold h on h.job_id = j.job_id and h.feature = ?1 and h.cycle = ?2 \
        where j.state = 'running'";
    let rows = sql.query(text, &params![feature, cycle])?;
    rows.first().map_or(Ok(0), |row| row.int("n"))
}

/// A page of jobs, newest first, older than `after`.
pub fn jobs(
    sql: &dyn Sql,
    state: Option<&str>,
    feature: Option<&str>,
    limit: i64,
    after: Option<&str>,
) -> Result<Vec<JobRow>, Fault> {
    let text = format!(
        "{JOB} where j.job_id in (select k.job_id from job k \
           where (?1 is null or k.state = ?1) and (?3 is null or k.job_id < ?3) \
           and (?2 is null or exists (select 1 from hold g \
             where g.job_id = k.job_id and g.feature = ?2)) \
           order by k.job_id desc limit cast(?4 as integer)) \
         order by j.job_id desc, h.feature, h.cycle"
    );
    jobs_of(&sql.query(&text, &params![state, feature, after, limit])?)
}

/// Writes a new job and its holds.
pub fn insert_job(sql: &dyn Sql, job: &JobRow) -> Result<(), Fault> {
    sql.query(
        "insert into job (job_id, key, ask, state, capped, cycle, lease_seconds, lease_ends_ms, \
         created_ms) values (?1, ?2, ?3, ?4, 0, ?5, ?6, ?7, ?8)",
        &params![
            job.job_id.as_str(),
            job.key.as_str(),
            job.ask.as_str(),
            job.state.name(),
            job.cycle.as_str(),
            job.lease_seconds,
            job.lease_ends_at,
            job.created_at,
        ],
    )?;
    job.holds
        .iter()
        .try_for_each(|row| put_hold(sql, &job.job_id, row))
}

/// Writes what may change of a job: state, lease, end.
pub fn update_job(sql: &dyn Sql, job: &JobRow) -> Result<(), Fault> {
    sql.query(
        "update job set state = ?2, capped = ?3, lease_ends_ms = ?4, ended_ms = ?5, outcome = ?6, \
         by_hand = ?7 where job_id = ?1",
        &params![
            job.job_id.as_str(),
            job.state.name(),
            job.capped,
            job.lease_ends_at,
            job.ended_at,
            job.outcome.as_deref(),
            job.by_hand.as_ref().map(write_json).transpose()?,
        ],
    )?;
    Ok(())
}

/// Writes what a job holds of a feature in a cycle.
pub fn put_hold(sql: &dyn Sql, job_id: &JobId, row: &HoldRow) -> Result<(), Fault> {
    sql.query(
        "insert into hold (job_id, feature, cycle, held, charged, uncovered, late) \
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
         on conflict (job_id, feature, cycle) do update set held = excluded.held, \
         charged = excluded.charged, uncovered = excluded.uncovered, late = excluded.late",
        &params![
            job_id.as_str(),
            row.feature.as_str(),
            row.cycle.as_str(),
            row.hold.held,
            row.hold.charged,
            row.uncovered,
            row.late,
        ],
    )?;
    Ok(())
}

/// What was asked and answered under a step.
pub fn step(sql: &dyn Sql, job_id: &str, step: &str) -> Result<Option<(String, String)>, Fault> {
    let text = "select ask, answer from step where job_id = ?1 and step = ?2";
    let rows = sql.query(text, &params![job_id, step])?;
    rows.first()
        .map(|row| Ok((row.text("ask")?.to_owned(), row.text("answer")?.to_owned())))
        .transpose()
}

/// Keeps what was asked and answered under a step.
pub fn insert_step(
    sql: &dyn Sql,
    job_id: &str,
    step: &str,
    ask: &str,
    answer: &str,
) -> Result<(), Fault> {
    sql.query(
        "insert into step (job_id, step, ask, answer) values (?1, ?2, ?3, ?4)",
        &params![job_id, step, ask, answer],
    )?;
    Ok(())
}

/// Counts an ended job.
pub fn add_estimate(
    sql: &dyn Sql,
    feature: &FeatureName,
    cycle: &CycleName,
    tenth: i64,
    ended: (bool, State),
    hold: Hold,
) -> Result<(), Fault> {
    let (capped, state) = ended;
    sql.query(
        "insert into estimate (feature, cycle, tenth, jobs, capped, expired, held, charged) \
         values (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7) on conflict (feature, cycle, tenth) do update \
         set jobs = jobs + 1, capped = capped + excluded.capped, \
         expired = expired + excluded.expired, \
         held = min(held + excluded.held, 9007199254740991), \
         charged = min(charged + excluded.charged, 9007199254740991)",
        &params![
            feature.as_str(),
            cycle.as_str(),
            tenth,
            capped,
            state == State::Expired,
            hold.held,
            hold.charged,
        ],
    )?;
    Ok(())
}

/// The counts of ended jobs.
pub fn estimates(sql: &dyn Sql, feature: &str, cycle: &str) -> Result<EstimatesView, Fault> {
    let text = "select tenth, jobs, capped, expired, held, charged from estimate \
        where feature = ?1 and cycle = ?2";
    let mut view = EstimatesView {
        cycle: cycle.to_owned(),
        tenths: vec![0; 10],
        ..EstimatesView::default()
    };
    for row in sql.query(text, &params![feature, cycle])? {
        let jobs = row.int("jobs")?;
        view.jobs += jobs;
        view.capped += row.int("capped")?;
        view.expired += row.int("expired")?;
        view.held = view.held.saturating_add(row.int("held")?);
        view.charged = view.charged.saturating_add(row.int("charged")?);
        let place = usize::try_from(row.int("tenth")?).unwrap_or(0);
        if let Some(count) = view.tenths.get_mut(place) {
            *count = jobs;
        }
    }
    Ok(view)
}

/// How many refusals are kept.
const REFUSALS_MAX: i64 = 50;

/// Keeps a refusal in place of the fiftieth before it.
pub fn put_refusal(sql: &dyn Sql, refusal: &RefusalView) -> Result<(), Fault> {
    let mut values = params![
        refusal.at_ms,
        refusal.operation.as_str(),
        refusal.subject.as_str(),
        refusal.code.as_str(),
        refusal.feature.as_deref(),
        refusal.reason.as_deref(),
        refusal.asked,
        refusal.remaining,
    ];
    values.push(Value::Int(REFUSALS_MAX));
    sql.query(
        "insert into refusal (slot, number, at_ms, operation, subject, code, feature, reason, \
         asked, remaining) select n % cast(?9 as integer), n, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 \
         from (select coalesce(max(number), 0) + 1 as n from refusal) where true \
         on conflict (slot) do update set number = excluded.number, at_ms = excluded.at_ms, \
         operation = excluded.operation, subject = excluded.subject, code = excluded.code, \
         feature = excluded.feature, reason = excluded.reason, asked = excluded.asked, \
         remaining = excluded.remaining",
        &values,
    )?;
    Ok(())
}

/// The refusals that are kept, newest first.
pub fn refusals(sql: &dyn Sql) -> Result<Vec<RefusalView>, Fault> {
    let text = "select at_ms, operation, subject, code, feature, reason, asked, remaining \
        from refusal order by number desc";
    let rows = sql.query(text, &[])?;
    let optional = |row: &Row, name: &str| Ok(row.opt_text(name)?.map(str::to_owned));
    rows.iter()
        .map(|row| {
            Ok(RefusalView {
                at_ms: row.int("at_ms")?,
                operation: row.text("operation")?.to_owned(),
                subject: row.text("subject")?.to_owned(),
                code: row.text("code")?.to_owned(),
                feature: optional(row, "feature")?,
                reason: optional(row, "reason")?,
                asked: row.opt_int("asked")?,
                remaining: row.opt_int("remaining")?,
            })
        })
        .collect()
}

/// The jobs that ended before that moment and are not younger than `youngest`, oldest first: what
/// may be forgotten. Ids sort by the time at which they were made, so this reads no others.
pub fn old_jobs(
    sql: &dyn Sql,
    youngest: &str,
    before: Millis,
    limit: i64,
) -> Result<Vec<JobId>, Fault> {
    let text = "select job_id from job where job_id < ?1 and ended_ms <= ?2 \
        order by job_id limit cast(?3 as integer)";
    let rows = sql.query(text, &params![youngest, before, limit])?;
    rows.iter()
        .map(|row| row.id("job_id", JobId::new))
        .collect()
}

/// When the oldest job that is over ended.
pub fn oldest_end(sql: &dyn Sql) -> Result<Option<Millis>, Fault> {
    let text = "select ended_ms from job where ended_ms is not null order by job_id limit 1";
    let rows = sql.query(text, &[])?;
    rows.first().map(|row| row.millis("ended_ms")).transpose()
}

/// Forgets a job with its holds and steps.
pub fn delete_job(sql: &dyn Sql, job_id: &JobId) -> Result<(), Fault> {
    for text in [
        "delete from step where job_id = ?1",
        "delete from hold where job_id = ?1",
        "delete from job where job_id = ?1",
    ] {
        sql.query(text, &params![job_id.as_str()])?;
    }
    Ok(())
}

/// The features of the current cycle whose books do not balance: what is used, and what running
/// jobs were charged, is not what was booked.
pub fn unbalanced(sql: &dyn Sql, cycle: &str) -> Result<Vec<String>, Fault> {
    let text = "select b.feature from budget b left join (\
          select h.feature, sum(h.charged) as charged from job j \
          join hold h on h.job_id = j.job_id and h.cycle = ?1 \
          where j.state = 'running' group by h.feature) r on r.feature = b.feature \
        where b.cycle = ?1 and b.used + coalesce(r.charged, 0) <> b.booked";
    let rows = sql.query(text, &params![cycle])?;
    rows.iter()
        .map(|row| row.text("feature").map(str::to_owned))
        .collect()
}
