//! What a user holds: the task that a program is, sessions, hooks, data sets, and the built-in trainer.

pub mod checkpoint;
pub mod data;
mod first_values;
mod hooks;
mod method;
mod models;
mod monitored_session;
mod record;
mod recovery;
mod session;
mod settings;
mod task;
mod trainer;
mod weights;

pub use hooks::{Flow, Hook, StopAtStep};
pub use monitored_session::{Builder, MonitoredRun, MonitoredSession};
pub use record::{Beginning, Ending, Evaluation, Recorder, StepStats};
pub use session::{Fetched, Run, Session};
pub use settings::{Averaging, Embedding, Model, OptimizerSettings, Published, Settings, Stop};
pub use task::{Task, TaskParts};
pub(crate) use trainer::step_graph;
pub use trainer::train;
