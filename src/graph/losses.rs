//! Losses, each made of graph operations.

use super::error::{GraphError, GraphProblem};
use super::output::Output;
use crate::tensor::PartialShape;

/// The cross-entropy of each row's softmax against its label: f32 or f64, of the shape of `labels`.
///
/// `logits` are \[…, classes\], and there is an i32 or i64 label for each row, \[…\]
/// (TensorFlow `tf.nn.sparse_softmax_cross_entropy_with_logits`).
///
/// # Errors
/// If `logits` are not floats with one dimension more than `labels`, or there is not one label a
/// row.
#[track_caller]
pub fn sparse_softmax_cross_entropy(
    logits: &Output,
    labels: &Output,
) -> Result<Output, GraphError> {
    if logits.tensor_type().shape.rank() <= 2 {
        return logits.sparse_cross_entropy(labels);
    }
    let flat = rows(logits)?.sparse_cross_entropy(&labels.reshape([None])?)?;
    flat.reshape_like(labels)
}

/// The cross-entropy of each row's softmax against its probabilities: one value a row.
///
/// `logits` and `labels` are \[…, classes\], and the loss is \[…\]
/// (TensorFlow `tf.nn.softmax_cross_entropy_with_logits`).
///
/// # Errors
/// If they are not floats of one type and one shape of two dimensions or more.
#[track_caller]
pub fn softmax_cross_entropy(logits: &Output, labels: &Output) -> Result<Output, GraphError> {
    if logits.tensor_type().shape.rank() <= 2 {
        return logits.cross_entropy(labels);
    }
    let shape = common_shape("softmax_cross_entropy", logits, labels)?;
    let flat = rows(logits)?.cross_entropy(&rows(labels)?)?;
    let of_a_row = &shape.dims()[..shape.rank() - 1];
    match of_a_row.iter().filter(|dim| dim.is_none()).count() {
        0 | 1 => flat.reshape(PartialShape::new(of_a_row)),
        // A reshape finds one unknown dimension; of more only a value tells.
        _ => flat.reshape_like(&labels.argmax()?),
    }
}

/// The cross-entropy of each element's sigmoid against its probability; it neither overflows nor
/// loses small values (TensorFlow `tf.nn.sigmoid_cross_entropy_with_logits`).
///
/// # Errors
/// If they are not floats of one type and shape.
#[track_caller]
pub fn sigmoid_cross_entropy(logits: &Output, labels: &Output) -> Result<Output, GraphError> {
    logits.sigmoid_cross_entropy(labels)
}

/// Half the sum of the squares of all elements, a scalar (TensorFlow `tf.nn.l2_loss`).
///
/// # Errors
/// If they are not floats.
#[track_caller]
pub fn l2_loss(x: &Output) -> Result<Output, GraphError> {
    x.l2_loss()
}

/// The mean of the squares of the differences, a scalar (TensorFlow
/// `tf.losses.mean_squared_error`).
///
/// # Errors
/// If they are not numbers of one type and shape: \[n, 1\] and \[n\] would have n² differences.
#[track_caller]
pub fn mean_squared_error(predictions: &Output, labels: &Output) -> Result<Output, GraphError> {
    common_shape("mean_squared_error", predictions, labels)?;
    Ok(predictions.sub(labels)?.square().mean())
}

/// The mean over all differences `d` of `d²/2` if `d` is within `±delta`, and of
/// `delta (|d| - delta/2)` if it is beyond, a scalar (Huber 1964; TensorFlow
/// `tf.losses.huber_loss`, whose `delta` is 1 unless another is given).
///
/// # Errors
/// If they are not floats of one type and shape.
#[track_caller]
pub fn huber_loss(predictions: &Output, labels: &Output, delta: f32) -> Result<Output, GraphError> {
    common_shape("huber_loss", predictions, labels)?;
    let constant = |value: f32| predictions.scalar_alike(f64::from(value));
    let size = predictions.sub(labels)?.abs();
    let beyond = size.sub(&constant(delta))?.relu();
    let within = size.minimum(&constant(delta))?;
    let quadratic = within.square().mul(&constant(0.5))?;
    Ok(quadratic.add(&beyond.mul(&constant(delta))?)?.mean())
}

/// The shape of both, as far as it is known. A loss of unlike shapes must not be broadcast: it
/// would train on differences that nobody means (TensorFlow asserts compatible shapes, too).
#[track_caller]
fn common_shape(loss: &str, a: &Output, b: &Output) -> Result<PartialShape, GraphError> {
    let types = [a.tensor_type(), b.tensor_type()];
    let Some(shape) = types[0].shape.merge(&types[1].shape) else {
        let needs = "predictions and labels of one shape; reshape one of them";
        return Err(GraphError::new(loss, GraphProblem::needs(needs, &types)));
    };
    Ok(shape)
}

/// Reshapes to a matrix: all but the last dimension are rows.
#[track_caller]
fn rows(x: &Output) -> Result<Output, GraphError> {
    let classes = x.tensor_type().shape.dims().last().copied().flatten();
    let Some(classes) = classes else {
        let needs = "a known number of classes to be taken as rows".to_owned();
        return Err(GraphError::new(
            x.name(),
            GraphProblem::Inputs { needs, inputs: vec![x.tensor_type()] },
        ));
    };
    x.reshape([None, Some(classes)])
}
