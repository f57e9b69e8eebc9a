//! Workers that train copies of their own and average them: local SGD and DiLoCo.

use std::num::NonZeroU32;
use std::time::Duration;

use trainyard::checkpoint::Memory;
use trainyard::cluster::TaskName;
use trainyard::models::{Model, Null};
use trainyard::optimizer::LocalTrainOp;
use trainyard::prelude::*;
use trainyard::runtime::Encoding;
use trainyard::simulation::{FaultKind, Trigger};
use trainyard::sync::Mode;
use trainyard::training::{StepStats, train};
use trainyard::units::{BytesPerSecond, Time};

use crate::support::fixture::{both, cluster, on_actix};
use crate::support::simulated::{Simulated, Trained};

const SYNC: Mode = Mode::Sync { backups: 0, cancel: false };

fn average(every: u32) -> Mode {
    Mode::LocalSgd { every, backups: 0 }
}

fn diloco(every: u32) -> Mode {
    Mode::DiLoCo { every, backups: 0, outer_learning_rate: 0.7, outer_momentum: 0.9 }
}

fn bytes_sent(trained: &Trained) -> f64 {
    trained.outcome.sent.values().map(|sent| sent.total).sum::<u64>() as f64
}

/// A worker's own `w` of two elements, whose gradient it is fed, and the center.
struct Worker {
    session: Session,
    gradient: Output,
    train: LocalTrainOp,
    own: Output,
    center: Output,
}

impl Worker {
    async fn new(server: &Server, worker: u32, outer: Momentum, every: u32) -> Result<Self> {
        let g = Graph::new();
        let setter = ReplicaDeviceSetter::new(&server.server_def().cluster);
        let setter =
            setter.worker_device(server.devices().next().unwrap().to_string().parse().unwrap());
        let (gradient, train, own) = g.with_device_fn(setter, |g| {
            let own = g.with_local_variables(|g| {
                g.variable("w", &g.constant(Tensor::new([2], &[1f32, 2.0]).unwrap()))
            })?;
            let gradient = g.placeholder("gradient", DType::F32, [Some(2)])?;
            let outer = outer.coordinated(SYNC, worker, 2);
            let optimizer = LocalSgd::new(GradientDescent::new(0.1), outer, every);
            let train =
                optimizer.apply_gradients(&[(own.clone(), gradient.clone())], &g.global_step()?)?;
            Ok((gradient, train, own.read()))
        })?;
        let session = Session::new(&server.target(), &g).await?;
        if worker == 0 {
            session.run().target(g.initializer()).await?;
        }
        for (_, initializer) in g.local_initializers() {
            session.run().target(&initializer).await?;
        }
        let variables = g.variables();
        let center =
            variables.iter().find(|variable| variable.name() == "w/center").unwrap().read();
        Ok(Self { session, gradient, train, own, center })
    }

    /// Takes step `number`.
    async fn step(&self, number: u64, gradient: [f32; 2]) -> Result<()> {
        let run = self.session.run().feed(&self.gradient, Tensor::new([2], &gradient)?);
        run.target(self.train.at(number)).await.map(|_| ())
    }

    /// Its own values, and the center's.
    async fn values(&self) -> Result<[Vec<f32>; 2]> {
        let values = self.session.run().fetch(&self.own).fetch(&self.center).await?;
        Ok([values[0].values::<f32>()?.to_vec(), values[1].values::<f32>()?.to_vec()])
    }
}

#[track_caller]
fn assert_close(found: &[f32], expected: [f32; 2]) {
    let is_close =
        found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6);
    assert!(is_close, "{found:?}, expected {expected:?}");
}

#[test]
fn the_update_of_a_workers_own_copy_is_a_kernel_of_its_step() {
    // Adam moves several times as many bytes as the gradient's only operation.
    let model = Model::Null(Null { elements: 1 << 18, ..Null::scalars(1) });
    let training = Simulated::new(1, 2, average(4)).model(model).adam(0.1).shapes();
    let trained = training.memory(BytesPerSecond(1e9)).steps(3).run();
    let between = trained.steps.iter().filter(|step| step.is_local && step.local_step > 0);
    assert!(between.clone().count() >= 10, "{:?}", trained.steps);
    for step in between {
        let (whole, computed) = (step.ended.since(step.started), step.compute_time().unwrap());
        assert!(computed <= whole && computed > whole.mul_f64(0.99), "it waits: {step:?}");
    }
}

