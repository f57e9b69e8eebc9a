//! `launch`: a scenario for real, one process a task; what it prints, how it ends, and that nothing
//! stays behind.

mod restarts;
mod stops;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::binary::{OwnChild, Said, folder, scenario, temporary, trainyard};
use crate::support::digit_files::write_digits;

/// No launch of these takes this long, unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);

fn small(mode: &str, stop: &str) -> String {
    format!(
        "name = 'small'\nseed = 3\n[cluster]\nps = 2\nworker = 3\n[program]\nmodel = 'softmax'\n\
         batch = 8\n\
         [stop]\n{stop}\n[[run]]\nname = 'only'\nmode = {mode}\n"
    )
}

/// A scenario that goes on until it is stopped.
fn endless(mode: &str) -> String {
    small(mode, "time = '10min'\nsteps = 100000000")
}

/// A `launch` under way; it does not outlive its test.
struct Launch {
    child: OwnChild,
    scenario: String,
    temporary: TempDir,
}

impl Launch {
    fn start(scenario: &str, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
        command.args(["launch", scenario]).args(more).env_remove("TF_CONFIG");
        // For what a launcher that is killed can't remove.
        let temporary = temporary();
        command.env("TMPDIR", temporary.path());
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { child: OwnChild::spawn(command), scenario: scenario.to_owned(), temporary }
    }

    /// Waits for its end; it fails the test where that does not come.
    fn status(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < LIMIT, "the launch hangs");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for its end. Its temporary files, such as logs, are there until the launch is dropped.
    fn end(&mut self) -> Said {
        let code = self.status().code().expect("it was not killed");
        let read = |from: &mut dyn std::io::Read| {
            let mut text = String::new();
            from.read_to_string(&mut text).unwrap();
            text
        };
        let out = read(self.child.stdout.as_mut().unwrap());
        Said { code, out, err: read(self.child.stderr.as_mut().unwrap()) }
    }

    /// Waits until `count` tasks train.
    fn wait_for_tasks(&mut self, count: usize) {
        self.wait_for_processes(count);
        thread::sleep(Duration::from_millis(500)); // and train
    }

