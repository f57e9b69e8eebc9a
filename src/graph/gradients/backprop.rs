//! `Backprop`: the values that the gradient of a defined operation is built from.

use smallvec::SmallVec;

use super::Backward;
use super::rules::InputGradients;
use crate::graph::error::{GraphError, GraphProblem};
use crate::graph::op::Defined;
use crate::graph::{Edge, OpId, Operation, Output};

/// An operation on the way back from a loss: its inputs, its outputs, and the gradients that have
/// arrived at the outputs.
///
/// Operations that are built from these values run on the operation's device.
pub struct Backprop<'a> {
    pass: &'a Backward<'a>,
    id: OpId,
    operation: &'a Operation,
    arrived: &'a [Option<Edge>],
}

shown!(Backprop<'_>, operation);

impl Backprop<'_> {
    /// Input `i`.
    ///
    /// # Panics
    /// If there is no such input.
    pub fn input(&self, i: usize) -> Output {
        self.value(self.operation.inputs[i])
    }

    /// The number of inputs.
    pub fn inputs(&self) -> usize {
        self.operation.inputs.len()
    }

    /// The number of outputs.
    pub fn outputs(&self) -> usize {
        self.arrived.len()
    }

    /// Output `i`.
    ///
    /// # Panics
    /// If there is no such output.
    pub fn output(&self, i: usize) -> Output {
        assert!(i < self.outputs(), "the operation has {} outputs, none is {i}", self.outputs());
        self.value(Edge { op: self.id, output: i as u32 })
    }

    /// The gradient at output `i`; `None` if the loss does not depend on it.
    ///
    /// # Panics
    /// If there is no such output.
    pub fn arrived(&self, i: usize) -> Option<Output> {
        self.arrived[i].map(|edge| self.value(edge))
    }

    /// The gradient at output 0.
    ///
    /// # Errors
    /// If the loss depends on another output, or not on this one.
    pub fn only_arrived(&self) -> Result<Output, GraphError> {
        match self.arrived {
            [Some(dy), others @ ..] if others.iter().all(Option::is_none) => Ok(self.value(*dy)),
            _ => Err(self.no_gradient()),
        }
    }

    /// Whether the gradient for input `i` is wanted.
    ///
    /// # Panics
    /// If there is no such input.
    pub fn wants(&self, i: usize) -> bool {
        self.pass.depends(self.operation.inputs[i])
    }

    /// The gradient for input `i`, built only if it is wanted.
    ///
    /// # Errors
    /// Those of `build`.
    ///
    /// # Panics
    /// If there is no such input.
    pub fn for_input(
        &self,
        i: usize,
        build: impl FnOnce() -> Result<Output, GraphError>,
    ) -> Result<Option<Output>, GraphError> {
        self.wants(i).then(build).transpose()
    }

    /// The error that the operation has no gradient.
    pub fn no_gradient(&self) -> GraphError {
        self.pass.no_gradient(self.operation)
    }

    fn value(&self, edge: Edge) -> Output {
        Output::new(self.pass.graph.clone(), edge)
    }
}

impl Backward<'_> {
    /// As [`Backward::gradient`].
    pub(super) fn defined(
        &self,
        id: OpId,
        operation: &Operation,
        op: &Defined,
        arrived: &[Option<Edge>],
    ) -> Result<InputGradients, GraphError> {
        let of = Backprop { pass: self, id, operation, arrived };
        let built = self.graph.beside(id, self.at, || op.definition().gradient(&of))?;
        if op.is_checked() {
            self.check(operation, &built)?;
        }
        let edges: SmallVec<_> = built.iter().map(|x| x.as_ref().map(Output::edge)).collect();
        Ok(edges)
    }

    /// Checks what a program's own operation gives as the gradients for its inputs (TensorFlow:
    /// `gradients_util._VerifyGeneratedGradients`).
    ///
    /// # Errors
    /// If they are more or fewer than the inputs, or one is of another graph or type.
    fn check(&self, operation: &Operation, built: &[Option<Output>]) -> Result<(), GraphError> {
        let wrong = |what: String| GraphError {
            operation: "gradients".to_owned(),
            built_at: self.at,
            problem: GraphProblem::WrongGradient {
                operation: operation.to_string(),
                built_at: operation.built_at,
                what,
            },
        };
        let (given, inputs) = (built.len(), operation.inputs.len());
        if given != inputs {
            return Err(wrong(format!(
                "gives a list of {given}, not one for each of its {inputs} inputs in their order, \
                 where `None` stands for none"
            )));
        }
        for (i, (dx, edge)) in built.iter().zip(&operation.inputs).enumerate() {
            let Some(dx) = dx else { continue };
            if !self.graph.same_as(dx.graph()) {
                let name = dx.name();
                return Err(wrong(format!(
                    "gives `{name}` for input {i}, which belongs to another graph: build it from \
                     the values of `Backprop`"
                )));
            }
            let (dx, x) = (dx.tensor_type(), self.def.edge_type(*edge));
            if dx.dtype != x.dtype || dx.shape.merge(&x.shape).is_none() {
                return Err(wrong(format!(
                    "gives {dx} for input {i}, which is {x}: a gradient has its input's type"
                )));
            }
        }
        Ok(())
    }
}
