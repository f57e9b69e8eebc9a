//! Properties of every rule of the table.

use super::*;
use crate::graph::{Graph, Parameter, ParameterValue, RuleState};
use crate::tensor::Tensor;
use crate::transport::wire::{decode, encode};

/// The variable and the slots like it after one update of `rule` by `gradient`. Each begins with
/// positive values, computed from `start`.
fn updated(rule: &UpdateRule, start: &[f32], gradient: &[f32]) -> Vec<Vec<f32>> {
    let like = 1 + rule.slots_like_variable();
    let mut values: Vec<Tensor> = (0..like)
        .map(|n| {
            let shifted: Vec<f32> = start.iter().map(|x| x * x + 0.1 * (n + 1) as f32).collect();
            Tensor::new([shifted.len()], &shifted).unwrap()
        })
        .collect();
    for slot in &rule.slots()[like - 1..] {
        values.push(match slot.first {
            crate::graph::FirstValue::Count => 0i64.into(),
            crate::graph::FirstValue::Scalar(first)
            | crate::graph::FirstValue::Everywhere(first) => first.into(),
        });
    }
    rule.apply(0.5, &mut RuleState::new(&mut values, gradient));
    values[..like].iter().map(|values| values.values::<f32>().unwrap().to_vec()).collect()
}

/// Numbers that look random, the same each time.
fn numbers(seed: usize, len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 37 + seed * 101 + i * i) % 97) as f32 / 48.0 - 1.0).collect()
}

#[test]
fn every_update_rule_treats_every_element_of_any_length_alike() {
    // LAMB looks at all elements of a variable; `Direction` is its part for one element.
    let elementwise = built_in().into_iter().filter(|rule| rule.get::<LambRule>().is_none());
    let variants: [UpdateRule; 6] = [
        MomentumRule { momentum: 0.9, use_nesterov: true }.into(),
        AdagradDaRule { l1: 0.01, l2: 0.1, ..AdagradDaRule::default() }.into(),
        RmsPropRule { momentum: 0.9, epsilon: 3.0, centered: true, ..RmsPropRule::default() }
            .into(),
        AdamWRule { weight_decay: 0.1, ..AdamWRule::default() }.into(),
        FtrlRule { learning_rate_power: -0.7, l2_shrinkage: 0.1, beta: 1.0, ..FtrlRule::default() }
            .into(),
        ProximalAdagradRule { l1: 0.01, l2: 0.1, ..ProximalAdagradRule::default() }.into(),
    ];
    for rule in elementwise.chain(variants) {
        for len in (0..70).chain([127, 128, 1000]) {
            let (start, gradient) = (numbers(1, len), numbers(2, len));
            let whole = updated(&rule, &start, &gradient);
            for i in 0..len {
                let single = updated(&rule, &start[i..=i], &gradient[i..=i]);
                for (whole, single) in whole.iter().zip(&single) {
                    assert_eq!(whole[i].to_bits(), single[0].to_bits(), "{rule:?}, {i} of {len}");
                }
            }
        }
    }
}

#[test]
fn update_rules_do_not_depend_on_threads() {
    let len = crate::kernels::PARALLEL_FROM + 12_345;
    let (start, gradient) = (numbers(1, len), numbers(2, len));
    for rule in built_in() {
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let values = pool.install(|| updated(&rule, &start, &gradient));
            values.concat().into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        let one = on(1);
        for threads in 2..=4 {
            assert!(on(threads) == one, "{rule:?}: {threads} threads give other bits than one");
        }
    }
}

#[test]
fn every_rule_makes_an_element_nan_whose_gradient_is() {
    for rule in built_in() {
        let variable = &updated(&rule, &[0.5], &[f32::NAN])[0];
        assert!(variable[0].is_nan(), "{rule:?} hides it: {variable:?}");
    }
}

#[test]
fn every_rule_is_found_by_its_name_and_its_defaults_are_in_range() {
    for rule in built_in() {
        assert_eq!(rule_named(rule.name()), Some(rule.clone()));
        assert_in_range_of(&rule);
    }
}

