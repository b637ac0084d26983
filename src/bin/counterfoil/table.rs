//! Results as a table of two columns.

/// Prints names and values below each other, the values aligned.
pub fn print(rows: &[(&str, String)]) {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in rows {
        println!("{name:<width$}  {value}");
    }
}
