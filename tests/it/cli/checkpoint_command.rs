//! The command `checkpoint`: what a training has saved, whether it is whole, and all of it in one
//! file.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use trainyard::checkpoint::{Folder, Retention, SavedVariable, Saver, Shard, Slice, Snapshot};
use trainyard::tensor::{DType, Tensor};

use crate::support::binary::{Said, folder, trainyard};

/// A folder with the checkpoints of steps 100 and 200 of two parameter servers.
fn trained(test: &str) -> PathBuf {
    let folder = folder(test).join("train_logs");
    let mut saver = Saver::new(Arc::new(Folder::new(&folder)), Retention::default());
    for step in [100, 200] {
        let part = |number: usize, rows: usize, begin: usize| SavedVariable {
            slice: Some(Slice { full_name: "table".to_owned(), full_shape: [5, 2].into(), begin }),
            ..SavedVariable::new(
                format!("table/part_{number}"),
                Tensor::full([rows, 2], number as f32 + 0.5),
            )
        };
        let first = vec![
            SavedVariable::new(
                "mlp/w",
                Tensor::new([2, 2], &[1f32, 2.0, 3.0, f32::INFINITY]).unwrap(),
            ),
            SavedVariable::new("mlp/w/Adam", Tensor::zeros(DType::F32, [2, 2])),
            part(0, 3, 0),
        ];
        let second = vec![
            SavedVariable::new("global_step", Tensor::scalar(step as i64)),
            SavedVariable::new("labels", Tensor::new([2], &[7i32, -7]).unwrap()),
            SavedVariable::new("mask", Tensor::new([3], &[true, false, true]).unwrap()),
            part(1, 2, 3),
        ];
        let shard = |task: &str, variables| Shard { task: task.to_owned(), variables };
        let snapshot = Snapshot {
            global_step: step,
            shards: vec![shard("ps:0", first), shard("ps:1", second)],
        };
        saver.save(&snapshot, Duration::from_secs(1_700_000_000 + step)).unwrap();
    }
    folder
}

fn checkpoint(command: &str, folder: &Path, more: &[&str]) -> Said {
    trainyard(&[&["checkpoint", command, folder.to_str().unwrap()], more].concat())
}

fn flip(file: PathBuf) {
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(file, bytes).unwrap();
}

#[test]
fn list_has_a_line_for_each_checkpoint() {
    let folder = trained("checkpoint_list");
    let said = checkpoint("list", &folder, &[]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("step  saved                 variables  bytes"), "{}", lines[0]);
    assert!(lines[1].starts_with("100   2023-11-14T22:15:00Z  7  "), "{}", lines[1]);
    assert!(lines[2].starts_with("200 ") && lines[2].ends_with("complete"), "{}", lines[2]);
    let told: Value = serde_json::from_str(&checkpoint("list", &folder, &["--json"]).out).unwrap();
    assert_eq!(
        (&told[1]["name"], &told[1]["global_step"]),
        (&"model.ckpt-200".into(), &200.into())
    );
    assert_eq!((&told[1]["problem"], &told[1]["seconds"]), (&Value::Null, &1_700_000_200.0.into()));
}

#[test]
fn show_lists_the_variables_of_the_newest_or_of_a_step() {
    let folder = trained("checkpoint_show");
    let said = checkpoint("show", &folder, &[]);
    assert!(said.out.starts_with("step 200, saved 2023-11-14T22:16:40Z\n"), "{}", said.out);
    for line in [
        "mlp/w/Adam    f32[2,2]  ps:0  16B",
        "table/part_1  f32[2,2]  ps:1  16B    table from row 3 on",
    ] {
        assert!(said.out.lines().any(|said| said == line), "no `{line}` in\n{}", said.out);
    }
    let told: Value =
        serde_json::from_str(&checkpoint("show", &folder, &["--step", "100", "--json"]).out)
            .unwrap();
    assert_eq!(
        (&told["global_step"], &told["variables"][0]["name"]),
        (&100.into(), &"global_step".into())
    );
    assert_eq!(told["files"][1]["file"], "model.ckpt-100-00001-of-00002.safetensors");
}

