//! Initial values of variables: constants, and random values that depend on seed and purpose alone.

use super::op::{Op, RandomLaw};
use super::output::Output;
use super::{Graph, NewOperation};
use crate::tensor::{Element, Shape};

/// The standard deviation of a standard normal variable that is cut off at 2.
const TRUNCATED_DEVIATION: f32 = 0.879_625_7;

/// Random values whose variance follows from the number of a layer's inputs or outputs, so that
/// signals neither grow nor fade from layer to layer (TensorFlow `VarianceScaling`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VarianceScaling {
    /// The variance times the fan.
    pub scale: f32,
    /// The connections that are counted; their number divides `scale`.
    pub fan: Fan,
    /// The shape of the distribution.
    pub spread: Spread,
}

/// The connections of a layer that are counted. A kernel \[in, out\] has `in` inputs and `out`
/// outputs; a convolution's kernel \[h, w, in, out\] has `h·w` times as many; a vector counts its
/// elements as both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fan {
    /// The inputs of one output.
    In,
    /// The outputs that one input goes to.
    Out,
    /// The mean of both.
    Average,
}

/// The shape of a distribution around 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Uniform.
    Uniform,
    /// Normal, cut off at two deviations, and widened to the variance that it has without the cut.
    TruncatedNormal,
    /// Normal.
    Normal,
}

impl VarianceScaling {
    /// Uniform in ±√(6 / (in + out)) (Glorot and Bengio 2010).
    pub const GLOROT_UNIFORM: Self =
        Self { scale: 1.0, fan: Fan::Average, spread: Spread::Uniform };
    /// Normal of the same variance, truncated.
    pub const GLOROT_NORMAL: Self =
        Self { spread: Spread::TruncatedNormal, ..Self::GLOROT_UNIFORM };
    /// Uniform in ±√(6 / in), for rectified units (He et al. 2015).
    pub const HE_UNIFORM: Self = Self { scale: 2.0, fan: Fan::In, spread: Spread::Uniform };
    /// Normal of the same variance, truncated.
    pub const HE_NORMAL: Self = Self { spread: Spread::TruncatedNormal, ..Self::HE_UNIFORM };
    /// Uniform in ±√(3 / in) (LeCun et al. 1998).
    pub const LECUN_UNIFORM: Self = Self { scale: 1.0, ..Self::HE_UNIFORM };
    /// Normal of the same variance, truncated.
    pub const LECUN_NORMAL: Self = Self { scale: 1.0, ..Self::HE_NORMAL };

    /// The distribution of the values of a variable of `shape`.
    pub fn law(&self, shape: impl Into<Shape>) -> RandomLaw {
        let (inputs, outputs) = fans(shape.into());
        let fan = match self.fan {
            Fan::In => inputs as f32,
            Fan::Out => outputs as f32,
            Fan::Average => (inputs + outputs) as f32 / 2.0,
        };
        let variance = self.scale / fan.max(1.0);
        match self.spread {
            Spread::Uniform => {
                let limit = (3.0 * variance).sqrt();
                RandomLaw::Uniform { low: -limit, high: limit }
            }
            Spread::TruncatedNormal => RandomLaw::TruncatedNormal {
                mean: 0.0,
                deviation: variance.sqrt() / TRUNCATED_DEVIATION,
            },
            Spread::Normal => RandomLaw::Normal { mean: 0.0, deviation: variance.sqrt() },
        }
    }
}

/// The numbers of inputs of one output and of outputs of one input of a layer, from its kernel's
/// shape.
fn fans(shape: Shape) -> (usize, usize) {
    match shape.dims() {
        [] => (1, 1),
        [n] => (*n, *n),
        [field @ .., inputs, outputs] => {
            let field: usize = field.iter().product();
            (field * inputs, field * outputs)
        }
    }
}

impl Graph {
    /// Zeros (f32) of `shape`.
    #[track_caller]
    pub fn zeros(&self, shape: impl Into<Shape>) -> Output {
        self.fill(shape, 0f32)
    }

    /// Ones (f32) of `shape`.
    #[track_caller]
    pub fn ones(&self, shape: impl Into<Shape>) -> Output {
        self.fill(shape, 1f32)
    }

    /// `value`, of any element type, everywhere in `shape` (TensorFlow `Fill`).
    #[track_caller]
    pub fn fill<T: Element>(&self, shape: impl Into<Shape>, value: T) -> Output {
        self.add_checked(NewOperation::of(Op::Fill { shape: shape.into(), value: value.into() }))
    }

    /// [`random`](Self::random) values whose variance is scaled for a layer.
    #[track_caller]
    pub fn variance_scaling(
        &self,
        purpose: &str,
        scaling: VarianceScaling,
        shape: impl Into<Shape>,
    ) -> Output {
        let shape = shape.into();
        self.random(purpose, scaling.law(shape), shape)
    }

    /// [`VarianceScaling::GLOROT_UNIFORM`] (TensorFlow: `glorot_uniform_initializer`).
    #[track_caller]
    pub fn glorot_uniform(&self, purpose: &str, shape: impl Into<Shape>) -> Output {
        self.variance_scaling(purpose, VarianceScaling::GLOROT_UNIFORM, shape)
    }
}
