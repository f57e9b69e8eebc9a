//! The values of a checkpoint in the variables of a session.

use crate::checkpoint::Restored;
use crate::runtime::Result;
use crate::tensor::{DType, Shape, Tensor};

use super::checkpoints::part_as_slice;
use super::scaffold::Known;
use super::session::Session;

/// Sets `variables` to their values in `checkpoint`.
///
/// # Errors
/// If the checkpoint lacks one of them or has another type or shape; if the step fails.
pub(super) async fn restore(
    session: &Session,
    variables: &[Known],
    checkpoint: &Restored,
) -> Result<()> {
    let mut run = session.run();
    for variable in variables {
        let (place, assign) =
            variable.restore.as_ref().expect("a training with checkpoints can restore");
        let wanted = variable.read.tensor_type();
        let shape = wanted.shape.known().expect("the shape of a variable is known");
        let value = saved_value(checkpoint, variable, (wanted.dtype, shape))?;
        run = run.feed(place, value).target(assign);
    }
    run.await.map(drop)
}

/// The value of `variable` in `checkpoint`, even if it was partitioned in another way then. Of a
/// training in which each worker had a copy, the checkpoint has the center of all copies.
fn saved_value(
    checkpoint: &Restored,
    variable: &Known,
    (dtype, shape): (DType, Shape),
) -> Result<Tensor> {
    let slice = variable.part.as_ref().and_then(part_as_slice);
    let has = |name: &str| checkpoint.variables.contains_key(name);
    let name = match &variable.part {
        Some(part) if slice.is_none() && !has(&variable.name) => &part.first,
        _ => &variable.name,
    };
    let center = format!("{name}/center");
    let name = if slice.is_none() && !has(name) && has(&center) { &center } else { name };
    Ok(checkpoint.tensor(name, (dtype, shape), slice.as_ref())?)
}
