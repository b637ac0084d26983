//! Feeds: what an object accepted reaches the ledger exactly once.
//!
//! Shards are asked by the messages that the Worker sends; the ledger's tables are looked at
//! directly.

use counterfoil::ledger::clicks::{self, Click};
use counterfoil::ledger::entry::{Entry, EntryKind};
use counterfoil::ledger::feed::FeedState;
use counterfoil::ledger::stream;
use counterfoil::ledger::wire::{ClickWire, Recorded, ShardAsk, VERSION, Visitor};
use counterfoil::native::executor::block_on;
use counterfoil::native::machine::Machine;
use counterfoil::ports::{Db, ObjectName, Objects, Sql, Statement};
use counterfoil::units::{AccountId, CycleName, Delta, EntryId, FeatureName, LinkCode, Millis};
use serde_json::json;

pub const SHARD: ObjectName = ObjectName::LedgerShard(0);

pub fn click(id: &str, at: Millis) -> Entry {
    let owner = (
        AccountId::new("a").unwrap(),
        FeatureName::new("clicks").unwrap(),
        CycleName::of(2026, 11, 1),
    );
    let one = Delta::new(1).unwrap();
    let mut entry = Entry::new(EntryId::new(id).unwrap(), EntryKind::Click, owner, one, at);
    entry.code = LinkCode::new("x");
    entry
}

pub fn parcel(entry: &Entry) -> ClickWire {
    ClickWire {
        entry: entry.wire(),
        correction: None,
        visitor: None,
    }
}

pub fn ask(machine: &Machine, ask: &ShardAsk) -> Result<String, String> {
    let asked = machine.objects.ask(SHARD, json!(ask).to_string());
    block_on(asked).map_err(|fault| fault.to_string())
}

pub fn record(machine: &Machine, clicks: Vec<ClickWire>) -> Result<usize, String> {
    let message = ShardAsk::Record {
        v: VERSION,
        shard: 0,
        bundles: clicks.into_iter().map(|click| vec![click]).collect(),
        tallies: std::collections::BTreeMap::default(),
    };
    let answer = ask(machine, &message)?;
    let recorded: Recorded = serde_json::from_str(&answer).unwrap();
    Ok(recorded.taken)
}

/// What cron does with every shard: hands it its rows.
pub fn visit(machine: &Machine) -> Result<FeedState, String> {
    let rows = block_on(stream::rows_of(&machine.ledger, &[SHARD.name()])).unwrap();
    let message: ShardAsk = ShardAsk::TakeFeed {
        v: VERSION,
        shard: 0,
        rows,
    };
    ask(machine, &message).map(|answer| serde_json::from_str(&answer).unwrap())
}

fn put(machine: &Machine, from: usize, count: usize) {
    let now = machine.clock.0.get();
    let clicks = (from..from + count).map(|n| parcel(&click(&format!("clk_{n:06}"), now)));
    assert_eq!(record(machine, clicks.collect()), Ok(count));
}

pub fn number(db: &dyn Db, sql: &str) -> i64 {
    let rows = block_on(db.query(Statement::new(sql, vec![]))).unwrap();
    rows[0].int("n").unwrap()
}

pub fn entries(machine: &Machine) -> i64 {
    number(&machine.ledger, "select count(*) as n from entry")
}

/// Every counter is the sum of its entries.
pub fn assert_counters(machine: &Machine) {
    let lies = number(
        &machine.ledger,
        "select count(*) as n from (select account_id, feature, cycle, sum(units) as units \
         from (select account_id, feature, cycle, units from entry union all \
         select account_id, feature, cycle, - total from counter) \
         group by 1, 2, 3 having sum(units) <> 0)",
    );
    assert_eq!(lies, 0, "a counter is not the sum of its entries");
}

fn machine(settings: &[(&str, &str)]) -> Machine {
    Machine::new(settings).expect("it starts")
}

