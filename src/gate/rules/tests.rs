//! The rules, refusal by refusal, and every short history against a naive counter.

use super::*;

fn units(n: i64) -> Units {
    Units::new(n).unwrap()
}

fn at(ms: i64) -> Millis {
    Millis::new(ms)
}

const NONE: Rate = Rate {
    taken: 0,
    allowed: 120,
};

fn asked(n: i64, limit: Limit, used: i64, held: i64) -> Asked {
    Asked {
        units: units(n),
        limit,
        budget: Budget {
            used: units(used),
            held: units(held),
        },
    }
}

fn known(n: i64) -> Limit {
    Limit::Known(units(n))
}

/// One line of a table of admissions of a new key.
fn check(n: i64, limit: Limit, used: i64, held: i64) -> Result<Admission, Refused> {
    let lines = [asked(n, limit, used, held)];
    admit(Seen::Never, State::Running, &lines, NONE).map_err(|(why, _)| why)
}

fn over(reason: Reason, remaining: i64) -> Result<Admission, Refused> {
    let remaining = units(remaining);
    Err(Refused::OverLimit { reason, remaining })
}

#[test]
fn a_job_is_admitted_exactly_while_it_fits() {
    assert_eq!(check(10, known(10), 0, 0), Ok(Admission::New));
    assert_eq!(check(1, known(10), 4, 5), Ok(Admission::New));
    assert_eq!(check(11, known(10), 0, 0), over(Reason::TooBig, 10));
    assert_eq!(check(11, known(10), 4, 4), over(Reason::TooBig, 2));
    assert_eq!(check(7, known(10), 4, 0), over(Reason::UsedUp, 6));
    assert_eq!(check(7, known(10), 4, 4), over(Reason::UsedUp, 2));
    assert_eq!(check(6, known(10), 4, 4), over(Reason::Held, 2));
    assert_eq!(check(1, known(0), 0, 0), over(Reason::TooBig, 0));
}

#[test]
fn a_limit_lowered_below_what_is_taken_leaves_nothing_and_never_a_negative_rest() {
    assert_eq!(check(1, known(10), 12, 0), over(Reason::UsedUp, 0));
    assert_eq!(check(1, known(10), 0, 12), over(Reason::Held, 0));
}

#[test]
fn even_unlimited_stays_within_what_every_binding_carries() {
    let max = Units::MAX.get();
    assert_eq!(check(max, Limit::Unlimited, 0, 0), Ok(Admission::New));
    assert_eq!(
        check(max, Limit::Unlimited, 1, 0),
        over(Reason::UsedUp, max - 1)
    );
    assert_eq!(
        check(1, Limit::Unlimited, max - 5, 5),
        over(Reason::Held, 0)
    );
    assert_eq!(check(1, Limit::Open, 0, 0), Ok(Admission::New));
}

#[test]
fn refusals_come_in_their_order_key_then_unknown_then_absent_then_rate_then_room() {
    let full = Rate {
        taken: 120,
        allowed: 120,
    };
    let lines = [
        asked(99, known(10), 0, 0),
        asked(1, Limit::Absent, 0, 0),
        asked(1, Limit::Unknown, 0, 0),
    ];
    let tell = |seen, lines: &[Asked], rate| admit(seen, State::Running, lines, rate);
    let conflict = Err((Refused::KeyConflict, None));
    assert_eq!(tell(Seen::Other, &lines, full), conflict);
    assert_eq!(tell(Seen::Same, &lines, full), Ok(Admission::Same));
    let unknown = Err((Refused::LimitUnknown, Some(2)));
    assert_eq!(tell(Seen::Never, &lines, full), unknown);
    let absent = Err((Refused::NotInPlan, Some(1)));
    assert_eq!(tell(Seen::Never, &lines[..2], full), absent);
    let rated = Err((Refused::RateLimited, None));
    assert_eq!(tell(Seen::Never, &lines[..1], full), rated);
    let room = tell(Seen::Never, &lines[..1], NONE).map_err(|(why, at)| (why.code(), at));
    assert_eq!(room, Err(("over_limit", Some(0))));
}

#[test]
fn the_key_of_a_job_that_is_over_is_answered_with_its_state() {
    for state in [State::Settled, State::Expired] {
        let lines = [asked(1, known(10), 0, 0)];
        assert_eq!(
            admit(Seen::Same, state, &lines, NONE),
            Err((Refused::JobOver(state), None))
        );
    }
}

