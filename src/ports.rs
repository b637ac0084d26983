//! The whole outside world, as thin ports.
//!
//! `Sql` is synchronous on purpose: inside an object nothing awaits between reading and writing.
//! `Db` offers only `query` and `batch`, because a batch is D1's only transaction; what must be
//! atomic is one batch whose SQL carries the condition. `Objects` asks an object a message.
//! `Provider` (in `provider`) reads a limit, a plan and a meter, and sets a meter's total; it
//! speaks through `Transport`. Clock, ids, alarm and background work are single functions.
//!
//! The same SQL text runs on all three databases, and all of them bind numbers as REAL: cast
//! (`cast(?1 as integer)`) wherever a number is divided, put into JSON or used outside a STRICT
//! INTEGER column or a plain comparison.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use crate::fault::Fault;
use crate::units::{AccountId, Delta, Millis, SAFE_MAX, Units};

/// A future of the one thread that a Worker has.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What a statement binds and a row holds. Integers lie within ±(2^53 − 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// SQL's null.
    Null,
    /// An integer within ±(2^53 − 1).
    Int(i64),
    /// Text.
    Text(String),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}
impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Int(i64::from(value))
    }
}
impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Int(i64::from(value))
    }
}
impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}
impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}
impl From<Units> for Value {
    fn from(value: Units) -> Self {
        Self::Int(value.get())
    }
}
impl From<Delta> for Value {
    fn from(value: Delta) -> Self {
        Self::Int(value.get())
    }
}
impl From<Millis> for Value {
    fn from(value: Millis) -> Self {
        Self::Int(value.get())
    }
}
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// One SQL statement with its parameters `?1`, `?2`, …
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The text.
    pub sql: String,
    /// `?1` is the first.
    pub params: Vec<Value>,
}

impl Statement {
    /// A statement with its parameters.
    pub fn new(sql: impl Into<String>, params: Vec<Value>) -> Self {
        Self {
            sql: sql.into(),
            params,
        }
    }
}

/// Binds a list of anything that is a [`Value`]: `params![id.as_str(), now, units]`.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        ::std::vec::Vec::<$crate::ports::Value>::from([$($crate::ports::Value::from($value)),*])
    };
}

/// One row, by column name. Every joined column needs an alias of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Shared by all rows of a result.
    names: Rc<[String]>,
    values: Vec<Value>,
}

impl Row {
    /// A row of these columns.
    pub const fn new(names: Rc<[String]>, values: Vec<Value>) -> Self {
        Self { names, values }
    }

    /// The value of a column; the last one where two have the name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let place = self.names.iter().rposition(|one| one == name)?;
        self.values.get(place)
    }

    fn missing(name: &str, what: &str) -> Fault {
        Fault::unreadable("read a row", format!("column {name} is not {what}"))
    }

    /// An integer column.
    pub fn int(&self, name: &str) -> Result<i64, Fault> {
        self.opt_int(name)?
            .ok_or_else(|| Self::missing(name, "an integer"))
    }

    /// An integer column that may be null.
    pub fn opt_int(&self, name: &str) -> Result<Option<i64>, Fault> {
        match self.get(name) {
            Some(Value::Int(value)) if (-SAFE_MAX..=SAFE_MAX).contains(value) => Ok(Some(*value)),
            Some(Value::Null) => Ok(None),
            _ => Err(Self::missing(name, "a safe integer")),
        }
    }

    /// A text column.
    pub fn text(&self, name: &str) -> Result<&str, Fault> {
        self.opt_text(name)?
            .ok_or_else(|| Self::missing(name, "text"))
    }

    /// A text column that may be null.
    pub fn opt_text(&self, name: &str) -> Result<Option<&str>, Fault> {
        match self.get(name) {
            Some(Value::Text(value)) => Ok(Some(value)),
            Some(Value::Null) => Ok(None),
            _ => Err(Self::missing(name, "text")),
        }
    }

    /// An amount that is never negative.
    pub fn units(&self, name: &str) -> Result<Units, Fault> {
        Units::new(self.int(name)?).ok_or_else(|| Self::missing(name, "an amount"))
    }

    /// An amount that may be negative.
    pub fn delta(&self, name: &str) -> Result<Delta, Fault> {
        Delta::new(self.int(name)?).ok_or_else(|| Self::missing(name, "a change"))
    }

    /// A moment.
    pub fn millis(&self, name: &str) -> Result<Millis, Fault> {
        Ok(Millis::new(self.int(name)?))
    }

    /// A moment that may be null.
    pub fn opt_millis(&self, name: &str) -> Result<Option<Millis>, Fault> {
        Ok(self.opt_int(name)?.map(Millis::new))
    }

    /// An id or name of one of the text newtypes: `row.id("account_id", AccountId::new)`.
    pub fn id<T>(&self, name: &str, parse: fn(String) -> Option<T>) -> Result<T, Fault> {
        parse(self.text(name)?.to_owned()).ok_or_else(|| Self::missing(name, "of its form"))
    }
}

/// The rows that one statement gave.
pub type Rows = Vec<Row>;

