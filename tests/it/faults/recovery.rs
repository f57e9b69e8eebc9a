//! Trainings that die and go on from their checkpoints: whole clusters, parameter servers, workers,
//! chiefs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trainyard::checkpoint::{Listed, Memory, Retention, Saver};
use trainyard::cluster::TaskName;
use trainyard::experiment::Experiment;
use trainyard::models::{Embedding, Model};
use trainyard::optimizer::AdagradRule;
use trainyard::prelude::*;
use trainyard::simulation::{FaultKind, Law, Trigger};
use trainyard::sync::Mode;
use trainyard::training::{StepStats, train};
use trainyard::units::Time;

use crate::support::binary::trainyard;
use crate::support::simulated::{Simulated, Trained};
use crate::support::thorough::spread;

const STEPS: u64 = 20;

/// A training of the digits that keeps a checkpoint every few steps.
fn training(mode: Mode, store: &Memory) -> Simulated {
    Simulated::new(2, 2, mode).digits().steps(STEPS).checkpoints(store, 3)
}

fn tasks() -> [TaskName; 4] {
    [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1)]
        .map(|(job, index)| TaskName::new(job, index))
}

fn crash(task: &TaskName, restart_after: Option<Duration>) -> FaultKind {
    FaultKind::Crash { task: task.clone(), restart_after }
}

#[test]
fn a_synchronous_training_killed_at_any_event_and_begun_again_ends_with_the_same_weights() {
    let mode = Mode::Sync { backups: 0, cancel: false };
    let undisturbed = training(mode, &Memory::default()).run();
    let expected = undisturbed.weights();
    let (mut killed_at, mut resumed) = (0, 0);
    for event in spread(0..undisturbed.outcome.events, 7) {
        let store = Memory::default();
        let mut killed = training(mode, &store);
        for task in tasks() {
            killed = killed.fault(Trigger::Event(event), crash(&task, None));
        }
        let killed = killed.run_program(train);
        assert!(killed.outcome.result.is_ok(), "event {event}: {:?}", killed.outcome.result);
        let again = training(mode, &store).run();
        assert_eq!(again.weights(), expected, "killed at event {event}");
        resumed += u32::from(again.steps.len() < undisturbed.steps.len());
        killed_at += 1;
    }
    assert!(resumed > killed_at / 2, "{resumed} of {killed_at} went on from a checkpoint");
}

#[test]
fn a_parameter_server_that_comes_back_at_any_event_gets_its_variables_and_the_weights_are_the_same()
{
    let mode = Mode::Sync { backups: 0, cancel: false };
    let undisturbed = training(mode, &Memory::default()).run();
    let expected = undisturbed.weights();
    let mut after_the_end = 0;
    for event in spread((0..undisturbed.outcome.events).step_by(3), 5) {
        let ps = &tasks()[(event % 2) as usize];
        let fault = crash(ps, Some(Duration::from_millis(5)));
        let store = Memory::default();
        let trained = training(mode, &store).fault(Trigger::Event(event), fault).run_program(train);
        // A worker that had taken its last step has left, and does not take it again.
        if trained.outcome.result.as_ref().is_err_and(|error| must_begin_again(error, &trained)) {
            after_the_end += 1;
            continue;
        }
        assert_eq!(trained.weights(), expected, "{ps} crashed at event {event}");
        let applied = trained.steps.iter().filter(|step| step.applied).count() as u64;
        assert_eq!(applied, 2 * STEPS, "{ps} crashed at event {event}");
    }
    assert!(after_the_end < 20, "{after_the_end} of the crashes came after the last step");
}

/// Whether `error` says that the training has to be begun again, since it lost its variables after
/// workers had taken their last steps.
fn must_begin_again(error: &Error, trained: &Trained) -> bool {
    let has_reached_the_end = trained.steps.iter().any(|step| step.global_step >= STEPS);
    has_reached_the_end && error.code == Code::WorkersLeft
}

