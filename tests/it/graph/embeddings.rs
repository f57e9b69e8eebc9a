//! Rows of variables: gathered, looked up in shards, updated, and what the same training gives with
//! whole tables.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use trainyard::cluster::ClusterSpec;
use trainyard::graph::{
    Gradient, GraphError, IndexedSlices, InitialRows, PartitionedVariable, Partitioner, RandomLaw,
    ShardStrategy, UpdateRule, embedding_lookup, embedding_lookup_unique, variable_gradients,
};
use trainyard::optimizer::{AdagradRule, AdamRule, GradientDescentRule, MomentumRule, TrainOp};
use trainyard::prelude::*;
use trainyard::sync::Mode;

use crate::support::fixture::{all, assert_error, cluster, matrix, on_actix};
use crate::support::simulated::{Simulated, Trained};

fn ids(values: &[i64]) -> Tensor {
    Tensor::new([values.len()], values).unwrap()
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    tensor.values::<f32>().unwrap().to_vec()
}

const LAW: RandomLaw = RandomLaw::Normal { mean: 0.0, deviation: 1.0 };

fn table(
    g: &Graph,
    rows: usize,
    width: usize,
    shards: usize,
) -> Result<PartitionedVariable, GraphError> {
    g.set_random_seed(7);
    g.partitioned_variable(
        "table",
        [rows, width],
        InitialRows::Random(LAW),
        Partitioner::FixedSize(shards),
    )
}

async fn session(server: &Server, g: &Graph) -> Result<Session> {
    let session = Session::new(&server.target(), g).await?;
    session.run().target(g.initializer()).await?;
    Ok(session)
}

