//! The one plan sync: ticket, complete read, decision, one guarded batch.
//!
//! Nothing that was read of the account before the provider's answer is used after it: the facts
//! are loaded behind it, and the batch fails as a whole where they changed in between.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use super::grants::{self, GrantedBy};
use super::rules::{self, Outcome, Stored, Unfinished};
use super::store::{self, Known, State};
use crate::accounts::{self, AnchorSource};
use crate::cycle::{Anchor, Cycle, cycle_at};
use crate::fault::Fault;
use crate::moment::EventTime;
use crate::params;
use crate::ports::Statement;
use crate::provider::{Agreement, Agreements, ProviderFault};
use crate::settings::Settings;
use crate::units::{AccountId, AgreementId, CustomerId, Millis, PlanCode};
use crate::world::World;

/// Who asks for a sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The route or the button.
    Asked,
    /// The customer came back from checkout.
    Checkout {
        /// The plan that was bought there, where that is told.
        names: Option<PlanCode>,
    },
    /// An earlier read was unfinished.
    FollowUp,
    /// The nightly reconcile.
    Nightly,
    /// A subscription event, inside its lane.
    Event {
        /// When it happened, where that reads.
        at: Option<EventTime>,
        /// The plan that it names.
        names: Option<PlanCode>,
    },
}

/// What a sync found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synced {
    /// The plan that is now stored.
    pub plan: PlanCode,
    /// Since when.
    pub since: Option<Millis>,
    /// Whether this call found another plan than was stored.
    pub changed: bool,
    /// `provider`: a read named it; `stored`: no current agreement and nothing proven.
    pub source: &'static str,
    /// The plan before.
    pub was: PlanCode,
    /// Whether the provider will be asked again by itself.
    pub unfinished: bool,
}

/// Why a sync did not end with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncFault {
    /// There is no such account.
    NoAccount,
    /// The account has no customer at the provider: 409.
    NoCustomer,
    /// The provider could not be read: 503.
    Unreadable(ProviderFault),
    /// The world failed: 503.
    Fault(Fault),
}

impl fmt::Display for SyncFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAccount => f.write_str("there is no such account"),
            Self::NoCustomer => f.write_str("the account has no customer"),
            Self::Unreadable(fault) => write!(f, "the provider cannot be read: {fault}"),
            Self::Fault(fault) => fault.fmt(f),
        }
    }
}

impl SyncFault {
    /// Where the caller cannot tell one from another.
    pub fn fault(self) -> Fault {
        let doing = "read the customer at the provider";
        match self {
            Self::Fault(fault) => fault,
            Self::Unreadable(ProviderFault::NotConfigured(name)) => Fault::not_configured(name),
            other => Fault::unavailable(doing, other),
        }
    }
}

impl From<Fault> for SyncFault {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// A complete read, with the ticket that was taken before it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The ticket.
    pub ticket: i64,
    /// When it began.
    pub began: Millis,
    /// What the provider said.
    pub found: Agreements,
}

/// A ticket, and the answer of the read that began after it was taken.
pub struct Asked {
    /// The ticket.
    pub ticket: i64,
    /// When the read began.
    pub began: Millis,
    /// All agreements, or why there is no answer.
    pub answer: Result<Agreements, ProviderFault>,
}

/// Takes a ticket and reads the customer's agreements.
pub async fn ask(world: &World, customer: &CustomerId) -> Result<Asked, Fault> {
    let ticket = store::take_ticket(&*world.db, customer).await?;
    let began = world.now();
    let answer = world.provider.agreements(customer).await;
    Ok(Asked {
        ticket,
        began,
        answer,
    })
}

