//! Random values, from a seed and a position alone.

use xxhash_rust::xxh3::xxh3_64;

use crate::graph::{
    Attributes, ComputeError, Cost, Defined, Graph, GraphProblem, Known, NewOperation, Op, OpDef,
    Output, OutputTypes, Outputs, RandomLaw, TensorType, one,
};
use crate::kernels::{random, written};
use crate::tensor::{DType, Shape, Tensor};

/// Random values (f32) that depend on the two seeds alone, and not on the device. Of `(counter)`,
/// an i64 scalar, each number has values of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Random {
    /// Their distribution.
    pub law: RandomLaw,
    /// The shape.
    pub shape: Shape,
    /// The graph's seed, and the operation's own.
    pub seeds: (u64, u64),
    /// The position of the first one in the sequence of these seeds: a part of a larger value can
    /// be made by itself.
    pub offset: usize,
}

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    [
        RandomLaw::Uniform { low: 0.0, high: 0.0 },
        RandomLaw::Normal { mean: 0.0, deviation: 0.0 },
        RandomLaw::TruncatedNormal { mean: 0.0, deviation: 0.0 },
    ]
    .map(|law| Defined::from(Random { law, shape: Shape::SCALAR, seeds: (0, 0), offset: 0 }))
    .into()
}

impl OpDef for Random {
    fn kind(&self) -> &'static str {
        match self.law {
            RandomLaw::Uniform { .. } => "RandomUniform",
            RandomLaw::Normal { .. } => "RandomStandardNormal",
            RandomLaw::TruncatedNormal { .. } => "TruncatedNormal",
        }
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        let law = match self.law {
            RandomLaw::Uniform { low, high } => {
                RandomLaw::Uniform { low: given.float("low", low), high: given.float("high", high) }
            }
            RandomLaw::Normal { mean, deviation } => RandomLaw::Normal {
                mean: given.float("mean", mean),
                deviation: given.float("deviation", deviation),
            },
            RandomLaw::TruncatedNormal { mean, deviation } => RandomLaw::TruncatedNormal {
                mean: given.float("mean", mean),
                deviation: given.float("deviation", deviation),
            },
        };
        Self {
            law,
            shape: given.shape("shape", self.shape),
            seeds: (given.seed("graph_seed", self.seeds.0), given.seed("seed", self.seeds.1)),
            offset: given.size("offset", self.offset),
        }
        .into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        match inputs {
            [] => Ok(one(DType::F32, self.shape)),
            [counter] if *counter == TensorType::new(DType::I64, Shape::SCALAR) => {
                Ok(one(DType::F32, self.shape))
            }
            _ => Err(GraphProblem::needs("nothing, or an i64 scalar that counts", inputs)),
        }
    }

    fn cost(&self, _: &[Known], outputs: &[Known]) -> Cost {
        Cost::random(outputs[0].1.elements())
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let (seed, operation) = self.seeds;
        let key = random::Key { seed, operation, offset: self.offset };
        let key = inputs.first().map_or(key, |counter| key.at(counter.slice::<i64>()[0]));
        Ok(written(self.shape, |out| match self.law {
            RandomLaw::Uniform { low, high } => random::uniform(key, low, high, out),
            RandomLaw::Normal { mean, deviation } => random::normal(key, mean, deviation, out),
            RandomLaw::TruncatedNormal { mean, deviation } => {
                random::truncated_normal(key, mean, deviation, out);
            }
        }))
    }
}

impl Graph {
    /// Random values (f32) that depend only on the graph's seed and on `purpose`, a name: they are
    /// the same on whatever device they are made.
    #[track_caller]
    pub fn random(&self, purpose: &str, law: RandomLaw, shape: impl Into<Shape>) -> Output {
        self.add_checked(NewOperation::of(self.random_values(purpose, law, shape.into(), 0)))
    }

    /// The operation that makes such values, from position `offset` of their sequence on.
    pub(crate) fn random_values(
        &self,
        purpose: &str,
        law: RandomLaw,
        shape: Shape,
        offset: usize,
    ) -> Op {
        let seeds = (self.random_seed(), xxh3_64(purpose.as_bytes()));
        Random { law, shape, seeds, offset }.into()
    }
}
