//! The figures of all benches, in one file: `target/figures.jsonl`, a JSON line each, with the
//! bench, the machine and the date. Nothing is taken out, so that the figures of several rounds
//! stand beside each other.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

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
    /// What `bench` adds its figures to.
    pub(crate) fn of(bench: &'static str) -> Self {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target");
        fs::create_dir_all(&folder).expect("the target folder can be written");
        Self { bench, machine: machine(), file: folder.join("figures.jsonl") }
    }

    /// Prints `figure`, a JSON object, and adds it to the file.
    pub(crate) fn note(&self, figure: &Value) {
        println!("{figure}");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
        let mut line = serde_json::json!({
            "bench": self.bench, "machine": self.machine, "at": now.as_secs(),
        });
        let fields = figure.as_object().expect("a figure is an object").clone();
        line.as_object_mut().expect("it was just made").extend(fields);
        let all = OpenOptions::new().create(true).append(true).open(&self.file);
        let added = all.and_then(|mut all| writeln!(all, "{line}"));
        added.expect("the target folder can be written");
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
