//! Entries as they are read: one by one, as lists, and as sums.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::entry::{COLUMNS, Entry, EntryKind};
use super::totals::within;
use crate::fault::Fault;
use crate::moment;
use crate::params;
use crate::ports::{Db, Row, Statement, Value};
use crate::units::{
    AccountId, CallerKey, CycleName, Delta, EntryId, FeatureName, JobId, LinkCode, Millis,
};

/// An entry in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// What it says.
    pub entry: Entry,
    /// When the ledger took it in.
    pub recorded_at: Millis,
}

impl Recorded {
    /// From a row with the columns of [`COLUMNS`].
    pub fn of_row(row: &Row) -> Result<Self, Fault> {
        Ok(Self {
            entry: Entry::of_row(row)?,
            recorded_at: row.millis("recorded_at_ms")?,
        })
    }

    /// As it is answered; what an entry has not is left out.
    pub fn view(&self) -> Json {
        let entry = &self.entry;
        let mut view = json!({
            "id": entry.entry_id.as_str(),
            "feature": entry.feature.as_str(),
            "cycle": entry.cycle.as_str(),
            "units": entry.units.get(),
            "kind": entry.kind.name(),
            "occurred_at": moment::format(entry.occurred_at),
            "recorded_at": moment::format(self.recorded_at),
        });
        let further = [
            ("code", entry.code.as_ref().map(LinkCode::as_str)),
            ("job_id", entry.job_id.as_ref().map(JobId::as_str)),
            ("key", entry.key.as_ref().map(CallerKey::as_str)),
            ("corrects", entry.corrects.as_ref().map(EntryId::as_str)),
            ("reason", entry.reason.as_deref()),
            ("rule", entry.rule.as_deref()),
            ("actor", entry.actor.as_deref()),
            ("country", entry.country.as_deref()),
            ("referrer_host", entry.referrer_host.as_deref()),
        ];
        if let Some(members) = view.as_object_mut() {
            for (name, value) in further {
                if let Some(value) = value {
                    members.insert(name.to_owned(), json!(value));
                }
            }
        }
        view
    }

    /// Where it stands in a list, oldest first.
    pub fn place(&self) -> String {
        format!("{}.{}", self.entry.occurred_at.get(), self.entry.entry_id)
    }
}

/// The entries of these ids (a JSON list).
pub fn by_ids(ids_json: &str) -> Statement {
    Statement::new(
        format!("select {COLUMNS} from entry where entry_id in (select value from json_each(?1))"),
        params![ids_json],
    )
}

/// Which entries of an account are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // The query parameters of `GET /v1/entries` by their names.
pub struct Filter {
    pub feature: Option<FeatureName>,
    pub cycle: Option<CycleName>,
    pub code: Option<LinkCode>,
    pub job: Option<JobId>,
    pub kind: Option<EntryKind>,
    /// From this moment on.
    pub from: Option<Millis>,
    /// Before this moment.
    pub to: Option<Millis>,
}

/// A place in a list, from what [`Recorded::place`] gave.
pub fn read_place(text: &str) -> Option<(Millis, String)> {
    let (at, id) = text.split_once('.')?;
    Some((Millis::new(at.parse().ok()?), id.to_owned()))
}

/// Up to `rows` entries after that place, oldest first.
pub async fn list(
    db: &dyn Db,
    account_id: &AccountId,
    filter: &Filter,
    after: Option<(Millis, String)>,
    rows: i64,
) -> Result<Vec<Recorded>, Fault> {
    let mut sql = format!("select {COLUMNS} from entry where account_id = ?1");
    let mut params = params![account_id.as_str()];
    let mut add = |clause: &str, value: Value| {
        params.push(value);
        sql.push_str(&clause.replace('?', &format!("?{}", params.len())));
    };
    let texts = [
        (
            " and feature = ?",
            filter.feature.as_ref().map(FeatureName::as_str),
        ),
        (
            " and cycle = ?",
            filter.cycle.as_ref().map(CycleName::as_str),
        ),
        (" and code = ?", filter.code.as_ref().map(LinkCode::as_str)),
        (" and job_id = ?", filter.job.as_ref().map(JobId::as_str)),
        (" and kind = ?", filter.kind.map(EntryKind::name)),
    ];
    for (clause, value) in texts {
        if let Some(value) = value {
            add(clause, value.into());
        }
    }
    if let Some(from) = filter.from {
        add(" and occurred_at_ms >= ?", from.into());
    }
    if let Some(to) = filter.to {
        add(" and occurred_at_ms < ?", to.into());
    }
    if let Some((at, id)) = after {
        add(" and (occurred_at_ms, entry_id) > (?, ", at.into());
        add("?)", id.into());
    }
    add(
        " order by occurred_at_ms, entry_id limit cast(? as integer)",
        rows.into(),
    );
    let found = db.query(Statement::new(sql, params)).await?;
    found.iter().map(Recorded::of_row).collect()
}

