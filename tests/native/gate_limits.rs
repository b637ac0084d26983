//! The limit: known, stale, unlimited, absent, unknown; rings; the turn of the cycle.

use serde_json::{Value, json};

use counterfoil::gate::{self, wire::Ask};
use counterfoil::native::executor::block_on;
use counterfoil::units::AccountId;

use crate::desk::{Desk, advance_all};

fn code(body: &Value) -> &str {
    body["code"].as_str().unwrap_or_default()
}

fn ring(desk: &Desk) {
    let account = AccountId::new("a").unwrap();
    block_on(gate::tell(&desk.machine.world(), &account, Ask::Ring)).expect("it rings");
}

#[test]
fn a_stale_limit_admits_for_ten_minutes_and_then_the_gate_closes_until_it_can_be_read() {
    let desk = Desk::new(100);
    desk.job("fresh", 1);
    desk.provider_is_down(true);
    desk.silently(61);
    assert_eq!(desk.admit("stale", 1).0, 201);
    assert_eq!(
        desk.get("/v1/budget?feature=tokens")["limit_state"],
        "stale"
    );
    desk.silently(540);
    let (status, body) = desk.admit("closed", 1);
    assert_eq!((status, code(&body)), (503, "limit_unknown"));
    desk.provider_is_down(false);
    desk.silently(5);
    assert_eq!(desk.admit("open", 1).0, 201);
}

#[test]
fn after_a_failed_read_the_stale_limit_answers_at_once_for_five_seconds() {
    let desk = Desk::new(100);
    desk.job("fresh", 1);
    desk.provider_is_down(true);
    desk.silently(61);
    desk.job("one", 1);
    assert_eq!(desk.reads(), 2);
    for n in 0..10 {
        desk.job(&format!("k{n}"), 1);
    }
    assert_eq!(desk.reads(), 2);
    desk.silently(5);
    desk.job("again", 1);
    assert_eq!(desk.reads(), 3);
}

#[test]
fn a_feature_that_the_plan_does_not_name_is_403_and_an_empty_answer_is_unknown() {
    let desk = Desk::new(100);
    let images = json!({"key": "k", "feature": "images", "hold": 1});
    let (status, body) = desk.post("/v1/jobs", &images);
    assert_eq!((status, code(&body)), (403, "feature_not_in_plan"));
    assert_eq!(
        desk.get("/v1/budget?feature=images")["limit_state"],
        "absent"
    );
    desk.no_limits_at_all();
    ring(&desk);
    let (status, body) = desk.post("/v1/jobs", &images);
    assert_eq!((status, code(&body)), (503, "limit_unknown"));
}

#[test]
fn a_cheap_feature_is_admitted_while_its_limit_is_unknown_but_not_where_it_is_absent() {
    let desk = Desk::new(100);
    let hints = |key: &str| json!({"key": key, "feature": "hints", "hold": 1});
    assert_eq!(desk.post("/v1/jobs", &hints("absent")).0, 403);
    desk.provider_is_down(true);
    ring(&desk);
    assert_eq!(desk.post("/v1/jobs", &hints("open")).0, 201);
    assert_eq!(desk.admit("closed", 1).0, 503);
}

#[test]
fn an_account_without_a_customer_has_no_known_limit() {
    let desk = Desk::new(100);
    let (status, body) = desk.machine.call(
        "POST",
        "/v1/accounts",
        "dev-operator",
        &json!({"id": "free"}),
    );
    assert_eq!(status, 201, "{body}");
    let body = json!({"key": "k", "feature": "tokens", "hold": 1});
    let (status, body) = desk.post_as("free", "/v1/jobs", &body);
    assert_eq!((status, code(&body)), (503, "limit_unknown"));
    assert_eq!(desk.reads(), 0);
}

