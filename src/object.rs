//! What every Durable Object does alike: schema steps, its own clock, due times and the one alarm.
//!
//! An object's tables here: `object_meta` (schema number, last time seen, clock offset, what it
//! was told of itself) and `due` (what it owes, by name, and when). The alarm is only a wake-up:
//! due times stand in the table, cron visits objects whose time has passed.

use std::cell::Cell;
use std::rc::Rc;

use crate::fault::{Fault, FaultKind};
use crate::params;
use crate::ports::{Alarm, Sql, transact};
use crate::units::Millis;
use crate::world::World;

/// An object's storage, alarm and world.
#[derive(Clone)]
pub struct Object {
    /// Its own SQLite.
    pub sql: Rc<dyn Sql>,
    /// Its single alarm.
    pub alarm: Rc<dyn Alarm>,
    /// Databases, provider and clock.
    pub world: Rc<World>,
    /// What this instance knows without reading it again.
    pub memory: Rc<Memory>,
}

/// What an object in memory has written or read itself: nobody else writes to its storage.
#[derive(Debug, Default)]
pub struct Memory {
    /// Where it last set the alarm, once it has.
    armed: Cell<Option<Millis>>,
    /// The stored offset of the stand-in's clock.
    clock_offset: Cell<Stored>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Stored {
    #[default]
    NotRead,
    Nothing,
    Ms(i64),
}

const META: &str = "create table if not exists object_meta (\
    name text primary key, value text not null) strict, without rowid";
const DUE: &str = "create table if not exists due (\
    name text primary key, at_ms integer not null) strict, without rowid";

impl Object {
    /// Runs the schema steps that this storage has not seen yet, all in one transaction. Each step
    /// is a list of statements; steps only add. A storage that has seen more steps than this
    /// release knows is refused and nothing is written.
    pub fn wake(&self, steps: &[&[&str]]) -> Result<(), Fault> {
        let seen = self.schema_number()?;
        if seen == steps.len() {
            return Ok(());
        }
        if seen > steps.len() {
            return Err(Fault {
                kind: FaultKind::NewerSchema,
                doing: "wake an object".to_owned(),
                cause: format!("its schema is {seen}, this release knows {}", steps.len()),
            });
        }
        transact(&*self.sql, || {
            self.sql.query(META, &[])?;
            self.sql.query(DUE, &[])?;
            for statement in steps.iter().skip(seen).flat_map(|step| step.iter()) {
                self.sql.query(statement, &[])?;
            }
            self.set_meta("schema", &steps.len().to_string())
        })
    }

    fn schema_number(&self) -> Result<usize, Fault> {
        let made = self.sql.query(
            "select name from sqlite_master where type = 'table' and name = 'object_meta'",
            &[],
        )?;
        if made.is_empty() {
            return Ok(0);
        }
        let text = self.meta("schema")?.unwrap_or_else(|| "0".to_owned());
        text.parse()
            .map_err(|_| Fault::unreadable("read an object's schema number", text))
    }

    /// What this object was told or stored of itself under `name`.
    pub fn meta(&self, name: &str) -> Result<Option<String>, Fault> {
        let rows = self.sql.query(
            "select value from object_meta where name = ?1",
            &params![name],
        )?;
        rows.first()
            .map(|row| row.text("value").map(str::to_owned))
            .transpose()
    }

    /// Stores `value` under `name`.
    pub fn set_meta(&self, name: &str, value: &str) -> Result<(), Fault> {
        self.sql.query(
            "insert into object_meta (name, value) values (?1, ?2) \
             on conflict (name) do update set value = excluded.value",
            &params![name, value],
        )?;
        Ok(())
    }

    /// This object's own time: the machine's clock and the stored offset, never less than the last
    /// time that it stored. Read once per call and again after each await.
    /// Writes nothing: a transaction that writes keeps its time by [`Object::keep_time`].
    pub fn now(&self) -> Result<Millis, Fault> {
        let last = self.meta("last_now")?;
        let last = last.map(|text| {
            text.parse()
                .map(Millis::new)
                .map_err(|_| Fault::unreadable("read object_meta", "last_now"))
        });
        let last = last.transpose()?;
        let machine = self.world.clock.read().after(self.clock_offset_ms()?);
        Ok(last.map_or(machine, |last| last.max(machine)))
    }

