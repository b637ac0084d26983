//! The base of a cycle's current meter: what its other meters hold.
//!
//! Each meter, an agreement in a period, has one row in a cycle; the greatest number is the current
//! one. An agreement that is taken up again keeps its row, under the next number, and its base is
//! fixed anew: so the rows of a cycle always add up to the ledger.

use serde_json::{Value as Json, json};

use super::base_rules::{EarlierRead, Holding, holding, is_other_meter, may_have_gone_astray};
use super::closing;
use super::meter::{Pass, Subject, wait};
use super::meter_store::{self as store, Claim, Meter};
use super::review::{Review, ReviewKind};
use crate::fault::Fault;
use crate::moment;
use crate::params;
use crate::ports::Statement;
use crate::provider::ProviderFault;
use crate::units::{AgreementId, Delta, Millis};
use crate::world::World;

/// The base under a claim.
pub enum Base {
    /// It was fixed before.
    Fixed(Delta),
    /// It is known; these statements fix it.
    New(Delta, Vec<Statement>),
    /// Not known yet: the next run looks again.
    Wait,
    /// What this meter holds nobody can know: a person decides.
    Ask(Box<Meter>),
}

/// What a base costs in calls: the meters three times, rows of unknown ones, itself, its evidence.
const CALLS_PER_BASE: u32 = 6;
/// What each earlier meter adds: its agreement, a person's word, what it holds, and keeping that.
const CALLS_PER_EARLIER: u32 = 4;
/// What a base costs that stands on one earlier meter.
pub const CALLS: u32 = CALLS_PER_BASE + CALLS_PER_EARLIER;

/// What the base of this meter may still cost.
pub fn calls(subject: &Subject) -> u32 {
    let current = subject.current_meter();
    let earlier = u32::try_from(subject.without_row(&[]).len()).unwrap_or(u32::MAX);
    let has_base = current.is_some_and(|meter| meter.base.is_some());
    if has_base || (subject.meter.is_none() && earlier == 0) {
        return 0;
    }
    CALLS_PER_BASE + CALLS_PER_EARLIER.saturating_mul(earlier.max(1))
}

/// The current meter's number. Makes the meter where the agreement is met for the first time, and
/// makes it the current one again where it is taken up again. Earlier agreements of the cycle whose
/// meters nobody met are met now: what somebody else wrote there is billed as well.
pub async fn open(world: &World, subject: &Subject) -> Result<i64, Fault> {
    if let Some(meter) = subject.current_meter() {
        return Ok(meter.number);
    }
    let pair = &subject.pair;
    let mut meters = match &subject.meter {
        Some(_) => store::meters_of(&*world.ledger, pair).await?,
        None => Vec::new(),
    };
    let missing = subject.without_row(&meters);
    if !missing.is_empty() {
        let found = [(pair.clone(), missing)];
        world.ledger.query(store::find(&found, world.now())).await?;
        meters = store::meters_of(&*world.ledger, pair).await?;
    }
    let (id, start) = subject.agreement.identity();
    let is_it = |meter: &&Meter| !is_other_meter(meter.identity(), (id, start));
    if let Some(current) = meters.last().filter(is_it) {
        return Ok(current.number);
    }
    let number = meters.last().map_or(0, |meter| meter.number) + 1;
    let statement = match meters.iter().rfind(is_it) {
        Some(meter) => store::take_up(pair, meter.number, number),
        None => store::create(pair, number, id, start),
    };
    world.ledger.query(statement).await?;
    Ok(number)
}

/// Finds the base of the claimed meter, reading what the others hold.
pub async fn find(
    world: &World,
    pass: &Pass,
    subject: &Subject,
    (number, claim): (i64, &Claim),
) -> Result<Base, Fault> {
    if let Some(units) = claim.base {
        return Ok(Base::Fixed(units));
    }
    let (pair, now) = (&subject.pair, world.now());
    let meters = store::meters_of(&*world.ledger, pair).await?;
    let mut units = Delta::ZERO;
    let mut fixing = Vec::new();
    for meter in meters.iter().filter(|meter| meter.number < number) {
        let mut earlier = meter.earlier(now);
        let next = next_period(world, subject, &meters, meter).await?;
        let read = match next {
            _ if earlier.is_leased => EarlierRead::Failed,
            Some(_) => EarlierRead::Never,
            None => read(world, pass, subject, meter).await?,
        };
        if next.is_some_and(|start| may_have_gone_astray(meter.sent, meter.last_at, start)) {
            earlier.is_doubtful |= !is_decided(world, subject, meter).await?;
        }
        let held = match holding(earlier, read, world.now()) {
            Holding::Known(held) => held,
            Holding::Wait => return Ok(Base::Wait),
            Holding::Ask => return Ok(Base::Ask(Box::new(meter.clone()))),
        };
        if let EarlierRead::Total(total) = read {
            fixing.push(store::settle_earlier(pair, meter, total, now));
        }
        let Some(sum) = units.plus(held) else {
            return Ok(Base::Wait);
        };
        units = sum;
    }
    fixing.push(store::fix_base(pair, number, &claim.token, units));
    Ok(Base::New(units, fixing))
}

