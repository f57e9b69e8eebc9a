//! `launch --record` and `sim --replay`: what a deployment did, a simulation does again.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::binary::{Said, folder, scenario, trainyard};

/// A scenario of two parameter servers and two workers, with `more` in it.
fn training(test: &str, mode: &str, more: &str) -> String {
    let text = format!(
        "name = 'replays'\nseed = 3\n{more}\n[cluster]\nps = 2\nworker = 2\n[program]\n\
         model = 'softmax'\nbatch = 8\noptimizer = {{ rule = 'adagrad', learning_rate = 0.05 }}\n\
         [stop]\nsteps = 200\n[[run]]\nname = 'only'\nmode = {mode}\n"
    );
    scenario(test, &text)
}

/// A deployment, and its replay.
struct Both {
    scenario: String,
    tapes: PathBuf,
    launched: Said,
    replayed: Said,
    results: [PathBuf; 2],
}

/// Launches a scenario and replays its tapes.
fn both(test: &str, scenario: String) -> Both {
    let results = ["launched", "replayed"].map(|world| folder(&format!("{test}_{world}")));
    let tapes = folder(&format!("{test}_tapes"));
    let [launched, replayed] = results.each_ref().map(|out| out.to_str().unwrap());
    let record = ["launch", &scenario, "--quiet", "--record", path(&tapes), "--out", launched];
    let launched = trainyard(&record);
    assert_eq!(launched.code, 0, "{}", launched.err);
    let replay = ["sim", &scenario, "--quiet", "--replay", path(&tapes), "--out", replayed];
    let replayed = trainyard(&replay);
    assert_eq!(replayed.code, 0, "{}", replayed.err);
    Both { scenario, tapes, launched, replayed, results }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn weights(said: &Said) -> &str {
    said.out.split("weights=").nth(1).unwrap().trim()
}

/// A column of `steps.csv`.
fn column(out: &Path, name: &str) -> Vec<String> {
    let text = fs::read_to_string(out.join("steps.csv")).unwrap();
    let at = text.lines().next().unwrap().split(',').position(|column| column == name).unwrap();
    text.lines().skip(1).map(|row| row.split(',').nth(at).unwrap().to_owned()).collect()
}

/// Each step of each worker: its numbers, its loss and its staleness.
fn steps(out: &Path) -> Vec<String> {
    let names = ["worker", "local_step", "global_step", "loss", "staleness"];
    let columns = names.map(|name| column(out, name));
    let step = |at: usize| columns.each_ref().map(|column| &*column[at]).join(" ");
    let mut steps: Vec<String> = (0..columns[0].len()).map(step).collect();
    steps.sort();
    steps
}

impl Both {
    fn assert_same(&self) {
        assert_eq!(weights(&self.launched), weights(&self.replayed));
        let [launched, replayed] = self.results.each_ref().map(|out| steps(out));
        assert!(launched.len() >= 30);
        assert_eq!(launched, replayed);
    }
}

#[test]
fn a_replay_ends_with_the_weights_and_the_staleness_of_each_gradient_of_its_deployment() {
    let modes =
        ["'async'", "{ bounded_staleness = { slack = 1 } }", "{ k_batch_sync = { k = 2 } }"];
    for (number, mode) in modes.into_iter().enumerate() {
        let test = format!("replays_{number}");
        let both = both(&test, training(&test, mode, ""));
        both.assert_same();
        let [launched, replayed] = both.results.each_ref().map(|out| column(out, "compute_s"));
        assert!(launched.iter().any(|time| !time.is_empty()));
        assert!(replayed.iter().all(String::is_empty), "small kernels are on no tape");
    }
}

#[test]
fn large_kernels_end_in_a_replay_when_they_ended_in_the_deployment() {
    let test = "replays_large";
    let text = fs::read_to_string(training(test, "'async'", "")).unwrap();
    let text = text.replace("'softmax'\nbatch = 8", "'mlp'\nhidden = [256]\nbatch = 512");
    let text = text.replace("steps = 200", "steps = 30");
    let both = both(test, scenario(test, &text));
    both.assert_same();
    let tape = show(&both, &["--task", "worker:1", "--count", "1000"]);
    assert!(tape.contains("device CPU:0 has computed"), "{tape}");
}

#[test]
fn a_replay_loses_a_parameter_server_where_its_deployment_did() {
    // Times count from the chief's start. On a busy machine it may have met nobody after the first
    // of them, and loses nobody then; the training lasts for longer there.
    for at in ["200ms", "1s", "5s"] {
        let test = format!("replays_crash_{at}");
        let saved = folder(&format!("{test}_saved"));
        let faults = format!(
            "fault = [{{ at = '{at}', crash = 'ps:1', restart_after = '300ms' }}]\n\
             network = {{ recovery = '20s' }}\n\
             checkpoint = {{ every_steps = 500, directory = '{}' }}",
            saved.display()
        );
        let text = fs::read_to_string(training(&test, "'async'", &faults)).unwrap();
        let text = text.replace("steps = 200", "steps = 8000");
        let both = both(&test, scenario(&test, &text));
        assert!(both.launched.err.contains("ps:1 is started again"), "{}", both.launched.err);
        both.assert_same();
        assert!(show(&both, &[]).contains("ps:1 life 1: began at"), "it has two lives");
        let chief = show(&both, &["--task", "worker:0", "--count", "10000"]);
        if chief.contains("ps:1 is lost: ") {
            return;
        }
    }
    panic!("the chief has lost ps:1 at no time");
}

fn show(both: &Both, more: &[&str]) -> String {
    let run = both.tapes.join("only");
    let said = trainyard(&[&["tape", "show", path(&run)], more].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    said.out
}

#[test]
fn tapes_that_are_cut_off_changed_or_of_another_scenario_are_refused_with_the_reason() {
    let test = "replays_refused";
    let Both { scenario, tapes, .. } = both(test, training(test, "'async'", ""));
    let replay =
        |more: &[&str]| trainyard(&[&["sim", &scenario, "--replay", path(&tapes)], more].concat());
    let other = replay(&["--seed", "4"]);
    assert_eq!(other.code, 2, "{}", other.err);
    assert!(other.err.contains("was recorded with the seed `3`, but this run has `4`"));
    let again = trainyard(&["launch", &scenario, "--quiet", "--record", path(&tapes)]);
    assert_eq!(again.code, 2, "{}", again.err);
    assert!(again.err.contains("has the tapes of an earlier launch"), "{}", again.err);

    let server = tapes.join("only/ps-0.0.tape");
    let whole = fs::read(&server).unwrap();
    // One of the two may end between two entries.
    let torn = [0, 1].map(|more| {
        fs::write(&server, &whole[..whole.len() / 2 + more]).unwrap();
        let torn = replay(&[]);
        assert!(torn.code == 13 && torn.err.contains("departs from its tape"), "{}", torn.err);
        torn.err.contains("is cut off")
    });
    assert_ne!(torn, [false; 2]);

    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    fs::write(&server, changed).unwrap();
    let changed = replay(&[]);
    assert_eq!(changed.code, 8, "{}", changed.err);
    fs::remove_file(&server).unwrap();
    let missing = replay(&[]);
    assert_eq!((missing.code, missing.err.contains("has no tape of ps:0")), (2, true));
}
