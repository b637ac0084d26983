//! A run of the reporter over many accounts: all in one run, some at a time, nobody held up.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use counterfoil::native::executor::block_on;
use counterfoil::native::machine::{Gear, Machine};
use counterfoil::ports::{Later, Signatures};
use counterfoil::provider::{Agreements, Limits, Provider, ProviderFault, SigningKey};
use counterfoil::units::{AgreementId, CustomerId, Delta, Millis, Units};
use serde_json::json;

use crate::meters::{MINUTE, OPERATOR, account, meter_of};
use crate::quick::Hashes;

/// Writes that are under way now, and the most that ever were.
#[derive(Default)]
struct UnderWay {
    now: Cell<u32>,
    most: Cell<u32>,
    sent: Cell<u32>,
}

#[derive(Clone, Default)]
struct Watched(Rc<UnderWay>);

impl Gear for Watched {
    fn signatures(&self) -> Rc<dyn Signatures> {
        Rc::new(Hashes::default())
    }

    fn provider(&self, plain: Rc<dyn Provider>) -> Rc<dyn Provider> {
        Rc::new(WatchedProvider(Rc::clone(&self.0), plain))
    }
}

struct WatchedProvider(Rc<UnderWay>, Rc<dyn Provider>);

impl Provider for WatchedProvider {
    fn limits<'a>(&'a self, customer: &'a CustomerId) -> Later<'a, Result<Limits, ProviderFault>> {
        self.1.limits(customer)
    }

    fn agreements<'a>(
        &'a self,
        customer: &'a CustomerId,
    ) -> Later<'a, Result<Agreements, ProviderFault>> {
        self.1.agreements(customer)
    }

    fn write_meter<'a>(
        &'a self,
        agreement: &'a AgreementId,
        feature_key: &'a str,
        total: Units,
        at: Millis,
    ) -> Later<'a, Result<(), ProviderFault>> {
        Box::pin(async move {
            let seen = &self.0;
            seen.now.set(seen.now.get() + 1);
            seen.most.set(seen.most.get().max(seen.now.get()));
            seen.sent.set(seen.sent.get() + 1);
            turns(20).await;
            let outcome = self.1.write_meter(agreement, feature_key, total, at).await;
            seen.now.set(seen.now.get() - 1);
            outcome
        })
    }

    fn read_meter<'a>(
        &'a self,
        agreement: &'a AgreementId,
        feature_key: &'a str,
    ) -> Later<'a, Result<Delta, ProviderFault>> {
        self.1.read_meter(agreement, feature_key)
    }

    fn signing_keys(&self) -> Later<'_, Result<Vec<SigningKey>, ProviderFault>> {
        self.1.signing_keys()
    }
}

async fn turns(mut left: u32) {
    poll_fn(|_| {
        left -= 1;
        if left == 0 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

#[test]
fn one_run_sends_120_marks_ten_at_a_time_and_a_refused_agreement_stops_nobody() {
    for (setting, at_once) in [(None, 10), (Some(("METER_CONCURRENCY", "3")), 3)] {
        let watched = Watched::default();
        let settings: Vec<_> = setting.into_iter().collect();
        let machine = Machine::geared(&settings, Rc::new(watched.clone())).expect("it starts");
        let ids: Vec<String> = (0..120).map(|number| format!("acc{number}")).collect();
        let agreements: Vec<String> = ids.iter().map(|id| account(&machine, id)).collect();
        for (units, id) in (1..).zip(&ids) {
            let fact = json!({"key": "one", "feature": "clicks", "units": units});
            let target = format!("/v1/usage?account={id}");
            assert_eq!(machine.call("POST", &target, OPERATOR, &fact).0, 201);
        }
        // The provider refuses one of them from now on.
        let gone = "/standin/customers/customer_acc7";
        let ended = machine.call("PUT", gone, OPERATOR, &json!({"plan": null}));
        assert_eq!(ended.0, 200);
        let run = || {
            machine
                .call("POST", "/v1/run/reporter", OPERATOR, &json!({}))
                .1
        };
        let summary = run();
        assert_eq!(
            (&summary["tried"], &summary["reported"], &summary["failed"]),
            (&json!(120), &json!(119), &json!(1)),
            "{summary}"
        );
        assert_eq!(summary["done"], true);
        assert_eq!((watched.0.most.get(), watched.0.sent.get()), (at_once, 120));
        for (units, agreement) in (1..).zip(&agreements) {
            let expected = if units == 8 { 0 } else { units };
            assert_eq!(meter_of(&machine, agreement), expected);
        }
        machine.advance(MINUTE);
        assert_eq!(run()["reported"], 0, "whoever was told is not told again");
    }
}

#[test]
fn a_cycle_whose_row_could_not_be_stored_at_its_first_use_gets_it_with_the_first_report() {
    let machine = Machine::geared(&[], Rc::new(crate::quick::QuickSignatures)).expect("it starts");
    account(&machine, "a");
    let body = json!({"key": "one", "feature": "clicks", "units": 3});
    let (status, _) = machine.call("POST", "/v1/usage?account=a", OPERATOR, &body);
    assert_eq!(status, 201);
    let cycles = |sql: &str| {
        let rows = counterfoil::ports::Sql::query(&machine.control, sql, &[]);
        rows.expect("it runs").len()
    };
    // As if DB had been out of reach when the usage came.
    cycles("delete from cycle");
    let (_, summary) = machine.call("POST", "/v1/run/reporter", OPERATOR, &json!({}));
    assert_eq!(summary["reported"], 1);
    let stored = "select 1 as one from cycle where account_id = 'a' and name = '2026-11'";
    assert_eq!(cycles(stored), 1);
}

#[test]
fn a_cycle_whose_entries_were_all_taken_back_at_once_gets_its_row_too() {
    let machine = Machine::geared(&[], Rc::new(crate::quick::QuickSignatures)).expect("it starts");
    account(&machine, "a");
    let row = |id: &str, units: i64| {
        json!({"id": id, "account": "a", "feature": "clicks", "cycle": "2026-11", "units": units,
            "kind": "usage", "key": id, "at": machine.clock.0.get().get()})
    };
    let rows = json!([row("one", 1), row("two", -1)]).to_string();
    let batch = counterfoil::ledger::batch::statements(None, &rows, &[], machine.clock.0.get());
    let ledger = &machine.ledger;
    block_on(counterfoil::ports::Db::batch(ledger, batch)).expect("it is written");
    // As if DB had been out of reach when the first of them came.
    let cycles = |sql: &str| {
        let rows = counterfoil::ports::Sql::query(&machine.control, sql, &[]);
        rows.expect("it runs").len()
    };
    cycles("delete from cycle");
    let (_, summary) = machine.call("POST", "/v1/run/reporter", OPERATOR, &json!({}));
    assert_eq!(summary["tried"], 0, "nothing is to be told");
    let stored = "select 1 as one from cycle where account_id = 'a' and name = '2026-11'";
    assert_eq!(cycles(stored), 1);
}
