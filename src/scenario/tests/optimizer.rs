//! Tests of the optimizer of a scenario: every rule, schedule and bound, and the errors of invalid
//! ones.

use super::*;
use crate::graph::{Schedule, UpdateRule};
use crate::optimizer::{
    AdadeltaRule, AdagradDaRule, AdagradRule, AdamRule, AdamWRule, FtrlRule, GradientDescentRule,
    LambRule, MomentumRule, ProximalAdagradRule, ProximalGradientDescentRule, RmsPropRule,
};

fn optimizer(text: &str) -> Optimizer {
    example(&format!("[program]\noptimizer = {{ {text} }}")).unwrap().settings.optimizer
}

#[test]
fn every_rule_has_tensorflows_defaults() {
    let (beta1, beta2) = (0.9, 0.999);
    let (initial_accumulator_value, l1, l2) = (0.1, 0.0, 0.0);
    let rules: [(&str, f32, UpdateRule); 12] = [
        ("gradient_descent", 0.01, GradientDescentRule.into()),
        ("momentum", 0.01, MomentumRule { momentum: 0.9, use_nesterov: false }.into()),
        ("adagrad", 0.01, AdagradRule { initial_accumulator_value }.into()),
        (
            "adagrad_da",
            0.01,
            AdagradDaRule { initial_gradient_squared_accumulator_value: 0.1, l1, l2 }.into(),
        ),
        ("adadelta", 0.001, AdadeltaRule { rho: 0.95, epsilon: 1e-8 }.into()),
        (
            "rms_prop",
            0.01,
            RmsPropRule { decay: 0.9, momentum: 0.0, epsilon: 1e-10, centered: false }.into(),
        ),
        ("adam", 0.001, AdamRule { beta1, beta2, epsilon: 1e-8, lazy: false }.into()),
        ("adamw", 0.001, AdamWRule { beta1, beta2, epsilon: 1e-8, weight_decay: 0.01 }.into()),
        ("lamb", 0.001, LambRule { beta1, beta2, epsilon: 1e-6, weight_decay: 0.0 }.into()),
        (
            "ftrl",
            0.01,
            FtrlRule {
                learning_rate_power: -0.5,
                initial_accumulator_value,
                l1,
                l2,
                l2_shrinkage: 0.0,
                beta: 0.0,
            }
            .into(),
        ),
        ("proximal_gradient_descent", 0.01, ProximalGradientDescentRule { l1, l2 }.into()),
        (
            "proximal_adagrad",
            0.01,
            ProximalAdagradRule { initial_accumulator_value, l1, l2 }.into(),
        ),
    ];
    for (name, rate, rule) in rules {
        let expected = Optimizer::new(rule, rate);
        assert_eq!(optimizer(&format!("rule = \"{name}\"")), expected, "{name}");
    }
}

#[test]
fn the_parameters_of_a_rule_are_read() {
    let text = "rule = \"ftrl\", learning_rate_power = -0.7, initial_accumulator_value = 0, \
                l1 = 1, l2 = 2, l2_shrinkage = 3, beta = 4";
    let ftrl: UpdateRule = FtrlRule {
        learning_rate_power: -0.7,
        initial_accumulator_value: 0.0,
        l1: 1.0,
        l2: 2.0,
        l2_shrinkage: 3.0,
        beta: 4.0,
    }
    .into();
    assert_eq!(optimizer(text).rule, ftrl);
    let lazy: UpdateRule = AdamRule { beta1: 0.8, beta2: 0.9, epsilon: 1e-7, lazy: true }.into();
    assert_eq!(
        optimizer("rule = \"adam\", lazy = true, beta1 = 0.8, beta2 = 0.9, epsilon = 1e-7").rule,
        lazy
    );
    let centered: UpdateRule =
        RmsPropRule { decay: 0.8, momentum: 0.9, epsilon: 1e-3, centered: true }.into();
    assert_eq!(
        optimizer(
            "rule = \"rms_prop\", decay = 0.8, momentum = 0.9, epsilon = 1e-3, centered = true"
        )
        .rule,
        centered
    );
}

#[test]
fn a_learning_rate_may_be_a_schedule_with_a_warm_up() {
    let read = |text: &str| optimizer(&format!("learning_rate = {{ {text} }}")).learning_rate;
    let (initial, decay_steps, decay_rate) = (0.1, 100, 0.96);
    let common = "initial = 0.1, decay_steps = 100";
    assert_eq!(
        read(&format!("schedule = \"exponential\", {common}, decay_rate = 0.96, staircase = true")),
        Schedule::ExponentialDecay { initial, decay_steps, decay_rate, staircase: true }.into()
    );
    assert_eq!(
        read(&format!("schedule = \"natural_exp\", {common}, decay_rate = 0.96")),
        Schedule::NaturalExpDecay { initial, decay_steps, decay_rate, staircase: false }.into()
    );
    assert_eq!(
        read(&format!("schedule = \"inverse_time\", {common}, decay_rate = 0.96")),
        Schedule::InverseTimeDecay { initial, decay_steps, decay_rate, staircase: false }.into()
    );
    assert_eq!(
        read(&format!("schedule = \"polynomial\", {common}, end = 0.01, power = 2, cycle = true")),
        Schedule::PolynomialDecay { initial, decay_steps, end: 0.01, power: 2.0, cycle: true }
            .into()
    );
    assert_eq!(
        read(&format!("schedule = \"cosine\", {common}, alpha = 0.5, warmup_steps = 7")),
        LearningRate::from(Schedule::CosineDecay { initial, decay_steps, alpha: 0.5 })
            .warmup_steps(7)
    );
    assert_eq!(
        read(
            "schedule = \"piecewise_constant\", boundaries = [10, 20], values = [0.1, 0.01, 0.001]"
        ),
        Schedule::PiecewiseConstant { until: vec![(10, 0.1), (20, 0.01)], last: 0.001 }.into()
    );
    assert_eq!(
        read("schedule = \"constant\", initial = 0.1, warmup_steps = 7"),
        LearningRate::from(0.1).warmup_steps(7)
    );
}

