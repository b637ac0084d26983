//! Meters in `LEDGER_0`: rows and the statements of the one writing function.
//!
//! Whoever writes a meter holds its token; every statement after the claim names it, so that a
//! sender whose lease has lapsed changes nothing. A token that was never given back is a write
//! whose outcome nobody knows: the next claim notes it as `in_doubt`.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::base_rules::{Earlier, Identity};
use super::meter_rules::{Outcome, SEND_LEASE_MS};
use super::runs::given_since;
use super::totals::within;
use crate::fault::Fault;
use crate::params;
use crate::ports::{Db, Row, Statement, Value};
use crate::units::{AccountId, CycleName, Delta, FeatureName, Millis, Units};

/// One account's feature in one cycle: what a counter and its meters are about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// Whose.
    pub account_id: AccountId,
    /// Of what.
    pub feature: FeatureName,
    /// When.
    pub cycle: CycleName,
}

impl Pair {
    /// From a row with `account_id`, `feature` and `cycle`.
    pub fn of_row(row: &Row) -> Result<Self, Fault> {
        Ok(Self {
            account_id: row.id("account_id", AccountId::new)?,
            feature: row.id("feature", FeatureName::new)?,
            cycle: row.id("cycle", CycleName::new)?,
        })
    }

    fn params(&self, number: i64, more: Vec<Value>) -> Vec<Value> {
        let mut all = params![
            self.account_id.as_str(),
            self.feature.as_str(),
            self.cycle.as_str(),
            number
        ];
        all.extend(more);
        all
    }
}

/// A meter's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    /// Its number in the cycle; the greatest is the current one.
    pub number: i64,
    /// The provider's agreement.
    pub agreement_id: String,
    /// The start of the provider's period, where it tells.
    pub period_start: Option<Millis>,
    /// What the cycle's earlier meters hold; absent until it is fixed.
    pub base: Option<Delta>,
    /// The counter's version that was last confirmed; −1 where none was.
    pub reported: i64,
    /// The last total that the provider confirmed.
    pub sent: Option<Delta>,
    /// What it is known to hold.
    pub held: Option<Delta>,
    /// The last total read.
    pub provider: Option<Delta>,
    /// When.
    pub read_at: Option<Millis>,
    /// Whether a write's outcome is unknown.
    pub in_doubt: bool,
    /// Whether somebody may be writing it now, or never gave its token back.
    pub is_claimed: bool,
    /// Until when.
    pub lease_until: Millis,
    /// How often it was claimed.
    pub claims: i64,
    /// Whether a person let our total replace somebody else's.
    pub foreign_accepted: bool,
    /// The item that must be closed before anything is written.
    pub review_id: Option<String>,
    /// When it was last tried.
    pub last_at: Option<Millis>,
    /// How that ended.
    pub last_outcome: Option<Outcome>,
}

/// The columns of a meter `m` that [`Meter::of_row`] reads, each under a name of its own.
pub const METER_COLUMNS: &str = "m.number as m_number, m.agreement_id as m_agreement_id, \
    m.period_start_ms as m_period_start_ms, m.base as m_base, m.reported as m_reported, \
    m.sent as m_sent, m.held as m_held, m.provider as m_provider, m.read_at_ms as m_read_at_ms, \
    m.in_doubt as m_in_doubt, m.token is not null as m_is_claimed, \
    m.lease_until_ms as m_lease_until_ms, m.claims as m_claims, \
    m.foreign_accepted as m_foreign_accepted, m.review_id as m_review_id, \
    m.last_at_ms as m_last_at_ms, m.last_outcome as m_last_outcome";

/// Joins the current meter `m` of a table with the columns of a [`Pair`] under the alias `p`.
pub const CURRENT_METER: &str = "left join meter m on m.account_id = p.account_id \
    and m.feature = p.feature and m.cycle = p.cycle and m.number = (select max(l.number) \
    from meter l where l.account_id = p.account_id and l.feature = p.feature \
    and l.cycle = p.cycle)";

