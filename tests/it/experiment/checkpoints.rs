//! Checkpoints of a simulation: those that a program names by a folder, and the scenario's.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trainyard::checkpoint::{Memory, Retention, Saver, Store};
use trainyard::experiment::{Experiment, ExperimentError};
use trainyard::prelude::*;
use trainyard::report::End;
use trainyard::training::{Builder, Checkpointing, SecondOrStepTimer, train};

use crate::support::binary::folder;
use crate::support::simulated::assert_near;
use crate::support::tampered::Tampered;

const PLACE: &str = "no such folder";
const STEPS: u64 = 12;

/// A program that keeps checkpoints in a folder, as TensorFlow's do.
async fn trainer(task: Task) -> Result<()> {
    trainer_with(task, Some(PLACE)).await
}

/// A program that keeps checkpoints in the folder `place`, or names none.
async fn trainer_with(task: Task, place: Option<&str>) -> Result<()> {
    let build = |builder: Builder| match place {
        Some(place) => builder.checkpoint_dir(place),
        None => Ok(builder),
    };
    trainer_built(task, build).await
}

/// A program that finishes the builder of its session with `build`.
async fn trainer_built(task: Task, build: impl FnOnce(Builder) -> Result<Builder>) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    let g = Graph::new();
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let (x, y, train_op) = g.with_device_fn(setter, |g| {
        let x = g.placeholder("x", DType::F32, [None, Some(64)])?;
        let y = g.placeholder("y", DType::I32, [None])?;
        let loss = sparse_softmax_cross_entropy(&dense(&x, 10)?, &y)?.mean();
        let train_op = task.minimize(Adagrad::new(0.1), &loss)?;
        Ok((x, y, train_op))
    })?;
    let builder = build(MonitoredSession::builder(&task, g))?;
    let mut session = builder.hook(StopAtStep::last_step(STEPS)).open().await?;
    while !session.should_stop() {
        // A step that is taken again is fed with the batch of where the training then is.
        let feeds = || {
            let batch = task.next_batch()?;
            Ok(vec![(x.clone(), batch.features), (y.clone(), batch.labels)])
        };
        session.run().feed_with(feeds).target(&train_op).await?;
    }
    session.close().await
}

#[test]
fn the_second_run_of_a_scenario_begins_anew_and_writes_nothing_to_the_disk() -> Result<()> {
    let text = "[[run]]\nname = 'a'\nmode = 'sync'\n[[run]]\nname = 'b'\nmode = 'sync'\n";
    let report = Experiment::parse(text)?.simulate(trainer)?;
    let (a, b) = (report.run("a")?, report.run("b")?);
    assert_eq!((a.global_steps, b.global_steps), (STEPS, STEPS));
    assert_eq!(a.weights_digest, b.weights_digest);
    assert!(!Path::new(PLACE).exists());
    Ok(())
}

/// A parameter server is lost while the chief reads the variables for the last checkpoint, and the
/// other worker has left.
#[test]
fn a_training_that_goes_back_while_it_ends_is_not_noted_as_ended_beside_its_checkpoints() {
    let text = "seed = 7\ncluster = { ps = 1, worker = 2 }\nstop.steps = 15\n\
                network = { silence = '1s', bandwidth = '10Mbps', recovery = '15s' }\n\
                program = { model = 'mlp', hidden = [400, 400], batch = 16, \
                optimizer = { rule = 'adagrad', learning_rate = 0.01 } }\n\
                checkpoint = { every_steps = 10 }\nrun = [{ mode = 'async' }]\n\
                fault = [{ at = '23s', crash = 'ps:0', restart_after = '500ms' }]\n";
    let mut trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
    let store = Memory::default();
    let every = SecondOrStepTimer::every_steps(10);
    let own = Checkpointing::new(Arc::new(store.clone()));
    trial.checkpointing = Some(Checkpointing { every, ..own });
    let error = trial.simulate(&train).outcome.result.unwrap_err();
    assert_eq!(error.code, Code::WorkersLeft, "{error}");
    assert!(error.message.contains("had reached step 1"), "{error}");
    let saver = Saver::new(Arc::new(store), Retention::default());
    assert_eq!((saver.newest().unwrap().is_some(), saver.ended().unwrap()), (true, None));
}

