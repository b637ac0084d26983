//! `/metrics`: the sums of both databases and gauges asked for now, as Prometheus text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;

use crate::fault::Fault;
use crate::params;
use crate::ports::{Db, Statement};
use crate::world::World;

/// What a name means, for `# HELP`. A sum that is not listed here still appears.
#[rustfmt::skip]
pub const ABOUT: &[(&str, &str)] = &[
    ("counterfoil_accounts", "Accounts, without those of Lab and Engine Room."),
    ("counterfoil_accounts_overdue", "Of these, those whose payment is overdue."),
    ("counterfoil_accounts_without_customer", "Of these, those without a customer."),
    ("counterfoil_admissions_total", "New jobs by result."),
    ("counterfoil_alerts_waiting", "Alerts that are not sent yet."),
    ("counterfoil_batches_total", "Batches of objects that the ledger database took."),
    ("counterfoil_carries_total", "Differences of closed cycles that were carried."),
    ("counterfoil_charges_total", "Charges recorded."),
    ("counterfoil_clicks_corrected_total", "Clicks that a rule corrected, by reason."),
    ("counterfoil_clicks_direct_total", "Clicks written past the shards."),
    ("counterfoil_clicks_doubtful_total", "Clicks that may or may not have been written."),
    ("counterfoil_clicks_lost_total", "Clicks that nothing could write; they are in the log."),
    ("counterfoil_clicks_recorded_total", "Clicks in the ledger."),
    ("counterfoil_counters_rebuilt_total", "Counters that did not equal their entries."),
    ("counterfoil_cron_seconds_since", "Seconds since each job of the cron last ran."),
    ("counterfoil_deliveries_refused_total", "Deliveries that were not accepted, by reason."),
    ("counterfoil_drift_total", "Meters that differed though nothing was marked, by verdict."),
    ("counterfoil_event_runs_total", "Tries to apply an event, by outcome and type."),
    ("counterfoil_events", "Stored events by status."),
    ("counterfoil_events_by_type", "Stored events by status and type."),
    ("counterfoil_extensions_total", "Asked extensions of holds by result."),
    ("counterfoil_feed_new_epochs", "How often an object's storage was put back or lost."),
    ("counterfoil_feed_overdue_seconds", "For how long the most overdue object has been so."),
    ("counterfoil_feeds", "Objects that ever sent a batch."),
    ("counterfoil_holds_total", "Holds taken, one for each admitted job."),
    ("counterfoil_hours_since_last_delivery", "Whole hours since a delivery was accepted."),
    ("counterfoil_jobs_ended_total", "Jobs that ended, by state."),
    ("counterfoil_marks_waiting", "Meters that are to be written."),
    ("counterfoil_oldest_waiting_event_seconds", "Age of the oldest event that is not at an end."),
    ("counterfoil_prefetched_total", "Prefetches of browsers that were sent away."),
    ("counterfoil_reports_total", "Meter writes by result."),
    ("counterfoil_review_open", "Items that a person must look at."),
    ("counterfoil_sweeps_total", "Jobs whose lease ran out, ended by a sweep."),
    ("counterfoil_wasm_memory_bytes", "Memory of the isolate that answered."),
];

/// Sums without labels that are told from the start, so that an alert on them has a beginning.
const FROM_ZERO: &[&str] = &[
    "counterfoil_batches_total",
    "counterfoil_charges_total",
    "counterfoil_clicks_doubtful_total",
    "counterfoil_clicks_lost_total",
    "counterfoil_clicks_recorded_total",
    "counterfoil_prefetched_total",
];

/// Sums that are told under a word of their own too: each admitted job is a hold, each expired one
/// was ended by a sweep.
const ALSO: &[(&str, &str)] = &[
    (
        "counterfoil_holds_total",
        "counterfoil_admissions_total{result=\"admitted\"}",
    ),
    (
        "counterfoil_sweeps_total",
        "counterfoil_jobs_ended_total{state=\"expired\"}",
    ),
];

/// Every sum and gauge.
pub async fn text(world: &Rc<World>) -> Result<String, Fault> {
    let zero = |name: &&str| ((*name).to_owned(), 0);
    let mut samples: BTreeMap<String, i64> = FROM_ZERO.iter().map(zero).collect();
    for db in [&world.db, &world.ledger] {
        for (name, total) in tallies(&**db).await? {
            *samples.entry(name).or_default() += total;
        }
    }
    for (name, counted) in ALSO {
        let total = samples.get(*counted).copied().unwrap_or(0);
        samples.insert((*name).to_owned(), total);
    }
    for (name, value) in gauges(world).await? {
        samples.insert(name, value);
    }
    Ok(written(&samples))
}

async fn tallies(db: &dyn Db) -> Result<Vec<(String, i64)>, Fault> {
    let sql = "select name, total from tally order by name";
    let rows = db.query(Statement::new(sql, vec![])).await?;
    rows.iter()
        .map(|row| Ok((row.text("name")?.to_owned(), row.int("total")?)))
        .collect()
}