impl Meter {
    /// `None` where the join found no meter.
    pub fn of_row(row: &Row) -> Result<Option<Self>, Fault> {
        let Some(number) = row.opt_int("m_number")? else {
            return Ok(None);
        };
        Ok(Some(Self {
            number,
            agreement_id: row.text("m_agreement_id")?.to_owned(),
            period_start: row.opt_millis("m_period_start_ms")?,
            base: opt_delta(row, "m_base")?,
            reported: row.int("m_reported")?,
            sent: opt_delta(row, "m_sent")?,
            held: opt_delta(row, "m_held")?,
            provider: opt_delta(row, "m_provider")?,
            read_at: row.opt_millis("m_read_at_ms")?,
            in_doubt: row.int("m_in_doubt")? != 0,
            is_claimed: row.int("m_is_claimed")? != 0,
            lease_until: row.millis("m_lease_until_ms")?,
            claims: row.int("m_claims")?,
            foreign_accepted: row.int("m_foreign_accepted")? != 0,
            review_id: row.opt_text("m_review_id")?.map(str::to_owned),
            last_at: row.opt_millis("m_last_at_ms")?,
            last_outcome: row.opt_text("m_last_outcome")?.and_then(Outcome::parse),
        }))
    }

    /// Whether what it holds is uncertain.
    pub const fn is_doubtful(&self) -> bool {
        self.in_doubt || self.is_claimed
    }

    /// Which meter it is.
    pub fn identity(&self) -> Identity<'_> {
        (self.agreement_id.as_str(), self.period_start)
    }

    /// What it tells of itself once it is not the current one.
    pub fn earlier(&self, now: Millis) -> Earlier {
        Earlier {
            held: self.held,
            is_doubtful: self.is_doubtful(),
            since: self.last_at.unwrap_or(Millis::ZERO).max(self.lease_until),
            is_leased: self.is_claimed && self.lease_until > now,
        }
    }
}

/// A change in a column that may be null.
pub fn opt_delta(row: &Row, name: &str) -> Result<Option<Delta>, Fault> {
    match row.opt_int(name)? {
        None => Ok(None),
        Some(_) => row.delta(name).map(Some),
    }
}

/// All meters of a cycle's feature, in their order.
pub async fn meters_of(ledger: &dyn Db, pair: &Pair) -> Result<Vec<Meter>, Fault> {
    let sql = format!(
        "select {METER_COLUMNS} from meter m where m.account_id = ?1 and m.feature = ?2 \
         and m.cycle = ?3 order by m.number"
    );
    let params = params![
        pair.account_id.as_str(),
        pair.feature.as_str(),
        pair.cycle.as_str()
    ];
    let rows = ledger.query(Statement::new(sql, params)).await?;
    let meters: Result<Vec<_>, _> = rows.iter().map(Meter::of_row).collect();
    Ok(meters?.into_iter().flatten().collect())
}

/// The meters of these cycles, by pair and in their order. A JSON list of account and cycle.
pub async fn meters_in(ledger: &dyn Db, cycles: &str) -> Result<BTreeMap<Pair, Vec<Meter>>, Fault> {
    let sql = format!(
        "select m.account_id as account_id, m.feature as feature, m.cycle as cycle, \
         {METER_COLUMNS} from json_each(?1) j join meter m on m.account_id = j.value ->> 0 \
         and m.cycle = j.value ->> 1 order by m.account_id, m.feature, m.cycle, m.number"
    );
    let mut meters: BTreeMap<Pair, Vec<Meter>> = BTreeMap::new();
    for row in ledger.query(Statement::new(sql, params![cycles])).await? {
        let of_pair = meters.entry(Pair::of_row(&row)?).or_default();
        of_pair.extend(Meter::of_row(&row)?);
    }
    Ok(meters)
}

/// Puts every meter of these cycles in doubt: it may have been written since the ledger that was
/// put back had its row. The doubt is a new one, whatever a person has said of an earlier one.
pub fn doubt_all(cycles: &str) -> Statement {
    Statement::new(
        "update meter set in_doubt = 1, claims = claims + 1 \
         from (select value ->> 0 as account_id, \
         value ->> 1 as cycle from json_each(?1)) j \
         where meter.account_id = j.account_id and meter.cycle = j.cycle",
        params![cycles],
    )
}

