//! What a claimed event does: the facts are loaded, the rules decide, and effects and mark are one
//! batch under the lane's token.
//!
//! A subscription event only says *that* something changed: the provider is read, by a read that
//! began after the claim and took a ticket, and the read decides. Where it cannot be read, a newer
//! payload is taken, the account stays dirty until a read succeeded, and everything else waits
//! without using up a try.

use std::rc::Rc;

use serde_json::json;

use super::alerts;
use super::lane::{Claimed, Committed, End, commit, spread};
use super::rules::{self, Kind, Payment, Standing, Unread, Verdict};
use crate::fault::Fault;
use crate::ledger::review::{Review, ReviewKind};
use crate::moment::format;
use crate::params;
use crate::plans;
use crate::plans::grants::{self, GrantedBy};
use crate::plans::rules::{Unfinished, follow_up, newest, payment_grants};
use crate::plans::store::{self as plan_store, Known, State};
use crate::plans::sync::{self, Cause, Read, prepare};
use crate::ports::Statement;
use crate::provider::ProviderFault;
use crate::units::{AgreementId, CustomerId, Millis, PlanCode};
use crate::world::World;

/// How often an apply begins anew because the account changed under it.
const TRIES_MAX: u32 = 5;

/// Whether a subscription event asks the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doorbell {
    /// It does; so runs everything but the Engine Room's demonstration.
    Rings,
    /// Payload and event time alone decide.
    Silent,
}

/// Applies a claimed event and gives when the lane's next one is due; an error means that nothing
/// happened and the lane is still held.
pub async fn apply(
    world: &Rc<World>,
    claimed: &Claimed,
    doorbell: Doorbell,
) -> Result<Option<Millis>, Fault> {
    // One that a release before this one stored, or that is replayed.
    if let Some(verdict) = rules::judge_type(&claimed.type_name) {
        return end_with(world, claimed, Vec::new(), verdict).await;
    }
    let kind = claimed.told.kind;
    if kind == Kind::Deleted {
        open_review(world, claimed).await?;
        let verdict = Verdict::Applied("in review".to_owned());
        return end_with(world, claimed, Vec::new(), verdict).await;
    }
    let Some(customer) = &claimed.customer_id else {
        return no_customer(world, claimed).await;
    };
    for _ in 0..TRIES_MAX {
        let Some(known) = plan_store::known_of_customer(&*world.db, customer).await? else {
            return wait_for_account(world, claimed).await;
        };
        let tried = match (
            rules::asks_provider(&claimed.told, &standing(&known)),
            doorbell,
        ) {
            (true, Doorbell::Rings) => asking(world, claimed, customer).await?,
            (true, Doorbell::Silent) if kind != Kind::Unpaid => {
                alone(world, claimed, customer, &known).await?
            }
            (true, Doorbell::Silent) | (false, _) => payment(world, claimed, &known).await?,
        };
        match tried {
            Tried::Over(next_at) => return Ok(next_at),
            Tried::Changed => {}
        }
    }
    Err(Fault::unavailable(
        "apply an event",
        "the account kept changing",
    ))
}

/// One try to apply.
enum Tried {
    /// It is applied, put off, or the lease was lost: nothing is left to do here. With when the
    /// lane's next event is due.
    Over(Option<Millis>),
    /// The account changed in between; begin anew.
    Changed,
}

fn standing(known: &Known) -> Standing {
    Standing {
        plan: known.stored.plan.clone(),
        agreement_id: known.stored.agreement_id.clone(),
        known_at: known.known_at,
        read_at: known.read_at,
        payment_at: known.payment_at,
        is_overdue: known.account.payment == "overdue",
    }
}

fn ended(claimed: &Claimed, verdict: Verdict) -> End {
    let (status, result) = verdict.told();
    End {
        status,
        result,
        next_at: None,
        attempts: claimed.attempts,
        outages: claimed.outages,
    }
}

/// Writes the end, unless two thirds of the lease are over, and gives when the lane's next event is
/// due.
async fn finish(
    world: &World,
    claimed: &Claimed,
    effects: Vec<Statement>,
    end: &End,
) -> Result<Option<Millis>, Fault> {
    if world.now() > claimed.give_up_at {
        return Err(Fault::unavailable("apply an event", "it took too long"));
    }
    let committed = commit(world, claimed, effects, end).await?;
    if committed == Committed::Lost {
        let fields = json!({"event": claimed.id, "lane": claimed.lane});
        world.log.line("warn", "inbox.lease_lost", fields);
    }
    Ok(committed.next_at(world.now()))
}

