//! The numbers of TensorFlow's own tests, by dense gradients and by rows.

use super::Trained;
use crate::graph::UpdateRule;
use crate::optimizer::*;

/// Asserts the values of two variables after `steps` steps of a rule with constant gradients, as in
/// TensorFlow's tests; then the same by rows, between rows without a gradient.
#[track_caller]
fn assert_steps(
    rule: impl Into<UpdateRule>,
    rate: f32,
    steps: usize,
    cases: &[([f32; 2], [f32; 2], [f32; 2])],
) {
    let rule = rule.into();
    for (start, gradient, expected) in cases {
        let mut dense = Trained::new(rule.clone(), rate, [2], start);
        let table = [9.0, start[0], 9.0, start[1], 9.0];
        let mut sparse = Trained::new(rule.clone(), rate, [5, 1], &table);
        for _ in 0..steps {
            dense.dense(gradient);
            sparse.rows(&[3, 1], &[gradient[1], gradient[0]]);
        }
        dense.assert_near(expected);
        let rows = sparse.values(0);
        assert_eq!([rows[1], rows[3]].as_slice(), dense.values(0), "{rule:?}");
    }
}

/// Asserts the values after three steps from `[1, 2]`, with the gradient `[0.1, 0.1]` and the rate
/// 0.5.
#[track_caller]
fn assert_three(rule: impl Into<UpdateRule>, expected: [f32; 2]) {
    assert_steps(rule, 0.5, 3, &[([1.0, 2.0], [0.1, 0.1], expected)]);
}

const ADAGRAD: AdagradRule = AdagradRule { initial_accumulator_value: 0.1 };

fn ftrl(learning_rate_power: f32, initial_accumulator_value: f32) -> UpdateRule {
    let (l1, l2, l2_shrinkage, beta) = (0.0, 0.0, 0.0, 0.0);
    FtrlRule { learning_rate_power, initial_accumulator_value, l1, l2, l2_shrinkage, beta }.into()
}

fn ftrl_with(l1: f32, l2: f32, l2_shrinkage: f32) -> UpdateRule {
    FtrlRule {
        learning_rate_power: -0.5,
        initial_accumulator_value: 0.1,
        l1,
        l2,
        l2_shrinkage,
        beta: 0.0,
    }
    .into()
}

#[test]
fn three_steps_of_gradient_descent() {
    assert_three(GradientDescentRule, [0.85, 1.85]);
}

#[test]
fn three_steps_of_momentum_and_nesterov() {
    assert_three(MomentumRule { momentum: 0.9, use_nesterov: false }, [0.7195, 1.7195]);
    assert_three(MomentumRule { momentum: 0.9, use_nesterov: true }, [0.59755, 1.59755]);
}

#[test]
fn three_steps_of_adagrad() {
    assert_three(ADAGRAD, [0.5662317, 1.566232]);
}

#[test]
fn three_steps_of_adadelta() {
    assert_three(AdadeltaRule { rho: 0.95, epsilon: 1e-8 }, [0.9993216, 1.999321]);
}

#[test]
fn three_steps_of_rms_prop_without_and_with_momentum() {
    let rms = |momentum| RmsPropRule { decay: 0.9, momentum, epsilon: 1e-10, centered: false };
    assert_three(rms(0.0), [0.833382, 1.833382]);
    assert_three(rms(0.9), [0.6933656, 1.693366]);
}

#[test]
fn three_steps_of_adam_dense_by_rows_and_lazy() {
    let (beta1, beta2, epsilon) = super::BETAS;
    let lazy = AdamRule { beta1, beta2, epsilon, lazy: true };
    assert_three(lazy, [-0.4999914, 0.5000086]);
    assert_three(AdamRule { beta1, beta2, epsilon, lazy: false }, [-0.4999914, 0.5000086]);
}

#[test]
fn three_steps_of_ftrl() {
    assert_three(ftrl(-0.5, 0.1), [-0.3872309, -0.3406935]);
}

/// `adagrad_test.py`: `testBasic` and `testSparseBasic`.
#[test]
fn adagrad_of_rate_3() {
    let cases = [
        ([1.0, 2.0], [0.1, 0.1], [-1.6026099, -0.6026099]),
        ([3.0, 4.0], [0.01, 0.01], [2.7156792, 3.7156792]),
    ];
    assert_steps(ADAGRAD, 3.0, 3, &cases);
}

/// `adagrad_test.py`: `testSparseRepeatedIndices`.
#[test]
fn adagrad_of_a_row_that_comes_twice() {
    let [mut repeated, mut aggregated] =
        [(), ()].map(|()| Trained::new(ADAGRAD, 3.0, [2, 1], &[1.0, 2.0]));
    for _ in 0..3 {
        repeated.rows(&[1, 1], &[0.1, 0.1]);
        aggregated.rows(&[1], &[0.2]);
        assert_eq!(repeated.values(0), aggregated.values(0));
    }
}

/// `ftrl_test.py`: `testFtrlwithoutRegularization` and `…2`.
#[test]
fn ftrl_of_rate_3_from_zeros_and_from_other_weights() {
    let (g0, g1) = ([0.1, 0.2], [0.01, 0.02]);
    let from_zeros =
        [([0.0; 2], g0, [-2.6026096, -4.296985]), ([0.0; 2], g1, [-0.28432083, -0.56694895])];
    assert_steps(ftrl(-0.5, 0.1), 3.0, 3, &from_zeros);
    let others =
        [([1.0, 2.0], g0, [-2.5560725, -3.987294]), ([4.0, 3.0], g1, [-0.28232238, -0.56096673])];
    assert_steps(ftrl(-0.5, 0.1), 3.0, 3, &others);
}

