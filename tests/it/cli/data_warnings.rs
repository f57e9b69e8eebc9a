//! Data that can be trained on, but hardly as their author means: each is warned of.

use std::fs;
use std::path::Path;

use crate::support::binary::{folder, trainyard, trainyard_in};

const SMALL: &str = r#"
[cluster]
ps = 1
worker = 2
[program]
model = "softmax"
batch = 2
[stop]
steps = 2
[[run]]
name = "sync"
mode = "sync"
"#;

/// Simulates `SMALL` with `set` in the folder of a test. Returns what is said on standard error.
#[track_caller]
fn said(folder: &Path, set: &[&str]) -> String {
    let path = folder.join("scenario.toml");
    fs::write(&path, SMALL).unwrap();
    let set = set.iter().flat_map(|set| ["--set", set]);
    let said =
        trainyard(&["sim", path.to_str().unwrap()].into_iter().chain(set).collect::<Vec<_>>());
    assert!([0, 3].contains(&said.code), "a target may be missed: {}", said.err);
    said.err
}

/// A NumPy array of the type `descr`.
fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()
}

#[test]
fn large_features_are_warned_of_in_whatever_file_they_are() {
    let folder = folder("large_features");
    let rows = |of: fn(usize) -> String| (0..10).map(of).collect::<String>();
    let csv = format!("a,b,y\n{}", rows(|i| format!("1,{},{}\n", 300 + i, i % 2)));
    fs::write(folder.join("large.csv"), csv).unwrap();
    fs::write(folder.join("large"), rows(|i| format!("{} 1:1 2:{}\n", i % 2, 300 + i))).unwrap();
    let values = (0..10u16).flat_map(|i| [1, 300 + i]).flat_map(u16::to_le_bytes);
    let values: Vec<u8> = values.collect();
    fs::write(folder.join("x.npy"), npy("<u2", "(10, 2)", &values)).unwrap();
    fs::write(folder.join("y.npy"), npy("|u1", "(10,)", &[0, 1, 0, 1, 0, 1, 0, 1, 0, 1])).unwrap();
    for (dataset, place) in [
        (r#"{ csv = "large.csv", label = "y" }"#, "large.csv: column `b` has values such as 300"),
        (
            r#"{ csv = "large.csv", test = "large.csv", label = "y", classes = 2 }"#,
            "large.csv: column `b` has values such as 300",
        ),
        (r#"{ libsvm = "large" }"#, "large: feature 2 has values such as 300"),
        (
            r#"{ npy = { features = "x.npy", labels = "y.npy" } }"#,
            "x.npy, feature 1 has values such as 300",
        ),
    ] {
        let said = said(&folder, &[&format!("program.dataset={dataset}")]);
        assert!(said.contains(place) && said.contains("scale it to about -1 to 1"), "{said}");
    }
}

#[test]
fn what_says_nothing_of_what_was_learnt_is_warned_of() {
    let folder = folder("odd_data");
    let rows: String = (0..20).map(|i| format!("{i},{}\n", u8::from(i == 7))).collect();
    fs::write(folder.join("rows.csv"), format!("a,y\n{rows}")).unwrap();
    let dataset = "program.dataset={ csv = \"rows.csv\", test = \"./rows.csv\", label = \"y\" }";
    let said = said(&folder, &[dataset, "stop.accuracy=0.95", "program.batch=50"]);
    for caution in [
        "rows.csv is trained on and tested on",
        "stop.accuracy: 95.0 % of the samples to test on are of the class 0",
        "program.batch: a step has 100 samples, and there are 20 to train on",
    ] {
        assert!(said.contains(caution), "{said}");
    }
}

#[test]
fn what_is_odd_is_said_once_by_each_command_and_not_by_each_process_of_a_launch() {
    let folder = folder("odd_data_once");
    let rows: String = (0..20).map(|i| format!("{i},{}\n", i % 2)).collect();
    fs::write(folder.join("rows.csv"), format!("a,y\n{rows}")).unwrap();
    fs::write(folder.join("scenario.toml"), SMALL).unwrap();
    let dataset = "program.dataset={ csv = \"rows.csv\", test = \"rows.csv\", label = \"y\" }";
    let odd = ["scenario.toml", "--set", dataset, "--set", "stop.evaluate_every=1000"];
    let alone = [("TF_CONFIG", r#"{"task": {"type": "worker", "index": 0}}"#)];
    for (command, variables) in [
        (&["sim"][..], &[][..]),
        (&["launch", "--out", "out"][..], &[][..]),
        (&["check", "--expect", "expected.toml", "--update"][..], &[][..]),
        (&["task"][..], &alone[..]),
    ] {
        let said = trainyard_in(&folder, &[command, &odd].concat(), variables);
        assert_eq!(said.code, 0, "{command:?}: {}", said.err);
        for caution in ["rows.csv is trained on", "`stop.evaluate_every = 1000` has no"] {
            assert_eq!(said.err.matches(caution).count(), 1, "{command:?}: {}", said.err);
        }
    }
    for log in fs::read_dir(folder.join("out/logs")).unwrap() {
        let log = fs::read_to_string(log.unwrap().path()).unwrap();
        assert!(!log.contains("is trained on"), "{log}");
    }
}
