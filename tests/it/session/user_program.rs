//! A program of one's own, as a user writes it: the example in `sims/`.

#[path = "../../../sims/digits_trainer.rs"]
pub(crate) mod digits_trainer;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use trainyard::data::Pipeline;
use trainyard::experiment::Experiment;
use trainyard::prelude::*;
use trainyard::sync::Mode;
use trainyard::training::{SharedRecording, Watch};
use trainyard::units::Time;

use crate::support::checkers::check;
use crate::support::fixture::assert_error;
use crate::support::simulated::{Simulated, mean};

#[test]
fn the_example_learns_the_digits_in_every_mode() {
    for mode in
        [Mode::Async, Mode::Sync { backups: 0, cancel: false }, Mode::BoundedStaleness { slack: 2 }]
    {
        let training = Simulated::new(2, 3, mode).digits().steps(150);
        let trained = training.run_program(digits_trainer::trainer);
        assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
        check(&training, &trained);
        let loss =
            |from, to| mean(trained.applied(from, to).map(|step| f64::from(step.loss.unwrap())));
        let (before, after) = (loss(0, 10), loss(140, 150));
        assert!(before > 1.5 && after < 0.7, "{mode}: the loss went from {before} to {after}");
    }
}

#[test]
fn a_program_that_knows_nothing_of_it_trains_copies_and_ends_at_what_the_workers_share() {
    let modes =
        [Mode::LocalSgd { every: 2, backups: 0 }, Mode::ElasticAveraging { every: 2, alpha: 0.3 }];
    for mode in modes {
        let training = Simulated::new(2, 3, mode).digits().steps(300);
        let trained = training.run_program(digits_trainer::trainer);
        assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
        let evaluation = trained.evaluation.expect("the example evaluates at the end");
        assert!(evaluation.accuracy > 0.9, "{mode}: {evaluation:?}");
        let local = trained.steps.iter().filter(|step| step.global_step == 0).count();
        assert!(local >= 3, "{mode}: each worker takes a step of its own before it exchanges");
    }
}

/// A trainer that forgets its training operation, and has nothing that stops it.
async fn forgetful_trainer(task: Task) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    let g = Graph::new();
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let (x, loss) = g.with_device_fn(setter, |g| {
        let x = g.placeholder("x", DType::F32, [None, Some(64)])?;
        let loss = dense(&x, 10)?.mean();
        task.minimize(Adagrad::new(0.01), &loss)?;
        Ok((x, loss))
    })?;
    let mut session = MonitoredSession::builder(&task, g).open().await?;
    while !session.should_stop() {
        session.run().feed(&x, task.next_batch()?.features).fetch(&loss).await?;
    }
    session.close().await
}

#[test]
fn the_time_limit_of_the_scenario_ends_a_program_that_never_trains() {
    let limit = Duration::from_millis(300);
    let training = Simulated::new(1, 2, Mode::Async).digits().until(limit);
    let trained = training.run_program(forgetful_trainer);
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
    assert!(trained.steps.is_empty() && trained.outcome.ended >= Time::ZERO.after(limit));
}

#[test]
fn a_chief_whose_program_opens_no_session_is_named_by_those_who_wait_for_it() {
    let training = Simulated::new(1, 3, Mode::Sync { backups: 0, cancel: false }).digits();
    let trained = training.steps(20).run_program(|task| async move {
        if task.is_chief() { Ok(()) } else { digits_trainer::trainer(task).await }
    });
    let error = trained.outcome.result.unwrap_err();
    assert_eq!(error.code, Code::FailedPrecondition, "{error}");
    assert!(error.message.contains("the chief has ended without a session"), "{error}");
    assert_eq!(error.task.map(|task| task.to_string()).as_deref(), Some("worker:0"));
}

