//! The command line, in processes of its own.

mod bad_input;
mod bad_inputs;
mod checkpoint_command;
mod commands;
mod deploy_files;
mod flags;
mod graph_command;
#[cfg(target_os = "linux")]
mod hosts;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod launched_faults;
mod plans;
mod predictions;
mod roles;
#[cfg(unix)]
mod tasks;