#[test]
fn a_lookup_gives_the_rows_of_the_ids_in_their_order_however_many_shards_there_are() {
    let cases = (1usize..20, 1usize..6, prop::collection::vec(0usize..1000, 0..30), any::<bool>());
    let mut runner =
        TestRunner::new(Config { cases: 48, failure_persistence: None, ..Config::default() });
    let checked = runner.run(&cases, |(rows, shards, drawn, unique)| {
        let wanted: Vec<i64> = drawn.iter().map(|id| (id % rows) as i64).collect();
        on_actix(async {
            let g = Graph::new();
            let table = table(&g, rows, 3, shards)?;
            let fed = g.placeholder("ids", DType::I64, [None])?;
            let whole = table.as_tensor()?;
            let lookup = if unique { embedding_lookup_unique } else { embedding_lookup };
            let (div, modulo) = (
                lookup(&table, &fed, ShardStrategy::Div)?,
                lookup(&table, &fed, ShardStrategy::Mod)?,
            );
            let server = Server::create_local();
            let run = session(&server, &g).await?;
            let got =
                run.run().feed(&fed, ids(&wanted)).fetch(&div).fetch(&modulo).fetch(&whole).await?;
            let whole = floats(&got[2]);
            let row = |row: usize| whole[3 * row..3 * row + 3].to_vec();
            let expected: Vec<f32> = wanted.iter().flat_map(|id| row(*id as usize)).collect();
            assert_eq!(
                (got[0].shape().dims(), floats(&got[0])),
                (&[wanted.len(), 3][..], expected)
            );
            let parts = table.shards().len();
            let begins = |shard: usize| {
                (0..shard)
                    .map(|shard| rows / parts + usize::from(shard < rows % parts))
                    .sum::<usize>()
            };
            let place = |id: usize| begins(id % parts) + id / parts;
            let by_mod: Vec<f32> = wanted.iter().flat_map(|id| row(place(*id as usize))).collect();
            assert_eq!(floats(&got[1]), by_mod);
            Ok(())
        });
        Ok(())
    });
    checked.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_table_begins_with_the_same_values_however_it_is_cut() {
    let begun = |shards: usize| {
        let values = std::cell::RefCell::new(Vec::new());
        on_actix(async {
            let g = Graph::new();
            let whole = table(&g, 1001, 7, shards)?.as_tensor()?;
            let unpartitioned = g.random("table", LAW, [1001, 7]);
            let server = Server::create_local();
            let got = session(&server, &g).await?.run().fetch(&whole).fetch(&unpartitioned).await?;
            assert!(got[0] == got[1], "the values of an unpartitioned variable");
            values.replace(floats(&got[0]));
            Ok(())
        });
        values.into_inner()
    };
    assert!(begun(1) == begun(4) && begun(4) == begun(1000));
}

#[test]
fn ids_of_any_shape_keep_it_and_ids_of_either_type_find_the_same() {
    on_actix(async {
        let g = Graph::new();
        let table = table(&g, 10, 2, 3)?;
        let by_slots = g.placeholder("ids", DType::I32, [None, Some(3)])?;
        let rows = embedding_lookup_unique(&table, &by_slots, ShardStrategy::Div)?;
        assert_eq!(rows.tensor_type().to_string(), "f32[?,3,2]");
        let list =
            embedding_lookup(&table, &g.constant(ids(&[1, 9, 1, 0, 4, 4])), ShardStrategy::Div)?;
        let fed = Tensor::new([2, 3], &[1i32, 9, 1, 0, 4, 4]).unwrap();
        let server = Server::create_local();
        let got = session(&server, &g)
            .await?
            .run()
            .feed(&by_slots, fed)
            .fetch(&rows)
            .fetch(&list)
            .await?;
        assert_eq!((got[0].shape().dims(), floats(&got[0])), (&[2, 3, 2][..], floats(&got[1])));
        Ok(())
    });
}

#[test]
fn an_id_that_is_no_row_fails_the_step_with_the_variable_the_id_and_the_size() {
    on_actix(async {
        let g = Graph::new();
        let (table, one) = (table(&g, 10, 2, 3)?, g.variable("one", &g.zeros([4, 2]))?);
        let fed = g.placeholder("ids", DType::I64, [None])?;
        let found = embedding_lookup(&table, &fed, ShardStrategy::Div)?;
        let gathered = one.gather(&fed)?;
        let slices = IndexedSlices::new(&g.zeros([1, 2]), &g.constant(ids(&[4])), 4)?;
        let train =
            GradientDescent::new(1.0).apply_gradients(&[(one, slices)], &g.global_step()?)?;
        let server = Server::create_local();
        let run = session(&server, &g).await?;
        for id in [-1, 10] {
            let outcome = run.run().feed(&fed, ids(&[0, id])).fetch(&found).await;
            assert_error(
                outcome,
                Code::InvalidArgument,
                &["`table`", &format!("the id {id} "), "10 rows"],
            );
        }
        let outcome = run.run().feed(&fed, ids(&[3, 4])).fetch(&gathered).await;
        assert_error(outcome, Code::InvalidArgument, &["`one`", "the id 4 ", "4 rows"]);
        let outcome = run.run().target(&train).await;
        assert_error(outcome, Code::InvalidArgument, &["`one`", "the id 4 ", "4 rows"]);
        Ok(())
    });
}

/// A table with slices as its gradient, and what three steps of `optimizer` make of it.
fn after_three_steps(optimizer: &Optimizer, start: &[f32], rows: &[i64], by: &[f32]) -> Vec<f32> {
    let values = std::cell::RefCell::new(Vec::new());
    on_actix(async {
        let g = Graph::new();
        let variable = g.variable("v", &g.constant(matrix(start.len(), 1, start)))?;
        let slices = g.constant(matrix(by.len(), 1, by));
        let slices = IndexedSlices::new(&slices, &g.constant(ids(rows)), start.len())?;
        let train = optimizer.apply_gradients(&[(variable.clone(), slices)], &g.global_step()?)?;
        let server = Server::create_local();
        let run = session(&server, &g).await?;
        for _ in 0..3 {
            run.run().target(&train).await?;
        }
        values.replace(floats(&run.run().fetch(&variable.read()).await?[0]));
        Ok(())
    });
    values.into_inner()
}

#[track_caller]
fn assert_close(found: &[f32], wanted: &[f32]) {
    let near = found
        .iter()
        .zip(wanted)
        .all(|(found, wanted)| (found - wanted).abs() <= 2e-6 * wanted.abs().max(1.0));
    assert!(near && found.len() == wanted.len(), "{found:?} is not {wanted:?}");
}

#[test]
fn three_sparse_steps_give_tensorflows_values_and_leave_the_other_rows() {
    let rules: [(Optimizer, f32); 4] = [
        (GradientDescent::new(0.5).into(), 0.85),
        (Momentum::new(0.5, 0.9).into(), 0.7195),
        (Momentum::new(0.5, 0.9).use_nesterov().into(), 0.59755),
        (Adagrad::new(0.5).into(), 0.5662317),
    ];
    for (optimizer, expected) in rules {
        let start = [5.0, 1.0, 6.0];
        assert_close(&after_three_steps(&optimizer, &start, &[1], &[0.1]), &[5.0, expected, 6.0]);
        assert_close(
            &after_three_steps(&optimizer, &start, &[1, 1], &[0.06, 0.04]),
            &[5.0, expected, 6.0],
        );
        assert_eq!(after_three_steps(&optimizer, &start, &[], &[]), start, "no row, no change");
    }
    let adagrad = &Adagrad::new(3.0).into();
    assert_close(
        &after_three_steps(adagrad, &[1.0, 2.0], &[0, 1], &[0.1, 0.1]),
        &[-1.6026099, -0.6026099],
    );
}

/// Adam's moments decay in every row, so that a row goes on moving after its last gradient, as in
/// TensorFlow.
#[test]
fn adam_moves_rows_that_have_no_gradient_any_more_by_their_decaying_moments() {
    on_actix(async {
        let g = Graph::new();
        let variable = g.variable("v", &g.constant(matrix(2, 1, &[1.0, 1.0])))?;
        let fed = g.placeholder("ids", DType::I64, [Some(1)])?;
        let slices = IndexedSlices::new(&g.constant(matrix(1, 1, &[1.0])), &fed, 2)?;
        let train =
            Adam::new(0.1).apply_gradients(&[(variable.clone(), slices)], &g.global_step()?)?;
        let server = Server::create_local();
        let run = session(&server, &g).await?;
        // Measured with TensorFlow 2.21.
        let steps = [(0, [0.9, 1.0]), (1, [0.8329945, 0.9255866]), (0, [0.7511948, 0.868065])];
        for (id, expected) in steps {
            run.run().feed(&fed, ids(&[id])).target(&train).await?;
            assert_close(&floats(&run.run().fetch(&variable.read()).await?[0]), &expected);
        }
        Ok(())
    });
}

/// A loss of some rows, by their gather or by the same rows of the whole; its gradient as a whole.
async fn gradient_of_rows(
    rows: &[i64],
    weights: &[f32],
    whole_too: bool,
    sparse: bool,
) -> Result<Vec<f32>> {
    let g = Graph::new();
    let v =
        g.variable("v", &g.constant(matrix(4, 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])))?;
    let index = g.constant(ids(rows));
    let weights = g.constant(Tensor::new([weights.len()], weights)?);
    let find = || if sparse { v.gather(&index) } else { v.read().gather(&index, 0) };
    let mut loss = find()?.square().scale_rows(&weights)?.sum().add(&find()?.tanh().sum())?;
    if whole_too {
        loss = loss.add(&v.read().square().sum())?;
    }
    let gradient =
        variable_gradients(&loss, &[v])?.remove(0).expect("the loss depends on the rows");
    assert_eq!(matches!(gradient, Gradient::Slices(_)), sparse && !whole_too);
    let server = Server::create_local();
    let got = session(&server, &g).await?.run().fetch(&gradient.to_dense()).await?;
    Ok(floats(&got[0]))
}

