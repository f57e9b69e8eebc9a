//! The gradient of each kind of operation: from the gradients of its outputs to those of its
//! inputs.

use smallvec::{SmallVec, smallvec};

use super::Backward;
use crate::graph::error::{GraphError, GraphProblem};
use crate::graph::op::Op;
use crate::graph::{Edge, OpId, Operation};

/// The gradients for an operation's inputs; `None` for one that is not wanted.
pub(super) type InputGradients = SmallVec<[Option<Edge>; 2]>;

impl Backward<'_> {
    /// The gradients for the inputs of `operation`, whose id is `id`, given the gradients `arrived`
    /// of its outputs.
    ///
    /// For an operation with one input it is called only if that input's gradient is wanted.
    pub(super) fn gradient(
        &self,
        id: OpId,
        operation: &Operation,
        arrived: &[Option<Edge>],
    ) -> Result<InputGradients, GraphError> {
        match &operation.op {
            Op::Defined(op) => self.defined(id, operation, op, arrived),
            _ => match arrived {
                [Some(dy), others @ ..] if others.iter().all(Option::is_none) => {
                    self.simple(operation, *dy)
                }
                _ => Err(self.no_gradient(operation)),
            },
        }
    }

    /// The same for an operation whose first output alone has a gradient.
    fn simple(&self, operation: &Operation, dy: Edge) -> Result<InputGradients, GraphError> {
        Ok(match (&operation.op, operation.inputs.as_slice()) {
            (Op::Identity, [_]) => smallvec![Some(dy)],
            (Op::ResourceGather, [_]) => smallvec![None],
            _ => return Err(self.no_gradient(operation)),
        })
    }

    pub(super) fn no_gradient(&self, operation: &Operation) -> GraphError {
        let (name, built_at) = (operation.to_string(), operation.built_at);
        let problem = GraphProblem::NoGradient { operation: name, built_at };
        GraphError { operation: "gradients".to_owned(), built_at: self.at, problem }
    }
}
