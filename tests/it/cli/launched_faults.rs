//! `launch` with faults in the scenario: processes are killed, started again, and stand still.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;

use serde_json::Value;

use crate::support::binary::{Said, folder, scenario, trainyard};

/// A training of two parameter servers and two workers with checkpoints, and `faults`. It takes
/// seconds on any machine, so that faults meet it after its first checkpoint and before its end.
fn training(test: &str, mode: &str, faults: &str) -> String {
    let saved = folder(&format!("{test}_saved"));
    let text = format!(
        "name = 'faults'\nseed = 3\nfault = [{faults}]\n[cluster]\nps = 2\nworker = 2\n\
         [network]\nrecovery = '20s'\n[program]\nmodel = 'softmax'\nbatch = 8\n\
         optimizer = {{ rule = 'adagrad', learning_rate = 0.05 }}\n[stop]\nsteps = 6000\n\
         [checkpoint]\nevery_steps = 200\ndirectory = '{}'\n\
         [[run]]\nname = 'only'\nmode = '{mode}'\n",
        saved.display()
    );
    scenario(test, &text)
}

fn launch(path: &str) -> Said {
    trainyard(&["launch", path, "--quiet"])
}

fn weights(said: &Said) -> String {
    assert_eq!(said.code, 0, "{}", said.err);
    said.out.split("weights=").nth(1).map(|rest| rest.trim().to_owned()).unwrap()
}

/// The weights of the synchronous training at `path` without its faults: those of any.
fn undisturbed(path: &str) -> &'static str {
    static WEIGHTS: OnceLock<String> = OnceLock::new();
    WEIGHTS.get_or_init(|| weights(&trainyard(&["sim", path, "--unset", "fault"])))
}

#[test]
fn the_same_faults_in_both_worlds_leave_the_weights_of_an_undisturbed_training() {
    let faults = "{ at = '500ms', crash = 'ps:1', restart_after = '300ms' }, \
                  { at = '1100ms', freeze = 'worker:1', for = '500ms' }";
    let path = training("launched_faults_sync", "sync", faults);
    let launched = launch(&path);
    for told in ["ps:1 is killed", "ps:1 is started again", "worker:1 stands still for 500ms"] {
        assert!(launched.err.contains(told), "no `{told}` in: {}", launched.err);
    }
    assert_eq!(weights(&launched), undisturbed(&path), "{}", launched.err);
    assert_eq!(weights(&trainyard(&["sim", &path])), undisturbed(&path));
}

#[test]
fn tasks_that_are_asked_to_stop_are_started_again_with_those_that_they_end_and_go_on() {
    let of = |test: &str, task: &str, told: &[&str]| {
        let fault = format!("{{ at = '500ms', stop = '{task}', restart_after = '100ms' }}");
        let path = training(test, "sync", &fault);
        let launched = launch(&path);
        for told in told {
            assert!(launched.err.contains(told), "no `{told}` in: {}", launched.err);
        }
        let starts = launched.err.matches("worker:1 is started again").count();
        assert_eq!(starts, 1, "{}", launched.err);
        for said in [launched, trainyard(&["sim", &path])] {
            assert_eq!(said.code, 0, "{}", said.err);
            let mut lines = said.out.lines();
            let is_whole = lines.any(|line| line.split_whitespace().any(|word| word == "6000"));
            assert!(is_whole, "{}", said.out);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            of("launched_faults_stop_worker", "worker:1", &["worker:1 is asked to stop"])
        });
        let told = [
            "ps:1 is asked to stop",
            "ps:1: it ended with exit code 143, by the fault",
            "worker:0: it ended with exit code 138, by the fault",
            "ps:0 is started again",
            "ps:1 is started again",
        ];
        of("launched_faults_stop_server", "ps:1", &told);
    });
}

