//! A thousand workers and more: the time and the memory of whole trainings with real gradients,
//! each a process of the binary's `sim`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use serde_json::json;

use crate::figures::Figures;
use crate::resident::resident;
use crate::rounds::scenario;

/// A mode, the workers, and the global steps: rounds of `sync`, steps of a worker of `async`.
const TRAININGS: [(&str, u32, u32); 4] =
    [("sync", 1000, 1), ("sync", 1000, 100), ("async", 1000, 100_000), ("sync", 3000, 10)];
/// How often a process's memory is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Measures all trainings, from the start of their process to its end.
pub(crate) fn measure(figures: &Figures) {
    let file = env::temp_dir().join(format!("trainyard-scale-{}.toml", std::process::id()));
    for (mode, workers, steps) in TRAININGS {
        let text = scenario(&format!("\"{mode}\""), workers, steps);
        fs::write(&file, text).expect("there is room for a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
        command.args(["sim", "--quiet"]).arg(&file).stdout(Stdio::null());
        let began = Instant::now();
        let mut process = command.spawn().expect("the binary is built");
        let mut most = 0;
        let status = loop {
            most = most.max(resident(process.id()));
            match process.try_wait().expect("it is a child of this process") {
                Some(status) => break status,
                None => thread::sleep(LOOK),
            }
        };
        let seconds = began.elapsed().as_secs_f64();
        assert!(status.success(), "{mode}, {workers} workers: {status}");
        figures.note(&json!({
            "case": "scale", "mode": mode, "ps": 16, "workers": workers, "steps": steps,
            "seconds": (seconds * 100.0).round() / 100.0, "most_mb": most / 1000,
        }));
    }
    fs::remove_file(file).expect("it is this process's");
}