    /// Stores the time of a transaction that writes, once, so that no later call is earlier.
    pub fn keep_time(&self, now: Millis) -> Result<(), Fault> {
        self.set_meta("last_now", &now.get().to_string())
    }

    /// The stored offset of the stand-in's clock; zero where none was.
    pub fn clock_offset_ms(&self) -> Result<i64, Fault> {
        Ok(self.known_clock_offset()?.unwrap_or(0))
    }

    /// Whether an offset was stored; new storage has none.
    pub fn knows_clock_offset(&self) -> Result<bool, Fault> {
        Ok(self.known_clock_offset()?.is_some())
    }

    fn known_clock_offset(&self) -> Result<Option<i64>, Fault> {
        match self.memory.clock_offset.get() {
            Stored::Nothing => return Ok(None),
            Stored::Ms(offset_ms) => return Ok(Some(offset_ms)),
            Stored::NotRead => {}
        }
        let text = self.meta("clock_offset_ms")?;
        let number = text.map(|text| {
            text.parse()
                .map_err(|_| Fault::unreadable("read object_meta", "clock_offset_ms"))
        });
        let offset_ms = number.transpose()?;
        let stored = offset_ms.map_or(Stored::Nothing, Stored::Ms);
        self.memory.clock_offset.set(stored);
        Ok(offset_ms)
    }

    /// Stores the stand-in's clock offset.
    pub fn set_clock_offset(&self, offset_ms: i64) -> Result<(), Fault> {
        self.set_meta("clock_offset_ms", &offset_ms.to_string())?;
        self.memory.clock_offset.set(Stored::Ms(offset_ms));
        Ok(())
    }

    /// What is owed under `name` is due at that moment (`None`: nothing is owed). A name that
    /// begins with `~` is housekeeping of which the ledger database is not told.
    pub fn owe(&self, name: &str, at: Option<Millis>) -> Result<(), Fault> {
        // A write, also one that changes nothing, keeps the answer waiting for the disk.
        if self.owed_at(name)? == at {
            return Ok(());
        }
        match at {
            Some(at) => self.sql.query(
                "insert into due (name, at_ms) values (?1, ?2) \
                 on conflict (name) do update set at_ms = excluded.at_ms",
                &params![name, at],
            )?,
            None => self
                .sql
                .query("delete from due where name = ?1", &params![name])?,
        };
        Ok(())
    }

    /// What is owed under `name` is due at that moment at the latest.
    pub fn owe_by(&self, name: &str, at: Millis) -> Result<(), Fault> {
        self.sql.query(
            "insert into due (name, at_ms) values (?1, ?2) \
             on conflict (name) do update set at_ms = excluded.at_ms \
             where excluded.at_ms < due.at_ms",
            &params![name, at],
        )?;
        Ok(())
    }

    /// When what is owed under `name` is due.
    pub fn owed_at(&self, name: &str) -> Result<Option<Millis>, Fault> {
        let rows = self
            .sql
            .query("select at_ms from due where name = ?1", &params![name])?;
        rows.first().map(|row| row.millis("at_ms")).transpose()
    }

    /// The earliest due time of everything owed.
    pub fn due_at(&self) -> Result<Option<Millis>, Fault> {
        let rows = self.sql.query("select min(at_ms) as at_ms from due", &[])?;
        rows.first().map_or(Ok(None), |row| row.opt_millis("at_ms"))
    }

    /// The alarm that woke this object is used up, also where its own clock lies behind the one by
    /// which the alarm fired and nothing is due yet. First in every alarm.
    pub fn alarm_fired(&self) {
        self.memory.armed.set(None);
    }