    /// Waits until the processes of `count` tasks have been started.
    fn wait_for_processes(&mut self, count: usize) {
        let began = Instant::now();
        while tasks(&self.scenario).len() < count {
            assert_eq!(self.child.try_wait().unwrap(), None, "the launch has ended");
            assert!(began.elapsed() < LIMIT, "the tasks do not start");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Waits until there is a checkpoint in `saved`, and some steps have been taken after it.
fn wait_for_a_checkpoint(saved: &Path) {
    let began = Instant::now();
    while checkpoints(saved).is_empty() {
        assert!(began.elapsed() < LIMIT, "there is no checkpoint of the beginning");
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_millis(500));
}

/// The processes that run a task of `scenario`, and the role of each.
fn tasks(scenario: &str) -> Vec<(u32, String)> {
    let process = |pid: u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
        let is_ours =
            words.get(1) == Some(&&b"task"[..]) && words.get(2) == Some(&scenario.as_bytes());
        let variables = fs::read(format!("/proc/{pid}/environ")).ok().filter(|_| is_ours)?;
        let config =
            variables.split(|byte| *byte == 0).find_map(|text| text.strip_prefix(b"TF_CONFIG="))?;
        let config: Value = serde_json::from_slice(config).ok()?;
        Some((pid, format!("{}:{}", config["task"]["type"].as_str()?, config["task"]["index"])))
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| process(entry.file_name().to_str()?.parse().ok()?)).collect()
}

#[track_caller]
fn assert_nothing_stays(scenario: &str) {
    let began = Instant::now();
    while !tasks(scenario).is_empty() {
        assert!(began.elapsed() < LIMIT, "{:?} stay behind", tasks(scenario));
        thread::sleep(Duration::from_millis(20));
    }
}

fn send(signal: &str, pid: u32) {
    assert!(
        Command::new("sh")
            .args(["-c", &format!("kill -{signal} {pid}")])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn a_launch_trains_and_synchronous_weights_are_those_of_the_simulation_to_the_last_bit() {
    let path = scenario("launch_sync", &small("'sync'", "steps = 40"));
    let out = folder("launch_sync_out");
    let said = Launch::start(&path, &["--out", out.to_str().unwrap()]).end();
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.out.contains(
            "small, seed 3, softmax, 650 parameters: deployment, seconds of the wall clock"
        ),
        "{}",
        said.out
    );
    assert_nothing_stays(&path);

    let simulated = trainyard(&["sim", &path]);
    let weights =
        |out: &str| out.split("weights=").nth(1).map(|rest| rest.trim().to_owned()).unwrap();
    assert_eq!(weights(&said.out), weights(&simulated.out));

    let result: Value =
        serde_json::from_slice(&fs::read(out.join("result.json")).unwrap()).unwrap();
    let run = &result["runs"][0];
    assert_eq!(
        (&result["world"], &run["global_steps"]),
        (&Value::from("deployment"), &Value::from(40))
    );
    assert_eq!(
        run["gradients"]["applied"], 120,
        "three workers' gradients are in each of 40 updates"
    );
    assert_eq!(run["bytes_sent"].as_object().unwrap().len(), 5);
    assert!(run["test_accuracy"].is_number() && run["final_loss"].is_number(), "{run}");
    assert_eq!(fs::read_to_string(out.join("steps.csv")).unwrap().lines().count(), 121);
    assert!(out.join("logs/worker-2.log").exists());
}

#[test]
fn every_run_of_a_scenario_is_launched_and_compared() {
    let text = small("'async'", "steps = 60")
        + "[[run]]\nname = 'ssp'\nmode = { bounded_staleness = { slack = 2 } }\n";
    let path = scenario("launch_both", &text);
    let said = Launch::start(&path, &["--json"]).end();
    assert_eq!(said.code, 0, "{}", said.err);
    let result: Value = serde_json::from_str(&said.out).unwrap();
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(
        runs.iter().map(|run| run["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["only", "ssp"]
    );
    assert!(runs.iter().all(|run| run["global_steps"].as_u64().unwrap() >= 60), "{result}");
    assert_nothing_stays(&path);
}

#[cfg(target_os = "linux")]
#[test]
fn a_scenario_and_tapes_are_where_they_are_said_to_be_even_if_their_names_are_not_utf_8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = folder("launch_names").join(OsStr::from_bytes(b"n\xff"));
    fs::create_dir(&folder).unwrap();
    let (path, tapes) = (folder.join("scenario.toml"), folder.join("tapes"));
    fs::write(&path, small("'async'", "steps = 20")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    command.arg("launch").arg(&path).arg("--record").arg(&tapes).env_remove("TF_CONFIG");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_dir(tapes.join("only")).unwrap().count(), 5, "one of each task");
}

#[test]
fn a_task_that_is_killed_is_named_as_the_root_cause_and_the_others_are_stopped() {
    let path = scenario("launch_killed", &endless("'sync'"));
    let mut launch = Launch::start(&path, &[]);
    launch.wait_for_tasks(5);
    let (victim, _) = tasks(&path).into_iter().find(|(_, role)| role == "worker:1").unwrap();
    send("KILL", victim);
    let said = launch.end();
    assert_eq!(said.code, 138, "{}", said.err);
    let why =
        "worker:1 failed first: it was killed by signal 9; `--max-restarts N` starts it again";
    assert!(said.err.contains(why), "{}", said.err);
    let log = said.err.split("its log: ").nth(1).map(|rest| PathBuf::from(rest.trim())).unwrap();
    assert!(log.exists(), "{}", log.display());
    assert_nothing_stays(&path);
}

#[test]
fn a_launch_that_fails_keeps_no_other_run_from_being_launched_and_the_code_is_its_own() {
    let text =
        endless("'async'") + "[[run]]\nname = 'next'\nmode = 'sync'\nset = { stop.steps = 20 }\n";
    let path = scenario("launch_fails_first", &text);
    let mut launch = Launch::start(&path, &["--json"]);
    launch.wait_for_tasks(5);
    let (victim, _) = tasks(&path).into_iter().find(|(_, role)| role == "ps:0").unwrap();
    send("KILL", victim);
    let said = launch.end();
    assert_eq!(said.code, 138, "{}", said.err);
    for told in ["1 of 2 runs are over", "run `only`: ps:0 failed first"] {
        assert!(said.err.contains(told), "no `{told}` in: {}", said.err);
    }
    let result: Value = serde_json::from_str(&said.out).unwrap();
    let runs = result["runs"].as_array().unwrap();
    assert!(runs.len() == 1 && runs[0]["name"] == "next", "{result}");
    assert_eq!(runs[0]["global_steps"], 20, "{result}");
    assert_nothing_stays(&path);
}

#[test]
fn a_task_that_stands_still_is_given_up_and_named_as_the_root_cause() {
    let is_given_up = |stopped: &str| {
        let text = endless("'async'") + "[network]\nrecovery = '3s'\n";
        let path = scenario(&format!("launch_still_{}", stopped.replace(':', "_")), &text);
        let mut launch = Launch::start(&path, &[]);
        launch.wait_for_tasks(5);
        let (victim, _) = tasks(&path).into_iter().find(|(_, role)| role == stopped).unwrap();
        send("STOP", victim);
        let said = launch.end();
        assert_eq!(said.code, 138, "{}", said.err);
        let still =
            format!("{stopped} failed first: it was killed after it had given no sign of life");
        assert!(said.err.contains(&still), "{}", said.err);
        assert_nothing_stays(&path);
    };
    thread::scope(|scope| {
        scope.spawn(|| is_given_up("worker:0"));
        scope.spawn(|| is_given_up("ps:1"));
    });
}

#[test]
fn a_worker_that_stands_still_until_the_chief_is_done_does_not_cost_the_result() {
    let text = small("'async'", "time = '4s'\nsteps = 100000000")
        + "[network]\nsilence = '1s'\nrecovery = '10s'\n";
    let path = scenario("launch_missed", &text);
    let mut launch = Launch::start(&path, &[]);
    launch.wait_for_tasks(5);
    let (victim, _) = tasks(&path).into_iter().find(|(_, role)| role == "worker:1").unwrap();
    send("STOP", victim);
    let said = launch.end();
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("weights="), "{}", said.out);
    assert_nothing_stays(&path);
}

#[test]
fn a_launcher_that_is_asked_to_stop_leaves_no_process_and_says_so_by_its_code() {
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let path = scenario(&format!("launch_{signal}"), &endless("'async'"));
        let mut launch = Launch::start(&path, &[]);
        launch.wait_for_tasks(5);
        send(signal, launch.child.id());
        let said = launch.end();
        assert_eq!(said.code, code, "{}", said.err);
        assert_nothing_stays(&path);
    }
}

#[test]
fn a_launcher_that_is_killed_leaves_no_process() {
    let path = scenario("launch_gone", &endless("'sync'"));
    let mut launch = Launch::start(&path, &[]);
    launch.wait_for_tasks(5);
    launch.child.kill().unwrap();
    launch.status();
    assert_nothing_stays(&path);
}

/// The steps of the checkpoints in `folder`.
fn checkpoints(folder: &Path) -> Vec<u64> {
    let files = fs::read_dir(folder.join("only")).into_iter().flatten().flatten();
    let step =
        |name: &str| name.strip_prefix("model.ckpt-")?.strip_suffix(".index.json")?.parse().ok();
    let mut steps: Vec<u64> = files.filter_map(|file| step(file.file_name().to_str()?)).collect();
    steps.sort_unstable();
    steps
}

/// Starts a launch of `path`, and kills all its processes once checkpoints in `saved` have come to
/// the step `until`.
fn kill_at(path: &str, saved: &Path, until: u64) {
    let newest = || checkpoints(saved).last().copied().unwrap_or(0);
    let mut launch = Launch::start(path, &[]);
    let began = Instant::now();
    while newest() < until {
        assert_eq!(launch.child.try_wait().unwrap(), None, "the launch has ended");
        assert!(began.elapsed() < LIMIT, "the newest checkpoint is of step {}", newest());
        thread::sleep(Duration::from_millis(5));
    }
    // All at once, the chief first: nobody has time to end in good order.
    let mut all = tasks(path);
    all.sort_by_key(|(_, role)| role != "worker:0");
    let all: Vec<String> = all.into_iter().map(|(pid, _)| pid.to_string()).collect();
    assert!(Command::new("kill").arg("-KILL").args(all).status().unwrap().success());
    launch.child.kill().unwrap();
    launch.status();
    assert_nothing_stays(path);
}

#[test]
fn a_synchronous_launch_killed_again_and_again_comes_to_the_weights_of_the_simulation() {
    let saved = folder("launch_resumed_checkpoints");
    let directory = saved.to_str().unwrap();
    let text = small("'sync'", "steps = 600")
        + &format!("[checkpoint]\nevery_steps = 20\ndirectory = '{directory}'\n");
    let path = scenario("launch_resumed", &text);
    let newest = || checkpoints(&saved).last().copied().unwrap_or(0);
    for until in [1, 150, 350] {
        kill_at(&path, &saved, until);
    }
    let reached = newest();
    assert!((350..600).contains(&reached), "killed at step {reached}");
    let said = Launch::start(&path, &["--json"]).end();
    assert_eq!(said.code, 0, "{}", said.err);
    let result: Value = serde_json::from_str(&said.out).unwrap();
    let simulated: Value = serde_json::from_str(&trainyard(&["sim", &path, "--json"]).out).unwrap();
    assert_eq!(result["runs"][0]["weights_digest"], simulated["runs"][0]["weights_digest"]);
    let computed = result["runs"][0]["gradients"]["computed"].as_u64().unwrap();
    assert_eq!(
        computed,
        3 * (600 - reached),
        "the last launch took the steps after its checkpoint alone"
    );
    assert_eq!(newest(), 600);
}

#[test]
fn a_killed_launch_on_streamed_files_comes_to_the_weights_of_the_simulation() {
    let (saved, data) = (folder("launch_streamed_checkpoints"), folder("launch_streamed_data"));
    write_digits(&data, 3);
    let (directory, data) = (saved.to_str().unwrap(), data.to_str().unwrap());
    let dataset = format!(
        "batch = 8\ndataset = {{ tfrecord = '{data}/train-*', test = '{data}/test.tfrecord', \
         features = 'x', label = 'y', shape = [64], classes = 10, shuffle = 64 }}"
    );
    let text = small("'sync'", "steps = 400").replace("batch = 8", &dataset)
        + &format!("[checkpoint]\nevery_steps = 20\ndirectory = '{directory}'\n");
    let path = scenario("launch_streamed", &text);
    kill_at(&path, &saved, 120);
    let said = Launch::start(&path, &["--json"]).end();
    assert_eq!(said.code, 0, "{}", said.err);
    let result: Value = serde_json::from_str(&said.out).unwrap();
    let simulated: Value = serde_json::from_str(&trainyard(&["sim", &path, "--json"]).out).unwrap();
    let (launched, simulated) = (&result["runs"][0], &simulated["runs"][0]);
    assert!(launched["gradients"]["computed"].as_u64().unwrap() < 3 * 300, "it was restored");
    assert_eq!(launched["weights_digest"], simulated["weights_digest"]);
    assert_eq!(launched["test_accuracy"], simulated["test_accuracy"]);
}

#[test]
fn a_launch_that_is_asked_to_stop_saves_its_last_step_and_reports_what_it_had_come_to() {
    let saved = folder("launch_stopped_checkpoints");
    let directory = saved.to_str().unwrap();
    let text =
        endless("'async'") + &format!("[checkpoint]\nevery = '1h'\ndirectory = '{directory}'\n");
    let path = scenario("launch_stopped", &text);
    let out = folder("launch_stopped_results");
    let mut launch = Launch::start(&path, &["--out", out.to_str().unwrap()]);
    launch.wait_for_tasks(5);
    wait_for_a_checkpoint(&saved);
    send("TERM", launch.child.id());
    let said = launch.end();
    assert_eq!(said.code, 143, "{}", said.err);
    let steps = checkpoints(&saved);
    assert!(
        steps.len() == 2 && steps[1] > steps[0],
        "one of the beginning, one of the end: {steps:?}"
    );
    assert!(said.err.contains("stopped: 0 of 1 run is over"), "{}", said.err);
    assert!(said.out.contains("only is not finished: it stopped at step "), "{}", said.out);
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let result: Value = serde_json::from_str(&read("result.json")).unwrap();
    assert_eq!(
        (&result["complete"], result["runs"][0]["end"].as_str()),
        (&false.into(), Some("unfinished"))
    );
    assert!(read("steps.csv").lines().count() > 1, "a row is a step");
    let verified = trainyard(&["checkpoint", "verify", saved.join("only").to_str().unwrap()]);
    assert_eq!(verified.code, 0, "{}", verified.err);
}

#[test]
fn large_tensors_that_go_over_lanes_change_nothing_of_what_is_learnt() {
    let wide = small("'sync'", "steps = 6").replace("'softmax'", "'mlp'\nhidden = [512, 512]");
    let path = scenario("lanes", &wide);
    let digest = |args: &[&str]| {
        let said = trainyard(&[args, &[&path, "--json"]].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        let result: Value = serde_json::from_str(&said.out).unwrap();
        result["runs"][0]["weights_digest"].as_str().expect("a digest").to_owned()
    };
    let out = folder("lanes_out");
    let launched = digest(&["launch", "--lanes", "2", "-vv", "--out", out.to_str().unwrap()]);
    assert_eq!(launched, digest(&["sim"]));
    let log = fs::read_to_string(out.join("logs/worker-0.log")).unwrap();
    assert!(log.contains("lanes are open"), "{log}");
}
