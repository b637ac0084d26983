//! The provider's limits as the object has them: how long an answer is used, and what a ring does.

use super::account::write_json;
use super::books::Books;
use super::rules::{Limit, LimitFacts, LimitTimes, Look, look};
use crate::fault::Fault;
use crate::limits::LIMIT_PAUSE_MS;
use crate::params;
use crate::ports::Sql;
use crate::provider::{FeatureLimit, Limits};
use crate::settings::FeatureKind;
use crate::units::{FeatureName, Millis, Units};

/// What to do for the limits now. `waited`: this call has already waited for a read.
pub fn look_at(books: &Books<'_>, waited: bool) -> Look {
    let settings = &books.object.world.settings;
    let facts = LimitFacts {
        has_customer: books.account.customer_id.is_some(),
        read_at: books.limits.read_at,
        failed_at: books.limits.failed_at,
        waited,
    };
    let times = LimitTimes {
        fresh_ms: settings.limit_fresh_seconds.saturating_mul(1000),
        stale_ms: settings.limit_stale_seconds.saturating_mul(1000),
        pause_ms: LIMIT_PAUSE_MS,
    };
    look(facts, times, books.now)
}

/// One feature's limit under that look.
pub fn limit_of(books: &Books<'_>, feature: &FeatureName, look: Look) -> Limit {
    let Some(known) = books.object.world.settings.feature(feature) else {
        return Limit::Unknown;
    };
    match look {
        Look::Fresh | Look::Stale => match books.limits.answer.get(&known.provider_key) {
            None => Limit::Absent,
            Some(None) => Limit::Unlimited,
            Some(Some(limit)) => Units::new(*limit).map_or(Limit::Unlimited, Limit::Known),
        },
        Look::Read | Look::Unknown { .. } if known.kind == FeatureKind::GatedOpen => Limit::Open,
        Look::Read | Look::Unknown { .. } => Limit::Unknown,
    }
}

/// How far a limit is known, as `GET /v1/budget` says it.
pub const fn state_name(limit: Limit, look: Look) -> &'static str {
    match (limit, look) {
        (Limit::Unknown | Limit::Open, _) => "unknown",
        (Limit::Absent, _) => "absent",
        (_, Look::Stale) => "stale",
        (Limit::Unlimited, _) => "unlimited",
        (Limit::Known(_), _) => "known",
    }
}

/// Stores a complete answer to a read.
pub fn keep_answer(sql: &dyn Sql, rings: i64, limits: &Limits, now: Millis) -> Result<(), Fault> {
    let answer: std::collections::BTreeMap<&str, Option<i64>> = limits
        .iter()
        .map(|(key, limit)| match limit {
            FeatureLimit::Known(units) => (key.as_str(), Some(units.get())),
            FeatureLimit::Unlimited => (key.as_str(), None),
        })
        .collect();
    sql.query(
        "insert into limits (one, rings, read_at_ms, failed_at_ms, answer) \
         values (1, ?1, ?2, null, ?3) on conflict (one) do update set \
         read_at_ms = excluded.read_at_ms, failed_at_ms = null, answer = excluded.answer",
        &params![rings, now, write_json(&answer)?],
    )?;
    Ok(())
}

/// Remembers that a read failed; what was known stays.
pub fn keep_failure(sql: &dyn Sql, rings: i64, failed_at: Millis) -> Result<(), Fault> {
    sql.query(
        "insert into limits (one, rings, failed_at_ms) values (1, ?1, ?2) \
         on conflict (one) do update set failed_at_ms = excluded.failed_at_ms",
        &params![rings, failed_at],
    )?;
    Ok(())
}

/// The plan may have changed: what was known is dropped, and so is the answer to a read that has
/// already begun.
pub fn ring(sql: &dyn Sql) -> Result<(), Fault> {
    sql.query(
        "insert into limits (one, rings) values (1, 1) on conflict (one) do update set \
         rings = rings + 1, read_at_ms = null, failed_at_ms = null, answer = null",
        &[],
    )?;
    Ok(())
}