#[test]
fn checkpoints_that_a_task_opens_with_settings_of_its_own_belong_to_the_run() -> Result<()> {
    let place = folder("checkpointing_at");
    let location = place.join("saved").display().to_string();
    let trial = Experiment::parse("[[run]]\nmode = 'sync'\n")?.trials()?.remove(0);
    let mut computed = Vec::new();
    for _ in 0..2 {
        let location = location.clone();
        let simulated = trial.simulate(&move |task: Task| {
            let checkpointing = task.checkpointing_at(&location);
            trainer_built(task, |builder| Ok(builder.checkpointing(checkpointing?)))
        });
        simulated.outcome.result?;
        computed.push(simulated.recording.steps().count());
    }
    assert!(computed[0] > 0 && computed[0] == computed[1], "the second begins anew: {computed:?}");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    Ok(())
}

#[test]
fn a_parameter_server_that_dies_gets_its_variables_back_from_them() -> Result<()> {
    let scenario = |faults: &str| {
        format!(
            "[cluster]\nps = 2\nworker = 2\n[compute]\n\
             step_time = {{ law = 'constant', value = '100ms' }}\n[[run]]\nname = 'sync'\n\
             mode = 'sync'\n{faults}"
        )
    };
    let crash = "[[fault]]\nat = '600ms'\ncrash = 'ps:1'\nrestart_after = '20ms'\n";
    let hit = Experiment::parse(scenario(crash))?.simulate(trainer)?;
    let spared = Experiment::parse(scenario(""))?.simulate(trainer)?;
    let (hit, spared) = (hit.run("sync")?, spared.run("sync")?);
    assert!(hit.gradients.computed > spared.gradients.computed, "steps were taken again");
    assert_eq!((hit.global_steps, &hit.weights_digest), (STEPS, &spared.weights_digest));
    Ok(())
}

#[test]
fn a_program_that_names_no_checkpoints_keeps_those_of_the_scenario() -> Result<()> {
    let saved = |place: Option<&'static str>| -> Result<Vec<u64>> {
        let text = "[cluster]\nps = 1\nworker = 2\n[[run]]\nmode = 'sync'\n";
        let (store, mut trial) = (Memory::default(), Experiment::parse(text)?.trials()?.remove(0));
        let every = SecondOrStepTimer::every_steps(5);
        let own = Checkpointing::new(Arc::new(store.clone()));
        trial.checkpointing = Some(Checkpointing { every, ..own });
        trial.simulate(&move |task: Task| trainer_with(task, place)).outcome.result?;
        let listed = Saver::new(Arc::new(store), Retention::default()).checkpoints()?;
        Ok(listed.into_iter().map(|checkpoint| checkpoint.global_step).collect())
    };
    assert_eq!(saved(None)?, [0, 5, 10, STEPS]);
    assert!(saved(Some(PLACE))?.is_empty(), "it keeps its own, elsewhere");
    Ok(())
}

#[test]
fn a_session_without_checkpoints_neither_restores_nor_writes_those_of_the_scenario() -> Result<()> {
    let text = "[cluster]\nps = 1\nworker = 2\n[[run]]\nmode = 'sync'\n";
    let store = Memory::default();
    let computed = |build: fn(Builder) -> Builder| -> Result<usize> {
        let mut trial = Experiment::parse(text)?.trials()?.remove(0);
        trial.checkpointing = Some(Checkpointing::new(Arc::new(store.clone())));
        let simulated = trial
            .simulate(&move |task: Task| trainer_built(task, move |builder| Ok(build(builder))));
        simulated.outcome.result?;
        Ok(simulated.recording.steps().count())
    };
    let saved = || Saver::new(Arc::new(store.clone()), Retention::default()).checkpoints();
    let all = computed(Builder::without_checkpoints)?;
    assert!(all > 0 && saved()?.is_empty(), "{all} steps");
    computed(|builder| builder)?;
    let before = saved()?.len();
    assert!(before > 0);
    assert_eq!((computed(Builder::without_checkpoints)?, saved()?.len()), (all, before));
    Ok(())
}

#[test]
fn a_program_that_names_no_checkpoints_gets_lost_variables_back_from_those_of_the_scenario()
-> Result<()> {
    let text = |faults: &str| {
        format!(
            "[cluster]\nps = 2\nworker = 2\n[compute]\n\
             step_time = {{ law = 'constant', value = '100ms' }}\n\
             [checkpoint]\nevery_steps = 5\n[[run]]\nmode = 'sync'\n{faults}"
        )
    };
    let crash = "[[fault]]\nat = '800ms'\ncrash = 'ps:1'\nrestart_after = '20ms'\n";
    let runs = |faults: &str| -> Result<_> {
        Ok(Experiment::parse(text(faults))?.simulate(|task| trainer_with(task, None))?)
    };
    let (hit, spared) = (runs(crash)?, runs("")?);
    let (hit, spared) = (&hit.runs[0], &spared.runs[0]);
    assert!(hit.gradients.computed > spared.gradients.computed, "steps were taken again");
    assert_eq!((hit.global_steps, &hit.weights_digest), (STEPS, &spared.weights_digest));
    Ok(())
}

