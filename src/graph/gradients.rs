//! Gradients, built as graph: reverse-mode differentiation of a scalar by variables or other
//! values.

mod backprop;
mod rules;
mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;

use smallvec::SmallVec;

pub use backprop::Backprop;

use super::error::{GraphError, GraphProblem};
use super::op::Op;
use super::output::Output;
use super::{Edge, Gradient, Graph, GraphDef, NewOperation, OpId, Variable};
use crate::tensor::{Shape, Tensor};

/// The derivative of `loss`, a scalar, by each of `by`; `None` if the loss does not depend on it.
///
/// Each new operation runs on the device of the operation that it differentiates (TensorFlow:
/// `tf.gradients` with `colocate_gradients_with_ops`). Several gradients of one value are added up
/// on their own device if they share one, and travel as one.
///
/// # Errors
/// If the loss is not an f32 or f64 scalar, or is computed from one of `by` through an operation
/// without a gradient or with one that does not fit its inputs, or one of `by` belongs to another
/// graph.
#[track_caller]
pub fn gradients(loss: &Output, by: &[Output]) -> Result<Vec<Option<Output>>, GraphError> {
    for x in by {
        loss.graph().check_own("gradients", x)?;
    }
    let (def, sources) = (loss.graph().snapshot()?, by.iter().map(|x| x.edge().op).collect());
    backward(loss, &def, &sources, |pass| {
        let output = |edge| Output::new(pass.graph.clone(), edge);
        by.iter().map(|x| Ok(pass.total(x.edge())?.map(output))).collect()
    })
}

/// The derivative of `loss`, a scalar, by each variable of `by`, through all of its reads; `None`
/// if the loss does not depend on it. If only rows of a variable were gathered, the derivative is
/// of these rows: several slices are concatenated, and are made dense if they are added to a dense
/// gradient (TensorFlow: `tf.gradients` by variables).
///
/// # Errors
/// As [`gradients`].
#[track_caller]
pub fn variable_gradients(
    loss: &Output,
    by: &[Variable],
) -> Result<Vec<Option<Gradient>>, GraphError> {
    for variable in by {
        loss.graph().check_own_variable("gradients", variable)?;
    }
    let def = loss.graph().snapshot()?;
    let reads = variables::reads(&def, by);
    let sources = reads.values().flatten().copied().collect();
    let gradients = backward(loss, &def, &sources, |pass| {
        by.iter().map(|variable| pass.of_variable(variable, &reads[&variable.op_id()])).collect()
    })?;
    loss.graph().state().differentiated.push(loss.edge());
    Ok(gradients)
}

/// Takes the gradients of `loss` back to the operations `sources` of its graph `def`; `collect`
/// takes the gradients that have arrived there.
#[track_caller]
fn backward<T>(
    loss: &Output,
    def: &GraphDef,
    sources: &BTreeSet<OpId>,
    collect: impl FnOnce(&mut Backward<'_>) -> Result<T, GraphError>,
) -> Result<T, GraphError> {
    let (graph, given) = (loss.graph(), loss.tensor_type());
    if !given.dtype.is_real() || given.shape.rank() > 0 {
        let needs = "an f32 or f64 scalar as loss".to_owned();
        return Err(GraphError::new(
            "gradients",
            GraphProblem::Inputs { needs, inputs: vec![given] },
        ));
    }
    let (depends, arrived) = (depends_on(def, sources), BTreeMap::new());
    let mut pass = Backward { graph, def, depends, arrived, at: Location::caller() };
    graph.enter_name_scope("gradients")?;
    let built = pass.run(loss.edge()).and_then(|()| collect(&mut pass));
    graph.leave_name_scope();
    built
}

/// Whether each operation depends on one of `by`.
fn depends_on(def: &GraphDef, by: &BTreeSet<OpId>) -> Vec<bool> {
    let mut depends = vec![false; def.operations.len()];
    for (id, operation) in def.iter() {
        let uses_one = operation.inputs.iter().any(|edge| depends[edge.op.0 as usize]);
        depends[id.0 as usize] = uses_one || by.contains(&id);
    }
    depends
}

/// The gradients of an operation's outputs; `None` for an output that the loss does not depend on.
type Arrived = SmallVec<[Option<Edge>; 2]>;

struct Backward<'a> {
    graph: &'a Graph,
    /// The graph before the pass.
    def: &'a GraphDef,
    /// By operation: whether it depends on a value that the loss is differentiated by.
    depends: Vec<bool>,
    /// By edge: the gradients that have arrived from its users, in the order of arrival.
    arrived: BTreeMap<Edge, Vec<Edge>>,
    at: &'static Location<'static>,
}

