//! New jobs: each is weighed by the rules, and what is admitted is written, all in one
//! transaction. The first admission of an account waits until its anchor is fixed.

use super::account::{read_json, write_json};
use super::books::{Books, SWEEP, new_hold};
use super::calls::{Outcome, feature_of, for_reading};
use super::limit::{limit_of, look_at};
use super::rules::{self, Admission, Asked, Look, Rate, Refused, Seen, State};
use super::store::{self, JobRow};
use super::view::{self, refused};
use super::wire::{AdmitAsk, Admitted, Amounts, Told, units_of};
use crate::fault::Fault;
use crate::units::{FeatureName, JobId};
use crate::world;

/// New jobs, each decided on its own. The first admission of an account needs its anchor fixed,
/// so that no job ever runs in a cycle that may still move: nothing is decided before it is.
pub fn admit(books: &mut Books<'_>, jobs: &[AdmitAsk], waited: bool) -> Result<Outcome, Fault> {
    let look = look_at(books, waited);
    if look == Look::Read && any_is_new(books, jobs)? {
        return Ok(Outcome::ReadFirst);
    }
    if books.account.anchors.is_empty() && any_fits(books, jobs, look)? {
        return Ok(Outcome::Told(Told::AnchorFirst));
    }
    let told = jobs.iter().map(|ask| admit_one(books, ask, look));
    Ok(Outcome::Told(Told::Admitted(
        told.collect::<Result<_, _>>()?,
    )))
}

fn any_is_new(books: &Books<'_>, jobs: &[AdmitAsk]) -> Result<bool, Fault> {
    for ask in jobs {
        if store::job_by_key(&*books.object.sql, &ask.key)?.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether one of the jobs would be admitted. Refusals change no budget, so each is weighed by
/// what there is now.
fn any_fits(books: &mut Books<'_>, jobs: &[AdmitAsk], look: Look) -> Result<bool, Fault> {
    for ask in jobs {
        if weigh(books, ask, look)?.verdict == Ok(Admission::New) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A request for a new job, what there is for it, and what the rules say.
struct Weighed {
    request: String,
    known: Option<JobRow>,
    features: Vec<FeatureName>,
    asked: Vec<Asked>,
    rate: Rate,
    verdict: Result<Admission, (Refused, Option<usize>)>,
}

fn weigh(books: &mut Books<'_>, ask: &AdmitAsk, look: Look) -> Result<Weighed, Fault> {
    let known = store::job_by_key(&*books.object.sql, &ask.key)?;
    let request = write_json(&(&ask.holds, ask.lease_seconds))?;
    let default_lease = books.object.world.settings.lease_seconds;
    let (seen, state) = match &known {
        None => (Seen::Never, State::Running),
        Some(job) if is_same(job, ask, default_lease)? => (Seen::Same, job.state),
        Some(job) => (Seen::Other, job.state),
    };
    let mut features = Vec::with_capacity(ask.holds.len());
    let mut asked = Vec::with_capacity(ask.holds.len());
    for (name, units) in &ask.holds {
        let feature = feature_of(name)?;
        asked.push(Asked {
            units: units_of(*units)?,
            limit: limit_of(books, &feature, look),
            budget: books.budget(&feature)?,
        });
        features.push(feature);
    }
    let same_minute = books.account.minute == rules::minute_of(books.now);
    let setting = books.object.world.settings.jobs_per_minute;
    let rate = Rate {
        taken: if same_minute {
            books.account.minute_jobs
        } else {
            0
        },
        allowed: books.account.jobs_per_minute.unwrap_or(setting),
    };
    let verdict = rules::admit(seen, state, &asked, rate);
    Ok(Weighed {
        request,
        known,
        features,
        asked,
        rate,
        verdict,
    })
}

/// Whether it asks for what the job was started with. A lease that is left out and the default
/// spelled out are the same; where the setting changed since, the job's own lease decides, and
/// what was left out both times is still the same.
fn is_same(job: &JobRow, ask: &AdmitAsk, default_lease: i64) -> Result<bool, Fault> {
    let (holds, lease_seconds): (Amounts, Option<i64>) = read_json(&job.ask)?;
    let same_lease = ask.lease_seconds == lease_seconds
        || ask.lease_seconds.unwrap_or(default_lease) == job.lease_seconds;
    Ok(holds == ask.holds && same_lease)
}

fn admit_one(books: &mut Books<'_>, ask: &AdmitAsk, look: Look) -> Result<Admitted, Fault> {
    let Weighed {
        request,
        known,
        features,
        asked,
        rate,
        verdict,
    } = weigh(books, ask, look)?;
    match (verdict, known) {
        (Ok(Admission::Same), Some(job)) => {
            let look = for_reading(books);
            Ok(Admitted::Same(view::job(books, &job, look)?))
        }
        (Ok(_), _) => {
            let job = insert(books, ask, request, &features, &asked)?;
            books.account.minute = rules::minute_of(books.now);
            books.account.minute_jobs = rate.taken + 1;
            books.tally("counterfoil_admissions_total{result=\"admitted\"}", 1);
            Ok(Admitted::New(view::job(books, &job, look)?))
        }
        (Err((why, place)), known) => {
            let line = place.and_then(|at| Some((features.get(at)?, asked.get(at)?)));
            let view = refused(books, why, line, look, known.as_ref())?;
            view::note(books, "admit", &ask.key, why, line)?;
            Ok(Admitted::Refused(view))
        }
    }
}

/// After this point it must succeed.
fn insert(
    books: &mut Books<'_>,
    ask: &AdmitAsk,
    request: String,
    features: &[FeatureName],
    asked: &[Asked],
) -> Result<JobRow, Fault> {
    let object = books.object;
    let lease_seconds = ask
        .lease_seconds
        .unwrap_or(object.world.settings.lease_seconds);
    let id = world::mint("job_", books.now, object.world.ids.random()?);
    let job = JobRow {
        job_id: JobId::new(id).ok_or_else(|| Fault::unreadable("mint a job's id", "its form"))?,
        key: ask.key.clone(),
        ask: request,
        state: State::Running,
        capped: false,
        cycle: books.cycle.name.clone(),
        lease_seconds,
        lease_ends_at: books.now.after(lease_seconds * 1000),
        created_at: books.now,
        ended_at: None,
        outcome: None,
        by_hand: None,
        holds: features
            .iter()
            .zip(asked)
            .map(|(feature, line)| new_hold(feature, &books.cycle.name, line.units))
            .collect(),
    };
    for (feature, line) in features.iter().zip(asked) {
        books.hold(feature, line.units)?;
    }
    store::insert_job(&*object.sql, &job)?;
    books.owe_by(SWEEP, job.lease_ends_at);
    books.touch();
    Ok(job)
}
