//! The choice of one of two whole values.

use smallvec::smallvec;

use super::types::typed;
use crate::graph::{
    Backprop, ComputeError, Cost, Defined, GraphError, GraphProblem, Known, OpDef, Output,
    OutputTypes, Outputs, TensorType,
};
use crate::tensor::{DType, Shape, Tensor};

/// `(condition, a, b)`: `b` where the condition, a scalar, holds, else `a`; and which of them it
/// is, 0 or 1 (i32). Unlike those of a `Select`, their shapes may differ.
///
/// TensorFlow's `Merge` of two branches, both of which are computed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choose;

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    vec![Choose.into()]
}

impl OpDef for Choose {
    without_attributes!("Choose");

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let outputs = match inputs {
            [condition, a, b]
                if *condition == TensorType::new(DType::Bool, Shape::SCALAR)
                    && a.dtype == b.dtype
                    && a.shape.rank() == b.shape.rank() =>
            {
                let dims = a.shape.dims().iter().zip(b.shape.dims());
                let alike = dims.map(|(a, b)| if a == b { *a } else { None });
                typed(a.dtype, &alike.collect::<Vec<_>>())
            }
            _ => None,
        };
        let mut outputs = outputs.ok_or_else(|| {
            let needs = "a bool scalar, and two values of one type and number of dimensions";
            GraphProblem::needs(needs, inputs)
        })?;
        outputs.push(TensorType::new(DType::I32, Shape::SCALAR));
        Ok(outputs)
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let (condition, dy) = (of.input(0), of.only_arrived()?);
        let by_a = || condition.with(&[&dy, &of.input(1).zeros_like()], *self);
        let by_b = || condition.with(&[&of.input(2).zeros_like(), &dy], *self);
        Ok(vec![None, of.for_input(1, by_a)?, of.for_input(2, by_b)?])
    }

    fn cost(&self, _: &[Known], _: &[Known]) -> Cost {
        Cost::default()
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let is_second = inputs[0].slice::<bool>()[0];
        let chosen = if is_second { inputs[2] } else { inputs[1] };
        Ok(smallvec![chosen.clone(), Tensor::scalar(i32::from(is_second))])
    }
}
