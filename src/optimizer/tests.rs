//! The numbers of every update rule: TensorFlow's own, and those of the definitions.

mod reference;
mod tensorflow;

use super::*;
use crate::graph::FirstValue;
use crate::kernels::Cost;
use crate::tensor::{DType, Shape, Tensor};

/// A variable under training.
struct Trained {
    update: Update,
}

impl Trained {
    fn new(
        rule: impl Into<UpdateRule>,
        learning_rate: f32,
        shape: impl Into<Shape>,
        start: &[f32],
    ) -> Self {
        let (rule, shape) = (rule.into(), shape.into());
        let mut values = vec![Tensor::new(shape, start).unwrap()];
        values.extend(rule.slots().iter().map(|slot| match slot.first {
            FirstValue::Everywhere(first) => Tensor::full(shape, first),
            FirstValue::Scalar(first) => first.into(),
            FirstValue::Count => 0i64.into(),
        }));
        Self {
            update: Update {
                rule,
                learning_rate,
                values: values.into(),
                gradients: Deltas::new(),
                compensation: None,
            },
        }
    }

    fn step(&mut self, gradient: Delta) {
        self.update.gradients = [gradient].into();
        apply(&mut self.update);
    }

    fn dense(&mut self, gradient: &[f32]) {
        let gradient = Tensor::new(self.update.values[0].shape(), gradient).unwrap();
        self.step(Delta::Dense(gradient));
    }

    fn rows(&mut self, ids: &[i64], rows: &[f32]) {
        let width = rows.len() / ids.len();
        let rows = Tensor::new([ids.len(), width], rows).unwrap();
        self.step(Delta::Slices { rows, ids: Tensor::new([ids.len()], ids).unwrap() });
    }

    /// The values of the variable (0) or of a slot.
    fn values(&self, of: usize) -> Vec<f32> {
        self.update.values[of].values::<f32>().unwrap().to_vec()
    }

    #[track_caller]
    fn assert_near(&self, expected: &[f32]) {
        let values = self.values(0);
        let far = |(value, expected): (&f32, &f32)| {
            (value - expected).abs() > 2e-6 * expected.abs().max(1.0)
        };
        assert!(
            !values.iter().zip(expected).any(far),
            "{:?}: {values:?}, not {expected:?}",
            self.update.rule
        );
    }
}

const BETAS: (f32, f32, f32) = (0.9, 0.999, 1e-8);

/// Every rule, with parameters that all have an effect.
fn rules() -> Vec<UpdateRule> {
    let ((beta1, beta2, epsilon), weight_decay) = (BETAS, 0.05);
    let (l1, l2, initial_accumulator_value) = (0.02, 0.3, 0.2);
    let rms = |centered| RmsPropRule { decay: 0.8, momentum: 0.7, epsilon: 1e-3, centered };
    let ftrl = |learning_rate_power| FtrlRule {
        learning_rate_power,
        initial_accumulator_value,
        l1,
        l2,
        l2_shrinkage: 0.1,
        beta: 0.5,
    };
    vec![
        GradientDescentRule.into(),
        MomentumRule { momentum: 0.9, use_nesterov: false }.into(),
        MomentumRule { momentum: 0.9, use_nesterov: true }.into(),
        AdagradRule { initial_accumulator_value }.into(),
        AdagradDaRule { initial_gradient_squared_accumulator_value: 0.2, l1, l2 }.into(),
        AdadeltaRule { rho: 0.8, epsilon: 1e-3 }.into(),
        rms(false).into(),
        rms(true).into(),
        AdamRule { beta1, beta2, epsilon, lazy: false }.into(),
        AdamRule { beta1, beta2, epsilon, lazy: true }.into(),
        AdamWRule { beta1, beta2, epsilon, weight_decay }.into(),
        LambRule { beta1, beta2, epsilon: 1e-6, weight_decay }.into(),
        ftrl(-0.5).into(),
        ftrl(-0.8).into(),
        ftrl(0.0).into(),
        ProximalGradientDescentRule { l1, l2 }.into(),
        ProximalAdagradRule { initial_accumulator_value, l1, l2 }.into(),
    ]
}

/// The gradient of a table of 5 rows of 3 at step `t`: rows 1 and 4.
fn two_rows(t: usize) -> [f32; 6] {
    std::array::from_fn(|i| ((i * 7 + t * 5) % 11) as f32 * 0.1 - 0.45)
}

/// The same gradient, dense, with zeros elsewhere.
fn whole(rows: &[f32; 6]) -> [f32; 15] {
    std::array::from_fn(|i| match i {
        3..6 => rows[i - 3],
        12..15 => rows[i - 9],
        _ => 0.0,
    })
}

/// A table of 5 rows of 3 without a value of 0.
fn table() -> [f32; 15] {
    std::array::from_fn(|i| ((i * 13 + 2) % 7) as f32 * 0.25 - 0.8)
}

