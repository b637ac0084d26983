//! The gate over its routes: holds, charges, settlement, keys, leases, limits.

use serde_json::{Value, json};

use crate::desk::{BACKEND, Desk, OPERATOR, advance_all, at_once, number};

fn state(body: &Value) -> &str {
    body["state"].as_str().unwrap_or_default()
}

fn code(body: &Value) -> &str {
    body["code"].as_str().unwrap_or_default()
}

#[test]
fn a_job_holds_charges_and_settles_at_what_it_used() {
    let desk = Desk::new(100);
    let (status, job) = desk.admit("k", 40);
    assert_eq!(status, 201);
    assert_eq!(job["state"], "running");
    assert_eq!(job["cycle"], "2026-11");
    assert_eq!(job["holds"], json!({"tokens": {"held": 40, "used": 0}}));
    assert_eq!(job["remaining"], json!({"tokens": 60}));
    assert_eq!(job["lease_seconds"], 120);
    assert_eq!(job["lease_ends_at"], "2026-11-10T12:02:00.000Z");
    let id = job["id"].as_str().unwrap();
    let (status, charge) = desk.charge(id, &json!({"units": 15}));
    assert_eq!(status, 200);
    assert_eq!(charge["charged"], 15);
    assert_eq!(charge["capped"], false);
    assert_eq!((&charge["held"], &charge["used"]), (&json!(40), &json!(15)));
    let (status, end) = desk.settle(id, &json!({"used": 25, "outcome": "done"}));
    assert_eq!(status, 200);
    let expected = json!({"state": "settled", "charged": {"tokens": 25},
        "released": {"tokens": 15}, "uncovered": {"tokens": 0},
        "by_cycle": {"2026-11": {"tokens": 25}}});
    assert_eq!(end, expected);
    assert_eq!(desk.taken(), (25, 0));
    desk.deliver();
    assert_eq!(desk.entries("a", "tokens", "2026-11"), 25);
    desk.in_order();
}

/// G1: the session budget is read before the call and raised after it.
#[test]
fn two_jobs_that_ask_at_once_never_pass_the_limit() {
    let desk = Desk::new(10);
    let first = desk.job("first", 9);
    desk.settle(&first, &json!({"used": 9}));
    let ask = |key: &str, hold: i64| {
        let body = json!({"key": key, "feature": "tokens", "hold": hold});
        desk.on_its_way("/v1/jobs", &body)
    };
    let told = at_once(vec![ask("x", 5), ask("y", 5), ask("z", 1), ask("w", 1)]);
    let statuses: Vec<u16> = told.into_iter().map(|told| told.unwrap().0).collect();
    assert_eq!(statuses, [402, 402, 201, 402]);
    assert_eq!(desk.taken(), (9, 1));
}

/// G2: a customer seen for the first time has no row.
#[test]
fn parallel_first_calls_of_a_new_account_read_the_limit_once_and_admit_one() {
    let desk = Desk::new(1);
    desk.hold_back_provider(true);
    let mut work: Vec<_> = (0..8)
        .map(|n| {
            let body = json!({"key": format!("k{n}"), "feature": "tokens", "hold": 1});
            Some(desk.on_its_way("/v1/jobs", &body))
        })
        .collect();
    let mut done: Vec<Option<(u16, Value)>> = vec![None; 8];
    advance_all(&mut work, &mut done);
    assert!(done.iter().all(Option::is_none));
    assert_eq!(desk.reads(), 1);
    desk.hold_back_provider(false);
    advance_all(&mut work, &mut done);
    let admitted = done.iter().flatten().filter(|(status, _)| *status == 201);
    assert_eq!(admitted.count(), 1);
    assert_eq!(desk.reads(), 1);
    assert_eq!(desk.taken(), (0, 1));
}

/// G2, the other half: the limit cannot be read.
#[test]
fn nothing_is_admitted_while_the_limit_cannot_be_read() {
    let desk = Desk::new(1);
    desk.provider_is_down(true);
    let ask = |n: i64| {
        let body = json!({"key": format!("k{n}"), "feature": "tokens", "hold": 1});
        desk.on_its_way("/v1/jobs", &body)
    };
    for (status, body) in at_once((0..8).map(ask).collect()).into_iter().flatten() {
        assert_eq!((status, code(&body)), (503, "limit_unknown"));
    }
    assert_eq!(desk.reads(), 1);
}

