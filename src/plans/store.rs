//! What plan sync reads and writes in DB: tickets in the customer's lane, `plan_state`, and the
//! account's plan, agreements and unfixed anchor.

use serde_json::json;

use super::rules::Stored;
use crate::accounts::{self, Account, AnchorSource};
use crate::cycle::Anchor;
use crate::fault::Fault;
use crate::moment::EventTime;
use crate::params;
use crate::ports::{Db, Row, Statement};
use crate::provider::Agreement;
use crate::units::{AccountId, CustomerId, Millis, PlanCode};

/// Takes the next ticket of the customer's lane.
pub async fn take_ticket(db: &dyn Db, customer: &CustomerId) -> Result<i64, Fault> {
    let rows = db
        .query(Statement::new(
            "insert into lane (lane, ticket) values (?1, 1) \
             on conflict (lane) do update set ticket = ticket + 1 returning ticket",
            params![customer.as_str()],
        ))
        .await?;
    match rows.first() {
        Some(row) => row.int("ticket"),
        None => Err(Fault::unavailable("take a ticket", "no row came back")),
    }
}

/// The highest ticket whose result is stored.
pub async fn written(db: &dyn Db, customer: &CustomerId) -> Result<i64, Fault> {
    let rows = db
        .query(Statement::new(
            "select written from lane where lane = ?1",
            params![customer.as_str()],
        ))
        .await?;
    rows.first().map_or(Ok(0), |row| row.int("written"))
}

/// Fails the whole batch unless what was read of the account is still so and no higher ticket has
/// written: the row it would insert breaks `not null` and the primary key.
pub fn ticket_guard(customer: &CustomerId, seen_written: i64, ticket: i64) -> Vec<Statement> {
    let guard = Statement::new(
        "insert into lane (lane, ticket) select ?1, null where not exists \
         (select 1 from lane where lane = ?1 and written = ?2 and written < ?3)",
        params![customer.as_str(), seen_written, ticket],
    );
    let write = Statement::new(
        "update lane set written = ?2 where lane = ?1",
        params![customer.as_str(), ticket],
    );
    vec![guard, write]
}

/// All that is stored of an account's plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The account.
    pub account: Account,
    /// What the rules look at.
    pub stored: Stored,
    /// The highest ticket whose result was stored when this was read.
    pub written: i64,
    /// The newest plan change that is stored.
    pub known_at: Option<EventTime>,
    /// When the last complete read began.
    pub read_at: Option<Millis>,
    /// When the newest event that named a plan happened.
    pub wanted_at: Option<EventTime>,
    /// Follow-ups already made.
    pub followups: i64,
    /// A payload was applied unread.
    pub dirty: bool,
    /// The newest payment event that was applied.
    pub payment_at: Option<EventTime>,
}

const STATE: &str = "select s.read_at_ms as read_at_ms, s.known_ms as known_ms, \
    s.known_nanos as known_nanos, s.wanted_plan as wanted_plan, s.wanted_ms as wanted_ms, \
    s.wanted_nanos as wanted_nanos, s.empty_since_ms as empty_since_ms, s.dirty as dirty, \
    s.followups as followups, s.payment_ms as payment_ms, s.payment_nanos as payment_nanos, \
    coalesce(l.written, 0) as written, g.expires_at_ms as ends_at_ms, \
    exists (select 1 from event e where e.customer_id = a.customer_id \
      and e.type = 'customer.agreement_cancelled' \
      and e.agreement_id = a.agreement_id) as cancelled \
    from account a left join plan_state s on s.account_id = a.account_id \
    left join lane l on l.lane = a.customer_id \
    left join agreement g on g.account_id = a.account_id and g.agreement_id = a.agreement_id";

/// What is stored of the account of that id.
pub async fn known(db: &dyn Db, account_id: &AccountId) -> Result<Option<Known>, Fault> {
    let sql = format!("{STATE} where a.account_id = ?1");
    let state = Statement::new(sql, params![account_id.as_str()]);
    read(db, state, accounts::store::of_id(account_id)).await
}

/// What is stored of the account of that customer.
pub async fn known_of_customer(
    db: &dyn Db,
    customer_id: &CustomerId,
) -> Result<Option<Known>, Fault> {
    let sql = format!("{STATE} where a.customer_id = ?1");
    let state = Statement::new(sql, params![customer_id.as_str()]);
    read(db, state, accounts::store::of_customer(customer_id)).await
}

