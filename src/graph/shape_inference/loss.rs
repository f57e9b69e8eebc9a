//! The outputs of softmax and losses.

use smallvec::smallvec;

use super::array::is_index;
use super::reduce::is_real;
use super::{OutputTypes, agree, one, refused};
use crate::graph::TensorType;
use crate::graph::error::GraphProblem;
use crate::graph::op::Loss;
use crate::tensor::Shape;

/// The outputs of `op` for inputs of these types.
///
/// # Errors
/// [`GraphProblem::Inputs`] if they don't fit.
pub(super) fn infer(op: &Loss, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
    let is_real = inputs.first().is_some_and(|x| is_real(x.dtype));
    let (outputs, needs) = match (op, inputs) {
        (Loss::Softmax | Loss::LogSoftmax, [x]) => (
            (x.shape.rank() > 0).then(|| smallvec![*x]),
            "f32 or f64 logits [rows, classes] or of any other rank from 1",
        ),
        (
            Loss::SoftmaxGrad | Loss::LogSoftmaxGrad | Loss::SigmoidCrossEntropyWithLogits,
            [a, b],
        ) => (alike(*a, *b).map(|x| smallvec![x]), "two f32 or two f64 of one shape"),
        (Loss::SoftmaxCrossEntropyWithLogits, [logits, labels]) => (
            alike(*logits, *labels).and_then(loss_of_rows),
            "f32 or f64 logits and labels [rows, classes]",
        ),
        (Loss::SparseSoftmaxCrossEntropyWithLogits, [logits, labels]) => (
            sparse(*logits, *labels),
            "f32 or f64 logits [rows, classes] and i32 or i64 labels [rows]",
        ),
        (Loss::L2Loss, [x]) => (Some(one(x.dtype, Shape::SCALAR)), "one f32 or f64"),
        _ => (None, "another number of inputs"),
    };
    outputs.filter(|_| is_real).ok_or_else(|| refused(needs, inputs))
}

fn alike(a: TensorType, b: TensorType) -> Option<TensorType> {
    let shape = a.shape.merge(&b.shape)?;
    (a.dtype == b.dtype).then_some(TensorType { shape, ..a })
}

fn loss_of_rows(logits: TensorType) -> Option<OutputTypes> {
    let &[rows, _] = logits.shape.dims() else { return None };
    Some(smallvec![TensorType::new(logits.dtype, [rows]), logits])
}

fn sparse(logits: TensorType, labels: TensorType) -> Option<OutputTypes> {
    let (&[rows, classes], &[labelled]) = (logits.shape.dims(), labels.shape.dims()) else {
        return None;
    };
    let rows = agree(rows, labelled)?;
    is_index(labels.dtype).then(|| loss_of_rows(TensorType::new(logits.dtype, [rows, classes])))?
}
