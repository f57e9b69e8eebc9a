//! What is recorded of a step besides its values.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

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

impl RunMetadata {
    /// The time that the operations of each device took, one after the other.
    pub fn time_by_device(&self) -> BTreeMap<Arc<str>, Duration> {
        let mut times = BTreeMap::new();
        for operation in &self.operations {
            let time: &mut Duration = times.entry(Arc::clone(&operation.device)).or_default();
            *time += operation.ended.since(operation.began);
        }
        times
    }
}
