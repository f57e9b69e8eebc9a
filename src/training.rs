//! The user's side of a training: the program's `Task`, sessions, hooks, data sets, and the
//! built-in trainer.

mod aftermath;
mod checkpointing;
mod checkpoints;
mod coordinator;
mod estimator;
mod evaluator;
mod fetched;
pub mod hooks;
mod input;
mod monitored_session;
mod own_values;
mod places;
mod positions;
mod record;
mod recording;
mod recovery;
mod restoring;
mod run_metadata;
mod run_options;
mod run_settings;
mod scaffold;
mod session;
mod session_creator;
mod settings;
mod step_log;
mod summary;
mod task;
mod trainer;
mod weights;

pub(crate) use aftermath::run_to_end;
pub use checkpointing::{Checkpointing, Consistency};
pub use coordinator::{ClusterCoordinator, CoordinatorBuilder, RemoteValue};
pub use estimator::{
    BestExporter, EstimatorSpec, EvalSpec, Evaluated, Exporter, LatestExporter, ModeKey, TrainSpec,
    train_and_evaluate,
};
pub use fetched::{FetchKey, Fetched};
pub use hooks::{
    CheckpointSaver, CheckpointSaverListener, FeedFn, FinalOps, FinalValues, GlobalStepWaiter,
    Hook, HookContext, HookFuture, InMemoryEvaluator, LoggingTensor, NanTensor, Profiler, RunArgs,
    RunValues, SecondOrStepTimer, StepCounter, StopAtStep, StopAtTime, SummarySaver,
    SyncReplicasHook,
};
pub use input::Input;
pub(crate) use input::data_error;
pub use monitored_session::{Builder, Feeds, MonitoredRun, MonitoredSession};
pub(crate) use own_values::has_own_values;
pub use record::{
    Beginning, BegunAnew, Ending, Evaluation, Fact, FailedCheckpoint, Formed, Restore, StepStats,
};
pub(crate) use recording::Unheard;
pub use recording::{Recording, SharedRecording, Watch};
pub use run_metadata::RunMetadata;
pub use run_options::{RunOptions, TraceLevel};
pub use run_settings::RunSettings;
pub use scaffold::Scaffold;
pub use session::{Callable, RunFuture, Session, SessionRun};
pub(crate) use settings::Looks;
pub use settings::{
    AllReduceKind, AllReduceSettings, EvaluatorSettings, Settings, Stop, SyncReplicasSettings,
};
pub(crate) use step_log::StepLog;
pub use summary::SummaryWriter;
pub use task::{Task, TaskParts};
pub(crate) use trainer::step_graph;
pub use trainer::train;
