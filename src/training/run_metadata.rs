//! What is recorded of a step besides its values.

use crate::runtime::OperationTime;

/// When each operation of a step ran, by device and task (TensorFlow: `RunMetadata.step_stats`).
///
/// A step that is recorded gives its devices one kernel at a time, so it takes longer than others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunMetadata {
    /// The operations, those of one device in the order in which they ended. Constants and
    /// declarations take no time and are left out.
    pub operations: Vec<OperationTime>,
}
