//! The command line, in processes of its own.

mod bad_inputs;
mod check;
mod checkpoint_command;
mod commands;
mod data_warnings;
mod deploy_files;
mod flags;
mod graph_command;
#[cfg(target_os = "linux")]
mod hosts;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod launched_chaos;
mod launched_faults;
mod metrics;
mod plans;
mod predictions;
mod python;
#[cfg(target_os = "linux")]
mod replays;
mod roles;
mod schemas;
mod tasks;
mod unwritable;
mod weights;
