//! Layers over images `[n, height, width, channels]`.

use super::super::error::{GraphError, GraphProblem};
use super::super::op::{Padding, RandomLaw, Sliding};
use super::super::output::Output;
use super::super::partitioned_variable::InitialRows;

/// A convolution without activation: `filters` channels from windows of `size` (height and width),
/// with a bias for each channel (TensorFlow: `tf.layers.conv2d`).
///
/// Its variables are `conv2d/kernel`, uniform in ±√(6 / (fan in + fan out)), and `conv2d/bias`,
/// zero; `conv2d_1/…` for the next. A fan is a window of the channels that go in or come out
/// (Glorot and Bengio 2010).
///
/// # Errors
/// If `x` is not f32 of rank 4 with a known number of channels, or is smaller with its padding than
/// the window.
#[track_caller]
pub fn conv2d(
    x: &Output,
    filters: usize,
    size: [usize; 2],
    sliding: impl Into<Sliding>,
) -> Result<Output, GraphError> {
    let filter = filter_of(x, filters, size)?;
    x.graph().enter_name_scope("conv2d")?;
    let built = convolved(x, filter, sliding.into(), true);
    x.graph().leave_name_scope();
    built
}

/// A [`conv2d`] without the bias, for a normalisation to follow.
///
/// # Errors
/// As [`conv2d`].
#[track_caller]
pub fn conv2d_without_bias(
    x: &Output,
    filters: usize,
    size: [usize; 2],
    sliding: impl Into<Sliding>,
) -> Result<Output, GraphError> {
    let filter = filter_of(x, filters, size)?;
    x.graph().enter_name_scope("conv2d")?;
    let built = convolved(x, filter, sliding.into(), false);
    x.graph().leave_name_scope();
    built
}

/// The shape of the filter `[height, width, in, out]`.
#[track_caller]
fn filter_of(
    x: &Output,
    filters: usize,
    [height, width]: [usize; 2],
) -> Result<[usize; 4], GraphError> {
    match x.tensor_type().float_dims() {
        Some(&[_, _, _, Some(channels)]) => Ok([height, width, channels, filters]),
        _ => Err(refused("conv2d", "f32 images [n, height, width, channels] of known channels", x)),
    }
}

/// The body of both convolutions: a function of its own, so that every operation is built at the
/// line of the caller.
#[track_caller]
fn convolved(
    x: &Output,
    filter: [usize; 4],
    sliding: Sliding,
    has_bias: bool,
) -> Result<Output, GraphError> {
    let graph = x.graph();
    let [height, width, channels, filters] = filter;
    // Why not `VarianceScaling::GLOROT_UNIFORM`: it rounds the limit differently, and seeds would
    // give other weights than before.
    let limit = (6.0 / (height * width * (channels + filters)) as f32).sqrt();
    let law = RandomLaw::Uniform { low: -limit, high: limit };
    let kernel = graph.weights("kernel", filter, InitialRows::Random(law))?;
    let y = x.conv2d(&kernel.as_tensor()?, sliding)?;
    if !has_bias {
        return Ok(y);
    }
    let bias = graph.weights("bias", [filters], InitialRows::Constant(0.0))?;
    y.bias_add(&bias.as_tensor()?)
}

/// The greatest element of each window of `size` by `strides`; an incomplete window at the edge
/// counts only if `padding` is [`Padding::Same`] (TensorFlow: `tf.layers.max_pooling2d`).
///
/// # Errors
/// As [`Output::max_pool`].
#[track_caller]
pub fn max_pool2d(
    x: &Output,
    size: [usize; 2],
    strides: [usize; 2],
    padding: Padding,
) -> Result<Output, GraphError> {
    x.max_pool(size, Sliding::from(padding).strides(strides))
}

/// The mean of each window of `size` by `strides`; an incomplete window at the edge counts only if
/// `padding` is [`Padding::Same`] (TensorFlow: `tf.layers.average_pooling2d`).
///
/// # Errors
/// As [`Output::avg_pool`].
#[track_caller]
pub fn avg_pool2d(
    x: &Output,
    size: [usize; 2],
    strides: [usize; 2],
    padding: Padding,
) -> Result<Output, GraphError> {
    x.avg_pool(size, Sliding::from(padding).strides(strides))
}

/// Each sample as a row: `[n, …]` as `[n, m]` (TensorFlow: `tf.layers.flatten`).
///
/// # Errors
/// If `x` is a scalar, or a dimension after the first is unknown.
#[track_caller]
pub fn flatten(x: &Output) -> Result<Output, GraphError> {
    let shape = x.tensor_type().shape;
    let row =
        shape.dims().get(1..).and_then(|dims| dims.iter().copied().product::<Option<usize>>());
    let Some(row) = row else {
        return Err(refused("flatten", "samples [n, …] whose own shape is known", x));
    };
    x.reshape([shape.dims()[0], Some(row)])
}

#[track_caller]
fn refused(layer: &str, needs: &str, x: &Output) -> GraphError {
    GraphError::new(
        layer,
        GraphProblem::Inputs { needs: needs.to_owned(), inputs: vec![x.tensor_type()] },
    )
}
