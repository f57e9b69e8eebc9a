//! Random values, from a seed and a position alone.

use xxhash_rust::xxh3::xxh3_64;

use crate::graph::{
    Attributes, Backprop, ComputeError, Cost, Defined, Graph, GraphError, GraphProblem, KernelKind,
    Known, NewOperation, Op, OpDef, Output, OutputTypes, Outputs, RandomLaw, TensorType, one,
};
use crate::kernels::{random, written};
use crate::tensor::{DType, PartialShape, Shape, Tensor};

/// Random values (f32) that depend on the two seeds alone, and not on the device. Of `(counter)`,
/// an i64 scalar, each number has values of its own. Where the shape is not known before the step,
/// a value that has it is the first input: `(like)` or `(like, counter)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Random {
    /// Their distribution.
    pub law: RandomLaw,
    /// The shape, as far as it is known when the graph is built.
    pub shape: PartialShape,
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
    .map(|law| Defined::from(Random { law, shape: Shape::SCALAR.into(), seeds: (0, 0), offset: 0 }))
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
            shape: given.dims("shape", self.shape),
            seeds: (given.seed("graph_seed", self.seeds.0), given.seed("seed", self.seeds.1)),
            offset: given.size("offset", self.offset),
        }
        .into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        let (like, counter) = self.inputs(inputs);
        let shape = match like {
            Some(like) => self.shape.merge(&like.shape),
            None => self.shape.known().map(|_| self.shape),
        };
        let is_counter = |x: &TensorType| *x == TensorType::new(DType::I64, Shape::SCALAR);
        match (shape, counter) {
            (Some(shape), [] | [_]) if counter.iter().all(is_counter) => Ok(one(DType::F32, shape)),
            _ => Err(GraphProblem::needs(&self.needs(), inputs)),
        }
    }

    /// No input has a gradient: of `like` only the shape matters.
    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        Ok(vec![None; of.inputs()])
    }

    fn cost(&self, _: &[Known], outputs: &[Known]) -> Cost {
        Cost::random(outputs[0].1.elements())
    }

    fn kernel_kind(&self) -> KernelKind {
        KernelKind::Movement
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let (seed, operation) = self.seeds;
        let key = random::Key { seed, operation, offset: self.offset };
        let (like, counter) = self.inputs(inputs);
        let key = counter.first().map_or(key, |counter| key.at(counter.slice::<i64>()[0]));
        let shape = like.map_or_else(|| self.shape.known(), |like| Some(like.shape()));
        let shape = shape.expect("an operation runs once its types are inferred");
        Ok(written(shape, |out| match self.law {
            RandomLaw::Uniform { low, high } => random::uniform(key, low, high, out),
            RandomLaw::Normal { mean, deviation } => random::normal(key, mean, deviation, out),
            RandomLaw::TruncatedNormal { mean, deviation } => {
                random::truncated_normal(key, mean, deviation, out);
            }
        }))
    }
}

impl Random {
    /// The value that has the shape, if one is needed, and the other inputs.
    fn inputs<'a, T>(&self, inputs: &'a [T]) -> (Option<&'a T>, &'a [T]) {
        match inputs.split_first() {
            Some((like, counter)) if self.shape.known().is_none() => (Some(like), counter),
            _ => (None, inputs),
        }
    }

    /// All inputs in words.
    fn needs(&self) -> String {
        let counter = "an i64 scalar that counts";
        match self.shape.known() {
            Some(_) => format!("nothing, or {counter}"),
            None => format!("a value of the shape {}, and perhaps {counter}", self.shape),
        }
    }
}

impl Graph {
    /// Random values (f32) that depend only on the graph's seed and on `purpose`, a name: they are
    /// the same in each step, and on whatever device they are made. They are for first values of
    /// variables; [`random_at`](Self::random_at) gives others in each step.
    #[track_caller]
    pub fn random(&self, purpose: &str, law: RandomLaw, shape: impl Into<Shape>) -> Output {
        self.add_checked(NewOperation::of(self.random_values(purpose, law, shape.into(), 0)))
    }

