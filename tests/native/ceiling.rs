//! The greatest total that is told, 2^53 − 1, at each way into the ledger: who can still be told no
//! is told so and nothing is recorded; what an object accepted is kept, exactly, and nobody else's
//! rows wait for it.

use counterfoil::native::executor::block_on;
use counterfoil::native::machine::request;
use counterfoil::ports::{Db, Statement};
use counterfoil::units::SAFE_MAX;
use serde_json::{Value, json};

use crate::meters::{Bench, account, items};

/// The counter of clicks as it is stored, in text: it may be more than any binding carries.
fn stored(bench: &Bench) -> String {
    let sql = "select cast(sum(total) as text) as total from counter where account_id = 'a' \
        and feature = 'clicks'";
    let rows = block_on(Db::query(
        &bench.machine.ledger,
        Statement::new(sql, vec![]),
    ));
    rows.unwrap()[0].text("total").unwrap().to_owned()
}

fn used(bench: &Bench) -> Value {
    bench.ok("GET", "/v1/usage?account=a", &Value::Null)
}

fn correct(bench: &Bench, entry: &Value, reason: &str) {
    let target = format!(
        "/v1/entries/{}/correction?account=a",
        entry["id"].as_str().unwrap()
    );
    bench.ok("POST", &target, &json!({"reason": reason}));
}

fn entries(bench: &Bench, account: &str) -> Vec<Value> {
    items(&bench.ok(
        "GET",
        &format!("/v1/entries?account={account}"),
        &Value::Null,
    ))
}

/// Follows a link of each of both accounts, which go into one shard and one batch.
fn click_both(bench: &Bench) {
    for code in ["a", "b"] {
        let link = json!({"destination": "https://example.com/", "code": code});
        bench.ok("POST", &format!("/v1/links?account={code}"), &link);
    }
    for code in ["/a", "/b"] {
        let mut click = request("GET", code, "", &Value::Null);
        let browser = "Mozilla/5.0 (X11; Linux x86_64) Chrome/130 Safari/537.36";
        click
            .headers
            .push(("user-agent".to_owned(), browser.to_owned()));
        assert_eq!(bench.machine.handle(click).status, 302);
    }
    bench.machine.advance(3_000);
}

#[test]
fn a_click_past_the_greatest_total_is_kept_and_keeps_nobody_waiting() {
    let bench = Bench::new(&[("SHARDS", "1")]);
    account(&bench.machine, "b");
    bench.use_clicks("all", SAFE_MAX);
    click_both(&bench);
    assert_eq!(entries(&bench, "b").len(), 1, "the other's click is there");
    let mine = entries(&bench, "a");
    assert_eq!(mine.len(), 2, "and so is this one");
    assert_eq!(stored(&bench), "9007199254740992");
    assert_eq!(used(&bench)["total"], SAFE_MAX);
    bench.run("reporter");
    assert_eq!((bench.meter(), bench.marked()), (SAFE_MAX, false));
    let found = bench.run("reconciler");
    assert_eq!(
        (&found["matched"], &found["drifted"]),
        (&json!(4), &json!(0))
    );
    let usage = mine.iter().find(|entry| entry["kind"] == "usage").unwrap();
    correct(&bench, usage, "a mistake");
    assert_eq!(
        (used(&bench)["total"].clone(), stored(&bench)),
        (json!(1), "1".to_owned())
    );
    bench.run("reporter");
    assert_eq!(bench.meter(), 1);
}

#[test]
fn a_sum_that_was_taken_back_makes_room_and_the_total_stays_exact() {
    let bench = Bench::new(&[]);
    bench.use_clicks("first", SAFE_MAX);
    correct(&bench, &entries(&bench, "a")[0], "a mistake");
    bench.use_clicks("second", SAFE_MAX);
    let sums = used(&bench);
    assert_eq!(
        (&sums["total"], &sums["gross"]),
        (&json!(SAFE_MAX), &json!(SAFE_MAX))
    );
    assert_eq!(sums["corrected"], json!({"manual": SAFE_MAX}));
    bench.run("reporter");
    assert_eq!(bench.meter(), SAFE_MAX);
}

#[test]
fn a_difference_for_which_the_open_cycle_has_no_room_stays_in_review_until_it_has() {
    let bench = Bench::new(&[]);
    bench.use_clicks("tail", 5);
    bench.machine.advance(21 * 86_400_000);
    bench.use_clicks("all", SAFE_MAX);
    bench.run("reconciler");
    let reviews = bench.reviews();
    assert_eq!((reviews.len(), &reviews[0]["kind"]), (1, &json!("tail")));
    let target = format!("/v1/review/{}/carry", reviews[0]["id"].as_str().unwrap());
    let before = entries(&bench, "a");
    let (status, problem) = bench.call("POST", &target, &json!({}));
    assert_eq!((status, &problem["code"]), (409, &json!("too_much")));
    assert_eq!(
        (entries(&bench, "a"), bench.reviews()),
        (before.clone(), reviews)
    );
    correct(&bench, &before[1], "a mistake");
    assert_eq!(bench.ok("POST", &target, &json!({}))["state"], "carried");
    assert_eq!(used(&bench)["total"], 5);
}