/// G3: the gate counts its own holds, the provider's number is only the limit.
#[test]
fn five_jobs_within_the_life_of_one_read_get_one_unit_together() {
    let desk = Desk::new(1);
    let told: Vec<u16> = (0..5).map(|n| desk.admit(&format!("k{n}"), 1).0).collect();
    assert_eq!(told, [201, 402, 402, 402, 402]);
    assert_eq!(desk.reads(), 1);
}

/// G4: a streamed call that fails before its first chunk.
#[test]
fn a_job_that_fails_before_any_work_gives_everything_back() {
    let desk = Desk::new(10);
    let job = desk.job("first", 8);
    let (_, end) = desk.settle(&job, &json!({"outcome": "failed"}));
    assert_eq!(end["charged"], json!({"tokens": 0}));
    assert_eq!(desk.admit("second", 8).0, 201);
    assert_eq!(desk.taken(), (0, 8));
}

/// G5: a retried reserve whose first answer was lost.
#[test]
fn the_same_key_holds_once_and_answers_the_same_job() {
    let desk = Desk::new(100);
    let (first, job) = desk.admit("K", 30);
    let (again, same) = desk.admit("K", 30);
    assert_eq!((first, again), (201, 200));
    assert_eq!(job, same);
    assert_eq!(desk.taken(), (0, 30));
    let id = job["id"].as_str().unwrap();
    desk.settle(id, &json!({"used": 30}));
    assert_eq!(desk.taken(), (30, 0));
}

/// G6: a duplicate owns nothing; only the settle of the job itself gives back.
#[test]
fn another_request_under_a_live_key_is_refused_and_changes_nothing() {
    let desk = Desk::new(100);
    let job = desk.job("J", 20);
    let before = desk.stored();
    let (status, body) = desk.admit("J", 21);
    assert_eq!((status, code(&body)), (409, "key_conflict"));
    assert_eq!(desk.stored(), before);
    assert_eq!(desk.charge(&job, &json!({"units": 5})).0, 200);
    assert_eq!(desk.taken(), (0, 20));
}

/// G7: worst-case estimates fill the budget; a small first hold with top-up lets all run.
#[test]
fn a_denial_says_that_it_is_held_and_when_the_next_lease_ends() {
    let desk = Desk::new(25);
    for n in 0..5 {
        desk.job(&format!("agent{n}"), 5);
    }
    let (status, body) = desk.admit("agent5", 5);
    assert_eq!(status, 402);
    assert_eq!(body["reason"], "held");
    assert_eq!(body["remaining"], 0);
    assert_eq!((&body["used"], &body["held"]), (&json!(0), &json!(25)));
    assert_eq!((&body["limit"], &body["asked"]), (&json!(25), &json!(5)));
    assert_eq!(body["next_lease_ends_at"], "2026-11-10T12:02:00.000Z");
    let desk = Desk::new(25);
    let jobs: Vec<String> = (0..6).map(|n| desk.job(&format!("agent{n}"), 1)).collect();
    assert_eq!(desk.extend(&jobs[0], &json!({"units": 4})).0, 200);
    assert_eq!(desk.taken(), (0, 10));
}

#[test]
fn retry_after_comes_only_where_waiting_helps() {
    let desk = Desk::new(10);
    desk.job("x", 6);
    let retry_after = |hold: i64| {
        let body = json!({"key": "y", "feature": "tokens", "hold": hold});
        let request =
            counterfoil::native::machine::request("POST", "/v1/jobs?account=a", BACKEND, &body);
        let response = desk.machine.handle(request);
        response.header("retry-after").map(str::to_owned)
    };
    assert_eq!(retry_after(5).as_deref(), Some("120"));
    assert_eq!(retry_after(11), None);
}

