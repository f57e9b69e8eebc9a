//! The figures of all benches, in one file: `target/figures.jsonl`, a JSON line each, with the
//! bench and the machine. A bench that runs again replaces its own.

use std::path::PathBuf;
use std::{env, fs};

use mimalloc::MiMalloc;
use serde_json::Value;

/// As the binary's.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The figures of one bench.
pub(crate) struct Figures {
    bench: &'static str,
    /// The machine that they are measured on.
    pub(crate) machine: String,
    file: PathBuf,
}

impl Figures {
    /// The figures of `bench`, of which there are none yet.
    pub(crate) fn of(bench: &'static str) -> Self {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target");
        let figures = Self { bench, machine: machine(), file: folder.join("figures.jsonl") };
        let before = fs::read_to_string(&figures.file).unwrap_or_default();
        let is_of_another = |line: &&str| {
            serde_json::from_str::<Value>(line).is_ok_and(|figure| figure["bench"] != bench)
        };
        let kept: String =
            before.lines().filter(is_of_another).map(|line| format!("{line}\n")).collect();
        fs::create_dir_all(folder).expect("the target folder can be written");
        fs::write(&figures.file, kept).expect("the target folder can be written");
        figures
    }

    /// Prints `figure`, a JSON object, and adds it to the file.
    pub(crate) fn note(&self, figure: &Value) {
        println!("{figure}");
        let mut line = serde_json::json!({ "bench": self.bench, "machine": self.machine });
        let fields = figure.as_object().expect("a figure is an object").clone();
        line.as_object_mut().expect("it was just made").extend(fields);
        let mut all = fs::read_to_string(&self.file).unwrap_or_default();
        all.push_str(&format!("{line}\n"));
        fs::write(&self.file, all).expect("the target folder can be written");
    }
}

/// The processor and the number of its cores that this process may use.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let known = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = known.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or(env::consts::ARCH, |(_, model)| model.trim());
    format!("{model}, {cores} cores")
}
