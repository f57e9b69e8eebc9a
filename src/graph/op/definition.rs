//! The whole definition of a kind of operation, for every part of the library.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde::ser::{Serialize, Serializer};
use smallvec::SmallVec;

use super::{Attribute, Attributes, Op};
use crate::graph::{
    Backprop, Cost, GraphError, GraphProblem, Output, OutputTypes, TensorType, refused,
};
use crate::tensor::{DType, Shape, Tensor};

/// The element type and the shape of a value in a step.
pub type Known = (DType, Shape);

/// The outputs of a kernel.
pub type Outputs = SmallVec<[Tensor; 2]>;

/// The whole definition of a kind of operation: its name, its attributes, the types of its outputs,
/// its gradient, its cost and its arithmetic (TensorFlow registers these apart, as `OpDef`, shape
/// function, gradient function and kernel).
///
/// A program defines an operation of its own by implementing this trait for a type that holds its
/// attributes. It [registers](crate::operations::register_operation) the type before it does
/// anything else, and [applies](Output::apply) it.
///
/// ```
/// use trainyard::graph::{
///     Attributes, Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, Known, OpDef,
///     Output, OutputTypes, Outputs, TensorType,
/// };
/// use trainyard::tensor::{DType, Tensor};
///
/// /// `x²`, by a kernel of one's own.
/// #[derive(Debug)]
/// struct OwnSquare;
///
/// impl OpDef for OwnSquare {
///     fn kind(&self) -> &'static str {
///         "OwnSquare"
///     }
///
///     fn attributes(&self, _: &mut Attributes) -> Defined {
///         Self.into()
///     }
///
///     fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
///         match inputs {
///             [x] if x.dtype == DType::F32 => Ok([*x].into_iter().collect()),
///             _ => Err(GraphProblem::needs("one f32", inputs)),
///         }
///     }
///
///     fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
///         let (x, dy) = (of.input(0), of.only_arrived()?);
///         Ok(vec![Some(dy.mul(&x.add(&x)?)?)])
///     }
///
///     fn cost(&self, inputs: &[Known], _: &[Known]) -> Cost {
///         let elements = inputs[0].1.elements();
///         Cost::work(elements, 8 * elements)
///     }
///
///     fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
///         let squares: Vec<f32> = inputs[0].values()?.iter().map(|x: &f32| x * x).collect();
///         Ok([Tensor::new(inputs[0].shape(), &squares)?].into_iter().collect())
///     }
/// }
///
/// trainyard::operations::register_operation(OwnSquare);
/// let g = trainyard::graph::Graph::new();
/// let x = g.constant(3f32);
/// let y = x.apply(OwnSquare, &[])?;
/// assert_eq!(y.name(), "OwnSquare");
/// # Ok::<(), GraphError>(())
/// ```
pub trait OpDef: Any + fmt::Debug + Send + Sync {
    /// The kind's name in operations' names, errors and messages.
    fn kind(&self) -> &'static str;

    /// The same operation with the attributes that are `given`; the others are those of `self`.
    fn attributes(&self, given: &mut Attributes) -> Defined;

    /// The types of its outputs. It is called when a graph is built, where a dimension may be
    /// unknown, and when a step runs, where all are known. If an output's dimension is still
    /// unknown then, the kernel decides it.
    ///
    /// # Errors
    /// [`GraphProblem::needs`] if the inputs don't fit.
    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem>;

    /// The gradients for its inputs, in their order, from those that have arrived at its outputs.
    /// `None` for an input that the outputs don't depend on smoothly, or that is not
    /// [wanted](Backprop::wants).
    ///
    /// # Errors
    /// [`Backprop::no_gradient`] if the operation has no gradient, which is the default.
    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        Err(of.no_gradient())
    }

    /// The cost of its kernel, for inputs and outputs of these types.
    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost;

    /// Computes the outputs, for inputs that fit.
    ///
    /// # Errors
    /// If the kernel can't work on the values of the inputs, even though their types fit.
    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError>;
}

/// An operation with its attributes, as a value.
#[derive(Clone)]
pub struct Defined(Arc<dyn OpDef>);

/// The error of a kernel that can't work on the values of its inputs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ComputeError(String);

impl ComputeError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl From<crate::tensor::TensorError> for ComputeError {
    fn from(error: crate::tensor::TensorError) -> Self {
        Self(error.to_string())
    }
}

impl GraphProblem {
    /// The error that `inputs` don't fit what an operation `needs`.
    pub fn needs(needs: &str, inputs: &[TensorType]) -> Self {
        refused(needs, inputs)
    }
}

impl Defined {
    /// The definition itself, if it is a `D`.
    pub fn get<D: OpDef>(&self) -> Option<&D> {
        let definition: &dyn Any = &*self.0;
        definition.downcast_ref()
    }

    /// The definition behind the value.
    pub(crate) fn definition(&self) -> &dyn OpDef {
        &*self.0
    }

    /// Its attributes by their names.
    pub(crate) fn listed(&self) -> Vec<(&'static str, Attribute)> {
        let mut attributes = Attributes::default();
        self.0.attributes(&mut attributes);
        attributes.into_listed()
    }

    /// Whether both have the same type and kind, whatever their attributes.
    pub(crate) fn is_same_kind(&self, other: &Self) -> bool {
        let [a, b]: [&dyn Any; 2] = [&*self.0, &*other.0];
        a.type_id() == b.type_id() && self.0.kind() == other.0.kind()
    }
}

impl<D: OpDef> From<D> for Defined {
    fn from(definition: D) -> Self {
        Self(Arc::new(definition))
    }
}

impl<D: OpDef> From<D> for Op {
    fn from(definition: D) -> Self {
        Self::Defined(definition.into())
    }
}

impl PartialEq for Defined {
    fn eq(&self, other: &Self) -> bool {
        self.is_same_kind(other) && self.listed() == other.listed()
    }
}

impl fmt::Debug for Defined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Writes the kind and the values of the attributes. The registry of
/// [operations](crate::operations) reads them back.
impl Serialize for Defined {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values: Vec<Attribute> = self.listed().into_iter().map(|(_, value)| value).collect();
        (self.0.kind(), values).serialize(serializer)
    }
}
