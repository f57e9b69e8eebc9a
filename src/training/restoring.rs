//! The values of a checkpoint in the variables of a session.

use crate::checkpoint::Restored;
use crate::optimizer::LocalSgd;
use crate::runtime::Result;
use crate::tensor::{DType, Shape, Tensor};

use super::checkpoints::part_as_slice;
use super::scaffold::{Known, Restoring};
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
        let Some(Restoring { saved, place, assign, may_lack }) = &variable.restore else {
            continue;
        };
        let wanted = variable.read.tensor_type();
        let shape = wanted.shape.known().expect("the shape of a variable is known");
        let value = match *may_lack && !checkpoint.variables.contains_key(saved) {
            true => Tensor::zeros(wanted.dtype, shape),
            false => saved_value(checkpoint, (variable, saved), (wanted.dtype, shape))?,
        };
        run = run.feed(place, value).target(assign);
    }
    run.await.map(drop)
}

/// The value of `variable`, called `saved` in `checkpoint`, even if it was partitioned in another
/// way then. Of a training in which each worker had a copy, the checkpoint has the center of all.
fn saved_value(
    checkpoint: &Restored,
    (variable, saved): (&Known, &str),
    (dtype, shape): (DType, Shape),
) -> Result<Tensor> {
    let slice = variable.part.as_ref().and_then(part_as_slice);
    let has = |name: &str| checkpoint.variables.contains_key(name);
    let name = match &variable.part {
        Some(part) if slice.is_none() && !has(saved) => &part.first,
        _ => saved,
    };
    let center = LocalSgd::center_of(name);
    let name = if slice.is_none() && !has(name) && has(&center) { &center } else { name };
    Ok(checkpoint.tensor(name, (dtype, shape), slice.as_ref())?)
}
