//! Statements and rows on their way between wasm and JavaScript, one call each way.
//!
//! Every crossing costs about as much as what it carries, so a statement goes as two texts (what
//! each part is, and all parts one after the other) and its rows come back as one JSON text: the
//! names of the columns, then the values of each row.

use std::fmt::Write;
use std::rc::Rc;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::fault::Fault;
use crate::ports::{Row, Rows, Statement, Value};
use crate::units::SAFE_MAX;

/// Statements with their parameters, as JavaScript takes them apart again.
#[derive(Default)]
pub struct Parcel {
    /// By commas: `s` and a length begins a statement, `t` and a length is a text, `i` and the
    /// number itself a number, `n` null. Lengths count as JavaScript's strings do.
    pub kinds: String,
    /// All texts one after the other.
    pub text: String,
}

impl Parcel {
    /// One statement.
    pub fn of_statement(sql: &str, params: &[Value]) -> Result<Self, Fault> {
        let mut parcel = Self::default();
        parcel.add_statement(sql, params)?;
        Ok(parcel)
    }

    /// Several statements.
    pub fn of_statements(statements: &[Statement]) -> Result<Self, Fault> {
        let mut parcel = Self::default();
        for statement in statements {
            parcel.add_statement(&statement.sql, &statement.params)?;
        }
        Ok(parcel)
    }

    fn add_statement(&mut self, sql: &str, params: &[Value]) -> Result<(), Fault> {
        self.add_text('s', sql);
        params.iter().try_for_each(|param| self.add(param))
    }

    /// A number beyond ±(2^53 − 1) is refused instead of rounded.
    fn add(&mut self, param: &Value) -> Result<(), Fault> {
        match param {
            Value::Null => self.begin('n'),
            Value::Text(text) => self.add_text('t', text),
            Value::Int(number) if (-SAFE_MAX..=SAFE_MAX).contains(number) => {
                self.begin('i');
                self.end(*number);
            }
            Value::Int(_) => {
                return Err(Fault::unavailable("bind a number", "it is beyond 2^53 - 1"));
            }
        }
        Ok(())
    }

    fn add_text(&mut self, kind: char, text: &str) {
        self.begin(kind);
        let length = if text.is_ascii() {
            text.len()
        } else {
            text.encode_utf16().count()
        };
        self.end(length);
        self.text.push_str(text);
    }

    fn begin(&mut self, kind: char) {
        if !self.kinds.is_empty() {
            self.kinds.push(',');
        }
        self.kinds.push(kind);
    }

    fn end(&mut self, number: impl std::fmt::Display) {
        // A text takes whatever is written to it.
        let _ = write!(self.kinds, "{number}");
    }
}

/// A value as JSON has it: null, a text, or an integer within ±(2^53 − 1).
struct Cell(Value);

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Cell;
            fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.write_str("null, a text or a safe integer")
            }
            fn visit_unit<E: Error>(self) -> Result<Cell, E> {
                Ok(Cell(Value::Null))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Cell, E> {
                Ok(Cell(Value::Text(text.to_owned())))
            }
            fn visit_string<E: Error>(self, text: String) -> Result<Cell, E> {
                Ok(Cell(Value::Text(text)))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Cell, E> {
                if (-SAFE_MAX..=SAFE_MAX).contains(&number) {
                    return Ok(Cell(Value::Int(number)));
                }
                Err(E::custom("an integer beyond 2^53 - 1"))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Cell, E> {
                i64::try_from(number)
                    .map_err(E::custom)
                    .and_then(|number| self.visit_i64(number))
            }
        }
        from.deserialize_any(Any)
    }
}

/// Names of columns, then the values of each row.
type Table = (Vec<String>, Vec<Vec<Cell>>);

fn rows_of((names, rows): Table) -> Rows {
    let names: Rc<[String]> = names.into();
    let row = |values: Vec<Cell>| {
        let values = values.into_iter().map(|cell| cell.0).collect();
        Row::new(Rc::clone(&names), values)
    };
    rows.into_iter().map(row).collect()
}

fn unreadable(error: serde_json::Error) -> Fault {
    Fault::unreadable("read rows", error)
}

/// The rows of one statement; an empty text where there are none.
pub fn read_one(text: &str) -> Result<Rows, Fault> {
    if text.is_empty() {
        return Ok(Rows::new());
    }
    serde_json::from_str(text).map(rows_of).map_err(unreadable)
}

/// The rows of each of several statements.
pub fn read_each(text: &str) -> Result<Vec<Rows>, Fault> {
    let tables: Vec<Table> = serde_json::from_str(text).map_err(unreadable)?;
    Ok(tables.into_iter().map(rows_of).collect())
}
