//! Making an account: with a customer, the provider is read before anything is written.

use std::rc::Rc;

use serde_json::json;

use super::keys::{self, ApiKey};
use super::rules::{self, Began, Refused};
use super::{Account, AnchorSource, audit, store};
use crate::cycle::Anchor;
use crate::fault::Fault;
use crate::inbox::lane;
use crate::plans::sync::{First, SyncFault, first};
use crate::ports::Statement;
use crate::units::{AccountId, CustomerId, Millis};
use crate::world::World;

/// What an account is made with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Its id; minted where it is left out.
    pub account_id: Option<AccountId>,
    /// For people.
    pub name: Option<String>,
    /// The account's id at the provider.
    pub customer_id: Option<CustomerId>,
    /// Where its cycles begin.
    pub starts_at: Option<Millis>,
    /// New jobs a minute.
    pub jobs_per_minute: Option<i64>,
    /// Made by the Lab or the Engine Room: left out of lists and metrics.
    pub demo: bool,
}

impl Asked {
    /// The same text for the same wish, however the body was written.
    fn normalised(&self) -> String {
        json!({
            "customer_id": self.customer_id.as_ref().map(CustomerId::as_str),
            "jobs_per_minute": self.jobs_per_minute,
            "name": self.name,
            "starts_at_ms": self.starts_at.map(Millis::get),
        })
        .to_string()
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// Made, with its first API key, which is shown this once.
    New(Account, String),
    /// It was made before with the same body.
    Known(Account),
    /// Nothing changed.
    Refused(Refused),
}

/// Makes an account, once.
pub async fn create(world: &Rc<World>, asked: &Asked, actor: &str) -> Result<Created, SyncFault> {
    let given = match asked.starts_at {
        None => None,
        Some(at) => match rules::given_anchor(at, world.settings.late_anchor) {
            Ok(anchor) => Some(anchor),
            Err(refused) => return Ok(Created::Refused(refused)),
        },
    };
    let account_id = match &asked.account_id {
        Some(id) => id.clone(),
        None => AccountId::new(world.mint("acc_")?)
            .ok_or_else(|| Fault::unavailable("mint an id", "not a path id"))?,
    };
    if let Some(answer) = standing(world, &account_id, asked).await? {
        return Ok(answer);
    }
    // Where the provider cannot be read, nothing may be made.
    let read = match &asked.customer_id {
        Some(customer) => Some(first(world, customer).await?),
        None => None,
    };
    let account = assemble(world, account_id, asked, given, read.as_ref());
    let (text, key) = keys::make(world, &account.account_id, None)?;
    let statements = statements(world, &account, asked, read.as_ref(), &key, actor)?;
    match world.db.batch(statements).await {
        Ok(_) => {
            lane::wake_new_account(world, &account);
            Ok(Created::New(account, text))
        }
        // Somebody was quicker, or the answer was lost: the database says which.
        Err(fault) => {
            let stored = keys::find_of(&*world.db, &account.account_id, &key.key_id).await?;
            if stored.is_some() {
                return Ok(Created::New(account, text));
            }
            let standing = standing(world, &account.account_id, asked).await?;
            Ok(standing.ok_or(fault)?)
        }
    }
}

/// What is there already of the id or the customer.
async fn standing(
    world: &World,
    account_id: &AccountId,
    asked: &Asked,
) -> Result<Option<Created>, Fault> {
    if let Some(before) = store::created_with(&*world.db, account_id).await? {
        if before != asked.normalised() {
            return Ok(Some(Created::Refused(Refused::AccountExists)));
        }
        let account = store::load(&*world.db, account_id).await?;
        return Ok(account.map(Created::Known));
    }
    let Some(customer) = &asked.customer_id else {
        return Ok(None);
    };
    let other = store::load_by_customer(&*world.db, customer).await?;
    Ok(other.map(|_| Created::Refused(Refused::CustomerTaken)))
}

fn assemble(
    world: &World,
    account_id: AccountId,
    asked: &Asked,
    given: Option<Anchor>,
    first: Option<&First>,
) -> Account {
    let (anchor, source) = match given {
        Some(anchor) => (anchor, AnchorSource::Given),
        None => (first.and_then(|first| first.anchor))
            .unwrap_or_else(|| rules::found_anchor(Began::default(), world.now())),
    };
    Account {
        account_id,
        name: asked.name.clone(),
        customer_id: asked.customer_id.clone(),
        ledger: "LEDGER_0".to_owned(),
        jobs_per_minute: asked.jobs_per_minute,
        plan: first.map_or_else(
            || world.settings.free_plan.clone(),
            |first| first.plan.clone(),
        ),
        plan_since: first.map(|first| first.since),
        payment: "ok".to_owned(),
        agreement_id: first.and_then(|first| first.agreement_id.clone()),
        demo: asked.demo,
        may_have_jobs: false,
        anchors: vec![anchor],
        anchor_source: source,
        anchor_fixed: false,
    }
}

fn statements(
    world: &World,
    account: &Account,
    asked: &Asked,
    first: Option<&First>,
    key: &ApiKey,
    actor: &str,
) -> Result<Vec<Statement>, Fault> {
    let now = world.now();
    let id = &account.account_id;
    let mut statements = vec![store::insert(account, &asked.normalised(), now)];
    let source = account.anchor_source;
    statements.extend(
        account
            .anchors
            .iter()
            .map(|a| store::set_anchor(id, *a, source)),
    );
    statements.push(keys::insert(key));
    let audit_id = world.mint("aud_")?;
    let created = "key.create";
    statements.push(audit::row(
        now,
        &audit_id,
        actor,
        created,
        &key.key_id,
        Some(id),
        None,
    ));
    if let Some(first) = first {
        let cycle = account.cycle_at(now);
        statements.extend(first.statements(&world.settings, id, &cycle));
    }
    Ok(statements)
}
