//! The command line: exit codes, what is said of mistakes, and where results go.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::binary::{Running, Said, folder, scenario, trainyard, trainyard_in};

/// A scenario that is over in a moment.
const SMALL: &str = r#"
name = "small"
seed = 3
[cluster]
ps = 1
worker = 2
[program]
model = "softmax"
batch = 8
[stop]
steps = 20
[[run]]
name = "sync"
mode = "sync"
[[run]]
name = "async"
mode = "async"
"#;

/// Asserts that `args` are refused as the user's to mend, before anything ran, and that all of
/// `words` are said.
#[track_caller]
fn assert_refused(args: &[&str], words: &[&str]) {
    let said = trainyard(args);
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{}", said.err);
    for word in words {
        assert!(said.err.contains(word), "no `{word}` in: {}", said.err);
    }
}

#[test]
fn help_lists_the_exit_codes_and_is_no_error() {
    let said = trainyard(&["--help"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert!(said.out.contains("sim") && said.out.contains("target not reached"), "{}", said.out);
}

#[test]
fn a_run_that_is_lost_to_its_faults_does_not_keep_the_others_from_being_compared() {
    let text = SMALL
        .replace("steps = 20", "steps = 100_000")
        .replace("mode = \"sync\"", "mode = \"sync\"\nset = { stop = { steps = 5 } }")
        + "[[run]]\nname = \"last\"\nmode = \"async\"\nset = { stop = { steps = 5 } }\n"
        + "[[fault]]\nat = \"50ms\"\ncrash = \"ps:0\"\n";
    let said = trainyard(&["sim", &scenario("one_is_lost", &text)]);
    assert_eq!(said.code, 12, "{}", said.err);
    assert!(said.err.contains("run `async`: Unavailable"), "{}", said.err);
    for row in ["\nsync ", "\nlast "] {
        assert!(said.out.contains(row), "no {row:?} in: {}", said.out);
    }
    assert!(!said.out.contains("\nasync "), "{}", said.out);
}

#[test]
fn what_is_typed_wrong_is_refused_with_the_way_to_write_it() {
    assert_refused(&["simulate"], &["simulate", "sim"]);
    assert_refused(&[], &["Usage"]);
    assert_refused(&["sim", "x.toml", "--set", "latency"], &["network.latency=1ms"]);
    assert_refused(&["sim", "no/such.toml"], &["no/such.toml", "can't read"]);
}

#[test]
fn a_wrong_key_is_refused_with_its_line_and_what_was_meant() {
    let path = scenario("wrong_key", &SMALL.replace("batch = 8", "bach = 8"));
    assert_refused(&["sim", &path], &["scenario.toml:9:1", "bach", "did you mean `batch`?"]);
}

#[test]
fn all_wrong_values_are_told_at_once() {
    let text = SMALL.replace("steps = 20", "steps = 0").replace("batch = 8", "batch = 0");
    let text = text.replace(r#"mode = "sync""#, "mode = { sync = { backups = 2 } }");
    let path = scenario("wrong_values", &text);
    assert_refused(&["sim", &path], &["stop.steps", "program.batch", "2 backups of 2 workers"]);
}

#[test]
fn a_training_without_arithmetic_has_no_loss_no_accuracy_and_no_weights() {
    let path = scenario("shapes", SMALL);
    let said = trainyard(&["sim", &path, "--set", "compute.numerics=shapes"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.out.matches("weights=-").count(), 2, "{}", said.out);
    let row = said.out.lines().find(|line| line.starts_with("sync ")).unwrap();
    assert!(row.split_whitespace().filter(|cell| *cell == "-").count() >= 2, "{}", said.out);
    assert_refused(
        &["sim", &path, "--set", "compute.numerics=shapes", "--set", "stop.accuracy=0.9"],
        &["stop.accuracy", "shapes"],
    );
}

#[test]
fn a_data_set_beside_the_scenario_is_trained_on() {
    let data = r#"dataset = { csv = "points.csv", label = "side" }"#;
    let path = scenario("csv", &SMALL.replace("batch = 8", &format!("batch = 8\n{data}")));
    let row =
        |i: i32| format!("{},{},{}\n", i % 7 - 3, i % 5, if i % 7 >= 3 { "right" } else { "left" });
    let points: String = (0..200).map(row).collect();
    fs::write(Path::new(&path).with_file_name("points.csv"), format!("x,noise,side\n{points}"))
        .unwrap();
    let said = trainyard(&["sim", &path, "--json", "--set", "program.optimizer.learning_rate=0.5"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let result: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(result["runs"][0]["parameters"], 6, "2 features and a bias for each of 2 classes");
    assert!(result["runs"][0]["test_accuracy"].as_f64().unwrap() > 0.9, "{}", said.out);
}

/// The accuracy of both runs on data that `write` puts beside the scenario, which names it by
/// `dataset`.
fn accuracies(test: &str, dataset: &str, write: impl FnOnce(&Path)) -> Vec<f64> {
    let path =
        scenario(test, &SMALL.replace("batch = 8", &format!("batch = 8\ndataset = {dataset}")));
    write(Path::new(&path).parent().unwrap());
    let said = trainyard(&["sim", &path, "--json", "--set", "program.optimizer.learning_rate=0.5"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let result: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    result["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["test_accuracy"].as_f64().unwrap())
        .collect()
}

/// Images of 2 by 2 pixels, of which the brightest is that of the class.
fn images(count: usize) -> (Vec<u8>, Vec<u8>) {
    let classes: Vec<u8> = (0..count).map(|i| (i * 7 % 4) as u8).collect();
    let pixel = |i: usize, class: u8, at: u8| {
        if at == class { 255 } else { (i * 31 + usize::from(at) * 17) as u8 % 90 }
    };
    let of_image =
        |(i, class): (usize, &u8)| (0..4).map(|at| pixel(i, *class, at)).collect::<Vec<u8>>();
    (classes.iter().enumerate().flat_map(of_image).collect(), classes)
}

#[test]
fn idx_files_beside_the_scenario_are_trained_on_and_their_test_part_is_evaluated() {
    let found = accuracies("idx", r#"{ idx = "images" }"#, |folder| {
        fs::create_dir(folder.join("images")).unwrap();
        for (part, count) in [("train", 300usize), ("t10k", 50)] {
            let (pixels, classes) = images(count);
            let size = (count as u32).to_be_bytes();
            let head = [&[0, 0, 8, 3][..], &size, &[0, 0, 0, 2], &[0, 0, 0, 2]].concat();
            let path = |rest| folder.join("images").join(format!("{part}-{rest}-ubyte"));
            fs::write(path("images-idx3"), [head, pixels].concat()).unwrap();
            fs::write(path("labels-idx1"), [&[0, 0, 8, 1][..], &size, &classes].concat()).unwrap();
        }
    });
    assert!(found.len() == 2 && found.iter().all(|accuracy| *accuracy > 0.9), "{found:?}");
}

#[test]
fn numpy_arrays_beside_the_scenario_are_trained_on_and_a_fifth_is_evaluated() {
    let files = r#"{ npy = { features = "x.npy", labels = "y.npy" } }"#;
    let found = accuracies("npy", files, |folder| {
        let (pixels, classes) = images(300);
        for (name, shape, data) in [("x.npy", "(300, 2, 2)", pixels), ("y.npy", "(300,)", classes)]
        {
            let header =
                format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n");
            let length = (header.len() as u16).to_le_bytes();
            let bytes = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &data].concat();
            fs::write(folder.join(name), bytes).unwrap();
        }
    });
    assert!(found.len() == 2 && found.iter().all(|accuracy| *accuracy > 0.9), "{found:?}");
}

#[test]
fn a_data_set_that_cannot_be_read_is_refused_with_the_file() {
    let path = scenario("no_data", &SMALL.replace("batch = 8", r#"dataset = { idx = "mnist" }"#));
    assert_refused(
        &["sim", &path],
        &["program.dataset", "mnist/train-images-idx3-ubyte", "can't read"],
    );
}

#[test]
fn tables_in_markdown_keep_their_cells_whatever_a_run_is_called() {
    let named = SMALL.replace("name = \"sync\"", "name = \"a|b *c*\"");
    let path = scenario("markdown", &named);
    let said = trainyard(&["sim", &path, "--markdown"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let rows: Vec<&str> = said.out.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), 4, "{}", said.out);
    let cells = |row: &str| row.replace("\\|", "").matches('|').count();
    assert!(rows.iter().all(|row| cells(row) == cells(rows[1])), "{}", said.out);
    assert!(rows[2].starts_with("| a\\|b \\*c\\* |"), "{}", said.out);
    assert!(rows[1].starts_with("| :--- | ---: | ---: |"), "{}", said.out);
    assert_eq!(trainyard(&["sim", &path, "--markdown", "--json"]).code, 2);
}

#[test]
fn the_table_and_the_digests_go_to_stdout_and_nothing_else_does() {
    let path = scenario("table", SMALL);
    let said = trainyard(&["sim", &path]);
    assert_eq!(said.code, 0, "{}", said.err);
    let digests: Vec<&str> = said.out.lines().filter(|line| line.contains("digest=")).collect();
    assert_eq!(digests.len(), 2, "{}", said.out);
    assert!(digests[0].starts_with("sync: digest=") && digests[1].starts_with("async: digest="));
    assert!(!said.err.contains("digest="), "{}", said.err);
}

#[test]
fn logs_go_to_stderr() {
    let path = scenario("logs", SMALL);
    let said = trainyard(&["sim", &path, "--json", "-vvv", "--set", "stop.steps=1"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("run_step"), "{}", said.err);
    serde_json::from_str::<serde_json::Value>(&said.out).expect("stdout is JSON alone");
}

#[test]
fn json_has_the_keys_that_were_agreed_on() {
    let path = scenario("json", SMALL);
    let said = trainyard(&["sim", &path, "--json"]);
    let result: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&result["scenario"], &result["seed"]), (&"small".into(), &3.into()));
    assert_eq!(result["world"], "simulation");
    let run = &result["runs"][1];
    assert_eq!((&run["name"], &run["mode"]), (&"async".into(), &"async".into()));
    let keys = "global_steps samples seconds wall_seconds steps_per_second samples_per_second \
                step_seconds final_loss test_accuracy seconds_to_target staleness gradients \
                bytes_sent step_bytes_sent waiting_seconds events digest weights_digest";
    for key in keys.split_whitespace() {
        assert!(run.get(key).is_some(), "no `{key}`");
    }
    for key in ["mean", "p10", "p50", "p90", "p99"] {
        assert!(run["step_seconds"][key].as_f64().unwrap() > 0.0, "{key}");
    }
    assert_eq!(run["gradients"]["computed"], run["gradients"]["applied"]);
    assert!(run["bytes_sent"]["ps:0"].as_u64().unwrap() > 0);
    assert!(run["staleness"]["mean"].as_f64().unwrap() > 0.0);
}

#[test]
fn seeds_are_runs_of_their_own_and_one_row_with_its_uncertainty() {
    let path = scenario("seeds", SMALL);
    let said = trainyard(&["sim", &path, "--seeds", "3", "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let result: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let runs = result["runs"].as_array().unwrap();
    let names: Vec<_> = runs.iter().map(|run| run["name"].as_str().unwrap()).collect();
    let of = |seed| ["sync", "async"].map(|run| format!("{run} (seed={seed})"));
    assert_eq!(names, [3, 4, 5].map(of).concat());
    assert_eq!((&runs[3]["run"], &runs[3]["seed"]), (&"async".into(), &4.into()));
    assert_ne!(runs[0]["weights_digest"], runs[2]["weights_digest"]);
    let alone = trainyard(&["sim", &path, "--seed", "4", "--json"]);
    let alone: serde_json::Value = serde_json::from_str(&alone.out).unwrap();
    assert_eq!(runs[3]["digest"], alone["runs"][1]["digest"], "as if it were the only one");
    let loss = &result["summaries"][0]["final_loss"];
    assert_eq!(loss["values"], 3);
    assert!(loss["low"].as_f64() < loss["mean"].as_f64());
    let table = trainyard(&["sim", &path, "--seeds", "3"]).out;
    let rows: Vec<&str> = table.lines().filter(|line| line.contains(" ± ")).collect();
    assert_eq!(rows.len(), 2, "{table}");
}

#[test]
fn out_gets_the_result_and_a_row_and_events_for_each_step() {
    let path = scenario("out", SMALL);
    let out = folder("out_files").join("new").join("folder");
    let said = trainyard(&["sim", &path, "--json", "--out", out.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(fs::read_to_string(out.join("result.json")).unwrap(), said.out);
    let rows = fs::read_to_string(out.join("steps.csv")).unwrap();
    let count = |run: &str| rows.lines().filter(|row| row.starts_with(run)).count();
    assert_eq!(count("sync,"), 40, "2 workers of 20 steps");
    assert!((20..=21).contains(&count("async,")), "20 steps, and what the other worker had begun");
    let events =
        fs::read(out.join("events/async/events.out.tfevents.0000000000.trainyard")).unwrap();
    let has = |tag: &[u8]| events.windows(tag.len()).any(|window| window == tag);
    assert!(has(b"loss/worker:1") && has(b"staleness/worker:0"));
}

#[test]
fn a_second_report_in_a_folder_leaves_nothing_of_the_first_and_the_page_draws_its_timeline() {
    let path = scenario("out_twice", SMALL);
    let out = folder("out_twice_files");
    let sim = |more: &[&str]| {
        let said = trainyard(&[&["sim", &path, "--out", out.to_str().unwrap()], more].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        fs::read_to_string(out.join("report.html")).unwrap()
    };
    fs::create_dir_all(out.join("events")).unwrap();
    fs::write(out.join("events/mine.txt"), "kept").unwrap();
    let page = sim(&["--timeline", "3..5"]);
    assert!(page.contains("<h2>Timeline</h2>"));
    assert!(page.contains("<title>worker:0 waits for"), "whom its steps waited for is drawn");
    assert!(out.join("timeline-async.json").exists() && out.join("events/async").exists());
    let page = sim(&["--run", "sync"]);
    assert!(!page.contains("<h2>Timeline</h2>"));
    assert!(!out.join("timeline-async.json").exists() && !out.join("events/async").exists());
    assert!(out.join("events/sync").exists() && out.join("events/mine.txt").exists());
}

#[test]
fn a_folder_that_cannot_be_written_is_told_before_anything_runs() {
    let path = scenario("unwritable", SMALL);
    let said = trainyard(&["sim", &path, "--out", &path]);
    assert_eq!((said.code, said.out.as_str()), (9, ""), "{}", said.err);
    assert!(
        said.err.contains("cannot write") && said.err.contains("scenario.toml"),
        "{}",
        said.err
    );
}

#[test]
fn a_place_that_can_not_hold_checkpoints_is_a_mistake_and_nothing_to_start_again_for() {
    let path =
        scenario("unfit_for_checkpoints", &format!("{SMALL}[checkpoint]\nevery_steps = 5\n"));
    for place in ["/dev/null", "/proc/checkpoints"] {
        let place = format!("checkpoint.directory={place}");
        let said = trainyard(&["launch", &path, "--quiet", "--run", "sync", "--set", &place]);
        assert_eq!((said.code, &*said.out), (2, ""), "{place}: {}", said.err);
        assert!(said.err.contains("name a folder for checkpoints"), "{}", said.err);
    }
}

#[test]
fn a_launch_goes_on_from_checkpoints_and_says_so_unless_they_are_of_another_model() {
    let path = scenario("goes_on", &format!("{SMALL}[checkpoint]\nevery_steps = 5\n"));
    let folder = Path::new(&path).with_extension("folder");
    let _ = fs::remove_dir_all(&folder);
    let place = format!("checkpoint.directory={}", folder.display());
    let launch = |change: &str| {
        let set = ["--set", &place, "--set", change];
        trainyard(&[&["launch", &path, "--quiet", "--run", "sync"], &set[..]].concat())
    };
    let (first, second) = (launch("stop.steps=20"), launch("stop.steps=30"));
    assert_eq!((first.code, second.code), (0, 0), "{}{}", first.err, second.err);
    let went_on = |said: &Said| said.out.contains("went on from step 20, to which");
    assert_eq!((went_on(&first), went_on(&second)), (false, true), "{}", second.out);
    let other = launch("program.model=mlp");
    assert_eq!((other.code, &*other.out), (2, ""), "{}", other.err);
    assert!(other.err.contains("go on with the model that was saved"), "{}", other.err);
    let first = "worker:0 failed first"; // the others pass its error on, and may be gone before it
    assert!(other.err.contains(first), "{}", other.err);
}

#[test]
fn a_target_that_is_not_reached_is_exit_code_3_and_the_result_is_still_told() {
    let path = scenario("target", SMALL);
    let said = trainyard(&["sim", &path, "--set", "stop.accuracy=1.0"]);
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(said.out.contains("digest="), "{}", said.out);
    let said =
        trainyard(&["sim", &path, "--set", "stop.accuracy=0.05", "--set", "stop.evaluate_every=5"]);
    assert_eq!(said.code, 0, "{}", said.err);
}

#[test]
fn repeats_with_one_seed_are_equal_and_seeds_differ() {
    let path = scenario("repeat", SMALL);
    let said = trainyard(&["sim", &path, "--repeat", "3"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let other = trainyard(&["sim", &path, "--seed", "4"]);
    let digests = |said: &Said| said.out.lines().filter(|line| line.contains("digest=")).count();
    assert_eq!((digests(&said), digests(&other)), (2, 2));
    assert_ne!(said.out.lines().last(), other.out.lines().last());
}

#[test]
fn a_sweep_runs_each_value_and_names_it() {
    let path = scenario("sweep", SMALL);
    let said = trainyard(&[
        "sim",
        &path,
        "--json",
        "--sweep",
        "cluster.worker=1,3",
        "--set",
        "stop.steps=10",
    ]);
    let result: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let names: Vec<&str> = result["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["name"].as_str().unwrap())
        .collect();
    let expected =
        ["sync (cluster.worker=1)", "async (cluster.worker=1)", "sync (cluster.worker=3)"];
    assert_eq!(names[..3], expected);
    assert_eq!(result["runs"][2]["gradients"]["computed"], 30);
}

#[test]
fn a_key_may_be_unset_and_one_run_of_several_picked() {
    let path = scenario("unset", &format!("{SMALL}[compute]\nslow = {{ \"worker:0\" = 9 }}\n"));
    let seconds = |more: &[&str]| {
        let said = trainyard(&[&["sim", &path, "--json", "--run", "async"], more].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        let result: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        let [run] = &result["runs"].as_array().unwrap()[..] else { panic!("{}", said.out) };
        assert_eq!(run["name"], "async");
        run["seconds"].as_f64().unwrap()
    };
    assert!(seconds(&["--unset", "compute.slow"]) < seconds(&[]));
    assert_refused(&["sim", &path, "--unset", "stop.time"], &["`stop.time` is not set"]);
    assert_refused(&["sim", &path, "--run", "asinc"], &["no run `asinc`", "`sync`, `async`"]);
}

#[test]
fn a_renewed_certificate_and_its_key_take_the_place_of_the_old_ones() {
    let folder = folder("renewed");
    let certs = |args: &[&str]| {
        let said = trainyard_in(&folder, &[&["certs"], args].concat(), &[]);
        assert_eq!(said.code, 0, "{}", said.err);
        let read = |name: &str| fs::read(folder.join("certs").join(name)).ok();
        (read("ps-0.pem"), read("ps-0.key"), read("authority.pem"), said.err)
    };
    certs(&["new", "certs"]);
    let (first, first_key, authority, _) = certs(&["issue", "certs", "--task", "ps:0"]);
    let (second, second_key, still, said) =
        certs(&["renew", "certs", "--task", "ps:0", "--days", "30"]);
    assert!(first.is_some() && first != second && first_key != second_key);
    assert_eq!(authority, still);
    assert!(said.contains("tasks that run take the new ones"), "{said}");
    let again = trainyard_in(&folder, &["certs", "issue", "certs", "--task", "worker:0,ps:0"], &[]);
    assert_eq!(again.code, 2, "{}", again.err);
    assert!(again.err.contains("certs/ps-0.pem already") && again.err.contains("certs renew"));
    assert!(!folder.join("certs/worker-0.pem").exists(), "all are issued, or none");
    assert_eq!(fs::read(folder.join("certs/ps-0.pem")).ok(), second);
}

#[test]
fn a_sweep_that_is_asked_to_stop_has_all_runs_that_are_over_in_its_files() {
    let path = scenario("stopped_sweep", SMALL);
    let out = folder("stopped_sweep_files");
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    command.args(["sim", &path, "--seeds", "5000", "--quiet", "--out", out.to_str().unwrap()]);
    let running = Running::start(&mut command, Duration::from_secs(120));
    let result = out.join("result.json");
    while !result.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(300));
    running.signal("TERM");
    let said = running.end();
    assert_eq!(said.code, 143, "{}", said.err);
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&result).unwrap()).unwrap();
    let runs = report["runs"].as_array().unwrap().len();
    assert_eq!(said.err, format!("stopped: {runs} of 10000 runs are over\n"));
    assert_eq!(report["complete"], false);
}

#[test]
fn signs_that_a_terminal_obeys_are_shown_to_people_and_left_to_programs() {
    let config = r#"{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0},
                     "x\u001b]0;own\u0007": 1}"#;
    let always = ["cluster", "--color", "always"];
    let said = trainyard_in(Path::new("."), &always, &[("TF_CONFIG", config)]);
    assert!(said.err.contains("\u{1b}["), "the label is coloured: {}", said.err);
    assert!(said.err.contains(r"x\u{1b}]0;own\u{7}: unknown key"), "{}", said.err);
    let path = scenario("signs", &SMALL.replace("\"sync\"\nmode", "\"sy\\u202enc\"\nmode"));
    let table = trainyard(&["sim", &path]);
    assert!(
        table.out.contains(r"sy\u{202e}nc") && !table.out.contains('\u{202e}'),
        "{}",
        table.out
    );
    let json = trainyard(&["sim", &path, "--json"]);
    assert!(json.out.contains("\"sy\u{202e}nc\""), "{}", json.out);
}