/// G8: the first settle is final, whatever a clean-up says afterwards.
#[test]
fn a_second_settle_is_answered_as_the_first() {
    let desk = Desk::new(100);
    let job = desk.job("k", 22);
    let (_, first) = desk.settle(&job, &json!({"used": 33}));
    assert_eq!(first["charged"], json!({"tokens": 22}));
    assert_eq!(first["uncovered"], json!({"tokens": 11}));
    let before = desk.stored();
    let (status, again) = desk.settle(&job, &json!({"used": 0}));
    assert_eq!((status, again), (200, first));
    assert_eq!(desk.stored(), before);
    assert_eq!(desk.taken(), (22, 0));
}

/// G10: a worker that lost its lease and its successor charge the same step.
#[test]
fn a_step_counts_once_and_a_job_that_is_over_is_not_charged() {
    let desk = Desk::new(100);
    let job = desk.job("k", 20);
    let charge = json!({"units": 5, "step": "3"});
    let (_, first) = desk.charge(&job, &charge);
    desk.seconds(10);
    let before = desk.stored();
    let (status, again) = desk.charge(&job, &charge);
    assert_eq!((status, again), (200, first.clone()));
    assert_eq!(desk.stored(), before);
    let (status, body) = desk.charge(&job, &json!({"units": 6, "step": "3"}));
    assert_eq!((status, code(&body)), (409, "key_conflict"));
    let (status, body) = desk.extend(&job, &json!({"units": 5, "step": "3"}));
    assert_eq!((status, code(&body)), (409, "key_conflict"));
    desk.settle(&job, &json!({}));
    assert_eq!(desk.charge(&job, &charge), (200, first));
    let (status, body) = desk.charge(&job, &json!({"units": 5, "step": "4"}));
    assert_eq!(
        (status, code(&body), state(&body)),
        (409, "job_over", "settled")
    );
    assert_eq!(desk.taken(), (5, 0));
}

/// G11: a stream dies after output.
#[test]
fn what_was_charged_is_never_given_back() {
    let desk = Desk::new(10);
    let job = desk.job("k", 10);
    desk.charge(&job, &json!({"units": 2}));
    desk.charge(&job, &json!({"units": 2}));
    desk.settle(&job, &json!({"used": 0, "outcome": "failed"}));
    assert_eq!(desk.taken(), (4, 0));
    assert_eq!(desk.is_left(), 6);
}

/// G13: on an unlimited plan a hold is a hold.
#[test]
fn an_unlimited_account_is_admitted_and_recorded() {
    let desk = Desk::new(0);
    desk.limit("tokens", None);
    let (status, job) = desk.admit("K", 10);
    assert_eq!(status, 201);
    assert_eq!(job["remaining"], json!({"tokens": null}));
    let (status, _) = desk.settle(job["id"].as_str().unwrap(), &json!({"used": 4}));
    assert_eq!(status, 200);
    desk.deliver();
    assert_eq!(desk.entries("a", "tokens", "2026-11"), 4);
    let budget = desk.get("/v1/budget?feature=tokens");
    assert_eq!(budget["limit_state"], "unlimited");
    assert_eq!(budget["limit"], Value::Null);
    let most = json!({"key": "most", "feature": "tokens", "hold": 9_007_199_254_740_991_i64});
    assert_eq!(desk.post("/v1/jobs", &most).0, 402);
}

/// G23: the fingerprint covers the resource.
#[test]
fn the_same_step_of_two_jobs_is_two_charges() {
    let desk = Desk::new(100);
    let (one, two) = (desk.job("one", 10), desk.job("two", 10));
    let charge = json!({"units": 3, "step": "s"});
    assert_eq!(desk.charge(&one, &charge).0, 200);
    assert_eq!(desk.charge(&two, &charge).0, 200);
    desk.settle(&one, &json!({}));
    desk.settle(&two, &json!({}));
    assert_eq!(desk.taken(), (6, 0));
}

