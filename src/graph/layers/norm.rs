//! Layers that normalise, and dropout.

use xxhash_rust::xxh3::xxh3_64;

use super::super::Graph;
use super::super::error::{GraphError, GraphProblem};
use super::super::op::Axes;
use super::super::output::{Output, Target};
use super::super::partitioned_variable::InitialRows;
use super::super::variable::Variable;

/// Batch normalisation (Ioffe and Szegedy 2015; TensorFlow: `tf.layers.batch_normalization`,
/// fused): each channel, the last axis, is brought to mean 0 and variance 1, then multiplied by
/// `gamma` and offset by `beta`.
///
/// Training uses the moments of the batch, and an update moves the moving moments towards them; a
/// trained model uses the moving moments. These are variables on the device of `beta`, and no
/// optimizer trains them.
///
/// The update adds `(batch − moving) (1 − momentum)` on the variable's device, with `moving` as the
/// step read it, as TensorFlow's does. Each worker's step makes its own update, in every mode of
/// training: additions of several workers commute, so that none is lost, and none waits for
/// another.
///
/// ```
/// # use trainyard::prelude::*;
/// # use trainyard::graph::BatchNorm;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, [None, Some(4)])?;
/// let norm = BatchNorm::new(&g, 4)?;
/// let (y, update) = norm.train(&x)?;
/// let loss = dense(&y, 1)?.square().mean();
/// let step = g.global_step()?;
/// let train_op = g.with_control_dependencies(&[&update], |_| {
///     Adagrad::new(0.05).minimize(&loss, &step)
/// })?;
/// let served = norm.infer(&x)?;
/// # let _ = (train_op, served);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct BatchNorm {
    gamma: Variable,
    beta: Variable,
    moving_mean: Variable,
    moving_variance: Variable,
    momentum: f32,
    epsilon: f32,
}

impl BatchNorm {
    /// A batch normalisation of `channels` channels, with TensorFlow's defaults: momentum 0.99, ε
    /// 0.001.
    ///
    /// Its variables are `batch_normalization/gamma`, `/beta`, `/moving_mean` and
    /// `/moving_variance`; `batch_normalization_1/…` for the next.
    ///
    /// # Errors
    /// If a name is taken.
    #[track_caller]
    pub fn new(graph: &Graph, channels: usize) -> Result<Self, GraphError> {
        graph.enter_name_scope("batch_normalization")?;
        let built = Self::in_scope(graph, channels);
        graph.leave_name_scope();
        built
    }

    #[track_caller]
    fn in_scope(graph: &Graph, channels: usize) -> Result<Self, GraphError> {
        let around = graph.replace_controls(Vec::new());
        let (ones, zeros) = (graph.ones([channels]), graph.zeros([channels]));
        graph.replace_controls(around);
        let (gamma, beta) = (graph.variable("gamma", &ones)?, graph.variable("beta", &zeros)?);
        // Beside `beta`, which towers share: so they share the moments, too.
        let scope = beta.name().rsplit_once("beta").map_or("", |(scope, _)| scope).to_owned();
        let moving = |name: &str, initial: f32| {
            graph.slot_variable(&format!("{scope}{name}"), [channels].into(), initial, &beta)
        };
        let (moving_mean, moving_variance) =
            (moving("moving_mean", 0.0)?, moving("moving_variance", 1.0)?);
        Ok(Self { gamma, beta, moving_mean, moving_variance, momentum: 0.99, epsilon: 0.001 })
    }

    /// Sets the share of the moving moments that each update keeps.
    #[must_use]
    pub fn momentum(self, momentum: f32) -> Self {
        Self { momentum, ..self }
    }

    /// Sets the number that is added to each variance.
    #[must_use]
    pub fn epsilon(self, epsilon: f32) -> Self {
        Self { epsilon, ..self }
    }

    /// Normalises `x` \[…, channels\] by the moments of the batch. Also returns the update of the
    /// moving moments; a training step must run it, as a target of the step or as a control
    /// dependency of its train op.
    ///
    /// # Errors
    /// If `x` is not f32, or has another number of channels.
    #[track_caller]
    pub fn train(&self, x: &Output) -> Result<(Output, Target), GraphError> {
        let graph = x.graph();
        let affine = [&self.gamma.read(), &self.beta.read()];
        let y = x.batch_norm(&affine, self.epsilon)?;
        let share = graph.constant(1.0 - self.momentum);
        let update = |moving: &Variable, output| {
            moving.assign_add(&y.sibling(output).sub(&moving.read())?.mul(&share)?)
        };
        let updates = [update(&self.moving_mean, 1)?, update(&self.moving_variance, 2)?];
        let update = graph.group("batch_normalization_update", &[&updates[0], &updates[1]])?;
        Ok((y, update))
    }

