//! The runtime: the actors of a task, and a step's way through them.
//!
//! Every task runs a [`Server`], and every server hosts all three actors, because the runtime is
//! peer to peer: any task can be a master, and any can be given operations by any other.
//!
//! - the *master* (`master`, `step_plan`): sessions; prunes, places, partitions, registers, starts
//!   and collects steps
//! - the *remote master* (`remote`): stands in for the master of another server, for the sessions
//!   that this process has there
//! - the *worker* (`worker`, `plan`, `executor`, `rendezvous`): registered partitions, and kernels
//!   on the device
//! - the *parameter server* (`parameter_server`, `variable_store`, `coordination`): variables, and
//!   when they change
//!
//! The runtime is handed a transport, a clock and a device ([`ServerWorld`]), and does not know
//! whether they are real: that is what lets one program run in two worlds.

mod access;
mod actors;
mod checkpoint_news;
mod codec;
mod compression;
mod compute;
mod devices;
mod error;
mod gathered;
mod incarnation;
mod inquiry;
mod log_limit;
mod mail;
mod mailbox;
mod master;
mod messages;
mod ordered;
mod outbox;
mod own_values;
mod panics;
mod parameter_server;
mod patience;
mod places;
mod processor;
mod program_state;
mod progress;
mod remote;
mod reply;
mod server;
mod session_options;
mod session_status;
mod signal;
mod spare;
mod state;
mod target;
mod training_state;
mod waiting;
mod worker;

pub(crate) use checkpoint_news::Watched;
pub use compression::Encoding;
pub(crate) use compute::leaves_message_thread;
pub use compute::{Asker, Calculation, ComputeModel, Work, WorkerStep};
pub use devices::{ClusterDevices, Devices};
pub(crate) use error::{CLOSED, program_panicked, simulation_panicked, stopped};
pub use error::{Code, Error, Result};
pub(crate) use inquiry::Inquiry;
pub(crate) use mail::{MasterMail, ResetContainers, RunStep, StepDone};
pub(crate) use mailbox::{messages_sent, tell};
pub(crate) use master::step_plan::partitions;
pub(crate) use messages::About;
pub use messages::{
    Arrival, Arrivals, ClientMessage, GraphHandle, GraphOrder, Life, MasterMessage, OperationTime,
    Origin, Packed, ParameterServerMessage, PeerMessage, Places, Placing, ProgramMessage, Scope,
    SentOperation, SentValue, SessionAction, SessionAnswer, SessionCall, SessionId, StepId,
    StepOrder, Traffic, Values, WorkerMessage,
};
pub use own_values::{OwnValues, OwnValuesAnswer};
pub(crate) use panics::panic_text;
pub(crate) use parameter_server::GRACE;
pub use patience::Patience;
pub(crate) use patience::{FLUSH, FLUSH_FAILED, NOTICE, STOP_GRACE};
pub use processor::Processor;
pub(crate) use processor::{Gate, attempt, is_computing};
pub(crate) use progress::TrainingProgress;
pub(crate) use remote::ClientEnd;
pub(crate) use reply::Answer;
pub use server::{Server, ServerDef, ServerWorld};
pub use session_options::SessionOptions;
pub use session_status::SessionStatus;
pub(crate) use signal::Signal;
pub use target::ServerTarget;
pub(crate) use training_state::never_saved;
pub(crate) use waiting::{TO_LEAVE, Waiting};
