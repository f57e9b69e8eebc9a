//! Every rule learns the digits in simulation, in synchronous training of two workers.

use trainyard::models::Model;
use trainyard::optimizer::ClipGradients;
use trainyard::prelude::*;
use trainyard::sync::Mode;

use crate::support::simulated::Simulated;

const STEPS: u64 = 1000;

/// Asserts that a network with one hidden layer tells the digits of the test split apart after
/// [`STEPS`] steps.
fn learns(optimizer: impl Into<Optimizer>) {
    let optimizer = optimizer.into();
    let rule = optimizer.rule.clone();
    let training = Simulated::new(1, 2, Mode::Sync { backups: 0, cancel: false })
        .digits()
        .model(Model::Mlp { hidden: vec![64] });
    let trained = training.batch(32).optimizer(optimizer).steps(STEPS).run();
    let accuracy =
        trained.evaluation.expect("the chief looks at the test split in the end").accuracy;
    assert!(accuracy >= 0.95, "{rule:?}: {accuracy}");
}

macro_rules! learns {
    ($($name:ident: $optimizer:expr),* $(,)?) => {$(
        #[test]
        fn $name() {
            learns($optimizer);
        }
    )*};
}

learns! {
    gradient_descent_learns: GradientDescent::new(0.5),
    momentum_learns: Momentum::new(0.1, 0.9),
    nesterov_learns: Momentum::new(0.1, 0.9).use_nesterov(),
    adagrad_learns: Adagrad::new(0.1),
    dual_averaging_learns: AdagradDa::new(0.3),
    adadelta_learns: Adadelta::new(1.0).epsilon(1e-4),
    rms_prop_learns: RmsProp::new(0.01),
    rms_prop_with_momentum_learns: RmsProp::new(0.002).momentum(0.9),
    centered_rms_prop_learns: RmsProp::new(0.005).epsilon(1e-3).centered(),
    adam_learns: Adam::new(0.01),
    lazy_adam_learns: Adam::new(0.01).lazy(),
    adamw_learns: AdamW::new(0.01, 0.01),
    lamb_learns: Lamb::new(Schedule::PolynomialDecay {
        initial: 0.02,
        decay_steps: STEPS,
        end: 0.0,
        power: 1.0,
        cycle: false,
    }),
    ftrl_learns: Ftrl::new(0.4),
    proximal_gradient_descent_learns: ProximalGradientDescent::new(0.5).regularization(1e-5, 1e-5),
    proximal_adagrad_learns: ProximalAdagrad::new(0.1).regularization(1e-5, 1e-5),
    a_schedule_with_a_warm_up_learns: Momentum::new(
        LearningRate::from(Schedule::CosineDecay { initial: 0.2, decay_steps: STEPS, alpha: 0.0 })
            .warmup_steps(20),
        0.9
    ),
    clipped_gradients_learn: GradientDescent::new(0.5).clip(ClipGradients::ByGlobalNorm(1.0)),
}
