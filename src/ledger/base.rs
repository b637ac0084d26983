//! The base of a cycle's current meter: what its other meters hold.
//!
//! Each meter, an agreement in a period, has one row in a cycle; the greatest number is the current
//! one. An agreement that is taken up again keeps its row, under the next number, and its base is
//! fixed anew: so the rows of a cycle always add up to the ledger.

use serde_json::json;

use super::base_rules::{EarlierRead, Holding, holding, is_other_meter};
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

/// The current meter's number. Makes the meter where the agreement is met for the first time, and
/// makes it the current one again where it is taken up again.
pub async fn open(world: &World, subject: &Subject) -> Result<i64, Fault> {
    if let Some(meter) = subject.current_meter() {
        return Ok(meter.number);
    }
    let (pair, agreement) = (&subject.pair, &subject.agreement);
    let (id, start) = (agreement.agreement_id.as_str(), agreement.period.starts_at);
    let Some(last) = &subject.meter else {
        world
            .ledger
            .batch(store::create(pair, 1, id, start))
            .await?;
        return Ok(1);
    };
    let number = last.number + 1;
    let meters = store::meters_of(&*world.ledger, pair).await?;
    let is_it = |meter: &&Meter| !is_other_meter(meter.identity(), (id, start));
    let statements = match meters.iter().rfind(is_it) {
        Some(meter) => vec![store::take_up(pair, meter.number, number)],
        None => store::create(pair, number, id, start),
    };
    world.ledger.batch(statements).await?;
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
        let earlier = meter.earlier(now);
        let read = if earlier.is_leased {
            EarlierRead::Failed
        } else {
            read(world, pass, subject, &meters, meter).await?
        };
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

/// Reads a meter whose agreement was replaced. Where a later row is the same agreement's, or its
/// period began anew before it was replaced, a read gives another period's total.
async fn read(
    world: &World,
    pass: &Pass,
    subject: &Subject,
    meters: &[Meter],
    meter: &Meter,
) -> Result<EarlierRead, Fault> {
    let is_later =
        |other: &Meter| other.agreement_id == meter.agreement_id && other.number > meter.number;
    let Some(agreement) = AgreementId::new(meter.agreement_id.as_str()) else {
        return Ok(EarlierRead::Never);
    };
    if meters.iter().any(is_later) {
        return Ok(EarlierRead::Never);
    }
    let last_period = last_period(world, subject, &agreement).await?;
    if is_other_meter(meter.identity(), (agreement.as_str(), last_period)) {
        return Ok(EarlierRead::Never);
    }
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
    agreement: &AgreementId,
) -> Result<Option<Millis>, Fault> {
    let sql = "select period_start_ms from agreement where account_id = ?1 and agreement_id = ?2";
    let names = params![subject.pair.account_id.as_str(), agreement.as_str()];
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
    let pair = &subject.pair;
    let (account, feature, cycle) = (
        pair.account_id.as_str(),
        pair.feature.as_str(),
        pair.cycle.as_str(),
    );
    let start = doubtful.period_start.map(moment::format);
    let numbers = json!({
        "agreement_id": doubtful.agreement_id,
        "period_starts_at": start,
        "last_known": super::base_rules::last_known(doubtful.held).get(),
        "ledger": claim.total.get(),
    });
    let claims = doubtful.claims.to_string();
    let about = [
        account,
        feature,
        cycle,
        doubtful.agreement_id.as_str(),
        start.as_deref().unwrap_or_default(),
        claims.as_str(),
    ];
    let review = Review::new(ReviewKind::BaseInDoubt, &about, numbers, now).of(
        account,
        Some(feature),
        Some(cycle),
    );
    vec![
        review.open(),
        store::hold_for_doubt(pair, (number, &claim.token), doubtful, &review.review_id),
    ]
}