#[test]
fn slices_that_meet_each_other_or_a_dense_gradient_are_together_the_gradient_of_the_whole() {
    on_actix(async {
        let (rows, weights) = ([3, 0, 3], [0.5, 2.0, -1.0]);
        for whole_too in [false, true] {
            let sparse = gradient_of_rows(&rows, &weights, whole_too, true).await?;
            assert_close(&sparse, &gradient_of_rows(&rows, &weights, whole_too, false).await?);
        }
        Ok(())
    });
}

/// A worker's graph: a loss of the rows that it is fed, of a table in two shards.
struct Client {
    session: Session,
    ids: Output,
    train: TrainOp,
    whole: Output,
}

impl Client {
    async fn new(servers: &[Server], mode: Mode, worker: u32, workers: u32) -> Result<Self> {
        let g = Graph::new();
        let spec = ClusterSpec::simulated([("ps", 2), ("worker", workers)]).expect("a cluster");
        let setter = ReplicaDeviceSetter::new(&spec)
            .worker_device(format!("/job:worker/task:{worker}").parse().expect("a device"));
        let (ids, train, whole) = g.with_device_fn(setter, |g| {
            let (ids, loss, table) = model(g, 0)?;
            let rule = Adagrad::new(0.3).coordinated(mode, worker, workers);
            Ok((ids, rule.minimize(&loss, &g.global_step()?)?, table.as_tensor()?))
        })?;
        let session = Session::new(&servers[2 + worker as usize].target(), &g).await?;
        if worker == 0 {
            session.run().target(g.initializer()).await?;
        }
        Ok(Self { session, ids, train, whole })
    }