/// Sums of one feature in one cycle; the total is gross − corrected + carried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// What was recorded.
    pub gross: i64,
    /// What was taken back, by reason; a person's corrections are `manual`.
    pub corrected: BTreeMap<String, i64>,
    /// What was carried in (or out, where negative).
    pub carried: i64,
}

impl Sums {
    /// What counts.
    pub fn total(&self) -> i64 {
        self.gross - self.corrected.values().sum::<i64>() + self.carried
    }

    fn add(&mut self, row: &Row) -> Result<(), Fault> {
        // As text: the parts of a sum may each be larger than any amount.
        let units = row.text("units")?;
        let units: i64 = (units.parse()).map_err(|e| Fault::unreadable("sum entries", e))?;
        let kind = EntryKind::parse(row.text("kind")?);
        match kind.ok_or_else(|| Fault::unreadable("sum entries", "an unknown kind"))? {
            EntryKind::Click | EntryKind::Usage | EntryKind::Job => self.gross += units,
            EntryKind::Carry => self.carried += units,
            EntryKind::Correction => {
                let reason = row.text("reason")?.to_owned();
                *self.corrected.entry(reason).or_default() -= units;
            }
        }
        Ok(())
    }
}

/// The sums of a feature and cycle, of one link where a code is given, by UTC day (days since
/// 1970) where asked; under day `None` otherwise.
pub async fn sums(
    db: &dyn Db,
    owner: (&AccountId, &FeatureName, &CycleName),
    code: Option<&LinkCode>,
    by_day: bool,
) -> Result<BTreeMap<Option<i64>, Sums>, Fault> {
    let (account_id, feature, cycle) = owner;
    let day = if by_day {
        "occurred_at_ms / 86400000"
    } else {
        "null"
    };
    let mut params = params![account_id.as_str(), feature.as_str(), cycle.as_str()];
    let and_code = if code.is_some() { " and code = ?4" } else { "" };
    params.extend(code.map(|code| Value::from(code.as_str())));
    let sql = format!(
        "select {day} as day, kind, case when kind <> 'correction' then null \
         when rule is null then 'manual' else reason end as reason, \
         cast(sum(units) as text) as units from entry \
         where account_id = ?1 and feature = ?2 and cycle = ?3{and_code} \
         group by 1, 2, 3 order by 1, 2, 3"
    );
    let mut sums: BTreeMap<Option<i64>, Sums> = BTreeMap::new();
    for row in db.query(Statement::new(sql, params)).await? {
        sums.entry(row.opt_int("day")?).or_default().add(&row)?;
    }
    Ok(sums)
}

/// What counts of a feature and cycle for each of these links; one without entries is left out.
pub async fn totals_by_code(
    db: &dyn Db,
    owner: (&AccountId, &FeatureName, &CycleName),
    codes: &[&str],
) -> Result<BTreeMap<String, i64>, Fault> {
    let (account_id, feature, cycle) = owner;
    let sql = format!(
        "select code, {} as units from entry \
         where account_id = ?1 and feature = ?2 and cycle = ?3 \
         and code in (select value from json_each(?4)) group by code",
        within("sum(units)")
    );
    let params = params![
        account_id.as_str(),
        feature.as_str(),
        cycle.as_str(),
        json!(codes).to_string()
    ];
    let rows = db.query(Statement::new(sql, params)).await?;
    let total = |row: &Row| Ok((row.text("code")?.to_owned(), row.delta("units")?.get()));
    rows.iter().map(total).collect()
}

/// An entry of the account and the sum of what corrects it.
pub async fn with_corrections(
    db: &dyn Db,
    account_id: &AccountId,
    entry_id: &EntryId,
) -> Result<Option<(Recorded, Delta)>, Fault> {
    let sql = format!(
        "select {COLUMNS}, (select coalesce(sum(c.units), 0) from entry c \
         where c.corrects = entry.entry_id) as corrected \
         from entry where entry_id = ?1 and account_id = ?2"
    );
    let params = params![entry_id.as_str(), account_id.as_str()];
    let rows = db.query(Statement::new(sql, params)).await?;
    match rows.first() {
        None => Ok(None),
        Some(row) => Ok(Some((Recorded::of_row(row)?, row.delta("corrected")?))),
    }
}