#[test]
fn every_rule_is_what_its_definition_says_over_ten_steps() {
    for rule in rules() {
        let start: Vec<f32> = (0..37).map(|i| ((i * 13) % 17) as f32 * 0.11 - 0.8).collect();
        let mut trained = Trained::new(rule.clone(), 0.3, [37], &start);
        let vectors = 1 + rule.slots_like_variable();
        let wide = |values: Vec<f32>| values.into_iter().map(f64::from).collect::<Vec<_>>();
        let mut state: Vec<Vec<f64>> = (0..vectors).map(|of| wide(trained.values(of))).collect();
        for t in 1..=10 {
            let gradient: Vec<f32> =
                (0..37).map(|i| ((i * 5 + t * 3) % 13) as f32 * 0.1 - 0.55).collect();
            trained.dense(&gradient);
            reference::update(&rule, f64::from(0.3f32), t, &mut state, &wide(gradient));
        }
        for (of, expected) in state.iter().enumerate() {
            for (value, expected) in trained.values(of).into_iter().zip(expected) {
                let error = (f64::from(value) - expected).abs();
                assert!(
                    error <= 2e-4 * expected.abs().max(1.0),
                    "{rule:?}, value {of}: {value}, not {expected}"
                );
            }
        }
    }
}

#[test]
fn rows_that_come_more_than_once_count_as_their_sum_with_every_rule() {
    for rule in rules() {
        let [mut repeated, mut once] =
            [(), ()].map(|()| Trained::new(rule.clone(), 0.3, [5, 3], &table()));
        for t in 0..3 {
            let rows = two_rows(t);
            let half = rows.map(|value| value * 0.5);
            repeated
                .rows(&[4, 1, 1, 4], &[&half[3..], &half[..3], &half[..3], &half[3..]].concat());
            once.rows(&[1, 4], &rows);
        }
        assert_eq!(repeated.update.values, once.update.values, "{rule:?}");
    }
}

#[test]
fn rows_that_are_listed_get_the_numbers_of_the_dense_update_to_the_last_bit_with_every_rule() {
    for rule in rules() {
        let [mut by_rows, mut by_all] =
            [(), ()].map(|()| Trained::new(rule.clone(), 0.3, [5, 3], &table()));
        for t in 0..3 {
            let rows = two_rows(t);
            by_rows.rows(&[1, 4], &rows);
            by_all.dense(&whole(&rows));
        }
        let listed =
            |trained: &Trained| [&trained.values(0)[3..6], &trained.values(0)[12..]].concat();
        assert_eq!(listed(&by_rows), listed(&by_all), "{rule:?}");
        if rule.moves_every_row() {
            assert_eq!(by_rows.update.values, by_all.update.values, "{rule:?}");
        }
    }
}

#[test]
fn rows_that_are_not_listed_keep_their_values_and_slots_except_with_adam_adamw_and_lamb() {
    for rule in rules() {
        let mut trained = Trained::new(rule.clone(), 0.3, [5, 3], &table());
        let vectors = 1 + rule.slots_like_variable();
        trained.rows(&[0, 2, 3], &[0.2; 9]);
        let before: Vec<Vec<f32>> = (0..vectors).map(|of| trained.values(of)).collect();
        trained.rows(&[1, 4], &two_rows(0));
        let is_kept = (0..vectors).all(|of| {
            let now = trained.values(of);
            now[..3] == before[of][..3] && now[6..12] == before[of][6..12]
        });
        assert_eq!(is_kept, !rule.moves_every_row(), "{rule:?}");
    }
}

#[test]
fn an_update_of_no_rows_changes_no_row_except_with_adam_adamw_and_lamb() {
    for rule in rules() {
        let mut trained = Trained::new(rule.clone(), 0.3, [5, 3], &table());
        trained.rows(&[1], &[0.2; 3]);
        let before = trained.values(0);
        let (rows, ids) =
            (Tensor::new([0, 3], &[] as &[f32]).unwrap(), Tensor::new([0], &[] as &[i64]).unwrap());
        trained.step(Delta::Slices { rows, ids });
        assert_eq!(trained.values(0) == before, !rule.moves_every_row(), "{rule:?}");
    }
}

#[test]
fn ftrl_at_the_rate_0_leaves_everything_as_it_is() {
    for rule in rules().into_iter().filter(|rule| rule.get::<FtrlRule>().is_some()) {
        let mut trained = Trained::new(rule.clone(), 0.0, [15], &table());
        trained.dense(&[0.3; 15]);
        assert_eq!([trained.values(0), trained.values(2)], [table().to_vec(), vec![0.0; 15]]);
    }
}

#[test]
fn lamb_moves_a_variable_by_the_learning_rate_times_its_own_length() {
    let norm = |values: &[f32]| values.iter().map(|value| value * value).sum::<f32>().sqrt();
    let (beta1, beta2, epsilon) = BETAS;
    for scale in [1e-3, 1.0, 1e3] {
        let start = table().map(|value| value * scale);
        let rule = LambRule { beta1, beta2, epsilon, weight_decay: 0.0 };
        let mut trained = Trained::new(rule, 0.1, [15], &start);
        trained.dense(&[0.3; 15]);
        let moved: Vec<f32> =
            trained.values(0).iter().zip(start).map(|(now, start)| now - start).collect();
        assert!((norm(&moved) / norm(&start) / 0.1 - 1.0).abs() < 1e-4, "{scale}");
    }
}

