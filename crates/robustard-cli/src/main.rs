//! The `robustard` command.
fn main() {}
