//! Queues and accumulators: what outlives a step, besides variables.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Reduction;
use crate::graph::TensorType;

/// A queue or an accumulator. Two graphs that name the same one share it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceSpec {
    /// The name under which graphs share it.
    pub shared_name: Arc<str>,
    /// The namespace of resources that `Session::reset` clears as one.
    pub container: Arc<str>,
    /// What it is.
    pub kind: ResourceKind,
}

/// What kind of resource there is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ResourceKind {
    /// TensorFlow `FIFOQueueV2`.
    FifoQueue {
        /// The most elements; any number without one.
        capacity: Option<usize>,
        /// What an element is made of.
        components: Vec<TensorType>,
    },
    /// TensorFlow `ConditionalAccumulator`.
    ConditionalAccumulator {
        /// What a gradient is.
        value: TensorType,
        /// What is taken: the mean or the sum.
        reduction: Reduction,
    },
    /// TensorFlow `SparseConditionalAccumulator`.
    SparseConditionalAccumulator {
        /// What the gradients, which are of some rows of it, are of. How many rows it has is known.
        whole: TensorType,
        /// What is taken: the sum of each row, or its mean over the gradients that have it.
        reduction: Reduction,
    },
}

/// What an operation does to a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ResourceAction {
    /// `(component, …)` into the queue; waits for room.
    Enqueue,
    /// `(components, …)`: the rows of each are those of elements.
    EnqueueMany,
    /// An element's components; waits until there is one.
    Dequeue,
    /// So many elements, their components stacked.
    DequeueMany(usize),
    /// The same, but those that are left where the queue is closed.
    DequeueUpTo(usize),
    /// Closes the queue.
    CloseQueue {
        /// Refuse those who wait for room, instead of waiting for them.
        cancel_pending_enqueues: bool,
    },
    /// How many elements the queue has (i32).
    QueueSize,
    /// Whether the queue is closed (bool).
    QueueIsClosed,
    /// `(local step, gradient)`, or `(local step, indices, rows)` of a sparse one, into the
    /// accumulator, where the step is not before the accumulator's. Gives how many steps it is
    /// before that (i64).
    ApplyGradient,
    /// `(number)`: all gradients together, as soon as there are so many; of a sparse one the
    /// indices and the rows.
    TakeGradient,
    /// How many gradients there are (i32).
    NumAccumulated,
    /// `(step)`: gradients of steps before it are dropped from now on.
    SetGlobalStep,
}

impl ResourceKind {
    /// What it is called in errors.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::FifoQueue { .. } => "FIFOQueue",
            Self::ConditionalAccumulator { .. } => "ConditionalAccumulator",
            Self::SparseConditionalAccumulator { .. } => "SparseConditionalAccumulator",
        }
    }
}

impl ResourceAction {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Enqueue => "QueueEnqueueV2",
            Self::EnqueueMany => "QueueEnqueueManyV2",
            Self::Dequeue => "QueueDequeueV2",
            Self::DequeueMany(_) => "QueueDequeueManyV2",
            Self::DequeueUpTo(_) => "QueueDequeueUpToV2",
            Self::CloseQueue { .. } => "QueueCloseV2",
            Self::QueueSize => "QueueSizeV2",
            Self::QueueIsClosed => "QueueIsClosedV2",
            Self::ApplyGradient => "AccumulatorApplyGradient",
            Self::TakeGradient => "AccumulatorTakeGradient",
            Self::NumAccumulated => "AccumulatorNumAccumulated",
            Self::SetGlobalStep => "AccumulatorSetGlobalStep",
        }
    }
}
