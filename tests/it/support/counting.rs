//! A training that counts its updates.

use trainyard::prelude::*;

/// A variable of 0 on each of two parameter servers; the global step is on the first.
pub(crate) fn counters(g: &Graph) -> Result<Vec<Variable>> {
    let counter = |index: usize| {
        let on = format!("/job:ps/task:{index}");
        g.with_device(&on, |g| g.variable(&format!("v{index}"), &g.constant(0f32)))
    };
    let counters = (0..2).map(counter).collect::<Result<_, _>>()?;
    g.with_device("/job:ps/task:0", |g| g.global_step())?;
    Ok(counters)
}

/// An update that adds 1 to each of them.
pub(crate) fn count(g: &Graph, task: &Task, counters: &[Variable]) -> Result<TrainOp> {
    let minus_one = |v: &Variable| v.read().mul(&g.constant(0f32))?.sub(&g.constant(1f32));
    let gradients = counters.iter().map(minus_one).collect::<Result<Vec<Output>, _>>()?;
    let pairs: Vec<(Variable, Output)> = counters.iter().cloned().zip(gradients).collect();
    Ok(task.apply_gradients(GradientDescent::new(1.0), &pairs)?)
}
