//! Health and metrics (api.md, "Operations").

use std::collections::BTreeMap;

use counterfoil::native::executor::block_on;
use counterfoil::native::machine::{Machine, request};
use counterfoil::ports::{Db, Statement};
use serde_json::{Value, json};

use crate::meters::{Bench, MINUTE, OPERATOR};

/// Every sample of `/metrics` by its name and labels.
fn samples(machine: &Machine) -> BTreeMap<String, i64> {
    let answer = machine.handle(request("GET", "/metrics", OPERATOR, &Value::Null));
    assert_eq!(answer.status, 200);
    let kind = answer.header("content-type").expect("a type");
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    let text = String::from_utf8(answer.body).expect("text");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            (name.to_owned(), value.parse().expect("a whole number"))
        })
        .collect()
}

#[test]
fn health_names_the_version_and_the_provider_and_needs_no_token() {
    for provider in ["standin", "kinde"] {
        let machine = Machine::new(&[("PROVIDER", provider)]).expect("it starts");
        let (status, body) = machine.call("GET", "/healthz", "", &Value::Null);
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(status, 200);
        assert_eq!(
            (&body["ok"], &body["version"]),
            (&json!(true), &json!(version))
        );
        assert_eq!(body["provider"], provider);
    }
}

#[test]
fn every_number_that_the_contract_promises_is_told_and_counts() {
    let bench = Bench::new(&[]);
    let machine = &bench.machine;
    let job = |key: &str, hold: i64| {
        let body = json!({"key": key, "feature": "tokens", "hold": hold});
        machine
            .call("POST", "/v1/jobs?account=a", OPERATOR, &body)
            .1
    };
    let held = job("one", 10);
    job("two", 10);
    job("three", 1_000_000);
    let target = format!(
        "/v1/jobs/{}/charges?account=a",
        held["id"].as_str().expect("an id")
    );
    bench.ok("POST", &target, &json!({"units": 3}));
    let link = json!({"code": "x", "destination": "https://d.example/"});
    bench.ok("POST", "/v1/links?account=a", &link);
    for (name, value) in [
        ("user-agent", "Mozilla/5.0 (X11; Linux) Test"),
        ("user-agent", "Twitterbot/1.0"),
        ("sec-purpose", "prefetch"),
    ] {
        let mut visit = request("GET", "/x", "", &Value::Null);
        visit.headers = vec![(name.to_owned(), value.to_owned())];
        machine.handle(visit);
    }
    let event = json!({"type": "customer.plan_changed", "customer_id": "customer_a"});
    bench.ok("POST", "/standin/events", &event);
    machine.call("POST", "/webhooks/kinde", "", &json!({}));
    // Leases run out and are swept; what is waiting goes to the ledger.
    for _ in 0..4 {
        machine.advance(2 * MINUTE);
    }
    assert_eq!(samples(machine)["counterfoil_marks_waiting"], 2);
    block_on(counterfoil::cron::tick(&machine.world()));
    bench.move_meter(0);
    bench.run("reconciler");
    bench.run("plans");
    let told = samples(machine);
    for (name, value) in [
        ("counterfoil_admissions_total{result=\"admitted\"}", 2),
        ("counterfoil_admissions_total{result=\"too_big\"}", 1),
        ("counterfoil_holds_total", 2),
        ("counterfoil_charges_total", 1),
        ("counterfoil_sweeps_total", 2),
        ("counterfoil_jobs_ended_total{state=\"expired\"}", 2),
        ("counterfoil_clicks_recorded_total", 2),
        (
            "counterfoil_clicks_corrected_total{reason=\"preview_crawler\"}",
            1,
        ),
        ("counterfoil_prefetched_total", 1),
        ("counterfoil_clicks_lost_total", 0),
        ("counterfoil_clicks_doubtful_total", 0),
        ("counterfoil_feed_overdue_seconds", 0),
        ("counterfoil_marks_waiting", 0),
        ("counterfoil_reports_total{result=\"confirmed\"}", 2),
        ("counterfoil_drift_total{verdict=\"under_billed\"}", 1),
        ("counterfoil_events{status=\"waiting\"}", 0),
        ("counterfoil_events{status=\"dead\"}", 0),
        (
            "counterfoil_events_by_type{status=\"applied\",type=\"customer.plan_changed\"}",
            1,
        ),
        (
            "counterfoil_deliveries_refused_total{reason=\"not_a_jwt\"}",
            1,
        ),
        ("counterfoil_oldest_waiting_event_seconds", 0),
        ("counterfoil_hours_since_last_delivery", 0),
        ("counterfoil_cron_seconds_since{job=\"tick\"}", 0),
        ("counterfoil_cron_seconds_since{job=\"sweeper\"}", 0),
        ("counterfoil_cron_seconds_since{job=\"inbox\"}", 0),
        ("counterfoil_cron_seconds_since{job=\"reporter\"}", 0),
        ("counterfoil_cron_seconds_since{job=\"reconciler\"}", 0),
        ("counterfoil_cron_seconds_since{job=\"plans\"}", 0),
    ] {
        assert_eq!(told.get(name), Some(&value), "{name} in {told:#?}");
    }
    assert!(told["counterfoil_batches_total"] >= 2, "{told:#?}");
    machine
        .clock
        .0
        .set(machine.clock.0.get().after(3 * 60 * MINUTE));
    let later = samples(machine);
    assert_eq!(later["counterfoil_hours_since_last_delivery"], 3);
    assert_eq!(
        later["counterfoil_cron_seconds_since{job=\"tick\"}"],
        3 * 3600
    );
}