/// G32: the hold expires at T; at T + 1 ms, before any sweep, settle arrives.
#[test]
fn a_settle_between_expiry_and_sweep_has_one_clear_answer() {
    let desk = Desk::new(100);
    let job = desk.job("k", 20);
    desk.charge(&job, &json!({"units": 5}));
    desk.silently(120);
    let read = desk.get(&format!("/v1/jobs/{job}"));
    assert_eq!(read["state"], "expired");
    let (status, end) = desk.settle(&job, &json!({"used": 12}));
    assert_eq!((status, state(&end)), (200, "expired"));
    assert_eq!(end["charged"], json!({"tokens": 5}));
    assert_eq!(end["uncovered"], json!({"tokens": 7}));
    assert_eq!(desk.taken(), (5, 0));
    for (path, body) in [("renew", json!({})), ("extend", json!({"units": 1}))] {
        let (status, body) = desk.post(&format!("/v1/jobs/{job}/{path}"), &body);
        assert_eq!(
            (status, code(&body), state(&body)),
            (409, "job_over", "expired")
        );
    }
    desk.deliver();
    assert_eq!(desk.entries("a", "tokens", "2026-11"), 5);
}

#[test]
fn late_use_is_kept_once_and_goes_to_review() {
    let desk = Desk::new(100);
    let job = desk.job("k", 20);
    desk.seconds(121);
    let (_, first) = desk.settle(&job, &json!({"used": 12}));
    let (_, again) = desk.settle(&job, &json!({"used": 90}));
    assert_eq!(first, again);
    desk.deliver();
    let rows = desk.ledger("select kind, account_id, numbers from review");
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].text("kind").unwrap(), "late_use");
    let numbers: Value = serde_json::from_str(rows[0].text("numbers").unwrap()).unwrap();
    assert_eq!(numbers["late"], 12);
    assert_eq!(desk.taken(), (0, 0));
}

/// G31: an alarm that never fires; every call sweeps first.
#[test]
fn a_lost_alarm_holds_nothing_for_longer_than_the_next_call() {
    let desk = Desk::new(10);
    desk.job("k", 10);
    desk.silently(2 * 86_400);
    assert_eq!(desk.admit("next", 10).0, 201);
    assert_eq!(desk.taken(), (0, 10));
}

#[test]
fn a_sign_of_life_keeps_a_job_and_its_absence_ends_it() {
    let desk = Desk::new(10);
    let body = json!({"key": "k", "feature": "tokens", "hold": 4, "lease_seconds": 30});
    let (_, job) = desk.post("/v1/jobs", &body);
    let id = job["id"].as_str().unwrap();
    for _ in 0..5 {
        desk.seconds(29);
        assert_eq!(desk.renew(id).0, 200);
    }
    desk.seconds(29);
    assert_eq!(desk.charge(id, &json!({"units": 1})).0, 200);
    desk.seconds(30);
    assert_eq!(desk.get(&format!("/v1/jobs/{id}"))["state"], "expired");
    assert_eq!(desk.taken(), (1, 0));
}

#[test]
fn past_the_hold_a_charge_is_cut_and_the_job_lives_on() {
    let desk = Desk::new(20);
    let job = desk.job("k", 10);
    desk.charge(&job, &json!({"units": 8}));
    let (status, cut) = desk.charge(&job, &json!({"units": 5}));
    assert_eq!(status, 200);
    assert_eq!((&cut["charged"], &cut["uncovered"]), (&json!(2), &json!(3)));
    assert_eq!(cut["capped"], true);
    assert_eq!(desk.get(&format!("/v1/jobs/{job}"))["capped"], true);
    let (status, more) = desk.extend(&job, &json!({"units": 10}));
    assert_eq!(status, 200);
    assert_eq!(more["holds"], json!({"tokens": {"held": 20, "used": 10}}));
    let (_, whole) = desk.charge(&job, &json!({"units": 3}));
    assert_eq!(
        (&whole["charged"], &whole["capped"]),
        (&json!(3), &json!(false))
    );
    let (status, body) = desk.extend(&job, &json!({"units": 1}));
    assert_eq!((status, &body["reason"]), (402, &json!("held")));
}

