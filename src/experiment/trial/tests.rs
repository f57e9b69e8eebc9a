//! What becomes of runs that end in unusual ways, and when their data are loaded.

use std::collections::BTreeSet;
use std::fs;
use std::future::ready;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use super::Trial;
use crate::experiment::{Experiment, ExperimentError, check_places};
use crate::graph::{LearningRate, Schedule};
use crate::report::{Run, World};
use crate::scenario;
use crate::training::{Task, train};
use crate::units::FlopsPerSecond;

/// A training of two workers for 5 s, whose chief takes 100 s a step, with `more` keys.
fn run(more: &str) -> Result<Run, ExperimentError> {
    let text = format!(
        "{more}\n[cluster]\nps = 1\nworker = 2\n[compute]\n\
         step_time = {{ law = 'constant', value = '1s' }}\nslow = {{ 'worker:0' = 100.0 }}\n\
         [program]\nmodel = 'softmax'\nbatch = 8\n[stop]\ntime = '5s'\n\
         [[run]]\nname = 'a'\nmode = 'async'\n"
    );
    Ok(Experiment::parse(text)?.simulate(train)?.runs.remove(0))
}

#[test]
fn a_chief_whose_step_takes_longer_than_the_time_and_the_recovery_is_waited_for() {
    let run = run("").unwrap();
    assert!((100.0..102.0).contains(&run.seconds), "{}", run.seconds);
}

#[test]
fn a_chief_that_is_gone_when_the_time_is_up_ends_the_training_with_what_to_do() {
    let error = run("fault = [{ at = '2s', crash = 'worker:0' }]").unwrap_err().to_string();
    for says in ["by `stop.time`, 5s", "its chief, worker:0", "set `network.recovery`, 60s"] {
        assert!(error.contains(says), "`{error}` does not say `{says}`");
    }
}

#[test]
fn a_run_whose_chief_was_killed_or_stopped_for_good_has_no_result() {
    let text = |fault: &str, restart: &str| {
        format!(
            "fault = [{{ at = '1ms', {fault} = 'worker:0'{restart} }}]\n\
             [cluster]\nps = 1\nworker = 2\n[program]\nmodel = 'softmax'\nbatch = 8\n\
             [stop]\nsteps = 100\n[[run]]\nname = 'a'\nmode = 'async'\n"
        )
    };
    let run = |fault, restart| Experiment::parse(text(fault, restart)).unwrap().simulate(train);
    for fault in ["crash", "stop"] {
        let error = run(fault, "").unwrap_err().to_string();
        let says = "worker:0, the chief, was killed or stopped and not started again";
        assert!(error.contains(says), "{error}");
        let report = run(fault, ", restart_after = '1ms'").unwrap();
        assert!(report.runs[0].test_accuracy.is_some());
    }
}

#[test]
fn a_learning_rate_to_try_may_be_greater_than_any_integer() {
    let text = "[cluster]\nps = 1\nworker = 1\n[program]\nmodel = 'softmax'\n[stop]\nsteps = 2\n\
                [tune]\nlearning_rate = [1e20, 1e-20]\n";
    let report = Experiment::parse(text).unwrap().simulate(train).unwrap();
    assert_eq!(report.tuned[0].learning_rate, 1e-20);
}

#[test]
fn each_run_and_each_seed_has_a_folder_of_its_own() {
    let text = "seed = 7\n[cluster]\nps = 1\nworker = 2\n[program]\nmodel = 'softmax'\n\
                [[run]]\nname = 'a'\nmode = 'async'\n[[run]]\nname = 'b'\nmode = 'sync'\n";
    let folders = Mutex::new(BTreeSet::new());
    for trial in Experiment::parse(text).unwrap().seeds(2).trials().unwrap() {
        let note = |task: Task| {
            folders.lock().unwrap().insert(task.run_folder().to_owned());
            ready(Ok(()))
        };
        trial.simulate(&note).outcome.result.unwrap();
    }
    let expected = ["a-seed-7", "a-seed-8", "b-seed-7", "b-seed-8"].map(str::to_owned);
    assert_eq!(folders.into_inner().unwrap(), BTreeSet::from(expected));
}

/// A scenario of two steps with `learning_rate`, which is tuned.
fn tuning(learning_rate: &str) -> Experiment {
    let text = format!(
        "[cluster]\nps = 1\nworker = 1\n[program]\nmodel = 'softmax'\n\
         [program.optimizer]\nlearning_rate = {learning_rate}\n[stop]\nsteps = 2\n\
         [tune]\nlearning_rate = [0.1, 0.2]\n"
    );
    Experiment::parse(text).unwrap()
}