#[test]
fn several_features_are_all_or_nothing_and_the_refusal_names_the_one() {
    let lines = [asked(5, known(10), 0, 0), asked(5, known(10), 6, 0)];
    let told = admit(Seen::Never, State::Running, &lines, NONE);
    assert_eq!(told.map_err(|(_, at)| at), Err(Some(1)));
}

#[test]
fn the_hundred_and_twentieth_job_of_a_minute_is_the_last() {
    let lines = [asked(1, known(10), 0, 0)];
    let tell = |taken| {
        let rate = Rate {
            taken,
            allowed: 120,
        };
        admit(Seen::Never, State::Running, &lines, rate).is_ok()
    };
    assert!(tell(119));
    assert!(!tell(120));
    assert_eq!(minute_of(at(59_999)), 0);
    assert_eq!(minute_of(at(60_000)), 1);
}

#[test]
fn a_lease_that_has_run_out_ends_the_job_swept_or_not() {
    assert_eq!(running(State::Running, at(10), at(9)), Ok(()));
    let expired = Err(Refused::JobOver(State::Expired));
    assert_eq!(running(State::Running, at(10), at(10)), expired);
    assert_eq!(running(State::Expired, at(10), at(5)), expired);
    let settled = Err(Refused::JobOver(State::Settled));
    assert_eq!(running(State::Settled, at(10), at(5)), settled);
}

#[test]
fn an_extension_follows_the_rules_of_admission() {
    let more = |n, now| extend(State::Running, at(10), at(now), asked(n, known(10), 0, 8));
    assert_eq!(more(2, 0), Ok(()));
    assert_eq!(more(3, 0).map_err(Refused::code), Err("over_limit"));
    assert_eq!(more(2, 10).map_err(Refused::code), Err("job_over"));
}

fn hold(held: i64, charged: i64) -> Hold {
    Hold {
        held: units(held),
        charged: units(charged),
    }
}

#[test]
fn a_charge_is_cut_to_the_room_left_in_the_hold() {
    let cut = |held, charged, n| {
        let cut = charge(hold(held, charged), units(n));
        (cut.charged.get(), cut.uncovered.get())
    };
    assert_eq!(cut(10, 0, 10), (10, 0));
    assert_eq!(cut(10, 8, 5), (2, 3));
    assert_eq!(cut(10, 10, 5), (0, 5));
    assert_eq!(cut(10, 3, 0), (0, 0));
}

#[test]
fn a_settle_charges_no_less_than_recorded_and_no_more_than_held() {
    let end = |used: Option<i64>| {
        let end = settle(hold(22, 5), used.map(units), units(3));
        (end.more.get(), end.released.get(), end.uncovered.get())
    };
    assert_eq!(end(Some(33)), (17, 0, 11));
    assert_eq!(end(Some(22)), (17, 0, 0));
    assert_eq!(end(Some(9)), (4, 13, 0));
    assert_eq!(end(Some(0)), (0, 17, 0));
    assert_eq!(end(None), (0, 17, 3));
}

#[test]
fn late_use_is_what_no_charge_recorded() {
    assert_eq!(late(hold(10, 4), Some(units(9))), units(5));
    assert_eq!(late(hold(10, 4), Some(units(3))), Units::ZERO);
    assert_eq!(late(hold(10, 4), None), Units::ZERO);
}

#[test]
fn a_turn_leaves_what_was_charged_and_moves_the_rest() {
    assert_eq!(split(hold(10, 4)), (hold(4, 4), hold(6, 0)));
    assert_eq!(split(hold(10, 0)), (hold(0, 0), hold(10, 0)));
    assert_eq!(split(hold(10, 10)), (hold(10, 10), hold(0, 0)));
}

#[test]
fn the_tenths_cover_every_share_of_a_hold() {
    let max = Units::MAX.get();
    assert_eq!(tenth(hold(100, 0)), 0);
    assert_eq!(tenth(hold(100, 9)), 0);
    assert_eq!(tenth(hold(100, 10)), 1);
    assert_eq!(tenth(hold(100, 99)), 9);
    assert_eq!(tenth(hold(max, max)), 9);
    assert_eq!(tenth(hold(0, 0)), 0);
}

const TIMES: LimitTimes = LimitTimes {
    fresh_ms: 60_000,
    stale_ms: 600_000,
    pause_ms: 5_000,
};

