//! Several values as one.

use super::Output;
use crate::graph::error::{GraphError, GraphProblem};

/// The values, concatenated along `axis` (TensorFlow `tf.concat`).
///
/// # Errors
/// If there are no values, their types differ, or their shapes differ along another axis.
#[track_caller]
pub fn concat(values: &[&Output], axis: isize) -> Result<Output, GraphError> {
    let (first, others) = first_of(values, "ConcatV2")?;
    let axis = first.axis(axis)?;
    first.concat_with(others, axis)
}

/// The values, all of one shape, along a new axis, which is axis `axis` of the result (TensorFlow
/// `tf.stack`).
///
/// # Errors
/// If there are no values, or their types or shapes differ.
#[track_caller]
pub fn stack(values: &[&Output], axis: isize) -> Result<Output, GraphError> {
    let (first, others) = first_of(values, "Pack")?;
    let axis = first.new_axis(axis)?;
    first.stack_with(others, axis)
}

#[track_caller]
fn first_of<'a>(
    values: &'a [&'a Output],
    kind: &str,
) -> Result<(&'a Output, &'a [&'a Output]), GraphError> {
    match values {
        [first, others @ ..] => Ok((first, others)),
        [] => Err(GraphError::new(
            kind,
            GraphProblem::Inputs { needs: "at least one".to_owned(), inputs: vec![] },
        )),
    }
}
