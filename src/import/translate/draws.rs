//! Random operations: their seed, and the counter that makes each step draw anew.

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64;

use super::array::extent;
use super::{Importer, Node, NodeProblem, Translate};
use crate::graph::{Op, Output, RandomLaw};
use crate::import::wire::{AttrValue, Value as Attribute};
use crate::operations::{Binary, Random};
use crate::tensor::{DType, Tensor};

/// The distance, modulo 2⁶⁴, of the counters of two steps before the first round of a loop: odd,
/// so that loops in loops keep steps apart, and far from small multiples of itself.
const DISTANCE: i64 = 0x9e37_79b9_7f4a_7c15_u64 as i64;

/// What makes the random values of one call of a function differ from those of another.
#[derive(Default)]
pub(super) struct Draws {
    /// The nodes and functions that it is called in, from the outermost one, each with a `/` after
    /// it.
    pub(super) path: String,
    /// Its last argument, if the function draws: an i64 that is another one in each step, and in
    /// each round of the loops that it is in.
    pub(super) counter: Option<Output>,
}

pub(super) fn find(kind: &str) -> Option<Translate> {
    law(kind).map(random)
}

fn law(kind: &str) -> Option<RandomLaw> {
    Some(match kind {
        "RandomUniform" => RandomLaw::Uniform { low: 0.0, high: 1.0 },
        "RandomStandardNormal" => RandomLaw::Normal { mean: 0.0, deviation: 1.0 },
        "TruncatedNormal" => RandomLaw::TruncatedNormal { mean: 0.0, deviation: 1.0 },
        _ => return None,
    })
}

/// Random values, seeded by the graph, by TensorFlow's two seeds and by the name; and, unless they
/// are a variable's first ones, by the global step.
fn random(law: RandomLaw) -> Translate {
    Box::new(move |importer, node| {
        let (shape, like) = extent(importer, node, 0)?;
        if node.def.dtype("dtype")? != DType::F32 {
            return Err(NodeProblem::unsupported("random values are f32 here"));
        }
        let (seed, seed2) = (node.def.int("seed", 0)?, node.def.int("seed2", 0)?);
        let purpose = format!("{}{}:{seed}:{seed2}", importer.draws.path, node.def.name);
        let seeds = (importer.graph.random_seed(), xxh3_64(purpose.as_bytes()));
        let counter = importer.counter_of(node)?;
        let inputs: Vec<Output> = like.into_iter().chain(counter).collect();
        importer.emit(node, Random { law, shape, seeds, offset: 0 }, &inputs)
    })
}

impl Importer<'_> {
    /// The counter that makes the random values of `node` differ from step to step: the global step
    /// or, in a function, its last argument. None for a variable's first value, and for a graph
    /// without a global step; a graph for training is given one.
    fn counter_of(&self, node: &Node<'_>) -> Result<Option<Output>, NodeProblem> {
        if self.roles.is_of_first_values(&node.def.name) {
            return Ok(None);
        }
        if self.depth > 0 {
            return Ok(self.draws.counter.clone());
        }
        let step = match self.keeps_devices {
            true => self.graph.existing_global_step(),
            false => Some(self.graph.global_step()?),
        };
        Ok(step.map(|step| step.read()))
    }

    /// The counter that `functions`, which `node` calls, are given as their last argument; none if
    /// they draw nothing, or the same in each step.
    pub(super) fn counter_for(
        &self,
        node: &Node<'_>,
        functions: &[&str],
    ) -> Result<Option<Output>, NodeProblem> {
        if self.draw(functions) { self.counter_of(node) } else { Ok(None) }
    }

    /// Whether one of `functions`, or one that they call, draws random values.
    fn draw(&self, functions: &[&str]) -> bool {
        let (mut names, mut seen) = (functions.to_vec(), BTreeSet::new());
        while let Some(name) = names.pop() {
            let Some(function) = self.function(name).ok().filter(|_| seen.insert(name)) else {
                continue;
            };
            for node in &function.node_def {
                if law(&node.op).is_some() {
                    return true;
                }
                names.extend(node.attr.values().filter_map(called));
            }
        }
        false
    }

    /// The counter of a loop's first round, from that of the graph or function the loop is in.
    pub(super) fn counter_of_rounds(
        &self,
        node: &Node<'_>,
        counter: &Output,
    ) -> Result<Output, NodeProblem> {
        let distance = Op::Const(Tensor::scalar(DISTANCE));
        let distance = self.helper(node, "draws/distance", distance, &[])?;
        self.helper(node, "draws/begin", Binary::Mul, &[counter, &distance])
    }
}

/// The function that an attribute names, if it names one.
fn called(attribute: &AttrValue) -> Option<&str> {
    match &attribute.value {
        Some(Attribute::Function(function)) => Some(&function.name),
        _ => None,
    }
}