fn looked(read_at: Option<i64>, failed_at: Option<i64>, now: i64) -> Look {
    let facts = LimitFacts {
        has_customer: true,
        read_at: read_at.map(at),
        failed_at: failed_at.map(at),
        waited: false,
    };
    look(facts, TIMES, at(now))
}

#[test]
fn a_read_is_used_for_a_minute_and_kept_for_ten_while_the_provider_is_down() {
    assert_eq!(looked(None, None, 0), Look::Read);
    assert_eq!(looked(Some(0), None, 60_000), Look::Fresh);
    assert_eq!(looked(Some(0), None, 60_001), Look::Read);
    assert_eq!(looked(Some(0), Some(60_001), 60_002), Look::Stale);
    assert_eq!(looked(Some(0), Some(598_000), 600_000), Look::Stale);
    let until = Some(at(603_000));
    assert_eq!(
        looked(Some(0), Some(598_000), 600_001),
        Look::Unknown { until }
    );
}

#[test]
fn after_a_failed_read_the_next_comes_no_sooner_than_five_seconds_later() {
    let until = Some(at(5_000));
    assert_eq!(looked(None, Some(0), 4_999), Look::Unknown { until });
    assert_eq!(looked(None, Some(0), 5_000), Look::Read);
}

#[test]
fn an_account_without_a_customer_has_no_known_limit_and_nobody_is_asked() {
    let facts = LimitFacts::default();
    assert_eq!(look(facts, TIMES, at(0)), Look::Unknown { until: None });
}

#[test]
fn a_call_that_waited_uses_what_was_read_however_short_an_answer_is_fresh() {
    let times = LimitTimes {
        fresh_ms: 0,
        ..TIMES
    };
    let facts = |waited, failed_at| LimitFacts {
        has_customer: true,
        read_at: Some(at(0)),
        failed_at,
        waited,
    };
    assert_eq!(look(facts(false, None), times, at(1)), Look::Read);
    assert_eq!(look(facts(true, None), times, at(1)), Look::Fresh);
    assert_eq!(look(facts(true, Some(at(1))), times, at(1)), Look::Stale);
}

#[test]
fn a_wait_is_told_in_whole_seconds_rounded_up() {
    assert_eq!(seconds_until(at(1), at(0)), 1);
    assert_eq!(seconds_until(at(1001), at(0)), 2);
    assert_eq!(seconds_until(at(0), at(5)), 1);
}

/// Goal: whatever a caller does, the gate agrees with a naive counter, and the limit is never
/// passed. Method: every sequence of up to six operations over a limit of 3.
#[test]
fn every_short_history_agrees_with_a_naive_counter() {
    let mut histories = 0_u32;
    let start = World {
        used: 0,
        jobs: Vec::new(),
    };
    explore(&start, 6, &mut histories);
    assert!(histories > 10_000);
}

const LIMIT: i64 = 3;

#[derive(Clone)]
struct World {
    used: i64,
    /// Held and charged of each running job.
    jobs: Vec<(i64, i64)>,
}

impl World {
    fn held(&self) -> i64 {
        self.jobs.iter().map(|job| job.0).sum()
    }
}

fn explore(world: &World, left: u32, histories: &mut u32) {
    *histories += 1;
    assert!(world.used + world.held() <= LIMIT);
    if left == 0 {
        return;
    }
    for n in 1..=2 {
        let fits = world.used + world.held() + n <= LIMIT;
        let line = asked(n, known(LIMIT), world.used, world.held());
        assert_eq!(line.fits().is_ok(), fits);
        if fits {
            let mut next = world.clone();
            next.jobs.push((n, 0));
            explore(&next, left - 1, histories);
        }
    }
    for place in 0..world.jobs.len() {
        let (held, charged) = world.jobs[place];
        for n in 1..=2 {
            let cut = charge(hold(held, charged), units(n));
            assert_eq!(cut.charged.get(), n.min(held - charged));
            assert_eq!(cut.charged.get() + cut.uncovered.get(), n);
            let mut next = world.clone();
            next.jobs[place].1 += cut.charged.get();
            explore(&next, left - 1, histories);
        }
        for used in [None, Some(0), Some(2), Some(9)] {
            let end = settle(hold(held, charged), used.map(units), Units::ZERO);
            let expected = used.unwrap_or(charged).max(charged).min(held);
            assert_eq!(charged + end.more.get(), expected);
            assert_eq!(expected + end.released.get(), held);
            let mut next = world.clone();
            next.jobs.remove(place);
            next.used += expected;
            explore(&next, left - 1, histories);
        }
    }
}