#[test]
fn clicks_are_in_the_ledger_a_flush_later_in_one_batch() {
    let machine = machine(&[]);
    put(&machine, 0, 3);
    assert_eq!(entries(&machine), 0);
    machine.advance(1000);
    assert_eq!(entries(&machine), 3);
    assert_eq!(number(&machine.ledger, "select last as n from feed"), 1);
    assert_eq!(
        number(&machine.ledger, "select version as n from counter"),
        1
    );
    assert_counters(&machine);
    let state = visit(&machine).unwrap();
    assert_eq!((state.confirmed, state.waits), (1, false));
    assert_eq!(
        machine.objects.alarm_at(&SHARD),
        None,
        "an idle shard sleeps"
    );
}

#[test]
fn a_click_repeated_before_or_after_its_delivery_is_one_entry() {
    let machine = machine(&[]);
    put(&machine, 0, 2);
    let again = vec![parcel(&click("clk_000001", machine.clock.0.get()))];
    assert_eq!(record(&machine, again.clone()), Ok(0));
    machine.advance(1000);
    assert_eq!(record(&machine, again.clone()), Ok(0));
    machine.advance(25 * 3_600_000);
    put(&machine, 2, 1);
    machine.advance(1000);
    machine.advance(25 * 3_600_000);
    put(&machine, 3, 1);
    machine.advance(1000);
    // By now its batch is forgotten: the shard takes it, the ledger knows it.
    let mut late = click("clk_000001", Millis::new(1_794_312_000_000));
    late.country = None;
    assert_eq!(record(&machine, vec![parcel(&late)]), Ok(1));
    machine.advance(1000);
    assert_eq!(entries(&machine), 4);
    assert_eq!(
        number(&machine.ledger, "select count(*) as n from review"),
        0
    );
    assert_counters(&machine);
}

fn record_bundles(machine: &Machine, bundles: &[&[Entry]]) -> Result<usize, String> {
    let wires = |bundle: &&[Entry]| bundle.iter().map(parcel).collect();
    let message = ShardAsk::Record {
        v: VERSION,
        shard: 0,
        bundles: bundles.iter().map(wires).collect(),
        tallies: std::collections::BTreeMap::default(),
    };
    let recorded: Recorded = serde_json::from_str(&ask(machine, &message)?).unwrap();
    Ok(recorded.taken)
}

#[test]
fn a_bundle_that_comes_again_is_passed_over_with_and_without_the_double_click_rule() {
    for settings in [&[][..], &[("DOUBLE_CLICK_MS", "1000")][..]] {
        let machine = machine(settings);
        let now = machine.clock.0.get();
        let all: Vec<Entry> = (0..6).map(|n| click(&format!("clk_{n}"), now)).collect();
        let (first, second) = all.split_at(4);
        assert_eq!(record_bundles(&machine, &[first]), Ok(4));
        assert_eq!(record_bundles(&machine, &[first, second]), Ok(2));
        machine.advance(1000);
        assert_eq!(record_bundles(&machine, &[second, first]), Ok(0));
        machine.advance(1000);
        assert_eq!((entries(&machine), assert_counters(&machine)), (6, ()));
        assert_eq!(
            number(&machine.ledger, "select max(last) as n from feed"),
            1
        );
        let shard = machine.objects.storage(&SHARD).expect("it has one");
        let taken = "select sum(entries) * 100 + sum(units) as n from taken";
        assert_eq!(number(&shard, taken), 606);
    }
}

#[test]
fn clicks_of_a_release_without_bundles_are_known_one_by_one() {
    let machine = machine(&[]);
    let now = machine.clock.0.get();
    let record = |ids: &[&str]| {
        let clicks: Vec<ClickWire> = ids.iter().map(|id| parcel(&click(id, now))).collect();
        let message = json!({"ask": "record", "v": 1, "shard": 0, "clicks": clicks});
        let asked = machine.objects.ask(SHARD, message.to_string());
        let answer = block_on(asked).expect("it is read");
        serde_json::from_str::<Recorded>(&answer).unwrap().taken
    };
    assert_eq!(record(&["clk_1", "clk_2"]), 2);
    assert_eq!(
        record(&["clk_1", "clk_3"]),
        1,
        "put together anew on another try"
    );
    machine.advance(1000);
    assert_eq!(record(&["clk_3", "clk_2", "clk_4"]), 1);
    machine.advance(1000);
    assert_eq!(entries(&machine), 4);
    assert_counters(&machine);
}

