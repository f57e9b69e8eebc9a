//! All-reduce: sums a value over replicas, and gives each of them the whole sum.

mod members;

use std::panic::Location;

use super::error::{GraphError, GraphProblem};
use super::{Output, TensorType};
use crate::tensor::Shape;
use members::Members;

/// A way to sum a value over replicas, each of which has one of the same type on its device, so
/// that each has the whole sum (TensorFlow: `tensorflow/python/distribute/v1/all_reduce.py`).
///
/// It is built of ordinary operations: pieces are cut, added and joined on the replicas' devices,
/// and what the partition makes cross from one to another is sent as any other value. So what holds
/// for steps (deadlines, lost tasks, costs) holds for it, and no task has a part of its own.
///
/// With `n` replicas, of a value of `S` bytes:
///
/// | way | rounds | bytes in and out of a replica | the order of each element's sum |
/// |---|---|---|---|
/// | [`Ring`](Self::Ring) | `2(n − 1)` | `2S(n − 1)/n` | around the ring, from the replica after the one that ends up with the piece |
/// | [`Tree`](Self::Tree) | `2 log2 n` | `2S(n − 1)/n` | pairs of neighbours, then pairs of pairs: `((0+1)+(2+3))+…` |
/// | [`Shuffle`](Self::Shuffle) | 2 | `2S(n − 1)/n` | `0+1+2+…`, as a parameter server sums gradients by worker |
/// | [`Hierarchical`](Self::Hierarchical) | of its groups | `2S/g` and less leave a group of `g` for each replica | around the rings |
///
/// Each order is fixed, whatever arrives first, and all replicas end up with the same bits. Two
/// replicas have one order: all ways then give the same, and what parameter servers give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllReduce {
    /// Each replica sends to the next alone, a piece a round: pieces are summed on their way
    /// around, and go around a second time when they are whole. It asks least of a network: no two
    /// replicas send to one at once.
    Ring,
    /// Recursive halving and doubling: a replica swaps halves with its neighbour, quarters with the
    /// replica two away, eighths with that four away, and so on; then back. It has as few bytes as
    /// the ring and far fewer rounds, where a tree of whole values would have `log2 n` times the
    /// bytes. A round that follows large pieces begins once these have arrived at the other end, a
    /// latency later, so that a late replica sends one after another. Where `n` is no power of two,
    /// the replicas beyond the power first give all they have to a neighbour, and are given the sum
    /// at the end: two rounds and `S` more for those neighbours than `p`, the greatest power of two
    /// below `n`, has. That is 2 to 3 times the time of the ring.
    Tree,
    /// Each replica sums one piece of all, as a parameter server would, and sends it to all. The
    /// fewest rounds, on a network where all can send to all.
    Shuffle,
    /// Rings inside of groups, and between them: each member of a group has a piece of its group's
    /// sum before a byte leaves the group, and only pieces do.
    Hierarchical {
        /// By replica, the number of its group.
        groups: Vec<usize>,
    },
}

impl AllReduce {
    /// The sums of `values`, one of each replica, in their order: each on the device of its value.
    ///
    /// # Errors
    /// If there are no values, if they are not numbers of one type and of a shape known in full, or
    /// if the groups are not those of so many replicas.
    #[track_caller]
    pub fn sum(&self, values: &[Output]) -> Result<Vec<Output>, GraphError> {
        self.reduce(values, None)
    }

    /// As [`AllReduce::sum`], divided by the number of values.
    ///
    /// # Errors
    /// As [`AllReduce::sum`]; also if they are not floats.
    #[track_caller]
    pub fn mean(&self, values: &[Output]) -> Result<Vec<Output>, GraphError> {
        self.reduce(values, Some(1.0 / values.len() as f32))
    }

    #[track_caller]
    fn reduce(&self, values: &[Output], scale: Option<f32>) -> Result<Vec<Output>, GraphError> {
        let shape = shape_of(values, scale.is_some())?;
        let groups = self.groups(values.len())?;
        let [first, _, ..] = values else { return Ok(values.to_vec()) };
        let (at, elements) = (Location::caller(), shape.elements());
        first.graph().clone().with_name_scope("all_reduce", |g| {
            let members = Members::new(g, values, scale, at);
            let flat = members.reshaped(values, Shape::from([elements]))?;
            let sums = match self {
                Self::Ring => members.ring(&members.all(), &flat, elements),
                Self::Tree => members.tree(&flat, elements),
                Self::Shuffle => members.shuffle(&flat, elements),
                Self::Hierarchical { .. } => members.hierarchical(&groups, &flat, elements),
            }?;
            members.reshaped(&sums, shape)
        })
    }

    /// The same way among `members` alone, some of the replicas.
    pub(super) fn among(&self, members: &[usize]) -> Self {
        match self {
            Self::Hierarchical { groups } => {
                let own = members.iter().filter_map(|member| groups.get(*member).copied());
                Self::Hierarchical { groups: own.collect() }
            }
            other => other.clone(),
        }
    }

    /// The members of each group, of `replicas`; none for a way without groups.
    #[track_caller]
    fn groups(&self, replicas: usize) -> Result<Vec<Vec<usize>>, GraphError> {
        let Self::Hierarchical { groups } = self else { return Ok(Vec::new()) };
        if groups.len() != replicas {
            let needs = format!("as many values as its {} replicas in groups", groups.len());
            let problem = GraphProblem::Inputs { needs, inputs: Vec::new() };
            return Err(GraphError::new("all_reduce", problem));
        }
        let mut numbers = groups.clone();
        numbers.sort_unstable();
        numbers.dedup();
        let members = |number: usize| (0..replicas).filter(|it| groups[*it] == number).collect();
        Ok(numbers.into_iter().map(members).collect())
    }
}

/// The shape of all of `values`, which are numbers: floats, if their mean `is_scaled`.
///
/// # Errors
/// If there is none, or they have none in common that is known in full.
#[track_caller]
fn shape_of(values: &[Output], is_scaled: bool) -> Result<Shape, GraphError> {
    let inputs: Vec<TensorType> = values.iter().map(Output::tensor_type).collect();
    let fits = |first: &TensorType| {
        let is_number = first.dtype.is_float() || !is_scaled;
        is_number && inputs.iter().all(|other| other == first)
    };
    let shape = inputs.first().filter(|first| fits(first)).and_then(|first| first.shape.known());
    if let Some(shape) = shape {
        return Ok(shape);
    }
    let numbers = if is_scaled { "floats" } else { "numbers" };
    let needs = format!("at least one, {numbers} of one type and of a shape known in full");
    Err(GraphError::new("all_reduce", GraphProblem::Inputs { needs, inputs }))
}
