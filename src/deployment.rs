//! The deployed world: one process a task, on one machine or many, over QUIC with mutual TLS.
//!
//! [`Seat`] is a process's place in a cluster, found from flags, a file, `TF_CONFIG` or SLURM;
//! [`run`] runs a program there, as [`simulation`](mod@crate::simulation) runs one for all tasks of
//! a simulated cluster. A launcher starts a process for each task of a cluster on this machine,
//! follows the processes to their end and merges their records
//! ([`Experiment::launch`](crate::experiment::Experiment::launch)). [`ask()`] asks a running task
//! for its status, [`ask_cluster`] all tasks of a cluster, and [`examine_machine`] finds settings
//! of this machine that harm a training. Processes exchange [`Message`]s, whoever started them: a
//! server made by [`Server::quic`](crate::runtime::Server::quic) is one of them. A [`Client`] is no
//! task: it has sessions on servers in other processes, such as one that [`serve()`] runs.

mod ask;
mod busy_poll;
mod certificates;
mod client;
mod control;
mod error;
mod exit_code;
mod launch;
mod machine;
mod network;
mod observation;
mod pace;
mod renewal;
mod role;
mod seat;
mod seated;
mod serve;
mod server;
mod standstill;
mod stop;
mod task;

pub use ask::{Answers, Question, ask, ask_cluster};
pub(crate) use busy_poll::block_on;
pub use certificates::Certificates;
pub use client::{Client, run_client};
pub(crate) use control::{Control, Event};
pub use error::DeploymentError;
pub(crate) use error::{of_certificate, of_unanswered};
pub use exit_code::ExitCode;
pub(crate) use launch::folder::{self, Folder};
pub(crate) use launch::{
    Ended, Launch, Stopped, Tuning, VARIABLES, event_loop, last_words, launch, log_of, refusal,
};
pub(crate) use machine::cores;
pub use machine::{Finding, examine_machine};
pub use network::{Message, PeerRefused, TaskStatus};
pub(crate) use role::read_cluster;
pub(crate) use role::with_task;
pub use role::{RoleFlags, find_role, require_role};
pub(crate) use seat::session_master;
pub use seat::{Proof, Seat};
pub use serve::serve;
pub use stop::StopRequest;
pub use task::{Member, TaskOutcome, run};