#[test]
fn a_click_that_a_shard_accepted_and_the_direct_path_wrote_is_one_entry() {
    let machine = machine(&[]);
    put(&machine, 0, 1);
    let entry = click("clk_000000", machine.clock.0.get());
    let rows = counterfoil::ledger::batch::rows_json([&entry]).unwrap();
    let now = machine.clock.0.get();
    let direct = counterfoil::ledger::batch::statements(None, &rows, &[], now);
    block_on(machine.ledger.batch(direct.clone())).unwrap();
    machine.advance(1000);
    block_on(machine.ledger.batch(direct)).unwrap();
    assert_eq!(entries(&machine), 1);
    assert_eq!(number(&machine.ledger, "select total as n from counter"), 1);
    assert_eq!(
        number(&machine.ledger, "select version as n from counter"),
        1
    );
}

#[test]
fn a_rule_takes_back_only_what_a_person_left_of_a_click() {
    let machine = with_account(&[]);
    let now = machine.clock.0.get();
    let twice = click("clk_000000", now);
    let send = |entries: &[&Entry]| {
        let rows = counterfoil::ledger::batch::rows_json(entries.iter().copied()).unwrap();
        let batch = counterfoil::ledger::batch::statements(None, &rows, &[], now);
        block_on(machine.ledger.batch(batch)).unwrap();
    };
    // It came straight into the ledger, and a person took it back …
    send(&[&twice]);
    let target = "/v1/entries/clk_000000/correction?account=a";
    let reason = json!({"reason": "by hand"});
    let (status, told) = machine.call("POST", target, "dev-operator", &reason);
    assert_eq!(status, 201, "{told}");
    // … before its visitor's shard delivers it as a double click.
    let by_rule = twice.corrected_by_rule("double_click", "double_click/1000");
    send(&[&twice, &by_rule]);
    assert_eq!((entries(&machine), net(&machine)), (2, 0));
    // Where nobody took it back, the rule does, once.
    let other = click("clk_000001", now);
    send(&[&other]);
    let by_rule = other.corrected_by_rule("double_click", "double_click/1000");
    send(&[&other, &by_rule]);
    send(&[&other, &by_rule]);
    assert_eq!((entries(&machine), net(&machine)), (4, 0));
}

#[test]
fn the_same_id_with_other_content_goes_to_review_and_is_not_counted() {
    let machine = machine(&[]);
    put(&machine, 0, 1);
    machine.advance(1000);
    let mut other = click("clk_000000", machine.clock.0.get());
    other.units = Delta::new(5).unwrap();
    let rows = counterfoil::ledger::batch::rows_json([&other]).unwrap();
    for _ in 0..2 {
        let now = machine.clock.0.get();
        let direct = counterfoil::ledger::batch::statements(None, &rows, &[], now);
        block_on(machine.ledger.batch(direct)).unwrap();
    }
    assert_eq!(number(&machine.ledger, "select total as n from counter"), 1);
    let conflicts = "select count(*) as n from review where kind = 'conflict' \
        and account_id = 'a' and feature = 'clicks'";
    assert_eq!(number(&machine.ledger, conflicts), 1);
}

#[test]
fn a_backlog_of_100_000_rows_leaves_in_frozen_batches_of_at_most_1_000() {
    let machine = machine(&[]);
    for round in 0..100 {
        put(&machine, round * 1000, 1000);
    }
    machine.advance(1000);
    for _ in 0..5 {
        machine.advance(1000);
    }
    assert_eq!(entries(&machine), 100_000);
    assert_eq!(
        number(&machine.ledger, "select total as n from counter"),
        100_000
    );
    let last = number(&machine.ledger, "select last as n from feed");
    assert!((100..=200).contains(&last), "{last} batches");
}