/// The other parameter server has never sent anything to the one that restarts, and so learns of it
/// last: after the chief, by the first message of the first step after the restore.
#[test]
fn a_parameter_server_that_hears_last_of_anothers_restart_loses_nothing_of_the_steps_after_it() {
    let mode = Mode::Sync { backups: 0, cancel: false };
    let text = |fault: &str| {
        format!(
            "seed = 3\n[cluster]\nps = 2\nworker = 2\n[program]\nmodel = 'mlp'\nhidden = [32]\n\
             batch = 8\noptimizer = {{ rule = 'adagrad', learning_rate = 0.2 }}\n\
             [stop]\nsteps = 60\n[checkpoint]\nevery_steps = 10\n\
             [[run]]\nname = 'only'\nmode = '{mode}'\n{fault}"
        )
    };
    let run = |fault: &str| {
        let report = Experiment::parse(text(fault)).unwrap().simulate(train).unwrap();
        let run = report.run("only").unwrap();
        (run.weights_digest.clone(), run.seconds)
    };
    let (expected, seconds) = run("");
    for (ps, after) in [("ps:1", 0.1), ("ps:0", 0.1), ("ps:1", 0.7), ("ps:1", 9.0)] {
        let at = 0.5 * seconds;
        let (found, _) =
            run(&format!("[[fault]]\nat = '{at}s'\ncrash = '{ps}'\nrestart_after = '{after}s'\n"));
        assert_eq!(found, expected, "{ps} restarted after {after} s");
    }
}

/// A chief that is held back until others catch up waits for no answer of a parameter server that
/// it has lost, and they wait until it gives that one's variables their values.
#[test]
fn a_chief_that_is_held_back_finds_out_that_a_silent_parameter_server_has_restarted() {
    let text = |at: u32| {
        format!(
            "name = 'held'\n[cluster]\nps = 2\nworker = 2\n\
             [network]\nsilence = '100ms'\nrecovery = '5s'\n[program]\nmodel = 'count'\n\
             [compute]\nslow = {{ 'worker:1' = 3.0 }}\n\
             step_time = {{ law = 'constant', value = '10ms' }}\n[stop]\nsteps = 60\n\
             [checkpoint]\nevery_steps = 10\n\
             [[run]]\nname = 'only'\nmode = {{ bounded_staleness = {{ slack = 1 }} }}\n\
             [[fault]]\nat = '{at}ms'\ncrash = 'ps:1'\nrestart_after = '300ms'\n"
        )
    };
    for at in (300..360).step_by(2) {
        let report = Experiment::parse(text(at)).unwrap().simulate(train);
        let report = report.unwrap_or_else(|error| panic!("killed at {at} ms: {error}"));
        assert!(report.run("only").unwrap().global_steps >= 60, "killed at {at} ms");
    }
}

/// Adds 1 to a variable on each of the parameter servers with each update.
async fn count(task: Task) -> Result<(), Error> {
    count_in_sessions(task, &[]).await
}

/// Worker 1 leaves after its fifth step, and comes back.
async fn count_with_a_break(task: Task) -> Result<(), Error> {
    let is_second = task.job() == "worker" && task.index() == 1;
    count_in_sessions(task, if is_second { &[5] } else { &[] }).await
}

/// Counts in sessions of which all but the last end after so many steps.
async fn count_in_sessions(task: Task, ends: &[usize]) -> Result<(), Error> {
    if task.job() == "ps" {
        return task.join().await;
    }
    for end in ends {
        count_until(&task, *end).await?;
    }
    count_until(&task, usize::MAX).await
}