/// Makes the rows of meters that the ledger does not know, behind all others of their cycle.
pub fn find(meters: &[(Pair, Vec<Identity<'_>>)], now: Millis) -> Statement {
    let of_pair = |(pair, meters): &(Pair, Vec<Identity<'_>>)| -> Vec<Json> {
        let row = |(nth, (agreement, start)): (usize, &Identity<'_>)| {
            json!({"a": pair.account_id.as_str(), "f": pair.feature.as_str(),
                "c": pair.cycle.as_str(), "nth": nth + 1, "agreement": agreement,
                "start": start.map(Millis::get)})
        };
        meters.iter().enumerate().map(row).collect()
    };
    let rows: Vec<Json> = meters.iter().flat_map(of_pair).collect();
    Statement::new(
        "insert into meter (account_id, feature, cycle, number, agreement_id, period_start_ms, \
         last_at_ms) select r.account_id, r.feature, r.cycle, coalesce((select max(m.number) \
           from meter m where m.account_id = r.account_id and m.feature = r.feature \
           and m.cycle = r.cycle), 0) + r.nth, r.agreement_id, r.start_ms, ?2 \
         from (select value ->> 'a' as account_id, value ->> 'f' as feature, \
           value ->> 'c' as cycle, value ->> 'nth' as nth, value ->> 'agreement' as agreement_id, \
           value ->> 'start' as start_ms from json_each(?1)) r \
         where not exists (select 1 from meter m where m.account_id = r.account_id \
           and m.feature = r.feature and m.cycle = r.cycle and m.agreement_id = r.agreement_id \
           and m.period_start_ms is r.start_ms)",
        params![json!(rows).to_string(), now],
    )
}

/// What is under the claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Every statement that follows names it.
    pub token: String,
    /// The lease's end.
    pub until: Millis,
    /// The meter as it now stands.
    pub agreement_id: String,
    /// See [`Meter::base`].
    pub base: Option<Delta>,
    /// See [`Meter::sent`].
    pub sent: Option<Delta>,
    /// Including a token that was never given back.
    pub in_doubt: bool,
    /// See [`Meter::foreign_accepted`].
    pub foreign_accepted: bool,
    /// See [`Meter::reported`].
    pub reported: i64,
    /// See [`Meter::last_outcome`].
    pub last_outcome: Option<Outcome>,
    /// The counter's version, read together with its total.
    pub version: i64,
    /// The cycle's total.
    pub total: Delta,
    /// The tokens that were given before this one, from the known one on: a JSON list.
    pub earlier: String,
}

/// Makes the meter of that number. The first one of a cycle has the base zero; a later one's is
/// fixed before its first write.
pub fn create(pair: &Pair, number: i64, agreement: &str, start: Option<Millis>) -> Statement {
    let base = (number == 1).then_some(Delta::ZERO);
    Statement::new(
        "insert into meter (account_id, feature, cycle, number, agreement_id, period_start_ms, \
         base) values (?1, ?2, ?3, ?4, ?5, ?6, ?7) on conflict do nothing",
        pair.params(number, params![agreement, start, base]),
    )
}

/// Makes an empty counter where the ledger has no entry.
pub fn create_counter(pair: &Pair) -> Statement {
    Statement::new(
        "insert into counter (account_id, feature, cycle, total, version, changed_at_ms) \
         values (?1, ?2, ?3, 0, 0, 0) on conflict do nothing",
        params![
            pair.account_id.as_str(),
            pair.feature.as_str(),
            pair.cycle.as_str()
        ],
    )
}

/// Makes an earlier meter the current one again: its agreement was taken up again. What is known of
/// it stays, its base is to be fixed anew, and it is to be told. Whoever comes second changes
/// nothing.
pub fn take_up(pair: &Pair, from: i64, number: i64) -> Statement {
    Statement::new(
        "update meter set number = ?5, base = null, reported = -1 \
         where account_id = ?1 and feature = ?2 and cycle = ?3 and number = ?4 \
         and not exists (select 1 from meter l where l.account_id = ?1 and l.feature = ?2 \
           and l.cycle = ?3 and l.number >= ?5)",
        pair.params(from, params![number]),
    )
}

/// The conditional update by which one sender gets the meter, with version and total as they are
/// in the same moment. Nobody gets it while another lease runs, an item must be closed first, a
/// later meter exists, a 429 is being waited for, or the ledger lacks the token `known`: it was put
/// back. A period's start that has become known is noted. A trigger keeps the token.
pub fn claim(
    pair: &Pair,
    number: i64,
    period_start: Option<Millis>,
    token: &str,
    (now, known): (Millis, &str),
) -> Statement {
    let earlier = given_since("?8");
    let total = within(
        "coalesce((select c.total from counter c where c.account_id = ?1 and c.feature = ?2 \
         and c.cycle = ?3), 0)",
    );
    Statement::new(
        format!(
            "update meter set token = ?5, lease_until_ms = ?6, claims = claims + 1, \
         in_doubt = case when token is not null then 1 else in_doubt end, \
         period_start_ms = coalesce(period_start_ms, ?9) \
         where account_id = ?1 and feature = ?2 and cycle = ?3 and number = ?4 \
         and (token is null or lease_until_ms <= ?7) and review_id is null \
         and not exists (select 1 from meter l where l.account_id = ?1 and l.feature = ?2 \
           and l.cycle = ?3 and l.number > ?4) \
         and exists (select 1 from meter_run r where r.not_before_ms <= ?7) \
         and exists (select 1 from meter_token t where t.token = ?8) \
         returning agreement_id, base, sent, in_doubt, foreign_accepted, reported, last_outcome, \
         coalesce((select c.version from counter c where c.account_id = ?1 and c.feature = ?2 \
           and c.cycle = ?3), 0) as version, \
         {total} as total, {earlier} as earlier"
        ),
        pair.params(
            number,
            params![token, now.after(SEND_LEASE_MS), now, known, period_start],
        ),
    )
}

/// What [`claim`] gave; `None` where the meter was not to be had.
pub fn claimed(rows: &[Row], token: String, now: Millis) -> Result<Option<Claim>, Fault> {
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    Ok(Some(Claim {
        token,
        until: now.after(SEND_LEASE_MS),
        agreement_id: row.text("agreement_id")?.to_owned(),
        base: opt_delta(row, "base")?,
        sent: opt_delta(row, "sent")?,
        in_doubt: row.int("in_doubt")? != 0,
        foreign_accepted: row.int("foreign_accepted")? != 0,
        reported: row.int("reported")?,
        last_outcome: row.opt_text("last_outcome")?.and_then(Outcome::parse),
        version: row.int("version")?,
        total: row.delta("total")?,
        earlier: row.text("earlier")?.to_owned(),
    }))
}

/// What was read under the claim.
pub fn note_read(pair: &Pair, number: i64, token: &str, read: Delta, now: Millis) -> Statement {
    Statement::new(
        "update meter set held = ?6, provider = ?6, read_at_ms = ?7 \
         where account_id = ?1 and feature = ?2 and cycle = ?3 and number = ?4 and token = ?5",
        pair.params(number, params![token, read, now]),
    )
}

/// What was read of a meter without a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleRead {
    pair: Pair,
    number: i64,
    claims: i64,
    read: Delta,
    at: Millis,
}

