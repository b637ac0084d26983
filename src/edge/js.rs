//! The JavaScript that the `worker` crate does not bind, or binds so that a throw would reset the
//! whole instance. Everything that may throw is declared `catch`, and every value that comes back
//! is looked at before it is used.

use js_sys::{Array, Function, JSON, Promise, Reflect, Uint8Array};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::JsFuture;
use worker::web_sys::RequestInit;

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

    /// Runs an iterator to its end.
    #[wasm_bindgen(catch, js_namespace = Array, js_name = from)]
    pub fn array_from(iterator: &JsValue) -> Result<Array, JsValue>;

    /// A D1 binding.
    pub type D1;

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

#[wasm_bindgen(module = "/src/edge/crossing.js")]
extern "C" {
    /// Runs one statement of an object's SQLite.
    #[wasm_bindgen(catch)]
    pub fn execute(sqlite: &ObjectSqlite, kinds: &str, text: &str) -> Result<String, JsValue>;

    /// Runs one statement of a D1 database.
    #[wasm_bindgen(catch)]
    pub fn query(database: &D1, kinds: &str, text: &str) -> Result<Promise, JsValue>;

    /// Runs statements of a D1 database in one transaction.
    #[wasm_bindgen(catch)]
    pub fn batch(database: &D1, kinds: &str, text: &str) -> Result<Promise, JsValue>;

    /// Hands a message to an object: `status answer`.
    #[wasm_bindgen(catch)]
    pub fn ask(env: &JsValue, binding: &str, name: &str, message: &str)
    -> Result<Promise, JsValue>;
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
