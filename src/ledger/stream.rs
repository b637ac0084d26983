//! The ledger's side of the feeds: how far each object's stream has come, and whose due time has
//! passed.

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::params;
use crate::ports::{Db, Row, Statement};
use crate::units::Millis;

/// How far one life of an object's storage has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedRow {
    /// The object's name.
    pub object: String,
    /// Which life of its storage.
    pub epoch: String,
    /// The last batch that the ledger took.
    pub last: i64,
    /// That batch's random id.
    pub last_id: String,
}

fn of_row(row: &Row) -> Result<FeedRow, Fault> {
    Ok(FeedRow {
        object: row.text("object")?.to_owned(),
        epoch: row.text("epoch")?.to_owned(),
        last: row.int("last")?,
        last_id: row.text("last_id")?.to_owned(),
    })
}

async fn rows(db: &dyn Db, statement: Statement) -> Result<Vec<FeedRow>, Fault> {
    db.query(statement).await?.iter().map(of_row).collect()
}

/// The row of one epoch of an object.
pub async fn row(db: &dyn Db, object: &str, epoch: &str) -> Result<Option<FeedRow>, Fault> {
    let sql = "select object, epoch, last, last_id from feed where object = ?1 and epoch = ?2";
    let found = rows(db, Statement::new(sql, params![object, epoch])).await?;
    Ok(found.into_iter().next())
}

/// Every row of these objects.
pub async fn rows_of(db: &dyn Db, objects: &[String]) -> Result<Vec<FeedRow>, Fault> {
    let sql = "select object, epoch, last, last_id from feed \
        where object in (select value from json_each(?1)) order by object, epoch";
    let list = serde_json::json!(objects).to_string();
    rows(db, Statement::new(sql, params![list])).await
}

/// Where a list of overdue objects goes on: the due time and name of the last one.
pub type Overdue = (Millis, String);

/// The accounts whose due time has passed, longest overdue first, after `after`; and where the
/// list goes on.
pub async fn overdue_accounts(
    db: &dyn Db,
    now: Millis,
    after: Option<&Overdue>,
    limit: i64,
) -> Result<Vec<Overdue>, Fault> {
    let sql = "select object, due_at_ms from feed where due_at_ms is not null \
        and due_at_ms <= ?1 and object >= 'account/' and object < 'account0' \
        and (due_at_ms, object) > (?2, ?3) order by due_at_ms, object \
        limit cast(?4 as integer)";
    let least = (Millis::new(i64::MIN), String::new());
    let (at, object) = after.unwrap_or(&least);
    let params = params![now, *at, object.as_str(), limit];
    let rows = db.query(Statement::new(sql, params)).await?;
    rows.iter()
        .map(|row| Ok((row.millis("due_at_ms")?, row.text("object")?.to_owned())))
        .collect()
}

/// Every row of every shard that ever sent a batch.
pub async fn shards(db: &dyn Db) -> Result<Vec<FeedRow>, Fault> {
    let sql = "select object, epoch, last, last_id from feed \
        where object >= 'shard/' and object < 'shard0' order by object, epoch";
    rows(db, Statement::new(sql, Vec::new())).await
}

/// Whether the object had another epoch before.
pub async fn has_earlier_life(db: &dyn Db, object: &str, epoch: &str) -> Result<bool, Fault> {
    let sql = "select 1 as lives from feed where object = ?1 and epoch <> ?2 limit 1";
    let rows = db
        .query(Statement::new(sql, params![object, epoch]))
        .await?;
    Ok(!rows.is_empty())
}

/// For `/metrics`: how many objects have a feed, how often one began a new epoch, and for how long
/// the one that is longest overdue has been so; without those of the accounts of the JSON list
/// `hidden`.
pub async fn gauges(db: &dyn Db, hidden: &str, now: Millis) -> Result<Vec<(String, i64)>, Fault> {
    let sql = "select count(*) as feeds, count(distinct object) as objects, \
        min(case when due_at_ms <= ?1 then due_at_ms end) as overdue from feed \
        where object not in (select 'account/' || value from json_each(?2))";
    let found = db.query(Statement::new(sql, params![now, hidden])).await?;
    let Some(row) = found.first() else {
        return Ok(Vec::new());
    };
    let lag_ms = row
        .opt_millis("overdue")?
        .map_or(0, |overdue| now.since(overdue));
    Ok(vec![
        ("counterfoil_feeds".to_owned(), row.int("objects")?),
        (
            "counterfoil_feed_new_epochs".to_owned(),
            row.int("feeds")? - row.int("objects")?,
        ),
        ("counterfoil_feed_overdue_seconds".to_owned(), lag_ms / 1000),
    ])
}
