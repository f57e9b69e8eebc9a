//! A model of which only the sizes and costs of its layers are known: a step reads, computes and
//! updates it layer by layer, and its numbers are zeros.

use crate::graph::{Gradient, Graph, GraphError, Output, Variable};
use crate::operations::Synthetic;

/// A layer of [`Model::Layers`](super::Model::Layers).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Its name.
    pub name: String,
    /// The number of its parameters (f32); a layer without any only computes.
    pub parameters: usize,
    /// The operations of its forward pass, of a whole batch.
    pub forward: u64,
    /// The operations of its backward pass, of a whole batch.
    pub backward: u64,
}

/// The variables of `layers`, with their gradients. `variable` makes a variable, with its initial
/// value.
///
/// The layers are computed in their order, and then backward: the gradient of the last is there
/// first.
///
/// # Errors
/// The error of `variable`.
pub(crate) fn gradients(
    layers: &[Layer],
    g: &Graph,
    variable: impl Fn(&str, &Output) -> Result<Variable, GraphError>,
) -> Result<Vec<(Variable, Gradient)>, GraphError> {
    let mut token = g.constant(0f32);
    let mut read = Vec::new();
    for layer in layers {
        let own = match layer.parameters {
            0 => None,
            elements => {
                let variable = variable(&layer.name, &g.zeros([elements]))?;
                let value = variable.read();
                Some((variable, value))
            }
        };
        let value: Vec<&Output> = own.iter().map(|(_, value)| value).collect();
        let operations = layer.forward as usize;
        token = token.apply(Synthetic::Forward { operations }, &value)?;
        read.push(own);
    }
    let mut pairs = Vec::new();
    for (layer, own) in layers.iter().zip(read).rev() {
        let value: Vec<&Output> = own.iter().map(|(_, value)| value).collect();
        let operations = layer.backward as usize;
        token = token.apply(Synthetic::Backward { operations }, &value)?;
        if let Some((variable, _)) = own {
            let gradient = token.target().output(1).expect("parameters have a gradient");
            pairs.push((variable, Gradient::Dense(gradient)));
        }
    }
    pairs.reverse();
    Ok(pairs)
}
