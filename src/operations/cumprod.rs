//! Products of all elements up to each along an axis.

use super::types::outputs;
use super::{Array, Compare};
use crate::graph::{
    Attributes, Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, Known, OpDef,
    Output, OutputTypes, Outputs, TensorType, bytes,
};
use crate::kernels::scan::{self, Order};
use crate::kernels::{by_number, written};
use crate::tensor::Tensor;

/// `(x)`: the products of all elements up to each along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cumprod {
    /// The axis.
    pub axis: usize,
    /// Whether each product leaves out the element itself.
    pub exclusive: bool,
    /// Whether the products begin at the end.
    pub reverse: bool,
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    vec![Cumprod { axis: 0, exclusive: false, reverse: false }.into()]
}

impl OpDef for Cumprod {
    fn kind(&self) -> &'static str {
        "Cumprod"
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        Self {
            axis: given.size("axis", self.axis),
            exclusive: given.flag("exclusive", self.exclusive),
            reverse: given.flag("reverse", self.reverse),
        }
        .into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let fits = |x: &TensorType| self.axis < x.shape.rank() && x.dtype.is_number();
        let result = match inputs {
            [x] if fits(x) => Some(*x),
            _ => None,
        };
        outputs(result, &format!("numbers, and an axis {}", self.axis), inputs)
    }

    /// Sums of products, divided by the element; 0 for an element that is 0, as in TensorFlow.
    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let (x, products) = (of.input(0), of.only_arrived()?.mul(&of.output(0))?);
        let Self { axis, exclusive, reverse } = *self;
        let sums = products.with(&[], Array::Cumsum { axis, exclusive, reverse: !reverse })?;
        let (zero, one) = (x.scalar_alike(0.0), x.scalar_alike(1.0));
        let is_zero = x.with(&[&zero], Compare::Equal)?;
        let quotient = sums.div(&is_zero.select(&one, &x)?)?;
        Ok(vec![Some(is_zero.select(&zero, &quotient)?)])
    }

    fn cost(&self, inputs: &[Known], outputs: &[Known]) -> Cost {
        Cost::work(inputs[0].1.elements(), bytes(inputs) + bytes(outputs))
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let Self { axis, exclusive, reverse } = *self;
        let (x, order) = (inputs[0], Order { exclusive, reverse });
        let shape = x.shape();
        let along = [shape.dims()[axis], shape.dims()[axis + 1..].iter().product()];
        Ok(by_number!(x.dtype(), N => written::<N>(shape, |out| {
            scan::products(x.slice::<N>(), along, order, out);
        })))
    }
}

impl Output {
    /// The products along `axis` up to each element; with `exclusive` without the element itself,
    /// with `reverse` from the end (TensorFlow `tf.math.cumprod`). Integers wrap.
    ///
    /// The gradient for an element that is 0 is 0, as in TensorFlow, though the products may depend
    /// on it.
    ///
    /// # Errors
    /// If there is no such axis, or the elements can't be multiplied.
    #[track_caller]
    pub fn cumprod(&self, axis: isize, exclusive: bool, reverse: bool) -> Result<Self, GraphError> {
        let axis = self.axis(axis)?;
        self.with(&[], Cumprod { axis, exclusive, reverse })
    }
}