async fn count_until(task: &Task, most: usize) -> Result<(), Error> {
    let g = Graph::new();
    let mut pairs = Vec::new();
    for index in 0..2 {
        let variable = g.with_device(&format!("/job:ps/task:{index}"), |g| {
            g.variable(&format!("v{index}"), &g.constant(0f32))
        })?;
        let minus_one = variable.read().mul(&g.constant(0f32))?.sub(&g.constant(1f32))?;
        pairs.push((variable, minus_one));
    }
    g.with_device("/job:ps/task:0", |g| g.global_step())?;
    let train = task.apply_gradients(GradientDescent::new(1.0), &pairs)?;
    let checkpointing = task.checkpointing().expect("the training keeps checkpoints").clone();
    let builder = MonitoredSession::builder(task, g.clone()).checkpointing(checkpointing);
    let mut session = builder.hook(StopAtStep::last_step(STEPS)).open().await?;
    for _ in 0..most {
        if session.should_stop() {
            break;
        }
        if let Err(error) = session.run().target(&train).await {
            return session.close_after(Err(error)).await;
        }
    }
    session.close().await
}

/// A training that counts its updates, of workers that are not alike, with a checkpoint every other
/// step, all kept.
fn counting(mode: Mode, store: &Memory) -> Simulated {
    let uneven = Law::Uniform { low: 0.01, high: 0.03 };
    Simulated::new(2, 3, mode)
        .step_time(uneven)
        .steps(STEPS)
        .checkpoints(store, 2)
        .keep_all_checkpoints()
}

/// The steps of the checkpoints in `store`, each of which has to hold whole steps.
#[track_caller]
fn whole_steps(store: &Memory) -> Vec<u64> {
    let saver = Saver::new(Arc::new(store.clone()), Retention::default());
    let listed = saver.checkpoints().unwrap();
    let counted = |checkpoint: &Listed| {
        let restored = saver.restore(checkpoint.global_step).unwrap();
        let value = |name: &str| restored.variables[name].item::<f32>().unwrap() as u64;
        (checkpoint.global_step, value("v0"), value("v1"))
    };
    let counts: Vec<(u64, u64, u64)> = listed.iter().map(counted).collect();
    assert!(counts.iter().all(|(step, v0, v1)| step == v0 && step == v1), "{counts:?}");
    counts.into_iter().map(|(step, ..)| step).collect()
}

const MODES: [Mode; 5] = [
    Mode::Sync { backups: 1, cancel: true },
    Mode::Async,
    Mode::Sync { backups: 0, cancel: false },
    Mode::Sync { backups: 1, cancel: false },
    Mode::BoundedStaleness { slack: 1 },
];

#[test]
fn a_consistent_checkpoint_holds_whole_steps_in_every_mode() {
    for mode in MODES {
        let store = Memory::default();
        let trained = counting(mode, &store).run_program(count);
        assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
        let steps = whole_steps(&store);
        assert!(steps.len() > STEPS as usize / 6 && steps[0] <= 3, "{mode}: {steps:?}");
        assert!(
            steps.iter().any(|step| *step >= STEPS),
            "{mode}: the last step is saved: {steps:?}"
        );
    }
}

#[test]
fn whoever_comes_back_the_training_ends_and_every_gradient_counts_once_or_is_dropped() {
    for mode in MODES {
        let plain = counting(mode, &Memory::default()).run_program(count);
        let absences = [5, 3000].map(Duration::from_millis);
        let crashes: Vec<_> = tasks()
            .into_iter()
            .flat_map(|task| absences.map(|time| (task.clone(), time)))
            .collect();
        let deliveries = (0..plain.outcome.deliveries).step_by(17);
        let cases = deliveries.flat_map(|delivery| crashes.iter().map(move |one| (delivery, one)));
        let mut is_checked = Vec::new();
        for (delivery, (task, absence)) in spread(cases, 5) {
            let store = Memory::default();
            let case = format!("{mode}, {task} crashed at delivery {delivery} for {absence:?}");
            let fault = crash(task, Some(*absence));
            let crashed = counting(mode, &store).fault(Trigger::Delivery(delivery), fault);
            let trained = crashed.run_program(count);
            is_checked.push(check_counts(mode, task, &trained, &whole_steps(&store), &case));
        }
        let checked = is_checked.iter().filter(|is_checked| **is_checked).count();
        let cases = is_checked.len();
        assert!(
            checked * 10 > cases * 9,
            "{mode}: the counts of {checked} of {cases} were checked"
        );
    }
}

