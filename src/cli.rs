//! The command line: arguments to experiments, progress on stderr, results on stdout, exit codes.

mod args;
mod exit_code;
mod progress;
