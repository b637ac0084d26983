//! [`Db`] over a D1 binding.

use js_sys::Array;
use wasm_bindgen::{JsCast, JsValue};
use worker::{D1Database, Env};

use super::js::{self, D1, D1Statement};
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
            let prepared = prepare(&self.open()?, &statement)?;
            let failed = |thrown: JsValue| fault(&statement, &thrown);
            let result = js::settled(prepared.all()).await.map_err(failed)?;
            rows(&result)
        })
    }

    fn batch(&self, statements: Vec<Statement>) -> Later<'_, Result<Vec<Rows>, Fault>> {
        Box::pin(async move {
            let Some(first) = statements.first() else {
                return Ok(Vec::new());
            };
            let database = self.open()?;
            let prepared = Array::new();
            for statement in &statements {
                prepared.push(&prepare(&database, statement)?.into());
            }
            let failed = |thrown: JsValue| fault(first, &thrown);
            let results = js::settled(database.batch(&prepared))
                .await
                .map_err(failed)?;
            results
                .unchecked_into::<Array>()
                .iter()
                .map(|result| rows(&result))
                .collect()
        })
    }
}

fn prepare(database: &D1, statement: &Statement) -> Result<D1Statement, Fault> {
    let params = js::bindings(&statement.params)?;
    let prepared = database
        .prepare(&statement.sql)
        .and_then(|prepared| prepared.bind(&params));
    prepared.map_err(|thrown| fault(statement, &thrown))
}

/// One result of `all` or `batch`: both have their rows under `results`.
fn rows(result: &JsValue) -> Result<Rows, Fault> {
    match js::member(result, "results").dyn_into::<Array>() {
        Ok(rows) => js::rows_of_objects(&rows),
        Err(_) => Err(Fault::unreadable("read a D1 result", "it has no rows")),
    }
}

/// The one place where a D1 error is read. What a failed batch means is read from the database
/// afterwards, never from this.
fn fault(statement: &Statement, thrown: &JsValue) -> Fault {
    Fault::unavailable(head(&statement.sql), js::message(thrown))
}
