//! What `/app/jobs` shows, as the account's object has it.

use super::app::Call;
use super::auth::Role;
use super::list::Page;
use super::pages::html;
use super::reply::Answer;
use crate::accounts::Account;
use crate::fault::Fault;
use crate::gate;
use crate::gate::busy;
use crate::gate::wire::{Ask, BudgetView, JobView, ListAsk, RefusalView, Told};
use crate::pages::{self, BudgetLine, BusyLine, JobLine, JobsView, RefusalLine};
use crate::units::{AccountId, Millis};

/// Running jobs on the page.
const JOBS_SHOWN: i64 = 100;

/// `GET /app/jobs`
pub async fn jobs_page(call: Call) -> Answer {
    match &call.account {
        Some(account) => one_account(&call, account).await,
        None => all_accounts(&call).await,
    }
}

async fn all_accounts(call: &Call) -> Answer {
    let page = Page::of(&call.request)?;
    let (busy, next) = busy::accounts(&call.world, page.limit, page.after.as_deref()).await?;
    let lines: Vec<BusyLine> = busy
        .iter()
        .flat_map(|one| {
            one.budgets
                .iter()
                .map(|line| busy_line(&one.account_id, line))
        })
        .collect();
    let shown = pages::busy_accounts(&call.viewer(), &lines, next.as_deref());
    Ok(html(200, shown))
}

fn busy_line(account_id: &AccountId, budget: &BudgetView) -> BusyLine {
    BusyLine {
        account: account_id.to_string(),
        feature: budget.feature.clone(),
        used: budget.used,
        held: budget.held,
        jobs: budget.running,
    }
}

async fn one_account(call: &Call, account: &Account) -> Answer {
    let world = &call.world;
    let features = (world.settings.features.iter())
        .filter(|(_, feature)| feature.kind.is_gated())
        .map(|(name, _)| name.to_string())
        .collect();
    let list = ListAsk {
        state: Some("running".to_owned()),
        feature: None,
        limit: JOBS_SHOWN,
        after: None,
    };
    let Told::Budgets(budgets) = gate::ask(world, account, Ask::Budget { features }).await? else {
        return Err(another().into());
    };
    let Told::Jobs { items, next } = gate::ask(world, account, Ask::List(list)).await? else {
        return Err(another().into());
    };
    let Told::Refusals(refusals) = gate::ask(world, account, Ask::Refusals).await? else {
        return Err(another().into());
    };
    let view = JobsView {
        account: account.account_id.to_string(),
        budgets: budgets.into_iter().map(budget_line).collect(),
        running: items.iter().map(|job| job_line(job, call.now)).collect(),
        more_run: next.is_some(),
        refusals: refusals.into_iter().map(refusal_line).collect(),
        may_settle: call.caller()?.role == Role::Operator,
    };
    Ok(html(200, pages::jobs(&call.viewer(), &view)))
}

fn another() -> Fault {
    Fault::unreadable("read the answer of an account", "it is not what was asked")
}

fn budget_line(budget: BudgetView) -> BudgetLine {
    BudgetLine {
        feature: budget.feature,
        limit: budget.limit,
        limit_state: budget.limit_state,
        used: budget.used,
        held: budget.held,
        remaining: budget.remaining,
    }
}

fn job_line(job: &JobView, now: Millis) -> JobLine {
    let holds = job.holds.iter();
    JobLine {
        id: job.id.clone(),
        key: job.key.clone(),
        holds: holds
            .map(|(feature, hold)| (feature.clone(), hold.held, hold.used))
            .collect(),
        capped: job.capped,
        since: Millis::new(job.created_at_ms),
        left_ms: Millis::new(job.lease_ends_at_ms).since(now),
    }
}

fn refusal_line(refusal: RefusalView) -> RefusalLine {
    let why = match refusal.reason {
        Some(reason) => format!("{}: {reason}", refusal.code),
        None => refusal.code,
    };
    RefusalLine {
        at: Millis::new(refusal.at_ms),
        subject: refusal.subject,
        why,
        feature: refusal.feature,
        asked: refusal.asked,
        remaining: refusal.remaining,
    }
}
