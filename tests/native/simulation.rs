//! Hundreds of short seeds of the simulation. A seed that fails is printed; it does the same again
//! with `SEED=<seed> cargo test --test native simulation`.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::thread;

use counterfoil::native::simulation::run::{Size, run};
use counterfoil::native::simulation::stats::Stats;

const SIZE: Size = Size {
    accounts: 2,
    moments: 100,
};

/// Seeds of every run of the tests.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=200;

/// Seeds that once failed, and what they found. They are run for ever.
const FOUND: &[(u64, &str)] = &[
    (232, "a restored ledger forgot a meter: billed twice"),
    (
        249,
        "a total went into the agreement's next period: billed too much",
    ),
    (347, "the same: billed too little"),
    (279, "the same where nothing followed"),
    (430, "a restored ledger forgot a meter of a replaced plan"),
    (129, "a feed at a gap, with nothing to send, stayed stopped"),
    (159, "a foreign total had the id of an item that was closed"),
    (
        435,
        "a person's and a rule's correction took one click back twice",
    ),
    (
        738,
        "what another wrote to a replaced agreement was in no base",
    ),
    (
        900,
        "a meter that only the reconciler wrote was not marked when replaced",
    ),
    (
        1071,
        "a restored ledger forgot the current meter, whose period then ended",
    ),
    (
        946,
        "the audit: what was owed after one restore was lost by the next",
    ),
    (1665, "the audit: a period that lies across two cycles"),
    (
        265,
        "a ledger that was put back within a run was taken for complete",
    ),
    (
        2026,
        "an admission was told of a job that another had asked for",
    ),
    (
        3741,
        "the audit: a lost shard's first batch landed behind its successor's",
    ),
];

/// A suite in which one of these never happened proves nothing about it.
const EXERCISED: &[&str] = &[
    // On the way to databases and objects.
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
    "shard_answer_lost_in_storm",
    "clicks_written_directly",
    // Machines.
    "killed",
    "killed_tasks",
    "evicted",
    "evicted_at_work",
    "request_given_up",
    "alarm_lost",
    "alarm_failed",
    "account_storage_lost",
    "shard_storage_lost",
    "new_epoch_alerted",
    "ledger_restored",
    "restored_within_the_last_run",
    "restored_after_claims_alone",
    "restored_under_runs_that_begin",
    "entry_owed_after_restore",
    "entry_back_after_restore",
    "entry_lost_with_ledger",
    "log_ledger.restored",
    // Time.
    "clock_lease",
    "clock_minute",
    "clock_hour",
    "clock_day",
    "clock_before_turn",
    "month_turned",
    "clock_skewed",
    "clock_stepped_back",
    "job_split_at_the_turn",
    // Jobs.
    "admit_201",
    "admit_200",
    "admit_of_several",
    "admit_over_limit",
    "admit_limit_unknown",
    "admit_rate_limited",
    "over_limit_held",
    "over_limit_too_big",
    "over_limit_used_up",
    "charges_200",
    "charges_job_over",
    "capped",
    "extend_200",
    "extend_over_limit",
    "extend_job_over",
    "renew_200",
    "renew_job_over",
    "settle_settled",
    "settle_expired",
    "settled_late",
    "job_abandoned",
    "client_retried",
    "client_retry_succeeded",
    // Clicks, usage, corrections.
    "visit_302",
    "clicked_twice",
    "corrected_double_click",
    "corrected_preview_crawler",
    "usage_201",
    "usage_200",
    "usage_sent_again",
    "correction_201",
    "correction_nothing_left",
    // The provider.
    "plan_changed",
    "plan_ended",
    "plan_changed_with_new_period",
    "agreement_taken_up_again",
    "event_200",
    "event_never_sent",
    "event_delayed",
    "events_reordered",
    "list_empty_truly",
    "list_empty_falsely",
    "list_lagged",
    "limits_empty_falsely",
    "limits_lagged",
    "period_turns_before",
    "period_turns_after",
    "period_elsewhere",
    "meter_moved_200",
    "fault_error_200",
    "fault_timeout_200",
    "fault_429_200",
    "fault_garbage_200",
    "fault_lost_answer_200",
    "fault_partial_200",
    "fault_late_200",
    // Operators.
    "run_sweeper_200",
    "run_reporter_200",
    "run_inbox_200",
    "run_reconciler_200",
    "run_plans_200",
    "run_dry_run_200",
    "dry_run_drifted",
    "sync_200",
    "replay_202",
    "skip_202",
    "event_was_skipped",
    "cron_ticks",
    // What was found and mended.
    "evidence_match",
    "evidence_over_billed",
    "evidence_under_billed",
    "evidence_incomplete",
    "evidence_unreadable",
    "evidence_closed_cycle_drift",
    "cause_base_changed",
    "cause_changed_after_report",
    "cause_last_report_failed",
    "cause_meter_moved_by_other",
    "cause_not_yet_reported",
    "reconciler_repaired",
    "review_base_in_doubt",
    "review_closed_cycle",
    "review_feed",
    "review_foreign_total",
    "review_late_use",
    "review_period_mismatch",
    "review_tail",
    "review_was_carried",
    "review_was_closed",
    "entry_carry",
    "alert_drift",
    "alert_missed_event",
    "alert_new_feed_epoch",
    "event_was_applied",
    "event_was_ignored",
    // What the audit really looked at.
    "meter_write_seen",
    "meter_lowered",
    "meters_proven",
    "meters_proven_at_provider",
    "closed_cycle_settled",
    "twin_compared",
];

/// What is wrong with a seed, if anything, and what it exercised.
fn try_seed(seed: u64) -> (Option<String>, BTreeMap<String, u64>) {
    let outcome = run(seed, SIZE).expect("the world itself works");
    let broken = (!outcome.broken.is_empty()).then(|| {
        let what = outcome.broken.join("\n");
        format!("SEED={seed} cargo test --test native simulation\n{what}")
    });
    (broken, outcome.stats.all())
}

/// Each processor takes every other seed.
fn try_all(seeds: &[u64]) -> (Vec<String>, Stats) {
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let outcomes: Vec<_> = thread::scope(|scope| {
        let works: Vec<_> = (0..workers)
            .map(|worker| {
                let own = seeds.iter().skip(worker).step_by(workers);
                scope.spawn(move || own.map(|seed| try_seed(*seed)).collect::<Vec<_>>())
            })
            .collect();
        let ends = works.into_iter().map(|work| work.join().expect("it ends"));
        ends.flatten().collect()
    });
    let all = Stats::default();
    let mut broken = Vec::new();
    for (what, counts) in outcomes {
        broken.extend(what);
        for (name, count) in counts {
            all.add(&name, count);
        }
    }
    (broken, all)
}

#[test]
fn no_seed_breaks_an_invariant_and_together_they_exercise_everything() {
    let one = std::env::var("SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seeds: Vec<u64> = match one {
        Some(seed) => vec![seed],
        None => FOUND.iter().map(|(seed, _)| *seed).chain(SEEDS).collect(),
    };
    let (broken, all) = try_all(&seeds);
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
    if one.is_none() {
        let missing = all.missing(EXERCISED);
        assert!(
            missing.is_empty(),
            "never happened: {missing:?} in {:#?}",
            all.all()
        );
    }
}
