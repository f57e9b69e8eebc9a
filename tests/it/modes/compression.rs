//! Compression on the way from task to task: what it saves, that it trains, and that both worlds
//! round alike.

use std::num::NonZeroU32;

use serde_json::Value;
use trainyard::graph::{Gradient, IndexedSlices};
use trainyard::models::Model;
use trainyard::prelude::*;
use trainyard::runtime::Encoding;
use trainyard::sync::Mode;

use crate::support::binary::{scenario, trainyard};
use crate::support::fixture::{both, cluster, on_actix};
use crate::support::simulated::{Simulated, Trained};

const INT8: Encoding = Encoding::Int8 { block: NonZeroU32::new(256).unwrap() };
const MODES: [Mode; 2] = [Mode::Sync { backups: 0, cancel: false }, Mode::Async];

/// A model of the digits with a hidden layer, on a network that is felt.
fn digits(mode: Mode) -> Simulated {
    Simulated::new(2, 2, mode)
        .digits()
        .model(Model::Mlp { hidden: vec![128] })
        .adam(0.005)
        .batch(32)
}

fn bytes_sent(trained: &Trained) -> f64 {
    trained.outcome.sent.values().map(|sent| sent.total).sum::<u64>() as f64
}

#[test]
fn half_and_a_quarter_of_the_bits_train_the_digits_with_and_without_waiting() {
    for (mode, encoding) in
        MODES.into_iter().flat_map(|mode| [(mode, Encoding::Bf16), (mode, INT8)])
    {
        let accuracy =
            digits(mode).encoding(encoding).steps(300).run().evaluation.unwrap().accuracy;
        assert!(accuracy >= 0.95, "{mode} with {encoding:?}: {accuracy}");
    }
}

#[test]
fn bf16_halves_the_bytes_and_int8_quarters_them() {
    for mode in MODES {
        let sent = |encoding| {
            let training =
                Simulated::new(2, 2, mode).digits().model(Model::Mlp { hidden: vec![512] });
            bytes_sent(&training.encoding(encoding).steps(100).run())
        };
        let exact = sent(Encoding::Exact);
        let (bf16, int8) = (sent(Encoding::Bf16) / exact, sent(INT8) / exact);
        assert!((0.49..0.52).contains(&bf16), "{mode}, bf16: {bf16}");
        assert!((0.25..0.27).contains(&int8), "{mode}, int8: {int8}");
    }
}

#[test]
fn a_fiftieth_of_each_gradient_trains_the_digits_with_workers_that_wait_and_with_workers_that_dont()
{
    for mode in MODES {
        let accuracy = digits(mode).top_k(0.02).steps(600).run().evaluation.unwrap().accuracy;
        assert!(accuracy >= 0.95, "{mode}: {accuracy}");
    }
}

/// A gradient is half of what travels, and of it two fiftieths are left: an element, and where it
/// is.
#[test]
fn a_fiftieth_of_each_gradient_saves_half_of_the_bytes_since_parameters_are_read_whole() {
    for mode in MODES {
        let sent = |training: Simulated| bytes_sent(&training.steps(100).run());
        let left = sent(digits(mode).top_k(0.02)) / sent(digits(mode));
        assert!((0.51..0.56).contains(&left), "{mode}: {left}");
    }
}

#[test]
fn where_only_shapes_are_computed_as_many_bytes_are_sent() {
    for encoding in [Encoding::Bf16, INT8] {
        let training = digits(MODES[0]).encoding(encoding).steps(10);
        let bytes =
            [training.clone().run(), training.shapes().run()].map(|trained| bytes_sent(&trained));
        assert_eq!(bytes[0], bytes[1], "{encoding:?}");
    }
}

#[test]
fn a_compressed_training_is_the_same_to_the_last_bit_each_time_and_another_than_the_exact_one() {
    let digests = |encoding| digits(Mode::Async).encoding(encoding).steps(10).run().digests();
    assert_eq!(digests(INT8), digests(INT8));
    assert_ne!(digests(INT8).1, digests(Encoding::Exact).1);
}

/// A variable of `elements` that a worker trains by a gradient that it is fed, and what it keeps
/// back.
struct Fed {
    session: Session,
    gradient: Output,
    train: TrainOp,
    weights: Output,
    residual: Output,
}

impl Fed {
    async fn new(
        server: &Server,
        (elements, fraction): (usize, f64),
        mode: Mode,
        worker: u32,
    ) -> Result<Self> {
        let g = Graph::new();
        let setter = ReplicaDeviceSetter::new(&server.server_def().cluster);
        let setter =
            setter.worker_device(server.devices().next().unwrap().to_string().parse().unwrap());
        let (gradient, train, weights) = g.with_device_fn(setter, |g| {
            let weights = g.variable("w", &g.zeros([elements]))?;
            let gradient = g.placeholder("gradient", DType::F32, [Some(elements)])?;
            let optimizer = GradientDescent::new(1.0).coordinated(mode, worker, 2).top_k(fraction);
            let train = optimizer
                .apply_gradients(&[(weights.clone(), gradient.clone())], &g.global_step()?)?;
            Ok((gradient, train, weights.read()))
        })?;
        let session = Session::new(&server.target(), &g).await?;
        let own = g.local_initializers();
        session.run().target(g.initializer()).target(&own[0].1).await?;
        Ok(Self { session, gradient, train, weights, residual: own[0].0.read() })
    }

    /// Takes a step; whether it was applied.
    async fn step(&self, gradient: &[f32]) -> Result<bool> {
        let gradient = Tensor::new([gradient.len()], gradient)?;
        let run = self.session.run().feed(&self.gradient, gradient).target(&self.train);
        run.fetch(&self.train.applied()).await?.scalar(0)
    }