    async fn step(&self, fed: &[i64]) -> Result<(i64, bool)> {
        let (step, applied) = (self.train.global_step(), self.train.applied());
        let told = self
            .session
            .run()
            .feed(&self.ids, ids(fed))
            .target(&self.train)
            .fetch(&step)
            .fetch(&applied)
            .await?;
        Ok((told.scalar::<i64>(0)?, told.scalar::<bool>(1)?))
    }
}

fn model(g: &Graph, tower: u32) -> Result<(Output, Output, PartitionedVariable)> {
    let (ids, table) =
        (g.placeholder(&format!("ids{tower}"), DType::I64, [None])?, table(g, 9, 3, 2)?);
    let loss = embedding_lookup_unique(&table, &ids, ShardStrategy::Div)?.square().mean();
    Ok((ids, loss, table))
}

/// What worker `worker` is fed at step `step`: ids that repeat within a worker and among workers.
fn fed(step: i64, worker: i64) -> Vec<i64> {
    (0..5).map(|i| (step * 3 + worker + i * i) % 9).collect()
}

/// The whole table after one client has averaged the dense gradients of all workers at each step.
async fn averaged_alone(workers: i64, steps: i64) -> Result<Vec<f32>> {
    let g = Graph::new();
    let table = table(&g, 9, 3, 2)?;
    let (mut places, mut towers) = (Vec::new(), Vec::new());
    for tower in 0..workers {
        places.push(g.placeholder(&format!("ids{tower}"), DType::I64, [None])?);
        let loss = embedding_lookup_unique(&table, &places[tower as usize], ShardStrategy::Div)?
            .square()
            .mean();
        towers.push(variable_gradients(&loss, table.shards())?);
    }
    let mut pairs = Vec::new();
    for (shard, variable) in table.shards().iter().enumerate() {
        let dense: Vec<Output> =
            towers.iter().map(|tower| tower[shard].as_ref().unwrap().to_dense()).collect();
        let sum =
            dense[1..].iter().try_fold(dense[0].clone(), |sum, gradient| sum.add(gradient))?;
        pairs.push((variable.clone(), sum.mul(&g.constant(1.0 / workers as f32))?));
    }
    let train = Adagrad::new(0.3).apply_gradients(&pairs, &g.global_step()?)?;
    let whole = table.as_tensor()?;
    let server = Server::create_local();
    let run = session(&server, &g).await?;
    for step in 0..steps {
        let mut feeding = run.run().target(&train);
        for (worker, place) in (0..).zip(&places) {
            feeding = feeding.feed(place, ids(&fed(step, worker)));
        }
        feeding.await?;
    }
    Ok(floats(&run.run().fetch(&whole).await?[0]))
}

#[test]
fn synchronous_workers_get_bit_for_bit_what_one_gets_that_averages_their_dense_gradients() {
    on_actix(async {
        let servers = cluster(2, 3);
        let mut clients = Vec::new();
        for worker in 0..3 {
            clients.push(
                Client::new(&servers, Mode::Sync { backups: 0, cancel: false }, worker, 3).await?,
            );
        }
        for step in 0..5 {
            let steps = (0..)
                .zip(&clients)
                .map(|(worker, client)| async move { client.step(&fed(step, worker)).await });
            assert_eq!(all(steps).await?, [(step + 1, true); 3]);
        }
        let whole = floats(&clients[1].session.run().fetch(&clients[1].whole).await?[0]);
        assert_eq!(whole, averaged_alone(3, 5).await?);
        Ok(())
    });
}

