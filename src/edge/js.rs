//! The JavaScript that the `worker` crate does not bind, or binds so that a throw would reset the
//! whole instance. Everything that may throw is declared `catch`, and every value that comes back
//! is looked at before it is used.

use js_sys::{Array, Function, JSON, Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use worker::web_sys::RequestInit;

use crate::fault::Fault;
use crate::ports::{Row, Rows, Value};
use crate::units::SAFE_MAX;

#[wasm_bindgen]
extern "C" {
    /// `ctx.storage` of an object.
    pub type ObjectStorage;

    /// Runs the function in one transaction: what it throws rolls everything back.
    #[wasm_bindgen(method, catch, js_name = transactionSync)]
    pub fn transaction_sync(this: &ObjectStorage, body: &Function) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(method, catch, js_name = setAlarm)]
    pub fn set_alarm(this: &ObjectStorage, at_ms: f64) -> Result<Promise, JsValue>;

    #[wasm_bindgen(method, catch, js_name = deleteAlarm)]
    pub fn delete_alarm(this: &ObjectStorage) -> Result<Promise, JsValue>;

    #[wasm_bindgen(method, getter)]
    pub fn sql(this: &ObjectStorage) -> ObjectSqlite;

    /// `ctx.storage.sql`.
    pub type ObjectSqlite;

    #[wasm_bindgen(method, catch, variadic)]
    pub fn exec(this: &ObjectSqlite, sql: &str, params: &Array) -> Result<Cursor, JsValue>;

    /// The rows of a statement.
    pub type Cursor;

    #[wasm_bindgen(method, getter, js_name = columnNames)]
    pub fn column_names(this: &Cursor) -> Array;

    /// An iterator of rows as arrays.
    #[wasm_bindgen(method, catch)]
    pub fn raw(this: &Cursor) -> Result<JsValue, JsValue>;

    /// Runs an iterator to its end.
    #[wasm_bindgen(catch, js_namespace = Array, js_name = from)]
    pub fn array_from(iterator: &JsValue) -> Result<Array, JsValue>;

    /// A D1 binding.
    pub type D1;

    #[wasm_bindgen(method, catch)]
    pub fn prepare(this: &D1, sql: &str) -> Result<D1Statement, JsValue>;

    #[wasm_bindgen(method, catch)]
    pub fn batch(this: &D1, statements: &Array) -> Result<Promise, JsValue>;

    /// A prepared D1 statement.
    pub type D1Statement;

    #[wasm_bindgen(method, catch, variadic)]
    pub fn bind(this: &D1Statement, params: &Array) -> Result<D1Statement, JsValue>;

    #[wasm_bindgen(method, catch)]
    pub fn all(this: &D1Statement) -> Result<Promise, JsValue>;

    #[wasm_bindgen(catch)]
    pub fn fetch(url: &str, init: &RequestInit) -> Result<Promise, JsValue>;

    /// A body's stream.
    pub type BodyStream;

    #[wasm_bindgen(method, catch, js_name = getReader)]
    pub fn get_reader(this: &BodyStream) -> Result<BodyReader, JsValue>;

    /// A reader of a body's stream.
    pub type BodyReader;

    #[wasm_bindgen(method, catch)]
    pub fn read(this: &BodyReader) -> Result<Promise, JsValue>;

    #[wasm_bindgen(method, catch)]
    pub fn cancel(this: &BodyReader) -> Result<Promise, JsValue>;

    /// `crypto.subtle`.
    pub type Subtle;

    #[wasm_bindgen(thread_local_v2, js_namespace = crypto, js_name = subtle)]
    pub static SUBTLE: Subtle;

    #[wasm_bindgen(method, catch, js_name = importKey)]
    pub fn import_key(
        this: &Subtle,
        format: &str,
        key: &JsValue,
        algorithm: &JsValue,
        extractable: bool,
        usages: &Array,
    ) -> Result<Promise, JsValue>;

    #[wasm_bindgen(method, catch, js_name = exportKey)]
    pub fn export_key(this: &Subtle, format: &str, key: &JsValue) -> Result<Promise, JsValue>;

    #[wasm_bindgen(method, catch, js_name = generateKey)]
    pub fn generate_key(
        this: &Subtle,
        algorithm: &JsValue,
        extractable: bool,
        usages: &Array,
    ) -> Result<Promise, JsValue>;

    #[wasm_bindgen(method, catch)]
    pub fn sign(
        this: &Subtle,
        algorithm: &str,
        key: &JsValue,
        data: &Uint8Array,
    ) -> Result<Promise, JsValue>;

    #[wasm_bindgen(method, catch)]
    pub fn verify(
        this: &Subtle,
        algorithm: &str,
        key: &JsValue,
        signature: &Uint8Array,
        data: &Uint8Array,
    ) -> Result<Promise, JsValue>;
}

