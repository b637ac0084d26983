//! From a request to its answer: the one place where every route passes.
//!
//! Order (api.md): path 404, method 405, token 401, role 403, size 413, JSON 400, account 422 or
//! 404, body 422, then the thing itself. The first four and the account are settled here and in
//! `auth`; size, JSON and body where a handler reads its `Fields`.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::json;

use super::auth::{self, Caller};
use super::body::Fields;
use super::reply::{Answer, Failure, Problem, Response, fault_problem};
use super::request::{Method, Request, segments};
use super::route::{Endpoint, Found, Spec, find};
use crate::accounts::Account;
use crate::pages::Viewer;
use crate::ports::Later;
use crate::provider::standin::clock;
use crate::units::Millis;
use crate::world::World;

/// One request on its way: what a handler is given.
pub struct Call {
    /// Settings, ports, clock.
    pub world: Rc<World>,
    /// As it came.
    pub request: Request,
    /// The route it matched.
    pub spec: &'static Spec,
    /// The values of the route's `{…}` segments.
    pub path_values: Vec<String>,
    /// When it came.
    pub now: Millis,
    /// In the answer's `X-Request-Id` and the log.
    pub request_id: String,
    /// Who asks; absent on open routes.
    pub caller: Option<Caller>,
    /// The account it is about, where the route is about one.
    pub account: Option<Account>,
    /// The body's fields, where they were read before a handler asked for them.
    read: RefCell<Option<Fields>>,
}

impl Call {
    /// The body's fields: 413, 400.
    pub fn fields(&self) -> Result<Fields, Problem> {
        match self.read.take() {
            Some(fields) => Ok(fields),
            None => Fields::parse(&self.request.body),
        }
    }

    /// Reads the body's fields before a handler asks for them, so that 413 and 400 come in their
    /// order.
    pub fn read_fields(&self) -> Result<(), Problem> {
        let fields = Fields::parse(&self.request.body)?;
        self.read.replace(Some(fields));
        Ok(())
    }

    /// The value of the `index`-th `{…}` segment.
    pub fn path_value(&self, index: usize) -> Result<&str, Problem> {
        self.path_values
            .get(index)
            .map(String::as_str)
            .ok_or_else(Problem::not_found)
    }

    /// The account of a route that is about one.
    pub fn account(&self) -> Result<&Account, Problem> {
        self.account
            .as_ref()
            .ok_or_else(|| Problem::field("account", "It is required."))
    }

    /// Who looks at a page.
    pub fn viewer(&self) -> Viewer {
        Viewer {
            name: self.caller.as_ref().map(|caller| caller.name.clone()),
            account_id: self.caller.as_ref().and_then(|c| c.account_id.clone()),
            stand_in: self.world.settings.has_stand_in(),
        }
    }

    /// The caller of a route that needs one.
    pub fn caller(&self) -> Result<&Caller, Problem> {
        self.caller.as_ref().ok_or_else(auth::unauthorized)
    }
}

/// Answers a request. Never fails: a fault becomes a 503 and one line in the log.
pub async fn handle(world: Rc<World>, request: Request) -> Response {
    clock::refresh(&world).await;
    let request_id = world.request_id();
    let head = request.method == Method::Head;
    let browser = wants_page(&request);
    let mut response = match route(&world, request, &request_id).await {
        Ok(response) => response,
        Err(Failure::Refused(problem)) if browser => super::pages::instead(&problem, &request_id),
        Err(Failure::Refused(problem)) => problem.response(&request_id),
        Err(Failure::Fault(fault)) => {
            let fields = json!({"request_id": request_id, "code": fault.code(),
                "doing": fault.doing, "cause": fault.cause});
            world.log.line("error", "request.fault", fields);
            let problem = fault_problem(&fault);
            if browser {
                super::pages::instead(&problem, &request_id)
            } else {
                problem.response(&request_id)
            }
        }
    };
    if head {
        response.body.clear();
    }
    response.with("x-request-id", request_id)
}