impl IdleRead {
    /// Read just now.
    pub fn new(pair: &Pair, meter: &Meter, read: Delta, at: Millis) -> Self {
        Self {
            pair: pair.clone(),
            number: meter.number,
            claims: meter.claims,
            read,
            at,
        }
    }
}

/// Keeps what was read without a claim, unless the meter was claimed since. A lease that has lapsed
/// hides nothing: its write was over long before this read.
pub fn note_idle_reads<'a>(reads: impl IntoIterator<Item = &'a IdleRead>) -> Statement {
    let row = |one: &IdleRead| {
        json!({"a": one.pair.account_id.as_str(), "f": one.pair.feature.as_str(),
            "c": one.pair.cycle.as_str(), "number": one.number, "claims": one.claims,
            "read": one.read.get(), "at": one.at.get()})
    };
    let rows: Vec<Json> = reads.into_iter().map(row).collect();
    Statement::new(
        "update meter set held = r.read, provider = r.read, read_at_ms = r.at \
         from (select value ->> 'a' as account_id, value ->> 'f' as feature, \
           value ->> 'c' as cycle, value ->> 'number' as number, value ->> 'claims' as claims, \
           value ->> 'read' as read, value ->> 'at' as at from json_each(?1)) r \
         where meter.account_id = r.account_id and meter.feature = r.feature \
         and meter.cycle = r.cycle and meter.number = r.number and meter.claims = r.claims \
         and (meter.token is null or meter.lease_until_ms <= r.at)",
        params![json!(rows).to_string()],
    )
}