#[test]
fn a_worker_that_has_left_and_comes_back_is_let_in_while_the_others_train() {
    for mode in MODES {
        let store = Memory::default();
        let trained = counting(mode, &store).run_program(count_with_a_break);
        assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
        assert!(whole_steps(&store).last() >= Some(&STEPS), "{mode}");
        let own =
            trained.steps.iter().filter(|step| step.worker.index() == 1 && step.applied).count();
        assert!(own > 7, "{mode}: it has taken {own} steps");
    }
}

#[test]
fn a_checkpoint_whose_variables_could_not_be_read_is_taken_again_and_not_left_out() {
    let training = |store: &Memory| {
        Simulated::new(2, 2, Mode::Async)
            .step_time(Law::Uniform { low: 0.01, high: 0.03 })
            .steps(STEPS)
            .checkpoints(store, 5)
            .keep_all_checkpoints()
    };
    let plain = training(&Memory::default()).run_program(count);
    for delivery in spread(20..plain.outcome.deliveries, 5) {
        let store = Memory::default();
        let [_, task, ..] = tasks();
        let lasts = Duration::from_secs(3);
        let fault = FaultKind::Freeze { task, lasts };
        let trained = training(&store).fault(Trigger::Delivery(delivery), fault).run_program(count);
        assert!(trained.outcome.result.is_ok(), "{delivery}: {:?}", trained.outcome.result);
        let chief = |step: &&StepStats| step.worker.index() == 0 && step.applied;
        let own: Vec<u64> =
            trained.steps.iter().filter(chief).map(|step| step.global_step).collect();
        let saved = whole_steps(&store);
        // The chief looks after each of its steps.
        for pair in saved.windows(2) {
            let looks = own.iter().filter(|step| (pair[0] + 5..pair[1]).contains(step)).count();
            assert!(looks <= 1, "{delivery}: {saved:?}, {own:?}");
        }
    }
}

/// The chief has the lost worker leave at the parameter server that begins anew.
#[test]
fn a_worker_that_was_lost_when_variables_were_restored_is_let_in_when_it_is_back() {
    for mode in [Mode::Sync { backups: 0, cancel: false }, Mode::Sync { backups: 1, cancel: false }]
    {
        let trained = Simulated::new(2, 3, mode)
            .step_time(Law::Constant { value: 0.1 })
            .steps(300)
            .checkpoints(&Memory::default(), 10)
            .fault(
                Trigger::Time(Time(2_000_000_000)),
                crash(&TaskName::new("worker", 2), Some(Duration::from_secs(15))),
            )
            .fault(
                Trigger::Time(Time(8_000_000_000)),
                crash(&TaskName::new("ps", 1), Some(Duration::from_millis(500))),
            )
            .run_program(train);
        assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
        let late = |step: &&StepStats| step.worker.index() == 2 && step.global_step > 250;
        assert!(trained.steps.iter().filter(late).count() > 25, "{mode}");
    }
}

#[test]
fn a_parameter_server_that_stands_still_costs_no_gradient_and_has_none_counted_twice() {
    let mode = Mode::Sync { backups: 0, cancel: false };
    let plain = counting(mode, &Memory::default()).run_program(count);
    let [first, second, ..] = tasks();
    let deliveries = (0..plain.outcome.deliveries).step_by(7);
    let cases = deliveries.flat_map(|delivery| [(delivery, &first), (delivery, &second)]);
    for (delivery, task) in spread(cases, 3) {
        let store = Memory::default();
        let lasts = Duration::from_secs(10);
        let fault = FaultKind::Freeze { task: task.clone(), lasts };
        let trained =
            counting(mode, &store).fault(Trigger::Delivery(delivery), fault).run_program(count);
        let case = format!("{task} stood still at delivery {delivery}");
        assert!(trained.outcome.result.is_ok(), "{case}: {:?}", trained.outcome.result);
        assert_eq!(whole_steps(&store).last(), Some(&STEPS), "{case}");
        let of_all = trained.steps.iter().filter(|step| step.applied).count() as u64;
        assert_eq!(of_all, 3 * STEPS, "{case}");
    }
}

