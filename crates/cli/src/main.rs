//! The `isotherm` command.
fn main() {}