#[test]
fn diloco_moves_the_center_by_nesterovs_momentum_of_the_mean_move_and_all_begin_again_there() {
    on_actix(async {
        let servers = cluster(1, 2);
        let outer = || Momentum::new(0.7, 0.9).use_nesterov();
        let (a, b) = (
            Worker::new(&servers[1], 0, outer(), 2).await?,
            Worker::new(&servers[2], 1, outer(), 2).await?,
        );
        for worker in [&a, &b] {
            assert_eq!(worker.values().await?, [vec![1.0, 2.0], vec![1.0, 2.0]]);
        }
        // One moves by 0.1 and -0.2 a step, the other by 0.3 and 0.
        let (one, other) = ([1.0, -2.0], [3.0, 0.0]);
        a.step(0, one).await?;
        b.step(0, other).await?;
        assert_close(&a.values().await?[0], [0.9, 2.2]);
        assert_close(&b.values().await?[0], [0.7, 2.0]);
        assert_eq!(b.values().await?[1], [1.0, 2.0], "the center waits");
        // The mean move of two steps is (0.4, -0.2); m = that, and the center moves by 0.7 (m + 0.9
        // m) = 1.33 m.
        let (first, second) = both(a.step(1, one), b.step(1, other)).await;
        first?;
        second?;
        let [own, center] = a.values().await?;
        assert_close(&center, [1.0 - 1.33 * 0.4, 2.0 + 1.33 * 0.2]);
        assert!(
            own == center && b.values().await? == [own.clone(), own.clone()],
            "to the last bit"
        );
        // Then m = 0.9 m + d = 1.9 d, and the center moves by 0.7 (d + 0.9 · 1.9 d) = 1.897 d.
        for number in 2..4 {
            let (first, second) = both(a.step(number, one), b.step(number, other)).await;
            first?;
            second?;
        }
        let [own, center] = b.values().await?;
        assert_close(&center, [1.0 - (1.33 + 1.897) * 0.4, 2.0 + (1.33 + 1.897) * 0.2]);
        assert!(
            own == center && a.values().await? == [own.clone(), own.clone()],
            "to the last bit"
        );
        Ok(())
    });
}

#[test]
fn a_shared_variable_is_refused_with_the_way_to_make_it_the_workers_own() -> Result<()> {
    let g = Graph::new();
    let shared = g.variable("w", &g.zeros([2]))?;
    let outer = GradientDescent::new(1.0).coordinated(SYNC, 0, 1);
    let pairs = [(shared, g.zeros([2]))];
    let error = LocalSgd::new(GradientDescent::new(0.1), outer, 2)
        .apply_gradients(&pairs, &g.global_step()?);
    let said = error.unwrap_err().to_string();
    assert!(said.contains("`w`") && said.contains("with_local_variables"), "{said}");
    Ok(())
}

/// The mean losses of the workers' steps by the number of the step.
fn losses(trained: &Trained) -> Vec<f32> {
    let last = trained.steps.iter().map(|step| step.local_step).max().unwrap();
    let of = |number| {
        trained
            .steps
            .iter()
            .filter(move |step| step.local_step == number)
            .map(|step| step.loss.unwrap())
    };
    (0..=last).map(|number| of(number).sum::<f32>() / of(number).count() as f32).collect()
}

/// Each step rounds a weight thrice more: the worker's own, its move and the center. Losses of
/// about 2 so differ by some units of 2^-24 a step.
#[test]
fn an_average_after_each_step_of_gradient_descent_is_synchronous_training_but_for_rounding() {
    let training = |mode| Simulated::new(2, 3, mode).digits().steps(30).run();
    let (shared, own) = (training(SYNC), training(average(1)));
    for (number, (shared, own)) in losses(&shared).into_iter().zip(losses(&own)).enumerate() {
        assert!(
            (shared - own).abs() <= 4e-7 * (number + 2) as f32,
            "step {number}: {shared} and {own}"
        );
    }
    assert_eq!(shared.steps.len(), own.steps.len());
    let accuracy = |trained: &Trained| trained.evaluation.unwrap().accuracy;
    assert!((accuracy(&shared) - accuracy(&own)).abs() < 0.01);
}

/// A model of the digits with a hidden layer.
fn digits(mode: Mode) -> Simulated {
    Simulated::new(2, 2, mode).digits().model(Model::Mlp { hidden: vec![64] }).adam(0.002).batch(32)
}

#[test]
fn local_sgd_and_diloco_train_the_digits_and_send_less_by_the_steps_between_averages() {
    let each = digits(SYNC).steps(160).run();
    for mode in [average(8), diloco(8)] {
        let trained = digits(mode).steps(90).run();
        let accuracy = trained.evaluation.unwrap().accuracy;
        assert!(accuracy >= 0.95, "{mode}: {accuracy}");
        assert_eq!(trained.steps.len(), 2 * 8 * 90);
        let saved = (bytes_sent(&each) / 160.0) / (bytes_sent(&trained) / 720.0);
        assert!((6.5..=8.5).contains(&saved), "{mode}: {saved} times less a step");
    }
}