/// Reads the provider and stores what it says of the account's plan.
pub async fn sync(
    world: &Rc<World>,
    account_id: &AccountId,
    cause: Cause,
) -> Result<Synced, SyncFault> {
    let before = store::known(&*world.db, account_id).await?;
    let before = before.ok_or(SyncFault::NoAccount)?;
    let customer = before.account.customer_id.clone();
    let customer = customer.ok_or(SyncFault::NoCustomer)?;
    let asked = ask(world, &customer).await?;
    let found = match asked.answer {
        Ok(found) => found,
        Err(fault) => {
            owe_read(world, &before, &cause, asked.began).await?;
            return Err(SyncFault::Unreadable(fault));
        }
    };
    let read = Read {
        ticket: asked.ticket,
        began: asked.began,
        found,
    };
    // Each turn but the last lost to a lower ticket that has written since, and a lower ticket
    // writes once: there is an end.
    loop {
        let known = store::known(&*world.db, account_id).await?;
        let known = known.ok_or(SyncFault::NoAccount)?;
        if known.written >= read.ticket {
            return Ok(superseded(&before, &known));
        }
        let prepared = prepare(&world.settings, known, &read, &cause);
        if prepared.outcome.changed || rings(&cause) {
            super::ring(world, &prepared.known.account).await?;
        }
        match world.db.batch(prepared.statements).await {
            Ok(_) => return Ok(synced(&before, &prepared.outcome, prepared.since)),
            Err(fault) => match store::written(&*world.db, &customer).await? {
                written if written == read.ticket => {
                    return Ok(synced(&before, &prepared.outcome, prepared.since));
                }
                written if written == prepared.known.written => return Err(fault.into()),
                _ => {}
            },
        }
    }
}

/// Whether limits may have changed although plan and agreement did not.
const fn rings(cause: &Cause) -> bool {
    match cause {
        Cause::Asked | Cause::Checkout { .. } | Cause::Event { .. } => true,
        Cause::FollowUp | Cause::Nightly => false,
    }
}

/// A later read has already written: its answer is the newer one.
fn superseded(before: &Known, now: &Known) -> Synced {
    Synced {
        plan: now.stored.plan.clone(),
        since: now.stored.since,
        changed: now.stored.plan != before.stored.plan,
        source: "provider",
        was: before.stored.plan.clone(),
        unfinished: false,
    }
}

fn synced(before: &Known, outcome: &Outcome, since: Millis) -> Synced {
    Synced {
        plan: outcome.plan.clone(),
        since: Some(since),
        changed: outcome.plan != before.stored.plan,
        source: if outcome.read || outcome.proof.is_some() {
            "provider"
        } else {
            "stored"
        },
        was: before.stored.plan.clone(),
        unfinished: outcome.unfinished.is_some(),
    }
}

/// Remembers that a read is owed, where its caller does not come again by itself.
async fn owe_read(world: &World, known: &Known, cause: &Cause, began: Millis) -> Result<(), Fault> {
    let made = match cause {
        Cause::Checkout { .. } => 0,
        Cause::FollowUp => known.followups.saturating_add(1),
        Cause::Asked | Cause::Nightly | Cause::Event { .. } => return Ok(()),
    };
    let steps = &world.settings.resync_seconds;
    let wait = rules::follow_up(Some(Unfinished::Unreadable), made, steps);
    let at = wait.map(|seconds| began.after(seconds.saturating_mul(1000)));
    let account_id = &known.account.account_id;
    let mut rows = vec![store::ask_again_row(account_id, made, at)];
    if matches!(cause, Cause::Checkout { names: Some(_) }) {
        let (wanted, wanted_at) = wanted_of(known, cause, began);
        rows.push(store::wanted_row(account_id, wanted.as_ref(), wanted_at));
    }
    world.db.batch(rows).await.map(|_| ())
}

/// A decision with the statements that store it, all guarded by the ticket.
pub struct Prepared {
    /// What it was decided from.
    pub known: Known,
    /// The decision.
    pub outcome: Outcome,
    /// Since when the plan holds.
    pub since: Millis,
    /// One batch.
    pub statements: Vec<Statement>,
}

