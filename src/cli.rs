//! The command line: turns arguments into experiments, shows progress on stderr and results on
//! stdout, and returns exit codes.

mod args;
mod calibrate;
mod certs;
mod chaos;
mod checkpoint;
mod cluster;
mod doctor;
mod exit_code;
mod failure;
mod graph;
mod launch;
mod logging;
mod output;
mod progress;
mod serve;
mod sim;
mod status;
mod task;

use clap::Parser;
use tracing::level_filters::LevelFilter;

use crate::deployment::ExitCode;
use crate::experiment::Trainer;

use args::{Args, Command};

/// Runs the command line with the program `trainer`.
pub(crate) fn run(trainer: impl Trainer) -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let code = if error.use_stderr() { ExitCode::Usage } else { ExitCode::Done };
            // If even the terminal is gone, only the exit code can report the failure.
            return error.print().map_or(ExitCode::Internal, |()| code);
        }
    };
    // Drawn faults are expected to be warned of.
    let is_chaos = matches!(&args.command, Command::Sim(sim) if sim.chaos.is_some());
    logging::start(args.verbose, if is_chaos { LevelFilter::ERROR } else { LevelFilter::WARN });
    let outcome = match &args.command {
        Command::Sim(args) => sim::run(args, &trainer),
        Command::Task(args) => task::run(args, &trainer),
        Command::Serve(args) => serve::run(args),
        Command::Launch(launched) => launch::run(launched, args.verbose, &trainer),
        Command::Calibrate(args) => calibrate::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Status(args) => status::run(args),
        Command::Certs(args) => certs::run(&args.command),
        Command::Cluster(args) => cluster::run(args),
        Command::Graph(args) => graph::run(args),
        Command::Checkpoint(args) => checkpoint::run(args),
    };
    outcome.unwrap_or_else(|failure| failure.report())
}