#[test]
fn a_ring_drops_the_limit_and_a_running_hold_is_never_changed() {
    let desk = Desk::new(100);
    let job = desk.job("k", 80);
    desk.limit("tokens", Some(50));
    ring(&desk);
    let (status, body) = desk.admit("next", 1);
    assert_eq!((status, &body["remaining"]), (402, &json!(0)));
    assert_eq!(body["limit"], 50);
    assert_eq!(desk.charge(&job, &json!({"units": 80})).0, 200);
    desk.settle(&job, &json!({}));
    assert_eq!(desk.taken(), (80, 0));
    desk.limit("tokens", Some(200));
    ring(&desk);
    assert_eq!(desk.admit("raised", 120).0, 201);
}

#[test]
fn an_answer_to_a_read_that_began_before_the_ring_is_thrown_away() {
    let desk = Desk::new(100);
    desk.hold_back_provider(true);
    let body = json!({"key": "k", "feature": "tokens", "hold": 60});
    let mut work = vec![Some(desk.on_its_way("/v1/jobs", &body))];
    let mut done = vec![None];
    advance_all(&mut work, &mut done);
    assert_eq!(desk.reads(), 1);
    desk.limit("tokens", Some(50));
    ring(&desk);
    desk.hold_back_provider(false);
    advance_all(&mut work, &mut done);
    let (status, body) = done[0].clone().expect("an answer");
    assert_eq!((status, &body["limit"]), (402, &json!(50)));
    assert_eq!(desk.reads(), 2);
}

/// G16: holds counted by the month they were made in.
#[test]
fn the_rest_of_a_running_hold_moves_to_the_new_cycle_before_anything_else_is_looked_at() {
    let desk = Desk::new(100);
    desk.until("2026-11-30T23:59:00Z");
    let job = desk.job("long", 100);
    desk.charge(&job, &json!({"units": 30}));
    desk.silently(90);
    let (status, body) = desk.admit("new", 31);
    assert_eq!((status, &body["reason"]), (402, &json!("held")));
    assert_eq!(desk.admit("small", 30).0, 201);
    assert_eq!(desk.get("/v1/budget?feature=tokens")["cycle"], "2026-12");
    assert_eq!(desk.taken(), (0, 100));
    desk.charge(&job, &json!({"units": 20}));
    let (_, end) = desk.settle(&job, &json!({"used": 60}));
    let by_cycle = json!({"2026-11": {"tokens": 30}, "2026-12": {"tokens": 30}});
    assert_eq!(end["by_cycle"], by_cycle);
    assert_eq!(end["charged"], json!({"tokens": 60}));
    assert_eq!(end["released"], json!({"tokens": 40}));
    desk.deliver();
    assert_eq!(desk.entries("a", "tokens", "2026-11"), 30);
    assert_eq!(desk.entries("a", "tokens", "2026-12"), 30);
    desk.in_order();
}

#[test]
fn a_silent_job_whose_lease_ended_before_the_turn_belongs_wholly_to_the_old_cycle() {
    let desk = Desk::new(100);
    desk.until("2026-11-30T23:57:00Z");
    let job = desk.job("silent", 100);
    desk.charge(&job, &json!({"units": 30}));
    desk.silently(600);
    assert_eq!(desk.admit("new", 100).0, 201);
    let (_, end) = desk.settle(&job, &json!({"used": 50}));
    assert_eq!(end["state"], "expired");
    assert_eq!(end["by_cycle"], json!({"2026-11": {"tokens": 30}}));
    desk.deliver();
    assert_eq!(desk.entries("a", "tokens", "2026-11"), 30);
}

#[test]
fn the_rest_of_a_hold_is_never_refused_in_the_new_cycle() {
    let desk = Desk::new(100);
    desk.until("2026-11-30T23:59:30Z");
    let job = desk.job("long", 100);
    desk.limit("tokens", Some(10));
    ring(&desk);
    desk.silently(60);
    assert_eq!(desk.taken(), (0, 100));
    assert_eq!(desk.is_left(), 0);
    let (status, end) = desk.settle(&job, &json!({"used": 100}));
    assert_eq!((status, &end["charged"]), (200, &json!({"tokens": 100})));
}