fn assert_in_range_of(rule: &UpdateRule) {
    let mut parameters = Parameters::default();
    rule.with(&mut parameters);
    assert!(parameters.problems().is_empty(), "{rule:?}: {:?}", parameters.problems());
}

#[test]
fn slots_of_the_variables_shape_come_before_others() {
    for rule in built_in() {
        let like = rule.slots_like_variable();
        let is_like = |slot: &crate::graph::Slot| {
            matches!(slot.first, crate::graph::FirstValue::Everywhere(_))
        };
        assert!(rule.slots()[..like].iter().all(is_like), "{rule:?}");
    }
}

#[test]
fn the_values_of_all_parameters_make_the_same_rule_again() {
    let rule: UpdateRule =
        RmsPropRule { decay: 0.7, momentum: 0.3, epsilon: 0.1, centered: true }.into();
    let values: Vec<ParameterValue> =
        rule.parameters().into_iter().map(|parameter| parameter.value).collect();
    let defaults = rule_named("rms_prop").unwrap();
    assert_ne!(defaults, rule);
    assert_eq!(defaults.with(&mut Parameters::in_order(values)), rule);
}

#[test]
fn a_rule_out_of_its_range_is_refused_by_a_training_step_however_it_was_made() {
    let g = Graph::new();
    let [step, v] = [("step", 0i64.into()), ("v", Tensor::from(1.0f32))]
        .map(|(name, first): (&str, Tensor)| g.variable(name, &g.constant(first)).unwrap());
    let loss = v.read().square();
    let refused: [(Optimizer, &str); 5] = [
        (Adam::new(0.1).betas(1.0, 0.9).into(), "`beta1` of the update rule `adam` must be"),
        (RmsProp::new(0.1).decay(-0.5).into(), "`decay` of the update rule `rms_prop` must be"),
        (Momentum::new(0.1, 1.0).into(), "`momentum` of the update rule `momentum` must be at"),
        (Momentum::new(0.1, f32::NAN).into(), "`momentum` of the update rule `momentum` must be"),
        (
            Optimizer::new(AdadeltaRule { rho: 2.0, epsilon: 0.1 }, 0.1),
            "`rho` of the update rule `adadelta` must be",
        ),
    ];
    for (optimizer, expected) in refused {
        let error = optimizer.minimize(&loss, &step).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_rule_out_of_its_range_is_refused_in_a_message() {
    let mut bytes = Vec::new();
    encode(&UpdateRule::from(LambRule { beta2: 1.0, ..LambRule::default() }), &mut bytes).unwrap();
    let error = decode::<UpdateRule>(&bytes).unwrap_err().to_string();
    assert!(error.contains("`beta2` of the update rule `lamb` must be"), "{error}");
}

#[test]
#[should_panic(expected = "the parameter `initial_accumulator_value` of the update rule `adagrad`")]
fn a_parameter_outside_of_its_range_is_refused_at_once() {
    let _ = Adagrad::new(0.1).initial_accumulator_value(0.0);
}

/// The row of `rule` in the guide's table.
fn row(rule: &UpdateRule) -> String {
    let number = |number: f32| format!("{number:?}").trim_end_matches(".0").to_owned();
    let parameters = rule.parameters().into_iter().map(|Parameter { name, value }| match value {
        ParameterValue::Number(value) => format!("`{name}` {}", number(value)),
        ParameterValue::Flag(value) => format!("`{name}` {value}"),
    });
    let parameters = match parameters.collect::<Vec<String>>() {
        none if none.is_empty() => "none".to_owned(),
        parameters => parameters.join(", "),
    };
    format!("| `{}` | {} | {parameters} |", rule.name(), number(rule.default_learning_rate()))
}

#[test]
fn the_guide_to_scenarios_has_the_parameters_and_the_defaults_of_each_rule() {
    let guide = include_str!("../../../docs/scenarios.md");
    let (_, section) = guide.split_once("\n## Optimizers\n").expect("there is such a section");
    let section = section.split("\n## ").next().unwrap();
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(rows, built_in().iter().map(row).collect::<Vec<String>>());
}