/// Decides from a complete read and what is stored now.
pub fn prepare(settings: &Settings, mut known: Known, read: &Read, cause: &Cause) -> Prepared {
    let (wanted, wanted_at) = wanted_of(&known, cause, read.began);
    known.stored.wanted = wanted;
    let list = &read.found.agreements;
    let mut outcome = rules::decide(&known.stored, list, &settings.free_plan, read.began);
    let bought_something = matches!(cause, Cause::Checkout { names: None });
    if bought_something && outcome.unfinished.is_none() && !outcome.changed {
        outcome.unfinished = Some(Unfinished::OtherPlan);
    }
    let since = since_of(&known, &outcome, read, cause);
    let mut statements = Vec::new();
    let account_id = &known.account.account_id;
    if let Some(customer) = &known.account.customer_id {
        statements.extend(store::ticket_guard(customer, known.written, read.ticket));
    }
    if outcome.changed || known.stored.since.is_none() {
        let agreement = outcome.agreement_id.as_ref().map(AgreementId::as_str);
        statements.push(store::plan_row(account_id, &outcome.plan, agreement, since));
    }
    statements.push(store::agreement_rows(account_id, list, read.began));
    let mut anchors = known.account.anchors.clone();
    if let Some((anchor, source)) = candidate(list, &read.found.subscribed_on, read.began) {
        statements.push(store::anchor_row(account_id, anchor, source));
        if !known.account.anchor_fixed && known.account.anchor_source != AnchorSource::Given {
            anchors = vec![anchor];
        }
    }
    let cycle = cycle_at(&anchors, read.began);
    let plan = &outcome.plan;
    let by = GrantedBy::Sync;
    statements.extend(grants::grant(
        settings,
        account_id,
        &cycle.name,
        plan,
        by,
        read.began,
    ));
    if known.account.anchor_fixed {
        statements.push(accounts::store::cycle_row(account_id, &cycle));
    }
    let state = state_after(settings, &known, &outcome, wanted_at, read, cause);
    statements.push(store::state_row(account_id, &state));
    Prepared {
        known,
        outcome,
        since,
        statements,
    }
}

/// The plan that is waited for: the one that the newest event, or the checkout, names.
fn wanted_of(known: &Known, cause: &Cause, began: Millis) -> (Option<PlanCode>, Option<EventTime>) {
    let stored = (known.stored.wanted.clone(), known.wanted_at);
    let (at, names) = match cause {
        Cause::Event { at, names } => (*at, names),
        Cause::Checkout { names } => (Some(read_time(began)), names),
        Cause::Asked | Cause::FollowUp | Cause::Nightly => return stored,
    };
    match names {
        Some(plan) if at.is_none() || at >= known.wanted_at => {
            (Some(plan.clone()), rules::newest(at, known.wanted_at))
        }
        Some(_) | None => stored,
    }
}

const fn read_time(began: Millis) -> EventTime {
    EventTime {
        at: began,
        nanos: 0,
    }
}

fn since_of(known: &Known, outcome: &Outcome, read: &Read, cause: &Cause) -> Millis {
    let told = match cause {
        Cause::Event { at: Some(time), .. } => time.at.min(read.began),
        Cause::Event { at: None, .. }
        | Cause::Asked
        | Cause::Checkout { .. }
        | Cause::FollowUp
        | Cause::Nightly => read.began,
    };
    match known.stored.since {
        Some(since) if !outcome.plan_changed => since,
        Some(since) => told.max(since),
        None => subscribed(&read.found.subscribed_on, &outcome.plan, read.began).unwrap_or(told),
    }
}

fn subscribed(
    subscribed_on: &BTreeMap<String, Millis>,
    plan: &PlanCode,
    now: Millis,
) -> Option<Millis> {
    let on = subscribed_on.get(plan.as_str()).copied();
    on.filter(|on| *on <= now)
}

/// The anchor that a complete read suggests.
fn candidate(
    list: &[Agreement],
    subscribed_on: &BTreeMap<String, Millis>,
    began: Millis,
) -> Option<(Anchor, AnchorSource)> {
    let current = rules::current(list, began)?;
    rules::anchor(current, subscribed_on.get(current.plan.as_str()).copied())
}

