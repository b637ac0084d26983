//! [`Objects`] over the platform's stubs, and the shells of the three objects: each hands messages
//! and alarms to the object of its feature and nothing else.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use wasm_bindgen::JsValue;
use worker::durable_object;
use worker::{Delay, DurableObject, Env, Request, Response, State};

use super::js;
use super::platform::AfterCall;
use super::sql::Storage;
use super::world;
use crate::fault::{Fault, FaultKind};
use crate::gate::object::AccountObject;
use crate::ledger::shard::ShardObject;
use crate::object::Object;
use crate::ports::{Later, ObjectName, Objects};
use crate::provider::standin::StandInObject;

/// A call whose failure the platform calls retryable is made again this often: messages are safe
/// to repeat.
const TRIES: u32 = 3;
/// The pause before the second try; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The objects of this Worker.
pub struct Stubs {
    env: Env,
}

impl Stubs {
    /// The objects that are bound in `env`.
    pub fn new(env: Env) -> Self {
        Self { env }
    }

    /// By a new stub: one that has failed stays broken. The object's status and answer.
    async fn call(&self, object: &ObjectName, message: &str) -> Result<String, JsValue> {
        let binding = match object {
            ObjectName::Account(_) => "ACCOUNT",
            ObjectName::LedgerShard(_) => "LEDGER_SHARD",
            ObjectName::StandIn => "STANDIN",
        };
        let told = js::ask(self.env.as_ref(), binding, &object.name(), message);
        Ok(js::settled(told).await?.as_string().unwrap_or_default())
    }
}

impl Objects for Stubs {
    fn ask(&self, object: ObjectName, message: String) -> Later<'_, Result<String, Fault>> {
        Box::pin(async move {
            let mut pause = FIRST_PAUSE;
            for _ in 1..TRIES {
                match self.call(&object, &message).await {
                    Err(error) if may_be_tried_again(&error) => {
                        Delay::from(pause).await;
                        pause *= 2;
                    }
                    outcome => return answer_of(&object, outcome),
                }
            }
            answer_of(&object, self.call(&object, &message).await)
        })
    }
}

/// An overloaded object is not asked again at once: that would only add to its load.
fn may_be_tried_again(thrown: &JsValue) -> bool {
    js::is_set(thrown, "retryable") && !js::is_set(thrown, "overloaded")
}

fn answer_of(object: &ObjectName, outcome: Result<String, JsValue>) -> Result<String, Fault> {
    match outcome {
        Ok(told) => match told.split_once(' ') {
            Some(("200", answer)) => Ok(answer.to_owned()),
            Some((_, fault)) => Err(read_fault(object, fault)),
            None => Err(read_fault(object, "")),
        },
        Err(thrown) => {
            let cause = js::message(&thrown);
            Err(Fault::unanswered(format!("ask {}", object.name()), cause))
        }
    }
}

fn write_fault(fault: &Fault) -> String {
    json!({"code": fault.code(), "doing": fault.doing, "cause": fault.cause}).to_string()
}

/// The fault that an object answered with; its kind decides what the client is told.
fn read_fault(object: &ObjectName, text: &str) -> Fault {
    let fault: Value = serde_json::from_str(text).unwrap_or_default();
    let member = |name: &str| fault.get(name).and_then(Value::as_str).unwrap_or("no word");
    let kind = match member("code") {
        "newer_schema" => FaultKind::NewerSchema,
        "not_configured" => FaultKind::NotConfigured,
        _ => FaultKind::Unavailable,
    };
    let doing = format!("{}: {}", object.name(), member("doing"));
    Fault {
        kind,
        doing,
        cause: member("cause").to_owned(),
    }
}

/// An object of a feature, as a shell drives it.
trait Inner: Sized {
    fn new(object: Object) -> Self;
    async fn ask(&self, message: &str) -> Result<String, Fault>;
    async fn alarm(&self) -> Result<(), Fault>;
}

impl Inner for AccountObject {
    fn new(object: Object) -> Self {
        Self::new(object)
    }
    async fn ask(&self, message: &str) -> Result<String, Fault> {
        self.ask(message).await
    }
    async fn alarm(&self) -> Result<(), Fault> {
        self.alarm().await
    }
}