/// Both as they stand at one moment, so that any later change is noticed by the guard.
async fn read(db: &dyn Db, state: Statement, account: Statement) -> Result<Option<Known>, Fault> {
    let results = db.batch(vec![state, account]).await?;
    let [state, account] = results.as_slice() else {
        return Err(Fault::unavailable("read an account's plan", "no answer"));
    };
    let (Some(row), Some(account)) = (state.first(), accounts::store::of_rows(account)?) else {
        return Ok(None);
    };
    let wanted = row.opt_text("wanted_plan")?.map(str::to_owned);
    Ok(Some(Known {
        stored: Stored {
            plan: account.plan.clone(),
            agreement_id: account.agreement_id.clone(),
            since: account.plan_since,
            ends_at: row.opt_millis("ends_at_ms")?,
            cancelled: row.int("cancelled")? != 0,
            empty_since: row.opt_millis("empty_since_ms")?,
            wanted: wanted.and_then(PlanCode::new),
        },
        account,
        written: row.int("written")?,
        known_at: event_time(row, "known")?,
        read_at: row.opt_millis("read_at_ms")?,
        wanted_at: event_time(row, "wanted")?,
        followups: row.opt_int("followups")?.unwrap_or(0),
        dirty: row.opt_int("dirty")?.unwrap_or(0) != 0,
        payment_at: event_time(row, "payment")?,
    }))
}

/// The moment in the columns `{name}_ms` and `{name}_nanos`.
fn event_time(row: &Row, name: &str) -> Result<Option<EventTime>, Fault> {
    let nanos = row.opt_int(&format!("{name}_nanos"))?.unwrap_or(0);
    Ok(row.opt_millis(&format!("{name}_ms"))?.map(|at| EventTime {
        at,
        nanos: u32::try_from(nanos).unwrap_or(0),
    }))
}

/// The account's plan and agreement, as they now are.
pub fn plan_row(
    account_id: &AccountId,
    plan: &PlanCode,
    agreement_id: Option<&str>,
    since: Millis,
) -> Statement {
    Statement::new(
        "update account set plan = ?2, agreement_id = ?3, plan_since_ms = ?4 where account_id = ?1",
        params![account_id.as_str(), plan.as_str(), agreement_id, since],
    )
}

/// What a complete read said of every agreement.
pub fn agreement_rows(account_id: &AccountId, list: &[Agreement], read_at: Millis) -> Statement {
    let rows: Vec<_> = list
        .iter()
        .map(|one| {
            json!([
                one.agreement_id.as_str(),
                one.plan.as_str(),
                json!(one.feature_keys).to_string(),
                one.period_start.map(Millis::get),
                one.period_end.map(Millis::get),
                one.expires_at.map(Millis::get),
            ])
        })
        .collect();
    Statement::new(
        "insert into agreement (account_id, agreement_id, plan, feature_keys, period_start_ms, \
         period_end_ms, expires_at_ms, read_at_ms, first_seen_ms) \
         select ?1, json_extract(value, '$[0]'), json_extract(value, '$[1]'), \
         json_extract(value, '$[2]'), json_extract(value, '$[3]'), json_extract(value, '$[4]'), \
         json_extract(value, '$[5]'), ?3, ?3 from json_each(?2) where true \
         on conflict (account_id, agreement_id) do update set plan = excluded.plan, \
         feature_keys = excluded.feature_keys, period_start_ms = excluded.period_start_ms, \
         period_end_ms = excluded.period_end_ms, expires_at_ms = excluded.expires_at_ms, \
         read_at_ms = excluded.read_at_ms",
        params![account_id.as_str(), json!(rows).to_string(), read_at],
    )
}

/// A better candidate for the account's first anchor; nothing once it is fixed or given by hand.
pub fn anchor_row(account_id: &AccountId, anchor: Anchor, source: AnchorSource) -> Statement {
    Statement::new(
        "update anchor set at_ms = ?2, day = ?3, source = ?4 where account_id = ?1 \
         and number = 1 and fixed_at_ms is null and source <> ?5",
        params![
            account_id.as_str(),
            anchor.at,
            i64::from(anchor.day),
            source.name(),
            AnchorSource::Given.name()
        ],
    )
}

/// What a write leaves in `plan_state`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// When the last complete read began.
    pub read_at: Option<Millis>,
    /// The newest plan change that is stored.
    pub known_at: Option<EventTime>,
    /// See [`Stored::wanted`].
    pub wanted: Option<PlanCode>,
    /// When the newest event that named a plan happened.
    pub wanted_at: Option<EventTime>,
    /// See [`Stored::empty_since`].
    pub empty_since: Option<Millis>,
    /// A read is owed.
    pub dirty: bool,
    /// Follow-ups already made.
    pub followups: i64,
    /// When the next one is due.
    pub followup_at: Option<Millis>,
}

