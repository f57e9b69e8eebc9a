//! Distributed training in the shape of TensorFlow's runtime: one program, two worlds.
//!
//! A program is one async function that every task of a cluster runs. It builds a dataflow graph,
//! opens a session, and takes training steps; parameter servers hold the variables, workers
//! compute, a master coordinates each step. The same program runs in *simulation*, where all tasks
//! are actors of one process on a virtual clock, with a modelled network, modelled compute time and
//! real gradients, and in *deployment*, where each task is a process, on one machine or many, over
//! QUIC with mutual TLS.
//!
//! ```no_run
//! use trainyard::prelude::*;
//!
//! async fn trainer(task: Task) -> Result<()> {
//!     if task.job() == "ps" {
//!         return task.join().await;
//!     }
//!     let g = Graph::new();
//!     g.set_random_seed(task.seed());
//!     let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
//!     let (x, y, loss, train_op) = g.with_device_fn(setter, |g| {
//!         let x = g.placeholder("x", DType::F32, [None, Some(64)])?;
//!         let y = g.placeholder("y", DType::I32, [None])?;
//!         let logits = dense(&dense(&x, 128)?.relu(), 10)?;
//!         let loss = sparse_softmax_cross_entropy(&logits, &y)?.mean();
//!         let train_op = task.minimize(Adagrad::new(0.05), &loss)?;
//!         Ok((x, y, loss, train_op))
//!     })?;
//!     let mut session =
//!         MonitoredSession::builder(&task, g).hook(StopAtStep::last_step(100)).open().await?;
//!     while !session.should_stop() {
//!         let batch = task.next_batch()?;
//!         let run = session.run().feed(&x, batch.features).feed(&y, batch.labels);
//!         run.target(&train_op).fetch(&loss).await?;
//!     }
//!     session.close().await
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     trainyard::main(trainer) // every subcommand of the command line, for this program
//! }
//! ```
//!
//! # A map of the code
//!
//! From what knows least to what knows most; a module uses only those above it in this table (a
//! test reads the edges from the code). Policies are plain structs with tests; actors only adapt
//! them.
//!
//! | module | owns |
//! |---|---|
//! | [`units`], [`random`] | quantities with their units; seeded streams |
//! | [`tensor`] | element type, shape, aligned reference-counted buffer |
//! | [`cluster`] | names and specifications of jobs, tasks and devices |
//! | [`sync`] | when a gradient counts and when it is applied |
//! | [`graph`] | operations, edges, shape inference, gradients, pruning |
//! | [`kernels`] | the numbers, and what they cost |
//! | [`placement`], [`partition`] | operations to devices; a placed graph, cut by device |
//! | [`optimizer`] | update rules and the graph that applies them |
//! | [`clock`], [`transport`] | what tells the time and carries messages, in either world |
//! | [`runtime`] | the actors: master, worker, parameter server |
//! | [`import`] | graphs of TensorFlow's, read into ours |
//! | [`training`] | tasks, sessions, hooks, data sets |
//! | [`simulation`] | virtual time, network and compute models, faults |
//! | [`deployment`] | processes, their roles, sockets and signals |
//! | [`experiment`] | scenarios: a cluster, a program and the runs to compare |
//! | [`report`] | results and how they are written |
//!
//! # The life of a step
//!
//! | hop | where | decides | hands on |
//! |---|---|---|---|
//! | 1 | `training/session.rs` `Session::run_step` | feeds, fetches | `RunStep` |
//! | 2 | `runtime/master.rs` `Master::run_step` | known plan, or prune, place, partition, register | `RunGraph`s |
//! | 3 | `runtime/worker.rs` `Worker::run_graph` | what has come for the step already | an executor, new or idle |
//! | 4 | `runtime/worker/executor.rs` `Executor::run_ready` | what is ready, in a fixed order | kernels, requests, sends |
//! | 5 | `kernels/registry.rs` `call` | the numbers, and their cost | tensors |
//! | 6 | `runtime/worker.rs` `Worker::receive` | who waits for a value | ready operations |
//! | 7 | `transport`, `simulation/world.rs` | when an envelope arrives | delivery |
//! | 8 | `runtime/parameter_server.rs` `ParameterServer::serve` | asks [`sync`], applies the [`optimizer`] | `Served` |
//! | 9 | `runtime/master.rs` `Master::collect` | all done, or who failed and why | `StepDone` |
//! | 10 | `training/hooks.rs` | stop, log | a row of the report |

pub mod checkpoint;
mod cli;
pub mod clock;
pub mod cluster;
pub mod data;
pub mod deployment;
mod event_file;
pub mod experiment;
pub mod graph;
pub mod import;
pub mod kernels;
pub mod models;
pub mod optimizer;
pub mod partition;
pub mod placement;
pub mod random;
pub mod report;
pub mod runtime;
pub mod simulation;
pub mod sync;
pub mod tensor;
pub mod training;
pub mod transport;
pub mod units;

/// Runs the command line (`sim` and the rest) for a program of one's own.
///
/// `trainer` runs once for each task of the cluster, and finds out from its [`training::Task`]
/// which it is.
pub fn main<T, F>(trainer: T) -> std::process::ExitCode
where
    T: Fn(training::Task) -> F + Sync,
    F: Future<Output = runtime::Result<()>> + 'static,
{
    cli::run(trainer).into()
}

/// What a trainer needs, in one `use`.
pub mod prelude {
    pub use crate::graph::{
        Graph, GraphError, Output, Target, Variable, accuracy, concat, dense, gradients,
        sparse_softmax_cross_entropy, stack,
    };
    pub use crate::graph::{Padding, Sliding, avg_pool2d, conv2d, flatten, max_pool2d};
    pub use crate::import;
    pub use crate::optimizer::{
        Adadelta, Adagrad, AdagradDa, Adam, AdamW, ClipGradients, ExponentialMovingAverage, Ftrl,
        GradientDescent, IntoOptimizer, Lamb, LearningRate, LocalSgd, Momentum, Optimizer,
        ProximalAdagrad, ProximalGradientDescent, RmsProp, Schedule, SyncReplicas, SyncReplicasOp,
        TrainOp,
    };
    pub use crate::placement::ReplicaDeviceSetter;
    pub use crate::runtime::{Code, Error, Result, Server, SessionOptions};
    pub use crate::tensor::{DType, Tensor};
    pub use crate::training::{
        InMemoryEvaluator, MonitoredSession, Session, StopAtStep, StopAtTime, SyncReplicasHook,
        Task,
    };
}