#[test]
fn a_tuned_schedule_keeps_its_shape_and_its_warm_up() {
    let schedule = "{ schedule = 'cosine', initial = 9.0, decay_steps = 7, warmup_steps = 3 }";
    let (tuned, is_tuned) = tuning(schedule).tuned().unwrap();
    assert!(is_tuned);
    let rates: Vec<_> = tuned
        .scenarios()
        .unwrap()
        .into_iter()
        .map(|(_, scenario)| scenario.settings.optimizer.learning_rate)
        .collect();
    let expected = [0.1, 0.2].map(|initial| {
        let schedule = Schedule::CosineDecay { initial, decay_steps: 7, alpha: 0.0 };
        LearningRate::from(schedule).warmup_steps(3)
    });
    assert_eq!(rates, expected);
}

#[test]
fn what_has_no_one_rate_to_tune_is_refused_with_what_to_do() {
    let pieces = "{ schedule = 'piecewise_constant', boundaries = [5], values = [0.1, 0.01] }";
    let error = |experiment: Experiment| experiment.tuned().err().unwrap().to_string();
    let text = error(tuning(pieces));
    assert!(text.contains("`--unset tune`") && text.contains("--sweep"), "{text}");
    let cosine = "{ schedule = 'cosine', initial = 0.5, decay_steps = 7 }";
    let both = format!("program.optimizer.learning_rate={cosine},0.1");
    let text = error(tuning("0.3").sweep(&both).unwrap());
    assert!(text.contains("tune these apart"), "{text}");
    let swept = "program.optimizer.learning_rate.initial=0.1,0.2";
    let text = error(tuning(cosine).sweep(swept).unwrap());
    assert!(text.contains("leave out the sweep"), "{text}");
}

#[test]
fn images_without_numbers_are_refused_before_a_task_is_deployed() {
    let text = "[compute]\nnumerics = 'shapes'\n[program]\nmodel = 'resnet50'\nbatch = 1\n";
    let experiment = Experiment::parse(text).unwrap();
    let error = experiment.trials_in(World::Deployment).err().unwrap().to_string();
    assert!(error.contains("`--unset compute.numerics`"), "{error}");
    assert!(experiment.trials_in(World::Simulation).is_ok());
}

/// Checks the launches of `sweep`, or of 3 seeds, of a run with checkpoints in `directory`.
fn check_launches(directory: &str, sweep: Option<&str>, repeats: u32) -> Result<(), String> {
    let text = format!(
        "[program]\nmodel = 'softmax'\n{directory}\n[[run]]\nname = 'a'\nmode = 'sync'\n\
         [[run]]\nname = 'b'\nmode = 'sync'\n"
    );
    let experiment = Experiment::parse(text).unwrap();
    let experiment = match sweep {
        Some(sweep) => experiment.sweep(sweep).unwrap(),
        None => experiment.seeds(3),
    };
    check_places(&experiment.trials().unwrap(), repeats).map_err(|error| error.to_string())
}

#[test]
fn launches_that_would_go_on_from_each_others_checkpoints_are_refused() {
    let sweep = Some("program.batch=8,16");
    for place in ["/tmp/saved", "s3://bucket/saved/"] {
        let saved = format!("[checkpoint]\ndirectory = '{place}'");
        for refused in [check_launches(&saved, None, 1), check_launches(&saved, sweep, 1)] {
            let error = refused.unwrap_err();
            assert!(error.contains("run `a` is launched several times"), "{error}");
            assert!(error.contains("/saved/a, from which"), "{error}");
        }
        check_launches(&saved, Some("seed=3"), 1).unwrap();
        check_launches(&saved, Some("seed=3"), 2).unwrap_err();
    }
    check_launches("[checkpoint]\nevery_steps = 4", sweep, 2).unwrap();
    let own = Some("checkpoint.directory=/tmp/one,/tmp/other");
    check_launches("[checkpoint]\nevery_steps = 4", own, 1).unwrap();
}

/// The trials of a table of 20 rows in a file, with `more` keys of the data set, and 3 seeds. The
/// file is there for as long as what is returned beside them.
fn trials_of_a_table(more: &str) -> (Vec<Trial>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    let rows: String = (0..20).map(|row| format!("{row},{}\n", row % 2)).collect();
    fs::write(&path, format!("x,y\n{rows}")).unwrap();
    let path = path.display();
    let more = more.replace("FILE", &path.to_string());
    let text = format!(
        "[program]\nmodel = 'softmax'\ndataset = {{ csv = '{path}', label = 'y'{more} }}\n\
         [stop]\nsteps = 3\n[[run]]\nname = 'a'\nmode = 'sync'\n"
    );
    (Experiment::parse(text).unwrap().seeds(3).trials().unwrap(), folder)
}