#[test]
fn several_features_are_held_and_charged_each_on_its_own() {
    let desk = Desk::new(10);
    desk.limit("images", Some(2));
    let body = json!({"key": "k", "holds": {"tokens": 6, "images": 3}});
    let (status, body) = desk.post("/v1/jobs", &body);
    assert_eq!((status, &body["feature"]), (402, &json!("images")));
    assert_eq!(desk.taken(), (0, 0));
    let body = json!({"key": "k", "holds": {"tokens": 6, "images": 2}});
    let (status, job) = desk.post("/v1/jobs", &body);
    assert_eq!(status, 201);
    let id = job["id"].as_str().unwrap();
    let (status, body) = desk.charge(id, &json!({"units": 1}));
    assert_eq!((status, &body["field"]), (422, &json!("feature")));
    let (_, charge) = desk.charge(id, &json!({"units": 1, "feature": "images"}));
    assert_eq!(charge["charged"], json!({"tokens": 0, "images": 1}));
    desk.charge(id, &json!({"units": {"tokens": 2, "images": 1}}));
    let (_, end) = desk.settle(id, &json!({"used": {"tokens": 5}}));
    assert_eq!(end["charged"], json!({"tokens": 5, "images": 2}));
    desk.deliver();
    assert_eq!(desk.entries("a", "tokens", "2026-11"), 5);
    assert_eq!(desk.entries("a", "images", "2026-11"), 2);
}

#[test]
fn two_accounts_with_the_same_key_share_nothing() {
    let desk = Desk::new(10);
    let body = json!({"key": "k", "feature": "tokens", "hold": 10});
    let (_, one) = desk.post_as("a", "/v1/jobs", &body);
    let (status, two) = desk.post_as("b", "/v1/jobs", &body);
    assert_eq!(status, 201);
    let (one, two) = (one["id"].as_str().unwrap(), two["id"].as_str().unwrap());
    let (status, _) = desk.post_as("b", &format!("/v1/jobs/{one}/settle"), &json!({}));
    assert_eq!(status, 404);
    desk.settle(one, &json!({"used": 3}));
    desk.post_as("b", &format!("/v1/jobs/{two}/settle"), &json!({"used": 4}));
    desk.deliver();
    assert_eq!(desk.entries("a", "tokens", "2026-11"), 3);
    assert_eq!(desk.entries("b", "tokens", "2026-11"), 4);
}

#[test]
fn a_key_may_be_used_again_once_it_was_pruned_and_no_entry_is_lost() {
    let desk = Desk::new(100);
    let first = desk.job("k", 10);
    desk.settle(&first, &json!({"used": 7}));
    desk.deliver();
    assert_eq!(desk.admit("k", 10).0, 409);
    desk.seconds(7 * 86_400);
    desk.seconds(60);
    let second = desk.job("k", 10);
    assert_ne!(first, second);
    desk.settle(&second, &json!({"used": 5}));
    desk.deliver();
    assert_eq!(desk.entries("a", "tokens", "2026-11"), 12);
    let estimates = desk.get("/v1/jobs/estimates?feature=tokens");
    assert_eq!(estimates["jobs"], 2);
    assert_eq!(
        (&estimates["held"], &estimates["charged"]),
        (&json!(20), &json!(12))
    );
    assert_eq!(estimates["tenths"], json!([0, 0, 0, 0, 0, 1, 0, 1, 0, 0]));
    desk.in_order();
}

#[test]
fn no_more_new_jobs_a_minute_than_allowed_and_repeats_and_refusals_are_free() {
    let desk = Desk::with(1000, &[("JOBS_PER_MINUTE", "3")]);
    desk.job("one", 1);
    for _ in 0..5 {
        assert_eq!(desk.admit("one", 1).0, 200);
        assert_eq!(desk.admit("big", 5000).0, 402);
    }
    desk.job("two", 1);
    desk.job("three", 1);
    let (status, body) = desk.admit("four", 1);
    assert_eq!((status, code(&body)), (429, "rate_limited"));
    desk.seconds(60);
    assert_eq!(desk.admit("four", 1).0, 201);
}

