//! Flags of all commands: from the environment, in shells and the manual; what a stopped command
//! shows.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::binary::{Running, Said, folder, scenario, trainyard, trainyard_in};

const SMALL: &str = "name = 'small'\nseed = 3\n[cluster]\nps = 1\nworker = 2\n[program]\n\
                     model = 'softmax'\nbatch = 8\n[stop]\nsteps = 20\n";

/// No command of these takes this long, unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);

fn json(out: &str) -> Value {
    serde_json::from_str(out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

#[test]
fn a_flag_may_come_from_the_environment_and_the_command_line_wins() {
    let path = scenario("variables", SMALL);
    let variables = [("TRAINYARD_SEED", "8"), ("TRAINYARD_JSON", "true")];
    let seed = |args: &[&str]| {
        let said = trainyard_in(Path::new("."), args, &variables);
        assert_eq!(said.code, 0, "{}", said.err);
        json(&said.out)["seed"].as_u64()
    };
    assert_eq!(seed(&["sim", &path]), Some(8));
    assert_eq!(seed(&["sim", &path, "--seed", "9"]), Some(9));
}

#[test]
fn a_printed_scenario_gives_the_run_that_its_changes_give() {
    let path = scenario("printed", SMALL);
    let changes = ["--set", "program.batch=4", "--unset", "seed", "--seed", "5"];
    let printed = trainyard(&[&["sim", &path, "--print-config"], &changes[..]].concat());
    assert_eq!(printed.code, 0, "{}", printed.err);
    let copy = scenario("printed_again", &printed.out);
    let changed = trainyard(&[&["sim", &path], &changes[..]].concat());
    assert_eq!(trainyard(&["sim", &copy]).out, changed.out);
}

#[test]
fn the_first_scenario_is_written_once_and_is_right() {
    let place = folder("first_scenario");
    assert_eq!(trainyard_in(&place, &["init", "here"], &[]).code, 0);
    let text = fs::read_to_string(place.join("here/scenario.toml")).unwrap();
    assert!(text.contains("#     trainyard sim here/scenario.toml\n"), "{text}");
    assert!(text.contains("\nname = \"here\"\n"), "{text}");
    let said = trainyard_in(&place, &["sim", "here/scenario.toml", "--set", "stop.steps=2"], &[]);
    assert_eq!(said.code, 3, "{}", said.err); // its accuracy is not reached in two steps
    fs::write(place.join("here/scenario.toml"), "mine").unwrap();
    assert_eq!(trainyard_in(&place, &["init", "here"], &[]).code, 9);
    assert_eq!(fs::read_to_string(place.join("here/scenario.toml")).unwrap(), "mine");
}

#[test]
fn shells_and_the_manual_know_the_flags() {
    let script = trainyard(&["completions", "bash"]);
    assert!(script.code == 0 && script.out.contains("--print-config"), "{}", script.err);
    let place = folder("manual");
    let said = trainyard_in(&place, &["man"], &[]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert!(said.out.contains(".TH trainyard 1"), "{}", said.out);
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "nobody has named a folder");
    let said = trainyard_in(&place, &["man", "."], &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains(" pages of the manual are in ."), "{}", said.err);
    let page = fs::read_to_string(place.join("trainyard-sim.1")).unwrap();
    assert!(page.contains("print\\-config"), "{page}");
}

#[test]
fn quiet_says_nothing_of_a_training_that_goes_well() {
    let path = scenario("quiet", SMALL);
    let said = trainyard(&["sim", &path, "--quiet"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert!(said.out.contains("small, seed 3"));
}

#[test]
fn a_simulation_says_that_it_leaves_no_checkpoints_in_a_folder_that_is_named_for_them() {
    let path = scenario("no_checkpoints", SMALL);
    let said = |set: &[&str]| {
        let said = trainyard(&[&["sim", &path], set].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        said.err.contains("a simulation leaves no checkpoints there; `launch` does")
    };
    let folder = folder("no_checkpoints_saved").join("saved");
    let named = format!("checkpoint.directory={}", folder.display());
    assert!(said(&["--set", &named]) && !folder.exists());
    assert!(!said(&["--set", &named, "--quiet"]), "it is not quiet");
    assert!(!said(&["--set", "checkpoint.every_steps=5"]), "there is no folder");
    let evaluates = ["--set", &named, "--set", "cluster.evaluator=1"];
    assert!(!said(&evaluates), "an evaluator needs that one is named");
}

#[test]
fn the_cluster_and_a_placed_graph_are_there_as_json() {
    let flags = ["--ps_hosts=a:1", "--worker_hosts=b:1,c:1", "--job_name=worker"];
    let found = json(&trainyard(&[&["cluster", "--json"], &flags[..]].concat()).out);
    assert_eq!(found["task"], "worker:0");
    assert_eq!(found["tasks"]["worker:1"], "c:1");
    let path = scenario("graph_as_json", SMALL);
    let drawn = json(&trainyard(&["graph", "show", &path, "--json"]).out);
    let tasks = drawn["tasks"].as_array().unwrap().iter().map(|part| &part["task"]);
    assert_eq!(tasks.collect::<Vec<_>>(), ["ps:0", "worker:0"]);
    assert!(!drawn["between_tasks"].as_array().unwrap().is_empty());
}

/// What a simulation says that writes into `out`, and is stopped once `file` is there.
fn stopped(path: &str, out: &Path, file: &str) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    command.args(["sim", path, "--out"]).arg(out);
    let (running, began) = (Running::start(&mut command, LIMIT), Instant::now());
    while !out.join(file).exists() {
        assert!(began.elapsed() < LIMIT, "there is no {file}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let kill = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(kill.success());
    running.end()
}

#[test]
fn a_simulation_that_is_stopped_shows_the_runs_that_are_over() {
    let endless = "[[run]]\nname = 'short'\nmode = 'async'\n[[run]]\nname = 'endless'\n\
                   mode = 'async'\nset = { stop.steps = 1000000000 }\n";
    let path = scenario("stopped", &format!("{SMALL}{endless}"));
    let said = stopped(&path, &folder("stopped_results"), "result.json");
    assert_eq!(said.code, 130, "{}", said.err);
    assert!(said.err.contains("1 of 2 runs are over"), "{}", said.err);
    assert!(said.out.contains("\nshort "), "{}", said.out);
}

#[test]
fn a_simulation_that_is_stopped_before_a_run_is_over_leaves_no_files() {
    let endless = "[[run]]\nmode = 'async'\nset = { stop.steps = 1000000000 }\n";
    let path = scenario("stopped_early", &format!("{SMALL}{endless}"));
    let out = folder("stopped_early_results");
    let said = stopped(&path, &out, "evaluations.csv");
    assert_eq!(said.code, 130, "{}", said.err);
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "{}", said.err);
}

#[cfg(target_os = "linux")]
#[test]
fn launch_runs_each_value_of_a_sweep_with_each_seed() {
    let path = scenario("launched_sweep", SMALL);
    let variants = ["--sweep", "program.batch=4,8", "--seeds", "2", "--seed", "6"];
    let said = trainyard(&[&["launch", &path, "--json"], &variants[..]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let runs = json(&said.out)["runs"].as_array().unwrap().clone();
    let seeds: Vec<_> = runs.iter().map(|run| run["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, [6, 7, 6, 7]);
    let weights: Vec<_> = runs.iter().map(|run| run["weights_digest"].as_str().unwrap()).collect();
    let distinct = weights.iter().collect::<std::collections::BTreeSet<_>>().len();
    assert_eq!(distinct, 4, "{weights:?}");
}
