//! Sums for `/metrics`. Both databases have the table `tally`; a count goes into the same batch as
//! what it counts.

use crate::params;
use crate::ports::Statement;

/// Adds `by` to the sum `name`, which carries its labels as Prometheus writes them:
/// `counterfoil_admissions_total{result="admitted"}`.
pub fn add(name: &str, by: i64) -> Statement {
    Statement::new(
        "insert into tally (name, total) values (?1, ?2) \
         on conflict (name) do update set total = total + excluded.total",
        params![name, by],
    )
}
