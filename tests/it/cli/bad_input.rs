//! Inputs that can't be used: each is refused with its exit code before it takes the machine's
//! memory or an operator's time.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::support::binary::{folder, scenario, trainyard};

const SMALL: &str = r#"
memory_limit = "4GB"
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

/// Asserts that `sim` and `launch` of `path` with the change `set` end with `code`, say `words`,
/// and print no result.
#[track_caller]
fn assert_refused(path: &str, set: &str, code: i32, words: &[&str]) {
    for command in ["sim", "launch"] {
        let said = trainyard(&[command, path, "--set", set]);
        assert_eq!((said.code, said.out.as_str()), (code, ""), "{command} {set}: {}", said.err);
        for word in words {
            assert!(said.err.contains(word), "{command} {set}: no `{word}` in: {}", said.err);
        }
    }
}

#[test]
fn a_run_that_would_take_more_memory_than_its_limit_is_refused_with_what_needs_it() {
    let path = scenario("too_large", SMALL);
    for (set, words) in [
        ("program.batch=100000000", ["over the limit of 4GB", "the workers' batches"]),
        ("program.hidden=[100000, 100000]", ["over the limit of 4GB", "the variables"]),
        ("program.hidden=[1000000000]", ["over the limit of 4GB", "evaluation of the test split"]),
        ("cluster.worker=90000", ["over the limit of 4GB", "the tasks (`[cluster]`)"]),
        ("memory_limit=\"1MB\"", ["over the limit of 1MB", "the tasks (`[cluster]`)"]),
        ("program.batch=100000000000", ["program.batch", "must be at most 1000000000"]),
    ] {
        assert_refused(&path, set, 2, &words);
    }
}

#[test]
fn a_task_that_would_take_more_memory_than_its_limit_is_refused_before_it_asks_for_others() {
    let path = scenario("too_large_task", SMALL);
    let (ps, workers) = ("--ps-hosts=h:1", "--worker-hosts=h:2,h:3");
    let role = [ps, workers, "--job-name=worker", "--task-index=0"];
    let set = ["--set", "program.batch=100000000"];
    let said = trainyard(&[&["task", path.as_str()], &role[..], &set[..]].concat());
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{}", said.err);
    assert!(said.err.contains("over the limit of 4GB"), "{}", said.err);
}

/// `gzip` of `megabytes` of zeros: a thousandth of that.
fn bomb(path: &Path, megabytes: usize) {
    let mut zipped = GzEncoder::new(File::create(path).unwrap(), Compression::fast());
    let zeros = vec![0; 1 << 20];
    for _ in 0..megabytes {
        zipped.write_all(&zeros).unwrap();
    }
    zipped.finish().unwrap();
}

#[test]
fn data_without_end_and_corrupt_data_have_exit_codes_of_their_own() {
    let path = scenario("bad_data", SMALL);
    let files = folder("bad_data_files");
    let file = |name: &str| files.join(name).display().to_string();
    bomb(&files.join("bomb.csv.gz"), 32);
    fs::write(files.join("torn.csv"), "a,label\n1,0\nx,1\n").unwrap();
    fs::write(files.join("one.csv"), "a,label\n1,0\n").unwrap();
    for (file, code, word) in [
        ("/dev/zero".to_owned(), 2, "it is a device"),
        (file("missing.csv"), 2, "can't read"),
        (file("bomb.csv.gz"), 8, "a line is longer than"),
        (file("torn.csv"), 8, "line 3, column `a`: `x` is no number"),
        (file("one.csv"), 8, "no samples to test on"),
    ] {
        let set = format!("program.dataset={{ csv = \"{file}\", label = \"label\" }}");
        assert_refused(&path, &set, code, &[word]);
    }
}

#[test]
fn a_scenario_without_end_is_refused() {
    for command in ["sim", "launch"] {
        for source in ["/dev/urandom", "/dev/zero"] {
            let said = trainyard(&[command, source]);
            assert_eq!(said.code, 2, "{}", said.err);
            assert!(said.err.contains("can't read it"), "{}", said.err);
        }
    }
}

#[test]
fn values_by_which_time_would_stand_still_or_run_out_are_refused() {
    let path = scenario("no_time", SMALL);
    for (set, word) in [
        ("compute.rate=1e-300FLOP/s", "is no rate from 0.001"),
        ("network.bandwidth=1e-300bps", "is no rate from 0.001"),
        ("compute.slow={ \"worker:1\" = 1e300 }", "200 years of virtual time"),
        ("network.incast=1e18", "200 years of virtual time"),
        ("compute.step_time={ law = \"exponential\", mean = \"90_000_000_000s\" }", "100 years"),
    ] {
        let said = trainyard(&["sim", &path, "--set", set]);
        assert_eq!(said.code, 2, "{set}: {}{}", said.err, said.out);
        assert!(said.err.contains(word), "{set}: {}", said.err);
    }
}

#[test]
fn a_result_that_can_t_be_written_is_printed_and_named() {
    let path = scenario("no_room", SMALL);
    let out = folder("no_room_out");
    fs::create_dir(out.join("result.json")).unwrap();
    for command in ["sim", "launch"] {
        let said = trainyard(&[command, &path, "--out", out.to_str().unwrap()]);
        assert_eq!(said.code, 9, "{}", said.err);
        assert!(said.out.contains("weights="), "the table is printed: {}", said.out);
        assert!(said.err.contains("cannot write the files of run `sync`"), "{}", said.err);
    }
}