/// An object's own SQLite: synchronous, alone between awaits.
pub trait Sql {
    /// Runs one statement and gives its rows.
    fn query(&self, sql: &str, params: &[Value]) -> Result<Rows, Fault>;

    /// Runs `body` in one transaction: all of it, or nothing where it gives an error.
    /// Never nested. Use [`transact`].
    fn transaction(&self, body: &mut dyn FnMut() -> Result<(), Fault>) -> Result<(), Fault>;
}

/// Runs `body` in one transaction of an object's SQLite and gives what it gave.
pub fn transact<T>(sql: &dyn Sql, body: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    let mut body = Some(body);
    let mut outcome = None;
    sql.transaction(&mut || {
        let run = body
            .take()
            .ok_or_else(|| Fault::unavailable("transact", "ran twice"))?;
        outcome = Some(run()?);
        Ok(())
    })?;
    outcome.ok_or_else(|| Fault::unavailable("transact", "did not run"))
}

/// A D1 database.
pub trait Db {
    /// Runs one statement and gives its rows.
    fn query(&self, statement: Statement) -> Later<'_, Result<Rows, Fault>>;

    /// Runs all statements in one transaction, in order; the first failure rolls all back.
    /// An error does not say whether it took effect: read the database to know.
    fn batch(&self, statements: Vec<Statement>) -> Later<'_, Result<Vec<Rows>, Fault>>;
}

/// Which object is asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectName {
    /// The account's budget, jobs and outbox.
    Account(AccountId),
    /// One of the fixed pool of click buffers.
    LedgerShard(u32),
    /// The built-in provider.
    StandIn,
}

impl ObjectName {
    /// The name from which the platform makes the object's id, also its name in `feed`.
    pub fn name(&self) -> String {
        match self {
            Self::Account(id) => format!("account/{id}"),
            Self::LedgerShard(number) => format!("shard/{number}"),
            Self::StandIn => "standin".to_owned(),
        }
    }
}

/// Calls to objects. A message and its answer are JSON; each feature's `wire.rs` has the types.
/// A lost answer is a fault: the caller asks again under the same id.
pub trait Objects {
    /// Hands `message` to the object and gives its answer.
    fn ask(&self, object: ObjectName, message: String) -> Later<'_, Result<String, Fault>>;
}

/// A request to a system outside, or to the stand-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// `GET`, `POST`, …
    pub method: &'static str,
    /// The full URL.
    pub url: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Empty for a `GET`.
    pub body: String,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The HTTP status.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// At most 1 MiB; more is a fault.
    pub body: String,
}

impl Incoming {
    /// The first header of that (lower-case) name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Outgoing HTTP. Gives up by itself after 10 s; an error is an unknown outcome.
pub trait Transport {
    /// Sends the request.
    fn send(&self, request: Outgoing) -> Later<'_, Result<Incoming, Fault>>;
}

/// RS256, by the platform's own cryptography where it has one.
pub trait Signatures {
    /// Whether `signature` is that of `message` under the RSA key (`n`, `e`: base64url as in a
    /// JWKS). A key that does not read is `false`.
    fn verify<'a>(
        &'a self,
        n: &'a str,
        e: &'a str,
        message: &'a [u8],
        signature: &'a [u8],
    ) -> Later<'a, Result<bool, Fault>>;

    /// A new RSA-2048 key pair as a private JWK (JSON).
    fn generate(&self) -> Later<'_, Result<String, Fault>>;

    /// Signs with a private JWK that [`Signatures::generate`] gave.
    fn sign<'a>(&'a self, jwk: &'a str, message: &'a [u8]) -> Later<'a, Result<Vec<u8>, Fault>>;
}

/// The platform's clock.
pub trait Clock {
    /// Now, as the machine has it. Everything else asks [`crate::world::World::now`] or the object.
    fn read(&self) -> Millis;
}

/// Random ids.
pub trait Ids {
    /// 128 random bits.
    fn random(&self) -> Result<[u8; 16], Fault>;
}

/// An object's single alarm.
pub trait Alarm {
    /// Sets it to that moment of the machine's clock, in place of any earlier setting; `None`
    /// clears it. The setting begins at the call, not at the first poll, so that it lands with
    /// the writes before it.
    fn set(&self, at: Option<Millis>) -> Later<'_, Result<(), Fault>>;
}

/// Work that goes on after the answer.
pub trait Background {
    /// Keeps the invocation alive until `work` is done.
    fn spawn(&self, work: Later<'static, ()>);
}

/// Pauses, for work after an answer and between tries. What several requests wait for together is
/// looked at by each in pauses of its own, because I/O that one request began completes for that
/// request alone. Nothing is true only because a pause ended.
pub trait Timer {
    /// Ready after about so many milliseconds.
    fn pause(&self, ms: u32) -> Later<'static, ()>;
}

/// One JSON object a line, at the edge only.
pub trait Log {
    /// Writes a line. Never a secret, a token, or a whole URL of a client.
    fn line(&self, level: &'static str, event: &str, fields: serde_json::Value);
}