impl Inner for ShardObject {
    fn new(object: Object) -> Self {
        Self::new(object)
    }
    async fn ask(&self, message: &str) -> Result<String, Fault> {
        self.ask(message).await
    }
    async fn alarm(&self) -> Result<(), Fault> {
        self.alarm().await
    }
}

impl Inner for StandInObject {
    fn new(object: Object) -> Self {
        Self::new(object)
    }
    async fn ask(&self, message: &str) -> Result<String, Fault> {
        self.ask(message).await
    }
    async fn alarm(&self) -> Result<(), Fault> {
        self.alarm().await
    }
}

/// What the platform gave, and the object once it was first called: settings that do not read
/// must not fail in a constructor, where nobody could be answered.
struct Shell<T> {
    state: Rc<State>,
    env: Env,
    inner: OnceCell<T>,
}

impl<T: Inner> Shell<T> {
    fn new(state: State, env: Env) -> Self {
        Self {
            state: Rc::new(state),
            env,
            inner: OnceCell::new(),
        }
    }

    fn object(&self) -> Result<Object, Fault> {
        let storage = Rc::new(Storage::of(&self.state));
        let background = Rc::new(AfterCall(Rc::clone(&self.state)));
        let world = world::of(&self.env, background)?;
        Ok(Object {
            sql: Rc::<Storage>::clone(&storage),
            alarm: storage,
            world,
            memory: Rc::default(),
        })
    }

    fn inner(&self) -> Result<&T, Fault> {
        if self.inner.get().is_none() {
            let made = T::new(self.object()?);
            return Ok(self.inner.get_or_init(|| made));
        }
        self.inner
            .get()
            .ok_or_else(|| Fault::unavailable("wake an object", "it is gone"))
    }

    async fn fetch(&self, mut request: Request) -> worker::Result<Response> {
        #[cfg(feature = "conformance")]
        if request.path() == super::conformance::PATH {
            return super::conformance::report_object(&Storage::of(&self.state)).await;
        }
        let message = request.text().await?;
        let outcome = match self.inner() {
            Ok(inner) => inner.ask(&message).await,
            Err(fault) => Err(fault),
        };
        match outcome {
            Ok(answer) => Response::ok(answer),
            Err(fault) => Response::error(write_fault(&fault), 503),
        }
    }

    /// A fault is logged and not thrown: the object has armed its next alarm itself, and cron
    /// visits whatever is overdue.
    async fn alarm(&self) -> worker::Result<Response> {
        let outcome = match self.inner() {
            Ok(inner) => inner.alarm().await,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = outcome {
            world::log_fault("alarm.fault", &fault);
        }
        Response::empty()
    }
}

/// One account: its budget, jobs and outbox.
#[durable_object(alarm)]
pub struct Account {
    shell: Shell<AccountObject>,
}

impl DurableObject for Account {
    fn new(state: State, env: Env) -> Self {
        Self {
            shell: Shell::new(state, env),
        }
    }
    async fn fetch(&self, request: Request) -> worker::Result<Response> {
        self.shell.fetch(request).await
    }
    async fn alarm(&self) -> worker::Result<Response> {
        self.shell.alarm().await
    }
}

/// One of the pool of click buffers.
#[durable_object(alarm)]
pub struct LedgerShard {
    shell: Shell<ShardObject>,
}

impl DurableObject for LedgerShard {
    fn new(state: State, env: Env) -> Self {
        Self {
            shell: Shell::new(state, env),
        }
    }
    async fn fetch(&self, request: Request) -> worker::Result<Response> {
        self.shell.fetch(request).await
    }
    async fn alarm(&self) -> worker::Result<Response> {
        self.shell.alarm().await
    }
}

/// The built-in provider.
#[durable_object(alarm)]
pub struct StandIn {
    shell: Shell<StandInObject>,
}

impl DurableObject for StandIn {
    fn new(state: State, env: Env) -> Self {
        Self {
            shell: Shell::new(state, env),
        }
    }
    async fn fetch(&self, request: Request) -> worker::Result<Response> {
        self.shell.fetch(request).await
    }
    async fn alarm(&self) -> worker::Result<Response> {
        self.shell.alarm().await
    }
}
