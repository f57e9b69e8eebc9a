//! Layers that keep deep networks trainable: batch and layer normalisation, dropout.

use xxhash_rust::xxh3::xxh3_64;

use super::super::error::{GraphError, GraphProblem};
use super::super::op::{Normalise, Op};
use super::super::output::{Output, Target};
use super::super::{Graph, Variable};

/// What is added to a variance before its root is taken (Keras's default).
const EPSILON: f32 = 1e-3;
/// How much of a moving average stays at each update (Keras's default).
const MOMENTUM: f32 = 0.99;

/// Batch normalisation of the last axis (Ioffe and Szegedy 2015; TensorFlow: `tf.layers.batch_normalization`).
///
/// Its variables are `batch_normalization/gamma` and `beta`, which scale and move what was normalised, and
/// the moving averages `moving_mean` and `moving_variance`, which no optimizer updates.
#[derive(Clone)]
pub struct BatchNorm {
    gamma: Variable,
    beta: Variable,
    moving_mean: Variable,
    moving_variance: Variable,
}

impl BatchNorm {
    /// A normalisation of `channels`: the size of the last axis.
    ///
    /// # Errors
    /// If the scope's name is illegal.
    #[track_caller]
    pub fn new(g: &Graph, channels: usize) -> Result<Self, GraphError> {
        g.enter_name_scope("batch_normalization")?;
        let built = Self::in_scope(g, channels);
        g.leave_name_scope();
        built
    }

    #[track_caller]
    fn in_scope(g: &Graph, channels: usize) -> Result<Self, GraphError> {
        Ok(Self {
            gamma: g.variable("gamma", &g.filled([channels], 1.0))?,
            beta: g.variable("beta", &g.zeros([channels]))?,
            moving_mean: g.untrainable_variable("moving_mean", &g.zeros([channels]))?,
            moving_variance: g.untrainable_variable("moving_variance", &g.filled([channels], 1.0))?,
        })
    }

    /// `x` normalised by the mean and variance of the batch, and what brings the moving averages nearer
    /// to them: run it with the training step. Each worker's batch moves them, in every mode of training.
    ///
    /// # Errors
    /// If the last axis of `x` is of another size.
    #[track_caller]
    pub fn train(&self, x: &Output) -> Result<(Output, Target), GraphError> {
        let op = Op::Normalise(Normalise::Batch { epsilon: EPSILON });
        let y = x.with(&[&self.gamma.read(), &self.beta.read()], op)?;
        let nearer = |average: &Variable, of_batch: &Output| {
            let share = x.graph().constant(1.0 - MOMENTUM);
            average.assign_add(&of_batch.sub(&average.read())?.mul(&share)?)
        };
        let mean = nearer(&self.moving_mean, &y.sibling(1))?;
        let variance = nearer(&self.moving_variance, &y.sibling(2))?;
        let update = x.graph().group("batch_normalization/update", &[&mean, &variance])?;
        Ok((y, update))
    }

    /// `x` normalised by the moving averages: what a trained model does.
    ///
    /// # Errors
    /// If the last axis of `x` is of another size.
    #[track_caller]
    pub fn infer(&self, x: &Output) -> Result<Output, GraphError> {
        let epsilon = x.graph().constant(EPSILON);
        let factor = self.moving_variance.read().add(&epsilon)?.rsqrt().mul(&self.gamma.read())?;
        x.sub(&self.moving_mean.read())?.mul(&factor)?.add(&self.beta.read())
    }
}

/// Each row of the last axis of `x` brought to mean 0 and variance 1, then scaled and moved (Ba, Kiros and
/// Hinton 2016; Keras: `LayerNormalization`).
///
/// Its variables are `layer_normalization/gamma`, one, and `layer_normalization/beta`, zero.
///
/// # Errors
/// If `x` is no f32 of rank 2 or more whose last axis has a known size.
#[track_caller]
pub fn layer_norm(x: &Output) -> Result<Output, GraphError> {
    let given = x.tensor_type();
    let Some(&[_, .., Some(width)]) = given.float_dims() else {
        let needs = "an f32 of rank 2 or more, whose last axis has a known size".to_owned();
        return Err(GraphError::new("layer_norm", GraphProblem::Inputs { needs, inputs: vec![given] }));
    };
    let g = x.graph();
    g.enter_name_scope("layer_normalization")?;
    let gamma = g.variable("gamma", &g.filled([width], 1.0));
    let beta = g.variable("beta", &g.zeros([width]));
    g.leave_name_scope();
    x.with(&[&gamma?.read(), &beta?.read()], Op::Normalise(Normalise::Layer { epsilon: EPSILON }))
}

/// `x` with a share `rate` of its elements left out by chance, and the others scaled up by `1 / (1 - rate)`
/// (Srivastava et al. 2014; TensorFlow: `tf.nn.dropout`).
///
/// Which, depends on the graph's seed, on the name of `x` and on `counter` (i64), such as the global
/// step, and on nothing else: not on the task that computes it. TensorFlow's depends on all that was
/// drawn before.
///
/// # Errors
/// If `x` is no f32, the rate not at least 0 and below 1, or the counter no i64 scalar.
#[track_caller]
pub fn dropout(x: &Output, rate: f32, counter: &Output) -> Result<Output, GraphError> {
    if !(0.0..1.0).contains(&rate) {
        let needs = format!("a rate of at least 0 and below 1, not {rate}");
        return Err(GraphError::new("dropout", GraphProblem::Inputs { needs, inputs: vec![x.tensor_type()] }));
    }
    let seeds = (x.graph().random_seed(), xxh3_64(x.name().as_bytes()));
    x.with(&[counter], Op::Normalise(Normalise::Dropout { rate, seeds }))
}
