//! A cluster of processes, each of this program, launched as any user's program is.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use serde::{Deserialize, Serialize};

use super::{Arguments, Case, Mode, line};

/// The environment variable that carries a process's order. `TRAINYARD_…` would be a flag, and is
/// not handed on by `launch`.
const ORDER: &str = "PEER_BENCH_ORDER";

/// The order for a task of the cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) arguments: Arguments,
    /// The folder in which each worker leaves its lines.
    lines: PathBuf,
}

impl Order {
    /// The order of this process, if it is a task of a cluster.
    pub(crate) fn received() -> Option<Self> {
        let order = env::var(ORDER).ok()?;
        Some(serde_json::from_str(&order).expect("the order is as the bench wrote it"))
    }

    /// Writes the lines of a worker into its file.
    pub(crate) fn leave(&self, worker: u32, line: &str) {
        fs::write(self.line(worker as usize), line).expect("the bench's folder can be written to");
    }

    fn line(&self, worker: usize) -> PathBuf {
        self.lines.join(worker.to_string())
    }
}

/// Launches a cluster, and notes the lines that its workers left.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    let folder = env::temp_dir().join(format!("trainyard-peer-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let outcome = run_in(arguments, &folder);
    fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    outcome
}

fn run_in(arguments: &Arguments, folder: &Path) -> Result<(), String> {
    let scenario = folder.join("peer.toml");
    fs::write(&scenario, scenario_of(arguments)).map_err(|error| error.to_string())?;
    let order = Order { arguments: arguments.clone(), lines: folder.to_owned() };
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.arg("launch").arg(&scenario).stdout(Stdio::null());
    command.env(ORDER, serde_json::to_string(&order).map_err(|error| error.to_string())?);
    let status = command.status().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("the cluster failed: {status}"));
    }
    for worker in 0..arguments.workers {
        if let Ok(line) = fs::read_to_string(order.line(worker)) {
            line::print(&line);
        }
    }
    Ok(())
}

/// The scenario for `launch`. It lacks the model: the workers know that themselves.
fn scenario_of(arguments: &Arguments) -> String {
    let Arguments { ps, workers, steps, mode, .. } = arguments;
    let mode = match mode {
        Mode::Sync => "sync",
        Mode::Async => "async",
    };
    if arguments.case == Case::AllReduce {
        return format!(
            "[cluster]\nworker = {workers}\n[program]\nmodel = \"softmax\"\n\
             all_reduce = \"ring\"\n[stop]\nsteps = {steps}\n\
             [[run]]\nname = \"peer\"\nmode = \"sync\"\n"
        );
    }
    format!(
        "[cluster]\nps = {ps}\nworker = {workers}\n[program]\nmodel = \"null\"\n[stop]\n\
         steps = {steps}\n\
         [[run]]\nname = \"peer\"\nmode = \"{mode}\"\n"
    )
}
