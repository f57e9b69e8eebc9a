//! The model `count`: the value of each variable is the number of updates that it has had.

use crate::graph::{Gradient, Graph, GraphError, Output, Variable};

/// The variables on each parameter server.
const EACH: usize = 2;

/// The variables of a training on `servers` parameter servers, with their gradients. `variable`
/// makes a variable, with its initial value.
///
/// Each gradient is −1, computed from the variable's value, so that a step reads what it updates.
///
/// # Errors
/// The error of `variable`.
pub(crate) fn gradients(
    g: &Graph,
    variable: impl Fn(&str, &Output) -> Result<Variable, GraphError>,
    servers: usize,
) -> Result<Vec<(Variable, Gradient)>, GraphError> {
    let pair = |index| {
        let variable = variable(&format!("count{index}"), &g.constant(0f32))?;
        let minus_one = variable.read().mul(&g.constant(0f32))?.sub(&g.constant(1f32))?;
        Ok((variable, Gradient::Dense(minus_one)))
    };
    (0..EACH * servers.max(1)).map(pair).collect()
}
