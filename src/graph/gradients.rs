//! Gradients, built as graph: reverse-mode differentiation of a scalar by variables or other values.

use std::collections::BTreeMap;
use std::panic::Location;

use smallvec::SmallVec;

use super::error::{GraphError, GraphProblem};
use super::op::{Binary, Op, Unary};
use super::output::Output;
use super::{Edge, Graph, GraphDef, NewOperation, OpId, Operation};

/// The derivative of `loss`, a scalar, by each of `by`; none where the loss does not depend on it.
///
/// The new operations run on the device of the operation they are the gradient of
/// (TensorFlow: `tf.gradients` with `colocate_gradients_with_ops`).
///
/// # Errors
/// If an operation between has no gradient.
#[track_caller]
pub fn gradients(loss: &Output, by: &[Output]) -> Result<Vec<Option<Output>>, GraphError> {
    let graph = loss.graph().clone();
    let def = graph.snapshot()?;
    let on_path = depends_on(&def, by);
    let mut pass = Backward { graph: &graph, def: &def, arrived: BTreeMap::new(), at: Location::caller() };
    let one = pass.add(loss.edge().op, Op::Fill { shape: super::SCALAR, value: 1.0 }, &[])?;
    pass.arrived.entry(loss.edge()).or_default().push(one);
    for id in (0..=loss.edge().op.0).rev().map(OpId) {
        if on_path[id.0 as usize] {
            pass.through(id, &on_path)?;
        }
    }
    by.iter().map(|x| Ok(pass.total(x.edge())?.map(|edge| Output::new(graph.clone(), edge)))).collect()
}

/// Whether each operation depends on one of `by`.
fn depends_on(def: &GraphDef, by: &[Output]) -> Vec<bool> {
    let mut depends = vec![false; def.operations.len()];
    for (id, operation) in def.iter() {
        let is_one = by.iter().any(|x| x.edge().op == id);
        depends[id.0 as usize] = is_one || operation.inputs.iter().any(|edge| depends[edge.op.0 as usize]);
    }
    depends
}

/// The gradients for an operation's inputs; none where it has none to give.
type InputGradients = SmallVec<[Option<Edge>; 2]>;

struct Backward<'a> {
    graph: &'a Graph,
    def: &'a GraphDef,
    /// What has arrived at each edge from its users, in the order of arrival.
    arrived: BTreeMap<Edge, Vec<Edge>>,
    at: &'static Location<'static>,
}