#[test]
fn a_job_over_two_turns_leaves_a_part_in_each_cycle() {
    let desk = Desk::new(1000);
    desk.until("2026-11-30T23:30:00Z");
    let body = json!({"key": "k", "feature": "tokens", "hold": 90, "lease_seconds": 3600});
    let (_, job) = desk.post("/v1/jobs", &body);
    let id = job["id"].as_str().unwrap().to_owned();
    let mut charged = 0;
    while charged < 60 {
        desk.seconds(3599);
        assert_eq!(desk.renew(&id).0, 200);
        let month = desk.get("/v1/budget?feature=tokens")["cycle"]
            .as_str()
            .unwrap()
            .to_owned();
        if (month == "2026-12" && charged == 0) || (month == "2027-01" && charged == 30) {
            desk.charge(&id, &json!({"units": 30}));
            charged += 30;
        }
    }
    let (_, end) = desk.settle(&id, &json!({"used": 65}));
    let expected = json!({"2026-11": {"tokens": 0}, "2026-12": {"tokens": 30},
        "2027-01": {"tokens": 35}});
    assert_eq!(end["by_cycle"], expected);
    desk.deliver();
    assert_eq!(desk.entries("a", "tokens", "2027-01"), 35);
    desk.in_order();
}

#[test]
fn a_clock_that_goes_back_never_takes_an_account_back_to_an_earlier_cycle() {
    let desk = Desk::new(100);
    desk.until("2026-12-01T00:00:10Z");
    desk.job("december", 10);
    desk.silently(-60);
    assert_eq!(desk.get("/v1/budget?feature=tokens")["cycle"], "2026-12");
    assert_eq!(desk.taken(), (0, 10));
}

#[test]
fn the_cycle_of_an_entry_is_a_row_of_the_control_database() {
    let desk = Desk::new(100);
    let job = desk.job("k", 10);
    desk.settle(&job, &json!({"used": 1}));
    desk.deliver();
    let statement = counterfoil::ports::Statement::new(
        "select name, ends_at_ms from cycle where account_id = 'a'",
        Vec::new(),
    );
    let rows = block_on(counterfoil::ports::Db::query(
        &desk.machine.control,
        statement,
    ))
    .unwrap();
    assert!(
        rows.iter()
            .any(|row| row.text("name").unwrap() == "2026-11")
    );
}

/// The end of the running cycle was moved: a long job must not turn by what its object knew.
#[test]
fn an_end_that_was_moved_is_known_to_the_object_before_it_comes() {
    let desk = Desk::new(100);
    desk.until("2026-11-30T23:30:00Z");
    let body = json!({"key": "k", "feature": "tokens", "hold": 90, "lease_seconds": 3600});
    let (_, job) = desk.post("/v1/jobs", &body);
    let id = job["id"].as_str().unwrap();
    let at = |text: &str| counterfoil::moment::parse_millis(text).unwrap();
    let add = counterfoil::ports::Statement::new(
        "insert into anchor (account_id, number, at_ms, day, opens_ms, source, fixed_at_ms) \
         values ('a', 2, ?1, 2, ?2, 'period_mismatch', ?2)",
        counterfoil::params![at("2026-12-02T00:00:00Z"), at("2026-11-01T00:00:00Z")],
    );
    let world = desk.machine.world();
    block_on(world.db.query(add)).unwrap();
    let account = AccountId::new("a").unwrap();
    let account = block_on(counterfoil::accounts::store::load(&*world.db, &account));
    block_on(gate::teach(&world, &account.unwrap().unwrap())).unwrap();
    desk.until("2026-12-01T00:10:00Z");
    desk.charge(id, &json!({"units": 30}));
    let (_, end) = desk.settle(id, &json!({}));
    assert_eq!(end["by_cycle"], json!({"2026-11": {"tokens": 30}}));
}