#[test]
fn bad_input_is_named_and_changes_nothing() {
    let desk = Desk::new(100);
    desk.job("live", 1);
    let before = desk.stored();
    let long = "k".repeat(300);
    let cases = [
        (json!({"key": "k", "feature": "tokens", "hold": 0}), "hold"),
        (json!({"key": "k", "feature": "tokens", "hold": -1}), "hold"),
        (
            json!({"key": "k", "feature": "tokens", "hold": 1.5}),
            "hold",
        ),
        (
            json!({"key": "k", "feature": "tokens", "hold": "10"}),
            "hold",
        ),
        (
            json!({"key": "k", "feature": "tokens", "hold": 9_007_199_254_740_992_i64}),
            "hold",
        ),
        (json!({"key": "k", "feature": "tokens"}), "hold"),
        (
            json!({"key": "k", "feature": "nothing", "hold": 1}),
            "feature",
        ),
        (
            json!({"key": "k", "feature": "clicks", "hold": 1}),
            "feature",
        ),
        (json!({"key": "k", "hold": 1}), "feature"),
        (json!({"key": long, "feature": "tokens", "hold": 1}), "key"),
        (json!({"feature": "tokens", "hold": 1}), "key"),
        (json!({"key": "k", "holds": {}}), "holds"),
        (json!({"key": "k", "holds": {"tokens": 0}}), "holds.tokens"),
        (
            json!({"key": "k", "feature": "tokens", "hold": 1, "lease_seconds": 0}),
            "lease_seconds",
        ),
        (
            json!({"key": "k", "feature": "tokens", "hold": 1, "lease_seconds": 3601}),
            "lease_seconds",
        ),
        (
            json!({"key": "k", "feature": "tokens", "hold": 1, "x": 1}),
            "x",
        ),
    ];
    for (body, field) in cases {
        let (status, answer) = desk.post("/v1/jobs", &body);
        assert_eq!((status, &answer["field"]), (422, &json!(field)), "{body}");
    }
    assert_eq!(desk.charge("job_nobody", &json!({"units": 1})).0, 404);
    assert_eq!(desk.charge("job_nobody", &json!({"units": 0})).0, 422);
    assert_eq!(desk.stored(), before);
}

#[test]
fn an_operator_settles_with_a_reason_that_the_audit_keeps() {
    let desk = Desk::new(100);
    let job = desk.job("k", 10);
    let target = format!("/v1/jobs/{job}/settle?account=a");
    let settle = |body: &Value| desk.machine.call("POST", &target, OPERATOR, body);
    let (status, body) = settle(&json!({"used": 4}));
    assert_eq!((status, &body["field"]), (422, &json!("reason")));
    assert_eq!(
        settle(&json!({"used": 4, "reason": "worker is gone"})).0,
        200
    );
    let (_, audit) = desk
        .machine
        .call("GET", "/v1/audit?account=a", OPERATOR, &Value::Null);
    let row = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["action"] == "job.settle");
    assert_eq!(row.unwrap()["reason"], "worker is gone");
}

/// The audit tells what took effect: once, however often somebody asks again, and also where the
/// first answer was lost before its row was written.
#[test]
fn a_job_settled_by_hand_is_in_the_audit_once() {
    let desk = Desk::new(100);
    let settle = |job: &str, body: &Value| {
        let target = format!("/v1/jobs/{job}/settle?account=a");
        assert_eq!(desk.machine.call("POST", &target, OPERATOR, body).0, 200);
    };
    let audited = || {
        let (_, audit) = desk
            .machine
            .call("GET", "/v1/audit?account=a", OPERATOR, &Value::Null);
        let rows = audit["items"].as_array().unwrap().iter();
        let rows = rows.filter(|row| row["action"] == "job.settle");
        rows.map(|row| (row["target"].clone(), row["reason"].clone()))
            .collect::<Vec<_>>()
    };
    let by_hand = desk.job("by-hand", 10);
    settle(&by_hand, &json!({"used": 4, "reason": "worker is gone"}));
    let first = (json!(by_hand), json!("worker is gone"));
    let forget = "delete from audit where action = 'job.settle'";
    let forget = counterfoil::ports::Statement::new(forget, Vec::new());
    counterfoil::native::executor::block_on(desk.machine.world().db.query(forget)).unwrap();
    desk.seconds(5);
    settle(&by_hand, &json!({"used": 9, "reason": "again"}));
    settle(&by_hand, &json!({"used": 9, "reason": "and again"}));
    assert_eq!(audited(), std::slice::from_ref(&first));
    // What its owner settled, an operator does not.
    let owned = desk.job("owned", 10);
    desk.settle(&owned, &json!({"used": 1}));
    settle(&owned, &json!({"reason": "to be sure"}));
    assert_eq!(audited(), std::slice::from_ref(&first));
    // Late use that a person reports is theirs.
    let silent = desk.job("silent", 10);
    desk.seconds(121);
    settle(&silent, &json!({"reason": "nothing was used"}));
    assert_eq!(audited(), std::slice::from_ref(&first));
    settle(
        &silent,
        &json!({"used": 3, "reason": "from the worker's log"}),
    );
    settle(&silent, &json!({"used": 3, "reason": "again"}));
    assert_eq!(
        audited(),
        [(json!(silent), json!("from the worker's log")), first]
    );
}

