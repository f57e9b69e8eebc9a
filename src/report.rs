//! The result of an experiment: a plain model, and one writer a format. Simulation and deployment
//! fill the same model.
//!
//! [`html::write`] writes a page to look at, [`json::write`] the whole report, [`csv::Steps`] every
//! worker step, [`csv::Evaluations`] every evaluation on the test split, [`events::write`] both for
//! TensorBoard, and [`table::render`] the comparison that a reader sees first, for a terminal or in
//! Markdown. The callers decide
//! where the files go. [`plan::Plan`] is the other result: a sweep with times and prices.

mod aim;
mod best_rates;
mod comparison;
pub mod csv;
mod estimate;
pub mod events;
mod expectations;
pub mod html;
pub mod json;
mod model;
pub(crate) mod number;
mod path;
pub mod plan;
mod plot;
mod remarks;
mod series;
pub(crate) mod shell;
mod statistics;
mod swept;
pub mod table;
#[cfg(test)]
mod tests;
mod text_table;
mod timeline;
mod tuned;
mod verdict;

pub use aim::Aim;
pub use comparison::{Comparison, Figure, PhaseComparison, TimeSpent, summary};
pub use estimate::Estimate;
pub use expectations::{Checked, Expectations, Expected, write_junit};
pub use model::{
    End, EvaluationRow, Gradients, NoSuchRun, Report, Run, SkippedFaultText, TaskUsage, World,
};
pub use path::{Bottleneck, CriticalPath, PathPart, Pauses, TimeCause};
pub use series::Summary;
pub use statistics::{Staleness, StepSeconds};
pub use swept::Swept;
pub use text_table::Layout;
pub(crate) use text_table::TextTable;
pub use timeline::Timeline;
pub use tuned::{Tried, Tuned};
pub use verdict::{Measure, Speedup};
