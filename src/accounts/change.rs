//! Changing an account: its name, rate and start; its customer, once.

use std::rc::Rc;

use super::rules::{self, Began, Refused};
use super::{Account, AnchorSource, audit, store};
use crate::cycle::{Anchor, cycle_at};
use crate::fault::Fault;
use crate::inbox::lane;
use crate::params;
use crate::plans::grants::{GrantedBy, grant};
use crate::plans::sync::{First, SyncFault, first};
use crate::ports::{Rows, Statement};
use crate::units::{AccountId, AgreementId, CustomerId, Millis};
use crate::world::World;

/// What is to change; `Some(None)` puts back what holds without it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// For people.
    pub name: Option<Option<String>>,
    /// New jobs a minute.
    pub jobs_per_minute: Option<Option<i64>>,
    /// The account's id at the provider, while it has none.
    pub customer_id: Option<CustomerId>,
    /// Where its cycles begin, while nothing was counted.
    pub starts_at: Option<Millis>,
}

/// Changes an account, all of it or nothing, and gives it as it then is.
pub async fn change(
    world: &Rc<World>,
    account: &Account,
    change: &Change,
    actor: &str,
) -> Result<Result<Account, Refused>, SyncFault> {
    let given = match wanted(world, account, change).await? {
        Ok(given) => given,
        Err(refused) => return Ok(Err(refused)),
    };
    let new_customer = change.customer_id.as_ref();
    let new_customer = new_customer.filter(|_| account.customer_id.is_none());
    let read = match new_customer {
        Some(customer) => Some(first(world, customer).await?),
        None => None,
    };
    let id = &account.account_id;
    let mut statements = fields(id, change);
    if let Some((customer, first)) = new_customer.zip(read.as_ref()) {
        statements.extend(customer_statements(world, account, customer, first, given));
    }
    if let Some(anchor) = given {
        let audit_id = world.mint("aud_")?;
        let (action, now) = ("anchor.set", world.now());
        statements.push(store::move_anchor(id, anchor));
        statements.push(store::drop_cycles(id));
        if read.is_none() && account.plan_since.is_some() {
            // The plan is known, so the cycle that now runs has its allowance at once.
            let (cycle, by) = (cycle_at(&[anchor], now).name, GrantedBy::Sync);
            let settings = &world.settings;
            statements.extend(grant(settings, id, &cycle, &account.plan, by, now));
        }
        let text = crate::moment::format(anchor.at);
        statements.push(audit::row(
            now,
            &audit_id,
            actor,
            action,
            id.as_str(),
            Some(id),
            Some(&text),
        ));
    }
    let outcome = world.db.batch(statements).await;
    world.isolate.accounts.forget_account(id);
    Ok(settled(world, id, new_customer, given.is_some(), outcome).await?)
}

/// Whether everything may be done, and the anchor that was given.
async fn wanted(
    world: &World,
    account: &Account,
    change: &Change,
) -> Result<Result<Option<Anchor>, Refused>, Fault> {
    let mut given = None;
    if let Some(at) = change.starts_at {
        match rules::given_anchor(at, world.settings.late_anchor) {
            Ok(anchor) => given = Some(anchor),
            Err(refused) => return Ok(Err(refused)),
        }
        if account.anchor_fixed {
            return Ok(Err(Refused::AnchorFixed));
        }
    }
    if let Some(customer) = &change.customer_id {
        if account
            .customer_id
            .as_ref()
            .is_some_and(|own| own != customer)
        {
            return Ok(Err(Refused::CustomerFixed));
        }
        if is_taken(world, customer, &account.account_id).await? {
            return Ok(Err(Refused::CustomerTaken));
        }
    }
    Ok(Ok(given))
}

async fn is_taken(
    world: &World,
    customer: &CustomerId,
    by_other_than: &AccountId,
) -> Result<bool, Fault> {
    let other = store::load_by_customer(&*world.db, customer).await?;
    Ok(other.is_some_and(|other| other.account_id != *by_other_than))
}

fn fields(id: &AccountId, change: &Change) -> Vec<Statement> {
    let mut statements = Vec::new();
    if let Some(name) = &change.name {
        statements.push(Statement::new(
            "update account set name = ?2 where account_id = ?1",
            params![id.as_str(), name.as_deref()],
        ));
    }
    if let Some(rate) = change.jobs_per_minute {
        statements.push(Statement::new(
            "update account set jobs_per_minute = ?2 where account_id = ?1",
            params![id.as_str(), rate],
        ));
    }
    statements
}

/// The customer with its plan, and the anchor that comes with it where none was given.
fn customer_statements(
    world: &World,
    account: &Account,
    customer: &CustomerId,
    first: &First,
    given: Option<Anchor>,
) -> Vec<Statement> {
    let (id, now) = (&account.account_id, world.now());
    let mut statements = vec![Statement::new(
        "update account set customer_id = ?2, plan = ?3, plan_since_ms = ?4, agreement_id = ?5 \
         where account_id = ?1 and customer_id is null",
        params![
            id.as_str(),
            customer.as_str(),
            first.plan.as_str(),
            first.since,
            first.agreement_id.as_ref().map(AgreementId::as_str)
        ],
    )];
    let own_start = account.anchor_source == AnchorSource::Given;
    let mut anchors = given.map_or_else(|| account.anchors.clone(), |anchor| vec![anchor]);
    if given.is_none() && !own_start && !account.anchor_fixed {
        let found = first.anchor;
        let (anchor, source) = found.unwrap_or_else(|| rules::found_anchor(Began::default(), now));
        anchors = vec![anchor];
        statements.push(store::set_anchor(id, anchor, source));
        statements.push(store::drop_cycles(id));
    }
    let cycle = cycle_at(&anchors, now);
    statements.extend(first.statements(&world.settings, id, &cycle));
    statements
}

/// The account as it now stands; what somebody else did meanwhile is a refusal.
async fn settled(
    world: &Rc<World>,
    id: &AccountId,
    new_customer: Option<&CustomerId>,
    moved: bool,
    outcome: Result<Vec<Rows>, Fault>,
) -> Result<Result<Account, Refused>, Fault> {
    let account = store::load(&*world.db, id).await?;
    let account = account.ok_or_else(|| Fault::unreadable("read the account", "it is gone"))?;
    if let Err(fault) = outcome {
        if moved && account.anchor_fixed {
            return Ok(Err(Refused::AnchorFixed));
        }
        return match new_customer {
            Some(customer) if is_taken(world, customer, id).await? => {
                Ok(Err(Refused::CustomerTaken))
            }
            _ => Err(fault),
        };
    }
    if new_customer.is_some() && account.customer_id.as_ref() != new_customer {
        return Ok(Err(Refused::CustomerFixed));
    }
    if new_customer.is_some() {
        lane::wake_new_account(world, &account);
    }
    Ok(Ok(account))
}
