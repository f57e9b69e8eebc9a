//! `ClusterCoordinator`: one program that hands out steps to tasks that have none of their own.

mod builder;
mod chief;
mod executor;
mod queue;
mod remote_value;
mod shared;

use std::rc::Rc;

use tokio::task::{JoinHandle, spawn_local};

use crate::graph::{Graph, GraphError};
use crate::runtime::{Code, Error, Result};

use super::monitored_session::{MonitoredRun, MonitoredSession};
use super::task::Task;

pub use builder::CoordinatorBuilder;
use executor::Executor;
use remote_value::Promise;
pub use remote_value::RemoteValue;
use shared::{Scheduled, Shared};

/// Hands out the steps of a training to other tasks (TensorFlow 2:
/// `tf.distribute.coordinator.ClusterCoordinator`).
///
/// The one task that trains, a `chief` or the only `worker`, makes it. The tasks of another job are
/// its executors: they have no program but `task.join()`, and the first free one takes the next
/// step. So nobody waits for a slow one. The variables are on parameter servers, and the training
/// is asynchronous.
///
/// ```no_run
/// # use trainyard::prelude::*;
/// # use trainyard::training::ClusterCoordinator;
/// # struct Model { x: Output, y: Output, loss: Output, train_op: TrainOp }
/// # impl Model {
/// #     fn build(g: &Graph, task: &Task) -> Result<Self, GraphError> {
/// #         let x = g.placeholder("x", DType::F32, [None, Some(64)])?;
/// #         let y = g.placeholder("y", DType::I32, [None])?;
/// #         let loss = sparse_softmax_cross_entropy(&dense(&x, 10)?, &y)?.mean();
/// #         let train_op = task.minimize(Adagrad::new(0.05), &loss)?;
/// #         Ok(Self { x, y, loss, train_op })
/// #     }
/// # }
/// async fn trainer(task: Task) -> Result<()> {
///     if task.job() != "chief" {
///         return task.join().await;
///     }
///     let builder = ClusterCoordinator::builder(&task, "executor", |g| Model::build(g, &task))?;
///     let coordinator = builder.last_step(1000).open().await?;
///     let mut trained = Ok(());
///     while trained.is_ok() && !coordinator.should_stop() {
///         let batch = task.next_batch()?;
///         let scheduled = coordinator.schedule(move |model, run| {
///             run.feed(&model.x, batch.features.clone())
///                 .feed(&model.y, batch.labels.clone())
///                 .target(&model.train_op)
///                 .fetch(&model.loss)
///         });
///         trained = scheduled.await.map(drop);
///     }
///     coordinator.close_after(trained).await
/// }
/// ```
///
/// Each executor has a session of its own, and a copy of the model, which the coordinator builds
/// with the executor for its device. If an executor is lost in a step, the closure goes to another
/// one at once, and the session waits for its task as long as `network.recovery` says; then the
/// coordinator goes on without it, and fails when there is none left. A closure is run *at least
/// once*, as in TensorFlow: the gradient of the lost attempt may have been applied.
///
/// The chief's session gives the variables their first values, keeps the checkpoints and runs the
/// hooks. A lost parameter server, which ends a TensorFlow program, is recovered from as in any
/// monitored session: all go back to the checkpoint. Closures that ended after it are not run
/// again. A checkpoint is read while steps go on, so that some variables may lack the update of a
/// step that others have; the last one, of the end, has whole steps.
///
/// Dropped without [`close`](Self::close), it ends what its executors do, and the training has no
/// result.
pub struct ClusterCoordinator<M> {
    shared: Rc<Shared<M>>,
    model: M,
    chief: JoinHandle<Option<MonitoredSession>>,
    executors: Vec<JoinHandle<()>>,
}

shown!([M] ClusterCoordinator<M>, executors);

