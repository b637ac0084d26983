//! Lanes behind deliveries: storing comes first, and no lane waits for ever.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use counterfoil::fault::Fault;
use counterfoil::http::request::Body;
use counterfoil::inbox::{receive, waking};
use counterfoil::native::executor::block_on;
use counterfoil::parallel;
use counterfoil::ports::{Background, Db, Later, Rows, Statement, Timer};
use counterfoil::world::World;
use serde_json::json;

use super::inbox_desk::Desk;

/// The control database, in which deliveries are being stored for as long as somebody says.
struct Storing {
    inner: Rc<dyn Db>,
    pauses: Rc<Pauses>,
}

impl Db for Storing {
    fn query(&self, statement: Statement) -> Later<'_, Result<Rows, Fault>> {
        self.inner.query(statement)
    }
    fn batch(&self, statements: Vec<Statement>) -> Later<'_, Result<Vec<Rows>, Fault>> {
        Box::pin(async move {
            let stores = |one: &Statement| one.sql.starts_with("insert into event ");
            while statements.iter().any(stores) && !self.pauses.is_over() {
                turn().await;
            }
            let claims = |one: &Statement| one.sql.starts_with("insert into lane (lane) values");
            if statements.first().is_some_and(claims) {
                self.pauses.claimed_after.set(self.pauses.seen.get());
            }
            self.inner.batch(statements).await
        })
    }
}

/// A timer that counts its pauses; behind so many the deliveries are stored.
struct Pauses {
    seen: Cell<u32>,
    stored_after: u32,
    /// So many there were when the lane was claimed.
    claimed_after: Cell<u32>,
}

impl Pauses {
    fn is_over(&self) -> bool {
        self.seen.get() >= self.stored_after
    }
}

impl Timer for Pauses {
    fn pause(&self, _: u32) -> Later<'static, ()> {
        self.seen.set(self.seen.get() + 1);
        Box::pin(turn())
    }
}

async fn turn() {
    let mut waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

#[derive(Default)]
struct Behind(RefCell<Vec<Later<'static, ()>>>);

impl Background for Behind {
    fn spawn(&self, work: Later<'static, ()>) {
        self.0.borrow_mut().push(work);
    }
}

/// How many pauses a lane has made when it is claimed, where a delivery beside it takes so many.
fn pauses_of_a_lane(stored_after: u32) -> u32 {
    let desk = Desk::new(&[]);
    let plain = desk.machine.world();
    let [first, other] = ["a", "b"].map(|id| {
        let jwt = desk.sign("customer.payment_succeeded", id, &json!({}));
        Body::Whole(jwt.into_bytes())
    });
    let waits = block_on(receive::intake(&plain, &first, None)).expect("it is stored");
    let waits = waits.expect("it is taken");
    let pauses = Rc::new(Pauses {
        seen: Cell::new(0),
        stored_after,
        claimed_after: Cell::new(0),
    });
    let behind = Rc::new(Behind::default());
    let storing = Storing {
        inner: Rc::clone(&plain.db),
        pauses: Rc::clone(&pauses),
    };
    let world = Rc::new(World {
        db: Rc::new(storing),
        timer: Rc::<Pauses>::clone(&pauses),
        background: Rc::<Behind>::clone(&behind),
        ..(*plain).clone()
    });
    waking::wake_behind(&world, &waits.lane, None);
    let lane = behind.0.borrow_mut().pop().expect("a lane");
    let (world, pauses, other) = (&world, &pauses, &other);
    let storing: Later<'_, ()> = Box::pin(async move {
        let stored = receive::intake(world, other, None).await;
        stored.expect("it is stored").expect("it is taken");
    });
    let running: Later<'_, ()> = Box::pin(async move {
        lane.await;
        // Now the delivery is stored in any case.
        pauses.seen.set(stored_after);
    });
    block_on(parallel::all(vec![storing, running], 2));
    assert_eq!(desk.count("select count(*) as n from run"), 1);
    pauses.claimed_after.get()
}

#[test]
fn a_lane_stays_behind_deliveries_that_are_on_their_way_but_not_for_ever() {
    assert_eq!(pauses_of_a_lane(0), 1);
    let behind = pauses_of_a_lane(10);
    assert!((10..15).contains(&behind), "{behind}");
    let bounded = pauses_of_a_lane(10_000);
    assert_eq!(bounded, 50);
}