    /// Random values (f32) that depend on the value of `counter`, an i64 scalar, too: with the
    /// global step as counter they are others in each step (TensorFlow: `tf.random_uniform`,
    /// `tf.random_normal`, `tf.truncated_normal`, which draw anew whenever they run). A step that
    /// is taken again draws what it has drawn. Workers that share seed and counter draw the same.
    ///
    /// ```
    /// # use trainyard::prelude::*;
    /// # use trainyard::graph::RandomLaw;
    /// let g = Graph::new();
    /// let (step, law) = (g.global_step()?, RandomLaw::Normal { mean: 0.0, deviation: 0.1 });
    /// let noise = g.random_at("noise", law, [32, 64], &step.read())?;
    /// # Ok::<(), trainyard::graph::GraphError>(())
    /// ```
    ///
    /// # Errors
    /// If the counter is not an i64 scalar, or belongs to another graph.
    #[track_caller]
    pub fn random_at(
        &self,
        purpose: &str,
        law: RandomLaw,
        shape: impl Into<Shape>,
        counter: &Output,
    ) -> Result<Output, GraphError> {
        let op = self.random_values(purpose, law, shape.into(), 0);
        self.check_own(op.kind(), counter)?;
        counter.with(&[], op)
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
        Random { law, shape: shape.into(), seeds, offset }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAW: RandomLaw = RandomLaw::Uniform { low: 0.0, high: 1.0 };

    /// What the operation of `output` draws at each of `counts`.
    fn drawn(output: &Output, counts: &[i64]) -> Vec<Tensor> {
        let op = output.graph().with_operation(output.edge().op, |operation| operation.op.clone());
        let Op::Defined(op) = op else { panic!("a random operation is defined") };
        let at = |count: &i64| op.definition().compute(&[&(*count).into()]).unwrap().remove(0);
        counts.iter().map(at).collect()
    }

    #[test]
    fn values_at_a_counter_are_others_for_each_count_purpose_and_seed() {
        let g = Graph::new();
        let counter = g.placeholder("counter", DType::I64, Shape::SCALAR).unwrap();
        let at = |purpose: &str| g.random_at(purpose, LAW, [8], &counter).unwrap();
        let (noise, again, other) = (at("noise"), at("noise"), at("other"));
        g.set_random_seed(1);
        let reseeded = at("noise");
        let mut all = drawn(&noise, &[0, 1, 2]);
        assert_eq!(all, drawn(&again, &[0, 1, 2]), "two of one purpose draw the same");
        all.extend(drawn(&other, &[0, 1]));
        all.extend(drawn(&reseeded, &[0, 1]));
        for (i, values) in all.iter().enumerate() {
            assert!(!all[..i].contains(values), "{i}: {values:?}");
        }
    }

    /// The operation whose values are as many as a batch of unknown size has rows of 3.
    fn of_the_batch() -> Random {
        Random { law: LAW, shape: [None, Some(3)].into(), seeds: (7, 8), offset: 0 }
    }

    #[test]
    fn a_shape_of_the_step_is_that_of_the_value_that_has_it_and_draws_what_a_known_one_does() {
        let count = Tensor::scalar(5i64);
        let fixed = Random { shape: [4, 3].into(), ..of_the_batch() };
        for like in [Tensor::full([4, 3], 9i64), Tensor::full([4, 3], false)] {
            let drawn = of_the_batch().compute(&[&like, &count]).unwrap();
            assert_eq!(drawn, fixed.compute(&[&count]).unwrap());
            let always = of_the_batch().compute(&[&like]).unwrap();
            assert_eq!(always, fixed.compute(&[]).unwrap());
        }
        let none = of_the_batch().compute(&[&Tensor::full([0, 3], 1f32)]).unwrap();
        assert_eq!(none[0].shape(), Shape::new(&[0, 3]));
    }

    #[test]
    fn a_value_without_the_shape_of_the_step_is_refused_with_the_shape_that_it_lacks() {
        let of = |dims: &[usize]| TensorType::new(DType::F32, Shape::new(dims));
        let counter = TensorType::new(DType::I64, Shape::SCALAR);
        let inferred = of_the_batch().infer(&[of(&[4, 3]), counter]).unwrap();
        assert_eq!(inferred[0], of(&[4, 3]));
        let wrong: [&[TensorType]; 5] =
            [&[], &[of(&[4])], &[of(&[4, 2])], &[counter], &[of(&[4, 3]), of(&[])]];
        for inputs in wrong {
            let refused = of_the_batch().infer(inputs).unwrap_err().to_string();
            assert!(refused.contains("a value of the shape [?,3]"), "{refused}");
        }
    }

    #[test]
    fn no_gradient_passes_what_is_drawn_to_the_value_that_has_its_shape() {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [None, Some(3)]).unwrap();
        let drawn = x.with(&[], of_the_batch()).unwrap();
        let by = crate::graph::gradients(&(&x + &drawn).sum(), std::slice::from_ref(&x));
        let by = by.unwrap().remove(0).expect("the sum depends on x");
        assert_eq!(by.tensor_type(), x.tensor_type());
        let by = crate::graph::gradients(&drawn.sum(), std::slice::from_ref(&x)).unwrap();
        assert!(by[0].is_none(), "what is drawn does not depend on the elements of x");
    }

    #[test]
    fn only_a_count_of_the_same_graph_is_a_counter() {
        let g = Graph::new();
        let wrong = g.random_at("noise", LAW, [8], &g.constant(1i32)).unwrap_err();
        assert!(matches!(wrong.problem, GraphProblem::Inputs { .. }), "{wrong}");
        let foreign = Graph::new().constant(1i64);
        let wrong = g.random_at("noise", LAW, [8], &foreign).unwrap_err();
        assert_eq!(wrong.problem, GraphProblem::OtherGraph("Const".to_owned()));
    }
}
