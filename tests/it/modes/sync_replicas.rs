//! TensorFlow's own synchronous training, after its `sync_replicas_optimizer_test.py`, and
//! trainings with it.

use std::time::Duration;

use trainyard::checkpoint::Memory;
use trainyard::cluster::TaskName;
use trainyard::experiment::Experiment;
use trainyard::graph::{Gradient, GraphProblem, IndexedSlices};
use trainyard::prelude::*;
use trainyard::report::Run;
use trainyard::simulation::{FaultKind, Trigger};
use trainyard::sync::Mode;
use trainyard::training::{Scaffold, SharedRecording, StepStats, train};
use trainyard::units::Time;

use crate::support::fixture::{assert_error, both, cluster, impatient, matrix, on_actix};
use crate::support::simulated::{Simulated, Trained, assert_near};

/// A worker of TensorFlow's test: a session of its own to train two scalars and a row of a table.
struct Worker {
    session: Session,
    op: SyncReplicasOp,
    /// The global step, two scalars and a table.
    values: [Output; 4],
    local_step: Output,
}

impl Worker {
    async fn new(server: &Server, number: u16, aggregate: u32, total: u32) -> Result<Self> {
        let g = Graph::new();
        let setter = ReplicaDeviceSetter::new(&server.server_def().cluster);
        let setter =
            setter.worker_device(server.devices().next().unwrap().to_string().parse().unwrap());
        let (op, values) = g.with_device_fn(setter, |g| {
            let step = g.global_step()?;
            let (v0, v1) =
                (g.variable("v0", &g.constant(0f32))?, g.variable("v1", &g.constant(1f32))?);
            let table = g.variable("sparse", &g.constant(matrix(2, 1, &[3.0, 4.0])))?;
            let by = 0.2 * f32::from(number);
            let row = IndexedSlices::new(
                &g.constant(matrix(1, 1, &[0.1 + by])),
                &g.constant(Tensor::new([1], &[1i64])?),
                2,
            )?;
            let pairs = [
                (v0.clone(), Gradient::from(g.constant(0.1 + by))),
                (v1.clone(), g.constant(0.9 + by).into()),
                (table.clone(), row.into()),
            ];
            let optimizer = SyncReplicas::new(GradientDescent::new(2.0), aggregate, total);
            let op = optimizer.apply_gradients(&pairs, &step)?;
            Ok((op, [step, v0, v1, table].map(|variable| variable.read())))
        })?;
        let locals = g.local_initializers();
        let session = Session::new(&server.target(), &g).await?;
        if number == 0 {
            session.run().target(g.initializer()).await?;
        }
        session.run().target(&locals[0].1).await?;
        if number == 0 {
            let tokens = op.init_tokens(None)?;
            session.run().target(op.chief_init()).await?;
            session.run().target(&tokens).await?;
        } else {
            session.run().target(op.local_init()).await?;
        }
        Ok(Self { session, op, values, local_step: locals[0].0.read() })
    }

    async fn step(&self) -> Result<()> {
        self.session.run().target(&self.op).await.map(drop)
    }

    /// An update, as the chief makes it beside its own steps.
    async fn update(&self) -> Result<()> {
        self.session.run().target(self.op.sync_op()).await.map(drop)
    }

    /// Asserts what the variables are, and its own step.
    async fn expect(&self, step: i64, [v0, v1, row]: [f32; 3], local_step: i64) -> Result<()> {
        let [global_step, first, second, table] = &self.values;
        let found = self.session.run().fetch(global_step).fetch(first).fetch(second).fetch(table);
        let found = found.fetch(&self.local_step).await?;
        assert_eq!((found.scalar::<i64>(0)?, found.scalar::<i64>(4)?), (step, local_step));
        let table = found[3].values::<f32>()?;
        for (found, expected) in [found.scalar(1)?, found.scalar(2)?, table[0], table[1]]
            .into_iter()
            .zip([v0, v1, 3.0, row])
        {
            let found: f32 = found;
            assert!((found - expected).abs() < 1e-6, "{found}, expected {expected}");
        }
        Ok(())
    }
}