#[test]
fn disturbed_links_a_slow_process_and_a_damaged_checkpoint_leave_the_weights() {
    let faults = "{ at = '200ms', loss = ['ps:0', 'worker:1'], rate = 0.2, for = '500ms' }, \
                  { at = '400ms', slow_link = ['ps:1', 'worker:0'], factor = 20.0, for = '1s' }, \
                  { at = '600ms', partition = ['ps:0', 'worker:0'], for = '300ms' }, \
                  { at = '700ms', one_way = ['ps:1', 'worker:1'], for = '300ms' }, \
                  { at = '800ms', slow_task = 'ps:1', factor = 3.0, for = '500ms' }, \
                  { at = '1500ms', torn_checkpoint = 'cut' }";
    let path = training("launched_faults_links", "sync", faults);
    let launched = launch(&path);
    for told in [
        "20 % of the packets are lost from ps:0 to worker:1, from worker:1 to ps:0 for 500ms",
        "packets take 950µs longer, at 62.5 MB/s, from ps:1 to worker:0",
        "nothing comes from ps:0 to worker:0, from worker:0 to ps:0 for 300ms",
        "nothing comes from ps:1 to worker:1 for 300ms",
        "ps:1 is slower by 3 for 500ms",
        ".safetensors is damaged",
    ] {
        assert!(launched.err.contains(told), "no `{told}` in: {}", launched.err);
    }
    assert_eq!(weights(&launched), undisturbed(&path), "{}", launched.err);
}

#[test]
fn a_worker_that_is_killed_for_good_is_missed_and_a_chief_that_is_leaves_no_result() {
    let of = |at: &str, task: &str, changes: &[&str]| {
        let faults = format!(
            "{{ at = '{at}', crash = '{task}' }}, \
             {{ at = '400ms', full_disk = true, for = '1s' }}"
        );
        let test = format!("launched_faults_{}", task.replace(':', "_"));
        let (path, silence) = (training(&test, "async", &faults), "network.silence=2s");
        trainyard(&[&["launch", &path, "--quiet", "--set", silence][..], changes].concat())
    };
    let recovery = ["--set", "network.recovery=3s"];
    let end = ["--unset", "stop.steps", "--set", "stop.time=3s"];
    let (missed, without_chief) = thread::scope(|scope| {
        let missed = scope.spawn(|| of("300ms", "worker:1", &[&end[..], &recovery].concat()));
        // The others wait five times as long for one that has never come. So they are there when
        // the launcher tells, every 10 s, who is.
        let without_chief = of("1ms", "worker:0", &recovery);
        (missed.join().unwrap(), without_chief)
    });
    assert_eq!(missed.code, 0, "{}", missed.err);
    assert!(missed.err.contains("left out"), "of a full disk: {}", missed.err);
    assert_eq!((without_chief.code, &*without_chief.out), (138, ""), "{}", without_chief.err);
    assert!(without_chief.err.contains("it was killed by signal 9"), "{}", without_chief.err);
    let waits = "the chief was killed; still there: ps:0, ps:1";
    assert!(without_chief.err.contains(waits), "{}", without_chief.err);
    let missed = "at most: parameter servers wait for worker:0, gone for good, to come back";
    assert!(without_chief.err.contains(missed), "{}", without_chief.err);
}