/// Both demonstrations, and an account of a customer that owes nothing to them.
#[test]
fn a_demonstration_is_left_out_of_lists_and_metrics_unless_it_is_named() {
    let machine = Machine::new(&[]).expect("it starts");
    let before = samples(&machine);
    for path in ["/app/lab/run", "/app/engine-room/run"] {
        let mut asked = request("POST", path, OPERATOR, &json!({}));
        let origin = ("origin".to_owned(), "http://localhost:8787".to_owned());
        asked.headers.push(origin);
        let answer = machine.handle(asked);
        assert!(answer.status < 400, "{path}: {}", answer.status);
    }
    let sql = "select account_id from account where demo = 1 order by name";
    let made = block_on(Db::query(&machine.control, Statement::new(sql, vec![])));
    let made = made.expect("it runs");
    let made: Vec<&str> = made
        .iter()
        .map(|row| row.text("account_id").unwrap())
        .collect();
    assert_eq!(made.len(), 2);
    // The Lab's jobs end, their usage reaches the ledger and the meters.
    for _ in 0..5 {
        machine.advance(5 * MINUTE);
        block_on(counterfoil::cron::tick(&machine.world()));
    }
    let sql = "select account_id from counter where told = version and total > 0";
    let told = block_on(Db::query(&machine.ledger, Statement::new(sql, vec![])));
    assert_eq!(
        told.expect("it runs").len(),
        1,
        "the Lab's usage was reported"
    );
    let call = |method: &str, path: &str| {
        let (status, body) = machine.call(method, path, OPERATOR, &Value::Null);
        assert_eq!(status, 200, "{path}: {body}");
        body
    };
    let run = call("POST", "/v1/run/reconciler");
    assert_eq!(run["checked"], 0, "{run}");
    // Something that a person would look at.
    let sql = format!(
        "insert into review (review_id, kind, account_id, numbers, opened_at_ms) \
         values ('rev_demo', 'late_use', '{}', '{{}}', 0)",
        made[0]
    );
    block_on(Db::query(&machine.ledger, Statement::new(sql, vec![]))).expect("it runs");
    for (id, lists) in made
        .iter()
        .zip([["meters", "audit", "review"], ["audit", "events", ""]])
    {
        call("POST", &format!("/v1/run/reconciler?account={id}"));
        for list in lists.iter().filter(|list| !list.is_empty()) {
            let all = call("GET", &format!("/v1/{list}"));
            assert_eq!(all["items"], json!([]), "{list}");
            let own = call("GET", &format!("/v1/{list}?account={id}"));
            assert_ne!(own["items"], json!([]), "{list} of {id}");
        }
    }
    for list in ["accounts", "evidence", "jobs"] {
        assert_eq!(
            call("GET", &format!("/v1/{list}"))["items"],
            json!([]),
            "{list}"
        );
    }
    let own = call("GET", &format!("/v1/evidence?account={}", made[0]));
    assert_ne!(own["items"], json!([]), "it was compared when it was named");
    let after: BTreeMap<String, i64> = samples(&machine)
        .into_iter()
        .filter(|(name, _)| !name.contains("cron") && !name.contains("wasm"))
        .collect();
    for (name, value) in &after {
        let was = before.get(name).copied().unwrap_or(0);
        assert_eq!((name, *value), (name, was));
    }
    let page = machine.handle(request("GET", "/app", OPERATOR, &Value::Null));
    let page = String::from_utf8(page.body).expect("text");
    for id in &made {
        assert!(!page.contains(id), "{id}");
    }
}

#[test]
fn the_overview_shows_dead_events_reviews_and_alerts_at_a_glance() {
    let machine = Machine::new(&[]).expect("it starts");
    let shown = || {
        let page = machine.handle(request("GET", "/app", OPERATOR, &Value::Null));
        String::from_utf8(page.body).expect("text")
    };
    for label in ["to be reviewed", "dead events", "alerts in 24 hours"] {
        assert!(shown().contains(label), "{label}");
    }
    assert!(!shown().contains("Latest alerts"));
    let event = json!({"type": "customer.plan_changed", "customer_id": "customer_a"});
    machine.call("POST", "/standin/events", OPERATOR, &event);
    let now = machine.clock.0.get().get();
    for sql in [
        "update event set status = 'dead'".to_owned(),
        format!(
            "insert into alert (kind, subject, detail, raised_at_ms) values ('quiet', 's', '{{}}', {now})"
        ),
    ] {
        block_on(Db::query(&machine.control, Statement::new(sql, vec![]))).expect("it runs");
    }
    let page = shown();
    assert!(page.contains("href=\"/app/events?status=dead\""), "{page}");
    assert!(
        page.contains("Latest alerts") && page.contains(">quiet<"),
        "{page}"
    );
}

#[test]
fn an_event_grows_older_until_it_is_at_an_end_whatever_it_waits_for() {
    let machine = Machine::new(&[]).expect("it starts");
    let name = "counterfoil_oldest_waiting_event_seconds";
    let event = json!({"type": "customer.plan_changed", "customer_id": "customer_a"});
    let (status, _) = machine.call("POST", "/standin/events", OPERATOR, &event);
    assert_eq!(status, 200);
    machine.advance(20_000);
    assert_eq!(
        samples(&machine)["counterfoil_events{status=\"waiting\"}"],
        1
    );
    assert_eq!(samples(&machine)[name], 20);
    for (status, age) in [
        ("received", 20),
        ("processing", 20),
        ("failed", 20),
        ("dead", 0),
        ("ignored", 0),
    ] {
        let set = format!("update event set status = '{status}'");
        block_on(Db::query(&machine.control, Statement::new(set, vec![]))).expect("it runs");
        assert_eq!(samples(&machine)[name], age, "{status}");
    }
}