/// The lease back, with how the attempt ended. Nothing is in doubt that was not before.
pub fn give_back(
    pair: &Pair,
    number: i64,
    token: &str,
    outcome: Option<(Outcome, &str)>,
    now: Millis,
) -> Statement {
    let (name, detail) = outcome.map_or((None, None), |(outcome, detail)| {
        (Some(outcome.name()), Some(detail))
    });
    Statement::new(
        "update meter set token = null, lease_until_ms = 0, \
         last_outcome = coalesce(?6, last_outcome), \
         last_detail = case when ?6 is null then last_detail else ?7 end, \
         last_at_ms = case when ?6 is null then last_at_ms else ?8 end \
         where account_id = ?1 and feature = ?2 and cycle = ?3 and number = ?4 and token = ?5",
        pair.params(number, params![token, name, detail, now]),
    )
}

/// An outcome that nobody knows. The token stays: the lease lapses by itself, so that a write
/// which arrives late is over before another begins.
pub fn unknown(pair: &Pair, number: i64, token: &str, detail: &str, now: Millis) -> Statement {
    Statement::new(
        "update meter set in_doubt = 1, last_outcome = 'unknown', last_detail = ?6, \
         last_at_ms = ?7 \
         where account_id = ?1 and feature = ?2 and cycle = ?3 and number = ?4 and token = ?5",
        pair.params(number, params![token, detail, now]),
    )
}

/// The write was confirmed and nothing is in doubt: the counter's mark and the meter's `reported`
/// move together.
pub fn confirm(
    pair: &Pair,
    number: i64,
    claim: &Claim,
    total: Units,
    read_back: Option<Delta>,
    now: Millis,
) -> Vec<Statement> {
    let told = Statement::new(
        "update counter set told = max(told, ?5) \
         where account_id = ?1 and feature = ?2 and cycle = ?3 \
         and exists (select 1 from meter m where m.account_id = ?1 and m.feature = ?2 \
           and m.cycle = ?3 and m.number = ?4 and m.token = ?6)",
        pair.params(number, params![claim.version, claim.token.as_str()]),
    );
    let meter = Statement::new(
        "update meter set reported = max(reported, ?6), sent = ?7, held = coalesce(?8, ?7), \
         provider = coalesce(?8, provider), \
         read_at_ms = case when ?8 is null then read_at_ms else ?9 end, \
         in_doubt = 0, token = null, lease_until_ms = 0, \
         last_outcome = 'confirmed', last_detail = null, last_at_ms = ?9 \
         where account_id = ?1 and feature = ?2 and cycle = ?3 and number = ?4 and token = ?5 \
         returning number",
        pair.params(
            number,
            params![claim.token.as_str(), claim.version, total, read_back, now],
        ),
    );
    vec![told, meter]
}

