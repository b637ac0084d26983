//! Links in DB.

use std::rc::Rc;

use serde_json::json;

use super::destination::Destination;
use super::rules::LinkState;
use crate::fault::Fault;
use crate::params;
use crate::ports::{Db, Row, Statement};
use crate::units::{AccountId, LinkCode, Millis, SAFE_MAX};

/// One link, as its account sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Folded to lower case.
    pub code: LinkCode,
    /// Whose it is.
    pub account_id: AccountId,
    /// Where it leads.
    pub destination: Destination,
    /// Switched off by its account.
    pub disabled: bool,
    /// From then on it is over.
    pub expires_at: Option<Millis>,
    /// When it was made.
    pub created_at: Millis,
    /// When it was last changed.
    pub updated_at: Millis,
}

/// What a redirect needs to know of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where it leads.
    pub destination: Destination,
    /// Whether it redirects.
    pub state: LinkState,
    /// Whose clicks they are.
    pub account_id: AccountId,
}

const COLUMNS: &str =
    "code, account_id, destination, disabled, expires_at_ms, created_at_ms, updated_at_ms";

fn link_of(row: &Row) -> Result<Link, Fault> {
    Ok(Link {
        code: row.id("code", LinkCode::new)?,
        account_id: row.id("account_id", AccountId::new)?,
        destination: row.id("destination", Destination::stored)?,
        disabled: row.int("disabled")? != 0,
        expires_at: row.opt_millis("expires_at_ms")?,
        created_at: row.millis("created_at_ms")?,
        updated_at: row.millis("updated_at_ms")?,
    })
}

/// What came of making a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// It is new.
    New(Link),
    /// The account had made the same one before.
    Same(Link),
    /// The code leads elsewhere, or belongs to another account.
    Taken,
    /// The account has it, leading to the same place until another moment than is asked for.
    OtherExpiry,
}

/// Makes a link, or finds that it was made. One batch: nobody comes between.
pub async fn make(db: &dyn Db, link: &Link) -> Result<Made, Fault> {
    let code = link.code.as_str();
    let insert = Statement::new(
        "insert into link (code, account_id, destination, expires_at_ms, created_at_ms, \
         updated_at_ms) values (?1, ?2, ?3, ?4, ?5, ?5) \
         on conflict (code) do nothing returning code",
        params![
            code,
            link.account_id.as_str(),
            link.destination.as_str(),
            link.expires_at,
            link.created_at
        ],
    );
    let read = Statement::new(
        format!("select {COLUMNS} from link where code = ?1"),
        params![code],
    );
    let results = db.batch(vec![insert, read]).await?;
    let is_new = results.first().is_some_and(|rows| !rows.is_empty());
    let stored = (results.last().and_then(|rows| rows.first()))
        .ok_or_else(|| Fault::unreadable("make a link", "its row is not there"))?;
    let stored = link_of(stored)?;
    if is_new {
        return Ok(Made::New(stored));
    }
    let same = stored.account_id == link.account_id && stored.destination == link.destination;
    let expires_otherwise = link.expires_at.is_some() && link.expires_at != stored.expires_at;
    Ok(match (same, expires_otherwise) {
        (false, _) => Made::Taken,
        (true, true) => Made::OtherExpiry,
        // Who names no expiry asks for none in particular.
        (true, false) => Made::Same(stored),
    })
}

/// The link of that code, if it is that account's.
pub async fn load(
    db: &dyn Db,
    account: &AccountId,
    code: &LinkCode,
) -> Result<Option<Link>, Fault> {
    let sql = format!("select {COLUMNS} from link where code = ?1 and account_id = ?2");
    let rows = db
        .query(Statement::new(
            sql,
            params![code.as_str(), account.as_str()],
        ))
        .await?;
    rows.first().map(link_of).transpose()
}

/// Whether anybody has a link of that code.
pub async fn exists(db: &dyn Db, code: &LinkCode) -> Result<bool, Fault> {
    let sql = "select code from link where code = ?1";
    let rows = db
        .query(Statement::new(sql, params![code.as_str()]))
        .await?;
    Ok(!rows.is_empty())
}

/// A change of an expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// As it was.
    Kept,
    /// None any more.
    Never,
    /// At that moment.
    At(Millis),
}

/// What is to change; what is `None` stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where it leads.
    pub destination: Option<Destination>,
    /// Whether it is switched off.
    pub disabled: Option<bool>,
    /// When it is over.
    pub expiry: Expiry,
}