#[test]
fn workers_with_backups_or_bounded_staleness_update_rows_too() {
    on_actix(async {
        for mode in [
            Mode::Sync { backups: 1, cancel: false },
            Mode::BoundedStaleness { slack: 1 },
            Mode::Async,
        ] {
            let servers = cluster(2, 2);
            let (a, b) = (
                Client::new(&servers, mode, 0, 2).await?,
                Client::new(&servers, mode, 1, 2).await?,
            );
            let before = floats(&a.session.run().fetch(&a.whole).await?[0]);
            for step in 0..4 {
                let steps = [(&a, 0), (&b, 1)];
                all(steps
                    .map(|(client, worker)| async move { client.step(&fed(step, worker)).await }))
                .await?;
            }
            let after = floats(&b.session.run().fetch(&b.whole).await?[0]);
            assert!(before != after && after.iter().all(|value| value.is_finite()), "{mode}");
        }
        Ok(())
    });
}

/// What a training of a table of `rows` tells of its steps: how long each took [ns] and its loss.
fn steps_of(trained: &Trained) -> Vec<(u64, Option<f32>)> {
    trained.steps.iter().map(|step| (step.ended.0 - step.started.0, step.loss)).collect()
}

/// The steps after those in which one can tell how long the variables took to make: that leaves the
/// workers some nanoseconds apart, and where their flows share a link, their rates round anew.
const SETTLED: usize = 8;

#[test]
fn a_step_takes_the_time_and_the_bytes_of_the_rows_that_it_touches_however_large_the_table_is() {
    for mode in [
        Mode::Async,
        Mode::Sync { backups: 0, cancel: false },
        Mode::Sync { backups: 1, cancel: false },
    ] {
        let training = |rows, steps| Simulated::new(4, 2, mode).embedding(rows).steps(steps).run();
        let (small, large) = (training(400, 40), training(40_000, 40));
        let durations = |trained| {
            steps_of(trained).into_iter().map(|(duration, _)| duration).collect::<Vec<_>>()
        };
        assert_eq!(durations(&small)[SETTLED..], durations(&large)[SETTLED..], "{mode}");
        let sent =
            |trained: &Trained| trained.outcome.sent.values().map(|sent| sent.total).sum::<u64>();
        let of_twenty_steps = |rows, longer: &Trained| sent(longer) - sent(&training(rows, 20));
        assert_eq!(of_twenty_steps(400, &small), of_twenty_steps(40_000, &large), "{mode}");
    }
}

#[test]
fn the_built_in_model_learns_with_any_rule_and_gives_the_same_again() {
    for rule in [
        UpdateRule::from(GradientDescentRule),
        MomentumRule { momentum: 0.9, use_nesterov: true }.into(),
        AdagradRule::default().into(),
        AdamRule::default().into(),
    ] {
        let train = || {
            Simulated::new(4, 2, Mode::Sync { backups: 0, cancel: false })
                .embedding(400)
                .rule(rule.clone())
                .steps(100)
                .run()
        };
        let trained = train();
        let losses: Vec<f32> = trained.steps.iter().filter_map(|step| step.loss).collect();
        let mean = |losses: &[f32]| losses.iter().sum::<f32>() / losses.len() as f32;
        let (first, last) = (mean(&losses[..10]), mean(&losses[losses.len() - 10..]));
        assert!(last < 0.8 * first, "{rule:?}: {first} to {last}");
        assert_eq!(train().digests(), trained.digests());
    }
}

#[test]
fn a_table_without_numbers_is_trained_in_the_same_time_and_of_a_size_that_fits_no_memory() {
    let training = |rows| Simulated::new(4, 2, Mode::Async).embedding(rows).steps(20);
    let durations =
        |trained: Trained| steps_of(&trained).into_iter().map(|(time, _)| time).collect::<Vec<_>>();
    let (real, shapes) = (durations(training(400).run()), durations(training(400).shapes().run()));
    assert_eq!(real, shapes);
    let large = durations(training(4_000_000_000).shapes().run());
    assert_eq!(large[SETTLED..], shapes[SETTLED..]);
}
