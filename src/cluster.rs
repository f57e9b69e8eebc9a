//! Names and specifications: jobs, tasks, devices, and which addresses make a cluster.

mod task_name;

pub use task_name::TaskName;