#[test]
fn a_batch_holds_at_most_512_kib() {
    let machine = machine(&[]);
    let now = machine.clock.0.get();
    let long = "h".repeat(2000);
    let heavy = |n: usize| {
        let mut entry = click(&format!("clk_{n:06}"), now);
        entry.referrer_host = Some(long.clone());
        parcel(&entry)
    };
    assert_eq!(record(&machine, (0..1000).map(heavy).collect()), Ok(1000));
    machine.advance(1000);
    machine.advance(1000);
    assert_eq!(entries(&machine), 1000);
    assert_eq!(number(&machine.ledger, "select last as n from feed"), 5);
}

#[test]
fn a_lost_storage_begins_a_new_epoch_and_is_alerted() {
    let machine = machine(&[]);
    put(&machine, 0, 2);
    machine.advance(1000);
    put(&machine, 2, 5);
    machine.objects.lose(&SHARD);
    put(&machine, 10, 1);
    machine.advance(1000);
    assert_eq!(
        entries(&machine),
        3,
        "what it had not sent is lost with it, nothing else"
    );
    assert_counters(&machine);
    assert_eq!(number(&machine.ledger, "select count(*) as n from feed"), 2);
    let alerts = "select count(*) as n from alert where kind = 'new_feed_epoch'";
    assert_eq!(number(&machine.control, alerts), 1);
    machine.advance(3000);
    assert_eq!(number(&machine.control, alerts), 1);
}

#[test]
fn a_restored_ledger_is_filled_again_from_kept_batches() {
    let machine = machine(&[]);
    put(&machine, 0, 2);
    machine.advance(1000);
    let before = machine.ledger.snapshot().unwrap();
    for round in 1..4 {
        put(&machine, round * 10, 2);
        machine.advance(1000);
    }
    assert_eq!(entries(&machine), 8);
    machine.ledger.restore(&before).unwrap();
    assert_eq!(entries(&machine), 2);
    machine.objects.evict_all();
    let state = visit(&machine).unwrap();
    assert!(!state.is_behind(), "{state:?}");
    assert_eq!(entries(&machine), 8);
    assert_counters(&machine);
    assert_eq!(number(&machine.ledger, "select count(*) as n from feed"), 1);
}

#[test]
fn a_restored_ledger_is_noticed_by_the_next_batch_too() {
    let machine = machine(&[]);
    let empty = machine.ledger.snapshot().unwrap();
    for round in 0..3 {
        put(&machine, round * 10, 2);
        machine.advance(1000);
    }
    machine.ledger.restore(&empty).unwrap();
    put(&machine, 100, 1);
    machine.advance(1000);
    machine.advance(1000);
    assert_eq!(entries(&machine), 7);
    assert_counters(&machine);
}

#[test]
fn a_gap_that_cannot_be_filled_stops_the_feed_until_a_person_accepts_it() {
    let machine = machine(&[("BATCH_KEEP_HOURS", "0")]);
    let empty = machine.ledger.snapshot().unwrap();
    for round in 0..4 {
        put(&machine, round * 10, 2);
        machine.advance(1000);
        machine.advance(61_000);
    }
    machine.ledger.restore(&empty).unwrap();
    put(&machine, 100, 3);
    machine.advance(1000);
    let state = visit(&machine).unwrap();
    assert!(state.is_behind() && state.waits, "{state:?}");
    assert_eq!(entries(&machine), 0, "nothing is sent over a gap");
    let numbers = block_on(Db::query(
        &machine.ledger,
        Statement::new("select review_id, kind, numbers from review", vec![]),
    ))
    .unwrap();
    assert_eq!(numbers.len(), 1);
    assert_eq!(numbers[0].text("kind").unwrap(), "feed");
    let named: serde_json::Value =
        serde_json::from_str(numbers[0].text("numbers").unwrap()).unwrap();
    assert_eq!(
        (&named["from_batch"], &named["to_batch"]),
        (&json!(1), &json!(3))
    );
    machine.advance(120_000);
    assert_eq!(entries(&machine), 0);
    let close = Statement::new(
        "update review set closed_at_ms = 1, outcome = 'closed'",
        vec![],
    );
    block_on(Db::query(&machine.ledger, close)).unwrap();
    let state = visit(&machine).unwrap();
    assert!(!state.is_behind() && !state.waits, "{state:?}");
    assert_eq!(
        entries(&machine),
        5,
        "the batch that was kept, and what waited"
    );
    assert_counters(&machine);
}