async fn end_with(
    world: &World,
    claimed: &Claimed,
    effects: Vec<Statement>,
    verdict: Verdict,
) -> Result<Option<Millis>, Fault> {
    finish(world, claimed, effects, &ended(claimed, verdict)).await
}

/// The same for a batch that a change of the account may also have failed.
async fn finish_guarded(
    world: &World,
    claimed: &Claimed,
    customer: &CustomerId,
    seen_written: i64,
    effects: Vec<Statement>,
    end: &End,
) -> Result<Tried, Fault> {
    match finish(world, claimed, effects, end).await {
        Err(fault) => match plan_store::written(&*world.db, customer).await? {
            written if written == seen_written => Err(fault),
            _ => Ok(Tried::Changed),
        },
        Ok(next_at) => Ok(Tried::Over(next_at)),
    }
}

/// A subscription event behind a read of the provider.
async fn asking(
    world: &Rc<World>,
    claimed: &Claimed,
    customer: &CustomerId,
) -> Result<Tried, Fault> {
    let asked = sync::ask(world, customer).await?;
    // What was read before the provider's answer is not used behind it.
    let known = plan_store::known_of_customer(&*world.db, customer).await?;
    let gone = || Fault::unavailable("apply an event", "the account is gone");
    let known = known.ok_or_else(gone)?;
    if known.written >= asked.ticket {
        return Ok(Tried::Changed);
    }
    match asked.answer {
        Ok(found) => {
            let read = Read {
                ticket: asked.ticket,
                began: asked.began,
                found,
            };
            told_by_read(world, claimed, customer, known, &read).await
        }
        Err(
            fault @ ProviderFault::Refused {
                status: 400 | 404, ..
            },
        ) => Err(Fault::unavailable("read the customer's agreements", fault)),
        Err(fault) => {
            let ticket = Ticket {
                number: asked.ticket,
                began: asked.began,
            };
            unread(world, claimed, customer, &known, &ticket, &fault).await
        }
    }
}

/// The ticket of a read that gave no answer.
struct Ticket {
    number: i64,
    began: Millis,
}

async fn told_by_read(
    world: &Rc<World>,
    claimed: &Claimed,
    customer: &CustomerId,
    known: Known,
    read: &Read,
) -> Result<Tried, Fault> {
    let told = &claimed.told;
    let before = standing(&known);
    let seen_written = known.written;
    let is_subscription = matches!(told.kind, Kind::Changed | Kind::Ended);
    let cause = if is_subscription {
        Cause::Event {
            at: told.at,
            names: told.plan.clone(),
        }
    } else {
        Cause::Asked
    };
    let prepared = prepare(&world.settings, known, read, &cause);
    let mut effects = prepared.statements;
    let end = if is_subscription {
        ended(claimed, rules::judge_read(told, &before, &prepared.outcome))
    } else {
        let after = Standing {
            agreement_id: prepared.outcome.agreement_id.clone(),
            plan: prepared.outcome.plan.clone(),
            ..before
        };
        let (rows, verdict) = payment_effects(world, claimed, &prepared.known, &after);
        effects.extend(rows);
        ended(claimed, verdict)
    };
    if prepared.outcome.changed || is_subscription {
        plans::ring(world, &prepared.known.account).await?;
    }
    effects.extend(recovery(claimed, world.now()));
    finish_guarded(world, claimed, customer, seen_written, effects, &end).await
}

/// The provider answers again: whatever waited for it is due.
fn recovery(claimed: &Claimed, now: Millis) -> Option<Statement> {
    (claimed.outages > 0).then(|| {
        Statement::new(
            "update event set next_at_ms = ?1 where next_at_ms > ?1 and status = 'failed' \
             and outages > 0",
            params![now],
        )
    })
}

