//! What every driver of a port must do alike: for SQL rusqlite in the tests, an object's SQLite and
//! D1 inside workerd; for RS256 native code and `WebCrypto`. One list; a driver that changes
//! extends the list, not a test of its own.
//!
//! The subject's database must not have a table `conformance`; each case makes and drops it.

use crate::fault::Fault;
use crate::params;
use crate::ports::{Db, Later, Row, Rows, Signatures, Sql, Statement, Value};
use crate::units::SAFE_MAX;

/// A driver under test.
#[derive(Clone, Copy)]
pub enum Subject<'a> {
    /// An object's SQLite: statements together are a transaction.
    Object(&'a dyn Sql),
    /// D1: statements together are a batch.
    Database(&'a dyn Db),
}

/// A case's name and, where it failed, what was seen.
pub type Verdict = (&'static str, Option<String>);

type Case = for<'a> fn(Subject<'a>) -> Later<'a, Result<(), String>>;

const CASES: &[(&str, Case)] = &[
    ("integers_up_to_2_53_come_back_exactly", |on| {
        Box::pin(integers(on))
    }),
    ("an_integer_beyond_2_53_is_refused_not_rounded", |on| {
        Box::pin(unsafe_integers(on))
    }),
    ("a_number_that_is_no_integer_is_a_fault", |on| {
        Box::pin(fractions(on))
    }),
    ("numbers_bind_as_real_and_cast_to_integer", |on| {
        Box::pin(reals(on))
    }),
    ("null_is_null_and_not_text", |on| Box::pin(nulls(on))),
    ("text_comes_back_byte_for_byte", |on| Box::pin(text(on))),
    ("a_thousand_rows_go_through_one_json_parameter", |on| {
        Box::pin(bulk(on))
    }),
    ("a_hundred_parameters_are_taken", |on| {
        Box::pin(parameters(on))
    }),
    ("a_unique_conflict_is_a_fault_and_changes_nothing", |on| {
        Box::pin(unique(on))
    }),
    ("a_broken_check_is_a_fault_and_changes_nothing", |on| {
        Box::pin(check(on))
    }),
    ("a_strict_column_takes_no_other_type", |on| {
        Box::pin(strict(on))
    }),
    ("returning_gives_the_rows_as_written", |on| {
        Box::pin(returning(on))
    }),
    ("a_conditional_update_says_whether_it_met_its_row", |on| {
        Box::pin(conditional(on))
    }),
    ("statements_together_are_all_done_in_order", |on| {
        Box::pin(together(on))
    }),
    ("a_failure_among_statements_together_undoes_all", |on| {
        Box::pin(undone(on))
    }),
    ("a_later_statement_sees_what_an_earlier_one_wrote", |on| {
        Box::pin(visible(on))
    }),
    ("a_body_that_gives_an_error_leaves_nothing", |on| {
        Box::pin(rolled_back(on))
    }),
    ("a_transaction_after_a_rolled_back_one_is_whole", |on| {
        Box::pin(after_rollback(on))
    }),
];

/// Runs every case in order.
pub async fn run(on: Subject<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (name, case) in CASES {
        let outcome = match fresh(on).await {
            Ok(()) => case(on).await,
            Err(fault) => Err(fault.to_string()),
        };
        verdicts.push((*name, outcome.err()));
    }
    if let Err(fault) = on.query("drop table if exists conformance", vec![]).await {
        verdicts.push(("the_table_is_dropped", Some(fault.to_string())));
    }
    verdicts
}

async fn fresh(on: Subject<'_>) -> Result<(), Fault> {
    on.query("drop table if exists conformance", vec![]).await?;
    on.query(
        "create table conformance (id text primary key, number integer check (number <> 13), \
         words text) strict, without rowid",
        vec![],
    )
    .await?;
    Ok(())
}

impl Subject<'_> {
    async fn query(self, sql: &str, params: Vec<Value>) -> Result<Rows, Fault> {
        match self {
            Self::Object(sql_port) => sql_port.query(sql, &params),
            Self::Database(db) => db.query(Statement::new(sql, params)).await,
        }
    }

    async fn together(self, statements: Vec<Statement>) -> Result<Vec<Rows>, Fault> {
        match self {
            Self::Object(sql) => crate::ports::transact(sql, || {
                statements
                    .iter()
                    .map(|one| sql.query(&one.sql, &one.params))
                    .collect()
            }),
            Self::Database(db) => db.batch(statements).await,
        }
    }

    async fn rows(self, sql: &str, params: Vec<Value>) -> Result<Rows, String> {
        self.query(sql, params)
            .await
            .map_err(|fault| fault.to_string())
    }

    async fn row(self, sql: &str, params: Vec<Value>) -> Result<Row, String> {
        let rows = self.rows(sql, params).await?;
        let count = rows.len();
        let mut rows = rows.into_iter();
        rows.next()
            .filter(|_| count == 1)
            .ok_or_else(|| format!("{count} rows of {sql}"))
    }

    async fn count(self) -> Result<i64, String> {
        let row = self
            .row("select count(*) as n from conformance", vec![])
            .await?;
        row.int("n").map_err(|fault| fault.to_string())
    }
}