#[test]
fn verify_reads_every_byte_and_names_the_file_that_has_changed() {
    let folder = trained("checkpoint_verify");
    let said = checkpoint("verify", &folder, &[]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    flip(folder.join("model.ckpt-200-00001-of-00002.safetensors"));
    let said = checkpoint("verify", &folder, &[]);
    assert_eq!(said.code, 8);
    assert!(
        said.err.contains("model.ckpt-200-00001-of-00002.safetensors has changed"),
        "{}",
        said.err
    );
    let state = |line: usize| said.out.lines().nth(line).unwrap().to_owned();
    assert!(state(1).ends_with("whole") && state(2).contains("broken:"), "{}", said.out);
    let shown = checkpoint("show", &folder, &[]);
    assert!(
        shown.out.starts_with("step 100") && shown.err.contains("warning: "),
        "{}{}",
        shown.out,
        shown.err
    );
}

#[test]
fn a_folder_without_checkpoints_or_a_step_that_is_not_there_is_a_mistake_to_mend() {
    let folder = trained("checkpoint_none");
    for (said, words) in [
        (checkpoint("list", &folder.join("no"), &[]), "it is not there"),
        (checkpoint("show", &folder, &["--step", "300"]), "there are those of 100, 200"),
    ] {
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{}", said.err);
        assert!(said.err.contains(words), "{}", said.err);
    }
}

/// Prints, of the files of safetensors that it is given, the arrays by name.
const LOAD: &str = "\
import sys, safetensors.numpy
for name, array in sorted(safetensors.numpy.load_file(sys.argv[1]).items()):
    print(name, array.dtype, list(array.shape), array.tolist())
";

#[test]
fn merge_replaces_a_plain_file_and_neither_a_link_nor_a_folder() {
    let folder = trained("checkpoint_merge_place");
    let (file, link) = (folder.join("file"), folder.join("link"));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for place in [&link, &folder] {
        let said = checkpoint("merge", &folder, &["--out", place.to_str().unwrap()]);
        assert!(said.code != 0 && said.err.contains("no plain file"), "{}", said.err);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    let said = checkpoint("merge", &folder, &["--out", file.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{}", said.err);
}

#[test]
fn merge_makes_one_file_that_python_reads() {
    let folder = trained("checkpoint_merge");
    let (whole, weights) =
        (folder.join("../whole.safetensors"), folder.join("../weights.safetensors"));
    let said = checkpoint("merge", &folder, &["--out", whole.to_str().unwrap(), "--step", "100"]);
    assert_eq!((said.code, said.out.as_str()), (0, ""), "{}", said.err);
    assert!(said.err.contains("6 variables of model.ckpt-100"), "{}", said.err);
    let said =
        checkpoint("merge", &folder, &["--out", weights.to_str().unwrap(), "--weights-only"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let python = |args: &[&str]| Command::new("python3").args(args).output();
    if !python(&["-c", "import safetensors.numpy"]).is_ok_and(|output| output.status.success()) {
        let skipped = "SKIPPED: no Python with safetensors reads a merged checkpoint (pip install \
                       numpy safetensors)\n";
        // By `write`, for the test's runner keeps what `eprintln` says to itself.
        return io::stderr().write_all(skipped.as_bytes()).unwrap();
    }
    let load = |file: &Path| {
        let output = python(&["-c", LOAD, file.to_str().unwrap()]).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let (labels, mask) = ("labels int32 [2] [7, -7]\n", "mask bool [3] [True, False, True]\n");
    let w = "mlp/w float32 [2, 2] [[1.0, 2.0], [3.0, inf]]\n";
    let adam = "mlp/w/Adam float32 [2, 2] [[0.0, 0.0], [0.0, 0.0]]\n";
    let table =
        "table float32 [5, 2] [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [1.5, 1.5], [1.5, 1.5]]\n";
    assert_eq!(load(&whole), ["global_step int64 [] 100\n", labels, mask, w, adam, table].concat());
    assert_eq!(load(&weights), [labels, mask, w, table].concat());
}