/// Awaits a promise whose making may already have thrown.
pub async fn settled(promise: Result<Promise, JsValue>) -> Result<JsValue, JsValue> {
    JsFuture::from(promise?).await
}

/// A member of an object; `undefined` where there is none or it cannot be read.
pub fn member(of: &JsValue, name: &str) -> JsValue {
    Reflect::get(of, &JsValue::from_str(name)).unwrap_or(JsValue::UNDEFINED)
}

/// A member that is text.
pub fn text_member(of: &JsValue, name: &str) -> Option<String> {
    member(of, name).as_string()
}

/// Whether a member is `true`.
pub fn is_set(of: &JsValue, name: &str) -> bool {
    member(of, name).as_bool() == Some(true)
}

/// What a thrown value says, on one line.
pub fn message(thrown: &JsValue) -> String {
    let text = text_member(thrown, "message").or_else(|| thrown.as_string());
    text.unwrap_or_else(|| "an error without a message".to_owned())
        .replace('\n', " ")
}

/// The object that a JSON text describes.
pub fn parse_json(text: &str) -> Result<JsValue, JsValue> {
    JSON::parse(text)
}

/// An object as JSON.
pub fn to_json(value: &JsValue) -> Result<String, JsValue> {
    JSON::stringify(value).map(String::from)
}

/// Values as both databases bind them. Numbers travel as JavaScript's, so one beyond ±(2^53 − 1)
/// is refused instead of rounded.
pub fn bindings(params: &[Value]) -> Result<Array, Fault> {
    let array = Array::new();
    for param in params {
        array.push(&match param {
            Value::Null => JsValue::NULL,
            Value::Text(text) => JsValue::from_str(text),
            Value::Int(number) => safe_number(*number)
                .ok_or_else(|| Fault::unavailable("bind a number", "it is beyond 2^53 - 1"))?,
        });
    }
    Ok(array)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact within the bound that is looked at first"
)]
fn safe_number(number: i64) -> Option<JsValue> {
    (-SAFE_MAX..=SAFE_MAX)
        .contains(&number)
        .then(|| JsValue::from_f64(number as f64))
}

/// Rows that came as arrays of values, under the names of their columns.
pub fn rows_of_arrays(names: &Array, rows: &Array) -> Result<Rows, Fault> {
    let names: Vec<String> = names.iter().filter_map(|name| name.as_string()).collect();
    rows.iter()
        .map(|row| row_of(&names, row.unchecked_ref()))
        .collect()
}

/// Rows that came as objects: all of one result have the same columns in the same order.
pub fn rows_of_objects(rows: &Array) -> Result<Rows, Fault> {
    let first = rows.get(0);
    let names: Vec<String> = match first.dyn_ref::<Object>() {
        Some(first) => Object::keys(first)
            .iter()
            .filter_map(|name| name.as_string())
            .collect(),
        None => Vec::new(),
    };
    rows.iter()
        .map(|row| row_of(&names, &Object::values(row.unchecked_ref())))
        .collect()
}

fn row_of(names: &[String], values: &Array) -> Result<Row, Fault> {
    let mut row = Row::default();
    for (name, value) in names.iter().zip(values.iter()) {
        let value = value_of(&value).ok_or_else(|| {
            Fault::unreadable(
                "read a row",
                format!("column {name} is no safe integer or text"),
            )
        })?;
        row.0.insert(name.clone(), value);
    }
    Ok(row)
}

fn value_of(value: &JsValue) -> Option<Value> {
    if value.is_null() {
        return Some(Value::Null);
    }
    if let Some(text) = value.as_string() {
        return Some(Value::Text(text));
    }
    safe_integer(value.as_f64()?).map(Value::Int)
}

/// The integer that a JavaScript number is, if it is one within ±(2^53 − 1).
#[expect(
    clippy::cast_possible_truncation,
    reason = "a number that the cast changes is refused"
)]
#[expect(
    clippy::cast_precision_loss,
    reason = "exact within the bound that is looked at first"
)]
#[expect(clippy::float_cmp, reason = "it is equality that is meant")]
pub fn safe_integer(number: f64) -> Option<i64> {
    let integer = number as i64;
    let exact = (-SAFE_MAX..=SAFE_MAX).contains(&integer) && integer as f64 == number;
    exact.then_some(integer)
}