#[test]
fn two_workers_train_by_the_numbers_of_tensorflow_and_each_ones_second_gradient_is_wasted() {
    on_actix(async {
        let servers = cluster(1, 2);
        let (a, b) =
            (Worker::new(&servers[1], 0, 2, 2).await?, Worker::new(&servers[2], 1, 2, 2).await?);
        a.step().await?;
        b.step().await?;
        a.update().await?;
        for worker in [&a, &b] {
            worker.expect(1, [-0.4, -1.0, 3.6], 0).await?;
        }
        a.step().await?;
        b.step().await?;
        for worker in [&a, &b] {
            worker.expect(1, [-0.4, -1.0, 3.6], 1).await?;
        }
        let (steps, updated) = both(both(a.step(), b.step()), a.update()).await;
        steps.0?;
        steps.1?;
        updated?;
        for worker in [&a, &b] {
            worker.expect(2, [-0.8, -3.0, 3.2], 2).await?;
        }
        Ok(())
    });
}

#[test]
fn the_gradient_of_a_backup_worker_that_comes_too_late_is_dropped_and_it_goes_on_at_the_new_step() {
    on_actix(async {
        let servers = cluster(1, 3);
        let (a, b) =
            (Worker::new(&servers[1], 0, 2, 3).await?, Worker::new(&servers[2], 1, 2, 3).await?);
        let late = Worker::new(&servers[3], 2, 2, 3).await?;
        a.step().await?;
        b.step().await?;
        a.update().await?;
        late.step().await?;
        late.expect(1, [-0.4, -1.0, 3.6], 1).await?;
        late.step().await?;
        late.step().await?;
        a.update().await?;
        late.expect(2, [-1.4, -3.6, 2.6], 1).await
    });
}

#[test]
fn too_few_tokens_to_begin_with_are_an_error_and_none_are_an_operation_that_does_nothing() {
    on_actix(async {
        let servers = cluster(1, 1);
        let worker = Worker::new(&servers[1], 0, 3, 1).await?;
        let error = worker.op.init_tokens(Some(1)).unwrap_err();
        assert_eq!(error.problem, GraphProblem::TooFewTokens { given: 1, needed: 2 });
        assert!(error.to_string().contains("too few tokens"), "{error}");
        assert!(worker.op.init_tokens(Some(2)).is_ok());
        let servers = cluster(1, 1);
        let worker = Worker::new(&servers[1], 0, 1, 1).await?;
        worker.session.run().target(&worker.op.init_tokens(Some(0))?).await?;
        worker.step().await?;
        worker.session.run().target(worker.op.close_tokens()).await?;
        assert_error(worker.step().await, Code::OutOfRange, &["`sync_token_q` is closed"]);
        Ok(())
    });
}

#[test]
fn what_can_not_be_trained_is_an_error_when_it_is_built() -> Result<()> {
    let g = Graph::new();
    let (w, step) = (g.variable("w", &g.constant(1f32))?, g.global_step()?);
    let optimizer = SyncReplicas::new(GradientDescent::new(1.0), 1, 1);
    let none: [(Variable, Output); 0] = [];
    assert_eq!(
        optimizer.apply_gradients(&none, &step).err().unwrap().problem,
        GraphProblem::NoGradients
    );
    optimizer.minimize(&w.read().square(), &step)?;
    let twice = optimizer.minimize(&w.read().square(), &step).err().unwrap();
    assert!(matches!(twice.problem, GraphProblem::NameTaken(_)), "{twice}");
    Ok(())
}

/// How a training begins, and how many gradients of how many workers make an update.
#[derive(Clone, Copy)]
struct Tokens {
    first: Option<u32>,
    aggregate: u32,
    total: u32,
}