/// A subscription event while the provider cannot be read.
async fn unread(
    world: &Rc<World>,
    claimed: &Claimed,
    customer: &CustomerId,
    known: &Known,
    ticket: &Ticket,
    fault: &ProviderFault,
) -> Result<Tried, Fault> {
    let before = standing(known);
    let judged = match claimed.told.kind {
        Kind::Unpaid => Unread::Wait,
        _ => rules::judge_unread(&claimed.told, &before),
    };
    match judged {
        Unread::Wait => {
            let steps = &world.settings.retry_seconds;
            let wait_ms = rules::outage_wait(claimed.outages, steps, spread(world)?);
            let told_ms = match fault {
                ProviderFault::RateLimited { wait_ms } => *wait_ms,
                _ => 0,
            };
            let end = End {
                status: "failed",
                result: format!("the provider cannot be read: {fault}"),
                next_at: Some(world.now().after(wait_ms.max(told_ms))),
                attempts: claimed.attempts.saturating_sub(1),
                outages: claimed.outages.saturating_add(1),
            };
            let next_at = finish(world, claimed, Vec::new(), &end).await?;
            Ok(Tried::Over(next_at))
        }
        Unread::Take { plan, agreement_id } => {
            let taken = Taken {
                plan,
                agreement_id,
                is_dirty: true,
            };
            let effects = taken_effects(world, claimed, known, ticket, &taken, customer);
            let result = format!(
                "plan {}, by its own word: the provider cannot be read",
                taken.plan
            );
            plans::ring(world, &known.account).await?;
            let end = ended(claimed, Verdict::Applied(result));
            finish_guarded(world, claimed, customer, known.written, effects, &end).await
        }
        Unread::End(verdict) => {
            let steps = &world.settings.resync_seconds;
            let wait = follow_up(Some(Unfinished::Unreadable), 0, steps);
            let at = wait.map(|seconds| ticket.began.after(seconds.saturating_mul(1000)));
            let again = plan_store::ask_again_row(&known.account.account_id, 0, at);
            let next_at = finish(world, claimed, vec![again], &ended(claimed, verdict)).await?;
            Ok(Tried::Over(next_at))
        }
    }
}

/// A subscription event by payload and time alone.
async fn alone(
    world: &Rc<World>,
    claimed: &Claimed,
    customer: &CustomerId,
    known: &Known,
) -> Result<Tried, Fault> {
    let free = &world.settings.free_plan;
    match rules::judge_alone(&claimed.told, &standing(known), free) {
        Unread::Take { plan, agreement_id } => {
            let number = plan_store::take_ticket(&*world.db, customer).await?;
            let ticket = Ticket {
                number,
                began: world.now(),
            };
            let taken = Taken {
                plan,
                agreement_id,
                is_dirty: false,
            };
            let effects = taken_effects(world, claimed, known, &ticket, &taken, customer);
            let end = ended(claimed, Verdict::Applied(format!("plan {}", taken.plan)));
            finish_guarded(world, claimed, customer, known.written, effects, &end).await
        }
        Unread::End(verdict) => {
            let next_at = end_with(world, claimed, Vec::new(), verdict).await?;
            Ok(Tried::Over(next_at))
        }
        Unread::Wait => Err(Fault::unavailable(
            "apply an event",
            "its order is not known",
        )),
    }
}

/// A plan taken from a payload.
struct Taken {
    plan: PlanCode,
    agreement_id: Option<AgreementId>,
    is_dirty: bool,
}

fn taken_effects(
    world: &World,
    claimed: &Claimed,
    known: &Known,
    ticket: &Ticket,
    taken: &Taken,
    customer: &CustomerId,
) -> Vec<Statement> {
    let account = &known.account;
    let account_id = &account.account_id;
    let told_at = claimed.told.at.map_or(ticket.began, |time| time.at);
    let since = match known.stored.since {
        Some(since) if known.stored.plan == taken.plan => since,
        Some(since) => told_at.max(since),
        None => told_at,
    };
    let kept = taken.agreement_id.as_ref().or_else(|| {
        let same_plan = known.stored.plan == taken.plan;
        known.stored.agreement_id.as_ref().filter(|_| same_plan)
    });
    let agreement = kept.map(AgreementId::as_str);
    let mut effects = plan_store::ticket_guard(customer, known.written, ticket.number);
    effects.push(plan_store::plan_row(
        account_id,
        &taken.plan,
        agreement,
        since,
    ));
    let cycle = account.cycle_at(world.now());
    effects.extend(grants::grant(
        &world.settings,
        account_id,
        &cycle.name,
        &taken.plan,
        GrantedBy::Event,
        ticket.began,
    ));
    let steps = &world.settings.resync_seconds;
    let unfinished = taken.is_dirty.then_some(Unfinished::Unreadable);
    let wait = follow_up(unfinished, 0, steps);
    let state = State {
        read_at: known.read_at,
        known_at: newest(known.known_at, claimed.told.at),
        wanted: taken.is_dirty.then(|| taken.plan.clone()),
        wanted_at: newest(known.wanted_at, claimed.told.at),
        empty_since: known.stored.empty_since,
        dirty: taken.is_dirty,
        followups: 0,
        followup_at: wait.map(|seconds| ticket.began.after(seconds.saturating_mul(1000))),
    };
    effects.push(plan_store::state_row(account_id, &state));
    effects
}