fn insert(id: &str, number: i64) -> Statement {
    Statement::new(
        "insert into conformance (id, number) values (?1, ?2)",
        params![id, number],
    )
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "cases read better without a & at every value"
)]
fn same<T: PartialEq + std::fmt::Debug>(seen: T, wanted: T) -> Result<(), String> {
    if seen == wanted {
        Ok(())
    } else {
        Err(format!("saw {seen:?}, wanted {wanted:?}"))
    }
}

fn is_fault<T: std::fmt::Debug>(outcome: Result<T, Fault>) -> Result<(), String> {
    match outcome {
        Err(_) => Ok(()),
        Ok(seen) => Err(format!("no fault but {seen:?}")),
    }
}

async fn integers(on: Subject<'_>) -> Result<(), String> {
    for number in [0, 1, -1, 2_147_483_648, -2_147_483_649, SAFE_MAX, -SAFE_MAX] {
        let sql = "insert into conformance (id, number) values (?1, ?2) returning number";
        let row = on.row(sql, params![number.to_string(), number]).await?;
        same(row.int("number"), Ok(number))?;
        let sql = "select number, typeof(number) as type from conformance where number = ?1";
        let row = on.row(sql, params![number]).await?;
        same(row.int("number"), Ok(number))?;
        same(row.text("type"), Ok("integer"))?;
    }
    Ok(())
}

async fn unsafe_integers(on: Subject<'_>) -> Result<(), String> {
    for number in [SAFE_MAX + 1, -SAFE_MAX - 1, i64::MAX, i64::MIN] {
        let bound = on.query("select ?1 as number", params![number]).await;
        is_fault(bound.and_then(|rows| rows.first().map_or(Ok(0), |row| row.int("number"))))?;
    }
    let read = on.query("select 9007199254740993 as number", vec![]).await;
    is_fault(read.and_then(|rows| rows.first().map_or(Ok(0), |row| row.int("number"))))
}

async fn fractions(on: Subject<'_>) -> Result<(), String> {
    let read = on.query("select 0.5 as number", vec![]).await;
    is_fault(read.and_then(|rows| rows.first().map_or(Ok(0), |row| row.int("number"))))
}

