//! How the stand-in fails on demand.

use crate::fault::Fault;
use crate::params;
use crate::ports::Sql;

/// What can be made to fail, as api.md names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Entitlements.
    Limit,
    /// Agreements.
    Plan,
    /// Reading a meter.
    MeterRead,
    /// Writing a meter.
    MeterWrite,
    /// The signing keys.
    Jwks,
    /// The token.
    Token,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 6] = [
        Self::Limit,
        Self::Plan,
        Self::MeterRead,
        Self::MeterWrite,
        Self::Jwks,
        Self::Token,
    ];

    /// As it is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Plan => "plan",
            Self::MeterRead => "meter_read",
            Self::MeterWrite => "meter_write",
            Self::Jwks => "jwks",
            Self::Token => "token",
        }
    }

    /// By its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A 500; nothing happened.
    Error,
    /// No answer; nothing happened. The transport inside the process does not wait for it: what
    /// becomes of the request is unknown at once.
    Timeout,
    /// A 429 with `RateLimit-Reset: 2`; nothing happened.
    RateLimited,
    /// A 200 that does not read; nothing happened.
    Garbage,
    /// It takes effect, and the answer is lost.
    LostAnswer,
    /// A first page whose next one fails. Where there are no pages: an answer cut in half.
    Partial,
    /// No answer; it takes effect some seconds later.
    Late,
}

impl Mode {
    /// Every mode but `ok`.
    pub const ALL: [Self; 7] = [
        Self::Error,
        Self::Timeout,
        Self::RateLimited,
        Self::Garbage,
        Self::LostAnswer,
        Self::Partial,
        Self::Late,
    ];

    /// As it is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::RateLimited => "429",
            Self::Garbage => "garbage",
            Self::LostAnswer => "lost_answer",
            Self::Partial => "partial",
            Self::Late => "late",
        }
    }

    /// By its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// From now on the operation fails so, `times` times or until it is changed; `None` is `ok`.
pub fn put(
    sql: &dyn Sql,
    operation: Operation,
    mode: Option<Mode>,
    times: Option<i64>,
) -> Result<(), Fault> {
    match mode {
        None => sql.query(
            "delete from fault where operation = ?1",
            &params![operation.name()],
        )?,
        Some(mode) => sql.query(
            "insert into fault (operation, mode, times) values (?1, ?2, ?3) \
             on conflict (operation) do update set mode = excluded.mode, times = excluded.times",
            &params![operation.name(), mode.name(), times],
        )?,
    };
    Ok(())
}

/// How this call fails, if it does; a fault with a number of times is used up by it. The first
/// page of a `partial` list uses nothing up, because it is the next one that fails.
pub fn take(
    sql: &dyn Sql,
    operation: Operation,
    is_first_page: bool,
) -> Result<Option<Mode>, Fault> {
    let rows = sql.query(
        "select mode from fault where operation = ?1",
        &params![operation.name()],
    )?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let mode = Mode::parse(row.text("mode")?);
    if !(mode == Some(Mode::Partial) && is_first_page) {
        sql.query(
            "update fault set times = times - 1 where operation = ?1",
            &params![operation.name()],
        )?;
        sql.query("delete from fault where times <= 0", &[])?;
    }
    Ok(mode)
}
