//! Names and specifications: jobs, tasks, devices, and which addresses make a cluster.

mod address;
mod device_name;
mod device_spec;
mod job_name;
mod task_name;

pub use address::AddressError;
pub use device_name::DeviceName;
pub use device_spec::{DeviceConflict, DeviceNameError, DeviceNameProblem, DeviceSpec};
pub use job_name::JobNameError;
pub use task_name::{TaskName, TaskNameError};
