//! Full device names, such as `/job:worker/replica:0/task:3/device:CPU:0`.

use std::fmt;
use std::str::FromStr;

use super::{DeviceKind, DeviceNameError, DeviceNameProblem, DeviceSpec, LocalDevice, TaskName};

/// One device of one task. Cheap to clone; ordered by task, type, then index.
///
/// The replica is 0 in every name, as in every public release of TensorFlow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceName {
    task: TaskName,
    local: LocalDevice,
}

impl DeviceName {
    /// The device `local` of `task`.
    pub fn new(task: TaskName, local: LocalDevice) -> Self {
        Self { task, local }
    }

    /// Processor device `index` of `task`.
    pub fn cpu(task: TaskName, index: u32) -> Self {
        Self::new(task, LocalDevice::cpu(index))
    }

    /// The task whose device it is.
    pub fn task(&self) -> &TaskName {
        &self.task
    }

    /// The device among those of its task.
    pub fn local(&self) -> LocalDevice {
        self.local
    }

    /// The device's type, in capitals.
    pub fn device_type(&self) -> &'static str {
        self.local.kind.name()
    }

    /// The index among the task's devices of this type, from 0.
    pub fn index(&self) -> u32 {
        self.local.index
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, local } = self;
        write!(f, "/job:{}/replica:0/task:{}/device:{local}", task.job(), task.index())
    }
}

impl TryFrom<&DeviceSpec> for DeviceName {
    type Error = DeviceNameProblem;

    /// Makes the device of a full `spec`; a missing replica is 0.
    fn try_from(spec: &DeviceSpec) -> Result<Self, DeviceNameProblem> {
        let missing = DeviceNameProblem::Partial;
        if let Some(replica) = spec.replica().filter(|replica| *replica != 0) {
            return Err(DeviceNameProblem::Replica(replica));
        }
        let job = spec.job().ok_or(missing("job"))?;
        let task = TaskName::new(job, spec.task().ok_or(missing("task"))?);
        let device_type = spec.device_type().ok_or(missing("device type"))?;
        let strange = || DeviceNameProblem::NoSuchType(device_type.to_owned());
        let kind = DeviceKind::named(device_type).ok_or_else(strange)?;
        let index = spec.device_index().ok_or(missing("device index"))?;
        Ok(Self::new(task, LocalDevice { kind, index }))
    }
}

impl FromStr for DeviceName {
    type Err = DeviceNameError;

    fn from_str(text: &str) -> Result<Self, DeviceNameError> {
        let spec = text.parse::<DeviceSpec>()?;
        Self::try_from(&spec).map_err(|problem| DeviceNameError { text: text.to_owned(), problem })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_name_prints_canonically_and_parses_back() {
        let device = DeviceName::cpu(TaskName::new("worker", 3), 0);
        assert_eq!(device.to_string(), "/job:worker/replica:0/task:3/device:CPU:0");
        assert_eq!(device.to_string().parse::<DeviceName>().unwrap(), device);
        assert_eq!("/cpu:0/task:3/job:worker".parse::<DeviceName>().unwrap(), device);
        assert_eq!(DeviceName::try_from(&DeviceSpec::from(&device)), Ok(device));
    }

    #[test]
    fn a_partial_name_is_refused_with_the_part_it_lacks() {
        for (text, part) in [
            ("/task:3/cpu:0", "job"),
            ("/job:a/cpu:0", "task"),
            ("/job:a/task:0", "device type"),
            ("/job:a/task:0/device:CPU", "device index"),
        ] {
            assert_eq!(
                text.parse::<DeviceName>().unwrap_err().problem,
                DeviceNameProblem::Partial(part)
            );
        }
        let replica = "/job:a/replica:4/task:0/cpu:0".parse::<DeviceName>().unwrap_err();
        assert_eq!(replica.problem, DeviceNameProblem::Replica(4));
    }
}