/// When the period began that followed the meter's own under the same agreement, where one did:
/// what is read of the agreement from then on is that period's total.
async fn next_period(
    world: &World,
    subject: &Subject,
    meters: &[Meter],
    meter: &Meter,
) -> Result<Option<Millis>, Fault> {
    let is_later =
        |other: &&Meter| other.agreement_id == meter.agreement_id && other.number > meter.number;
    if let Some(later) = meters.iter().find(is_later) {
        return Ok(Some(later.period_start.unwrap_or(Millis::ZERO)));
    }
    let last = last_period(world, subject, &meter.agreement_id).await?;
    let is_over = is_other_meter(meter.identity(), (meter.agreement_id.as_str(), last));
    Ok(last.filter(|_| is_over))
}

/// Reads a meter whose agreement was replaced.
async fn read(
    world: &World,
    pass: &Pass,
    subject: &Subject,
    meter: &Meter,
) -> Result<EarlierRead, Fault> {
    let Some(agreement) = AgreementId::new(meter.agreement_id.as_str()) else {
        return Ok(EarlierRead::Never);
    };
    let key = &subject.provider_key;
    match world.provider.read_meter(&agreement, key).await {
        Ok(total) => Ok(EarlierRead::Total(total)),
        Err(ProviderFault::Refused { .. }) => Ok(EarlierRead::Never),
        Err(ProviderFault::Unknown(_) | ProviderFault::Incomplete(_)) => Ok(EarlierRead::Failed),
        Err(ProviderFault::RateLimited { wait_ms }) => {
            wait(world, pass, wait_ms).await?;
            Ok(EarlierRead::Failed)
        }
        Err(ProviderFault::NotConfigured(name)) => Err(Fault::not_configured(name)),
    }
}

/// When the period began in which the agreement was last seen, also one that has ended.
async fn last_period(
    world: &World,
    subject: &Subject,
    agreement: &str,
) -> Result<Option<Millis>, Fault> {
    let sql = "select period_start_ms from agreement where account_id = ?1 and agreement_id = ?2";
    let names = params![subject.pair.account_id.as_str(), agreement];
    let rows = world.db.query(Statement::new(sql, names)).await?;
    rows.first()
        .map_or(Ok(None), |row| row.opt_millis("period_start_ms"))
}

/// Opens the item that says what is in doubt, and holds both meters until it is closed: then the
/// earlier one counts as what it is last known to hold.
pub fn ask(
    subject: &Subject,
    (number, claim): (i64, &Claim),
    doubtful: &Meter,
    now: Millis,
) -> Vec<Statement> {
    let numbers = json!({
        "agreement_id": doubtful.agreement_id,
        "period_starts_at": doubtful.period_start.map(moment::format),
        "last_known": super::base_rules::last_known(doubtful.held).get(),
        "ledger": claim.total.get(),
    });
    let review = item(subject, doubtful, numbers, now);
    vec![
        review.open(),
        store::hold_for_doubt(
            &subject.pair,
            (number, &claim.token),
            doubtful,
            &review.review_id,
        ),
    ]
}

/// The item about what the meter holds; another one each time the meter was claimed since.
fn item(subject: &Subject, doubtful: &Meter, numbers: Json, now: Millis) -> Review {
    let pair = &subject.pair;
    let (account, feature, cycle) = (
        pair.account_id.as_str(),
        pair.feature.as_str(),
        pair.cycle.as_str(),
    );
    let start = doubtful.period_start.map(moment::format);
    let claims = doubtful.claims.to_string();
    let about = [
        account,
        feature,
        cycle,
        doubtful.agreement_id.as_str(),
        start.as_deref().unwrap_or_default(),
        claims.as_str(),
    ];
    Review::new(ReviewKind::BaseInDoubt, &about, numbers, now).of(
        account,
        Some(feature),
        Some(cycle),
    )
}

/// Whether a person has said that the meter counts as what it is last known to hold.
async fn is_decided(world: &World, subject: &Subject, meter: &Meter) -> Result<bool, Fault> {
    let asked = item(subject, meter, Json::Null, Millis::ZERO);
    let found = closing::find(&*world.ledger, &asked.review_id).await?;
    Ok(found.is_some_and(|item| item.outcome.is_some()))
}