/// A trainer of the digits: by tokens, or in the mode of the run.
async fn trainer(task: Task, tokens: Option<Tokens>) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    let g = Graph::new();
    g.set_random_seed(task.seed());
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let (x, y, loss, accuracy, train_op, by_tokens) = g.with_device_fn(setter, |g| {
        let x = g.placeholder("x", DType::F32, [None, Some(64)])?;
        let y = g.placeholder("y", DType::I32, [None])?;
        let logits = dense(&dense(&x, 64)?.relu(), 10)?;
        let (loss, accuracy) =
            (sparse_softmax_cross_entropy(&logits, &y)?.mean(), accuracy(&logits, &y)?);
        let optimizer = Adam::new(0.004);
        let Some(Tokens { aggregate, total, .. }) = tokens else {
            let train_op = task.minimize(optimizer, &loss)?;
            return Ok((x, y, loss, accuracy, train_op.target().clone(), None));
        };
        let op =
            SyncReplicas::new(optimizer, aggregate, total).minimize(&loss, &g.global_step()?)?;
        Ok((x, y, loss, accuracy, op.train_op().clone(), Some(op)))
    })?;
    let mut builder = MonitoredSession::builder(&task, g);
    if let (Some(op), Some(tokens)) = (&by_tokens, tokens) {
        let hook = SyncReplicasHook::new(op);
        builder = builder.hook(if let Some(first) = tokens.first {
            hook.num_tokens(first)
        } else {
            hook
        });
    }
    let last = task.settings().stop.steps.unwrap();
    let mut session = builder.hook(StopAtStep::last_step(last)).open().await?;
    let mut trained = Ok(());
    while trained.is_ok() && !session.should_stop() {
        let next = || {
            task.next_batch()
                .map(|batch| vec![(x.clone(), batch.features), (y.clone(), batch.labels)])
        };
        trained = session.run().feed_with(next).target(&train_op).fetch(&loss).await.map(drop);
    }
    if task.is_chief() && trained.is_ok() {
        let test = task.dataset()?.test.whole();
        let seen = session.raw().run().feed(&x, test.features).feed(&y, test.labels);
        let seen = seen.fetch(&loss).fetch(&accuracy).await?;
        task.report_evaluation(trainyard::training::Evaluation {
            loss: seen.scalar(0)?,
            accuracy: seen.scalar::<f32>(1)?.into(),
            global_step: session.global_step(),
            at: task.now(),
        });
    }
    session.close_after(trained).await
}

fn digits(workers: u32, steps: u64) -> Simulated {
    Simulated::new(2, workers, Mode::Async).digits().batch(32).steps(steps)
}

fn by_tokens(training: &Simulated, first: Option<u32>, aggregate: u32) -> Trained {
    let tokens = Tokens { first, aggregate, total: training.workers() as u32 };
    let trained = training.run_program(|task| trainer(task, Some(tokens)));
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
    trained
}

fn of_worker(trained: &Trained, worker: u32) -> Vec<&StepStats> {
    trained.steps.iter().filter(|step| step.worker.index() == worker).collect()
}

#[test]
fn the_digits_are_learnt_with_the_hook_and_all_tasks_end_in_good_order() {
    let training = digits(3, 300);
    let trained = by_tokens(&training, None, 3);
    let evaluation = trained.evaluation.unwrap();
    assert!(evaluation.accuracy >= 0.95 && evaluation.global_step >= 300, "{evaluation:?}");
    assert_eq!(
        trained.digests(),
        by_tokens(&training, None, 3).digests(),
        "a run is replayed bit for bit"
    );
    let dropped = trained.steps.iter().filter(|step| !step.applied).count();
    assert!(
        (3..=20).contains(&dropped),
        "the second gradient of each, and not many more: {dropped}"
    );
    for worker in 0..3 {
        let own = of_worker(&trained, worker);
        assert_eq!(
            (own[0].global_step, own[0].applied, own[0].staleness),
            (0, true, 0),
            "its first step returns at once"
        );
        assert!(
            own.len() >= 290
                && own.windows(2).all(|pair| pair[0].global_step <= pair[1].global_step)
        );
    }
}

