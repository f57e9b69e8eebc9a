//! What models are built from: initial values, layers and measures, each made of graph operations.

mod window;

use xxhash_rust::xxh3::xxh3_64;

use super::error::{GraphError, GraphProblem};
use super::op::{Op, RandomLaw};
use super::output::Output;
use super::{Graph, NewOperation};
use crate::tensor::{DType, Shape};

pub use window::{avg_pool2d, conv2d, flatten, max_pool2d};

/// Values for the first step of a variable.
impl Graph {
    /// Zeros of `shape`.
    #[track_caller]
    pub fn zeros(&self, shape: impl Into<Shape>) -> Output {
        self.filled(shape, 0.0)
    }

    /// `value` everywhere in `shape`.
    #[track_caller]
    pub fn filled(&self, shape: impl Into<Shape>, value: f32) -> Output {
        self.add_checked(NewOperation::of(Op::Fill { shape: shape.into(), value }))
    }

    /// Random values that depend on the graph's seed and on `purpose`, a name, and on nothing else:
    /// wherever they are made, they are the same.
    #[track_caller]
    pub fn random(&self, purpose: &str, law: RandomLaw, shape: impl Into<Shape>) -> Output {
        let seeds = (self.random_seed(), xxh3_64(purpose.as_bytes()));
        self.add_checked(NewOperation::of(Op::Random { law, shape: shape.into(), seeds, offset: 0 }))
    }

    /// Uniform in ±√(6 / (rows + columns)) (Glorot and Bengio 2010; TensorFlow: `glorot_uniform_initializer`).
    #[track_caller]
    pub fn glorot_uniform(&self, purpose: &str, shape: impl Into<Shape>) -> Output {
        let shape = shape.into();
        let (fan_in, fan_out) = shape.rows_and_columns();
        let limit = (6.0 / (fan_in + fan_out) as f32).sqrt();
        self.random(purpose, RandomLaw::Uniform { low: -limit, high: limit }, shape)
    }
}

/// A fully connected layer without activation: `x · kernel + bias`, of `units` columns.
///
/// Its variables are `dense/kernel`, Glorot uniform, and `dense/bias`, zero; `dense_1/…` for the next.
///
/// # Errors
/// If `x` is no f32 matrix of known width.
#[track_caller]
pub fn dense(x: &Output, units: usize) -> Result<Output, GraphError> {
    let Some(&[_, Some(width)]) = x.tensor_type().float_dims() else {
        let needs = "an f32 matrix [rows, n] of known width".to_owned();
        return Err(GraphError::new("dense", GraphProblem::Inputs { needs, inputs: vec![x.tensor_type()] }));
    };
    x.graph().enter_name_scope("dense")?;
    let built = dense_in_scope(x, width, units);
    x.graph().leave_name_scope();
    built
}

/// Apart from [`dense`], so that every operation is built at the line of `dense`'s caller.
#[track_caller]
fn dense_in_scope(x: &Output, width: usize, units: usize) -> Result<Output, GraphError> {
    let graph = x.graph();
    let purpose = graph.scoped_name("kernel");
    let kernel = graph.variable("kernel", &graph.glorot_uniform(&purpose, [width, units]))?;
    let bias = graph.variable("bias", &graph.zeros([units]))?;
    x.matmul(&kernel.read())?.bias_add(&bias.read())
}

/// The share of rows whose greatest logit is that of the label (f32).
///
/// # Errors
/// If `logits` is no f32 matrix, or `labels` not one i32 a row.
#[track_caller]
pub fn accuracy(logits: &Output, labels: &Output) -> Result<Output, GraphError> {
    let correct = logits.argmax()?.equal(&labels.cast(DType::I64))?;
    Ok(correct.cast(DType::F32).mean())
}