impl<M: 'static> ClusterCoordinator<M> {
    /// A builder of the coordinator of the tasks of `job`. `build` makes the model, in a graph that
    /// places variables on the parameter servers, and all else on the task whose copy it is: the
    /// chief, for hooks, and each executor.
    ///
    /// # Errors
    /// The error of `build`; if `task` is not the only one that trains, or not by the mode `async`,
    /// the cluster has no parameter server, or `job` no helpers.
    pub fn builder(
        task: &Task,
        job: &str,
        build: impl Fn(&Graph) -> Result<M, GraphError>,
    ) -> Result<CoordinatorBuilder<M>> {
        CoordinatorBuilder::new(task, job, build)
    }

    fn begin(
        task: &Task,
        model: M,
        chief: MonitoredSession,
        executors: Vec<Executor<M>>,
        room: usize,
    ) -> Self {
        let shared = Shared::new(task, executors.len(), room);
        if chief.should_stop() {
            shared.end();
        }
        let run = |executor: Executor<M>| spawn_local(executor.run(Rc::clone(&shared)));
        let executors = executors.into_iter().map(run).collect();
        let chief = spawn_local(chief::lead(Rc::clone(&shared), chief));
        Self { shared, model, chief, executors }
    }

    /// The chief's copy of the model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Schedules a step: `closure` adds feeds, fetches and targets of an executor's model to a run
    /// of its session. It is called again if the executor is lost. Waits while there is no room for
    /// another closure.
    ///
    /// # Errors
    /// The first error of a closure since the last one was told, once those under way have ended:
    /// what waited is cancelled, and this closure not scheduled. Of class `OutOfRange` if the
    /// training has come to its end, which [`close_after`](Self::close_after) takes for a good one.
    /// If the coordinator can't go on, always.
    pub async fn schedule(
        &self,
        closure: impl for<'a> Fn(&M, MonitoredRun<'a>) -> MonitoredRun<'a> + 'static,
    ) -> Result<RemoteValue> {
        let (promise, value) = Promise::new();
        let scheduled = || Scheduled { closure: Rc::new(closure), promise };
        match self.shared.put(scheduled).await? {
            Some(()) => Ok(value),
            None => {
                let message = "the training has come to its end, and no closure is scheduled any \
                               more; ask `should_stop` first";
                Err(Error::new(Code::OutOfRange, message))
            }
        }
    }

    /// Waits until all scheduled closures have ended.
    ///
    /// # Errors
    /// The first error of a closure since the last one was told; what waited is cancelled. If the
    /// coordinator can't go on, always.
    pub async fn join(&self) -> Result<()> {
        self.shared.all_done().await
    }

    /// Whether all scheduled closures have ended.
    ///
    /// # Errors
    /// As [`Self::join`].
    pub fn done(&self) -> Result<bool> {
        self.shared.is_done()
    }

    /// Waits for the result of a closure (TensorFlow: `fetch`).
    ///
    /// # Errors
    /// As [`RemoteValue::fetch`].
    pub async fn fetch(&self, value: &RemoteValue) -> Result<super::Fetched> {
        value.fetch().await
    }

    /// Whether the training is over: no closure is scheduled any more, and those that waited are
    /// cancelled.
    pub fn should_stop(&self) -> bool {
        self.shared.should_stop()
    }

    /// Ends the training cleanly once the closures under way have ended. Those that wait are
    /// cancelled: [`join`](Self::join) before, to have all of them run.
    ///
    /// # Errors
    /// As [`MonitoredSession::close`]; if the coordinator can't go on; the first error of a
    /// closure, unless [`schedule`](Self::schedule), [`join`](Self::join) or [`done`](Self::done)
    /// has returned it: a fetch does not count.
    pub async fn close(mut self) -> Result<()> {
        self.shared.close().await?;
        self.executors.iter().for_each(JoinHandle::abort);
        let chief = (&mut self.chief).await;
        match chief.expect("nobody aborts the chief's part, and it catches panics") {
            Some(chief) => chief.close().await?,
            None => self.shared.all_done().await?, // its error
        }
        self.shared.take_failure().map_or(Ok(()), Err)
    }

    /// Ends the training with `outcome`. The end of the training or of an input is a clean end; any
    /// other error is returned, and the hooks' `end` is not called.
    ///
    /// # Errors
    /// `outcome`'s error; else as [`ClusterCoordinator::close`].
    pub async fn close_after(self, outcome: Result<()>) -> Result<()> {
        match outcome {
            Err(error) if error.code != Code::OutOfRange => Err(error),
            _ => self.close().await,
        }
    }
}

impl<M> Drop for ClusterCoordinator<M> {
    fn drop(&mut self) {
        self.executors.iter().for_each(JoinHandle::abort);
        self.chief.abort();
    }
}