#[test]
fn without_free_tokens_no_gradient_is_wasted_and_the_losses_are_those_of_synchronous_training() {
    let trained = by_tokens(&digits(3, 40), Some(0), 3);
    let sync =
        Simulated::new(2, 3, Mode::Sync { backups: 0, cancel: false }).digits().batch(32).steps(40);
    let sync = sync.run_program(|task| trainer(task, None));
    for worker in 0..3 {
        let (own, other) = (of_worker(&trained, worker), of_worker(&sync, worker));
        for (number, (own, other)) in own.iter().zip(other).enumerate() {
            assert_eq!(
                (own.applied, own.staleness, own.global_step),
                (true, 0, number as u64 + 1),
                "{own:?}"
            );
            let what = format!("loss of step {number}");
            assert_near(&what, own.loss.unwrap().into(), other.loss.unwrap().into(), 1e-3);
        }
    }
}

#[test]
fn a_backup_worker_is_not_waited_for() {
    let training = digits(3, 60).slow(2, 100.0);
    let (all, backup) = (by_tokens(&training, None, 3), by_tokens(&training, None, 2));
    assert!(
        backup.reached(60) < 0.5 * all.reached(60),
        "{} and {}",
        backup.reached(60),
        all.reached(60)
    );
    let slow = of_worker(&backup, 2);
    let dropped = slow.iter().filter(|step| !step.applied).count();
    assert!(
        dropped * 2 > slow.len(),
        "{dropped} of {} gradients of the slow one come too late",
        slow.len()
    );
}

#[test]
fn fewer_workers_than_gradients_give_several_for_an_update() {
    let trained = by_tokens(&digits(2, 30), None, 3);
    let applied = trained.steps.iter().filter(|step| step.applied).count();
    assert!((3 * 30..3 * 30 + 8).contains(&applied), "{applied} gradients for 30 updates of 3");
}

#[test]
fn a_training_goes_on_from_its_checkpoint_with_new_tokens_after_a_parameter_server_was_lost() {
    let lost = |index| {
        let restart_after = Some(Duration::from_millis(50));
        let crash = FaultKind::Crash { task: TaskName::new("ps", index), restart_after };
        let training = digits(3, 60).checkpoints(&Memory::default(), 20);
        training.fault(Trigger::Time(Time::ZERO.after(Duration::from_millis(14))), crash)
    };
    for (task, training) in [("the one with the tokens", lost(0)), ("the other", lost(1))] {
        let trained = by_tokens(&training, None, 3);
        let own = of_worker(&trained, 0);
        let back = own.windows(2).find(|pair| pair[1].global_step < pair[0].global_step);
        assert!(back.is_some_and(|pair| pair[1].global_step >= 20), "{task}: {back:?}");
        assert_eq!(own.last().unwrap().global_step, 60, "{task}");
    }
}

#[test]
fn updates_that_go_on_while_the_chief_saves_cost_no_checkpoint() {
    let training = digits(3, 300).checkpoints(&Memory::default(), 1);
    let trained = by_tokens(&training, None, 2);
    // After a save that has failed the chief pauses, for longer than the others train.
    let own = of_worker(&trained, 0).len();
    assert!(own > 150, "the chief has taken {own} steps to the global step 300");
}

#[test]
fn an_update_that_is_lost_while_the_chief_waits_for_its_token_does_not_hold_up_the_training() {
    for millis in 10..20 {
        let lasts = Duration::from_secs(3);
        let freeze = FaultKind::Freeze { task: TaskName::new("ps", 1), lasts };
        let training = digits(3, 60);
        let at = Trigger::Time(Time::ZERO.after(Duration::from_millis(millis)));
        let trained = by_tokens(&training.fault(at, freeze), None, 3);
        let ended = trained.outcome.ended.as_secs_f64();
        assert!((3.0..20.0).contains(&ended), "frozen at {millis} ms: {ended} s");
    }
}