#[test]
fn a_local_step_is_never_stale_and_leaves_the_global_step_as_it_is() {
    let trained = digits(average(4)).slow(1, 3.0).steps(5).run();
    assert_eq!(trained.steps.len(), 2 * 4 * 5);
    for step in &trained.steps {
        assert_eq!(step.global_step, (step.local_step + 1) / 4, "{step:?}");
        assert!(step.staleness == 0 && step.applied && step.loss.is_some(), "{step:?}");
    }
}

#[test]
fn workers_of_different_speeds_wait_for_each_other_at_an_average_alone() {
    let trained = digits(average(8)).slow(1, 2.0).steps(4).run();
    let ended = |worker: u32, number| {
        let is_it = |step: &&_| {
            let step: &StepStats = step;
            step.worker.index() == worker && step.local_step == number
        };
        trained.steps.iter().find(is_it).unwrap().ended.as_secs_f64()
    };
    for round in 0..4 {
        let (local, average) = (8 * round + 6, 8 * round + 7);
        assert!(ended(0, local) < ended(1, local), "round {round}: the fast one is there first");
        assert!(
            (ended(0, average) / ended(1, average) - 1.0).abs() < 0.02,
            "round {round}: and waits"
        );
    }
}

#[test]
fn a_training_that_ends_between_two_averages_ends_with_the_center() {
    let until = |millis| digits(average(1000)).until(Duration::from_millis(millis)).run();
    let (few, more) = (until(5), until(10));
    assert!(few.steps.len() < more.steps.len() && more.steps.len() < 2000);
    assert_eq!(few.ending, more.ending, "no average, and so nothing that all have learnt");
}

#[test]
fn a_model_without_data_averages_too() {
    let trained =
        Simulated::new(1, 2, average(5)).model(Model::Null(Null::scalars(3))).steps(4).run();
    assert_eq!(trained.steps.len(), 2 * 5 * 4);
}

#[test]
fn a_worker_that_comes_back_begins_at_the_center_and_is_averaged_again() {
    let (task, training) = (TaskName::new("worker", 1), digits(average(4)).steps(60));
    let whole = training.run().outcome.ended.as_secs_f64();
    let share = |share: f64| Duration::from_secs_f64(whole * share);
    let crash = FaultKind::Crash { task: task.clone(), restart_after: Some(share(0.1)) };
    let trained = training.fault(Trigger::Time(Time::ZERO.after(share(0.4))), crash).run();
    let back = Time::ZERO.after(share(0.5));
    let own: Vec<_> = trained.steps.iter().filter(|step| step.worker == task).collect();
    let again = own.iter().rposition(|step| step.local_step == 0).unwrap();
    assert!(again > 20 && own[again].started >= back, "{:?}", own[again]);
    let (first, after) = (own[0].loss.unwrap(), own[again].loss.unwrap());
    assert!(after < first / 2.0, "what was learnt before is not lost: {first} and then {after}");
    assert_eq!(own.last().unwrap().global_step, 60);
    assert!(trained.steps.len() < 2 * 4 * 60, "the other has averaged without it meanwhile");
}

#[test]
fn averages_can_be_compressed_as_gradients_can() {
    let exact = digits(average(8)).steps(90);
    let int8 = exact.clone().encoding(Encoding::Int8 { block: NonZeroU32::new(256).unwrap() });
    let (exact, int8) = (exact.run(), int8.run());
    let left = bytes_sent(&int8) / bytes_sent(&exact);
    assert!((0.25..0.3).contains(&left), "{left}");
    let accuracy = int8.evaluation.unwrap().accuracy;
    assert!(accuracy >= 0.95, "{accuracy}");
}

