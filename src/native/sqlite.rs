//! `Sql` and `Db` on rusqlite. Numbers bind as REAL, as they do on the platform, so that a
//! statement which only works with integers bound fails here too.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use rusqlite::types::{ToSqlOutput, Value as SqlValue, ValueRef};
use rusqlite::{Connection, ToSql};

use crate::fault::Fault;
use crate::ports::{Db, Later, Row, Rows, Sql, Statement, Value};
use crate::units::SAFE_MAX;

/// One SQLite database, in memory or in a file.
#[derive(Clone)]
pub struct Sqlite {
    connection: Rc<RefCell<Connection>>,
}

impl ToSql for Value {
    #[expect(
        clippy::cast_precision_loss,
        reason = "within ±(2^53 − 1) every integer is exact"
    )]
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(SqlValue::Null),
            Self::Int(value) => ToSqlOutput::Owned(SqlValue::Real(*value as f64)),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "checked to be whole and within ±(2^53 − 1)"
)]
#[expect(clippy::cast_precision_loss, reason = "SAFE_MAX is exact")]
fn value_of(value: ValueRef<'_>) -> Result<Value, String> {
    match value {
        ValueRef::Null => Ok(Value::Null),
        ValueRef::Integer(value) => Ok(Value::Int(value)),
        ValueRef::Real(value) if value.fract() == 0.0 && value.abs() <= SAFE_MAX as f64 => {
            Ok(Value::Int(value as i64))
        }
        ValueRef::Real(value) => Err(format!("{value} is not a safe integer")),
        ValueRef::Text(text) => String::from_utf8(text.to_vec())
            .map(Value::Text)
            .map_err(|e| e.to_string()),
        ValueRef::Blob(_) => Err("a blob".to_owned()),
    }
}

impl Sqlite {
    /// A new database in memory.
    pub fn memory() -> Result<Self, Fault> {
        Connection::open_in_memory()
            .map(Self::of)
            .map_err(fault("open"))
    }

    /// The database in that file.
    pub fn file(path: &Path) -> Result<Self, Fault> {
        Connection::open(path).map(Self::of).map_err(fault("open"))
    }

    fn of(connection: Connection) -> Self {
        Self {
            connection: Rc::new(RefCell::new(connection)),
        }
    }

    /// Applies every `*.sql` of a folder in the order of the names, as the platform's migrations.
    pub fn migrate(&self, folder: &Path) -> Result<(), Fault> {
        let doing = "read the migrations";
        let entries = std::fs::read_dir(folder).map_err(|e| Fault::unavailable(doing, e))?;
        let mut paths: Vec<_> = entries.filter_map(Result::ok).map(|e| e.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "sql"));
        paths.sort();
        for path in paths {
            let text = std::fs::read_to_string(&path).map_err(|e| Fault::unavailable(doing, e))?;
            let connection = self.connection.borrow();
            connection
                .execute_batch(&text)
                .map_err(fault(&path.display().to_string()))?;
        }
        Ok(())
    }

    /// A copy of the whole database as it is now, for a restore.
    pub fn snapshot(&self) -> Result<Self, Fault> {
        let mut copy = Connection::open_in_memory().map_err(fault("snapshot"))?;
        {
            let from = self.connection.borrow();
            let backup =
                rusqlite::backup::Backup::new(&from, &mut copy).map_err(fault("snapshot"))?;
            backup.step(-1).map_err(fault("snapshot"))?;
        }
        Ok(Self::of(copy))
    }

    /// Puts the database back to a snapshot.
    pub fn restore(&self, snapshot: &Self) -> Result<(), Fault> {
        let copy = snapshot.snapshot()?;
        self.connection.swap(&copy.connection);
        Ok(())
    }

    fn run(&self, sql: &str, params: &[Value]) -> Result<Rows, Fault> {
        let connection = self.connection.borrow();
        let mut statement = connection.prepare_cached(sql).map_err(fault(sql))?;
        let names: Rc<[String]> = statement.column_names().map(str::to_owned).collect();
        let mut found = statement
            .query(rusqlite::params_from_iter(params))
            .map_err(fault(sql))?;
        let mut rows = Rows::new();
        while let Some(row) = found.next().map_err(fault(sql))? {
            let mut values = Vec::with_capacity(names.len());
            for index in 0..names.len() {
                let value = row.get_ref(index).map_err(fault(sql))?;
                values.push(value_of(value).map_err(|cause| Fault::unreadable(sql, cause))?);
            }
            rows.push(Row::new(Rc::clone(&names), values));
        }
        Ok(rows)
    }

    fn in_transaction<T>(&self, body: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
        self.run("begin immediate", &[])?;
        let outcome = body();
        self.run(
            if outcome.is_ok() {
                "commit"
            } else {
                "rollback"
            },
            &[],
        )?;
        outcome
    }
}

fn fault(doing: &str) -> impl Fn(rusqlite::Error) -> Fault {
    move |error| Fault::unavailable(doing, error)
}

impl Sql for Sqlite {
    fn query(&self, sql: &str, params: &[Value]) -> Result<Rows, Fault> {
        self.run(sql, params)
    }

    fn transaction(&self, body: &mut dyn FnMut() -> Result<(), Fault>) -> Result<(), Fault> {
        self.in_transaction(body)
    }
}

impl Db for Sqlite {
    fn query(&self, statement: Statement) -> Later<'_, Result<Rows, Fault>> {
        Box::pin(async move { self.run(&statement.sql, &statement.params) })
    }

    fn batch(&self, statements: Vec<Statement>) -> Later<'_, Result<Vec<Rows>, Fault>> {
        Box::pin(async move {
            self.in_transaction(|| {
                statements
                    .iter()
                    .map(|one| self.run(&one.sql, &one.params))
                    .collect()
            })
        })
    }
}