#[test]
fn a_hook_of_another_graph_than_the_session_is_refused() {
    let trained = Simulated::new(1, 1, Mode::Async).run_program(|task| async move {
        if task.job() == "ps" {
            return task.join().await;
        }
        let (g, other) = (Graph::new(), Graph::new());
        let w = other.variable("w", &other.constant(1f32))?;
        let optimizer = SyncReplicas::new(GradientDescent::new(1.0), 1, 1);
        let op = optimizer.minimize(&w.read().square(), &other.global_step()?)?;
        g.global_step()?;
        MonitoredSession::builder(&task, g).hook(SyncReplicasHook::new(&op)).open().await.map(drop)
    });
    assert_error(
        trained.outcome.result,
        Code::InvalidArgument,
        &["of another graph than the session"],
    );
}

/// TensorFlow: `variable_averages`, which the chief's operation moves after each update.
#[test]
fn the_chiefs_update_moves_the_averages_too() {
    on_actix(async {
        let servers = cluster(0, 1);
        let g = Graph::new();
        let (v, step) = (g.variable("v", &g.constant(4f32))?, g.global_step()?);
        let average = ExponentialMovingAverage::new(0.75);
        let optimizer = SyncReplicas::of_all(GradientDescent::new(1.0), 1)
            .variable_averages(&average, std::slice::from_ref(&v));
        let op = optimizer.apply_gradients(&[(v.clone(), g.constant(2f32))], &step)?;
        assert_eq!(op.tokens_of_an_update(), 1, "as many replicas as gradients");
        let followed = average.average(&v).expect("the operation has made it").read();
        let session = Session::new(&servers[0].target(), &g).await?;
        session.run().target(g.initializer()).await?;
        session.run().target(&g.local_initializers()[0].1).await?;
        session.run().target(op.chief_init()).await?;
        session.run().target(&op).target(op.sync_op()).await?;
        let found = session.run().fetch(&v.read()).fetch(&followed).await?;
        // 0.75 of 4, and 0.25 of 2.
        assert_eq!((found.scalar::<f32>(0)?, found.scalar::<f32>(1)?), (2.0, 3.5));
        Ok(())
    });
}

/// TensorFlow: `total_num_replicas` left out.
#[test]
fn by_default_an_update_takes_a_gradient_of_each_worker() {
    on_actix(async {
        let servers = cluster(0, 1);
        let g = Graph::new();
        let (v, step) = (g.variable("v", &g.constant(4f32))?, g.global_step()?);
        let by = g.placeholder("by", DType::F32, [0usize; 0])?;
        let optimizer = SyncReplicas::of_all(GradientDescent::new(1.0), 3);
        let op = optimizer.apply_gradients(&[(v.clone(), by.clone())], &step)?;
        assert_eq!(op.tokens_of_an_update(), 3, "a token for each worker");
        let (tokens, options) = (op.init_tokens(None)?, impatient());
        let session = Session::with_options(&servers[0].target(), &g, options).await?;
        session.run().target(g.initializer()).await?;
        session.run().target(&g.local_initializers()[0].1).await?;
        session.run().target(op.chief_init()).await?;
        session.run().target(&tokens).await?;
        for by_worker in [1f32, 2.0] {
            session.run().target(op.train_op()).feed(&by, by_worker).await?;
        }
        let early = session.run().target(op.sync_op()).await.map(drop);
        assert_error(early, Code::DeadlineExceeded, &[]);
        session.run().target(op.train_op()).feed(&by, 6f32).await?;
        session.run().target(op.sync_op()).await?;
        let found = session.run().fetch(&v.read()).fetch(&step.read()).await?;
        assert_eq!((found.scalar::<f32>(0)?, found.scalar::<i64>(1)?), (4.0 - 3.0, 1));
        Ok(())
    });
}

