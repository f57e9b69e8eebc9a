//! The gradient of each kind of operation: what arrives at its inputs for what arrives at its output.

use smallvec::{SmallVec, smallvec};

use super::Backward;
use crate::graph::error::{GraphError, GraphProblem};
use crate::graph::op::{Binary, Op, Reduction, Unary};
use crate::graph::{Edge, OpId, Operation};
use crate::tensor::Shape;

/// The gradients for an operation's inputs; none for one that nobody asks about.
pub(super) type InputGradients = SmallVec<[Option<Edge>; 2]>;

impl Backward<'_> {
    /// The gradients for the inputs of `operation`, whose id is `id`, when `arrived` are those of its outputs.
    ///
    /// An operation with one input is only asked where that input's gradient is wanted.
    pub(super) fn gradient(
        &self,
        id: OpId,
        operation: &Operation,
        arrived: &[Option<Edge>],
    ) -> Result<InputGradients, GraphError> {
        match &operation.op {
            Op::Array(array) => self.array(id, operation, array, arrived),
            Op::Indexed(indexed) => self.indexed(id, operation, indexed, arrived),
            _ => match arrived {
                [Some(dy), others @ ..] if others.iter().all(Option::is_none) => self.simple(id, operation, *dy),
                _ => Err(self.no_gradient(operation)),
            },
        }
    }

    /// The same, for an operation of which only the first output has a gradient.
    fn simple(&self, id: OpId, operation: &Operation, dy: Edge) -> Result<InputGradients, GraphError> {
        let y = Edge { op: id, output: 0 };
        let add = |op, inputs: &[Edge]| self.add(id, op, inputs);
        Ok(match (&operation.op, operation.inputs.as_slice()) {
            (Op::Identity, [_]) => smallvec![Some(dy)],
            (Op::AddN, inputs) => inputs.iter().map(|x| self.depends(*x).then_some(dy)).collect(),
            (Op::MatMul { transpose_a, transpose_b }, &[a, b]) => {
                self.matmul(id, dy, [(a, *transpose_a), (b, *transpose_b)])?
            }
            (Op::BiasAdd, &[x, bias]) => {
                smallvec![self.for_input(x, || Ok(dy))?, self.for_input(bias, || add(Op::BiasAddGrad, &[dy]))?]
            }
            (Op::Unary(unary), &[x]) => {
                let seen = if unary.gradient_needs_input() { x } else { y };
                smallvec![Some(add(Op::UnaryGrad(*unary), &[dy, seen])?)]
            }
            (Op::Binary(binary), &[a, b]) => self.binary(id, *binary, dy, (a, b))?,
            (Op::Reduce(reduction), &[x]) => smallvec![Some(add(Op::ReduceGrad(*reduction), &[dy, x])?)],
            (Op::ScaleRows, &[x, factor]) => {
                let by_factor = || self.row_sums(operation, id, add(Op::Binary(Binary::Mul), &[dy, x])?);
                smallvec![self.for_input(x, || add(Op::ScaleRows, &[dy, factor]))?, self.for_input(factor, by_factor)?]
            }
            (Op::Cast(_), &[x]) => smallvec![self.cast_back(id, x, dy)?],
            (Op::Softmax, [_]) => smallvec![Some(self.softmax(operation, id, dy)?)],
            (Op::SparseSoftmaxCrossEntropyWithLogits, [_, _]) => {
                let by_logits = Edge { op: id, output: 1 };
                smallvec![Some(add(Op::ScaleRows, &[by_logits, dy])?), None]
            }
            _ => return Err(self.no_gradient(operation)),
        })
    }

    /// The gradient for input `x`, where it is wanted.
    pub(super) fn for_input(
        &self,
        x: Edge,
        gradient: impl FnOnce() -> Result<Edge, GraphError>,
    ) -> Result<Option<Edge>, GraphError> {
        self.depends(x).then(gradient).transpose()
    }

    /// The gradient as the type of `x`; none where a cast was from or to what is no real number.
    fn cast_back(&self, id: OpId, x: Edge, dy: Edge) -> Result<Option<Edge>, GraphError> {
        let [from, to] = [x, dy].map(|edge| self.graph.tensor_type(edge).dtype);
        (from.is_float() && to.is_float()).then(|| self.add(id, Op::Cast(from), &[dy])).transpose()
    }

    /// `da = dy·bᵀ` and `db = aᵀ·dy`, transposed along with the factors.
    fn matmul(&self, id: OpId, dy: Edge, factors: [(Edge, bool); 2]) -> Result<InputGradients, GraphError> {
        let [(a, ta), (b, tb)] = factors;
        let product = |x, transpose_a, y, transpose_b| self.add(id, Op::MatMul { transpose_a, transpose_b }, &[x, y]);
        let da = || if ta { product(b, tb, dy, true) } else { product(dy, false, b, !tb) };
        let db = || if tb { product(dy, true, a, ta) } else { product(a, !ta, dy, false) };
        Ok(smallvec![self.for_input(a, da)?, self.for_input(b, db)?])
    }

    fn binary(&self, id: OpId, op: Binary, dy: Edge, (a, b): (Edge, Edge)) -> Result<InputGradients, GraphError> {
        let add = |op, inputs: &[Edge]| self.add(id, op, inputs);
        let mul = |x, y| add(Op::Binary(Binary::Mul), &[x, y]);
        let negated = |x| add(Op::Unary(Unary::Neg), &[x]);
        let fitted =
            |x, gradient: &dyn Fn() -> Result<Edge, GraphError>| self.for_input(x, || self.fitted(id, gradient()?, x));
        let (da, db) = match op {
            Binary::Add => (fitted(a, &|| Ok(dy))?, fitted(b, &|| Ok(dy))?),
            Binary::Sub => (fitted(a, &|| Ok(dy))?, fitted(b, &|| negated(dy))?),
            Binary::Mul => (fitted(a, &|| mul(dy, b))?, fitted(b, &|| mul(dy, a))?),
            Binary::Div => {
                let (quotient, by_a) = (Edge { op: id, output: 0 }, add(Op::Binary(Binary::Div), &[dy, b])?);
                (fitted(a, &|| Ok(by_a))?, fitted(b, &|| negated(mul(by_a, quotient)?))?)
            }
        };
        Ok(smallvec![da, db])
    }

    /// A gradient of the shape of `x`: summed, where `x` is a scalar that met a larger value.
    fn fitted(&self, id: OpId, gradient: Edge, x: Edge) -> Result<Edge, GraphError> {
        let is_scalar = |edge| self.graph.tensor_type(edge).shape.rank() == 0;
        if is_scalar(x) && !is_scalar(gradient) {
            return self.add(id, Op::Reduce(Reduction::Sum), &[gradient]);
        }
        Ok(gradient)
    }

    /// `dx = dy∘y − y·Σ(dy∘y)`, the sum over each row.
    fn softmax(&self, operation: &Operation, id: OpId, dy: Edge) -> Result<Edge, GraphError> {
        let y = Edge { op: id, output: 0 };
        let product = self.add(id, Op::Binary(Binary::Mul), &[dy, y])?;
        let sums = self.row_sums(operation, id, product)?;
        let scaled = self.add(id, Op::ScaleRows, &[y, sums])?;
        self.add(id, Op::Binary(Binary::Sub), &[product, scaled])
    }

    /// The sum of each row of `x`: as the sums over columns of one row, `ones · xᵀ`.
    fn row_sums(&self, operation: &Operation, id: OpId, x: Edge) -> Result<Edge, GraphError> {
        let given = self.graph.tensor_type(x);
        let Some(&[_, Some(width)]) = given.float_dims() else {
            let needs = "a matrix of known width to have a gradient".to_owned();
            let problem = GraphProblem::Inputs { needs, inputs: vec![given] };
            return Err(GraphError { operation: operation.to_string(), built_at: operation.built_at, problem });
        };
        let ones = self.add(id, Op::Fill { shape: Shape::from([1, width]), value: 1.0 }, &[])?;
        let row = self.add(id, Op::MatMul { transpose_a: false, transpose_b: true }, &[ones, x])?;
        self.add(id, Op::BiasAddGrad, &[row])
    }

    pub(super) fn no_gradient(&self, operation: &Operation) -> GraphError {
        let (name, built_at) = (operation.to_string(), operation.built_at);
        let problem = GraphProblem::NoGradient { operation: name, built_at };
        GraphError { operation: "gradients".to_owned(), built_at: self.at, problem }
    }
}