/// Stores the state; the payment's columns are another writer's.
pub fn state_row(account_id: &AccountId, state: &State) -> Statement {
    let ms = |time: Option<EventTime>| time.map(|time| time.at);
    let nanos = |time: Option<EventTime>| time.map_or(0, |time| time.nanos);
    Statement::new(
        "insert into plan_state (account_id, read_at_ms, known_ms, known_nanos, wanted_plan, \
         wanted_ms, wanted_nanos, empty_since_ms, dirty, followups, followup_at_ms) \
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
         on conflict (account_id) do update set read_at_ms = excluded.read_at_ms, \
         known_ms = excluded.known_ms, known_nanos = excluded.known_nanos, \
         wanted_plan = excluded.wanted_plan, wanted_ms = excluded.wanted_ms, \
         wanted_nanos = excluded.wanted_nanos, empty_since_ms = excluded.empty_since_ms, \
         dirty = excluded.dirty, followups = excluded.followups, \
         followup_at_ms = excluded.followup_at_ms",
        params![
            account_id.as_str(),
            state.read_at,
            ms(state.known_at),
            nanos(state.known_at),
            state.wanted.as_ref().map(PlanCode::as_str),
            ms(state.wanted_at),
            nanos(state.wanted_at),
            state.empty_since,
            state.dirty,
            state.followups,
            state.followup_at
        ],
    )
}

/// The provider could not be read: it is asked again at that moment.
pub fn ask_again_row(account_id: &AccountId, followups: i64, at: Option<Millis>) -> Statement {
    Statement::new(
        "insert into plan_state (account_id, followups, followup_at_ms) values (?1, ?2, ?3) \
         on conflict (account_id) do update set followups = excluded.followups, \
         followup_at_ms = excluded.followup_at_ms",
        params![account_id.as_str(), followups, at],
    )
}

/// The plan that is waited for, while the provider could not be read.
pub fn wanted_row(
    account_id: &AccountId,
    wanted: Option<&PlanCode>,
    wanted_at: Option<EventTime>,
) -> Statement {
    Statement::new(
        "update plan_state set wanted_plan = ?2, wanted_ms = ?3, wanted_nanos = ?4 \
         where account_id = ?1",
        params![
            account_id.as_str(),
            wanted.map(PlanCode::as_str),
            wanted_at.map(|time| time.at),
            wanted_at.map_or(0, |time| time.nanos)
        ],
    )
}

/// The payment state of an account, and the event that set it.
pub fn payment_rows(
    account_id: &AccountId,
    payment: &str,
    at: Option<EventTime>,
) -> Vec<Statement> {
    let account = Statement::new(
        "update account set payment = ?2 where account_id = ?1",
        params![account_id.as_str(), payment],
    );
    let Some(at) = at else { return vec![account] };
    let state = Statement::new(
        "insert into plan_state (account_id, payment_ms, payment_nanos) values (?1, ?2, ?3) \
         on conflict (account_id) do update set payment_ms = excluded.payment_ms, \
         payment_nanos = excluded.payment_nanos",
        params![account_id.as_str(), at.at, at.nanos],
    );
    vec![account, state]
}

/// A read of the provider that was promised: whose plan, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowUp {
    /// Due from this time on.
    pub at: Millis,
    /// Whose plan.
    pub account_id: AccountId,
}

/// Follow-ups that are due, oldest first, those behind `after`: one that fails stays due and must
/// not be met again in the same run.
pub async fn followups_due(
    db: &dyn Db,
    now: Millis,
    after: Option<&FollowUp>,
    limit: i64,
) -> Result<Vec<FollowUp>, Fault> {
    let (at, id) = after.map_or((Millis::new(0), ""), |one| {
        (one.at, one.account_id.as_str())
    });
    let rows = db
        .query(Statement::new(
            "select account_id, followup_at_ms from plan_state where followup_at_ms <= ?1 \
             and (followup_at_ms, account_id) > (cast(?2 as integer), ?3) \
             order by followup_at_ms, account_id limit cast(?4 as integer)",
            params![now, at, id, limit],
        ))
        .await?;
    rows.iter()
        .map(|row| {
            Ok(FollowUp {
                at: row.millis("followup_at_ms")?,
                account_id: row.id("account_id", AccountId::new)?,
            })
        })
        .collect()
}

/// Whether the account's own follow-up is due.
pub async fn is_followup_due(db: &dyn Db, id: &AccountId, now: Millis) -> Result<bool, Fault> {
    let due = "select 1 as due from plan_state where account_id = ?1 and followup_at_ms <= ?2";
    let rows = db
        .query(Statement::new(due, params![id.as_str(), now]))
        .await?;
    Ok(!rows.is_empty())
}
