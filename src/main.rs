//! The binary `trainyard`: every subcommand, for the built-in trainer.

use mimalloc::MiMalloc;

/// glibc's allocator gives memory back to the system after a step and takes it again for the next,
/// which costs a deployed step a sixth of its time. A library leaves the choice to its program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> std::process::ExitCode {
    trainyard::main(trainyard::training::train)
}
