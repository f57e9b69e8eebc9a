//! The result of an experiment: a plain model, and one writer a format. Simulation and deployment
//! fill the same model.
//!
//! [`json::write`] writes all of it, [`csv::Steps`] every worker step, [`csv::Evaluations`] every look at the test split,
//! [`events::write`] both
//! for TensorBoard, [`table::render`] the comparison a reader sees first. What this module does not
//! own is where the files go.

pub mod csv;
pub mod events;
pub mod json;
mod model;
mod statistics;
pub mod table;
#[cfg(test)]
mod tests;

pub use model::{EvaluationRow, Gradients, NoSuchRun, Report, Run, StepRow, World};
pub use statistics::{Staleness, StepSeconds};
