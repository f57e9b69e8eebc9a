//! Names and specifications: jobs, tasks, devices, and the addresses of a cluster.
//!
//! All of these are plain values, valid by construction. Nothing here opens a connection or reads
//! the environment: the caller passes the text of a variable or a file.
//!
//! | type | follows in TensorFlow |
//! |---|---|
//! | [`TaskName`] | the pair of `job_name` and `task_index` |
//! | [`DeviceSpec`] | `tf.DeviceSpec`, `DeviceNameUtils` |
//! | [`DeviceName`] | `Device::name()` |
//! | [`LocalDevice`] | `DeviceNameUtils::LocalName` |
//! | [`ClusterSpec`] | `tf.train.ClusterSpec` |
//! //! | [`Role`] | `TaskType` |
//! | [`RunConfig`] | `tf.estimator.RunConfig`; `ClusterResolver`, such as `TFConfigClusterResolver` |
//! | [`Flags`] | the flags of `mnist_replica.py` |
//! | [`Slurm`] | `SlurmClusterResolver` |
//!
//! Deliberate differences:
//!
//! | TensorFlow | here |
//! |---|---|
//! | a hyphen in a job name passes, then aborts the server | refused where it is written |
//! | two device-name parsers; a repeated part wins in silence | one grammar; a repeated part is an error |
//! | `/gpu:1` with `/cpu:*` within it is `CPU:1` | an index is never inherited by another type |
//! | addresses are not checked; two tasks may share one | checked; each task has its own |
//! | a task index may be negative | whole numbers from 0 |
//! | an empty job is `{}` in `as_dict` | an empty list |
//! | jobs in the order they were written | jobs by name |
//! | three readers of `TF_CONFIG`; each stops at the first mistake | one validator, every mistake with its path |
//! | `RunConfig` demands a `chief`, `tf.distribute` none | without one, `worker:0` leads |
//! | one reader wants the `evaluator` in the cluster, another outside | accepted in both places; it never trains |
//! | an empty `TF_CONFIG` is an error to one reader | no cluster |
//! //!
//! ```
//! use trainyard::cluster::RunConfig;
//!
//! let text = r#"{
//!     "cluster": {"ps": ["ps0:2222"], "worker": ["worker0:2222", "worker1:99999"]},
//!     "task": {"type": "worker", "index": 1}
//! }"#;
//! let errors = RunConfig::from_tf_config(Some(text)).unwrap_err();
//! assert_eq!(errors.to_string(), "cluster.worker[1]: port 99999 is out of range (1 to 65535)");
//!
//! let config = RunConfig::from_tf_config(Some(&text.replace("99999", "2222")))?;
//! assert_eq!(config.task().to_string(), "worker:1");
//! assert_eq!(config.chief().unwrap().to_string(), "worker:0");
//! # Ok::<(), trainyard::cluster::ConfigErrors>(())
//! ```

mod address;
mod cluster_error;
mod config_error;
mod device_name;
mod device_spec;
mod flags;
mod job_name;
mod json;
mod local_device;
mod role;
mod run_config;
mod slurm;
mod spec;
mod task_config;
mod task_name;
mod tf_config;
mod validator;

pub use address::AddressError;
pub(crate) use address::{Endpoint, parse_address};
pub use cluster_error::ClusterError;
pub use config_error::{ConfigError, ConfigErrors, ConfigProblem, ConfigWarning};
pub use device_name::DeviceName;
pub use device_spec::{DeviceConflict, DeviceNameError, DeviceNameProblem, DeviceSpec};
pub use flags::Flags;
pub use job_name::JobNameError;
pub use local_device::{DeviceKind, LocalDevice};
pub use role::Role;
pub use run_config::RunConfig;
pub use slurm::Slurm;
pub use spec::ClusterSpec;
pub use task_name::{TaskName, TaskNameError};

/// The most tasks that a job may have: the limit keeps an index from outside from taking all
/// memory.
const MAX_TASKS: u32 = 1 << 20;
