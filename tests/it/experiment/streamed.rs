//! Trainings on files that are read as they are used: a worker's place in them outlives crashes.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use trainyard::checkpoint::Memory;
use trainyard::data::{Batch, Pipeline, Sample};
use trainyard::experiment::Experiment;
use trainyard::prelude::*;
use trainyard::report::Run;
use trainyard::training::{Checkpointing, Hook, HookContext, HookFuture, train};

use crate::support::binary::folder;
use crate::support::digit_files::write_digits;
use crate::support::simulated::assert_near;

/// A scenario of a softmax regression on files of TFRecord in `folder`.
fn scenario(folder: &str, mode: &str, more: &str) -> String {
    format!(
        "seed = 5\ncluster = {{ ps = 2, worker = 2 }}\n{more}\nstop.steps = 60\n\
         checkpoint = {{ every_steps = 10 }}\nrun = [{{ name = 'only', mode = '{mode}' }}]\n\
         [program]\nbatch = 16\noptimizer = {{ rule = 'adagrad', learning_rate = 0.1 }}\n\
         dataset = {{ tfrecord = '{folder}/train-*.tfrecord', test = '{folder}/test.tfrecord', \
         features = 'x', label = 'y', shape = [8, 8, 1], classes = 10, shuffle = 100 }}\n"
    )
}

fn digits(name: &str) -> String {
    let folder: PathBuf = folder(name);
    write_digits(&folder, 3);
    folder.to_str().unwrap().to_owned()
}

fn simulated(text: &str) -> Run {
    let report = Experiment::parse(text).unwrap().simulate(train).unwrap();
    report.run("only").unwrap().clone()
}

const CRASH: &str = "fault = [{ at = '11ms', crash = 'ps:1', restart_after = '5ms' }]";

#[test]
fn a_synchronous_training_on_streamed_files_has_the_same_weights_after_a_crash() {
    let folder = digits("streamed_sync");
    let whole = simulated(&scenario(&folder, "sync", ""));
    let crashed = simulated(&scenario(&folder, "sync", CRASH));
    assert!(crashed.gradients.computed > whole.gradients.computed, "it went back");
    assert_eq!(whole.weights_digest, crashed.weights_digest);
    assert!(whole.test_accuracy.unwrap() > 0.8, "{:?}", whole.test_accuracy);
}

#[test]
fn by_all_reduce_each_worker_has_the_samples_of_streamed_files_that_it_would_have_by_itself() {
    let folder = digits("streamed_all_reduce");
    let until = |text: &str, steps: u64, store: &Memory| {
        let mut trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
        trial.settings.stop.steps = Some(steps);
        trial.checkpointing = Some(Checkpointing::new(Arc::new(store.clone())));
        let simulated = trial.simulate(&train);
        simulated.outcome.result.unwrap();
        simulated.recording.ending.unwrap().weights_digest.unwrap()
    };
    let servers = scenario(&folder, "sync", "");
    let mirrors = servers.replace("ps = 2, ", "");
    let mirrors = mirrors.replace("[program]", "[program]\nall_reduce = 'shuffle'");
    let expected = until(&servers, 60, &Memory::default());
    assert_eq!(until(&mirrors, 60, &Memory::default()), expected);
    for (first, second) in [(&servers, &mirrors), (&mirrors, &servers), (&mirrors, &mirrors)] {
        let store = Memory::default();
        until(first, 25, &store);
        assert_eq!(until(second, 60, &store), expected, "{first}, then {second}");
    }
}

#[test]
fn workers_whose_votes_wait_go_back_to_the_batches_of_the_step_that_was_restored() {
    let folder = digits("streamed_votes");
    let run = |more| {
        let text = scenario(&folder, "votes", more);
        simulated(&text.replace("'votes'", "{ k_async = { k = 2 } }"))
    };
    let (whole, crashed) = (run(""), run(CRASH));
    assert!(crashed.gradients.computed > whole.gradients.computed, "it went back");
    assert_eq!(whole.weights_digest, crashed.weights_digest);
}