async fn reals(on: Subject<'_>) -> Result<(), String> {
    let sql = "select typeof(?1) as bound, typeof(cast(?1 as integer)) as as_integer, \
               cast(?1 as integer) / 2 as half, json_object('n', cast(?1 as integer)) as json";
    let row = on.row(sql, params![7_i64]).await?;
    same(row.text("bound"), Ok("real"))?;
    same(row.text("as_integer"), Ok("integer"))?;
    same(row.int("half"), Ok(3))?;
    same(row.text("json"), Ok(r#"{"n":7}"#))
}

async fn nulls(on: Subject<'_>) -> Result<(), String> {
    let sql = "insert into conformance (id, number, words) values ('a', ?1, ?2) returning *";
    let row = on.row(sql, vec![Value::Null, Value::Null]).await?;
    same(row.opt_int("number"), Ok(None))?;
    same(row.opt_text("words"), Ok(None))?;
    let sql = "select id from conformance where words is null and number is null";
    same(on.rows(sql, vec![]).await?.len(), 1)
}

async fn text(on: Subject<'_>) -> Result<(), String> {
    let long = "ж".repeat(100_000);
    for words in [
        "",
        "O'Brien \"x\"; --",
        "naïve Ω 漢字 🧾👩‍👩‍👧",
        "a\nb\tc\\",
        "null",
        "1e3",
        &long,
    ] {
        let row = on
            .row("select ?1 as words, length(?1) as n", params![words])
            .await?;
        same(row.text("words"), Ok(words))?;
        same(
            row.int("n"),
            Ok(i64::try_from(words.chars().count()).unwrap_or(-1)),
        )?;
    }
    Ok(())
}

async fn bulk(on: Subject<'_>) -> Result<(), String> {
    let rows: Vec<_> = (0..1000)
        .map(|n| serde_json::json!([format!("id-{n:04}"), n]))
        .collect();
    let rows = serde_json::Value::from(rows).to_string();
    let sql = "insert into conformance (id, number) \
               select value ->> 0, value ->> 1 + 100 from json_each(?1) where true";
    on.rows(sql, params![rows]).await?;
    let sql = "select id, number from conformance order by id";
    let seen = on.rows(sql, vec![]).await?;
    same(seen.len(), 1000)?;
    same(seen.last().map(|row| row.int("number")), Some(Ok(1099)))
}

async fn parameters(on: Subject<'_>) -> Result<(), String> {
    let marks: Vec<String> = (1..=100).map(|n| format!("?{n}")).collect();
    let sql = format!("select {} as total", marks.join(" + "));
    let row = on
        .row(&sql, (1..=100_i64).map(Value::Int).collect())
        .await?;
    same(row.int("total"), Ok(5050))
}

async fn unique(on: Subject<'_>) -> Result<(), String> {
    on.together(vec![insert("a", 1)])
        .await
        .map_err(|fault| fault.to_string())?;
    is_fault(
        on.query(
            "insert into conformance (id, number) values ('a', 2)",
            vec![],
        )
        .await,
    )?;
    let row = on.row("select number from conformance", vec![]).await?;
    same(row.int("number"), Ok(1))
}

async fn check(on: Subject<'_>) -> Result<(), String> {
    let sql = "insert into conformance (id, number) values ('a', 1), ('b', ?1)";
    is_fault(on.query(sql, params![13_i64]).await)?;
    same(on.count().await?, 0)
}

async fn strict(on: Subject<'_>) -> Result<(), String> {
    is_fault(
        on.query(
            "insert into conformance (id, number) values ('a', 'x')",
            vec![],
        )
        .await,
    )?;
    is_fault(
        on.query(
            "insert into conformance (id, number) values ('a', 0.5)",
            vec![],
        )
        .await,
    )?;
    same(on.count().await?, 0)
}

async fn returning(on: Subject<'_>) -> Result<(), String> {
    let sql = "insert into conformance (id, number) values ('a', 1), ('b', 2) \
               on conflict (id) do update set number = number + excluded.number \
               returning id, number, number * 2 as twice";
    let rows = on.rows(sql, vec![]).await?;
    same(
        rows.iter().map(|row| row.int("twice")).collect(),
        vec![Ok(2), Ok(4)],
    )?;
    let rows = on.rows(sql, vec![]).await?;
    same(
        rows.iter().map(|row| row.int("number")).collect(),
        vec![Ok(2), Ok(4)],
    )?;
    let sql = "insert into conformance (id) values ('a') on conflict do nothing returning id";
    same(on.rows(sql, vec![]).await?.len(), 0)?;
    same(on.count().await?, 2)
}

async fn conditional(on: Subject<'_>) -> Result<(), String> {
    on.together(vec![insert("a", 1)])
        .await
        .map_err(|fault| fault.to_string())?;
    let sql = "update conformance set number = ?2 where id = 'a' and number = ?1 returning number";
    same(on.rows(sql, params![1_i64, 2_i64]).await?.len(), 1)?;
    same(on.rows(sql, params![1_i64, 2_i64]).await?.len(), 0)
}

async fn together(on: Subject<'_>) -> Result<(), String> {
    let select = Statement::new("select id from conformance order by id", vec![]);
    let statements = vec![insert("b", 2), select.clone(), insert("a", 1), select];
    let rows = on
        .together(statements)
        .await
        .map_err(|fault| fault.to_string())?;
    same(rows.iter().map(Vec::len).collect(), vec![0, 1, 0, 2])
}

async fn undone(on: Subject<'_>) -> Result<(), String> {
    let statements = vec![
        insert("a", 1),
        insert("b", 2),
        insert("a", 3),
        insert("c", 4),
    ];
    is_fault(on.together(statements).await)?;
    same(on.count().await?, 0)
}

async fn visible(on: Subject<'_>) -> Result<(), String> {
    let double = "update conformance set number = (select sum(number) * 2 from conformance)";
    let statements = vec![insert("a", 21), Statement::new(double, vec![])];
    on.together(statements)
        .await
        .map_err(|fault| fault.to_string())?;
    let row = on.row("select number from conformance", vec![]).await?;
    same(row.int("number"), Ok(42))
}

/// Only an object decides between its statements; on D1 the condition stands in the SQL.
async fn rolled_back(on: Subject<'_>) -> Result<(), String> {
    if let Subject::Object(sql) = on {
        let refused = Fault::unavailable("decide", "no");
        let outcome: Result<(), Fault> = crate::ports::transact(sql, || {
            sql.query("insert into conformance (id) values ('a')", &[])?;
            Err(refused.clone())
        });
        same(outcome, Err(refused))?;
    }
    same(on.count().await?, 0)
}

async fn after_rollback(on: Subject<'_>) -> Result<(), String> {
    is_fault(on.together(vec![insert("a", 1), insert("a", 1)]).await)?;
    on.together(vec![insert("a", 1), insert("b", 1)])
        .await
        .map_err(|fault| fault.to_string())?;
    same(on.count().await?, 2)
}

/// RS256 as every driver must do it.
pub async fn run_signatures(on: &dyn Signatures) -> Vec<Verdict> {
    let outcome = sign_and_verify(on).await;
    vec![(
        "a_signature_verifies_under_its_own_key_and_message_only",
        outcome.err(),
    )]
}

async fn sign_and_verify(on: &dyn Signatures) -> Result<(), String> {
    let text = |fault: Fault| fault.to_string();
    let (jwk, other) = (
        on.generate().await.map_err(text)?,
        on.generate().await.map_err(text)?,
    );
    let public = |jwk: &str| -> Result<(String, String), String> {
        let jwk: serde_json::Value = serde_json::from_str(jwk).map_err(|e| e.to_string())?;
        let part = |name: &str| {
            jwk.get(name)
                .and_then(|part| part.as_str())
                .map(str::to_owned)
        };
        part("n")
            .zip(part("e"))
            .ok_or_else(|| "the key has no n and e".to_owned())
    };
    let ((n, e), (other_n, other_e)) = (public(&jwk)?, public(&other)?);
    let signature = on.sign(&jwk, b"header.payload").await.map_err(text)?;
    same(signature.len(), 256)?;
    same(
        on.verify(&n, &e, b"header.payload", &signature).await,
        Ok(true),
    )?;
    same(
        on.verify(&n, &e, b"header.Payload", &signature).await,
        Ok(false),
    )?;
    same(
        on.verify(&other_n, &other_e, b"header.payload", &signature)
            .await,
        Ok(false),
    )?;
    same(
        on.verify("?", &e, b"header.payload", &signature).await,
        Ok(false),
    )?;
    same(
        on.verify("", "", b"header.payload", &signature).await,
        Ok(false),
    )?;
    same(
        on.verify(&n, &e, b"header.payload", b"short").await,
        Ok(false),
    )?;
    is_fault(on.sign("{}", b"header.payload").await)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::native::executor::block_on;
    use crate::native::signatures::NativeSignatures;
    use crate::native::sqlite::Sqlite;

    fn failures(verdicts: &[Verdict]) -> Vec<&Verdict> {
        verdicts
            .iter()
            .filter(|(_, failure)| failure.is_some())
            .collect()
    }

    #[test]
    fn rusqlite_as_an_object_conforms() {
        let sqlite = Sqlite::memory().expect("it opens");
        let verdicts = block_on(run(Subject::Object(&sqlite)));
        assert_eq!(failures(&verdicts), Vec::<&Verdict>::new());
    }

    #[test]
    fn rusqlite_as_d1_conforms() {
        let sqlite = Sqlite::memory().expect("it opens");
        let verdicts = block_on(run(Subject::Database(&sqlite)));
        assert_eq!(failures(&verdicts), Vec::<&Verdict>::new());
    }

    #[test]
    fn native_rs256_conforms() {
        let verdicts = block_on(run_signatures(&NativeSignatures::default()));
        assert_eq!(failures(&verdicts), Vec::<&Verdict>::new());
    }
}