    /// The single function that arms the alarm: last in every handler, also after an error.
    /// It reads the earliest due time and sets the alarm in one synchronous step.
    /// An alarm that is known to stand at that moment, still to come, is not set again.
    pub async fn arm(&self) -> Result<(), Fault> {
        let at = match self.due_at()? {
            None => None,
            Some(due) => Some(due.after(-self.clock_offset_ms()?)),
        };
        // An alarm that an earlier life left behind wakes an object that finds nothing due.
        let stands = self.memory.armed.get() == at;
        if stands && at.is_none_or(|at| at > self.world.clock.read()) {
            return Ok(());
        }
        self.memory.armed.set(at);
        let set = self.alarm.set(at).await;
        if set.is_err() {
            self.memory.armed.set(None);
        }
        set
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::native::machine::Machine;
    use crate::native::sqlite::Sqlite;
    use crate::ports::{Later, Rows};

    const ONE: &[&str] = &[
        "create table a (n integer) strict",
        "insert into a values (1)",
    ];
    const TWO: &[&str] = &["create table b (n integer) strict"];
    const THREE: &[&str] = &[
        "alter table a add column m integer",
        "insert into b values (3)",
    ];
    const RELEASES: &[&[&[&str]]] = &[&[ONE], &[ONE, TWO], &[ONE, TWO, THREE]];

    struct NoAlarm;

    impl Alarm for NoAlarm {
        fn set(&self, _at: Option<Millis>) -> Later<'_, Result<(), Fault>> {
            Box::pin(async { Ok(()) })
        }
    }

    fn object(storage: &Sqlite) -> Object {
        let machine = Machine::new(&[]).expect("it starts");
        Object {
            sql: Rc::new(storage.clone()),
            alarm: Rc::new(NoAlarm),
            world: machine.world(),
            memory: Rc::default(),
        }
    }

    fn dump(storage: &Sqlite) -> Vec<Rows> {
        let sql: &dyn Sql = storage;
        let read = |text: &str| sql.query(text, &[]).expect("it reads");
        let tables = read("select name, sql from sqlite_master order by name");
        let rows = tables.iter().map(|table| {
            let name = table.text("name").expect("a name");
            if name.starts_with("sqlite_") {
                Rows::new()
            } else {
                read(&format!("select * from {name}"))
            }
        });
        std::iter::once(tables.clone()).chain(rows).collect()
    }

    #[test]
    fn a_storage_of_any_older_release_becomes_the_newest() {
        let newest = RELEASES[RELEASES.len() - 1];
        let fresh = Sqlite::memory().expect("it opens");
        object(&fresh).wake(newest).expect("it wakes");
        for first in 0..RELEASES.len() {
            let storage = Sqlite::memory().expect("it opens");
            for release in &RELEASES[first..] {
                object(&storage).wake(release).expect("it wakes");
                object(&storage).wake(release).expect("it wakes again");
            }
            assert_eq!(dump(&storage), dump(&fresh), "from release {first}");
        }
    }

    #[test]
    fn a_storage_of_a_newer_release_is_refused_and_nothing_is_written() {
        let storage = Sqlite::memory().expect("it opens");
        object(&storage).wake(RELEASES[2]).expect("it wakes");
        let before = dump(&storage);
        for older in [&[][..], RELEASES[0], RELEASES[1]] {
            let fault = object(&storage).wake(older).expect_err("it is newer");
            assert_eq!(
                (fault.kind, fault.code()),
                (FaultKind::NewerSchema, "newer_schema")
            );
        }
        assert_eq!(dump(&storage), before);
    }

    #[test]
    fn a_step_that_fails_leaves_the_storage_as_it_was() {
        let storage = Sqlite::memory().expect("it opens");
        object(&storage).wake(RELEASES[0]).expect("it wakes");
        let before = dump(&storage);
        let broken: &[&[&str]] = &[ONE, TWO, &["insert into nowhere values (1)"]];
        assert!(object(&storage).wake(broken).is_err());
        assert_eq!(dump(&storage), before);
    }
}