#[test]
fn weights_after_a_parameter_server_stood_still_are_the_same_or_the_report_has_dropped_gradients() {
    let mode = Mode::Sync { backups: 0, cancel: false };
    let training = || Simulated::new(2, 2, mode).digits().steps(STEPS);
    let undisturbed = training().run();
    let expected = undisturbed.weights();
    let mut same = 0;
    for event in (0..undisturbed.outcome.events).step_by(5) {
        let task = tasks()[(event % 2) as usize].clone();
        let lasts = Duration::from_secs(10);
        let fault = FaultKind::Freeze { task: task.clone(), lasts };
        let trained = training().fault(Trigger::Event(event), fault).run_program(train);
        let applied = trained.steps.iter().filter(|step| step.applied).count() as u64;
        let is_told = trained.steps.len() as u64 > applied || applied < 2 * STEPS;
        let is_same = trained.weights() == expected;
        assert!(is_same || is_told, "{task} stood still at event {event}: {:?}", trained.steps);
        same += u32::from(is_same);
    }
    assert!(same > 0, "some freezes come between two steps");
}

/// Of an asynchronous step, a parameter server without the global step has no part that names the
/// worker.
#[test]
fn no_parameter_server_leaves_before_the_chief_that_had_been_lost_there() {
    let training = || Simulated::new(2, 2, Mode::Async).digits().steps(200);
    let half = Trigger::Event(training().run().outcome.events / 2);
    let [_, second, chief, _] = tasks();
    let lasts = Duration::from_secs(10);
    for fault in
        [crash(&chief, Some(Duration::from_millis(500))), FaultKind::Freeze { task: second, lasts }]
    {
        let trained = training().fault(half, fault.clone()).run_program(train);
        assert!(trained.outcome.result.is_ok(), "{fault:?}: {:?}", trained.outcome.result);
        assert!(trained.evaluation.is_some() && trained.ending.is_some(), "{fault:?}");
    }
}

/// Checks what counts in a training with a crash. Returns whether there was something to count: a
/// training that had to be begun again ends with an error.
#[track_caller]
fn check_counts(
    mode: Mode,
    crashed: &TaskName,
    trained: &Trained,
    steps: &[u64],
    case: &str,
) -> bool {
    if let Err(error) = &trained.outcome.result {
        if error.code == Code::VariablesLost {
            assert!(steps.is_empty(), "{case}: {error}");
            return false;
        }
        assert!(must_begin_again(error, trained), "{case}: {error}");
        return false;
    }
    let last = *steps.last().unwrap();
    assert!(last >= STEPS, "{case}: {steps:?}");
    if let Mode::Async | Mode::BoundedStaleness { .. } = mode {
        // One whose answer was lost with the parameter server is in the variables, but its worker
        // has not told of it; one that came after the last checkpoint is not in that.
        let told = trained.steps.iter().filter(|step| step.applied).count() as u64;
        let in_it =
            trained.steps.iter().filter(|step| step.applied && step.global_step <= last).count()
                as u64;
        assert!(
            (in_it..=told + 3).contains(&last),
            "{case}: {told} told, {in_it} of them until {last}"
        );
    }
    if let Mode::Sync { backups, .. } = mode {
        let told = trained.steps.iter().filter(|step| step.applied).count() as u64;
        let most = (3 - u64::from(backups)) * last;
        assert!(told <= most, "{case}: {told} told");
        // A round is made without a worker that has died, and an attempt that ended with it counts
        // for nobody.
        assert!(told == most || backups > 0 || crashed.job() == "worker", "{case}: {told} told");
    }
    true
}