impl Backward<'_> {
    /// Hands the gradient at the outputs of `id` on to its inputs.
    fn through(&mut self, id: OpId, on_path: &[bool]) -> Result<(), GraphError> {
        let operation = self.def.operation(id);
        if operation.inputs.iter().all(|edge| !on_path[edge.op.0 as usize]) {
            return Ok(());
        }
        let Some(gradient) = self.total(Edge { op: id, output: 0 })? else { return Ok(()) };
        let inputs = self.gradient(id, operation, gradient)?;
        for (edge, gradient) in operation.inputs.iter().zip(inputs) {
            if let Some(gradient) = gradient.filter(|_| on_path[edge.op.0 as usize]) {
                self.arrived.entry(*edge).or_default().push(gradient);
            }
        }
        Ok(())
    }

    /// All that has arrived at `edge`, added up.
    fn total(&mut self, edge: Edge) -> Result<Option<Edge>, GraphError> {
        match self.arrived.get(&edge).map(Vec::as_slice) {
            None | Some([]) => Ok(None),
            Some([one]) => Ok(Some(*one)),
            Some(several) => {
                let several = several.to_vec();
                let sum = self.add(edge.op, Op::AddN, &several)?;
                self.arrived.insert(edge, vec![sum]);
                Ok(Some(sum))
            }
        }
    }

    fn gradient(&self, id: OpId, operation: &Operation, dy: Edge) -> Result<InputGradients, GraphError> {
        let y = Edge { op: id, output: 0 };
        let add = |op, inputs: &[Edge]| self.add(id, op, inputs).map(Some);
        Ok(match (&operation.op, operation.inputs.as_slice()) {
            (Op::Identity, [_]) => SmallVec::from_slice(&[Some(dy)]),
            (Op::AddN, inputs) => inputs.iter().map(|_| Some(dy)).collect(),
            (Op::MatMul { transpose_a, transpose_b }, &[a, b]) => {
                self.matmul(id, dy, [(a, *transpose_a), (b, *transpose_b)])?
            }
            (Op::BiasAdd, [_, _]) => SmallVec::from_slice(&[Some(dy), add(Op::BiasAddGrad, &[dy])?]),
            (Op::Unary(unary), [x]) => {
                let seen = if unary.gradient_needs_input() { *x } else { y };
                SmallVec::from_slice(&[add(Op::UnaryGrad(*unary), &[dy, seen])?])
            }
            (Op::Binary(binary), &[a, b]) => self.binary(id, *binary, dy, (a, b))?,
            (Op::Reduce(reduction), [x]) => SmallVec::from_slice(&[add(Op::ReduceGrad(*reduction), &[dy, *x])?]),
            (Op::ScaleRows, [_, factor]) => SmallVec::from_slice(&[add(Op::ScaleRows, &[dy, *factor])?, None]),
            (Op::SparseSoftmaxCrossEntropyWithLogits, [_, _]) => {
                let by_logits = Edge { op: id, output: 1 };
                SmallVec::from_slice(&[add(Op::ScaleRows, &[by_logits, dy])?, None])
            }
            (op, _) => {
                let problem = GraphProblem::NoGradient(op.kind(), operation.name.to_string());
                let operation = "gradients".to_owned();
                return Err(GraphError { operation, built_at: self.at, problem });
            }
        })
    }

    /// `da = dy·bᵀ` and `db = aᵀ·dy`, transposed along with the factors.
    fn matmul(&self, id: OpId, dy: Edge, factors: [(Edge, bool); 2]) -> Result<InputGradients, GraphError> {
        let [(a, ta), (b, tb)] = factors;
        let product =
            |x, transpose_a, y, transpose_b| self.add(id, Op::MatMul { transpose_a, transpose_b }, &[x, y]).map(Some);
        let da = if ta { product(b, tb, dy, true)? } else { product(dy, false, b, !tb)? };
        let db = if tb { product(dy, true, a, ta)? } else { product(a, !ta, dy, false)? };
        Ok(SmallVec::from_slice(&[da, db]))
    }

    fn binary(&self, id: OpId, op: Binary, dy: Edge, (a, b): (Edge, Edge)) -> Result<InputGradients, GraphError> {
        let add = |op, inputs: &[Edge]| self.add(id, op, inputs);
        let mul = |x, y| add(Op::Binary(Binary::Mul), &[x, y]);
        let div = |x, y| add(Op::Binary(Binary::Div), &[x, y]);
        let negated = |x| add(Op::Unary(Unary::Neg), &[x]);
        let (da, db) = match op {
            Binary::Add => (dy, dy),
            Binary::Sub => (dy, negated(dy)?),
            Binary::Mul => (mul(dy, b)?, mul(dy, a)?),
            Binary::Div => {
                let quotient = Edge { op: id, output: 0 };
                let da = div(dy, b)?;
                (da, negated(mul(da, quotient)?)?)
            }
        };
        Ok(SmallVec::from_slice(&[self.fitted(id, da, a)?, self.fitted(id, db, b)?]))
    }

    /// A gradient of the shape of `x`: summed, where `x` is a scalar that met a larger value.
    fn fitted(&self, id: OpId, gradient: Edge, x: Edge) -> Result<Option<Edge>, GraphError> {
        let scalar = self.def.edge_type(x).shape.rank() == 0;
        let larger = self.graph.tensor_type(gradient).shape.rank() > 0;
        if scalar && larger {
            return self.add(id, Op::Reduce(super::Reduction::Sum), &[gradient]).map(Some);
        }
        Ok(Some(gradient))
    }

    fn add(&self, of: OpId, op: Op, inputs: &[Edge]) -> Result<Edge, GraphError> {
        let new = NewOperation { inputs, colocated_with: Some(of), built_at: self.at, ..NewOperation::of(op) };
        Ok(Edge { op: self.graph.add(new)?, output: 0 })
    }
}