#[test]
fn jobs_are_listed_newest_first_page_by_page() {
    let desk = Desk::new(100);
    let ids: Vec<String> = (0..5)
        .map(|n| {
            desk.seconds(1);
            desk.job(&format!("k{n}"), 1)
        })
        .collect();
    desk.settle(&ids[2], &json!({}));
    let page = desk.get("/v1/jobs?limit=2");
    let shown: Vec<&str> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|j| j["id"].as_str().unwrap())
        .collect();
    assert_eq!(shown, [&ids[4], &ids[3]]);
    let next = page["next"].as_str().unwrap();
    let page = desk.get(&format!("/v1/jobs?limit=9&after={next}"));
    assert_eq!(page["items"].as_array().unwrap().len(), 3);
    assert_eq!(page["next"], Value::Null);
    let running = desk.get("/v1/jobs?state=running&feature=tokens");
    assert_eq!(running["items"].as_array().unwrap().len(), 4);
    let (status, all) = desk.machine.call("GET", "/v1/jobs", OPERATOR, &Value::Null);
    assert_eq!(status, 200);
    let expected = json!({"account": "a",
        "features": {"tokens": {"used": 0, "held": 4, "jobs": 4}}});
    assert_eq!(all["items"], json!([expected]));
}

#[test]
fn everything_answers_the_same_after_a_restart() {
    let desk = Desk::new(100);
    let job = desk.job("k", 10);
    let (_, charge) = desk.charge(&job, &json!({"units": 3, "step": "1"}));
    let (_, more) = desk.extend(&job, &json!({"units": 5, "step": "2"}));
    desk.machine.objects.evict_all();
    assert_eq!(desk.admit("k", 10).0, 200);
    assert_eq!(
        desk.charge(&job, &json!({"units": 3, "step": "1"})),
        (200, charge)
    );
    assert_eq!(
        desk.extend(&job, &json!({"units": 5, "step": "2"})),
        (200, more)
    );
    let (_, end) = desk.settle(&job, &json!({"used": 9}));
    desk.machine.objects.evict_all();
    assert_eq!(desk.settle(&job, &json!({"used": 9})), (200, end));
    assert_eq!(desk.taken(), (9, 0));
}

#[test]
fn the_last_fifty_refusals_are_kept() {
    let desk = Desk::new(10);
    for n in 0..60 {
        assert_eq!(desk.admit(&format!("k{n}"), 11).0, 402);
    }
    let account = counterfoil::units::AccountId::new("a").unwrap();
    let world = desk.machine.world();
    let told = counterfoil::native::executor::block_on(async {
        let db = &*world.db;
        let account = counterfoil::accounts::store::load(db, &account)
            .await
            .unwrap()
            .unwrap();
        counterfoil::gate::ask(&world, &account, counterfoil::gate::wire::Ask::Refusals).await
    });
    let counterfoil::gate::wire::Told::Refusals(items) = told.unwrap() else {
        panic!("not refusals");
    };
    assert_eq!(items.len(), 50);
    assert_eq!(
        (items[0].subject.as_str(), items[49].subject.as_str()),
        ("k59", "k10")
    );
}

#[test]
fn a_budget_of_a_counted_feature_shows_the_ledger() {
    let desk = Desk::new(10);
    desk.limit("clicks", Some(5));
    let budget = desk.get("/v1/budget?feature=clicks");
    assert_eq!(
        (&budget["used"], &budget["remaining"]),
        (&json!(0), &json!(5))
    );
    assert_eq!(number(&budget["held"]), 0);
}

