//! The outputs of a node, as far as the importer knows them.

use std::rc::Rc;

use super::NodeProblem;
use super::known::Known;
use super::listed::Listed;
use crate::graph::{Edge, Graph, Name, NewOperation, Op, OpId, Output};
use crate::tensor::Tensor;

/// A branch of a condition: TensorFlow runs what is in it only where the condition is as said.
#[derive(Clone, PartialEq)]
pub(super) struct Branch {
    pub(super) condition: Edge,
    pub(super) holds: bool,
}

/// The shape that a gradient is summed to.
#[derive(Clone)]
pub(super) struct SummedTo {
    /// A value of that shape, which was broadcast. Of a product of matrices it has no more axes
    /// than those of the batch.
    pub(super) like: Output,
    /// The number of axes that it was broadcast to: the gradient's first.
    pub(super) rank: usize,
}

/// One output of a node.
#[derive(Clone, Default)]
pub(super) struct Value {
    /// The value in a step, if an operation computes it.
    pub(super) output: Option<Output>,
    /// Its value, if it is the same in every step.
    pub(super) constant: Option<Tensor>,
    /// Its integers, as far as they are known.
    pub(super) known: Option<Known>,
    /// Its text, if it is one: a message.
    pub(super) text: Option<String>,
    /// The branches that it is computed in.
    pub(super) branches: Vec<Branch>,
    /// What to sum to, where it is axes to sum over that are known only in the step.
    pub(super) summed_to: Option<SummedTo>,
    /// The value that it is, with each axis apart as many times as it was repeated: the first half
    /// of the gradient of `Tile`, whose shape has too many dimensions for here.
    pub(super) tiled: Option<(Output, Vec<i64>)>,
    /// The operations that must run before a user that takes the constant or known value without
    /// the output: the control inputs of the constants that it was computed from.
    pub(super) after: Vec<OpId>,
    /// The list that it is, if it is one.
    pub(super) list: Option<Listed>,
    /// The variable that it refers to, if it does, and the operation that must run before a read of
    /// it.
    pub(super) variable: Option<(OpId, Option<OpId>)>,
    /// Within a function: the number of the variable that it refers to, if it does.
    pub(super) cell: Option<usize>,
}

impl From<Output> for Value {
    fn from(output: Output) -> Self {
        Self { output: Some(output), ..Self::default() }
    }
}

impl From<Known> for Value {
    fn from(known: Known) -> Self {
        Self { constant: known.tensor(), known: Some(known), ..Self::default() }
    }
}

impl Value {
    /// Whether it has no value of its own in a step: the handle of a list, or a list that has no
    /// value yet.
    pub(super) fn is_static(&self) -> bool {
        self.output.is_none()
            && matches!(
                self.list,
                Some(Listed::Handle { .. } | Listed::Open(_) | Listed::Either(_) | Listed::Nothing)
            )
    }

    /// The optional that has one of these values, by the branch that has run.
    pub(super) fn either(parts: [Self; 2]) -> Self {
        Self { list: Some(Listed::Either(Rc::new(parts))), ..Self::default() }
    }

    /// Both values of such an optional; twice the value, if it is of one type.
    pub(super) fn parts(&self) -> [Self; 2] {
        match &self.list {
            Some(Listed::Either(parts)) => parts.as_ref().clone(),
            _ => [self.clone(), self.clone()],
        }
    }

    /// The values for a step that it is made of.
    pub(super) fn leaves(&self) -> Vec<&Self> {
        match &self.list {
            Some(Listed::Either(parts)) => parts.iter().flat_map(Self::leaves).collect(),
            _ if self.is_static() => Vec::new(),
            _ => vec![self],
        }
    }

    /// The same with the next of `values` for each of its leaves.
    pub(super) fn with_leaves(&self, values: &mut impl Iterator<Item = Self>) -> Self {
        match &self.list {
            Some(Listed::Either(parts)) => {
                let [first, second] = parts.as_ref();
                let first = first.with_leaves(values);
                Self::either([first, second.with_leaves(values)])
            }
            _ if self.is_static() => self.clone(),
            list => Self { list: list.clone(), ..values.next().unwrap_or_default() },
        }
    }

    /// The value for a step. Operations that must be made for it are called after `node`, whose
    /// input `input` it is.
    pub(super) fn output(
        &self,
        graph: &Graph,
        node: &str,
        input: usize,
    ) -> Result<Output, NodeProblem> {
        match (&self.output, &self.known, self.variable) {
            (Some(output), ..) => Ok(output.clone()),
            (None, Some(known), _) => known.materialise(graph, &format!("{node}/shape_"), input),
            (None, None, Some((variable, after))) => {
                let read = graph.add(NewOperation {
                    name: Name::Numbered(&format!("{node}/read_")),
                    variables: &[variable],
                    control_inputs: after.as_slice(),
                    colocated_with: Some(variable),
                    ..NewOperation::of(Op::ReadVariable)
                })?;
                Ok(graph.output(read))
            }
            (None, None, None) => Err(NodeProblem::NoValue { input }),
        }
    }
}
