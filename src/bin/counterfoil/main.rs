//! The command-line tool of an operator.
fn main() {}