#[test]
fn a_training_that_goes_on_from_a_checkpoint_is_looked_at_where_it_would_have_been() {
    let store = Memory::default();
    let looks = |steps: u64| {
        let text = format!(
            "[cluster]\nps = 1\nworker = 2\n[stop]\nsteps = {steps}\nevaluate_every = 10\n\
             [[run]]\nmode = 'sync'\n"
        );
        let mut trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
        trial.checkpointing = Some(Checkpointing::new(Arc::new(store.clone())));
        let simulated = trial.simulate(&train);
        simulated.outcome.result.unwrap();
        let looks = simulated.recording.evaluations.iter();
        looks.map(|it| it.global_step).collect::<Vec<_>>()
    };
    assert_eq!(looks(24), [10, 20, 24]);
    assert_eq!(looks(40), [30, 40], "the end finds the last step's model");
}

#[test]
fn a_checkpoint_that_is_written_at_half_the_rate_takes_twice_the_time() -> Result<()> {
    let seconds = |checkpoint: &str| -> Result<f64> {
        let text = format!(
            "[cluster]\nps = 1\nworker = 1\n[stop]\nsteps = 20\n[checkpoint]\nevery_steps = 5\n\
             {checkpoint}[[run]]\nname = 'a'\nmode = 'async'\n"
        );
        Ok(Experiment::parse(text)?.simulate(train)?.run("a")?.seconds)
    };
    let free = seconds("")?;
    let (fast, slow) = (seconds("write_rate = '2MB/s'\n")?, seconds("write_rate = '1MB/s'\n")?);
    assert!(fast > free, "{fast} s and {free} s");
    assert_near("the slower rate", slow - free, 2.0 * (fast - free), 0.01);
    Ok(())
}

#[test]
fn checkpoints_without_a_folder_go_with_the_chief_as_when_it_is_deployed() -> Result<()> {
    let outcome = |place: &str| -> Result<_> {
        let text = format!(
            "[cluster]\nps = 2\nworker = 2\n[compute]\n\
             step_time = {{ law = 'constant', value = '10ms' }}\n[stop]\nsteps = 400\n\
             [checkpoint]\nevery_steps = 20\n{place}[[run]]\nname = 'a'\nmode = 'async'\n\
             [[fault]]\nat = '1s'\ncrash = 'worker:0'\nrestart_after = '200ms'\n\
             [[fault]]\nat = '1.1s'\ncrash = 'ps:1'\nrestart_after = '200ms'\n"
        );
        let trial = Experiment::parse(text)?.trials()?.remove(0);
        Ok(trial.simulate(&train).outcome.result.map(drop))
    };
    assert!(outcome("directory = 'saved'\n")?.is_ok());
    assert_eq!(outcome("")?.unwrap_err().code, Code::VariablesLost);
    Ok(())
}

/// A store that takes `room` files, and then is full.
fn filling(room: u32) -> Arc<dyn Store> {
    let room = AtomicU32::new(room);
    let on = move || {
        let one_less = |room: u32| room.checked_sub(1);
        match room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::new(io::ErrorKind::StorageFull, "no space is left")),
        }
    };
    Arc::new(Tampered { memory: Memory::default(), place: "a full disk", on })
}

#[test]
fn a_full_disk_loses_no_result_and_the_report_names_what_could_not_be_saved() {
    let text = "[stop]\nsteps = 40\n[[run]]\nname = 'a'\nmode = 'sync'\n";
    let report = |room: u32| {
        let mut trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
        let every = SecondOrStepTimer::every_steps(10);
        trial.checkpointing = Some(Checkpointing { every, ..Checkpointing::new(filling(room)) });
        trial.report(&trial.simulate(&train)).unwrap()
    };
    let (whole, full) = (report(u32::MAX), report(9));
    assert_eq!((whole.failed_checkpoints.len(), whole.end), (0, End::Done));
    let (_, why) = full.failed_checkpoints.last().expect("the last one failed");
    assert!(why.contains("no space is left"), "{why}");
    assert!(full.end == End::Unsaved && full.test_accuracy.is_some());
    assert_eq!(full.weights_digest, whole.weights_digest, "the training is none the worse");
}

