//! Custom gradients: a program registers them with TensorFlow, and its graph does not have them.

use super::{Importer, Node, NodeProblem};
use crate::graph::{Edge, Op, Output};
use crate::import::value::Value;
use crate::operations::{Binary, Guard, Unary};

impl Importer<'_> {
    /// Makes it an error to ask for a gradient through `values`, the outputs of `node`, if the
    /// program has registered its own gradient for the node.
    pub(super) fn refuse_custom_gradient(
        &self,
        node: &Node<'_>,
        values: &mut [Value],
    ) -> Result<(), NodeProblem> {
        if !node.has_custom_gradient()? || self.is_silu(node) {
            return Ok(());
        }
        for value in values {
            if let Some(output) = &mut value.output {
                *output = self.helper(node, "custom_gradient", Guard::CustomGradient, &[output])?;
            }
        }
        Ok(())
    }

    /// Whether `node` is what `tf.nn.silu` hands on, `(x · sigmoid(β · x), x, β)`: its gradient
    /// saves memory in TensorFlow, and is the plain one.
    fn is_silu(&self, node: &Node<'_>) -> bool {
        let edges: Option<Vec<Edge>> =
            node.inputs.iter().map(|input| input.output.as_ref().map(Output::edge)).collect();
        let Some([result, x, beta]) = edges.as_deref() else { return false };
        let inputs = |of: Edge, is_it: fn(&Op) -> bool| {
            self.graph.with_operation(of.op, |operation| {
                if is_it(&operation.op) { operation.inputs.to_vec() } else { Vec::new() }
            })
        };
        let is_product = |op: &Op| *op == Binary::Mul.into();
        let is_sigmoid = |op: &Op| *op == Unary::Sigmoid.into();
        let [factor, sigmoid] = inputs(*result, is_product)[..] else { return false };
        let [scaled] = inputs(sigmoid, is_sigmoid)[..] else { return false };
        factor == *x && inputs(scaled, is_product) == [*beta, *x]
    }
}