/// Changes an account's link and gives it as it now stands; `None` where it has no such link.
pub async fn change(
    db: &dyn Db,
    account: &AccountId,
    code: &LinkCode,
    change: &Change,
    now: Millis,
) -> Result<Option<Link>, Fault> {
    let (moves_expiry, expires_at) = match change.expiry {
        Expiry::Kept => (false, None),
        Expiry::Never => (true, None),
        Expiry::At(at) => (true, Some(at)),
    };
    let sql = format!(
        "update link set destination = coalesce(?3, destination), \
         disabled = coalesce(?4, disabled), \
         expires_at_ms = case when ?5 = 1 then ?6 else expires_at_ms end, updated_at_ms = ?7, \
         changed = 1 + (select coalesce(max(changed), 0) from link where changed > 0) \
         where code = ?1 and account_id = ?2 returning {COLUMNS}"
    );
    let destination = change.destination.as_ref().map(Destination::as_str);
    let params = params![
        code.as_str(),
        account.as_str(),
        destination,
        change.disabled,
        moves_expiry,
        expires_at,
        now
    ];
    let rows = db.query(Statement::new(sql, params)).await?;
    rows.first().map(link_of).transpose()
}

/// Up to `rows` links of an account in the order of their codes, after the code `after`; with a
/// text, only those in whose code or destination it stands.
pub async fn list(
    db: &dyn Db,
    account: &AccountId,
    text: &str,
    after: &str,
    rows: i64,
) -> Result<Vec<Link>, Fault> {
    let sql = format!(
        "select {COLUMNS} from link where account_id = ?1 and code > ?2 \
         and (?3 = '' or instr(code, ?3) > 0 or instr(lower(destination), ?3) > 0) \
         order by code limit cast(?4 as integer)"
    );
    let text = text.to_ascii_lowercase();
    let params = params![account.as_str(), after, text, rows];
    let found = db.query(Statement::new(sql, params)).await?;
    found.iter().map(link_of).collect()
}

/// What redirects of these codes need, of those that there are.
pub async fn targets(
    db: &dyn Db,
    codes: &[LinkCode],
) -> Result<Vec<(LinkCode, Rc<Target>)>, Fault> {
    let sql = "select code, destination, disabled, expires_at_ms, account_id from link \
        where code in (select value from json_each(?1))";
    let codes: Vec<&str> = codes.iter().map(LinkCode::as_str).collect();
    let params = params![json!(codes).to_string()];
    let rows = db.query(Statement::new(sql, params)).await?;
    rows.iter().map(target_of).collect()
}

fn target_of(row: &Row) -> Result<(LinkCode, Rc<Target>), Fault> {
    let target = Target {
        destination: row.id("destination", Destination::stored)?,
        state: LinkState {
            disabled: row.int("disabled")? != 0,
            expires_at: row.opt_millis("expires_at_ms")?,
        },
        account_id: row.id("account_id", AccountId::new)?,
    };
    Ok((row.id("code", LinkCode::new)?, Rc::new(target)))
}

/// Changes that one look names at most; beyond, whoever looks forgets everything.
const CHANGES_MAX: i64 = 500;

/// What was changed since somebody last looked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The links; `None` where it cannot be said which.
    pub codes: Option<Vec<LinkCode>>,
    /// The number of the last change.
    pub last: i64,
}

/// The changes after that one; without one, where numbers have gone back or where there are too
/// many, only the last one's number.
pub async fn changes(db: &dyn Db, after: Option<i64>) -> Result<Changes, Fault> {
    let last = "select coalesce(max(changed), 0) as last from link where changed > 0";
    let named = "select code from link where changed > ?1 and changed > 0 \
        limit cast(?2 as integer)";
    let params = params![after.unwrap_or(SAFE_MAX), CHANGES_MAX + 1];
    let results = db
        .batch(vec![
            Statement::new(last, vec![]),
            Statement::new(named, params),
        ])
        .await?;
    let [last, named] = results.as_slice() else {
        return Err(Fault::unreadable("look for changed links", "no rows"));
    };
    let last = last.first().map_or(Ok(0), |row| row.int("last"))?;
    let are_all = i64::try_from(named.len()).is_ok_and(|count| count <= CHANGES_MAX);
    let is_told = after.is_some_and(|after| after <= last) && are_all;
    let codes = named.iter().map(|row| row.id("code", LinkCode::new));
    let codes = is_told.then(|| codes.collect()).transpose()?;
    Ok(Changes { codes, last })
}