/// A trainer whose training operation is in a group, with averages of what it trains; it is run as
/// a target, or behind what is fetched.
async fn grouping_trainer(task: Task, is_fetched: bool) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    let g = Graph::new();
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let (x, y, loss, train_op) = g.with_device_fn(setter, |g| {
        let x = g.placeholder("x", DType::F32, [None, Some(64)])?;
        let y = g.placeholder("y", DType::I32, [None])?;
        let loss = sparse_softmax_cross_entropy(&dense(&x, 10)?, &y)?.mean();
        let train_op = task.minimize(Adagrad::new(0.01), &loss)?;
        let averages = ExponentialMovingAverage::new(0.9);
        let averaged = averages.apply(&g.trainable_variables(), train_op.target())?;
        let train_op = g.group("train", &[&averaged])?;
        let loss = g.with_control_dependencies(&[&train_op], |_| Ok(loss.identity()))?;
        Ok((x, y, loss, train_op))
    })?;
    let hook = StopAtStep::last_step(5);
    let mut session = MonitoredSession::builder(&task, g).hook(hook).open().await?;
    while !session.should_stop() {
        let batch = task.next_batch()?;
        let run = session.run().feed(&x, batch.features).feed(&y, batch.labels);
        if is_fetched {
            run.fetch(&loss).await?
        } else {
            run.target(&train_op).await?
        };
    }
    session.close().await
}

#[test]
fn a_training_operation_in_a_group_exchanges_as_often_as_one_by_itself() {
    let elastic = Mode::ElasticAveraging { every: 3, alpha: 0.3 };
    for mode in [average(3), diloco(3), elastic] {
        for is_fetched in [false, true] {
            // The end of a training that never exchanges.
            let training = Simulated::new(2, 2, mode).digits().until(Duration::from_secs(1));
            let trained = training.run_program(|task| grouping_trainer(task, is_fetched));
            assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
            let reached = trained.steps.iter().map(|step| step.global_step).max();
            assert!(reached >= Some(5) && trained.steps.len() < 50, "{mode}: {reached:?}");
            let is_whole = |step: &&StepStats| step.local_step % 3 == 2;
            assert!(trained.steps.iter().filter(is_whole).all(|step| step.global_step > 0));
        }
    }
}

#[test]
fn a_worker_that_is_started_again_alone_goes_on_in_the_schedule_of_the_learning_rate() {
    // From the 80th step on the rate is 0, and nothing is learnt.
    let schedule = Schedule::CosineDecay { initial: 2.0, decay_steps: 80, alpha: 0.0 };
    let training = Simulated::new(1, 2, average(1)).digits().steps(110);
    let training = training.optimizer(GradientDescent::new(LearningRate::from(schedule)));
    let weights = |trained: &Trained| {
        assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
        trained.ending.expect("the chief has ended").weights_digest.expect("there are numbers")
    };
    for saves in [false, true] {
        let training = || match saves {
            true => training.clone().checkpoints(&Memory::default(), 10),
            false => training.clone(),
        };
        let undisturbed = training().run();
        let at_90 = undisturbed.steps.iter().filter(|step| step.global_step == 90);
        let at_90 = at_90.map(|step| step.ended).max().unwrap();
        let worker = TaskName::new("worker", 1);
        let restart_after = Some(Duration::from_millis(20));
        let fault = FaultKind::Crash { task: worker.clone(), restart_after };
        let crashed = training().fault(Trigger::Time(at_90), fault).run_program(train);
        let begins_anew =
            |step: &StepStats| step.worker == worker && step.local_step == 0 && step.ended > at_90;
        assert!(crashed.steps.iter().any(begins_anew), "it comes back, and trains");
        assert_eq!(weights(&crashed), weights(&undisturbed));
    }
}

#[test]
fn a_worker_begins_at_the_step_of_the_schedule_that_the_others_have_come_to() {
    let elastic = Mode::ElasticAveraging { every: 3, alpha: 0.5 };
    on_actix(async {
        for (mode, steps) in [(SYNC, 15), (elastic, 7)] {
            let servers = cluster(1, 1);
            let g = Graph::new();
            let rate = LearningRate::from(Schedule::CosineDecay {
                initial: 1.0,
                decay_steps: 80,
                alpha: 0.0,
            });
            let own = g.with_local_variables(|g| g.variable("w", &g.constant(1f32)))?;
            let outer = GradientDescent::new(1.0).coordinated(mode, 0, 2);
            let global_step = g.global_step()?;
            LocalSgd::new(GradientDescent::new(rate), outer, 3)
                .apply_gradients(&[(own, g.constant(1f32))], &global_step)?;
            let session = Session::new(&servers[1].target(), &g).await?;
            session.run().target(g.initializer()).await?;
            session.run().target(&global_step.assign(&g.constant(5i64))?).await?;
            let own = g.local_initializers();
            let (local_step, initializer) =
                own.iter().find(|(variable, _)| variable.name() == "local_step").unwrap();
            session.run().target(initializer).await?;
            let began = session.run().fetch(&local_step.read()).await?.scalar::<i64>(0)?;
            assert_eq!(began, steps, "{mode}");
        }
        Ok(())
    });
}
