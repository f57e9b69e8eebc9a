//! Layers and metrics that models are built from, each made of graph operations.

mod norm;
mod window;

use super::error::{GraphError, GraphProblem};
use super::initializers::VarianceScaling;
use super::output::Output;
use super::partitioned_variable::InitialRows;
use crate::tensor::{DType, PartialShape};

pub use norm::{BatchNorm, dropout, layer_norm, moments};
pub use window::{avg_pool2d, conv2d, conv2d_without_bias, flatten, max_pool2d};

/// A fully connected layer without activation: `x · kernel + bias`, of `units` columns. Each row of
/// the last axis of `x` is one, however many axes are before it (TensorFlow: `tf.layers.dense`).
///
/// Its variables are `dense/kernel`, Glorot uniform, and `dense/bias`, zero; `dense_1/…` for the
/// next.
///
/// # Errors
/// If `x` is not an f32 matrix, or several, of known width.
#[track_caller]
pub fn dense(x: &Output, units: usize) -> Result<Output, GraphError> {
    let Some(&[_, .., Some(width)]) = x.tensor_type().float_dims() else {
        let needs = "an f32 matrix […, rows, n] of known width".to_owned();
        return Err(GraphError::new(
            "dense",
            GraphProblem::Inputs { needs, inputs: vec![x.tensor_type()] },
        ));
    };
    x.graph().enter_name_scope("dense")?;
    let built = dense_in_scope(x, width, units);
    x.graph().leave_name_scope();
    built
}

/// The body of [`dense`]: a function of its own, so that every operation is built at the line of
/// `dense`'s caller.
#[track_caller]
fn dense_in_scope(x: &Output, width: usize, units: usize) -> Result<Output, GraphError> {
    let graph = x.graph();
    let glorot = InitialRows::Random(VarianceScaling::GLOROT_UNIFORM.law([width, units]));
    let kernel = graph.weights("kernel", [width, units], glorot)?;
    let bias = graph.weights("bias", [units], InitialRows::Constant(0.0))?;
    let (kernel, bias) = (kernel.as_tensor()?, bias.as_tensor()?);
    let shape = x.tensor_type().shape;
    let [before @ .., _] = shape.dims() else { unreachable!("it has a last axis") };
    let unknown = before.iter().filter(|dim| dim.is_none()).count();
    if before.len() == 1 || unknown > 1 {
        return x.matmul(&kernel)?.bias_add(&bias);
    }
    // One product, whose gradient by the kernel is one product, too: not one a matrix.
    let rows = x.reshape([None, Some(width)])?.matmul(&kernel)?.bias_add(&bias)?;
    rows.reshape(PartialShape::new(&[before, &[Some(units)]].concat()))
}

/// The share of rows whose greatest logit is that of the label (f32).
///
/// # Errors
/// If `logits` is not a matrix of numbers, or `labels` are not one i32 or i64 a row: those of shape
/// \[n, 1\] would be compared with every row's.
#[track_caller]
pub fn accuracy(logits: &Output, labels: &Output) -> Result<Output, GraphError> {
    let types = [logits.tensor_type(), labels.tensor_type()];
    let [rows, label] = types.map(|it| it.shape.dims().first().copied().flatten());
    let agree = rows.is_none() || label.is_none() || rows == label;
    if types.map(|it| it.shape.rank()) != [2, 1] || !types[1].dtype.is_integer() || !agree {
        let needs = "a matrix of logits, and an i32 or i64 label for each row";
        return Err(GraphError::new("accuracy", GraphProblem::needs(needs, &types)));
    }
    let correct = logits.argmax()?.equal(&labels.cast(DType::I64))?;
    Ok(correct.cast(DType::F32).mean())
}
