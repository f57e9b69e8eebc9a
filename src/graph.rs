//! The dataflow graph: operations, the edges between them, and the passes that need no cluster.
//!
//! A graph is a plain value that runs nothing. A user builds one through [`Graph`], which gives out
//! [`Output`]s and [`Variable`]s; a session takes a snapshot of it, a [`GraphDef`]. Each
//! operation's shapes are checked as it is added, with the batch dimension unknown where it is fed.
//! An error names the operation, the shapes and the line that built it.
//!
//! | TensorFlow | here |
//! |---|---|
//! | gradients are placed wherever the scope says | on the device of the operation that they differentiate |
//! | a device function sees slot variables, and round robin counts them | slots follow their variable; no device function sees them |
//! | same-named variables of another shape are read without an error | refused when the graph is registered |
//! | a variable is a resource handle, an input like others | a named place; operations list their variables apart from their inputs |

mod all_reduce;
mod builder;
mod clip;
mod cost;
mod device_scope;
mod error;
mod fence;
mod function;
mod gradients;
mod indexed_slices;
mod initializers;
mod layers;
mod losses;
mod mirrors;
mod op;
mod operations;
mod output;
mod partitioned_variable;
mod partitioner;
mod prune;
mod read_instead;
mod received;
mod resource;
mod scopes;
mod shape_inference;
mod state;
mod tower_variables;
mod towers;
mod training_steps;
mod variable;
mod variable_part;
mod variables;

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::cluster::DeviceSpec;
use crate::tensor::{DType, PartialShape};

pub use all_reduce::AllReduce;
pub use builder::Graph;
pub use clip::{clip_by_global_norm, global_norm};
pub use cost::{Cost, KernelKind};
pub use device_scope::{DeviceFunction, OperationRequest};
pub use error::{GraphError, GraphProblem, OtherError};
pub(crate) use function::Call;
pub use function::Function;
pub use gradients::{Backprop, gradients, variable_gradients};
pub use indexed_slices::{Gradient, IndexedSlices};
pub use initializers::{Fan, Spread, VarianceScaling};
pub use layers::{
    BatchNorm, accuracy, avg_pool2d, conv2d, conv2d_without_bias, dense, dropout, flatten,
    layer_norm, max_pool2d, moments,
};
pub use losses::{
    huber_loss, l2_loss, mean_squared_error, sigmoid_cross_entropy, softmax_cross_entropy,
    sparse_softmax_cross_entropy,
};
pub use mirrors::{MirroredGradients, mirrored_gradients};
pub use op::{Attribute, Attributes, ComputeError, Defined, Known, OpDef, Outputs};
pub use op::{
    Axes, LearningRate, Mirror, Op, Padding, RandomLaw, Reduction, Replica, ResourceAction,
    ResourceKind, ResourceSpec, Schedule, ShardStrategy, Sharding, Sliding, Subscript,
    VariableSpec,
};
pub(crate) use op::{Elementwise, RowsAt, bytes};
pub use op::{
    FirstValue, Parameter, ParameterValue, Parameters, Range, Rule, RuleState, Slot, UpdateRule,
};
pub use output::{Output, Target, concat, stack};
pub use partitioned_variable::{
    InitialRows, PartitionedVariable, embedding_lookup, embedding_lookup_unique,
};
pub use partitioner::Partitioner;
pub(crate) use prune::prune;
pub(crate) use received::{MAX_OPERATIONS, Names, ReceivedOperation};
pub use resource::{ConditionalAccumulator, FifoQueue, SparseConditionalAccumulator};
pub use shape_inference::OutputTypes;
pub(crate) use shape_inference::{agree, infer, one, refused};
pub(crate) use state::{Name, NewOperation};
pub use towers::tower_gradients;
pub use variable::Variable;
pub(crate) use variable_part::{VariablePart, first_part};

/// An operation of a graph: its position in [`GraphDef::operations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OpId(pub u32);

/// One output of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Edge {
    /// The operation.
    pub op: OpId,
    /// The index of the output.
    pub output: u32,
}

/// An element type and a shape, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The shape.
    pub shape: PartialShape,
}

/// One operation of a graph.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its name, unique in the graph.
    pub name: Arc<str>,
    /// Its kind, with its attributes.
    pub op: Op,
    /// The values it needs, in order.
    pub inputs: SmallVec<[Edge; 3]>,
    /// The operations that must have run before it.
    pub control_inputs: SmallVec<[OpId; 2]>,
    /// The variables it touches: the one it reads or changes, then that one's slots.
    pub variables: SmallVec<[OpId; 2]>,
    /// The types of its outputs.
    pub outputs: OutputTypes,
    /// The device it must run on, as far as the user requested one.
    pub device: DeviceSpec,
    /// An operation on whose device it must run.
    pub colocated_with: Option<OpId>,
    /// The line of the user's program that built it.
    pub built_at: &'static Location<'static>,
}

/// A graph as a value: operations in the order they were built, so that inputs come before users.
#[derive(Clone, Debug, Default)]
pub struct GraphDef {
    /// The operations; an [`OpId`] is a position in it.
    pub operations: Vec<Operation>,
    /// The lines that built the operations, by their positions, if another process built them.
    built_elsewhere: Vec<Arc<str>>,
}

impl GraphDef {
    /// The operation `id`.
    pub fn operation(&self, id: OpId) -> &Operation {
        &self.operations[id.0 as usize]
    }

    /// All operations with their ids, in the order they were built.
    pub fn iter(&self) -> impl Iterator<Item = (OpId, &Operation)> {
        self.operations.iter().enumerate().map(|(i, operation)| (OpId(i as u32), operation))
    }

    /// The variable that the operation `id` declares, if it declares one.
    pub fn variable(&self, id: OpId) -> Option<&VariableSpec> {
        match &self.operation(id).op {
            Op::Variable(spec) => Some(spec),
            _ => None,
        }
    }

    /// The type of the value on `edge`.
    pub fn edge_type(&self, edge: Edge) -> TensorType {
        self.operation(edge.op).outputs[edge.output as usize]
    }
}

impl TensorType {
    /// A type of `dtype` and `shape`.
    pub fn new(dtype: DType, shape: impl Into<PartialShape>) -> Self {
        Self { dtype, shape: shape.into() }
    }

    /// The dimensions, if the elements are f32.
    pub(crate) fn float_dims(&self) -> Option<&[Option<usize>]> {
        (self.dtype == DType::F32).then(|| self.shape.dims())
    }

    fn is_float_scalar(&self) -> bool {
        self.float_dims().is_some_and(<[_]>::is_empty)
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

impl fmt::Display for Operation {
    /// `hidden/MatMul (MatMul)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.op.kind())
    }
}

#[cfg(test)]
mod tests;