/// Whether a browser asks for a page, and so is told of a problem by one.
fn wants_page(request: &Request) -> bool {
    let page = request.path.starts_with("/app") || request.path.starts_with("/signin");
    page && request.wants_html()
}

async fn route(world: &Rc<World>, request: Request, request_id: &str) -> Answer {
    let has_stand_in = world.settings.has_stand_in();
    let (spec, path_values) = match find(request.method, &request.path) {
        Found::Route(spec, _) if !is_served(spec.endpoint, world) => {
            return Err(Problem::not_found().into());
        }
        Found::OtherMethod(_) if is_stand_ins(&request.path) && !has_stand_in => {
            return Err(Problem::not_found().into());
        }
        Found::Route(spec, values) => (spec, values),
        Found::OtherMethod(allow) if request.method == Method::Options => {
            return Ok(Response::empty(204).with("allow", allow));
        }
        Found::OtherMethod(allow) => {
            let detail = format!("This path answers {allow}.");
            let problem = Problem::new(405, "method_not_allowed", detail);
            return Ok(problem.response(request_id).with("allow", allow));
        }
        Found::Nothing => return Err(Problem::not_found().into()),
    };
    let mut call = Call {
        world: Rc::clone(world),
        now: world.now(),
        request,
        spec,
        path_values,
        request_id: request_id.to_owned(),
        caller: None,
        account: None,
        read: RefCell::new(None),
    };
    if let Some(answer) = auth::admit(&mut call).await? {
        return Ok(answer);
    }
    dispatch(spec.endpoint, call).await
}

fn is_stand_ins(path: &str) -> bool {
    segments(path).is_some_and(|parts| parts.first().is_some_and(|first| first == "standin"))
}

/// What needs the stand-in is not there without it.
fn is_served(endpoint: Endpoint, world: &World) -> bool {
    let needs_stand_in = matches!(
        endpoint,
        Endpoint::StandInApi
            | Endpoint::StandInControl
            | Endpoint::Lab
            | Endpoint::RunLab
            | Endpoint::EngineRoom
            | Endpoint::RunEngineRoom
    );
    !needs_stand_in || world.settings.has_stand_in()
}