    /// Normalises `x` \[…, channels\] by the moving moments.
    ///
    /// # Errors
    /// If `x` is not f32, or has another number of channels.
    #[track_caller]
    pub fn infer(&self, x: &Output) -> Result<Output, GraphError> {
        let given = [
            &self.gamma.read(),
            &self.beta.read(),
            &self.moving_mean.read(),
            &self.moving_variance.read(),
        ];
        x.batch_norm_by(&given, self.epsilon)
    }
}

/// Layer normalisation (Ba et al. 2016): each row of `x` \[…, n\] is brought to mean 0 and variance
/// 1, then scaled and offset. `epsilon` is added to each variance; Keras's is 0.001.
///
/// Its variables are `layer_normalization/gamma`, ones, and `/beta`, zeros;
/// `layer_normalization_1/…` for the next.
///
/// # Errors
/// If `x` is not f32, or its last dimension is unknown.
#[track_caller]
pub fn layer_norm(x: &Output, epsilon: f32) -> Result<Output, GraphError> {
    let given = x.tensor_type();
    let Some(&Some(width)) = given.float_dims().and_then(<[_]>::last) else {
        let needs = "an f32 whose last dimension is known".to_owned();
        return Err(GraphError::new(
            "layer_norm",
            GraphProblem::Inputs { needs, inputs: vec![given] },
        ));
    };
    x.graph().enter_name_scope("layer_normalization")?;
    let built = layer_norm_in_scope(x, width, epsilon);
    x.graph().leave_name_scope();
    built
}

/// The body of [`layer_norm`]: a function of its own, so that every operation is built at the line
/// of the caller.
#[track_caller]
fn layer_norm_in_scope(x: &Output, width: usize, epsilon: f32) -> Result<Output, GraphError> {
    let graph = x.graph();
    let gamma = graph.weights("gamma", [width], InitialRows::Constant(1.0))?;
    let beta = graph.weights("beta", [width], InitialRows::Constant(0.0))?;
    x.layer_norm(&[&gamma.as_tensor()?, &beta.as_tensor()?], epsilon)
}

/// The mean and the variance (over the count) of the elements along `axes`; with `keep_dims` these
/// axes stay, with size 1 (TensorFlow: `tf.nn.moments`).
///
/// # Errors
/// If an axis does not exist or is named twice, or the elements are not f32.
#[track_caller]
pub fn moments(
    x: &Output,
    axes: &[isize],
    keep_dims: bool,
) -> Result<(Output, Output), GraphError> {
    let mean = x.mean_keep_dims(axes)?;
    let reduced: Axes = axes.iter().map(|axis| x.axis(*axis)).collect::<Result<_, _>>()?;
    let squares = x.sub(&mean.spread_over(x, reduced)?)?.square();
    if keep_dims {
        return Ok((mean, squares.mean_keep_dims(axes)?));
    }
    Ok((x.mean_over(axes)?, squares.mean_over(axes)?))
}

/// `x` with a share `rate` of its elements set to 0 and the others multiplied by `1 / (1 − rate)`
/// (Srivastava et al. 2014; TensorFlow: `tf.nn.dropout`).
///
/// The choice of elements depends on the graph's seed, the layer's name, the value of `counter` (an
/// i64 scalar) and the element's position, and neither on the device nor on its number of threads.
/// Workers that share seed and counter drop the same positions, each of its own batch.
///
/// It always drops; [`Graph::train_and_eval`] builds a model that is evaluated without it.
///
/// # Errors
/// If `x` is not f32 or f64, the counter is not an i64 scalar, or the rate is below 0 or not below
/// 1.
#[track_caller]
pub fn dropout(x: &Output, rate: f32, counter: &Output) -> Result<Output, GraphError> {
    if !(0.0..1.0).contains(&rate) {
        let needs = format!("a rate from 0 to below 1, not {rate}");
        return Err(GraphError::new(
            "dropout",
            GraphProblem::Inputs { needs, inputs: vec![x.tensor_type()] },
        ));
    }
    let graph = x.graph();
    graph.enter_name_scope("dropout")?;
    let seeds = (graph.random_seed(), xxh3_64(graph.scoped_name("mask").as_bytes()));
    let built = x.dropped_out(counter, rate, seeds);
    graph.leave_name_scope();
    built
}

impl Output {
    /// [`dropout`] with the global step as counter: another mask in each step.
    ///
    /// # Errors
    /// If it is not f32 or f64, or the rate is below 0 or not below 1.
    #[track_caller]
    pub fn dropout(&self, rate: f32) -> Result<Self, GraphError> {
        dropout(self, rate, &self.graph().global_step()?.read())
    }
}