#[test]
fn lamb_trusts_a_variable_of_zeros_and_a_direction_of_zeros_by_1() {
    let rule = LambRule { beta1: 0.9, beta2: 0.999, epsilon: 1e-6, weight_decay: 0.0 };
    let mut zeros = Trained::new(rule, 0.1, [2], &[0.0; 2]);
    zeros.dense(&[0.5, -0.5]);
    zeros.assert_near(&[-0.1, 0.1]);
    let mut still = Trained::new(rule, 0.1, [2], &[1.0, 2.0]);
    still.dense(&[0.0; 2]);
    assert_eq!(still.values(0), [1.0, 2.0]);
}

#[test]
fn weight_decay_of_adamw_is_apart_from_the_gradient_and_its_moments() {
    let (beta1, beta2, epsilon) = BETAS;
    let rule = AdamWRule { beta1, beta2, epsilon, weight_decay: 0.2 };
    let mut trained = Trained::new(rule, 0.5, [2], &[1.0, -2.0]);
    (0..2).for_each(|_| trained.dense(&[0.0; 2]));
    trained.assert_near(&[0.81, -1.62]);
    assert_eq!([trained.values(1), trained.values(2)], [[0.0; 2], [0.0; 2]]);
}

/// The compensation that every rule gets here.
fn change(read: &[f32; 15]) -> Option<Compensation> {
    Some(Compensation { read: Tensor::new([5, 3], read).unwrap(), lambda: 0.4 })
}

#[test]
fn a_gradient_is_compensated_by_its_square_times_the_change_since_it_was_read() {
    let mut trained = Trained::new(GradientDescentRule, 0.1, [2], &[1.0, -2.0]);
    let read = Tensor::new([2], &[0.5f32, -1.0]).unwrap();
    trained.update.compensation = Some(Compensation { read, lambda: 0.5 });
    trained.dense(&[2.0, -4.0]);
    // 2 + 0.5 * 4 * 0.5 = 3; -4 + 0.5 * 16 * -1 = -12.
    trained.assert_near(&[1.0 - 0.1 * 3.0, -2.0 + 0.1 * 12.0]);
}

#[test]
fn compensated_rows_get_the_numbers_of_the_compensated_dense_update_to_the_last_bit() {
    let read: [f32; 15] = table().map(|value| value * 0.75 + 0.1);
    for rule in rules().into_iter().filter(|rule| rule.get::<MomentumRule>().is_none()) {
        let [mut rows, mut all, mut plain] =
            [(), (), ()].map(|()| Trained::new(rule.clone(), 0.3, [5, 3], &table()));
        (rows.update.compensation, all.update.compensation) = (change(&read), change(&read));
        rows.rows(&[1, 4], &two_rows(1));
        all.dense(&whole(&two_rows(1)));
        plain.dense(&whole(&two_rows(1)));
        for at in [3..6, 12..15] {
            assert_eq!(rows.values(0)[at.clone()], all.values(0)[at.clone()], "{rule:?}");
            // The first step of LAMB and similar rules depends on the direction of a gradient, and
            // hardly on its length.
            assert!(
                rule.get::<GradientDescentRule>().is_none()
                    || plain.values(0)[at.clone()] != all.values(0)[at],
                "{rule:?}"
            );
        }
    }
}

#[test]
fn a_compensation_leaves_the_gradient_and_what_was_read_as_they_are() {
    let gradient = Tensor::full([5, 3], 0.5f32);
    let mut trained = Trained::new(GradientDescentRule, 0.1, [5, 3], &table());
    trained.update.compensation = change(&[0.0; 15]);
    trained.step(Delta::Dense(gradient.clone()));
    assert_eq!(gradient, Tensor::full([5, 3], 0.5f32));
    assert_eq!(trained.update.compensation.unwrap().read, Tensor::full([5, 3], 0f32));
}

#[test]
fn hollow_values_stay_hollow_under_compensation() {
    let mut trained = Trained::new(GradientDescentRule, 0.1, [5, 3], &table());
    trained.update.values[0] = Tensor::hollow(DType::F32, [5, 3]);
    trained.update.compensation =
        Some(Compensation { read: Tensor::hollow(DType::F32, [5, 3]), lambda: 0.4 });
    trained.dense(&[0.5; 15]);
    assert!(trained.update.values[0].is_hollow());
}

#[test]
fn a_compensation_costs_three_reads_and_a_write_of_what_the_gradient_is_of() {
    let mut trained = Trained::new(GradientDescentRule, 0.1, [5, 3], &table());
    let mut costs = |compensation| {
        trained.update.compensation = compensation;
        trained.dense(&whole(&two_rows(1)));
        let dense = trained.update.cost();
        trained.rows(&[1, 4], &two_rows(1));
        [dense, trained.update.cost()]
    };
    let [plain, compensated] = [costs(None), costs(change(&[0.0; 15]))];
    for (at, elements) in [(0, 15), (1, 6)] {
        assert_eq!(compensated[at], plain[at] + Cost::work(5 * elements, 16 * elements));
    }
}
