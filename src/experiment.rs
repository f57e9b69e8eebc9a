//! Experiments: a scenario's cluster, program and runs, given to a world, and what came of them as
//! a report.

pub mod scenario;
