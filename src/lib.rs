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
//!     let mut trained = Ok(());
//!     while trained.is_ok() && !session.should_stop() {
//!         let batch = task.next_batch()?;
//!         let run = session.run().feed(&x, batch.features).feed(&y, batch.labels);
//!         trained = run.target(&train_op).fetch(&loss).await.map(drop);
//!     }
//!     session.close_after(trained).await
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     trainyard::main(trainer) // the command line, for this program
//! }
//! ```
//!
//! # Where to read on
//!
//! | guide | for |
//! |---|---|
//! | [`docs::tutorial`] | from a first simulation to three machines |
//! | [`docs::scenarios`] | what can be modelled, all modes, and what a report says |
//! | [`docs::deploying`] | tasks, certificates, checkpoints, and what happens when tasks fail |
//! | [`docs::coming_from_tensorflow`] | TensorFlow's trainer beside ours, name by name |
//! | [`docs::extending`] | operations and update rules of your own; modes, for the library |
//! | [`docs::architecture`] | a map of the code, and the life of a step through it |
//! | [`docs::guarantees`] | what can be relied on, and where that ends |
//! | [`docs::glossary`] | the words |
//!
//! The modules, from those that a program uses to those that everything else uses:
//!
//! | module | owns |
//! |---|---|
//! | [`experiment`], [`scenario`], [`report`] | runs, in either world; what they are of; results |
//! | [`simulation`] | virtual time, network and compute models, faults |
//! | [`deployment`] | processes, their roles, sockets and signals |
//! | [`live`] | what can be seen of a run while it goes on |
//! | [`training`] | tasks, sessions, hooks |
//! | [`tape`] | the order of what deployed tasks received |
//! | [`checkpoint`], [`data`], [`models`], [`import`] | saving; data sets; networks; TensorFlow's graphs |
//! | [`runtime`] | the actors: master, worker, parameter server |
//! | [`transport`], [`clock`] | what carries messages and tells the time |
//! | [`optimizer`] | update rules, and the operations of a training step |
//! | [`operations`] | what each operation means: the library's, and those of a program |
//! | [`placement`], [`partition`] | operations to devices; a placed graph, cut by device |
//! | [`graph`], [`kernels`] | operations; the numbers, and what they cost |
//! | [`sync`] | when a gradient counts and when a worker goes on |
//! | [`cluster`], [`tensor`], [`units`], [`random`] | names; values; quantities; seeded streams |

#[cfg(not(unix))]
compile_error!("trainyard takes Unix's processes, signals and permissions; on Windows, use WSL 2");

/// Implements `Debug` by the type's name and those of its fields that tell one value from another,
/// where others can't be shown or are too much to read.
macro_rules! shown {
    ([$($generics:tt)*] $shown:ty $(, $field:ident)*) => {
        impl<$($generics)*> std::fmt::Debug for $shown {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($shown))
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    };
    ($shown:ty $(, $field:ident)*) => {
        shown!([] $shown $(, $field)*);
    };
}

/// An enum without fields, with `ALL`, its variants in their order. A `fn name` at the end gives
/// the name of each: the variant's own, or what stands after `as`.
macro_rules! listed {
    (
        $(#[$of_enum:meta])*
        $shown:vis enum $listed:ident {
            $($(#[$of_one:meta])* $one:ident $(= $number:literal)? $(as $name:literal)?,)+
        }
        $all:vis const ALL;
        $($names:tt)*
    ) => {
        $(#[$of_enum])*
        $shown enum $listed {
            $($(#[$of_one])* $one $(= $number)?,)+
        }

        impl $listed {
            /// All of them, in order.
            $all const ALL: [Self; [$(stringify!($one)),+].len()] = [$(Self::$one),+];
        }

        listed!(@names $listed { $($one $($name)?,)+ } $($names)*);
    };
    (@names $listed:ident { $($all:tt)+ }) => {};
    (
        @names $listed:ident { $($one:ident $($name:literal)?,)+ }
        $(#[$of_fn:meta])* $named:vis fn name;
    ) => {
        impl $listed {
            $(#[$of_fn])*
            $named fn name(self) -> &'static str {
                match self {
                    $(Self::$one => listed!(@name $one $($name)?),)+
                }
            }
        }
    };
    (@name $one:ident) => { stringify!($one) };
    (@name $one:ident $name:literal) => { $name };
}

/// Appends formatted text to a `String`, which can't fail: there is no error for anybody to handle.
macro_rules! append {
    ($text:expr, $($words:tt)+) => {{
        use std::fmt::Write as _;
        $text.write_fmt(format_args!($($words)+)).expect("a string takes all");
    }};
}

pub mod checkpoint;
mod cli;
pub mod clock;
pub mod cluster;
pub mod data;
pub mod deployment;
pub mod docs;
mod event_file;
pub mod experiment;
mod faults;
pub mod graph;
pub mod import;
pub mod kernels;
pub mod live;
pub mod models;
#[cfg(test)]
mod on_actix;
pub mod operations;
pub mod optimizer;
pub mod partition;
pub mod placement;
mod planted;
mod process;
pub mod random;
pub mod report;
pub mod runtime;
mod say;
pub mod scenario;
pub mod simulation;
pub mod sync;
pub mod tape;
pub mod tensor;
pub mod training;
pub mod transport;
pub mod units;
mod user_file;

/// Makes a test of a function of one seed: it holds if the function neither panics nor gives an
/// error with any seed from 0 up to `seeds`, 10 without the argument.
///
/// ```
/// use trainyard::experiment::Experiment;
///
/// #[trainyard::test(seeds = 100)]
/// fn synchronous_gradients_are_never_stale(seed: u64) -> Result<(), Box<dyn std::error::Error>> {
///     let experiment = Experiment::load("sims/sync_vs_async.toml")?.seed(seed);
///     let report = experiment.simulate(trainyard::training::train)?;
///     let staleness = report.run("sync")?.staleness.as_ref().expect("it has applied some");
///     assert_eq!(staleness.mean, 0.0);
///     Ok(())
/// }
/// ```
///
/// Seeds run beside each other, one a core. A failure names all seeds that fail, and the command
/// that runs the first of them alone: `TRAINYARD_TEST_SEED=17 cargo test NAME`.
/// `TRAINYARD_TEST_SEEDS=1000` gives every test over seeds as many, such as in a nightly run.
pub use trainyard_macros::test;

/// The arrays that a [`tensor::Tensor`] is made from and viewed as, in the version that it takes.
#[doc(no_inline)]
pub use ndarray;
/// The short lists that operations of a program's own give, such as [`graph::Outputs`].
#[doc(no_inline)]
pub use smallvec;

/// Runs the command line (`sim` and the rest) for your own program.
///
/// `trainer` runs once for each task of the cluster, and learns its task from its
/// [`training::Task`].
pub fn main<T, F>(trainer: T) -> std::process::ExitCode
where
    T: Fn(training::Task) -> F + Sync,
    F: Future<Output = runtime::Result<()>> + 'static,
{
    cli::run(trainer).into()
}

/// Everything that a trainer needs, in one `use`.
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
