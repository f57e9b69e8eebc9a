//! The gradient of each kind of operation: from the gradients of its outputs to those of its
//! inputs.

use smallvec::{SmallVec, smallvec};

use super::Backward;
use crate::graph::error::{GraphError, GraphProblem};
use crate::graph::op::{Binary, Op, Reduce, Reduction};
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
            Op::Array(array) => self.array(id, operation, array, arrived),
            Op::Sparse(sparse) => self.sparse(id, operation, sparse, arrived),
            Op::Window(window) => self.window(id, operation, window, arrived),
            Op::Defined(op) => self.defined(id, operation, op, arrived),
            _ => match arrived {
                [Some(dy), others @ ..] if others.iter().all(Option::is_none) => {
                    self.simple(id, operation, *dy)
                }
                _ => Err(self.no_gradient(operation)),
            },
        }
    }

    /// The same for an operation whose first output alone has a gradient.
    fn simple(
        &self,
        id: OpId,
        operation: &Operation,
        dy: Edge,
    ) -> Result<InputGradients, GraphError> {
        let add = |op, inputs: &[Edge]| self.add(id, op, inputs);
        Ok(match (&operation.op, operation.inputs.as_slice()) {
            (Op::Identity, [_]) => smallvec![Some(dy)],
            (Op::AddN, inputs) => inputs.iter().map(|x| self.depends(*x).then_some(dy)).collect(),
            (Op::MatMul { transpose_a, transpose_b }, &[a, b]) => {
                self.matmul(id, dy, [(a, *transpose_a), (b, *transpose_b)])?
            }
            (Op::BatchMatMul { adj_x, adj_y }, &[x, y]) => {
                self.batch_matmul(id, dy, [(x, *adj_x), (y, *adj_y)])?
            }
            (Op::BiasAdd, &[x, bias]) => {
                smallvec![
                    self.for_input(x, || Ok(dy))?,
                    self.for_input(bias, || add(Op::BiasAddGrad, &[dy]))?
                ]
            }
            (Op::Unary(_) | Op::Binary(_) | Op::Select, _) => {
                self.elementwise(id, operation, dy)?
            }
            (Op::Reduce(reduce), &[x]) => self.reduce(id, operation, *reduce, (x, dy))?,
            (Op::ReduceGrad(reduce), &[gradient, _]) => {
                self.reduce_grad(id, operation, *reduce, (gradient, dy))?
            }
            (Op::ScaleRows, &[x, factor]) => {
                let by_factor = || self.row_sums(id, add(Op::Binary(Binary::Mul), &[dy, x])?);
                smallvec![
                    self.for_input(x, || add(Op::ScaleRows, &[dy, factor]))?,
                    self.for_input(factor, by_factor)?
                ]
            }
            (Op::Cast(_), &[x]) => smallvec![self.cast_back(id, x, dy)?],
            (Op::Norm(norm), _) => self.norm(id, operation, *norm, dy)?,
            (Op::Loss(loss), _) => self.loss(id, operation, *loss, dy)?,
            (Op::ResourceGather, [_]) => smallvec![None],
            _ => return Err(self.no_gradient(operation)),
        })
    }

    /// The gradient for input `x`, if it is wanted.
    pub(super) fn for_input(
        &self,
        x: Edge,
        gradient: impl FnOnce() -> Result<Edge, GraphError>,
    ) -> Result<Option<Edge>, GraphError> {
        self.depends(x).then(gradient).transpose()
    }

    /// The gradient cast to the type of `x`; `None` if either type of the cast is not of real
    /// numbers.
    fn cast_back(&self, id: OpId, x: Edge, dy: Edge) -> Result<Option<Edge>, GraphError> {
        let [from, to] = [x, dy].map(|edge| self.graph.tensor_type(edge).dtype);
        (from.is_float() && to.is_float()).then(|| self.add(id, Op::Cast(from), &[dy])).transpose()
    }

    /// The sum of each row of the matrix `x`.
    fn row_sums(&self, id: OpId, x: Edge) -> Result<Edge, GraphError> {
        let rows =
            Reduce { reduction: Reduction::Sum, axes: [1].into_iter().collect(), keep_dims: false };
        self.add(id, Op::Reduce(rows), &[x])
    }

    pub(super) fn no_gradient(&self, operation: &Operation) -> GraphError {
        let (name, built_at) = (operation.to_string(), operation.built_at);
        let problem = GraphProblem::NoGradient { operation: name, built_at };
        GraphError { operation: "gradients".to_owned(), built_at: self.at, problem }
    }
}