#[test]
fn a_worker_that_is_lost_for_good_is_named_by_the_log_and_the_rounds_without_it_are_counted() {
    let of = |test: &str, command: &str, faults: &str| {
        let (path, out) = (training(test, "sync", faults), folder(&format!("{test}_out")));
        let at = out.to_str().unwrap();
        let end = ["--unset", "stop.steps", "--set", "stop.time=10s"];
        let times = ["--set", "network.silence=2s", "--set", "network.recovery=3s"];
        // Some thousand steps are enough of a simulation.
        let law = "compute.step_time={ law = 'constant', value = '2ms' }";
        let law: &[&str] = if command == "sim" { &["--set", law] } else { &[] };
        let said = trainyard(&[&[command, &path, "--out", at][..], &end, &times, law].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        let result = fs::read_to_string(out.join("result.json")).unwrap();
        let result: Value = serde_json::from_str(&result).unwrap();
        let log = fs::read_to_string(out.join("logs/ps-0.log")).unwrap_or_default();
        (said, log, result["runs"][0]["steps_without"].clone())
    };
    let crash = "{ at = '2s', crash = 'worker:1' }";
    for (test, command) in [("lost_simulated", "sim"), ("lost_launched", "launch")] {
        let (said, log, without) = of(test, command, crash);
        let told = if command == "sim" { &said.err } else { &log };
        let lost = |line: &str| line.contains("lost a worker") && line.contains("worker:1");
        assert_eq!(told.lines().filter(|line| lost(line)).count(), 1, "{told}");
        let steps = without["worker:1"].as_u64().unwrap_or_default();
        assert!(steps > 1, "{command}: {without}");
        assert!(said.out.contains(&format!("{steps} steps without worker:1")), "{}", said.out);
    }
    let (_, _, without) = of("lost_none", "sim", "");
    assert_eq!(without.as_object().map(|tasks| tasks.len()), Some(0));
}

/// The steps in a report, by worker: the numbers of those that were applied, in their order, and of
/// the attempts that were left out.
fn steps(folder: &Path) -> BTreeMap<String, (Vec<u64>, Vec<u64>)> {
    let mut steps: BTreeMap<String, (Vec<u64>, Vec<u64>)> = BTreeMap::new();
    for row in fs::read_to_string(folder.join("steps.csv")).unwrap().lines().skip(1) {
        let row: Vec<&str> = row.split(',').collect();
        let (applied, left_out) = steps.entry(row[1].to_owned()).or_default();
        let is_applied: bool = row[8].parse().unwrap();
        let list = if is_applied { applied } else { left_out };
        list.push(row[2].parse().unwrap());
    }
    steps
}

/// The numbers of the steps of which `worker`'s log says that an attempt was left out.
fn warned_of(folder: &Path, worker: &str) -> Vec<u64> {
    let log = folder.join("logs").join(format!("{}.log", worker.replace(':', "-")));
    let log = fs::read_to_string(log).unwrap();
    let warnings = log.lines().filter(|line| line.contains("of this attempt may be left out"));
    let number = |line: &str| {
        let (_, rest) = line.split_once(" step=").unwrap();
        rest.split(' ').next().unwrap().parse().unwrap()
    };
    warnings.map(number).collect()
}

#[test]
fn of_a_server_that_stood_still_for_longer_than_its_silence_may_last_each_gradient_is_told() {
    // It lasts as long on any machine: it is not over when the server stands still.
    let text = "name = 'faults'\nseed = 3\n\
                fault = [{ at = '1s', freeze = 'ps:1', for = '2s' }]\n\
                [cluster]\nps = 2\nworker = 2\n\
                [network]\nsilence = '1s'\nrecovery = '20s'\n[program]\nmodel = 'softmax'\n\
                batch = 8\noptimizer = { rule = 'adagrad', learning_rate = 0.05 }\n\
                [stop]\ntime = '5s'\n[[run]]\nname = 'only'\nmode = 'sync'\n";
    let path = scenario("launched_faults_silence", text);
    let out = folder("launched_faults_silence_out");
    let said = trainyard(&["launch", &path, "--quiet", "--out", out.to_str().unwrap()]);
    assert!(said.err.contains("ps:1 stands still for 2s"), "{}", said.err);
    let report: Value =
        serde_json::from_str(&fs::read_to_string(out.join("result.json")).unwrap()).unwrap();
    let run = &report["runs"][0];
    let rounds = run["global_steps"].as_u64().unwrap();
    let mut left_out_of_rounds = 0;
    for (worker, (applied, left_out)) in steps(&out) {
        assert_eq!(applied, (0..rounds).collect::<Vec<_>>(), "{worker}");
        left_out_of_rounds += left_out.iter().filter(|step| **step < rounds).count();
        for step in warned_of(&out, &worker) {
            assert!(left_out.contains(&step), "{worker} has told of step {step}: {left_out:?}");
        }
    }
    let alike = format!("stop.steps={rounds}");
    let changes = ["--unset", "fault", "--unset", "stop.time", "--set", &alike];
    let undisturbed = trainyard(&[&["sim", &path, "--quiet"], &changes[..]].concat());
    let is_equal = weights(&said) == weights(&undisturbed);
    assert!(is_equal || left_out_of_rounds > 0, "other weights, and no gradient is left out");
}

#[test]
fn a_process_that_is_started_again_says_so_to_whom_its_earlier_life_had_connections_with() {
    let faults = "{ at = '2s', crash = 'ps:1', restart_after = '100ms' }";
    let path = training("launched_faults_told", "async", faults);
    let out = folder("launched_faults_told_out");
    let order = ["launch", &*path, "--out", out.to_str().unwrap(), "--unset", "stop.steps"];
    let times = ["--set", "network.silence=15s", "--set", "stop.time=5s"];
    let launched = trainyard(&[&order[..], &times].concat());
    assert_eq!(launched.code, 0, "{}", launched.err);
    let log = fs::read_to_string(out.join("logs/worker-0.log")).unwrap();
    assert!(log.contains("worker:0 lost ps:1: it has restarted"), "{log}");
}

#[test]
fn a_task_that_is_killed_and_has_nothing_left_to_do_is_not_waited_for_after_the_end() {
    // The fourth parameter server has no variable.
    let faults = "{ at = '1ms', crash = 'ps:3', restart_after = '10min' }";
    let path = training("launched_faults_idle", "async", faults);
    let set = ["--set", "cluster.ps=4", "--set", "stop.steps=400"];
    let launched = trainyard(&[&["launch", &path, "--quiet"], &set[..]].concat());
    assert_eq!(launched.code, 0, "{}", launched.err);
    assert!(launched.err.contains("ps:3 is killed"), "{}", launched.err);
    let told = "the chief is done; nothing is left to do for ps:3";
    assert!(launched.err.contains(told), "{}", launched.err);
}

#[test]
fn of_killed_processes_each_update_is_told_once_and_none_that_was_undone() {
    let faults = "{ at = '1s', crash = 'ps:1', restart_after = '1s' }, \
                  { at = '4s', crash = 'worker:1', restart_after = '100ms' }";
    let path = training("launched_faults_lives", "async", faults);
    let out = folder("launched_faults_lives_out");
    let changes = ["--unset", "stop.steps", "--set", "stop.time=8s"];
    let order = ["launch", &*path, "--quiet", "--out", out.to_str().unwrap()];
    let said = trainyard(&[&order, &changes[..]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    for told in ["ps:1 is started again", "worker:1 is started again"] {
        assert!(said.err.contains(told), "no `{told}` in: {}", said.err);
    }
    let rows = fs::read_to_string(out.join("steps.csv")).unwrap();
    let rows = rows.lines().skip(1).map(|row| row.split(',').collect::<Vec<_>>());
    let (mut updates, mut lives, mut of_worker) = (BTreeMap::new(), 0, 0);
    for row in rows {
        lives += u32::from(row[1] == "worker:1" && row[2] == "0");
        of_worker += u64::from(row[1] == "worker:1" && row[8] == "true");
        if row[8] == "true"
            && let Some(before) = updates.insert(row[3].to_owned(), row.join(","))
        {
            panic!("update {} is told twice: {before} and {}", row[3], row.join(","));
        }
    }
    assert_eq!(lives, 2, "the first steps of both lives of worker:1 are told");
    let report = fs::read_to_string(out.join("result.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let sent = report["runs"][0]["bytes_sent"]["worker:1"].as_u64().unwrap();
    let gradients = of_worker * 650 * 4; // of 64 x 10 weights and 10 biases
    assert!(sent >= gradients, "{sent} bytes sent, of which gradients are {gradients}");
}
