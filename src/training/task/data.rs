//! A task's share of the training's data, and the inputs that its program makes.

use std::rc::{Rc, Weak};
use std::sync::Arc;

use crate::data::{Batch, Batches, ByteLen, DataError, Dataset, Pipeline};
use crate::graph::Replica;
use crate::runtime::{Code, Error, Result};

use super::super::input::{Input, Position};
use super::{Task, TaskParts};

/// A worker's share of the training's data.
pub(super) enum Data {
    /// The batches of this task; where its client runs mirrored towers, those of each task of its
    /// replica, in their order.
    InMemory(Vec<Batches>),
    /// The same, joined as they are read. Each step takes one of every task, so that one position
    /// is that of all.
    Streamed(Input<Batch>),
}

impl Data {
    /// The share of `dataset` that belongs to `replica`.
    ///
    /// # Errors
    /// If it can't be divided, or its files are not there.
    pub(super) fn share(parts: &TaskParts, dataset: &Dataset, replica: Replica) -> Result<Self> {
        let refused = |error: DataError| Error::new(Code::InvalidArgument, error.to_string());
        let tasks = match parts.settings.all_reduce {
            Some(_) => {
                parts.server.server_def().cluster.replica_of(parts.server.task()).len() as u32
            }
            None => 1,
        };
        // Each task of mirrored towers has the batches that it would have as a worker.
        let batch = parts.settings.batch / tasks as usize;
        let place = |task| (replica.worker * tasks + task, replica.workers * tasks);
        if let Some(stream) = dataset.train.stream() {
            let of_task = |task| {
                let (worker, workers) = place(task);
                stream.batches(parts.seed, worker, workers, batch)
            };
            let all = (0..tasks).map(of_task).collect::<Result<_, _>>().map_err(refused)?;
            let pipeline = Pipeline::zipped(all, Batch::joined);
            let clock = Rc::clone(parts.server.clock());
            let input = Input::new("dataset", pipeline, clock, parts.settings.read_rate);
            return Ok(Self::Streamed(input));
        }
        let train = Arc::new(dataset.train.clone());
        let of_task = |task| {
            let (worker, workers) = place(task);
            let (train, seed) = (Arc::clone(&train), parts.seed);
            match parts.settings.label_concentration {
                Some(of_labels) => {
                    Batches::skewed(train, seed, (worker, workers), batch, of_labels)
                }
                None => Batches::new(train, seed, worker, workers, batch),
            }
        };
        let batches = (0..tasks).map(of_task).collect::<Result<_, _>>();
        Ok(Self::InMemory(batches.map_err(refused)?))
    }
}

impl Task {
    /// The elements of `pipeline`, for the steps of this task. The input's position is in the
    /// training's checkpoints under `name`; so it has to be made before [`Task::minimize`] builds
    /// the training operation. Where something else builds that, call [`Task::count_inputs`] before
    /// it does. A session that writes checkpoints is not opened without.
    pub fn input<T: ByteLen>(&self, name: &str, pipeline: Pipeline<T>) -> Input<T> {
        let clock = Rc::clone(self.inner.parts.server.clock());
        let input = Input::new(name, pipeline, clock, self.settings().read_rate);
        self.inner.inputs.borrow_mut().push(Rc::downgrade(&input.position()));
        input
    }

    /// The worker's next batch of its share of the data; batches never run out.
    ///
    /// Each training step is to take one: where the training goes back to a checkpoint, and where a
    /// worker is started again, the batch follows from the number of the step. What takes more or
    /// fewer, reads [`Task::input`], whose position is saved.
    ///
    /// # Errors
    /// If the scenario has no data, or the task is no worker.
    pub fn next_batch(&self) -> Result<Batch> {
        match &mut *self.inner.data.borrow_mut() {
            Some(Data::InMemory(towers)) => {
                Ok(Batch::joined(towers.iter_mut().map(Batches::next_batch).collect()))
            }
            Some(Data::Streamed(input)) => input.take(),
            None => {
                let message = format!("{} has no share of any data", self.name());
                Err(Error::new(Code::FailedPrecondition, message))
            }
        }
    }

    /// Moves to the batch of the step after `global_step`. In synchronous training it is exactly
    /// the batch that a worker takes that never was away; in asynchronous training, and by tokens,
    /// it assumes that all workers are equally fast.
    pub(in crate::training) fn seek_batches(&self, global_step: u64) {
        if let Some(Data::InMemory(batches)) = &mut *self.inner.data.borrow_mut()
            && !self.has_executor()
        {
            let steps = self.steps_of_this_worker(global_step);
            batches.iter_mut().for_each(|batches| batches.seek(steps));
        }
    }

    /// The number of steps that the worker has taken at `global_step`, if all are equally fast.
    pub(in crate::training) fn steps_of_this_worker(&self, global_step: u64) -> u64 {
        let steps = |Replica { mode, workers, .. }: Replica| match self.settings().sync_replicas {
            Some(by_tokens) => {
                let tokens = u64::from(by_tokens.tokens_of_an_update(workers));
                global_step * tokens / u64::from(workers.max(1))
            }
            None => mode.steps_of_a_worker(global_step, workers),
        };
        self.inner.replica.map_or(0, steps)
    }

    /// The number of a worker's steps for each step that changes the shared variables.
    pub(in crate::training) fn local_steps(&self) -> u64 {
        self.copies().map_or(1, |copies| copies.every.into())
    }

    /// The inputs that the task has made and that are there yet, in their order; that of a
    /// scenario's data is the first.
    pub(in crate::training) fn inputs(&self) -> Vec<Rc<dyn Position>> {
        self.inner.inputs.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    /// Waits until the next batch is read, if it is of data that is read as it is used.
    pub(in crate::training) async fn batch_is_read(&self) -> Result<()> {
        let input = match &*self.inner.data.borrow() {
            Some(Data::Streamed(input)) => input.position(),
            _ => return Ok(()),
        };
        input.ready().await
    }
}