/// A literal port of TensorFlow's distributed trainer: the optimizer knows of no run.
async fn plain_trainer(task: Task) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    let g = Graph::new();
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let (x, y, train_op) = g.with_device_fn(setter, |g| {
        let x = g.placeholder("x", DType::F32, [None, Some(64)])?;
        let y = g.placeholder("y", DType::I32, [None])?;
        let loss = sparse_softmax_cross_entropy(&dense(&x, 10)?, &y)?.mean();
        let train_op = Adagrad::new(0.01).minimize(&loss, &g.global_step()?)?;
        Ok((x, y, train_op))
    })?;
    let hook = StopAtStep::last_step(20);
    let mut session = MonitoredSession::builder(&task, g).hook(hook).open().await?;
    while !session.should_stop() {
        let batch = task.next_batch()?;
        session.run().feed(&x, batch.features).feed(&y, batch.labels).target(&train_op).await?;
    }
    session.close().await
}

#[test]
fn a_plain_optimizer_trains_in_an_asynchronous_run_of_several_workers() {
    let training = Simulated::new(2, 3, Mode::Async).digits();
    let trained = training.run_program(plain_trainer);
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
    check(&training, &trained);
    assert!(trained.steps.len() >= 20);
}

#[test]
fn a_plain_optimizer_is_refused_before_the_first_step_of_any_other_run() {
    let others =
        [Mode::Sync { backups: 0, cancel: false }, Mode::KAsync { k: 2 }, Mode::StalenessAware];
    for mode in others {
        let trained = Simulated::new(1, 2, mode).digits().run_program(plain_trainer);
        let error = trained.outcome.result.unwrap_err();
        assert_eq!(
            (trained.steps.len(), error.code),
            (0, Code::InvalidArgument),
            "{mode}: {error}"
        );
        for part in ["train (CommitStep)", "user_program.rs", &format!("({mode})"), "task.minimize"]
        {
            assert!(error.message.contains(part), "{mode}: {part} is not in: {error}");
        }
    }
}

/// A trainer that closes no session, a monitored one or a plain one. The chief takes 10 steps, and
/// others 5.
async fn careless_trainer(task: Task, is_monitored: bool) -> Result<()> {
    let Some(replica) = task.replica() else { return task.join().await };
    let g = Graph::new();
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let train_op = g.with_device_fn(setter, |g| {
        let loss = g.variable("w", &g.zeros([4]))?.read().sum();
        task.minimize(GradientDescent::new(0.1), &loss)
    })?;
    let steps = if replica.worker == 0 { 10 } else { 5 };
    if is_monitored {
        let mut session = MonitoredSession::builder(&task, g).open().await?;
        for _ in 0..steps {
            session.run().target(&train_op).await?;
        }
        return Ok(());
    }
    let session = Session::new(&task.target(), &g).await?;
    let first = if task.is_chief() { g.initializer() } else { g.await_initialization() };
    session.run().target(first).await?;
    for _ in 0..steps {
        session.run().target(&train_op).await?;
    }
    Ok(())
}

#[test]
fn a_worker_that_returns_without_closing_its_session_leaves_and_the_others_go_on() {
    for mode in [Mode::Async, Mode::Sync { backups: 0, cancel: false }] {
        for is_monitored in [true, false] {
            let training = Simulated::new(1, 2, mode);
            let trained = training.run_program(|task| careless_trainer(task, is_monitored));
            let result = trained.outcome.result;
            assert!(result.is_ok(), "{mode}, monitored: {is_monitored}: {result:?}");
            let expected = if is_monitored { 15 } else { 0 };
            assert_eq!(trained.steps.len(), expected, "{mode}, monitored: {is_monitored}");
        }
    }
}

#[test]
fn a_chief_that_closes_no_session_with_checkpoints_in_a_folder_fails_since_they_lack_the_end() {
    let text = "[cluster]\nps = 1\nworker = 2\n[program]\nmodel = 'null'\nbatch = 8\n\
                [checkpoint]\ndirectory = 'saved'\nevery_steps = 4\n[stop]\nsteps = 100\n";
    let trial = Experiment::parse(text.to_owned()).unwrap().trials().unwrap().remove(0);
    let recording = SharedRecording::default();
    let simulated = trial.simulate_on_servers(recording, |_, task| careless_trainer(task, true));
    let says = ["the chief's program has ended without closing its `MonitoredSession`"];
    assert_error(simulated.outcome.result, Code::FailedPrecondition, &says);
}

