//! Bad inputs of all commands, and what is said to each: `bad_inputs.txt` lists the commands, with
//! the exit code and the first lines of the error.
//!
//! To add one, write its line, `$ trainyard …`, and run this test with `TRAINYARD_WRITE=1`, which
//! writes what came of every command; then read the difference.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use trainyard::checkpoint::{Folder, Retention, SavedVariable, Saver, Shard, Snapshot};
use trainyard::cluster::TaskName;
use trainyard::prelude::*;
use trainyard::transport::Authority;

use crate::support::binary::folder;

/// The most memory that a command may take \[KiB\].
const MEMORY: usize = 2 << 20;
/// The time after which a command hangs.
const LIMIT: Duration = Duration::from_secs(30);
/// The lines of an error that are kept.
const LINES: usize = 6;

const SMALL: &str = r#"
memory_limit = "2GB"
[cluster]
ps = 1
worker = 2
[program]
model = "mlp"
hidden = [8]
batch = 8
[stop]
steps = 4
[[run]]
name = "sync"
mode = "sync"
"#;

/// The files that the commands name, in a new folder.
fn place() -> PathBuf {
    let place = folder("bad_inputs");
    let write = |name: &str, bytes: &[u8]| {
        let path = place.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    write("small.toml", SMALL.as_bytes());
    write("empty.toml", b"");
    write("foreign_tapes/ps-0.0.tape", b"PK\x03\x04");
    write("newer_tapes/ps-0.0.tape", b"trainyard tape\x04");
    write("torn_tapes/ps-0.0.tape", b"trainyard tape\x03\x40{");
    write("tapes/async/ps-0.0.tape", b"");
    write("within.json", br#"{"cluster": {"ps": ["a:1"], "worker": ["b:1"]}}"#);
    write("latin1.toml", b"name = \"gr\xfc\xdfe\"\n");
    write("binary.toml", &[0, 159, 146, 150, 255, 1, 2, 3]);
    write("unterminated.toml", b"name = \"a\n[cluster\n");
    write("own.toml", format!("{SMALL}set = {{ program.batch = 16 }}\n").as_bytes());
    write("twice.toml", format!("{SMALL}\n[stop]\nsteps = 5\n").as_bytes());
    write("array.toml", b"cluster = [1, 2]\n");
    write("deep.toml", format!("name = {}1{}\n", "[".repeat(5000), "]".repeat(5000)).as_bytes());
    write("no_runs.toml", SMALL.split("[[run]]").next().unwrap().as_bytes());
    write("wide.toml", format!("name = \"{}\"\n{SMALL}", "x".repeat(1 << 16)).as_bytes());
    write("good.csv", b"a,label\n1,0\n2,1\n3,0\n4,1\n5,0\n6,1\n");
    write("torn.csv", b"a,label\n1,0\nx,1\n");
    write("one.csv", b"a,label\n1,0\n");
    write("header.csv", b"a,label\n");
    write("named.csv", b"a,label\n1,iris\n2,rose\n3,iris\n4,rose\n5,iris\n");
    write("unlabelled.csv", b"a,label\n1,0\n2,\n");
    write("gap.csv", b"a,label\n1,0\n,1\n");
    write("measured.csv", b"a,label\n1,0.5\n2,1.5\n");
    write("great.csv", b"a,label\n1,0\n1e39,1\n");
    write("classes.csv", b"a,label\n1,0\n2,1000000\n");
    write("bomb.csv.gz", &bomb(32));
    write("alike.csv", b"a,a,label\n1,2,0\n");
    write("odd_layers.csv", b"name,bytes,forward_flops\nall,401,1e6\n");
    write("torn_layers.csv", b"name,bytes,forward_flops\nall,4k,1e6\n");
    write("layers.csv", b"name,bytes,forward_flops\nall,4000,1e6\n");
    write("nan.csv", b"a,label\nnan,0\ninf,1\n1,0\n2,1\n3,0\n");
    write("bad.libsvm", b"1 0:3\n0 1:x\n");
    write("nan.libsvm", b"1 1:nan\n0 1:2\n1 1:1\n");
    write("wide.libsvm", b"1 4000000000:3\n0 1:2\n1 1:1\n0 2:2\n1 2:1\n");
    write("torn_idx/train-images-idx3-ubyte", &[0, 0, 8, 3, 255, 255, 255, 255]);
    for name in ["train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"] {
        write(&format!("cut_idx/{name}-ubyte"), &[0, 0, 8, 3, 0, 0]);
    }
    write("results/steps.csv", b"run,worker,local_step,compute_s\nasync,worker:0,0,0.001\n");
    write("torn_results/steps.csv", b"run,worker,local_step,compute_s\nasync,worker:0,0,inf\n");
    let graph = include_bytes!("../../graphdefs/frozen_mlp.pb");
    write("good.pb", graph);
    write("torn.pb", &graph[..graph.len() / 2]);
    for folder in ["taken/result.json", "runs/async", "runs/sync"] {
        fs::create_dir_all(place.join(folder)).unwrap();
    }
    assert!(Command::new("mkfifo").arg(place.join("fifo")).status().unwrap().success());
    certificates(&place);
    checkpoints(&place);
    place
}

/// `gzip` of `megabytes` of zeros: a thousandth of that.
fn bomb(megabytes: usize) -> Vec<u8> {
    let mut zipped = GzEncoder::new(Vec::new(), Compression::fast());
    let zeros = vec![0; 1 << 20];
    for _ in 0..megabytes {
        zipped.write_all(&zeros).unwrap();
    }
    zipped.finish().unwrap()
}

fn certificates(place: &Path) {
    let authority = Authority::new("run").unwrap();
    authority.save(&place.join("certs")).unwrap();
    let other = Authority::new("run").unwrap();
    let names = ["ps:0", "worker:0", "worker:1", "client:0"];
    let tasks = names.map(|name| name.parse::<TaskName>().unwrap());
    for task in &tasks {
        for (folder, authority) in
            [("certs", &authority), ("torn_certs", &authority), ("others_certs", &other)]
        {
            authority.issue(task, &[]).unwrap().save(&place.join(folder), task).unwrap();
        }
    }
    fs::write(place.join("torn_certs/worker-0.key"), "garbage").unwrap();
    let torn = place.join("torn_certs/authority.key");
    fs::write(&torn, "garbage").unwrap();
    fs::set_permissions(torn, Permissions::from_mode(0o600)).unwrap();
    authority.save(&place.join("open_certs")).unwrap();
    authority.issue(&tasks[1], &[]).unwrap().save(&place.join("open_certs"), &tasks[1]).unwrap();
    for key in ["worker-0.key", "authority.key"] {
        let path = place.join("open_certs").join(key);
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    }
}

fn checkpoints(place: &Path) {
    for name in ["saved", "torn_saved"] {
        let store = Arc::new(Folder::new(place.join(name)));
        let variables = vec![SavedVariable::new("w", Tensor::full([2, 3], 1f32))];
        let shards = vec![Shard { task: "ps:0".to_owned(), variables }];
        let mut saver = Saver::new(store, Retention::default());
        saver.save(&Snapshot { global_step: 4, shards }, Duration::from_secs(1)).unwrap();
    }
    for file in fs::read_dir(place.join("torn_saved")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            let bytes = fs::read(&path).unwrap();
            fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
        }
    }
}

/// What comes of a command line: its exit code, and the first lines of its error.
fn outcome(place: &Path, line: &str) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_trainyard"));
    let path = format!("{}:/usr/bin:/bin", binary.parent().unwrap().display());
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -v {MEMORY}; {line}")).current_dir(place);
    command.env_clear().env("PATH", path).env("RUST_BACKTRACE", "0");
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let (mut child, began) = (command.spawn().unwrap(), Instant::now());
    let mut pipe = child.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        pipe.read_to_end(&mut said).map(|_| said)
    });
    let code = loop {
        match child.try_wait().unwrap() {
            Some(status) => {
                break status.code().map_or("killed".to_owned(), |code| code.to_string());
            }
            None if began.elapsed() > LIMIT => {
                child.kill().unwrap();
                child.wait().unwrap();
                return "exit: it hangs\n".to_owned();
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let said = reader.join().unwrap().unwrap();
    let said = String::from_utf8_lossy(&said).replace(&format!("{}", place.display()), "HERE");
    let mut text = format!("exit: {code}\n");
    for line in said.lines().filter(|line| !line.trim().is_empty()).take(LINES) {
        let line: String = without_lists(line).chars().take(200).collect();
        text.push_str(&format!("    {}\n", line.trim_end()));
    }
    text
}

/// `line` without the list of all keys or values that there are, which grows.
fn without_lists(line: &str) -> String {
    let Some((before, list)) = line.split_once("expected one of `") else { return line.to_owned() };
    let hint = list.find("; did you mean").map_or("", |at| &list[at..]);
    format!("{before}expected one of …{hint}")
}

/// The snapshot with what comes of its commands now.
fn written_anew(snapshot: &str, place: &Path) -> String {
    let commands: Vec<&str> = snapshot.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    let outcomes: Vec<_> = commands.iter().map(|_| std::sync::Mutex::new(String::new())).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(command) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
            let at = commands.iter().position(|other| std::ptr::eq(*other, *command)).unwrap();
            *outcomes[at].lock().unwrap() = outcome(place, command);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut outcomes = outcomes.into_iter();
    let mut text = String::new();
    for line in snapshot.lines() {
        if line.starts_with("## ") {
            text.push_str(&format!("\n{line}\n\n"));
        } else if line.starts_with("$ ") {
            let outcome = outcomes.next().unwrap().into_inner().unwrap();
            text.push_str(&format!("{line}\n{outcome}"));
        }
    }
    text.trim_start().to_owned()
}

#[test]
fn every_bad_input_has_its_exit_code_and_is_told_what_to_do() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cli/bad_inputs.txt");
    let snapshot = fs::read_to_string(&file).unwrap();
    let found = written_anew(&snapshot, &place());
    if std::env::var_os("TRAINYARD_WRITE").is_some() {
        fs::write(&file, &found).unwrap();
    }
    let blocks = |text: &str| text.split("\n$ ").map(str::to_owned).collect::<Vec<String>>();
    let different: Vec<String> = blocks(&snapshot)
        .into_iter()
        .zip(blocks(&found))
        .filter(|(was, is)| was != is)
        .map(|(was, is)| format!("was: {was}\nis:  {is}"))
        .collect();
    assert!(different.is_empty(), "{}", different.join("\n"));
    for block in blocks(&found).iter().skip(1) {
        let code = block.split("exit: ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
        let code: u8 = code.parse().unwrap_or_else(|_| panic!("{code}: {block}"));
        assert!((2..100).contains(&code) && block.lines().count() > 2, "{block}");
    }
}
