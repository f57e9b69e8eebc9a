//! The values of a checkpoint in the variables of a session.

use crate::checkpoint::{CheckpointError, Restored, Slice};
use crate::graph::{VariablePart, first_part};
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
            false => {
                let wanted = (wanted.dtype, shape);
                let named = (saved.as_str(), variable.part.as_ref());
                saved_value(checkpoint, named, wanted, |name| shared_name(checkpoint, name))?
            }
        };
        run = run.feed(place, value).target(assign);
    }
    run.await.map(drop)
}

/// The name that `checkpoint` has for the shared variable `name`: of a training in which each
/// worker had a copy, it has the center of all.
fn shared_name(checkpoint: &Restored, name: &str) -> String {
    let center = LocalSgd::center_of(name);
    if !checkpoint.has(name) && checkpoint.has(&center) { center } else { name.to_owned() }
}

/// The value in `checkpoint` of the variable `name`, which may be a part of a whole, even if that
/// was partitioned in another way then. `saved` says what the checkpoint calls a variable.
///
/// # Errors
/// If the checkpoint lacks it or has another type or shape.
pub(super) fn saved_value(
    checkpoint: &Restored,
    (name, part): (&str, Option<&VariablePart>),
    wanted: (DType, Shape),
    saved: impl Fn(&str) -> String,
) -> Result<Tensor, CheckpointError> {
    let own = saved(name);
    let slice = part.and_then(part_as_slice);
    let slice = slice.map(|slice| Slice { full_name: saved(&slice.full_name), ..slice });
    // Checkpoints of before that was said have centers in parts that name no whole.
    let slice = slice.filter(|slice| checkpoint.has(&slice.full_name) || !checkpoint.has(&own));
    let is_copied = slice.is_none() && wanted.1 == Shape::SCALAR && !checkpoint.has(&own);
    let copies = if is_copied { names_of_copies(name, part) } else { Vec::new() };
    let copy = copies.iter().map(|copy| saved(copy)).find(|copy| checkpoint.has(copy));
    checkpoint.tensor(&copy.unwrap_or(own), wanted, slice.as_ref())
}

/// The names that the scalar `name` may have where its variable is in other parts: each part has a
/// copy of it, and so has a variable that is whole.
fn names_of_copies(name: &str, part: Option<&VariablePart>) -> Vec<String> {
    match part {
        Some(part) => vec![part.first.clone(), part.whole.clone()],
        None => {
            name.match_indices('/').map(|(at, _)| first_part(&name[..at]) + &name[at..]).collect()
        }
    }
}