#[test]
fn data_that_no_seed_changes_are_loaded_once_for_all_seeds() {
    let (trials, _folder) = trials_of_a_table(", test = 'FILE'");
    let first = trials[0].dataset.as_ref().unwrap();
    for trial in &trials {
        assert!(Arc::ptr_eq(trial.dataset.as_ref().unwrap(), first), "{}", trial.name);
    }
}

#[test]
fn data_of_further_seeds_are_loaded_when_their_runs_begin_and_one_at_a_time() {
    let (trials, _folder) = trials_of_a_table("");
    let is_loaded: Vec<bool> = trials.iter().map(|trial| trial.dataset.is_some()).collect();
    assert_eq!(is_loaded, [true, false, false]);
    let second = trials[1].with_data().unwrap().dataset.unwrap();
    let again = trials[1].clone().with_data().unwrap().dataset.unwrap();
    assert!(Arc::ptr_eq(&second, &again), "runs of one seed share them");
    let loaded = Arc::downgrade(&second);
    drop((second, again));
    assert_eq!(trials[2].simulate(&train).outcome.result.map(drop), Ok(()));
    assert!(loaded.upgrade().is_none(), "those before are not kept");
}

#[test]
fn a_rule_whose_weights_scale_with_the_rate_is_refused_where_staleness_divides_the_rate() {
    let error = |rule: &str, mode: &str| {
        let text = format!(
            "[cluster]\nps = 1\nworker = 2\n[program]\nmodel = 'softmax'\n\
             optimizer = {{ rule = '{rule}', learning_rate = 0.1 }}\n[stop]\nsteps = 2\n\
             [[run]]\nname = 'a'\nmode = '{mode}'\n"
        );
        Experiment::parse(text).unwrap().trials().err().map(|error| error.to_string())
    };
    for rule in ["ftrl", "adagrad_da"] {
        let said = error(rule, "staleness_aware").unwrap();
        let says = format!("run `a`: the update rule `{rule}`");
        assert!(said.starts_with(&says) && said.contains("or the mode `async`"), "{said}");
        assert_eq!(error(rule, "async"), None);
    }
    assert_eq!(error("adagrad", "staleness_aware"), None);
}

#[test]
fn a_change_of_all_runs_that_is_none_for_a_run_with_a_value_of_its_own_is_told() {
    let text = "[program]\nmodel = 'softmax'\n[stop]\nsteps = 2\n[[run]]\nname = 'a'\n\
                mode = 'sync'\nset = { stop.steps = 5 }\n[[run]]\nname = 'b'\nmode = 'sync'\n\
                compression = 'bf16'\n";
    let told = |only: &str, change: &str| {
        let experiment = Experiment::parse(text).unwrap().set(change).unwrap();
        let experiment = if only.is_empty() { experiment } else { experiment.only(only) };
        experiment.overruled().unwrap()
    };
    let expected = "`--set stop.steps=9` changes nothing in run `a`, which has its own \
                    `stop.steps`; change that by `--set run.0.set.stop.steps=...`, or name the \
                    other runs with `--run`";
    assert_eq!(told("", "stop.steps=9"), [expected]);
    let compressed = told("", "network.compression=int8");
    assert!(compressed[0].contains("`--set run.1.compression=...`"), "{compressed:?}");
    assert_eq!(compressed.len(), 1);
    let nothing: [String; 0] = [];
    assert_eq!(told("b", "stop.steps=9"), nothing);
    assert_eq!(told("", "stop={ steps = 9, time = '1s' }"), nothing, "the time is of all runs");
    assert_eq!(told("", "run.0.set.stop.steps=9"), nothing);
}

#[test]
fn what_only_a_simulation_has_is_told_of_if_it_is_set_for_a_launch() {
    let text = "[compute]\nslow = { 'worker:1' = 2.0 }\n[program]\nmodel = 'softmax'\n[stop]\n\
                steps = 2\n[[run]]\nname = 'a'\nmode = 'sync'\nset = { stop.steps = 3 }\n";
    let said = |set: &[&str], sweep: Option<&str>| {
        let mut experiment = Experiment::parse(text).unwrap();
        for change in set {
            experiment = experiment.set(change).unwrap();
        }
        if let Some(sweep) = sweep {
            experiment = experiment.sweep(sweep).unwrap();
        }
        experiment.flags_without_effect(&experiment.trials().unwrap())
    };
    for change in [
        "compute.slow.\"worker:0\"=4",
        "compute.numerics=shapes",
        "network.bandwidth=1Mbps",
        "run.0.set.network.latency=1s",
    ] {
        let key = change.split_once('=').unwrap().0;
        let said = said(&[change], None);
        assert!(said.len() == 1 && said[0].starts_with(&format!("`--set {key}=")), "{said:?}");
    }
    assert!(said(&[], Some("network.latency=1ms,2ms"))[0].starts_with("`--sweep network.latency="));
    let nothing: [String; 0] = [];
    assert_eq!(said(&[], None), nothing, "the file's own keys describe a simulation");
    let used = ["network.silence=2s", "network.compression=bf16", "compute.numerics=real"];
    assert_eq!(said(&used, None), nothing);
    let fault = "fault=[{ at = '1s', slow_link = ['ps:0', 'worker:0'], factor = 2, for = '1s' }]";
    assert_eq!(said(&[fault, "network.latency=1s"], None), nothing, "the fault takes it as well");
}