#[test]
fn a_feed_that_a_visit_found_to_have_a_gap_goes_on_once_it_is_accepted_though_nothing_waits() {
    let machine = machine(&[("BATCH_KEEP_HOURS", "0")]);
    let empty = machine.ledger.snapshot().unwrap();
    for round in 0..4 {
        put(&machine, round * 10, 2);
        machine.advance(1000);
        machine.advance(61_000);
    }
    machine.ledger.restore(&empty).unwrap();
    assert!(visit(&machine).unwrap().stopped_by.is_some());
    let close = "update review set closed_at_ms = 1, outcome = 'closed'";
    block_on(Db::query(&machine.ledger, Statement::new(close, vec![]))).unwrap();
    let state = visit(&machine).unwrap();
    assert!(!state.is_behind(), "{state:?}");
    assert_eq!(entries(&machine), 2, "the batch that was kept");
}

#[test]
fn a_feed_whose_item_went_with_a_ledger_that_was_put_back_goes_on_or_opens_it_again() {
    let machine = machine(&[("BATCH_KEEP_HOURS", "0")]);
    let empty = machine.ledger.snapshot().unwrap();
    let round = |number: usize| {
        put(&machine, number * 10, 2);
        machine.advance(1000);
        machine.advance(61_000);
    };
    (0..4).for_each(round);
    let whole = machine.ledger.snapshot().unwrap();
    machine.ledger.restore(&empty).unwrap();
    let item = visit(&machine).unwrap().stopped_by;
    assert!(item.is_some());
    let open = "select count(*) as n from review where closed_at_ms is null";
    assert_eq!(number(&machine.ledger, open), 1);
    // The same gap, in a copy from before the item: it is opened again.
    machine.ledger.restore(&empty).unwrap();
    assert_eq!(visit(&machine).unwrap().stopped_by, item);
    assert_eq!(number(&machine.ledger, open), 1);
    // A copy that lacks nothing: there is no gap any more.
    machine.ledger.restore(&whole).unwrap();
    let state = visit(&machine).unwrap();
    assert!(!state.is_behind(), "{state:?}");
    round(5);
    assert_eq!((entries(&machine), number(&machine.ledger, open)), (10, 0));
    assert_counters(&machine);
}

#[test]
fn own_storage_put_back_begins_a_new_epoch_and_doubles_nothing() {
    let machine = machine(&[]);
    put(&machine, 0, 2);
    machine.advance(1000);
    put(&machine, 10, 2);
    let storage = machine.objects.storage(&SHARD).unwrap();
    let before = storage.snapshot().unwrap();
    machine.advance(1000);
    put(&machine, 20, 2);
    machine.advance(1000);
    assert_eq!(entries(&machine), 6);
    storage.restore(&before).unwrap();
    machine.objects.evict_all();
    put(&machine, 30, 1);
    machine.fire_alarms();
    machine.advance(1000);
    machine.advance(1000);
    assert_eq!(entries(&machine), 7);
    assert_counters(&machine);
    assert_eq!(number(&machine.ledger, "select count(*) as n from feed"), 2);
    assert_eq!(
        number(&machine.ledger, "select count(*) as n from review"),
        0
    );
    let alerts = "select count(*) as n from alert where kind = 'new_feed_epoch'";
    assert_eq!(number(&machine.control, alerts), 1);
}

#[test]
fn a_lost_alarm_is_made_good_by_the_next_visit() {
    let machine = machine(&[]);
    put(&machine, 0, 2);
    machine.objects.lose_alarm(&SHARD);
    machine.advance(60_000);
    assert_eq!(entries(&machine), 0);
    visit(&machine).unwrap();
    assert_eq!(entries(&machine), 2);
}