/// A scenario's training by tokens is the one that a program of one's own builds.
#[test]
fn a_scenario_trains_by_tokens() {
    let text = |program: &str, mode: &str| {
        format!(
            "[cluster]\nps = 1\nworker = 3\n[compute]\n\
             step_time = {{ law = 'constant', value = '10ms' }}\n[stop]\nsteps = 20\n[program]\n\
             sync_replicas = {{ {program} }}\n[[run]]\nname = 'a'\nmode = '{mode}'\n"
        )
    };
    let scenario = |program: &str, mode: &str| {
        Experiment::parse(text(program, mode)).and_then(|experiment| experiment.simulate(train))
    };
    let run = |program: &str| scenario(program, "async").unwrap().runs.remove(0);
    let (all, backup, double) = (
        run("num_tokens = 0"),
        run("num_tokens = 0, replicas_to_aggregate = 2"),
        run("num_tokens = 3, replicas_to_aggregate = 6"),
    );
    // Each update is of as many gradients as the scenario says.
    let per_step = |run: &Run| run.gradients.applied as f64 / run.global_steps as f64;
    assert_near("all", per_step(&all), 3.0, 0.1);
    assert_near("one is a backup", per_step(&backup), 2.0, 0.25);
    assert_near("two of each", per_step(&double), 6.0, 0.1);
    let sync = Experiment::parse(text("", "sync").replace("sync_replicas = {  }", "")).unwrap();
    let sync = sync.simulate(train).unwrap().runs.remove(0);
    assert_near("loss", all.final_loss.unwrap(), sync.final_loss.unwrap(), 0.05);
    let error = scenario("", "sync").unwrap_err().to_string();
    assert!(error.contains("takes `mode = \"async\"`"), "{error}");
    let error = scenario("num_tokens = 2, replicas_to_aggregate = 6", "async").unwrap_err();
    assert!(error.to_string().contains("at least 3 are needed"), "{error}");
    let table = text("", "async")
        .replace("[compute]", "[compute]\nnumerics = 'shapes'")
        .replace("[program]", "[program]\nmodel = 'embedding'");
    let error = Experiment::parse(table).and_then(|experiment| experiment.trials()).unwrap_err();
    assert!(error.to_string().contains("row by row"), "{error}");
}

#[test]
fn the_others_go_on_with_a_chief_that_was_asked_to_stop_once_it_is_back() {
    for checkpoint in ["", "checkpoint.every_steps = 5\n"] {
        let text = format!(
            "{checkpoint}program.sync_replicas = {{}}\nstop.steps = 100\n\
             run = [{{ mode = 'async' }}]\n\
             fault = [{{ at = '2ms', stop = 'worker:0', restart_after = '25ms' }}]\n"
        );
        let report = Experiment::parse(&text).unwrap().simulate(train).unwrap();
        assert_eq!(report.runs[0].global_steps, 100, "{checkpoint}");
    }
}

#[test]
fn a_worker_goes_on_at_the_batch_that_follows_from_the_tokens_of_so_many_updates() {
    // By step 20, each of two workers has taken so many steps.
    for (program, steps) in [
        ("", 10),
        ("sync_replicas = {}", 20),
        ("sync_replicas = { replicas_to_aggregate = 1 }", 20), // half of them too late
        ("sync_replicas = { replicas_to_aggregate = 3 }", 30),
    ] {
        let text = format!(
            "[cluster]\nps = 1\nworker = 2\n[program]\n{program}\n[[run]]\nmode = 'async'\n"
        );
        let trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
        let trained = trial.simulate_on_servers(SharedRecording::default(), |_, task| async move {
            if task.job() == "ps" {
                return task.join().await;
            }
            for _ in 0..steps {
                task.next_batch()?;
            }
            let expected = task.next_batch()?;
            let g = Graph::new();
            let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
            let (step, v) = g.with_device_fn(setter, |g| {
                Ok((g.global_step()?, g.variable("v", &g.constant(1f32))?))
            })?;
            let values = [step.assign(&g.constant(20i64))?, v.assign(&g.constant(1f32))?];
            let init = g.group("at_20", &[&values[0], &values[1]])?;
            let scaffold = Scaffold::new().init_op(&init, Vec::new());
            let session = MonitoredSession::builder(&task, g).scaffold(scaffold).open().await?;
            assert_eq!(session.global_step(), 20);
            assert_eq!(task.next_batch()?.features, expected.features, "{steps}");
            session.close().await
        });
        assert!(trained.outcome.result.is_ok(), "{program}: {:?}", trained.outcome.result);
    }
}