fn dispatch(endpoint: Endpoint, call: Call) -> Later<'static, Answer> {
    match endpoint {
        Endpoint::Home => Box::pin(super::pages::home(call)),
        Endpoint::Overview => Box::pin(super::overview::overview(call)),
        Endpoint::Lab => Box::pin(super::lab_page::lab(call)),
        Endpoint::RunLab => Box::pin(super::lab_page::run_lab(call)),
        Endpoint::ReconcilePage => Box::pin(super::reconcile_page::reconcile_page(call)),
        Endpoint::RunReconcile => Box::pin(super::reconcile_page::run_reconcile(call)),
        Endpoint::EngineRoom => Box::pin(super::events_page::engine_room(call)),
        Endpoint::RunEngineRoom => Box::pin(super::events_page::run_engine_room(call)),
        Endpoint::LinksPage => Box::pin(super::links_page::links_page(call)),
        Endpoint::JobsPage => Box::pin(super::jobs_page::jobs_page(call)),
        Endpoint::AccountPage => Box::pin(super::account_page::account_page(call)),
        Endpoint::EventsPage => Box::pin(super::events_page::events_page(call)),
        Endpoint::Style => Box::pin(super::pages::style(call)),
        Endpoint::Script => Box::pin(super::pages::script(call)),
        Endpoint::Docs => Box::pin(super::pages::docs(call)),
        Endpoint::SignInPage => Box::pin(super::signin::sign_in_page(call)),
        Endpoint::SignIn => Box::pin(super::signin::sign_in(call)),
        Endpoint::SignOut => Box::pin(super::signin::sign_out(call)),
        Endpoint::Health => Box::pin(super::operations::health(call)),
        Endpoint::Metrics => Box::pin(super::operations::metrics(call)),
        Endpoint::OpenApi => Box::pin(super::operations::open_api(call)),
        Endpoint::CreateAccount => Box::pin(super::accounts::create_account(call)),
        Endpoint::ListAccounts => Box::pin(super::accounts::list_accounts(call)),
        Endpoint::GetAccount => Box::pin(super::accounts::get_account(call)),
        Endpoint::PatchAccount => Box::pin(super::accounts::patch_account(call)),
        Endpoint::CreateKey => Box::pin(super::accounts::create_key(call)),
        Endpoint::ListKeys => Box::pin(super::accounts::list_keys(call)),
        Endpoint::RevokeKey => Box::pin(super::accounts::revoke_key(call)),
        Endpoint::GetOwnAccount => Box::pin(super::accounts::get_own_account(call)),
        Endpoint::SyncAccount => Box::pin(super::accounts::sync_account(call)),
        Endpoint::ListAudit => Box::pin(super::accounts::list_audit(call)),
        Endpoint::CreateJob => Box::pin(super::jobs::create_job(call)),
        Endpoint::ListJobs => Box::pin(super::jobs::list_jobs(call)),
        Endpoint::JobEstimates => Box::pin(super::jobs::job_estimates(call)),
        Endpoint::GetJob => Box::pin(super::jobs::get_job(call)),
        Endpoint::ChargeJob => Box::pin(super::jobs::charge_job(call)),
        Endpoint::ExtendJob => Box::pin(super::jobs::extend_job(call)),
        Endpoint::RenewJob => Box::pin(super::jobs::renew_job(call)),
        Endpoint::SettleJob => Box::pin(super::jobs::settle_job(call)),
        Endpoint::GetBudget => Box::pin(super::jobs::get_budget(call)),
        Endpoint::CreateLink => Box::pin(super::links::create_link(call)),
        Endpoint::ListLinks => Box::pin(super::links::list_links(call)),
        Endpoint::GetLink => Box::pin(super::links::get_link(call)),
        Endpoint::PatchLink => Box::pin(super::links::patch_link(call)),
        Endpoint::LinkQrSvg => Box::pin(super::links::link_qr_svg(call)),
        Endpoint::LinkQrPng => Box::pin(super::links::link_qr_png(call)),
        Endpoint::GetUsage => Box::pin(super::usage::get_usage(call)),
        Endpoint::RecordUsage => Box::pin(super::usage::record_usage(call)),
        Endpoint::ListEntries => Box::pin(super::usage::list_entries(call)),
        Endpoint::CorrectEntry => Box::pin(super::usage::correct_entry(call)),
        Endpoint::ListMeters => Box::pin(super::meters::list_meters(call)),
        Endpoint::ListEvidence => Box::pin(super::meters::list_evidence(call)),
        Endpoint::ListReview => Box::pin(super::meters::list_review(call)),
        Endpoint::CloseReviews => Box::pin(super::meters::close_reviews(call)),
        Endpoint::CarryReviews => Box::pin(super::meters::carry_reviews(call)),
        Endpoint::CloseReview => Box::pin(super::meters::close_review(call)),
        Endpoint::CarryReview => Box::pin(super::meters::carry_review(call)),
        Endpoint::RunJob => Box::pin(super::operations::run_job(call)),
        Endpoint::ReceiveWebhook => Box::pin(super::events::receive_webhook(call)),
        Endpoint::ListEvents => Box::pin(super::events::list_events(call)),
        Endpoint::ReplayEvents => Box::pin(super::events::replay_events(call)),
        Endpoint::GetEvent => Box::pin(super::events::get_event(call)),
        Endpoint::ReplayEvent => Box::pin(super::events::replay_event(call)),
        Endpoint::SkipEvent => Box::pin(super::events::skip_event(call)),
        Endpoint::BillingReturn => Box::pin(super::accounts::billing_return(call)),
        Endpoint::StandInApi => Box::pin(super::standin::stand_in_api(call)),
        Endpoint::StandInControl => Box::pin(super::standin::stand_in_control(call)),
        Endpoint::ShortLink => Box::pin(super::redirect::short_link(call)),
    }
}