#[test]
fn a_checkpoint_that_could_not_be_saved_is_told_with_its_own_step_not_the_chiefs() -> Result<()> {
    let text = "[cluster]\nps = 1\nworker = 3\n[checkpoint]\nevery_steps = 5\n[stop]\n\
                steps = 30\n[[run]]\nname = 'a'\nmode = 'async'\n\
                [[fault]]\nat = '3ms'\nfull_disk = true\nfor = '1h'\n";
    let report = Experiment::parse(text)?.simulate(train)?;
    let failed = &report.run("a")?.failed_checkpoints;
    assert!(failed.len() > 1, "{failed:?}");
    for (step, why) in failed {
        assert!(why.contains(&format!("model.ckpt-{step}-")), "step {step}: {why}");
    }
    Ok(())
}

#[test]
fn a_disk_that_is_full_as_the_training_begins_ends_it_as_one_that_cannot_be_written() {
    let text = "[stop]\nsteps = 4\n[[run]]\nname = 'a'\nmode = 'sync'\n";
    for room in [0, 1, 2] {
        let mut trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
        trial.checkpointing = Some(Checkpointing::new(filling(room)));
        let error = trial.report(&trial.simulate(&train)).unwrap_err();
        let ExperimentError::Run { error, .. } = error else { panic!("{error}") };
        assert_eq!(error.code, Code::Unwritable, "room for {room} files: {error}");
        assert!(error.message.contains("no space is left"), "{error}");
    }
}

#[test]
fn a_place_that_can_only_be_read_is_a_mistaken_one_where_nothing_is_saved_yet() {
    let text = "[stop]\nsteps = 4\n[[run]]\nname = 'a'\nmode = 'sync'\n";
    let mut trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
    let on = || Err(io::ErrorKind::ReadOnlyFilesystem.into());
    let store = Tampered { memory: Memory::default(), place: "a read-only disk", on };
    trial.checkpointing = Some(Checkpointing::new(Arc::new(store)));
    let error = trial.report(&trial.simulate(&train)).unwrap_err();
    let ExperimentError::Run { error, .. } = error else { panic!("{error}") };
    assert_eq!(error.code, Code::InvalidArgument, "{error}");
    assert!(error.message.contains("name a folder for checkpoints"), "{error}");
}

#[test]
fn nobody_trains_on_whose_chief_could_not_save_the_first_checkpoint() {
    let text = "[cluster]\nps = 2\nworker = 3\n[compute]\n\
                step_time = { law = 'constant', value = '10ms' }\n[stop]\nsteps = 4000\n\
                [[run]]\nname = 'a'\nmode = 'async'\n";
    for room in [1, 2] {
        let mut trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
        trial.checkpointing = Some(Checkpointing::new(filling(room)));
        let ends = Arc::new(Mutex::new(BTreeMap::new()));
        let program = |task: Task| {
            let ends = Arc::clone(&ends);
            async move {
                let ended = train(task.clone()).await;
                ends.lock().unwrap().insert(task.name().to_string(), ended.clone());
                task.sleep(Duration::from_secs(5)).await; // the first to fail ends all
                ended
            }
        };
        let error = trial.simulate(&program).outcome.result.map(drop).unwrap_err();
        assert_eq!(error.code, Code::Unwritable, "{room}: {error}");
        let ends = ends.lock().unwrap();
        for task in ["worker:0", "worker:1", "worker:2"] {
            let Some(Err(error)) = ends.get(task) else { panic!("{room}, {task}: {ends:?}") };
            assert_eq!(error.code, Code::Unwritable, "{room}, {task}: {error}");
            assert!(error.message.contains("no space is left"), "{task}: {error}");
        }
    }
}

#[test]
fn a_chief_that_is_started_again_goes_on_from_a_full_disk() {
    let text = "[cluster]\nps = 1\nworker = 2\n[compute]\n\
                step_time = { law = 'constant', value = '100ms' }\n[stop]\nsteps = 40\n\
                [[run]]\nname = 'a'\nmode = 'sync'\n\
                [[fault]]\nat = '2050ms'\ncrash = 'ps:0'\nrestart_after = '10ms'\n\
                [[fault]]\nat = '2050ms'\ncrash = 'worker:0'\nrestart_after = '10ms'\n";
    let mut trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
    let every = SecondOrStepTimer::every_steps(10);
    trial.checkpointing = Some(Checkpointing { every, ..Checkpointing::new(filling(7)) });
    let run = trial.report(&trial.simulate(&train)).unwrap();
    assert_eq!((run.global_steps, run.end), (40, End::Unsaved));
    assert!(run.gradients.dropped > 0, "steps after the last checkpoint are taken again");
}
