//! The work by which trainyard is compared with TensorFlow and PyTorch. Prints one JSON line for
//! each result, with the fields of `tensorflow_peer.py` and `pytorch_peer.py` beside this file, and
//! adds it to `target/figures.jsonl`.
//!
//!     cargo bench --bench peer                                   # what `ALL` lists
//!     cargo bench --bench peer -- local-step                     # one process, no cluster
//!     cargo bench --bench peer -- null-step --kind scalar --ps 1 --workers 1
//!     cargo bench --bench peer -- null-step --kind dense --megabytes 100 --steps 10
//!     cargo bench --bench peer -- train --mode async --workers 2 --layers 64,128,10 --batch 32
//!     cargo bench --bench peer -- all-reduce --workers 4 --megabytes 100 --way ring --steps 20
//!
//! A step is timed as a program sees it: from asking a session for the step to having its fetched
//! values. A cluster is one process a task on 127.0.0.1, over QUIC with mutual TLS, as `launch`
//! starts it.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "it measures real time, and prints it"
)]

mod cluster;
#[path = "../figures/mod.rs"]
mod figures;
mod line;
mod local_step;
mod trainers;

use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{Parser, ValueEnum};
use figures::Figures;
use serde::{Deserialize, Serialize};

static FIGURES: LazyLock<Figures> = LazyLock::new(|| Figures::of("peer"));

/// What is measured where no case is named.
const ALL: [&str; 10] = [
    "local-step",
    "null-step",
    "null-step --workers 4",
    "null-step --kind dense --steps 10",
    "train --mode async --workers 2 --steps 10000",
    "train --mode sync --workers 2 --steps 10000",
    "train --mode async --workers 2 --layers 784,512,512,10 --batch 128 --steps 400",
    "train --mode sync --workers 2 --layers 784,512,512,10 --batch 128 --steps 250",
    "all-reduce --workers 2 --steps 20",
    "all-reduce --workers 4 --steps 20",
];

/// What is measured; `tensorflow_peer.py` takes the same.
#[derive(Clone, Debug, Parser, Serialize, Deserialize)]
struct Arguments {
    case: Case,
    #[arg(long, default_value_t = 1)]
    ps: usize,
    #[arg(long, default_value_t = 1)]
    workers: usize,
    #[arg(long, default_value_t = 1000)]
    steps: usize,
    /// Of a null step: what each of its 16 variables is, a scalar or their share of `megabytes`.
    #[arg(long, value_enum, default_value = "scalar")]
    kind: Kind,
    #[arg(long, default_value_t = 100)]
    megabytes: usize,
    #[arg(long, value_enum, default_value = "async")]
    mode: Mode,
    #[arg(long, default_value = "64,128,10", value_delimiter = ',')]
    layers: Vec<usize>,
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// Of an all-reduce.
    #[arg(long, value_enum, default_value = "ring")]
    way: Way,
    /// A flag that Cargo adds; it is ignored.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Case {
    LocalStep,
    NullStep,
    Train,
    AllReduce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Scalar,
    Dense,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    Sync,
    Async,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Way {
    Ring,
    Tree,
    Shuffle,
}

fn main() -> ExitCode {
    if let Some(order) = cluster::Order::received() {
        return trainyard::main(move |task| trainers::train(task, order.clone()));
    }
    let is_any_named = std::env::args().skip(1).any(|word| word != "--bench");
    let outcome = if is_any_named {
        run(&Arguments::parse())
    } else {
        let of = |words: &str| Arguments::parse_from(["peer"].into_iter().chain(words.split(' ')));
        ALL.iter().try_for_each(|words| run(&of(words)))
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    match arguments.case {
        Case::LocalStep => local_step::run().map_err(|error| error.to_string()),
        Case::NullStep | Case::Train | Case::AllReduce => cluster::run(arguments),
    }
}
