//! [`Sql`] and [`Alarm`] over an object's own storage.

use wasm_bindgen::closure::ScopedClosure;
use wasm_bindgen::{JsCast, JsValue};
use worker::State;

use super::js::{self, ObjectSqlite, ObjectStorage};
use super::rows::{self, Parcel};
use crate::fault::Fault;
use crate::ports::{Alarm, Later, Rows, Sql, Value};
use crate::units::Millis;

/// An object's SQLite and its alarm: both are its storage.
pub struct Storage {
    storage: ObjectStorage,
    sqlite: ObjectSqlite,
}

impl Storage {
    /// The storage of an object.
    pub fn of(state: &State) -> Self {
        let raw: JsValue = state.storage().as_raw().into();
        let storage: ObjectStorage = raw.unchecked_into();
        let sqlite = storage.sql();
        Self { storage, sqlite }
    }
}

impl Sql for Storage {
    fn query(&self, sql: &str, params: &[Value]) -> Result<Rows, Fault> {
        let Parcel { kinds, text } = Parcel::of_statement(sql, params)?;
        let rows = js::execute(&self.sqlite, &kinds, &text);
        let failed = |thrown: JsValue| Fault::unavailable(head(sql), js::message(&thrown));
        rows::read_one(&rows.map_err(failed)?)
    }

    /// Synchronous writes of an object are committed together when its event loop turns, also
    /// those before a failure; only a throw inside `transactionSync` takes them back.
    fn transaction(&self, body: &mut dyn FnMut() -> Result<(), Fault>) -> Result<(), Fault> {
        let mut fault = None;
        let mut run = || match body() {
            Ok(()) => Ok(JsValue::UNDEFINED),
            Err(error) => {
                fault = Some(error);
                Err(JsValue::from_str("rolled back"))
            }
        };
        let outcome = {
            type Body<'a> = dyn FnMut() -> Result<JsValue, JsValue> + 'a;
            let closure = ScopedClosure::<Body>::borrow_mut_assert_unwind_safe(&mut run);
            self.storage
                .transaction_sync(closure.as_ref().unchecked_ref())
        };
        match (fault, outcome) {
            (Some(fault), _) => Err(fault),
            (None, Ok(_)) => Ok(()),
            (None, Err(thrown)) => Err(Fault::unavailable("transact", js::message(&thrown))),
        }
    }
}

impl Alarm for Storage {
    /// The call is made now, so that it lands with the writes before it; only its confirmation is
    /// awaited. A plain number would be an offset to the `worker` crate; here it is the moment.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a moment in milliseconds is below 2^53"
    )]
    fn set(&self, at: Option<Millis>) -> Later<'_, Result<(), Fault>> {
        let promise = match at {
            Some(at) => self.storage.set_alarm(at.get() as f64),
            None => self.storage.delete_alarm(),
        };
        Box::pin(async move {
            match js::settled(promise).await {
                Ok(_) => Ok(()),
                Err(thrown) => Err(Fault::unavailable("set the alarm", js::message(&thrown))),
            }
        })
    }
}

/// The beginning of a statement, for the log.
pub fn head(sql: &str) -> String {
    let words: Vec<&str> = sql.split_whitespace().take(4).collect();
    words.join(" ")
}
