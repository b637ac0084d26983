//! The inbox rules: order, what may be judged without the provider, and when to try again.

use super::*;
use crate::moment;

fn time(text: &str) -> Option<EventTime> {
    moment::parse(text)
}

fn id(text: &str) -> Option<AgreementId> {
    AgreementId::new(text)
}

fn plan(code: &str) -> PlanCode {
    PlanCode::new(code).expect("a plan")
}

fn told(kind: Kind, at: &str, agreement: Option<&str>, named: Option<&str>) -> Told {
    Told {
        kind,
        at: time(at),
        agreement_id: agreement.and_then(id),
        plan: named.and_then(PlanCode::new),
    }
}

fn pro() -> Standing {
    Standing {
        plan: plan("pro"),
        agreement_id: id("agreement_b"),
        known_at: time("2026-11-10T12:00:00Z"),
        read_at: None,
        payment_at: time("2026-11-10T12:00:00Z"),
        is_overdue: false,
    }
}

const OLDER: &str = "2026-11-10T11:59:59.999999999Z";
const SAME: &str = "2026-11-10T12:00:00Z";
const NEWER: &str = "2026-11-10T12:00:00.000000001Z";

#[test]
fn an_older_event_is_ignored_unread_and_a_newer_one_is_taken_to_the_nanosecond() {
    let judge = |at: &str| judge_unread(&told(Kind::Changed, at, None, Some("free")), &pro());
    let ignored = Unread::End(Verdict::Ignored(NEWER_STORED.to_owned()));
    assert_eq!(judge(OLDER), ignored);
    assert_eq!(judge(SAME), Unread::Wait);
    assert!(matches!(judge(NEWER), Unread::Take { .. }));
    assert_eq!(judge("no time"), Unread::Wait);
}

#[test]
fn behind_a_read_that_is_newer_an_event_waits_for_the_next_read() {
    let standing = Standing {
        read_at: moment::parse_millis("2026-11-10T12:05:00Z"),
        ..pro()
    };
    let event = told(Kind::Changed, "2026-11-10T12:04:00Z", None, Some("free"));
    assert_eq!(judge_unread(&event, &standing), Unread::Wait);
}

#[test]
fn a_missing_answer_never_takes_a_plan_away() {
    let own = told(Kind::Ended, NEWER, Some("agreement_b"), None);
    assert_eq!(judge_unread(&own, &pro()), Unread::Wait);
    let other = told(Kind::Ended, NEWER, Some("agreement_a"), None);
    let reason = "agreement agreement_a is not current".to_owned();
    assert_eq!(
        judge_unread(&other, &pro()),
        Unread::End(Verdict::Ignored(reason))
    );
}

#[test]
fn the_time_of_an_event_is_looked_at_before_its_agreement() {
    let event = told(Kind::Ended, OLDER, Some("agreement_a"), None);
    let ignored = Unread::End(Verdict::Ignored(NEWER_STORED.to_owned()));
    assert_eq!(judge_unread(&event, &pro()), ignored);
    assert_eq!(judge_alone(&event, &pro(), &plan("free")), ignored);
}

fn same_as_stored() -> Outcome {
    Outcome {
        plan: plan("pro"),
        agreement_id: id("agreement_b"),
        plan_changed: false,
        changed: false,
        read: true,
        empty_since: None,
        proof: None,
        unfinished: None,
    }
}

#[test]
fn behind_a_read_an_event_that_changes_nothing_is_judged_by_time_then_agreement() {
    let judge = |event: &Told| judge_read(event, &pro(), &same_as_stored());
    let older = told(Kind::Changed, OLDER, None, Some("free"));
    assert_eq!(judge(&older), Verdict::Ignored(NEWER_STORED.to_owned()));
    let other = told(Kind::Ended, NEWER, Some("agreement_a"), None);
    assert!(matches!(judge(&other), Verdict::Ignored(reason) if reason.contains("not current")));
    let again = told(Kind::Changed, SAME, Some("agreement_b"), Some("pro"));
    assert!(matches!(judge(&again), Verdict::Applied(_)));
    let changed = Outcome {
        changed: true,
        ..same_as_stored()
    };
    assert!(matches!(
        judge_read(&older, &pro(), &changed),
        Verdict::Applied(_)
    ));
}

#[test]
fn a_failed_payment_is_overdue_until_a_later_success_and_only_for_the_current_agreement() {
    let judge = |kind, at: &str, agreement| judge_payment(&told(kind, at, agreement, None), &pro());
    assert_eq!(judge(Kind::Unpaid, NEWER, None), Ok(Payment::Overdue));
    assert_eq!(
        judge(Kind::Unpaid, NEWER, Some("agreement_b")),
        Ok(Payment::Overdue)
    );
    assert!(judge(Kind::Unpaid, NEWER, Some("agreement_a")).is_err());
    assert!(judge(Kind::Unpaid, OLDER, None).is_err());
    assert!(judge(Kind::Unpaid, SAME, None).is_err());
    assert_eq!(
        judge(Kind::Paid, SAME, Some("agreement_a")),
        Ok(Payment::Ok)
    );
    assert!(judge(Kind::Paid, OLDER, None).is_err());
}

#[test]
fn only_an_unknown_agreement_makes_a_failed_payment_ask_the_provider() {
    let asks = |kind, agreement| asks_provider(&told(kind, NEWER, agreement, None), &pro());
    assert!(asks(Kind::Changed, None) && asks(Kind::Ended, Some("agreement_b")));
    assert!(asks(Kind::Unpaid, Some("agreement_c")));
    assert!(!asks(Kind::Unpaid, Some("agreement_b")) && !asks(Kind::Paid, Some("agreement_c")));
}

#[test]
fn six_tries_follow_the_schedule_with_a_little_spread_and_then_it_is_dead() {
    let steps = [5, 30, 120, 600, 3600];
    for (attempt, seconds) in (1..=5).zip(steps) {
        assert_eq!(retry(attempt, &steps, 0), Retry::After(seconds * 1000));
        let Retry::After(most) = retry(attempt, &steps, 999) else {
            panic!("not dead")
        };
        assert!(most > seconds * 1000 && most <= seconds * 1100, "{most}");
    }
    assert_eq!(retry(6, &steps, 0), Retry::Dead);
    assert_eq!(retry(1, &[], 0), Retry::Dead);
}

#[test]
fn an_outage_waits_by_the_same_steps_and_repeats_the_last_one() {
    let waits: Vec<i64> = (0..7)
        .map(|n| outage_wait(n, &[5, 30, 120], 0) / 1000)
        .collect();
    assert_eq!(waits, [5, 30, 120, 120, 120, 120, 120]);
}
