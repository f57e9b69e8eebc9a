//! What a translation adds to the graph: the operation that a node becomes, and helpers beside it.

use super::super::node::Node;
use super::super::value::Value;
use super::{Importer, NodeProblem, Values};
use crate::graph::{Name, NewOperation, Op, OpId, Output, Target};
use crate::tensor::Tensor;

impl Importer<'_> {
    /// Input `i` as a value for a step.
    pub(super) fn input(&self, node: &Node<'_>, i: usize) -> Result<Output, NodeProblem> {
        self.current(node, node.value(i)?, i)
    }

    /// `value` for a step; an output of a helper, or of `node` itself.
    pub(super) fn value(&self, node: &Node<'_>, value: &Value) -> Result<Output, NodeProblem> {
        self.current(node, value, 0)
    }

    /// A scalar of the type of `x`.
    pub(super) fn scalar(
        &self,
        node: &Node<'_>,
        part: &str,
        x: &Output,
        value: f64,
    ) -> Result<Output, NodeProblem> {
        let value = Tensor::scalar_of(x.tensor_type().dtype, value);
        self.helper(node, part, Op::Const(value), &[])
    }

    /// All inputs as values for a step.
    pub(super) fn inputs(&self, node: &Node<'_>) -> Result<Vec<Output>, NodeProblem> {
        (0..node.inputs.len()).map(|i| self.input(node, i)).collect()
    }

    /// Adds the operation that `node` becomes, under its name.
    pub(super) fn emit(&mut self, node: &Node<'_>, op: impl Into<Op>, inputs: &[Output]) -> Values {
        let id = self.emit_on(node, op.into(), inputs, &[])?;
        Ok(self.outputs_of(id))
    }

    /// The same for an operation that touches variables; it runs on the first one's device.
    pub(super) fn emit_on(
        &mut self,
        node: &Node<'_>,
        op: Op,
        inputs: &[Output],
        variables: &[OpId],
    ) -> Result<OpId, NodeProblem> {
        let mut inputs: Vec<_> = inputs.iter().map(Output::edge).collect();
        if op.guard_at().is_some() {
            inputs.extend(self.guard(node)?.map(|guard| guard.edge()));
        }
        let id = self.graph.add(NewOperation {
            name: Name::Exactly(&node.def.name),
            inputs: &inputs,
            control_inputs: &node.controls_beside(&inputs),
            variables,
            colocated_with: variables.first().copied(),
            built_at: self.built_at,
            ..NewOperation::of(op)
        })?;
        self.operations.insert(node.def.name.clone(), id);
        Ok(id)
    }

    pub(super) fn outputs_of(&self, id: OpId) -> Vec<Value> {
        let target = Target::new(self.graph.clone(), id);
        (0..).map_while(|i| target.output(i)).map(Value::from).collect()
    }

    /// Adds an operation that `node` needs beside its own, called `part` below its name.
    pub(super) fn helper(
        &self,
        node: &Node<'_>,
        part: &str,
        op: impl Into<Op>,
        inputs: &[&Output],
    ) -> Result<Output, NodeProblem> {
        let name = self.free_name(node, part);
        let inputs: Vec<_> = inputs.iter().map(|input| input.edge()).collect();
        let id = self.graph.add(NewOperation {
            name: Name::Numbered(&name),
            inputs: &inputs,
            control_inputs: &node.controls,
            built_at: self.built_at,
            ..NewOperation::of(op)
        })?;
        Ok(self.graph.output(id))
    }

    /// A name for `part` of `node` that no node of the graph has.
    pub(super) fn free_name(&self, node: &Node<'_>, part: &str) -> String {
        let mut name = format!("{}/{part}", node.def.name);
        while self.names.contains(name.as_str()) {
            name.push('_');
        }
        name
    }
}