/// A payment event.
async fn payment(world: &Rc<World>, claimed: &Claimed, known: &Known) -> Result<Tried, Fault> {
    let (effects, verdict) = payment_effects(world, claimed, known, &standing(known));
    let next_at = end_with(world, claimed, effects, verdict).await?;
    Ok(Tried::Over(next_at))
}

/// The payment state, and for money that came the grant of the cycle in which the event itself
/// happened.
fn payment_effects(
    world: &World,
    claimed: &Claimed,
    known: &Known,
    standing: &Standing,
) -> (Vec<Statement>, Verdict) {
    let told = &claimed.told;
    let account_id = &known.account.account_id;
    let mut effects = Vec::new();
    let judged = rules::judge_payment(told, standing);
    if let Ok(payment) = &judged {
        let state = match payment {
            Payment::Ok => "ok",
            Payment::Overdue => "overdue",
        };
        effects.extend(plan_store::payment_rows(account_id, state, told.at));
    }
    if told.kind != Kind::Paid {
        let verdict = match judged {
            Ok(_) => Verdict::Applied("payment overdue".to_owned()),
            Err(reason) => Verdict::Ignored(reason),
        };
        return (effects, verdict);
    }
    let cycle = known
        .account
        .cycle_at(told.at.map_or(claimed.received_at, |time| time.at));
    if !payment_grants(known.stored.since, cycle.ends_at) {
        let result = format!(
            "paid; cycle {} was over before plan {}",
            cycle.name, standing.plan
        );
        return (effects, Verdict::Applied(result));
    }
    effects.extend(grants::grant(
        &world.settings,
        account_id,
        &cycle.name,
        &standing.plan,
        GrantedBy::Payment,
        world.now(),
    ));
    let result = format!("paid; plan {} granted for {}", standing.plan, cycle.name);
    (effects, Verdict::Applied(result))
}

/// A person looks at what becomes of the account; the same event opens one item.
async fn open_review(world: &World, claimed: &Claimed) -> Result<(), Fault> {
    let numbers = json!({"event": claimed.id, "type": claimed.type_name});
    let review = Review::new(
        ReviewKind::CustomerDeleted,
        &[claimed.id.as_str()],
        numbers,
        claimed.received_at,
    );
    world.ledger.batch(vec![review.open()]).await.map(|_| ())
}

/// A billing event that names no customer: nobody can be found for it. Alerted once per type.
async fn no_customer(world: &World, claimed: &Claimed) -> Result<Option<Millis>, Fault> {
    let detail = json!({"event": claimed.id, "type": claimed.type_name});
    let alert = alerts::raise("no_customer", &claimed.type_name, &detail, world.now());
    let verdict = Verdict::Ignored("it names no customer".to_owned());
    end_with(world, claimed, vec![alert], verdict).await
}

/// The customer has no account yet: the event waits, without using up a try.
async fn wait_for_account(world: &World, claimed: &Claimed) -> Result<Option<Millis>, Fault> {
    let now = world.now();
    let last = claimed.received_at.after(rules::WAIT_MS_MAX);
    let end = if now >= last {
        let reason = format!("no account had this customer until {}", format(last));
        ended(claimed, Verdict::Ignored(reason))
    } else {
        End {
            status: "waiting",
            result: "no account has this customer yet".to_owned(),
            next_at: Some(now.after(rules::WAIT_STEP_MS).min(last)),
            attempts: claimed.attempts.saturating_sub(1),
            outages: claimed.outages,
        }
    };
    finish(world, claimed, Vec::new(), &end).await
}
