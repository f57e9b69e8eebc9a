//! The values that a step has fetched, and the keys by which a program reads them.

use smallvec::SmallVec;

use crate::graph::{Edge, Graph, Output};
use crate::runtime::{Code, Error, Result, Values};
use crate::tensor::{Element, Tensor};

use super::run_metadata::RunMetadata;

/// The outputs that a step fetches, in order; usually few enough to need no allocation.
pub(super) type Edges = SmallVec<[Edge; 8]>;

/// The values that a step fetched, found by the fetched [`Output`] or by its position.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The graph of the step.
    pub(super) graph: Graph,
    pub(super) values: Values,
    pub(super) edges: Edges,
    pub(super) metadata: RunMetadata,
}

/// The key of a fetch: the [`Output`] itself, or its position among those of the step.
pub trait FetchKey {
    /// The position among `fetched`, values of `graph`, if it is one of them.
    #[doc(hidden)]
    fn position(&self, graph: &Graph, fetched: &[Edge]) -> Option<usize>;

    /// The fetch's name in an error.
    #[doc(hidden)]
    fn describe(&self) -> String;
}

impl FetchKey for usize {
    fn position(&self, _: &Graph, fetched: &[Edge]) -> Option<usize> {
        (*self < fetched.len()).then_some(*self)
    }

    fn describe(&self) -> String {
        format!("fetch {self}")
    }
}

impl FetchKey for &Output {
    fn position(&self, graph: &Graph, fetched: &[Edge]) -> Option<usize> {
        let found = fetched.iter().position(|edge| *edge == self.edge());
        found.filter(|_| graph.same_as(self.graph()))
    }

    fn describe(&self) -> String {
        format!("`{}`", self.name())
    }
}

impl Fetched {
    /// The value of `fetch`, if the step fetched it.
    pub fn get(&self, fetch: impl FetchKey) -> Option<&Tensor> {
        self.values.get(fetch.position(&self.graph, &self.edges)?)
    }

    /// When the operations of the step ran, if its options asked for that; else it is empty.
    pub fn metadata(&self) -> &RunMetadata {
        &self.metadata
    }

    /// The only element of the value of `fetch`.
    ///
    /// # Errors
    /// If it has another type or more elements, or the step did not fetch it.
    pub fn scalar<T: Element>(&self, fetch: impl FetchKey) -> Result<T> {
        let Some(position) = fetch.position(&self.graph, &self.edges) else {
            let (what, fetched) = (fetch.describe(), self.edges.len());
            let message = format!(
                "{what} is none of the {fetched} values that the step fetched; \
                 add `.fetch(…)` to it"
            );
            return Err(Error::new(Code::InvalidArgument, message));
        };
        self.values[position].item().map_err(|error| {
            let error = Error::from(error);
            Error { message: format!("{}: {}", fetch.describe(), error.message), ..error }
        })
    }
}

impl<K: FetchKey> std::ops::Index<K> for Fetched {
    type Output = Tensor;

    /// # Panics
    /// If the step did not fetch it.
    fn index(&self, fetch: K) -> &Tensor {
        match fetch.position(&self.graph, &self.edges) {
            Some(position) => &self.values[position],
            None => panic!("{} is none of what the step fetched", fetch.describe()),
        }
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::graph::Graph;

    #[test]
    fn a_value_is_found_by_the_fetched_output_or_its_position_and_an_error_names_the_fetch() {
        let g = Graph::new();
        let (loss, accuracy, other) = (g.constant(0f32), g.constant(0f32), g.constant(0f32));
        let fetched = Fetched {
            graph: g.clone(),
            values: smallvec![Tensor::scalar(0.5f32), Tensor::scalar(0.9f32)],
            edges: [&loss, &accuracy].map(Output::edge).into_iter().collect(),
            metadata: RunMetadata::default(),
        };
        assert_eq!(fetched.scalar::<f32>(&accuracy), Ok(0.9));
        assert_eq!((&fetched[0], &fetched[&loss]), (&0.5f32.into(), &0.5f32.into()));
        assert_eq!((fetched.get(2), fetched.get(&other)), (None, None));
        let error = fetched.scalar::<f32>(&other).unwrap_err();
        assert!(error.message.contains("`Const_2` is none of the 2 values"), "{error}");
        let error = fetched.scalar::<f64>(&accuracy).unwrap_err();
        assert_eq!(error.message, "`Const_1`: the tensor holds f32, not f64");
        // It has the number in its graph that the loss has in the other.
        let foreign = Graph::new().constant(0f32);
        assert_eq!(fetched.get(&foreign), None);
        assert!(fetched.scalar::<f32>(&foreign).is_err());
    }
}
