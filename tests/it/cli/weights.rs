//! `sim --weights`: the file of each run's weights.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use trainyard::checkpoint::read_safetensors;
use xxhash_rust::xxh3::Xxh3;

use crate::support::binary::{Said, folder, scenario, trainyard};

/// Runs whose variables are whole or in parts, on parameter servers or each worker's own, with
/// slots beside them.
const SCENARIO: &str = r#"
[cluster]
ps = 2
worker = 2
[program]
model = "softmax"
batch = 8
optimizer = { rule = "momentum", learning_rate = 0.1, momentum = 0.9 }
[stop]
steps = 20
[[run]]
name = "sync"
mode = "sync"
[[run]]
name = "parts"
mode = "sync"
set = { program.partitioner = { fixed_size = 2 } }
[[run]]
name = "async"
mode = "async"
[[run]]
name = "copies"
mode = { local_sgd = { every = 4 } }
"#;

/// What `sim` of the scenario at `path` says, if it writes weights into `folder`.
fn sim(path: &str, folder: &Path, more: &[&str]) -> Said {
    let weights = ["sim", path, "--json", "--weights", folder.to_str().unwrap()];
    trainyard(&[&weights[..], more].concat())
}

/// The runs in what was said as JSON.
fn runs(said: &Said) -> Vec<Value> {
    assert_eq!(said.code, 0, "{}", said.err);
    let result: Value = serde_json::from_str(&said.out).unwrap();
    result["runs"].as_array().unwrap().clone()
}

fn text_of<'a>(run: &'a Value, key: &str) -> &'a str {
    run[key].as_str().unwrap()
}

/// By run: the digests of its events and of its weights.
fn digests(runs: &[Value]) -> Vec<[&str; 2]> {
    let of = |run| ["digest", "weights_digest"].map(|key| text_of(run, key));
    runs.iter().map(of).collect()
}

/// The digest of the weights in the file at `path`.
fn digest_of_file(path: &Path) -> String {
    let mut hash = Xxh3::new();
    for (name, tensor) in read_safetensors(path).unwrap() {
        hash.update(name.as_bytes());
        hash.update(tensor.bytes());
    }
    format!("{:016x}", hash.digest())
}

#[test]
fn the_file_of_each_run_has_the_weights_of_its_digest_and_no_digest_changes_because_of_it() {
    let (path, folder) = (scenario("weights", SCENARIO), folder("weights_files"));
    let (kept, spared) =
        (runs(&sim(&path, &folder, &[])), runs(&trainyard(&["sim", &path, "--json"])));
    assert_eq!(digests(&kept), digests(&spared));
    for run in &kept {
        let file = folder.join(format!("{}.safetensors", text_of(run, "name")));
        assert_eq!(digest_of_file(&file), text_of(run, "weights_digest"), "{file:?}");
        let header = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
        let step = format!("\"global_step\":\"{}\"", run["global_steps"]);
        assert!(header.contains(&step), "{file:?} does not say {step}");
    }
    let read = |run: &str| read_safetensors(folder.join(format!("{run}.safetensors"))).unwrap();
    assert_eq!(read("parts"), read("sync"), "the parts are written as a whole");
    assert!(read("copies").keys().eq(read("sync").keys()), "without slots and centers");
}

#[test]
fn each_seed_and_swept_value_has_a_file_of_its_own() {
    let (path, folder) = (scenario("weights_swept", SCENARIO), folder("weights_swept_files"));
    let more = ["--run", "sync", "--seeds", "2", "--sweep", "program.batch=4,8", "--repeat", "2"];
    let runs = runs(&sim(&path, &folder, &more));
    let learnt: BTreeSet<&str> = digests(&runs).into_iter().map(|[_, weights]| weights).collect();
    assert_eq!(learnt.len(), 4);
    let files = fs::read_dir(&folder).unwrap().map(|entry| digest_of_file(&entry.unwrap().path()));
    let files: Vec<String> = files.collect();
    assert_eq!(files.len(), 4);
    assert!(files.iter().all(|digest| learnt.contains(digest.as_str())), "{files:?}");
}

#[test]
fn a_run_that_fails_has_no_file_not_even_one_from_before() {
    let fault = "[[fault]]\nat = \"50ms\"\ncrash = \"ps:0\"\n";
    let text = SCENARIO
        .replace("ps = 2", "ps = 1")
        .replace("steps = 20", "steps = 5")
        .replace("mode = \"async\"", "mode = \"async\"\nset = { stop.steps = 100_000 }");
    let path = scenario("weights_fail", &format!("{text}{fault}"));
    let folder = folder("weights_fail_files");
    fs::write(folder.join("async.safetensors"), "of an earlier run").unwrap();
    fs::write(folder.join("mine.safetensors"), "of somebody else").unwrap();
    let said = sim(&path, &folder, &["--run", "sync", "--run", "async"]);
    assert_eq!(said.code, 12, "{}", said.err);
    assert!(said.err.contains("async: no weights are written, since it failed"), "{}", said.err);
    assert!(!folder.join("async.safetensors").exists());
    assert!(folder.join("sync.safetensors").exists() && folder.join("mine.safetensors").exists());
}

#[test]
fn a_training_without_arithmetic_has_no_weights_to_write() {
    let (path, folder) = (scenario("weights_shapes", SCENARIO), folder("weights_shapes_files"));
    let said = sim(&path, &folder, &["--run", "sync", "--set", "compute.numerics=shapes"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let words = "sync: no weights are written: only shapes are computed";
    assert!(said.err.contains(words), "{}", said.err);
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
}
