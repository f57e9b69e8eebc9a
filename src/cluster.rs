//! Names and specifications: jobs, tasks, devices, and which addresses make a cluster.

mod address;
mod config_error;
mod device_name;
mod device_spec;
mod flags;
mod job_name;
mod run_config;
mod spec;
mod task_name;
mod tf_config;
mod validator;

pub use address::AddressError;
pub use config_error::{ConfigError, ConfigErrors, ConfigProblem, ConfigWarning};
pub use device_name::DeviceName;
pub use device_spec::{DeviceConflict, DeviceNameError, DeviceNameProblem, DeviceSpec};
pub use flags::Flags;
pub use job_name::JobNameError;
pub use run_config::RunConfig;
pub use spec::{ClusterError, ClusterSpec};
pub use task_name::{TaskName, TaskNameError};
pub use tf_config::TfConfig;

/// The most tasks that a job may have, so that an index from outside can't ask for all the memory.
const MAX_TASKS: u32 = 1 << 20;