/// G31, the other half: the cron finds the object whose alarm was lost.
#[test]
fn the_sweeper_finds_an_account_whose_alarm_was_lost() {
    let desk = Desk::new(10);
    let job = desk.job("k", 10);
    desk.charge(&job, &json!({"units": 4}));
    desk.machine.finish_background();
    let account = counterfoil::units::AccountId::new("a").unwrap();
    let name = counterfoil::ports::ObjectName::Account(account);
    desk.machine.objects.lose_alarm(&name);
    desk.silently(300);
    let (status, summary) = desk
        .machine
        .call("POST", "/v1/run/sweeper", OPERATOR, &json!({}));
    assert_eq!(status, 200, "{summary}");
    assert_eq!(
        (&summary["shards"], &summary["accounts"]),
        (&json!(4), &json!(1))
    );
    assert_eq!(summary["done"], true);
    assert_eq!(desk.entries("a", "tokens", "2026-11"), 4);
    let storage = desk.machine.objects.storage(&name).unwrap();
    let sql = "select state from job";
    let rows = counterfoil::ports::Sql::query(&storage, sql, &[]).unwrap();
    assert_eq!(rows[0].text("state").unwrap(), "expired");
    let (_, again) = desk
        .machine
        .call("POST", "/v1/run/sweeper", OPERATOR, &json!({}));
    assert_eq!(again["accounts"], 0);
}

#[test]
fn the_page_of_jobs_shows_holds_budget_and_refusals_and_the_lab_races_both_sides() {
    let desk = Desk::new(100);
    desk.job("running-now", 60);
    desk.admit("refused-now", 50);
    let page = |target: &str| {
        let request = counterfoil::native::machine::request("GET", target, OPERATOR, &Value::Null);
        let response = desk.machine.handle(request);
        assert_eq!(response.status, 200, "{target}");
        String::from_utf8(response.body).unwrap()
    };
    let one = page("/app/jobs?account=a");
    for text in [
        "running-now",
        "refused-now",
        "over_limit: held",
        "/settle?account=a",
    ] {
        assert!(one.contains(text), "{text}");
    }
    assert!(page("/app/jobs").contains("/app/jobs?account=a"));
    assert!(page("/app/lab").contains("Start them"));
}

/// The Lab on the stand-in: the plain check spends double, the gate keeps to the plan.
#[test]
fn the_lab_spends_200000_by_a_plain_check_and_80000_through_the_gate() {
    let machine = counterfoil::native::machine::Machine::new(&[]).expect("it starts");
    let mut request = counterfoil::native::machine::request(
        "POST",
        "/app/lab/run",
        OPERATOR,
        &json!({"limit": 100_000, "jobs": 5, "amount": 40_000, "concurrency": 5}),
    );
    request
        .headers
        .push(("accept".to_owned(), "application/json".to_owned()));
    let response = machine.handle(request);
    let report: Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(response.status, 200, "{report}");
    assert_eq!(report["plain"]["spent"], 200_000);
    assert_eq!(report["gate"], json!({"spent": 80_000, "held": 0}));
    let gate = |job: &Value| job["gate"]["started"] == true;
    let jobs = report["jobs"].as_array().unwrap();
    assert_eq!(jobs.iter().filter(|job| gate(job)).count(), 2);
    let refused = jobs.iter().find(|job| !gate(job)).unwrap();
    assert_eq!(refused["gate"]["left"], 20_000);
}

#[test]
fn many_that_ask_at_once_travel_together_and_each_is_decided_on_its_own() {
    let desk = Desk::new(100);
    desk.job("reads-the-limit", 1);
    let ask = |n: i64| {
        let body = json!({"key": format!("k{}", n % 40), "feature": "tokens", "hold": 3});
        desk.on_its_way("/v1/jobs", &body)
    };
    let told: Vec<(u16, Value)> = at_once((0..50).map(ask).collect())
        .into_iter()
        .flatten()
        .collect();
    let count = |status: u16| told.iter().filter(|(told, _)| *told == status).count();
    assert_eq!((count(201), count(402), count(200)), (33, 7, 10));
    assert_eq!(desk.taken(), (0, 100));
}