#[test]
fn gradients_may_be_clipped_in_one_way() {
    assert_eq!(optimizer("clip_value = 0.5").clip, Some(ClipGradients::ByValue(0.5)));
    assert_eq!(optimizer("clip_norm = 1").clip, Some(ClipGradients::ByNorm(1.0)));
    assert_eq!(optimizer("clip_global_norm = 5").clip, Some(ClipGradients::ByGlobalNorm(5.0)));
}

#[test]
fn an_optimizer_that_makes_no_sense_says_why() {
    let cases = [
        (
            "rule = \"ftrl\"\nlearning_rate_power = 0.5",
            "3: program.optimizer.learning_rate_power: must be finite and at most 0",
        ),
        (
            "rule = \"adagrad\"\ninitial_accumulator_value = 0",
            "3: program.optimizer.initial_accumulator_value: must be finite and above 0",
        ),
        (
            "rule = \"adagrad\"\nl1 = 0.1",
            "3: program.optimizer.l1: the optimizer's `rule` has no such parameter; `adagrad_da`, \
             `ftrl`, `proximal_adagrad` and `proximal_gradient_descent` have `l1`",
        ),
        (
            "rule = \"adamw\"\nlazy = true",
            "3: program.optimizer.lazy: the optimizer's `rule` has no such parameter; `adam` has \
             `lazy`",
        ),
        (
            "rule = \"momentum\"\nmomentum = 9",
            "3: program.optimizer.momentum: must be at least 0 and below 1",
        ),
        (
            "rule = \"rms_prop\"\nmomentum = 1",
            "3: program.optimizer.momentum: must be at least 0 and below 1",
        ),
        ("clip_norm = 0.0", "2: program.optimizer.clip_norm: must be finite and above 0"),
        (
            "clip_norm = 1\nclip_global_norm = 1",
            "3: program.optimizer.clip_global_norm: gradients are clipped in one way; remove the \
             other key",
        ),
        (
            "learning_rate = { schedule = \"cosine\", initial = 0.1 }",
            "2: program.optimizer.learning_rate: this schedule needs `decay_steps` of at least 1",
        ),
        (
            "learning_rate = { schedule = \"exponential\", initial = 0.1, decay_steps = 5 }",
            "2: program.optimizer.learning_rate: this schedule needs `decay_rate`",
        ),
        (
            "learning_rate = { schedule = \"constant\", initial = 0.1, power = 5 }",
            "2: program.optimizer.learning_rate.power: this schedule has no such parameter",
        ),
        (
            "learning_rate = { schedule = \"piecewise_constant\", boundaries = [5], \
             values = [0.1] }",
            "2: program.optimizer.learning_rate: this schedule needs `boundaries` and a rate \
             before each and after the last as `values`",
        ),
        (
            "learning_rate = { schedule = \"piecewise_constant\", boundaries = [5, 5], \
             values = [1, 2, 3] }",
            "2: program.optimizer.learning_rate: `boundaries` must ascend",
        ),
    ];
    for (text, expected) in cases {
        let error = example(&format!("[program.optimizer]\n{text}")).unwrap_err().to_string();
        assert_eq!(error, format!("sims/example.toml:{expected}"));
    }
}

#[test]
fn of_a_parameter_that_the_rule_has_not_is_said_what_was_meant_or_which_rules_have_it() {
    let told =
        |keys: &str| example(&format!("[program.optimizer]\n{keys}")).unwrap_err().to_string();
    for (keys, said) in [
        (
            "rule = \"momentum\"\nlerning_rate = 0.1",
            "did you mean `program.optimizer.learning_rate`?",
        ),
        (
            "rule = \"momentum\"\nlearningrate = 0.1",
            "did you mean `program.optimizer.learning_rate`?",
        ),
        ("rule = \"momentum\"\nnestrov = true", "did you mean `program.optimizer.use_nesterov`?"),
        ("rule = \"momentum\"\nmomentun = 0.9", "did you mean `program.optimizer.momentum`?"),
        ("rule = \"momentum\"\nweight_decay = 0.1", "; `adamw` and `lamb` have `weight_decay`"),
        ("rule = \"momentum\"\nzzz = 1", "; `momentum` has `momentum` and `use_nesterov`"),
        ("zzz = 1", "; `gradient_descent` has none of its own"),
    ] {
        assert!(told(keys).contains(said), "{keys}: {}", told(keys));
    }
    let elsewhere = example("[program]\nclip_norm = 5").unwrap_err().to_string();
    assert!(elsewhere.contains("did you mean `program.optimizer.clip_norm`?"), "{elsewhere}");
}

#[test]
fn an_unknown_schedule_is_shown_with_the_one_probably_meant() {
    let error = example(
        "[program]\noptimizer = { learning_rate = { schedule = \"cosinus\", initial = 1 } }",
    )
    .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("unknown variant `cosinus`") && text.contains("did you mean `cosine`?"),
        "{text}"
    );
}
