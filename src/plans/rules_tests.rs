//! The plan rules, each refusal and proof once.

use super::*;
use crate::moment::{format, parse_millis};

fn at(text: &str) -> Millis {
    parse_millis(text).expect("a moment")
}

fn plan(code: &str) -> PlanCode {
    PlanCode::new(code).expect("a plan")
}

fn agreement(id: &str, code: &str, start: Option<&str>, end: Option<&str>) -> Agreement {
    Agreement {
        agreement_id: AgreementId::new(id).expect("an id"),
        plan: plan(code),
        expires_at: end.map(at),
        period_start: start.map(at),
        period_end: None,
        feature_keys: Vec::new(),
    }
}

fn stored(code: &str, id: Option<&str>) -> Stored {
    Stored {
        plan: plan(code),
        agreement_id: id.and_then(AgreementId::new),
        since: None,
        ends_at: None,
        cancelled: false,
        empty_since: None,
        wanted: None,
    }
}

const NOW: &str = "2026-11-10T12:00:00Z";

#[test]
fn the_current_agreement_has_no_end_then_the_latest_period_then_the_greatest_id() {
    let pick = |list: &[Agreement]| current(list, at(NOW)).map(|one| one.agreement_id.to_string());
    let ended = agreement("a9", "pro", None, Some(NOW));
    assert_eq!(pick(std::slice::from_ref(&ended)), None);
    let ending = agreement("a8", "pro", Some(NOW), Some("2026-12-01T00:00:00Z"));
    assert_eq!(
        pick(&[ended.clone(), ending.clone()]).as_deref(),
        Some("a8")
    );
    let old = agreement("a7", "pro", Some("2026-10-01T00:00:00Z"), None);
    assert_eq!(pick(&[ending, old.clone()]).as_deref(), Some("a7"));
    let new = agreement("a1", "pro", Some("2026-11-01T00:00:00Z"), None);
    assert_eq!(pick(&[old, new.clone()]).as_deref(), Some("a1"));
    let twin = agreement("a2", "free", Some("2026-11-01T00:00:00Z"), None);
    assert_eq!(pick(&[twin.clone(), new.clone()]).as_deref(), Some("a2"));
    assert_eq!(pick(&[new, twin]).as_deref(), Some("a2"));
}

#[test]
fn a_period_that_a_short_month_cut_keeps_the_day_of_the_subscription() {
    let check = |start: Option<&str>, on: Option<&str>, day: u8, from: AnchorSource| {
        let (anchor, source) =
            anchor(&agreement("a", "pro", start, None), on.map(at)).expect("an anchor");
        assert_eq!((anchor.day, source), (day, from), "{start:?} {on:?}");
    };
    let (feb, jan) = ("2027-02-28T10:00:00Z", "2027-01-31T10:00:00Z");
    check(Some(feb), Some(jan), 31, AnchorSource::Period);
    check(Some(feb), None, 28, AnchorSource::Period);
    check(
        Some("2027-02-27T10:00:00Z"),
        Some(jan),
        27,
        AnchorSource::Period,
    );
    check(
        Some("2028-02-28T10:00:00Z"),
        Some(jan),
        28,
        AnchorSource::Period,
    );
    check(
        Some("2027-04-30T10:00:00Z"),
        Some(jan),
        31,
        AnchorSource::Period,
    );
    check(None, Some(jan), 31, AnchorSource::SubscribedOn);
    assert_eq!(anchor(&agreement("a", "pro", None, None), None), None);
    let cut = anchor(&agreement("a", "pro", Some(feb), None), Some(at(jan))).expect("an anchor");
    let march = crate::cycle::cycle_at(&[cut.0], at("2027-03-31T10:00:00Z"));
    assert_eq!(format(march.starts_at), "2027-03-31T10:00:00.000Z");
}

#[test]
fn the_read_decides_the_plan_whatever_is_stored() {
    let list = [agreement("b", "pro", Some(NOW), None)];
    let outcome = decide(&stored("free", Some("a")), &list, &plan("free"), at(NOW));
    assert_eq!(outcome.plan, plan("pro"));
    assert!(outcome.changed && outcome.plan_changed && outcome.read);
    assert_eq!(outcome.unfinished, None);
    let again = decide(&stored("pro", Some("b")), &list, &plan("free"), at(NOW));
    assert!(!again.changed);
}

#[test]
fn an_empty_answer_alone_downgrades_nobody() {
    let outcome = decide(&stored("pro", Some("b")), &[], &plan("free"), at(NOW));
    assert_eq!((outcome.plan, outcome.changed), (plan("pro"), false));
    assert_eq!(outcome.unfinished, Some(Unfinished::NoAgreement));
    assert_eq!(outcome.empty_since, Some(at(NOW)));
}

#[test]
fn each_proof_of_an_end_moves_the_account_to_the_free_plan() {
    let base = stored("pro", Some("b"));
    let proof_of = |stored: Stored, list: &[Agreement]| {
        let outcome = decide(&stored, list, &plan("free"), at(NOW));
        assert_eq!(outcome.plan == plan("free"), outcome.proof.is_some());
        outcome.proof
    };
    let cancelled = Stored {
        cancelled: true,
        ..base.clone()
    };
    assert_eq!(proof_of(cancelled, &[]), Some(Proof::Cancelled));
    let listed = [agreement("b", "pro", None, Some("2026-11-10T11:00:00Z"))];
    assert_eq!(proof_of(base.clone(), &listed), Some(Proof::Expired));
    let other = [agreement("c", "pro", None, Some("2026-11-10T11:00:00Z"))];
    assert_eq!(proof_of(base.clone(), &other), None);
    let known = Stored {
        ends_at: Some(at(NOW)),
        ..base.clone()
    };
    assert_eq!(proof_of(known, &[]), Some(Proof::Expired));
    for (ago_ms, proof) in [(59_999, None), (60_000, Some(Proof::TwiceEmpty))] {
        let twice = Stored {
            empty_since: Some(at(NOW).after(-ago_ms)),
            ..base.clone()
        };
        assert_eq!(proof_of(twice, &[]), proof);
    }
}

#[test]
fn a_read_that_lags_behind_the_event_is_asked_again_and_then_stands() {
    let list = [agreement("a", "free", Some(NOW), None)];
    let lagging = Stored {
        wanted: Some(plan("pro")),
        ..stored("free", Some("a"))
    };
    let outcome = decide(&lagging, &list, &plan("free"), at(NOW));
    assert_eq!(outcome.unfinished, Some(Unfinished::OtherPlan));
    let steps = [30, 300];
    assert_eq!(follow_up(outcome.unfinished, 0, &steps), Some(30));
    assert_eq!(follow_up(outcome.unfinished, 1, &steps), Some(300));
    assert_eq!(follow_up(outcome.unfinished, 2, &steps), None);
    assert_eq!(
        follow_up(Some(Unfinished::Unreadable), 9, &steps),
        Some(300)
    );
    assert_eq!(follow_up(None, 0, &steps), None);
}

#[test]
fn a_payment_of_a_cycle_before_the_plan_grants_nothing_there() {
    let since = Some(at(NOW));
    assert!(payment_grants(since, at("2026-12-01T00:00:00Z")));
    assert!(!payment_grants(since, at("2026-11-01T00:00:00Z")));
    assert!(payment_grants(None, at("2026-11-01T00:00:00Z")));
}