/// What a worker of `own_input` took, and when the training went back.
#[derive(Default)]
struct Seen {
    taken: Vec<Vec<i32>>,
    /// How many it had taken when it went back, and the global step then.
    restored: Option<(usize, u64)>,
}

static SEEN: Mutex<BTreeMap<u32, Seen>> = Mutex::new(BTreeMap::new());

/// Notes when its session goes back to a checkpoint.
struct Restored {
    worker: u32,
    seen: &'static Mutex<BTreeMap<u32, Seen>>,
    is_first: Cell<bool>,
}

impl Hook for Restored {
    fn after_create_session<'a>(&'a mut self, context: &'a HookContext<'_>) -> HookFuture<'a> {
        if let (false, Some(step)) = (self.is_first.replace(false), context.restored) {
            let mut seen = self.seen.lock().unwrap();
            let seen = seen.entry(self.worker).or_default();
            seen.restored = Some((seen.taken.len(), step));
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The endless elements of worker `index`: their labels are its own, in a drawn order.
fn elements(index: u32) -> Pipeline<Batch> {
    Pipeline::from_elements(0..100)
        .shard(2, index.into())
        .shuffle(20, 3)
        .repeat()
        .map(|n| Ok(Sample { features: vec![n as f32 / 100.0; 4], label: n }))
        .batch(3)
        .prefetch(2)
}

/// The graph of a worker, its placeholders and its training operation.
fn model(task: &Task) -> Result<(Graph, (Output, Output), TrainOp)> {
    let g = Graph::new();
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let (fed, train_op) = g.with_device_fn(setter, |g| {
        let x = g.placeholder("x", DType::F32, [None, Some(4)])?;
        let y = g.placeholder("y", DType::I32, [None])?;
        let loss = sparse_softmax_cross_entropy(&dense(&x, 100)?, &y)?.mean();
        Ok(((x, y), task.minimize(GradientDescent::new(0.1), &loss)?))
    })?;
    Ok((g, fed, train_op))
}

/// A program that feeds its steps from a pipeline of its own.
async fn own_input(task: Task) -> Result<()> {
    let Some(replica) = task.replica() else { return task.join().await };
    let worker = replica.worker;
    let input = task.input("numbers", elements(worker));
    let (g, (x, y), train_op) = model(&task)?;
    let mut builder = MonitoredSession::builder(&task, g)
        .hook(StopAtStep::last_step(60))
        .hook(Restored { worker, seen: &SEEN, is_first: Cell::new(true) });
    builder = builder.checkpointing(task.checkpointing().unwrap().clone());
    let mut session = builder.open().await?;
    let last = std::cell::RefCell::new(Vec::new());
    while !session.should_stop() {
        let feeds = |batch: Batch| {
            last.replace(batch.labels.values::<i32>().unwrap().to_vec());
            vec![(x.clone(), batch.features), (y.clone(), batch.labels)]
        };
        session.run().feed_from(&input, feeds).target(&train_op).await?;
        SEEN.lock().unwrap().entry(worker).or_default().taken.push(last.take());
    }
    session.close().await
}

#[test]
fn asynchronous_workers_go_back_to_the_elements_that_the_checkpoint_had_not_seen() {
    let text = "seed = 5\ncluster = { ps = 1, worker = 2 }\n\
        fault = [{ at = '250ms', crash = 'ps:0', restart_after = '5ms' }]\n\
        compute.step_time = { law = 'constant', value = '10ms' }\n\
        compute.slow = { 'worker:1' = 3.0 }\n\
        checkpoint = { every_steps = 10 }\nstop.steps = 60\n\
        run = [{ name = 'only', mode = 'async' }]\n";
    Experiment::parse(text).unwrap().simulate(own_input).unwrap();
    let seen = SEEN.lock().unwrap();
    let mut positions = 0;
    for (worker, Seen { taken, restored: went_back }) in &*seen {
        let all: Vec<Vec<i32>> = elements(*worker)
            .iter()
            .unwrap()
            .take(100)
            .map(|batch| batch.unwrap().labels.values::<i32>().unwrap().to_vec())
            .collect();
        let (before, _) = went_back.expect("the training goes back");
        assert_eq!(taken[..before], all[..before]);
        let after = &taken[before..];
        let position = (0..=before).find(|at| all[*at..].starts_with(after));
        let position = position.expect("it goes on where the checkpoint was");
        assert!(position < before, "worker {worker} takes elements again");
        positions += position as u64;
    }
    let (_, step_of_checkpoint) = seen[&0].restored.expect("the chief has restored it");
    assert_eq!(positions, step_of_checkpoint, "each global step is of one element of one worker");
    assert!(seen[&0].taken.len() > 2 * seen[&1].taken.len(), "one worker is faster");
}

static SEEN_BY_EVERY_SECOND: Mutex<BTreeMap<u32, Seen>> = Mutex::new(BTreeMap::new());

/// A program that takes an element in every second step, and trains on each twice.
async fn every_second_step(task: Task) -> Result<()> {
    let Some(replica) = task.replica() else { return task.join().await };
    let worker = replica.worker;
    let input = task.input("numbers", elements(worker));
    let (g, (x, y), train_op) = model(&task)?;
    let seen = &SEEN_BY_EVERY_SECOND;
    let mut session = MonitoredSession::builder(&task, g)
        .hook(StopAtStep::last_step(60))
        .hook(Restored { worker, seen, is_first: Cell::new(true) })
        .checkpointing(task.checkpointing().unwrap().clone())
        .open()
        .await?;
    let last = std::cell::RefCell::new(Vec::new());
    while !session.should_stop() {
        let is_even = session.global_step().is_multiple_of(2);
        let run = session.run().target(&train_op);
        if !is_even {
            let kept: trainyard::training::Feeds = last.borrow().clone();
            kept.into_iter().fold(run, |run, (output, value)| run.feed(&output, value)).await?;
            continue;
        }
        let feeds = |batch: Batch| {
            let labels = batch.labels.values::<i32>().unwrap().to_vec();
            seen.lock().unwrap().entry(worker).or_default().taken.push(labels);
            last.replace(vec![(x.clone(), batch.features), (y.clone(), batch.labels)]);
            last.borrow().clone()
        };
        run.feed_from(&input, feeds).await?;
    }
    session.close().await
}

#[test]
fn synchronous_workers_that_take_an_element_every_second_step_go_back_to_that_of_the_checkpoint() {
    let text = "seed = 5\ncluster = { ps = 1, worker = 2 }\n\
        fault = [{ at = '300ms', crash = 'ps:0', restart_after = '5ms' }]\n\
        compute.step_time = { law = 'constant', value = '10ms' }\n\
        checkpoint = { every_steps = 10 }\nstop.steps = 60\n\
        run = [{ name = 'only', mode = 'sync' }]\n";
    Experiment::parse(text).unwrap().simulate(every_second_step).unwrap();
    for (worker, Seen { taken, restored }) in &*SEEN_BY_EVERY_SECOND.lock().unwrap() {
        let (before, step) = restored.expect("the training goes back");
        assert!(step >= 10 && step.is_multiple_of(10), "to step {step}");
        let all = elements(*worker);
        let all = all.iter().unwrap().skip(step as usize / 2).take(10);
        let all: Vec<Vec<i32>> =
            all.map(|batch| batch.unwrap().labels.values::<i32>().unwrap().to_vec()).collect();
        assert_eq!(taken[before..][..10], all, "worker {worker} after step {step}");
    }
}

/// Who builds the training operation of a program, and when.
#[derive(Clone, Copy, PartialEq)]
enum Built {
    /// The task, before the last of the inputs is made.
    BeforeAnInput,
    /// An optimizer, which knows nothing of the task.
    ByAnOptimizer,
    /// An optimizer, after `Task::count_inputs`.
    AfterCounting,
}

/// A program of a worker that reads two inputs, one of them from time to time.
async fn two_inputs(task: Task, built: Built, other: &'static str) -> Result<()> {
    let Some(replica) = task.replica() else { return task.join().await };
    let make = |name: &str| task.input(name, elements(replica.worker));
    let first = make("numbers");
    let early = (built != Built::BeforeAnInput).then(|| make(other));
    let g = Graph::new();
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let (x, train_op) = g.with_device_fn(setter, |g| {
        let x = g.placeholder("x", DType::F32, [None, Some(4)])?;
        let w = g.variable("w", &g.zeros([4]))?;
        let loss = x.sub(&w.read())?.square().mean();
        let optimizer = GradientDescent::new(0.1);
        if built == Built::BeforeAnInput {
            return Ok((x, task.minimize(optimizer, &loss)?));
        }
        if built == Built::AfterCounting {
            task.count_inputs(g)?;
        }
        Ok((x, Optimizer::from(optimizer).minimize(&loss, &g.global_step()?)?))
    })?;
    let second = early.unwrap_or_else(|| make(other));
    let stop = StopAtStep::last_step(6);
    let mut session = MonitoredSession::builder(&task, g).hook(stop).open().await?;
    while !session.should_stop() {
        let input = if session.global_step() % 3 == 0 { &second } else { &first };
        let feeds = |batch: Batch| vec![(x.clone(), batch.features)];
        session.run().feed_from(input, feeds).target(&train_op).await?;
    }
    session.close().await
}

/// What is said of `two_inputs`, the second called `other`, if checkpoints are written or not.
fn said_of(built: Built, other: &'static str, checkpoints: &str) -> String {
    let text = format!(
        "cluster = {{ ps = 1, worker = 1 }}\n{checkpoints}\nstop.steps = 6\n\
         run = [{{ name = 'only', mode = 'async' }}]\n"
    );
    let simulated =
        Experiment::parse(text).unwrap().simulate(move |task| two_inputs(task, built, other));
    simulated.err().map_or_else(String::new, |error| error.to_string())
}

#[test]
fn a_training_is_refused_whose_checkpoints_would_lack_the_position_of_an_input() {
    let saved = "checkpoint = { every_steps = 2 }";
    for built in [Built::BeforeAnInput, Built::ByAnOptimizer] {
        let said = said_of(built, "others", saved);
        let named = if built == Built::ByAnOptimizer { "`numbers`" } else { "`others`" };
        assert!(said.contains(named) && said.contains("Task::count_inputs"), "{said}");
        assert_eq!(said_of(built, "others", ""), "", "without checkpoints it trains");
    }
    assert_eq!(said_of(Built::AfterCounting, "others", saved), "");
    let said = said_of(Built::AfterCounting, "numbers", saved);
    assert!(said.contains("two inputs are called `numbers`"), "{said}");
}

#[test]
fn reading_takes_the_time_that_the_scenario_says_beside_the_steps() {
    let folder = digits("streamed_rate");
    // A batch is 16 samples of 64 values and a label, 4160 bytes.
    let seconds = |rate: &str| {
        let text = scenario(&folder, "sync", "");
        let text = format!(
            "{text}{rate}\n[compute]\nstep_time = {{ law = 'constant', value = '10ms' }}\n"
        );
        simulated(&text).seconds
    };
    let without = seconds("");
    assert_near("reading in 4 ms", seconds("read_rate = '1.04MB/s'"), without, 0.02);
    assert_near("reading in 40 ms", seconds("read_rate = '104kB/s'"), 60.0 * 0.04, 0.03);
}

#[test]
fn a_broken_record_ends_a_training_with_its_file_and_number() {
    let folder = digits("streamed_broken");
    let file = format!("{folder}/train-0.tfrecord");
    let mut bytes = fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&file, bytes).unwrap();
    let text = scenario(&folder, "async", "");
    let failed = Experiment::parse(text).unwrap().simulate(train).unwrap_err().to_string();
    let said = "train-0.tfrecord, record 500: the data does not match its checksum";
    assert!(failed.contains(said), "{failed}");
}
