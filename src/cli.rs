//! The command line: turns arguments into experiments, shows progress on stderr and results on
//! stdout, and returns exit codes.

mod args;
mod calibrate;
mod certs;
mod chaos;
mod check;
mod checkpoint;
mod cluster;
mod doctor;
mod each;
mod exit_code;
mod failure;
mod graph;
mod init;
mod launch;
mod live;
mod logging;
mod manual;
mod output;
mod plan;
mod presets;
mod progress;
mod results;
mod schema;
mod serve;
mod sim;
mod status;
mod stdout;
mod tape;
mod task;
mod weights;

use std::io::Write;

use tracing::level_filters::LevelFilter;

use crate::deployment::ExitCode;
use crate::experiment::Trainer;
use crate::process::survive_long_files;

use args::Command;
use failure::Failure;

/// Runs the command line with the program `trainer`.
pub(crate) fn run(trainer: impl Trainer) -> ExitCode {
    let args = match args::read(std::env::args_os()) {
        Ok(args) => args,
        Err(error) => {
            if error.use_stderr() {
                // Where standard error goes to a full disk, `eprint!` would panic.
                let _ = write!(anstream::stderr(), "{}", args::said(&error));
                return ExitCode::Usage;
            }
            let printed = stdout::unless_reader_left(error.print());
            let printed = printed.map_err(Failure::writing("the help"));
            return printed.map_or_else(|failure| failure.report(), |()| ExitCode::Done);
        }
    };
    args.color.write_global();
    let is_chaos = matches!(&args.command, Command::Sim(sim) if sim.chaos.is_some());
    let least = match args.quiet {
        // What drawn faults do to a training is judged, and its log is of thousands.
        _ if is_chaos => LevelFilter::OFF,
        true => LevelFilter::ERROR,
        false => LevelFilter::WARN,
    };
    if let Err(failure) = logging::start(args.verbose, least) {
        return failure.report();
    }
    if let Err(error) = survive_long_files() {
        tracing::debug!(%error, "a file that grows too long will end this process");
    }
    if let Some(asked) = args.command.scenario().filter(|asked| asked.print_config) {
        return output::print_scenario(asked).unwrap_or_else(|failure| failure.report());
    }
    let (quiet, flags) = (args.quiet, logging::flags(args.verbose));
    let outcome = match &args.command {
        Command::Init(args) => init::run(args),
        Command::Sim(args) => sim::run(args, quiet, &trainer),
        Command::Check(args) => check::run(args, quiet, &trainer),
        Command::Plan(args) => plan::run(args, quiet, &trainer),
        Command::Task(args) => task::run(args, quiet, &trainer),
        Command::Serve(args) => serve::run(args),
        Command::Launch(args) => launch::run(args, quiet, flags, &trainer),
        Command::Calibrate(args) => calibrate::run(args, quiet),
        Command::Doctor(args) => doctor::run(args),
        Command::Status(args) => status::run(args),
        Command::Certs(args) => certs::run(&args.command),
        Command::Cluster(args) => cluster::run(args),
        Command::Graph(args) => graph::run(args),
        Command::Checkpoint(args) => checkpoint::run(args),
        Command::Tape(args) => tape::run(args),
        Command::Presets => presets::run(),
        Command::Schema(args) => schema::run(args),
        Command::Completions(args) => manual::completions(args),
        Command::Man(args) => manual::man(args),
    };
    outcome.unwrap_or_else(|failure| failure.report())
}
