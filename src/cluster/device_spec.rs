//! Partial device names, such as `/job:worker/device:CPU:0`, for placement requests and device
//! filters.

mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{DeviceName, TaskName};

pub use parse::{DeviceNameError, DeviceNameProblem};

/// A device name in which any part may be unset. Cheap to clone; the empty one matches every
/// device.
///
/// Written `/job:NAME/replica:N/task:N/device:TYPE:N`, parts in any order, `*` for an unset one,
/// with `/cpu:0` and `/gpu:0` (in any case) as shorthand. A device type is printed and compared in
/// capitals. TensorFlow: `tf.DeviceSpec` and `DeviceNameUtils::ParsedName`, whose grammars differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceSpec {
    job: Option<Arc<str>>,
    replica: Option<u32>,
    task: Option<u32>,
    device_type: Option<Arc<str>>,
    device_index: Option<u32>,
}

impl DeviceSpec {
    /// Any device of `task`: `/job:worker/task:3`.
    pub fn of_task(task: &TaskName) -> Self {
        Self { job: Some(task.shared_job()), task: Some(task.index()), ..Self::default() }
    }

    /// Any device of any task of `job`.
    pub(crate) fn of_job(job: &str) -> Self {
        Self { job: Some(job.into()), ..Self::default() }
    }

    /// The same name for any device of the task.
    #[must_use]
    pub(crate) fn on_any_device(&self) -> Self {
        Self { device_type: None, device_index: None, ..self.clone() }
    }

    /// The same name with the index of the task set.
    #[must_use]
    pub fn with_task(self, index: u32) -> Self {
        Self { task: Some(index), ..self }
    }

    /// The job's name.
    pub fn job(&self) -> Option<&str> {
        self.job.as_deref()
    }

    /// The replica; 0 in every full name.
    pub fn replica(&self) -> Option<u32> {
        self.replica
    }

    /// The index of the task within its job.
    pub fn task(&self) -> Option<u32> {
        self.task
    }

    /// The device's type, in capitals, such as `CPU`.
    pub fn device_type(&self) -> Option<&str> {
        self.device_type.as_deref()
    }

    /// The index among the task's devices of one type.
    pub fn device_index(&self) -> Option<u32> {
        self.device_index
    }

    /// Whether no part is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The scope `inner` within this outer one: parts that `inner` sets win.
    ///
    /// TensorFlow: `DeviceSpec.make_merged_spec`. There `/gpu:1` with `/cpu:*` within it gives
    /// `/device:CPU:1`; here an index is never inherited by another type.
    #[must_use]
    pub fn merged(&self, inner: &Self) -> Self {
        let changes_type = match (&self.device_type, &inner.device_type) {
            (Some(outer), Some(inner)) => outer != inner,
            _ => false,
        };
        let inherited_index = if changes_type { None } else { self.device_index };
        Self {
            job: inner.job.as_ref().or(self.job.as_ref()).cloned(),
            replica: inner.replica.or(self.replica),
            task: inner.task.or(self.task),
            device_type: inner.device_type.as_ref().or(self.device_type.as_ref()).cloned(),
            device_index: inner.device_index.or(inherited_index),
        }
    }

    /// The name with all parts that either one sets, for operations that are placed together.
    ///
    /// TensorFlow: `DeviceNameUtils::MergeDevNames`.
    ///
    /// # Errors
    /// [`DeviceConflict`] if both set a part and they differ.
    pub fn unify(&self, other: &Self) -> Result<Self, DeviceConflict> {
        let conflict = |parts| DeviceConflict {
            parts,
            left: Box::new(self.clone()),
            right: Box::new(other.clone()),
        };
        Ok(Self {
            job: unify_part(&self.job, &other.job).ok_or_else(|| conflict("jobs"))?,
            replica: unify_part(&self.replica, &other.replica)
                .ok_or_else(|| conflict("replicas"))?,
            task: unify_part(&self.task, &other.task).ok_or_else(|| conflict("tasks"))?,
            device_type: unify_part(&self.device_type, &other.device_type)
                .ok_or_else(|| conflict("types"))?,
            device_index: unify_part(&self.device_index, &other.device_index)
                .ok_or_else(|| conflict("indices"))?,
        })
    }

    /// Whether `device` has every part that is set.
    ///
    /// TensorFlow: `DeviceNameUtils::IsSpecification`.
    pub fn matches(&self, device: &DeviceName) -> bool {
        self.job().is_none_or(|job| job == device.task().job())
            && self.replica.is_none_or(|replica| replica == 0)
            && self.task.is_none_or(|task| task == device.task().index())
            && self.device_type().is_none_or(|device_type| device_type == device.device_type())
            && self.device_index.is_none_or(|index| index == device.index())
    }
}

/// The part that both sides agree on; `None` if they differ.
fn unify_part<T: Clone + PartialEq>(left: &Option<T>, right: &Option<T>) -> Option<Option<T>> {
    match (left, right) {
        (Some(left), Some(right)) if left != right => None,
        (left, right) => Some(left.as_ref().or(right.as_ref()).cloned()),
    }
}

/// The error of two operations that must share a device and ask for different ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Cannot merge devices with incompatible {parts}: '{left}' and '{right}'")]
pub struct DeviceConflict {
    parts: &'static str,
    /// One requested device.
    pub left: Box<DeviceSpec>,
    /// The other requested device.
    pub right: Box<DeviceSpec>,
}

impl From<&DeviceName> for DeviceSpec {
    fn from(device: &DeviceName) -> Self {
        Self {
            job: Some(device.task().shared_job()),
            replica: Some(0),
            task: Some(device.task().index()),
            device_type: Some(device.device_type().into()),
            device_index: Some(device.index()),
        }
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(job) = &self.job {
            write!(f, "/job:{job}")?;
        }
        if let Some(replica) = self.replica {
            write!(f, "/replica:{replica}")?;
        }
        if let Some(task) = self.task {
            write!(f, "/task:{task}")?;
        }
        match (self.device_type(), self.device_index) {
            (Some(device_type), Some(index)) => write!(f, "/device:{device_type}:{index}"),
            (Some(device_type), None) => write!(f, "/device:{device_type}:*"),
            (None, Some(index)) => write!(f, "/device:*:{index}"),
            (None, None) => Ok(()),
        }
    }
}