    async fn values(&self) -> Result<[Vec<f32>; 2]> {
        let values = self.session.run().fetch(&self.weights).fetch(&self.residual).await?;
        Ok([values[0].values::<f32>()?.to_vec(), values[1].values::<f32>()?.to_vec()])
    }
}

#[test]
fn what_is_sent_and_what_is_left_are_the_gradients_to_the_last_bit() {
    on_actix(async {
        let servers = cluster(1, 1);
        let trained = Fed::new(&servers[1], (100, 0.03), Mode::Async, 0).await?;
        let (mut sum, mut left) = (vec![0f32; 100], vec![0f32; 100]);
        for step in 0..40 {
            let gradient: Vec<f32> =
                (0..100).map(|i| ((i * 37 + step * 53) % 101) as f32 * 0.137 - 6.1).collect();
            let [before, residual] = trained.values().await?;
            assert_eq!(residual, left, "step {step}");
            assert!(trained.step(&gradient).await?);
            let [after, residual] = trained.values().await?;
            let waiting: Vec<f32> =
                gradient.iter().zip(&left).map(|(new, left)| new + left).collect();
            let sent: Vec<usize> = (0..100).filter(|i| after[*i] != before[*i]).collect();
            assert_eq!(sent.len(), 3, "step {step}");
            let least = sent.iter().map(|i| waiting[*i].abs()).fold(f32::MAX, f32::min);
            for i in 0..100 {
                let is_sent = sent.contains(&i);
                assert_eq!(
                    residual[i],
                    if is_sent { 0.0 } else { waiting[i] },
                    "step {step}, element {i}"
                );
                assert_eq!(
                    after[i],
                    if is_sent { before[i] - waiting[i] } else { before[i] },
                    "step {step}, {i}"
                );
                assert!(
                    is_sent || waiting[i].abs() <= least,
                    "step {step}: a greater element is left"
                );
            }
            (0..100).for_each(|i| sum[i] += gradient[i]);
            left = residual;
        }
        let [weights, left] = trained.values().await?;
        let lost = (0..100).map(|i| (sum[i] + weights[i] - left[i]).abs()).fold(0.0, f32::max);
        assert!(lost < 1e-3, "{lost} of sums up to 300 is rounding");
        Ok(())
    });
}

#[test]
fn gradients_of_few_elements_and_of_rows_are_sent_whole() -> Result<()> {
    let g = Graph::new();
    let (few, table) =
        (g.variable("few", &g.zeros([63]))?, g.variable("table", &g.zeros([100, 8]))?);
    let rows =
        IndexedSlices::new(&g.zeros([2, 8]), &g.constant(Tensor::new([2], &[3i64, 7])?), 100)?;
    let pairs = [(few, Gradient::from(g.zeros([63]))), (table, Gradient::from(rows))];
    GradientDescent::new(1.0).top_k(0.01).apply_gradients(&pairs, &g.global_step()?)?;
    assert!(g.local_initializers().is_empty(), "nothing is kept back");
    Ok(())
}

#[test]
fn a_gradient_that_comes_too_late_leaves_the_residual_as_it_was() {
    on_actix(async {
        let (servers, mode) = (cluster(1, 2), Mode::Sync { backups: 1, cancel: false });
        let (a, b) = (
            Fed::new(&servers[1], (64, 0.02), mode, 0).await?,
            Fed::new(&servers[2], (64, 0.02), mode, 1).await?,
        );
        let gradient: Vec<f32> = (0..64).map(|i| i as f32 + 1.0).collect();
        let mut dropped = 0;
        for step in 0..10 {
            let before = [a.values().await?, b.values().await?];
            let (one, other) = both(a.step(&gradient), b.step(&gradient)).await;
            let after = [a.values().await?, b.values().await?];
            for (worker, is_applied) in [one?, other?].into_iter().enumerate() {
                let is_kept = before[worker][1] == after[worker][1];
                assert_eq!(is_kept, !is_applied, "step {step} of worker {worker}");
                dropped += usize::from(!is_applied);
            }
        }
        assert!(dropped > 0, "with a backup somebody is late");
        Ok(())
    });
}

#[cfg(target_os = "linux")]
#[test]
fn both_worlds_round_alike_and_count_the_same_bytes_but_for_those_of_a_few_messages() {
    let path = scenario(
        "compressed_in_both_worlds",
        "seed = 3\n[cluster]\nps = 2\nworker = 2\n[program]\nmodel = 'mlp'\nhidden = [64]\n\
         [stop]\nsteps = 20\n\
         [network]\ncompression = 'bf16'\n[[run]]\nmode = 'sync'\n[[run]]\nmode = 'sync'\n\
         compression = 'int8'\n\
         [[run]]\nmode = 'sync'\ncompression = 'none'\n",
    );
    let runs = |command: &str| -> Vec<(Value, f64)> {
        let said = trainyard(&[command, &path, "--json"]);
        assert_eq!(said.code, 0, "{}", said.err);
        let report: Value = serde_json::from_str(&said.out).unwrap();
        let sent = |run: &Value| {
            run["bytes_sent"].as_object().unwrap().values().map(|sent| sent.as_f64().unwrap()).sum()
        };
        report["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| (run["weights_digest"].clone(), sent(run)))
            .collect()
    };
    let (simulated, deployed) = (runs("sim"), runs("launch"));
    assert_eq!(simulated.len(), 3);
    for ((digest, sent), (deployed_digest, deployed_sent)) in simulated.iter().zip(&deployed) {
        assert!(digest.is_string() && digest == deployed_digest, "{digest} and {deployed_digest}");
        assert!((sent / deployed_sent - 1.0).abs() < 0.01, "{sent} and {deployed_sent}");
    }
    assert!(simulated[0].0 != simulated[1].0 && simulated[1].0 != simulated[2].0);
}
