//! The `trainyard` binary.
fn main() {}
