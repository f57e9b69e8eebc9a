//! `launch` with faults in the scenario: processes are killed, started again, and stand still.

use crate::support::binary::{Said, folder, scenario, trainyard};

/// A training of two parameter servers and two workers with checkpoints, and `faults`. It takes
/// seconds on any machine, so that all faults of the first second meet it.
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

#[test]
fn the_same_faults_in_both_worlds_leave_the_weights_of_an_undisturbed_training() {
    let faults = "{ at = '300ms', crash = 'ps:1', restart_after = '300ms' }, \
                  { at = '900ms', freeze = 'worker:1', for = '500ms' }";
    let path = training("launched_faults_sync", "sync", faults);
    let launched = launch(&path);
    for told in ["ps:1 is killed", "ps:1 is started again", "worker:1 stands still for 500ms"] {
        assert!(launched.err.contains(told), "no `{told}` in: {}", launched.err);
    }
    let undisturbed = trainyard(&["sim", &path, "--unset", "fault"]);
    assert_eq!(weights(&launched), weights(&undisturbed), "{}", launched.err);
    assert_eq!(weights(&trainyard(&["sim", &path])), weights(&undisturbed));
}

#[test]
fn disturbed_links_a_slow_process_and_a_damaged_checkpoint_leave_the_weights() {
    let faults = "{ at = '200ms', loss = ['ps:0', 'worker:1'], rate = 0.2, for = '500ms' }, \
                  { at = '400ms', slow_link = ['ps:1', 'worker:0'], factor = 20.0, for = '1s' }, \
                  { at = '600ms', partition = ['ps:0', 'worker:0'], for = '300ms' }, \
                  { at = '700ms', one_way = ['ps:1', 'worker:1'], for = '300ms' }, \
                  { at = '800ms', slow_task = 'ps:1', factor = 3.0, for = '500ms' }, \
                  { at = '900ms', torn_checkpoint = 'cut' }";
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
    let undisturbed = trainyard(&["sim", &path, "--unset", "fault"]);
    assert_eq!(weights(&launched), weights(&undisturbed), "{}", launched.err);
}

#[test]
fn a_worker_that_is_killed_for_good_is_missed_and_a_chief_that_is_leaves_no_result() {
    let of = |task: &str| {
        let faults = format!(
            "{{ at = '300ms', crash = '{task}' }}, \
             {{ at = '400ms', full_disk = true, for = '1s' }}"
        );
        let test = format!("launched_faults_{}", task.replace(':', "_"));
        launch(&training(&test, "async", &faults))
    };
    let missed = of("worker:1");
    assert_eq!(missed.code, 0, "{}", missed.err);
    assert!(missed.err.contains("left out"), "of a full disk: {}", missed.err);
    let without_chief = of("worker:0");
    assert_eq!((without_chief.code, &*without_chief.out), (138, ""), "{}", without_chief.err);
    assert!(without_chief.err.contains("it was killed by signal 9"), "{}", without_chief.err);
}
