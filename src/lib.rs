//! Distributed training in the shape of TensorFlow's runtime: one program, two worlds.
mod cli;
pub mod clock;
pub mod cluster;
pub mod graph;
pub mod kernels;
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
/// `trainer` runs once for each task of the cluster, and finds out from its [`training::Task`] which it is.
pub fn main<T, F>(trainer: T) -> std::process::ExitCode
where
    T: Fn(training::Task) -> F + Sync,
    F: Future<Output = runtime::Result<()>> + 'static,
{
    cli::run(trainer).into()
}

/// What a trainer needs, in one `use`.
pub mod prelude {
    pub use crate::graph::{Graph, Output, Target, Variable, accuracy, dense, gradients, sparse_softmax_cross_entropy};
    pub use crate::optimizer::{Adagrad, Adam, Coordinated, GradientDescent, Momentum, Optimizer, TrainOp};
    pub use crate::placement::ReplicaDeviceSetter;
    pub use crate::runtime::{Code, Error, Result, Server, SessionOptions};
    pub use crate::tensor::{DType, Tensor};
    pub use crate::training::{MonitoredSession, Session, StopAtStep, Task};
}
