//! QUIC on loopback. Prints one JSON line for each figure.
//!
//!     cargo bench --bench transport                                  # all cases
//!     cargo bench --bench transport -- messages
//!     cargo bench --bench transport -- connections --count 1000 --seconds 600
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "it measures real time, and prints it"
)]

#[path = "../figures/mod.rs"]
mod figures;

mod connections;
mod messages;
#[path = "../figures/resident.rs"]
mod resident;

use std::sync::LazyLock;

use clap::{Parser, ValueEnum};
use figures::Figures;

static FIGURES: LazyLock<Figures> = LazyLock::new(|| Figures::of("transport"));

/// What is measured.
#[derive(Debug, Parser)]
struct Arguments {
    /// All of them, where none is named.
    cases: Vec<Case>,
    /// The connections to one parameter server.
    #[arg(long, default_value_t = 1000)]
    count: u32,
    /// For how long they are all served.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// A flag that Cargo adds; it is ignored.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    Messages,
    Connections,
}

fn main() {
    let arguments = Arguments::parse();
    let asks_for = |case| arguments.cases.is_empty() || arguments.cases.contains(&case);
    if asks_for(Case::Messages) {
        messages::run();
    }
    if asks_for(Case::Connections) {
        connections::run(arguments.count, arguments.seconds);
    }
}
