//! A task's share of the training's data, and the inputs that its program makes.

use std::rc::Rc;
use std::sync::Arc;

use crate::data::{Batch, Batches, ByteLen, DataError, Dataset, Pipeline};
use crate::graph::Replica;
use crate::runtime::{Code, Error, Result};

use super::super::input::{Input, Position};
use super::{Task, TaskParts};

/// A worker's share of the training's data.
pub(super) enum Data {
    InMemory(Batches),
    Streamed(Input<Batch>),
}

impl Data {
    /// The share of `dataset` that belongs to `replica`.
    ///
    /// # Errors
    /// If it can't be divided, or its files are not there.
    pub(super) fn share(parts: &TaskParts, dataset: &Dataset, replica: Replica) -> Result<Self> {
        let refused = |error: DataError| Error::new(Code::InvalidArgument, error.to_string());
        let Replica { worker, workers, .. } = replica;
        let batch = parts.settings.batch;
        if let Some(stream) = dataset.train.stream() {
            let pipeline = stream.batches(parts.seed, (worker, workers), batch).map_err(refused)?;
            let clock = Rc::clone(&parts.clock);
            let input = Input::new("dataset", pipeline, clock, parts.settings.read_rate);
            return Ok(Self::Streamed(input));
        }
        let train = Arc::new(dataset.train.clone());
        let batches = Batches::new(train, parts.seed, worker, workers, batch).map_err(refused)?;
        Ok(Self::InMemory(batches))
    }
}

impl Task {
    /// The elements of `pipeline`, for the steps of this task. The input's position is in the
    /// training's checkpoints under `name`; so it has to be made before [`Task::minimize`] builds
    /// the training operation.
    pub fn input<T: ByteLen>(&self, name: &str, pipeline: Pipeline<T>) -> Input<T> {
        let clock = Rc::clone(&self.inner.parts.clock);
        let input = Input::new(name, pipeline, clock, self.settings().read_rate);
        self.inner.inputs.borrow_mut().push(input.position());
        input
    }

    /// The inputs that the task has made, in their order; that of a scenario's data is the first.
    pub(in crate::training) fn inputs(&self) -> Vec<Rc<dyn Position>> {
        self.inner.inputs.borrow().clone()
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
