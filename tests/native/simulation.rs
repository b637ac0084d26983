//! A few hundred short seeds of the simulation. A seed that fails is printed; it does the same
//! again with `SEED=<seed> cargo test --test native simulation`.

use counterfoil::native::simulation::run::{Size, run};
use counterfoil::native::simulation::stats::Stats;

const SIZE: Size = Size {
    accounts: 3,
    moments: 160,
};

/// A suite in which one of these never happened proves nothing about it.
const EXERCISED: &[&str] = &[
    "DB_lost_before",
    "DB_lost_after",
    "DB_late",
    "LEDGER_0_lost_before",
    "LEDGER_0_lost_after",
    "LEDGER_0_late",
    "message_lost_before",
    "message_lost_after",
    "message_repeated",
    "message_late",
    "sql_failed_before",
    "sql_failed_after",
    "killed",
    "killed_tasks",
    "evicted",
    "alarm_failed",
    "cron_ticks",
    "clock_lease",
    "clock_minute",
    "clock_hour",
    "admit_201",
    "admit_200",
    "admit_over_limit",
    "admit_limit_unknown",
    "charge_200",
    "charge_job_over",
    "capped",
    "settle_settled",
    "settle_expired",
    "job_abandoned",
    "client_retry_succeeded",
    "visit_302",
    "usage_201",
    "usage_200",
    "plan_changed",
    "event_200",
    "event_never_sent",
    "meter_moved_200",
    "meters_proven",
    "meters_held_for_review",
    "fault_error_200",
    "fault_timeout_200",
    "fault_429_200",
    "fault_garbage_200",
    "fault_lost_answer_200",
    "fault_partial_200",
    "run_sweeper_200",
    "run_reporter_200",
    "run_inbox_200",
    "run_reconciler_200",
    "run_plans_200",
];

fn seeds() -> Vec<u64> {
    match std::env::var("SEED")
        .ok()
        .and_then(|text| text.parse().ok())
    {
        Some(seed) => vec![seed],
        None => (1..=40).collect(),
    }
}

#[test]
fn no_seed_breaks_an_invariant_and_together_they_exercise_everything() {
    let all = Stats::default();
    for seed in seeds() {
        let outcome = run(seed, SIZE).expect("the world itself works");
        assert!(
            outcome.broken.is_empty(),
            "seed {seed}:\n{}",
            outcome.broken.join("\n")
        );
        all.merge(&outcome.stats);
    }
    if seeds().len() > 1 {
        let missing = all.missing(EXERCISED);
        assert!(
            missing.is_empty(),
            "never happened: {missing:?} in {:#?}",
            all.all()
        );
    }
}
