//! Comparisons of two elements, and functions of truth values, broadcast.

use super::types::{broadcast, number, outputs, truth};
use crate::graph::{
    ComputeError, Cost, Defined, GraphError, GraphProblem, Known, OpDef, Output, OutputTypes,
    Outputs, TensorType, bytes,
};
use crate::kernels::broadcast::{map2_broadcast, shape_of};
use crate::kernels::parallel::map;
use crate::kernels::{by_number, written};
use crate::tensor::{DType, Element, Tensor};

listed! {
    /// A comparison of two elements of one type of numbers. Shapes are broadcast as NumPy does it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Compare {
        /// `a = b`, of truth values too. A NaN equals nothing.
        Equal,
        /// `a ≠ b`, of truth values too.
        NotEqual,
        /// `a < b`
        Less,
        /// `a ≤ b`
        LessEqual,
        /// `a > b`
        Greater,
        /// `a ≥ b`
        GreaterEqual,
    }
    pub(crate) const ALL;
    /// The name of its kind.
    fn name;
}

listed! {
    /// A function of truth values.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Logical {
        /// `(a, b)`: both, broadcast.
        And as "LogicalAnd",
        /// `(a, b)`: either or both, broadcast.
        Or as "LogicalOr",
        /// `(a)`: the opposite.
        Not as "LogicalNot",
    }
    pub(crate) const ALL;
    /// The name of its kind.
    fn name;
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    let comparisons = Compare::ALL.map(Defined::from);
    comparisons.into_iter().chain(Logical::ALL.map(Defined::from)).collect()
}

impl OpDef for Compare {
    without_attributes!();

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let takes_truth = matches!(self, Self::Equal | Self::NotEqual);
        let (fits, needs) = match inputs {
            [_, _] if takes_truth => (
                number(inputs).or_else(|| truth(inputs)),
                "two numbers of one type or two bool, of shapes that broadcast",
            ),
            [_, _] => (number(inputs), "two numbers of one type, of shapes that broadcast"),
            _ => (None, "another number of inputs"),
        };
        of_truth(fits, needs, inputs)
    }

    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        one_each(inputs, outputs)
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let (a, b) = (inputs[0], inputs[1]);
        Ok(match a.dtype() {
            DType::Bool => compare::<bool>(*self, a, b),
            dtype => by_number!(dtype, T => compare::<T>(*self, a, b)),
        })
    }
}

impl OpDef for Logical {
    without_attributes!();

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let (fits, needs) = match (self, inputs) {
            (Self::Not, [_]) => (truth(inputs), "one bool"),
            (Self::And | Self::Or, [_, _]) => (truth(inputs), "two bool, of shapes that broadcast"),
            _ => (None, "another number of inputs"),
        };
        of_truth(fits, needs, inputs)
    }

    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        one_each(inputs, outputs)
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        Ok(match (self, inputs) {
            (Self::And, [a, b]) => zipped(a, b, |a: bool, b: bool| a & b),
            (Self::Or, [a, b]) => zipped(a, b, |a: bool, b: bool| a | b),
            (_, inputs) => {
                let x = inputs[0];
                written(x.shape(), |out| map(x.slice::<bool>(), out, |x| !x))
            }
        })
    }
}

/// Truth values of the shape that the inputs broadcast to.
fn of_truth(
    fits: Option<DType>,
    needs: &str,
    inputs: &[TensorType],
) -> Result<OutputTypes, GraphProblem> {
    let shape = fits.and_then(|_| broadcast(inputs));
    outputs(shape.map(|shape| TensorType::new(DType::Bool, shape)), needs, inputs)
}

fn one_each(inputs: &[Known], outputs: &[Known]) -> Cost {
    Cost::work(outputs[0].1.elements(), bytes(inputs) + bytes(outputs))
}

fn compare<T: Element + PartialOrd>(op: Compare, a: &Tensor, b: &Tensor) -> Outputs {
    match op {
        Compare::Equal => zipped(a, b, |a: T, b: T| a == b),
        Compare::NotEqual => zipped(a, b, |a: T, b: T| a != b),
        Compare::Less => zipped(a, b, |a: T, b: T| a < b),
        Compare::LessEqual => zipped(a, b, |a: T, b: T| a <= b),
        Compare::Greater => zipped(a, b, |a: T, b: T| a > b),
        Compare::GreaterEqual => zipped(a, b, |a: T, b: T| a >= b),
    }
}

/// `op(a[i], b[i])` of each pair of elements, broadcast.
#[inline(always)]
fn zipped<X: Element, Y: Element>(
    a: &Tensor,
    b: &Tensor,
    op: impl Fn(X, X) -> Y + Copy + Sync,
) -> Outputs {
    let shape = shape_of(a.shape(), b.shape());
    written(shape, |out| {
        map2_broadcast((a.slice(), a.shape()), (b.slice(), b.shape()), out, shape, op);
    })
}

macro_rules! methods {
    ($($method:ident $op:ident $function:ident $says:literal),* $(,)?) => {
        /// Truth values, of two elements of one type. Shapes are broadcast as NumPy does it.
        impl Output {$(
            #[doc = $says]
            ///
            /// # Errors
            /// If the element types differ or do not have the function, or the shapes do not
            /// broadcast.
            #[track_caller]
            pub fn $method(&self, other: &Self) -> Result<Self, GraphError> {
                self.with(&[other], $op::$function)
            }
        )*}
    };
}
methods! {
    equal Compare Equal "Where `a = b` (bool); of truth values too.",
    not_equal Compare NotEqual "Where `a ≠ b` (bool); of truth values too.",
    less Compare Less "Where `a < b` (bool).",
    less_equal Compare LessEqual "Where `a ≤ b` (bool).",
    greater Compare Greater "Where `a > b` (bool).",
    greater_equal Compare GreaterEqual "Where `a ≥ b` (bool).",
    logical_and Logical And "Where both hold.",
    logical_or Logical Or "Where either or both hold.",
}

impl Output {
    /// The opposite truth values.
    #[track_caller]
    pub fn logical_not(&self) -> Self {
        self.map(Logical::Not)
    }
}
