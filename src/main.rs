//! The binary `trainyard`: every subcommand, for the built-in trainer.

fn main() -> std::process::ExitCode {
    trainyard::main(trainyard::training::train)
}