#[test]
fn runs_of_all_modes_are_looked_at_after_as_many_samples() {
    let text = "[cluster]\nps = 1\nworker = 2\n[program]\nmodel = 'softmax'\nbatch = 8\n[stop]\n\
                steps = 40\naccuracy = 1.0\nevaluate_every_samples = 128\n\
                [[run]]\nmode = 'async'\n[[run]]\nmode = 'sync'\n\
                [[run]]\nmode = { local_sgd = { every = 4 } }\n";
    for (trial, of_a_step) in
        Experiment::parse(text).unwrap().trials().unwrap().iter().zip([8, 16, 64])
    {
        let looks = trial.simulate(&train).recording.evaluations;
        let samples: Vec<u64> =
            looks[..2].iter().map(|look| look.global_step * of_a_step).collect();
        // Asynchronous workers may take a step each before the values are read.
        let is_near = |samples: u64, expected: u64| (expected..=expected + 16).contains(&samples);
        assert!(
            is_near(samples[0], 128) && is_near(samples[1], 256),
            "{}: {samples:?}",
            trial.name
        );
    }
}

#[test]
fn a_convnet_learns_images_of_numpy_and_is_told_that_rows_are_none() {
    let folder = TempDir::new().unwrap();
    let npy = |name: &str, shape: &str, count: usize| {
        let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n");
        let length = (header.len() as u16).to_le_bytes();
        let data: Vec<u8> = (0..count).map(|i| (i % 2) as u8).collect();
        let bytes = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &data].concat();
        fs::write(folder.path().join(name), bytes).unwrap();
    };
    npy("images.npy", "(10, 8, 8)", 640);
    npy("rows.npy", "(10, 64)", 640);
    npy("y.npy", "(10,)", 10);
    let of = |features: &str| {
        let at = |name| folder.path().join(name).display().to_string();
        let text = format!(
            "[cluster]\nps = 1\nworker = 1\n[program]\nmodel = 'convnet'\nbatch = 2\n\
             dataset = {{ npy = {{ features = '{}', labels = '{}' }} }}\n[stop]\nsteps = 2\n\
             [[run]]\nname = 'a'\nmode = 'sync'\n",
            at(features),
            at("y.npy")
        );
        Experiment::parse(text).unwrap().simulate(train)
    };
    assert_eq!(of("images.npy").unwrap().runs[0].global_steps, 2);
    let said = of("rows.npy").unwrap_err().to_string();
    assert!(said.contains("needs images, and the data set has rows of 64 features"), "{said}");
}

#[test]
fn a_graph_that_no_file_shows_is_not_drawn_and_the_run_is_the_same() {
    let text = "[program]\nmodel = 'softmax'\nbatch = 8\n[stop]\nsteps = 2\n";
    let mut trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
    let [shown, unseen] = [true, false].map(|is_drawn| {
        trial.draws_graph = is_drawn;
        let simulated = trial.simulate(&train);
        let run = trial.report(&simulated).unwrap();
        let graph = simulated.recording.beginning.expect("it began").graph;
        (graph.is_empty(), run.parameters, run.digest, run.weights_digest)
    });
    assert!(!shown.0 && unseen.0);
    assert_eq!((shown.1, shown.2, shown.3), (unseen.1, unseen.2, unseen.3));
}

#[test]
fn accelerators_that_cannot_be_are_an_error_of_the_run() {
    let text = "[gpus.worker]\ncount = 1\n[[run]]\nname = 'a'\nmode = 'async'\n";
    let mut scenario = scenario::parse(text, "gpus.toml").unwrap();
    scenario.hardware.gpus.values_mut().for_each(|gpus| gpus.compute.rate = FlopsPerSecond(0.0));
    let error = Trial::new(&scenario, &scenario.runs[0], &[]).unwrap_err();
    assert!(error.to_string().contains("the device's rate is 0"), "{error}");
}
