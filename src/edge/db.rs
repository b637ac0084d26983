//! [`Db`] over a D1 binding.

use js_sys::Promise;
use wasm_bindgen::{JsCast, JsValue};
use worker::{D1Database, Env};

use super::js::{self, D1};
use super::rows::{self, Parcel};
use super::sql::head;
use crate::fault::Fault;
use crate::ports::{Db, Later, Rows, Statement};

/// A D1 database by the name of its binding, which is looked up at each use: an answer that needs
/// no database then pays for none.
pub struct Database {
    env: Env,
    binding: &'static str,
}

impl Database {
    /// The database of a binding.
    pub fn new(env: Env, binding: &'static str) -> Self {
        Self { env, binding }
    }

    fn open(&self) -> Result<D1, Fault> {
        let failed = |error| Fault::unavailable(format!("open {}", self.binding), error);
        let database: D1Database = self.env.d1(self.binding).map_err(failed)?;
        Ok(JsValue::from(database).unchecked_into())
    }
}

impl Db for Database {
    fn query(&self, statement: Statement) -> Later<'_, Result<Rows, Fault>> {
        Box::pin(async move {
            let Statement { sql, params } = statement;
            let Parcel { kinds, text } = Parcel::of_statement(&sql, &params)?;
            let result = js::query(&self.open()?, &kinds, &text);
            rows::read_one(&told(&sql, result).await?)
        })
    }

    fn batch(&self, statements: Vec<Statement>) -> Later<'_, Result<Vec<Rows>, Fault>> {
        Box::pin(async move {
            let Some(first) = statements.first() else {
                return Ok(Vec::new());
            };
            let Parcel { kinds, text } = Parcel::of_statements(&statements)?;
            let results = js::batch(&self.open()?, &kinds, &text);
            rows::read_each(&told(&first.sql, results).await?)
        })
    }
}

/// What a database says, as text.
async fn told(sql: &str, promise: Result<Promise, JsValue>) -> Result<String, Fault> {
    match js::settled(promise).await {
        Ok(told) => {
            (told.as_string()).ok_or_else(|| Fault::unreadable("read a D1 result", "it is no text"))
        }
        Err(thrown) => Err(fault(sql, &thrown)),
    }
}

/// The one place where a D1 error is read. What a failed batch means is read from the database
/// afterwards, never from this.
fn fault(sql: &str, thrown: &JsValue) -> Fault {
    Fault::unavailable(head(sql), js::message(thrown))
}