/// The variables of the newest checkpoint, those that are partitioned as one each.
fn whole(store: &Memory) -> BTreeMap<String, Tensor> {
    let mut saver = Saver::new(Arc::new(store.clone()), Retention::default());
    let restored = saver.latest().unwrap().checkpoint.unwrap();
    assert_eq!(restored.global_step, STEPS);
    restored.into_whole()
}

#[test]
fn a_checkpoint_is_restored_on_another_number_of_parameter_servers_and_of_partitions() {
    let training = |servers, partitions, steps, store: &Memory| {
        let model = Embedding { rows: 100, dim: 16, slots: 4, partitions, hidden: vec![8] };
        let rule = AdagradRule::default().into();
        let training = Simulated::new(servers, 2, Mode::Sync { backups: 0, cancel: false })
            .embedding(100)
            .rule(rule);
        training.model(Model::Embedding(model)).steps(steps).checkpoints(store, 100).run()
    };
    let [undisturbed, moved] = [Memory::default(), Memory::default()];
    training(2, 4, STEPS, &undisturbed);
    training(2, 4, STEPS / 2, &moved);
    let resumed = training(3, 7, STEPS, &moved);
    assert_eq!(resumed.steps.len() as u64, STEPS, "two workers take the second half of the steps");
    let (expected, found) = (whole(&undisturbed), whole(&moved));
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    assert!(found == expected, "every variable and every slot is the same, bit for bit");
}

#[test]
fn scalar_slots_of_partitions_that_were_not_there_are_those_of_the_first() {
    let training = |partitions, steps, store: &Memory| {
        let model = Embedding { rows: 100, dim: 16, slots: 4, partitions, hidden: vec![8] };
        let training = Simulated::new(2, 2, Mode::Sync { backups: 0, cancel: false })
            .embedding(100)
            .adam(0.01);
        training.model(Model::Embedding(model)).steps(steps).checkpoints(store, 100).run()
    };
    let store = Memory::default();
    let powers = |table: &str, parts: usize| {
        let mut saver = Saver::new(Arc::new(store.clone()), Retention::default());
        let restored = saver.latest().unwrap().checkpoint.unwrap();
        ["beta1_power", "beta2_power"].map(|slot| {
            let of_part = |part| &restored.variables[&format!("{table}/part_{part}/{slot}")];
            (0..parts).map(|part| of_part(part).item().unwrap()).collect::<Vec<f32>>()
        })
    };
    training(2, 4, &store);
    let before = ["embedding", "wide"].map(|table| powers(table, 2));
    training(5, 8, &store);
    let after = ["embedding", "wide"].map(|table| powers(table, 5));
    for (before, after) in before.iter().flatten().zip(after.iter().flatten()) {
        assert!(after[0] < before[0], "the first goes on: {before:?}, {after:?}");
        assert!(after.iter().all(|power| *power == after[0]), "{before:?}, {after:?}");
    }
}

#[test]
fn the_scenario_of_a_recovery_ends_with_the_weights_of_the_same_without_the_loss() {
    let run = |more: &[&str]| {
        let said = trainyard(&[&["sim", "sims/recovery.toml", "--json"], more].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        serde_json::from_str::<serde_json::Value>(&said.out).unwrap()["runs"][0].clone()
    };
    let (recovered, undisturbed) = (run(&[]), run(&["--set", "fault=[]"]));
    assert_eq!(recovered["weights_digest"], undisturbed["weights_digest"]);
    assert_eq!(recovered["gradients"]["applied"], undisturbed["gradients"]["applied"]);
    assert!(recovered["gradients"]["dropped"].as_u64().unwrap() > 0, "{recovered}");
}
