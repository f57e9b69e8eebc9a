//! The whole definition of a kind of operation, for every part of the library.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Attribute, Attributes, Op};
use crate::graph::{
    Backprop, Cost, Function, GraphError, GraphProblem, KernelKind, Output, OutputTypes,
    TensorType, refused,
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
/// anything else, and [applies](Output::apply) it; one without inputs or outputs by
/// [`Graph::apply`](crate::graph::Graph::apply).
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
    /// Other tasks get what is asked for here and nothing else, so an operation whose other fields
    /// differ from those of the registered one is refused when it is applied. What is compared is
    /// the `Debug` text: a field that it leaves out is not, and one that is written in any order,
    /// such as a `HashMap`, should be left out.
    fn attributes(&self, given: &mut Attributes) -> Defined;

    /// The types of its outputs. It is called when a graph is built, where a dimension may be
    /// unknown, and when a step runs, where all are known. If an output's dimension is still
    /// unknown then, the kernel decides it.
    ///
    /// # Errors
    /// [`GraphProblem::needs`] if the inputs don't fit.
    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem>;

    /// The gradients for its inputs, in their order, from those that have arrived at its outputs:
    /// one for each input, of the input's type and shape. `None` for an input that the outputs
    /// don't depend on smoothly, or that is not [wanted](Backprop::wants). Others are refused by
    /// [`gradients`](crate::graph::gradients()) as [`GraphProblem::WrongGradient`].
    ///
    /// # Errors
    /// [`Backprop::no_gradient`] if the operation has no gradient, which is the default.
    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        Err(of.no_gradient())
    }

    /// The cost of its kernel, for inputs and outputs of these types: every element of each is read
    /// or written once, without arithmetic, unless it says otherwise.
    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        Cost::moved(bytes(inputs) + bytes(outputs))
    }

    /// Computes the outputs, for inputs that fit.
    ///
    /// # Errors
    /// If the kernel can't work on the values of the inputs, even though their types fit.
    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError>;

    /// Whether the outputs depend on the values of the inputs, and not on their shapes alone.
    fn needs_values(&self) -> bool {
        true
    }

    /// The kind of its kernel, by which a device reaches another share of its peak rates.
    #[doc(hidden)]
    fn kernel_kind(&self) -> KernelKind {
        KernelKind::Elementwise
    }

    /// The functions that it runs.
    #[doc(hidden)]
    fn functions(&self) -> Vec<&Function> {
        Vec::new()
    }

    /// The operation as a link of a chain, if it can be one.
    #[doc(hidden)]
    fn elementwise(&self) -> Option<&dyn Elementwise> {
        None
    }
}

/// An operation of floats that computes each element of its result from the same element of one
/// input, while its other input, if it has one, is as large or the same for all elements. Several
/// in a row run as one kernel.
pub trait Elementwise: Send + Sync {
    /// Whether the other input has a value for each column, and is the second.
    fn is_by_column(&self) -> bool {
        false
    }

    /// Computes `out` from `x`, some elements of input `at`, and those of the other input.
    fn of_f32(&self, at: usize, x: &[f32], other: Option<(&[f32], Shape)>, out: &mut [f32]);

    /// The same, of f64.
    fn of_f64(&self, at: usize, x: &[f64], other: Option<(&[f64], Shape)>, out: &mut [f64]);
}

/// An operation with its attributes, as a value.
#[derive(Clone)]
pub struct Defined {
    definition: Arc<dyn OpDef>,
    /// Whether the types of what its kernel computes are compared with those that it has inferred.
    is_checked: bool,
}

/// The memory that values of these types take \[bytes\].
pub(crate) fn bytes(types: &[Known]) -> usize {
    types.iter().map(|(dtype, shape)| dtype.size() * shape.elements()).sum()
}

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
        let definition: &dyn Any = &*self.definition;
        definition.downcast_ref()
    }

    /// The definition behind the value.
    pub(crate) fn definition(&self) -> &dyn OpDef {
        &*self.definition
    }

    /// The same operation, whose kernel is checked: a program's.
    pub(crate) fn checked(self) -> Self {
        Self { is_checked: true, ..self }
    }

    /// Whether its kernel is checked.
    pub(crate) fn is_checked(&self) -> bool {
        self.is_checked
    }

    /// Its attributes by their names.
    pub(crate) fn listed(&self) -> Vec<(&'static str, Attribute)> {
        let mut attributes = Attributes::default();
        self.definition.attributes(&mut attributes);
        attributes.into_listed()
    }

    /// The same operation with `values`, those of all its attributes. `None` if it has others.
    pub(crate) fn with(&self, values: Vec<Attribute>) -> Option<Self> {
        let mut attributes = Attributes::in_order(values);
        let read = self.definition.attributes(&mut attributes);
        let read = if self.is_checked { read.checked() } else { read };
        attributes.are_complete().then_some(read)
    }

    /// Whether both have the same type and kind, whatever their attributes.
    pub(crate) fn is_same_kind(&self, other: &Self) -> bool {
        let [a, b]: [&dyn Any; 2] = [&*self.definition, &*other.definition];
        a.type_id() == b.type_id() && self.definition.kind() == other.definition.kind()
    }
}

impl<D: OpDef> From<D> for Defined {
    fn from(definition: D) -> Self {
        Self { definition: Arc::new(definition), is_checked: false }
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
        self.definition.fmt(f)
    }
}