/// The write was confirmed, but the meter was not read back as what was written: the pair stays,
/// or becomes, marked, and the next write must be read back.
pub fn not_read_back(
    pair: &Pair,
    number: i64,
    claim: &Claim,
    total: Units,
    (read, outcome): (Option<Delta>, Outcome),
    now: Millis,
) -> Vec<Statement> {
    let marked = Statement::new(
        "update counter set told = min(told, version - 1) \
         where account_id = ?1 and feature = ?2 and cycle = ?3 \
         and exists (select 1 from meter m where m.account_id = ?1 and m.feature = ?2 \
           and m.cycle = ?3 and m.number = ?4 and m.token = ?5)",
        pair.params(number, params![claim.token.as_str()]),
    );
    let meter = Statement::new(
        "update meter set reported = min(reported, ?6 - 1), sent = ?7, held = coalesce(?8, ?7), \
         provider = coalesce(?8, provider), \
         read_at_ms = case when ?8 is null then read_at_ms else ?9 end, \
         in_doubt = 1, token = null, lease_until_ms = 0, \
         last_outcome = ?10, last_detail = null, last_at_ms = ?9 \
         where account_id = ?1 and feature = ?2 and cycle = ?3 and number = ?4 and token = ?5",
        pair.params(
            number,
            params![
                claim.token.as_str(),
                claim.version,
                total,
                read,
                now,
                outcome.name()
            ],
        ),
    );
    vec![marked, meter]
}

/// The base is fixed under the claim.
pub fn fix_base(pair: &Pair, number: i64, token: &str, base: Delta) -> Statement {
    Statement::new(
        "update meter set base = ?6 where account_id = ?1 and feature = ?2 and cycle = ?3 \
         and number = ?4 and token = ?5 and base is null",
        pair.params(number, params![token, base]),
    )
}

/// An earlier meter was read after its last lease: nothing of it is in doubt any more.
pub fn settle_earlier(pair: &Pair, meter: &Meter, read: Delta, now: Millis) -> Statement {
    Statement::new(
        "update meter set held = ?6, provider = ?6, read_at_ms = ?7, in_doubt = 0, token = null \
         where account_id = ?1 and feature = ?2 and cycle = ?3 and number = ?4 and claims = ?5",
        pair.params(meter.number, params![meter.claims, read, now]),
    )
}

/// Somebody else's total: nothing is written until the item is closed.
pub fn hold_for_review(pair: &Pair, number: i64, token: &str, review_id: &str) -> Statement {
    Statement::new(
        "update meter set review_id = ?6 where account_id = ?1 and feature = ?2 \
         and cycle = ?3 and number = ?4 and token = ?5 and foreign_accepted = 0",
        pair.params(number, params![token, review_id]),
    )
}

/// Nothing is written to the current meter until it is said what the doubtful one holds.
pub fn hold_for_doubt(
    pair: &Pair,
    (number, token): (i64, &str),
    doubtful: &Meter,
    review_id: &str,
) -> Statement {
    Statement::new(
        "update meter set review_id = ?8 where account_id = ?1 and feature = ?2 and cycle = ?3 \
         and (number = ?4 or (number = ?6 and claims = ?7)) \
         and exists (select 1 from meter c where c.account_id = ?1 and c.feature = ?2 \
           and c.cycle = ?3 and c.number = ?4 and c.token = ?5) \
         and exists (select 1 from review r where r.review_id = ?8 and r.closed_at_ms is null)",
        pair.params(
            number,
            params![token, doubtful.number, doubtful.claims, review_id],
        ),
    )
}

/// The item was closed: an earlier meter counts as what it is last known to hold, which is nothing
/// where it was never read. One that has become the current meter again is written over, and read
/// back.
pub fn end_doubt(review_id: &str) -> Statement {
    let is_earlier = "exists (select 1 from meter l where l.account_id = meter.account_id \
        and l.feature = meter.feature and l.cycle = meter.cycle and l.number > meter.number)";
    Statement::new(
        format!(
            "update meter set review_id = null, \
             in_doubt = case when {is_earlier} then 0 else in_doubt end, \
             held = case when {is_earlier} then coalesce(held, 0) else held end, \
             token = case when {is_earlier} then null else token end where review_id = ?1"
        ),
        params![review_id],
    )
}

/// Our total may replace somebody else's: the item was closed.
pub fn accept_foreign(review_id: &str) -> Statement {
    Statement::new(
        "update meter set review_id = null, foreign_accepted = 1 where review_id = ?1",
        params![review_id],
    )
}
