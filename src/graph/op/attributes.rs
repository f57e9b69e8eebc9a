//! Attributes of operations: laws of chance, variables, replicas.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::graph::TensorType;
use crate::sync::Mode;
use crate::tensor::{DType, Shape};

/// The distribution of random values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum RandomLaw {
    /// Uniform in `[low, high)`.
    Uniform {
        /// The least value.
        low: f32,
        /// The bound above.
        high: f32,
    },
    /// Normal.
    Normal {
        /// The mean.
        mean: f32,
        /// The standard deviation.
        deviation: f32,
    },
    /// Normal, drawn again where farther than two deviations from the mean.
    TruncatedNormal {
        /// The mean.
        mean: f32,
        /// The standard deviation, before truncation.
        deviation: f32,
    },
}

/// The declaration of a variable. Two graphs that name the same variable share it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariableSpec {
    /// The name under which graphs share the variable; the operation's own name unless another was
    /// given.
    pub shared_name: Arc<str>,
    /// The namespace of resources that `Session::reset` clears as one.
    pub container: Arc<str>,
    /// The element type.
    pub dtype: DType,
    /// The shape.
    pub shape: Shape,
    /// Whether an optimizer updates it.
    pub trainable: bool,
    /// Whether each worker has its own copy (TensorFlow: the collection `LOCAL_VARIABLES`).
    pub is_local: bool,
}

/// One of the workers that train the same variables.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replica {
    /// The worker's index, from 0.
    pub worker: u32,
    /// The number of workers.
    pub workers: u32,
    /// The mode of their coordination.
    pub mode: Mode,
}

impl Replica {
    /// The only worker of a training: the replica of an optimizer that knows of no other workers.
    pub const ALONE: Self = Self { worker: 0, workers: 1, mode: Mode::Async };

    /// Whether `replica` can run steps built for this worker: they were built for a worker alone,
    /// and run asynchronously.
    pub(crate) fn may_become(self, replica: Self) -> bool {
        self == Self::ALONE && replica.mode == Mode::Async
    }

    /// Checks that this is another worker of `other`'s training; if not, the error is the
    /// difference.
    pub(crate) fn check_trains_with(&self, other: &Self) -> Result<(), String> {
        if (self.workers, self.mode) == (other.workers, other.mode) && self.worker < self.workers {
            return Ok(());
        }
        let known = format!("{} workers ({})", other.workers, other.mode);
        Err(format!("{self} can't join a training of {known}; all must say the same"))
    }
}

impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {} of {} ({})", self.worker, self.workers, self.mode)
    }
}

impl VariableSpec {
    /// The type of the variable's value.
    pub fn tensor_type(&self) -> TensorType {
        TensorType::new(self.dtype, self.shape)
    }

    /// The size of the value \[bytes\].
    pub fn byte_size(&self) -> u64 {
        (self.shape.elements() * self.dtype.size()) as u64
    }
}