fn state_after(
    settings: &Settings,
    known: &Known,
    outcome: &Outcome,
    wanted_at: Option<EventTime>,
    read: &Read,
    cause: &Cause,
) -> State {
    let made = match cause {
        Cause::FollowUp => known.followups.saturating_add(1),
        Cause::Asked | Cause::Checkout { .. } | Cause::Nightly | Cause::Event { .. } => 0,
    };
    let wait = rules::follow_up(outcome.unfinished, made, &settings.resync_seconds);
    let told = match cause {
        Cause::Event { at: Some(at), .. } => *at,
        Cause::Event { at: None, .. }
        | Cause::Asked
        | Cause::Checkout { .. }
        | Cause::FollowUp
        | Cause::Nightly => read_time(read.began),
    };
    let waits_for_plan = outcome.unfinished == Some(Unfinished::OtherPlan) && wait.is_some();
    State {
        read_at: Some(read.began),
        known_at: rules::newest(known.known_at, Some(told)),
        wanted: known.stored.wanted.clone().filter(|_| waits_for_plan),
        wanted_at,
        empty_since: outcome.empty_since,
        dirty: false,
        followups: if wait.is_some() { made } else { 0 },
        followup_at: wait.map(|seconds| read.began.after(seconds.saturating_mul(1000))),
    }
}

/// What the provider says of a customer whose account is not made yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct First {
    /// The customer.
    pub customer: CustomerId,
    /// The plan; the free one where no agreement is current.
    pub plan: PlanCode,
    /// The current agreement.
    pub agreement_id: Option<AgreementId>,
    /// Since when.
    pub since: Millis,
    /// Where cycles begin, unless a person says.
    pub anchor: Option<(Anchor, AnchorSource)>,
    read: Read,
}

/// Reads the provider for an account that is about to be made or to get its customer.
pub async fn first(world: &World, customer: &CustomerId) -> Result<First, SyncFault> {
    let asked = ask(world, customer).await?;
    let found = asked.answer.map_err(SyncFault::Unreadable)?;
    let nothing = Stored {
        plan: world.settings.free_plan.clone(),
        agreement_id: None,
        since: None,
        ends_at: None,
        cancelled: false,
        empty_since: None,
        wanted: None,
    };
    let free = &world.settings.free_plan;
    let outcome = rules::decide(&nothing, &found.agreements, free, asked.began);
    let since = subscribed(&found.subscribed_on, &outcome.plan, asked.began);
    Ok(First {
        customer: customer.clone(),
        agreement_id: outcome.agreement_id,
        since: since.unwrap_or(asked.began),
        anchor: candidate(&found.agreements, &found.subscribed_on, asked.began),
        plan: outcome.plan,
        read: Read {
            ticket: asked.ticket,
            began: asked.began,
            found,
        },
    })
}

impl First {
    /// What goes into the batch that makes the account, behind its row and its anchor: agreements,
    /// the grant of the current cycle, the state, and waiting events of this customer made due.
    /// The account's own row carries plan, agreement and since.
    pub fn statements(
        &self,
        settings: &Settings,
        account_id: &AccountId,
        cycle: &Cycle,
    ) -> Vec<Statement> {
        let read = &self.read;
        let by = GrantedBy::Sync;
        let mut statements = grants::grant(
            settings,
            account_id,
            &cycle.name,
            &self.plan,
            by,
            read.began,
        );
        statements.push(store::agreement_rows(
            account_id,
            &read.found.agreements,
            read.began,
        ));
        // A first read is no plan change: events that waited for the account are not older than it.
        let state = State {
            read_at: Some(read.began),
            ..State::default()
        };
        statements.push(store::state_row(account_id, &state));
        statements.push(Statement::new(
            "update lane set written = max(written, cast(?2 as integer)) where lane = ?1",
            params![self.customer.as_str(), read.ticket],
        ));
        statements.push(Statement::new(
            "update event set next_at_ms = ?2 where lane = ?1 and status = 'waiting'",
            params![self.customer.as_str(), read.began],
        ));
        statements
    }
}