#[test]
fn an_old_row_in_the_hand_of_a_visitor_takes_nothing_back() {
    let machine = machine(&[("BATCH_KEEP_HOURS", "0")]);
    put(&machine, 0, 2);
    machine.advance(1000);
    let old = block_on(stream::rows_of(&machine.ledger, &[SHARD.name()])).unwrap();
    for round in 1..3 {
        put(&machine, round * 10, 2);
        machine.advance(1000);
    }
    let message: ShardAsk = ShardAsk::TakeFeed {
        v: VERSION,
        shard: 0,
        rows: old,
    };
    let state: FeedState = serde_json::from_str(&ask(&machine, &message).unwrap()).unwrap();
    assert_eq!((state.confirmed, state.is_behind()), (3, false));
    assert_eq!(
        number(&machine.ledger, "select count(*) as n from review"),
        0
    );
}

#[test]
fn a_storage_of_a_newer_release_is_refused_and_untouched() {
    let machine = machine(&[]);
    put(&machine, 0, 1);
    machine.objects.evict_all();
    let storage = machine.objects.storage(&SHARD).unwrap();
    let newer = "update object_meta set value = '99' where name = 'schema'";
    Sql::query(&storage, newer, &[]).unwrap();
    let now = machine.clock.0.get();
    let refused = record(&machine, vec![parcel(&click("clk_9", now))]);
    assert!(refused.is_err());
    let rows = Sql::query(&storage, "select count(*) as n from outbox", &[]).unwrap();
    assert_eq!(rows[0].int("n").unwrap(), 1);
}

fn person(machine: &Machine, code: &str, address: &str) -> Click {
    Click {
        account_id: AccountId::new("a").unwrap(),
        code: LinkCode::new(code).unwrap(),
        at: machine.clock.0.get(),
        country: None,
        referrer_host: None,
        visitor: Visitor {
            address: address.to_owned(),
            user_agent: "Mozilla/5.0".to_owned(),
        },
        correction: None,
    }
}

fn click_now(machine: &Machine, click: Click) {
    block_on(clicks::record(machine.world(), click));
}

fn net(machine: &Machine) -> i64 {
    machine.advance(1000);
    assert_counters(machine);
    number(
        &machine.ledger,
        "select coalesce(sum(total), 0) as n from counter",
    )
}

fn with_account(settings: &[(&str, &str)]) -> Machine {
    let machine = machine(settings);
    let account = json!({"id": "a"});
    assert_eq!(
        machine
            .call("POST", "/v1/accounts", "dev-operator", &account)
            .0,
        201
    );
    machine
}

#[test]
fn a_second_click_of_the_same_visitor_within_the_window_is_taken_back_by_name() {
    let machine = with_account(&[("DOUBLE_CLICK_MS", "1000")]);
    for (wait, code, address) in [
        (0, "x", "1.1.1.1"),
        (999, "x", "1.1.1.1"), // within the window of the first
        (0, "y", "1.1.1.1"),   // another link
        (0, "x", "2.2.2.2"),   // another visitor
        (1, "x", "1.1.1.1"),   // 1000 ms after the one that counted
    ] {
        machine.advance(wait);
        click_now(&machine, person(&machine, code, address));
    }
    assert_eq!(net(&machine), 4);
    assert_eq!(entries(&machine), 6);
    let named = "select count(*) as n from entry where kind = 'correction' \
        and reason = 'double_click' and rule = 'double_click/1000' and units = -1";
    assert_eq!(number(&machine.ledger, named), 1);
}

#[test]
fn with_the_rule_off_every_click_counts() {
    let machine = with_account(&[]);
    for _ in 0..3 {
        click_now(&machine, person(&machine, "x", "1.1.1.1"));
    }
    assert_eq!(net(&machine), 3);
}

#[test]
fn a_machines_click_neither_counts_nor_makes_a_persons_next_click_a_double() {
    let machine = with_account(&[("DOUBLE_CLICK_MS", "1000")]);
    let mut bot = person(&machine, "x", "1.1.1.1");
    bot.correction = Some(("bot", "list 1".to_owned()));
    click_now(&machine, bot);
    click_now(&machine, person(&machine, "x", "1.1.1.1"));
    assert_eq!(net(&machine), 1);
    assert_eq!(entries(&machine), 3);
}