/// A trainer that the end of its input leaves by `?`. The inputs have `lengths` elements, one for
/// each worker.
async fn unclosed_trainer(task: Task, lengths: [usize; 2]) -> Result<()> {
    let Some(replica) = task.replica() else { return task.join().await };
    let elements = vec![Tensor::full([4], 1f32); lengths[replica.worker as usize]];
    let input = task.input("elements", Pipeline::from_elements(elements));
    let g = Graph::new();
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let (x, train_op) = g.with_device_fn(setter, |g| {
        let x = g.placeholder("x", DType::F32, [Some(4)])?;
        let loss = g.variable("w", &g.zeros([4]))?.read().mul(&x)?.sum();
        Ok((x, task.minimize(GradientDescent::new(0.1), &loss)?))
    })?;
    let hook = StopAtStep::last_step(200);
    let mut session = MonitoredSession::builder(&task, g).hook(hook).open().await?;
    while !session.should_stop() {
        let run = session.run().feed_from(&input, |element| vec![(x.clone(), element)]);
        run.target(&train_op).await?;
    }
    session.close().await
}

#[test]
fn a_worker_that_the_end_of_its_input_leaves_by_the_question_mark_has_left_in_good_order() {
    for mode in [Mode::Async, Mode::Sync { backups: 0, cancel: false }] {
        let training = Simulated::new(1, 2, mode);
        let trained = training.run_program(|task| unclosed_trainer(task, [1000, 5]));
        assert!(trained.outcome.result.is_ok(), "{mode}: {:?}", trained.outcome.result);
        let of_second = trained.steps.iter().filter(|step| step.worker.index() == 1).count();
        let last = trained.steps.iter().map(|step| step.global_step).max();
        assert_eq!((of_second, last), (5, Some(200)), "{mode}");
    }
}

#[test]
fn a_chief_that_the_end_of_its_input_leaves_is_told_how_to_save_its_last_checkpoint() {
    let training = Simulated::new(1, 2, Mode::Async);
    let trained = training.run_program(|task| unclosed_trainer(task, [5, 1000]));
    let says = ["the input `elements` has ended", "close_after", "saves the last checkpoint"];
    assert_error(trained.outcome.result, Code::OutOfRange, &says);
}

/// Notes at which step a run says that it ends.
struct Ends(Arc<Mutex<Vec<u64>>>);

impl Watch for Ends {
    fn ends_at(&mut self, last: u64) {
        self.0.lock().unwrap().push(last);
    }
}

#[test]
fn the_chief_says_once_at_which_step_its_program_stops_whatever_the_scenario_says() {
    let ends = Arc::<Mutex<Vec<u64>>>::default();
    let text = "[cluster]\nps = 1\nworker = 2\n[stop]\nsteps = 1000\n";
    let trial = Experiment::parse(text.to_owned()).unwrap().trials().unwrap().remove(0);
    let recording = SharedRecording::showing(Ends(Arc::clone(&ends)));
    let simulated =
        trial.simulate_on_servers(recording, |_, task| unclosed_trainer(task, [1000, 1000]));
    simulated.outcome.result.unwrap();
    assert_eq!(*ends.lock().unwrap(), [200]);
}

#[test]
fn a_program_waits_by_the_clock_of_its_task() {
    let program = |task: Task| async move {
        let (began, pause) = (task.now(), Duration::from_secs(3600));
        task.sleep(pause).await;
        assert_eq!(task.now().since(began), pause);
        Ok(())
    };
    let trained = Simulated::new(1, 1, Mode::Async).run_program(program);
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
}

#[test]
fn a_program_that_panics_before_it_gives_its_future_is_said_to_have_panicked() {
    let program = |_: Task| -> std::future::Ready<Result<()>> { panic!("no such file") };
    let trained = Simulated::new(1, 1, Mode::Async).run_program(program);
    let says = ["the program panicked: no such file"];
    assert_error(trained.outcome.result.map(drop), Code::Internal, &says);
}
