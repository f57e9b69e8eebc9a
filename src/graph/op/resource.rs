//! Queues and accumulators: the resources, besides variables, that outlive a step.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Reduction;
use crate::graph::TensorType;

/// The declaration of a queue or an accumulator. Two graphs that name the same one share it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceSpec {
    /// The name under which graphs share it.
    pub shared_name: Arc<str>,
    /// The namespace of resources that `Session::reset` clears as one.
    pub container: Arc<str>,
    /// Its kind.
    pub kind: ResourceKind,
}

/// A kind of resource, with its attributes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ResourceKind {
    /// TensorFlow `FIFOQueueV2`.
    FifoQueue {
        /// The most elements it can hold; unlimited if `None`.
        capacity: Option<usize>,
        /// The types of an element's components.
        components: Vec<TensorType>,
    },
    /// TensorFlow `ConditionalAccumulator`.
    ConditionalAccumulator {
        /// The type of a gradient.
        value: TensorType,
        /// The reduction of the gradients that are taken: the mean or the sum.
        reduction: Reduction,
    },
    /// TensorFlow `SparseConditionalAccumulator`.
    SparseConditionalAccumulator {
        /// The type of the whole value, of whose rows the gradients are. Its number of rows is
        /// known.
        whole: TensorType,
        /// The reduction of each row that is taken: its sum, or its mean over the gradients that
        /// have it.
        reduction: Reduction,
    },
}

/// An action of an operation on a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ResourceAction {
    /// Puts an element `(component, …)` into the queue; waits for room.
    Enqueue,
    /// Puts many elements `(components, …)` into the queue: one for each row of the components.
    EnqueueMany,
    /// Takes an element, as its components; waits until there is one.
    Dequeue,
    /// Takes this many elements, their components stacked.
    DequeueMany(usize),
    /// As [`Self::DequeueMany`], but takes the elements that are left if the queue is closed.
    DequeueUpTo(usize),
    /// Closes the queue.
    CloseQueue {
        /// Whether enqueues that wait for room are refused, instead of waited for.
        cancel_pending_enqueues: bool,
    },
    /// The number of elements in the queue (i32).
    QueueSize,
    /// Whether the queue is closed (bool).
    QueueIsClosed,
    /// Adds `(local step, gradient)`, or `(local step, indices, rows)` to a sparse accumulator,
    /// unless the local step is before the accumulator's step. Gives the number of steps that it is
    /// before it (i64).
    ApplyGradient,
    /// `(number)`: the reduction of all gradients, as soon as there are this many; of a sparse
    /// accumulator the indices and the rows.
    TakeGradient,
    /// The number of gradients (i32).
    NumAccumulated,
    /// `(step)`: from now on gradients of earlier steps are dropped.
    SetGlobalStep,
}

impl ResourceKind {
    /// The kind's name in errors.
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