#[test]
fn a_repeat_is_recognised_before_the_double_click_rule_looks_at_it() {
    let machine = machine(&[("DOUBLE_CLICK_MS", "60000"), ("BATCH_KEEP_HOURS", "0")]);
    let now = machine.clock.0.get();
    let mut wire = parcel(&click("clk_1", now));
    wire.visitor = Some(Visitor::default());
    assert_eq!(record(&machine, vec![wire.clone()]), Ok(1));
    assert_eq!(record(&machine, vec![wire.clone()]), Ok(0));
    machine.advance(1000);
    assert_eq!(record(&machine, vec![wire]), Ok(0));
    machine.advance(1000);
    assert_eq!(entries(&machine), 1, "no correction was made of a repeat");
}

#[test]
fn a_pair_of_clicks_around_midnight_is_still_a_pair_and_visitors_are_forgotten() {
    let machine = with_account(&[("DOUBLE_CLICK_MS", "1000"), ("SHARDS", "1")]);
    machine.advance(12 * 3_600_000 - 400);
    click_now(&machine, person(&machine, "x", "1.1.1.1"));
    machine.advance(800);
    click_now(&machine, person(&machine, "x", "1.1.1.1"));
    assert_eq!(net(&machine), 1);
    let storage = machine.objects.storage(&SHARD).unwrap();
    let known = || {
        let sql = "select count(*) as n from counted";
        Sql::query(&storage, sql, &[]).unwrap()[0].int("n").unwrap()
    };
    assert_eq!(known(), 1);
    // Half a minute more than the window, for clicks that are on their way.
    machine.advance(31_000);
    assert_eq!(known(), 0);
}

#[test]
fn a_click_counts_in_the_cycle_of_its_own_time() {
    let machine = with_account(&[]);
    let mut late = person(&machine, "x", "1.1.1.1");
    let end = counterfoil::moment::parse_millis("2026-12-01T00:00:00Z").unwrap();
    late.at = end.after(-1);
    click_now(&machine, late);
    let mut next = person(&machine, "x", "1.1.1.1");
    next.at = end;
    click_now(&machine, next);
    assert_eq!(net(&machine), 2);
    for cycle in ["2026-11", "2026-12"] {
        let one = format!("select total as n from counter where cycle = '{cycle}'");
        assert_eq!(number(&machine.ledger, &one), 1);
        let stored = format!("select count(*) as n from cycle where name = '{cycle}'");
        assert_eq!(number(&machine.control, &stored), 1);
    }
}

/// Those of these moments whose click counted, each click arriving in this order.
fn counted(moments_as_they_arrive: &[(i64, i64)]) -> Vec<i64> {
    let machine = with_account(&[("DOUBLE_CLICK_MS", "1000"), ("SHARDS", "1")]);
    let begin = machine.clock.0.get();
    for (waits, moment) in moments_as_they_arrive {
        machine.advance(*waits);
        let mut click = person(&machine, "x", "1.1.1.1");
        click.at = begin.after(*moment);
        click_now(&machine, click);
    }
    machine.advance(2000);
    let sql = "select e.occurred_at_ms as at_ms from entry e where e.kind = 'click' \
        and not exists (select 1 from entry c where c.corrects = e.entry_id) order by 1";
    let rows = block_on(Db::query(&machine.ledger, Statement::new(sql, vec![]))).unwrap();
    let since = |row: &counterfoil::ports::Row| row.millis("at_ms").unwrap().since(begin);
    rows.iter().map(since).collect()
}

#[test]
fn clicks_that_arrive_late_or_out_of_order_are_doubles_by_their_own_times() {
    // The shard is slow: it meets the second click long after the first one's window.
    assert_eq!(counted(&[(0, 0), (1500, 900)]), [0]);
    assert_eq!(counted(&[(0, 0), (5000, 999), (0, 1000)]), [0, 1000]);
    // A click that lies near an earlier one that counted, though a later one has come since.
    assert_eq!(counted(&[(0, 0), (1600, 1600), (0, 600)]), [0, 1600]);
    assert_eq!(
        counted(&[(3000, 3000), (0, 0), (0, 1999), (0, 2001)]),
        [0, 1999, 3000]
    );
}