impl Backward<'_> {
    fn run(&mut self, loss: Edge) -> Result<(), GraphError> {
        let value = Tensor::scalar_of(self.def.edge_type(loss).dtype, 1.0);
        let one = self.add(loss.op, Op::Fill { shape: Shape::SCALAR, value }, &[])?;
        self.arrived.insert(loss, vec![one]);
        for id in (0..=loss.op.0).rev().map(OpId) {
            if self.def.operation(id).inputs.iter().any(|edge| self.depends(*edge)) {
                self.through(id)?;
            }
        }
        Ok(())
    }

    fn depends(&self, edge: Edge) -> bool {
        self.depends[edge.op.0 as usize]
    }

    /// Hands the gradient at the output of `id` on to its inputs.
    fn through(&mut self, id: OpId) -> Result<(), GraphError> {
        let operation = self.def.operation(id);
        let outputs = (0..operation.outputs.len() as u32).map(|output| Edge { op: id, output });
        let arrived: Arrived = outputs.map(|edge| self.total(edge)).collect::<Result<_, _>>()?;
        if arrived.iter().all(Option::is_none) {
            return Ok(());
        }
        let inputs = self.gradient(id, operation, &arrived)?;
        for (edge, gradient) in operation.inputs.iter().zip(inputs) {
            self.arrived.entry(*edge).or_default().extend(gradient);
        }
        Ok(())
    }

    /// The sum of the gradients that have arrived at `edge`: on their own device if they share one,
    /// or else on the edge's.
    fn total(&mut self, edge: Edge) -> Result<Option<Edge>, GraphError> {
        let Some(arrived) = self.arrived.get(&edge) else { return Ok(None) };
        let (first, others) = match arrived.as_slice() {
            [] => return Ok(None),
            [one] => return Ok(Some(*one)),
            [first, others @ ..] => (first.op, others),
        };
        let device = |op| self.graph.with_operation(op, |operation| operation.device.clone());
        let is_one_place = others.iter().all(|other| device(other.op) == device(first));
        let sum = self.sum(if is_one_place { first } else { edge.op }, arrived)?;
        self.arrived.insert(edge, vec![sum]);
        Ok(Some(sum))
    }

    /// The sum of `terms`, on the device of `of`.
    fn sum(&self, of: OpId, terms: &[Edge]) -> Result<Edge, GraphError> {
        self.joined(of, terms, |first, others| first.add_all(others))
    }

    /// Joins `values` by `join`, on the device of `of`.
    fn joined(
        &self,
        of: OpId,
        values: &[Edge],
        join: impl FnOnce(&Output, &[&Output]) -> Result<Output, GraphError>,
    ) -> Result<Edge, GraphError> {
        let values: Vec<Output> = values.iter().map(|edge| self.output(*edge)).collect();
        let others: Vec<&Output> = values[1..].iter().collect();
        self.beside(of, || join(&values[0], &others))
    }

    /// Builds a value on the device of `of`.
    fn beside(
        &self,
        of: OpId,
        build: impl FnOnce() -> Result<Output, GraphError>,
    ) -> Result<Edge, GraphError> {
        Ok(self.graph.beside(of, self.at, build)?.edge())
    }

    fn output(&self, edge: Edge) -> Output {
        Output::new(self.graph.clone(), edge)
    }

    /// Adds an operation on the device of `of`.
    fn add(&self, of: OpId, op: Op, inputs: &[Edge]) -> Result<Edge, GraphError> {
        let new = NewOperation {
            inputs,
            colocated_with: Some(of),
            built_at: self.at,
            ..NewOperation::of(op)
        };
        Ok(Edge { op: self.graph.add(new)?, output: 0 })
    }
}
