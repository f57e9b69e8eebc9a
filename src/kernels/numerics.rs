//! Whether kernels compute numbers, or only the types of their results.

use serde::Deserialize;

use super::registry::{self, KernelError};
use crate::graph::{Array, Op, Outputs, TensorType, infer};
use crate::tensor::Tensor;

/// Whether the numbers are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Numerics {
    /// Real gradients, real loss.
    #[default]
    Real,
    /// Shapes, costs and bytes only, without loss and accuracy: for models too large for this
    /// machine.
    ///
    /// Floats, and all values computed from them, are hollow tensors, which take no memory. Values
    /// that are computed from integers and truth values alone are real (ids, steps, verdicts), and
    /// so are constants and feeds.
    Shapes,
}

impl Numerics {
    /// Computes the outputs of `op`, whose inputs shape inference has checked.
    ///
    /// # Errors
    /// If the operation can't work on the inputs' values, though their types fit.
    pub(crate) fn call(self, op: &Op, inputs: &[&Tensor]) -> Result<Outputs, KernelError> {
        let hollow = match self {
            Self::Real => None,
            Self::Shapes => hollow_outputs(op, inputs)?,
        };
        hollow.map_or_else(|| registry::call(op, inputs), Ok)
    }

    /// `value` as a variable keeps it: hollow, if floats have no numbers.
    pub(crate) fn kept(self, value: Tensor) -> Tensor {
        match self {
            Self::Shapes if value.dtype().is_float() => {
                Tensor::hollow(value.dtype(), value.shape())
            }
            _ => value,
        }
    }
}

/// The hollow outputs of `op`, if floats have no numbers; `None` if its outputs have numbers
/// anyway.
///
/// # Errors
/// If the shape of the outputs depends on an input without numbers.
fn hollow_outputs(op: &Op, inputs: &[&Tensor]) -> Result<Option<Outputs>, KernelError> {
    if let Op::Array(Array::Shape(_) | Array::Size(_) | Array::Rank) = op {
        return Ok(None);
    }
    let types: Vec<TensorType> =
        inputs.iter().map(|input| TensorType::new(input.dtype(), input.shape())).collect();
    let outputs =
        infer(op, &types, &[]).expect("an operation runs once its outputs' types are inferred");
    let is_hollow = inputs.iter().any(|input| input.is_hollow())
        || outputs.iter().any(|output| output.dtype.is_float());
    if !is_hollow {
        return Ok(None);
    }
    let known = |output: &TensorType| output.shape.known().ok_or(KernelError::Shapeless(op.kind()));
    let hollow = outputs.iter().map(|output| Ok(Tensor::hollow(output.dtype, known(output)?)));
    hollow.collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Comparison;
    use crate::graph::Sparse;
    use crate::tensor::{DType, Shape};

    fn shapes(op: &Op, inputs: &[&Tensor]) -> Tensor {
        Numerics::Shapes.call(op, inputs).unwrap().remove(0)
    }

    #[test]
    fn floats_are_hollow_even_where_all_they_are_made_of_is_real() {
        let huge = Shape::from([1 << 20, 1 << 20]);
        assert_eq!(
            shapes(&Op::Fill { shape: huge, value: 1f32.into() }, &[]),
            Tensor::hollow(DType::F32, huge)
        );
        let labels = Tensor::new([2], &[3i32, 4]).unwrap();
        assert_eq!(shapes(&Op::Cast(DType::F32), &[&labels]), Tensor::hollow(DType::F32, [2]));
    }

    #[test]
    fn what_is_computed_from_a_hollow_value_is_hollow_whatever_its_type() {
        let logits = Tensor::hollow(DType::F32, [7]);
        let predicted = shapes(&Op::Cast(DType::I64), &[&logits]);
        assert_eq!(predicted, Tensor::hollow(DType::I64, [7]));
        let labels = Tensor::zeros(DType::I64, [7]);
        assert_eq!(
            shapes(&Op::Compare(Comparison::Equal), &[&predicted, &labels]),
            Tensor::hollow(DType::Bool, [7])
        );
    }

    #[test]
    fn integers_made_of_integers_are_real_and_so_is_the_shape_of_a_hollow_value() {
        let ids = Tensor::new([2], &[3i32, 4]).unwrap();
        assert_eq!(shapes(&Op::Cast(DType::I64), &[&ids]).values::<i64>().unwrap(), [3, 4]);
        assert_eq!(
            shapes(&Op::Compare(Comparison::Equal), &[&ids, &ids]).values::<bool>().unwrap(),
            [true, true]
        );
        let hollow = Tensor::hollow(DType::F32, [5, 6]);
        assert_eq!(
            shapes(&Op::Array(Array::Shape(DType::I32)), &[&hollow]).values::<i32>().unwrap(),
            [5, 6]
        );
    }

    #[test]
    fn an_operation_whose_shape_depends_on_numbers_needs_them() {
        let unique = Op::Sparse(Sparse::Unique);
        let ids = Tensor::new([3], &[4i64, 4, 9]).unwrap();
        assert_eq!(shapes(&unique, &[&ids]).values::<i64>().unwrap(), [4, 9]);
        let refused = Numerics::Shapes
            .call(&unique, &[&Tensor::hollow(DType::I64, [3])])
            .unwrap_err()
            .to_string();
        assert!(refused.contains("Unique") && refused.contains("shapes"), "{refused}");
    }

    #[test]
    fn a_variable_keeps_integers_and_no_floats() {
        let (step, weight) = (Tensor::scalar(3i64), Tensor::scalar(0.5f32));
        assert_eq!(Numerics::Shapes.kept(step.clone()), step);
        assert_eq!(
            Numerics::Shapes.kept(weight.clone()),
            Tensor::hollow(DType::F32, Shape::SCALAR)
        );
        assert_eq!(Numerics::Real.kept(weight.clone()), weight);
    }
}