/// `ftrl_test.py`: `testFtrlWithL1`, `…L1_L2` and `…L1_L2_L2Shrinkage`.
#[test]
fn ftrl_with_each_regularization() {
    let cases = |a, b| [([1.0, 2.0], [0.1, 0.2], a), ([4.0, 3.0], [0.01, 0.02], b)];
    let l1 = cases([-7.6671877, -10.912737], [-0.93460727, -1.8614726]);
    assert_steps(ftrl_with(0.001, 0.0, 0.0), 3.0, 10, &l1);
    let l2 = cases([-0.24059935, -0.46829352], [-0.02406147, -0.04830509]);
    assert_steps(ftrl_with(0.001, 2.0, 0.0), 3.0, 10, &l2);
    let shrinkage = cases([-0.22578995, -0.44345796], [-0.14378493, -0.13229476]);
    assert_steps(ftrl_with(0.001, 2.0, 0.1), 3.0, 10, &shrinkage);
}

/// `ftrl_test.py`: `testEquivGradientDescentwithoutRegularization` and
/// `testEquivAdagradwithoutRegularization`.
#[test]
fn ftrl_from_zeros_is_gradient_descent_with_power_0_and_adagrad_with_power_a_half() {
    for (rule, same) in
        [(ftrl(0.0, 0.1), UpdateRule::from(GradientDescentRule)), (ftrl(-0.5, 0.1), ADAGRAD.into())]
    {
        let [mut ftrl, mut other] =
            [rule, same].map(|rule| Trained::new(rule, 3.0, [2], &[0.0; 2]));
        for t in 0..5 {
            let gradient = [0.1 + 0.03 * t as f32, 0.2 - 0.1 * t as f32];
            ftrl.dense(&gradient);
            other.dense(&gradient);
            ftrl.assert_near(&other.values(0));
        }
    }
}

/// `adagrad_da_test.py`.
#[test]
fn adagrad_by_dual_averaging_without_and_with_each_regularization() {
    let da = |l1, l2| AdagradDaRule { initial_gradient_squared_accumulator_value: 0.1, l1, l2 };
    let cases =
        |start: [[f32; 2]; 2], a, b| [(start[0], [0.1, 0.2], a), (start[1], [0.01, 0.02], b)];
    let (zeros, others) = ([[0.0; 2]; 2], [[1.0, 2.0], [4.0, 3.0]]);
    let plain = cases(zeros, [-0.904534, -1.603567], [-0.094821, -0.189358]);
    assert_steps(da(0.0, 0.0), 3.0, 1, &plain);
    assert_steps(
        da(0.001, 0.0),
        3.0,
        1,
        &cases(others, [-0.895489, -1.59555], [-0.085339, -0.17989]),
    );
    assert_steps(
        da(0.001, 2.0),
        3.0,
        1,
        &cases(others, [-0.046907, -0.093659], [-0.004275, -0.009023]),
    );
}

/// `proximal_gradient_descent_test.py`.
#[test]
fn proximal_gradient_descent_without_and_with_each_regularization() {
    let rule = |l1, l2| ProximalGradientDescentRule { l1, l2 };
    let cases =
        |start: [[f32; 2]; 2], a, b| [(start[0], [0.1, 0.2], a), (start[1], [0.01, 0.02], b)];
    let others = [[1.0, 2.0], [4.0, 3.0]];
    assert_steps(rule(0.0, 0.0), 3.0, 3, &cases([[0.0; 2]; 2], [-0.9, -1.8], [-0.09, -0.18]));
    assert_steps(rule(0.001, 0.0), 3.0, 10, &cases(others, [-1.988, -3.988001], [3.67, 2.37]));
    assert_steps(rule(0.001, 2.0), 3.0, 10, &cases(others, [-0.0495, -0.0995], [-0.0045, -0.0095]));
}

/// `proximal_adagrad_test.py`.
#[test]
fn proximal_adagrad_without_and_with_each_regularization() {
    let rule = |l1, l2| ProximalAdagradRule { initial_accumulator_value: 0.1, l1, l2 };
    let cases =
        |start: [[f32; 2]; 2], a, b| [(start[0], [0.1, 0.2], a), (start[1], [0.01, 0.02], b)];
    let others = [[1.0, 2.0], [4.0, 3.0]];
    let zeros = cases([[0.0; 2]; 2], [-2.6026096, -4.296985], [-0.28432083, -0.56694895]);
    assert_steps(rule(0.0, 0.0), 3.0, 3, &zeros);
    assert_steps(
        rule(0.0, 0.0),
        3.0,
        3,
        &cases(others, [-1.60261, -2.296985], [3.715679, 2.433051]),
    );
    assert_steps(
        rule(0.001, 0.0),
        3.0,
        10,
        &cases(others, [-6.663634, -9.190331], [2.959304, 1.029232]),
    );
    assert_steps(rule(0.001, 2.0), 3.0, 10, &cases(others, [-0.0495, -0.0995], [-0.0045, -0.0095]));
}