/// Each feature's gauges, read now.
async fn gauges(world: &Rc<World>) -> Result<Vec<(String, i64)>, Fault> {
    let mut all = crate::accounts::store::gauges(&*world.db).await?;
    all.extend(crate::cron::gauges(world).await?);
    let (ledger, now) = (&*world.ledger, world.now());
    let hidden = crate::accounts::store::demo_ids(world).await?;
    all.extend(crate::ledger::marks::gauges(ledger, &hidden, now).await?);
    all.extend(crate::ledger::stream::gauges(ledger, &hidden, now).await?);
    all.extend(crate::inbox::listing::gauges(world).await?);
    all.extend(events_by_type(&*world.db).await?);
    all.push((
        "counterfoil_review_open".to_owned(),
        open_reviews(ledger, &hidden).await?,
    ));
    if let Some(bytes) = wasm_memory_bytes() {
        all.push(("counterfoil_wasm_memory_bytes".to_owned(), bytes));
    }
    Ok(all)
}

async fn events_by_type(db: &dyn Db) -> Result<Vec<(String, i64)>, Fault> {
    let sql = "select e.status as status, e.type as type, count(*) as events from event e \
        left join account a on a.customer_id = e.customer_id where coalesce(a.demo, 0) = 0 \
        group by e.status, e.type order by e.status, e.type";
    let rows = db.query(Statement::new(sql, vec![])).await?;
    rows.iter()
        .map(|row| {
            let (status, kind) = (row.text("status")?, label(row.text("type")?));
            let name = format!("counterfoil_events_by_type{{status=\"{status}\",type=\"{kind}\"}}");
            Ok((name, row.int("events")?))
        })
        .collect()
}

/// A label's value as Prometheus reads it.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

async fn open_reviews(ledger: &dyn Db, hidden: &str) -> Result<i64, Fault> {
    let sql = "select count(*) as open from review where closed_at_ms is null \
        and (account_id is null or account_id not in (select value from json_each(?1)))";
    let rows = ledger.query(Statement::new(sql, params![hidden])).await?;
    rows.first().map_or(Ok(0), |row| row.int("open"))
}

/// The pages of 64 KiB that this module's memory has grown to.
#[cfg(target_arch = "wasm32")]
fn wasm_memory_bytes() -> Option<i64> {
    i64::try_from(core::arch::wasm32::memory_size::<0>())
        .ok()
        .map(|pages| pages * 65_536)
}

#[cfg(not(target_arch = "wasm32"))]
const fn wasm_memory_bytes() -> Option<i64> {
    None
}

/// Prometheus text: samples of one name together, after its `# HELP` and `# TYPE`.
fn written(samples: &BTreeMap<String, i64>) -> String {
    let mut families: BTreeMap<&str, Vec<(&str, i64)>> = BTreeMap::new();
    for (sample, value) in samples {
        let family = sample.split('{').next().unwrap_or(sample);
        families.entry(family).or_default().push((sample, *value));
    }
    let mut text = String::new();
    for (family, samples) in families {
        let about = ABOUT.iter().find(|(name, _)| *name == family);
        let about = about.map_or_else(|| words(family), |(_, about)| (*about).to_owned());
        let kind = if family.ends_with("_total") {
            "counter"
        } else {
            "gauge"
        };
        // Writing into a string cannot fail.
        _ = writeln!(text, "# HELP {family} {about}\n# TYPE {family} {kind}");
        for (sample, value) in samples {
            _ = writeln!(text, "{sample} {value}");
        }
    }
    text
}

/// `counterfoil_never_heard_of_total` as `Never heard of.`
fn words(family: &str) -> String {
    let name = family
        .trim_start_matches("counterfoil_")
        .trim_end_matches("_total");
    let mut words = name.replace('_', " ");
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    words.push('.');
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_end_itself() {
        assert_eq!(label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }

    #[test]
    fn samples_of_one_name_stand_together_after_its_help_and_type() {
        let samples = [
            ("counterfoil_events{status=\"dead\"}", 1),
            ("counterfoil_admissions_total{result=\"admitted\"}", 3),
            ("counterfoil_admissions_total{result=\"refused\"}", 2),
            ("counterfoil_never_heard_of_total", 5),
        ];
        let samples = samples.map(|(name, value)| (name.to_owned(), value)).into();
        let expected = "# HELP counterfoil_admissions_total \
            New jobs by result.\n\
            # TYPE counterfoil_admissions_total counter\n\
            counterfoil_admissions_total{result=\"admitted\"} 3\n\
            counterfoil_admissions_total{result=\"refused\"} 2\n\
            # HELP counterfoil_events Stored events by status.\n\
            # TYPE counterfoil_events gauge\n\
            counterfoil_events{status=\"dead\"} 1\n\
            # HELP counterfoil_never_heard_of_total Never heard of.\n\
            # TYPE counterfoil_never_heard_of_total counter\n\
            counterfoil_never_heard_of_total 5\n";
        assert_eq!(written(&samples), expected);
    }
}
