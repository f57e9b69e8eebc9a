//! The update rules of the optimizers, in place, dense.
//!
//! They are TensorFlow's (`training_ops.cc`): every element's update depends on that element alone, so
//! chunks can't change a bit. `variable`, its slots and `gradient` have one length.

use rayon::prelude::*;

use super::parallel::{CHUNK, PARALLEL_FROM, vectorised};

/// `v -= rate * g` (TensorFlow `ApplyGradientDescent`).
pub(crate) fn gradient_descent(variable: &mut [f32], gradient: &[f32], rate: f32) {
    assert_eq!(variable.len(), gradient.len(), "a gradient has the shape of its variable");
    let rule = |variable: &mut [f32], gradient: &[f32]| {
        vectorised(|| variable.iter_mut().zip(gradient).for_each(|(v, g)| *v -= rate * g));
    };
    if variable.len() < PARALLEL_FROM {
        return rule(variable, gradient);
    }
    variable.par_chunks_mut(CHUNK).zip(gradient.par_chunks(CHUNK)).for_each(|(v, g)| rule(v, g));
}

/// The constants of [`momentum`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Momentum {
    /// The learning rate.
    pub(crate) rate: f32,
    /// What is kept of the accumulated gradient at each step.
    pub(crate) momentum: f32,
    /// Whether to look ahead by one step (Nesterov).
    pub(crate) nesterov: bool,
}

/// `a = momentum * a + g; v -= rate * a`, with Nesterov `v -= rate * g + rate * momentum * a`
/// (TensorFlow `ApplyMomentum`).
pub(crate) fn momentum(variable: &mut [f32], accumulator: &mut [f32], gradient: &[f32], by: Momentum) {
    let Momentum { rate, momentum, nesterov } = by;
    if nesterov {
        return with_slot(variable, accumulator, gradient, |v, a, g| {
            *a = *a * momentum + g;
            *v -= g * rate + *a * momentum * rate;
        });
    }
    with_slot(variable, accumulator, gradient, |v, a, g| {
        *a = *a * momentum + g;
        *v -= rate * *a;
    });
}

/// `a += g * g; v -= rate * g / sqrt(a)` (TensorFlow `ApplyAdagrad`): no epsilon, so the accumulator
/// must begin above 0.
pub(crate) fn adagrad(variable: &mut [f32], accumulator: &mut [f32], gradient: &[f32], rate: f32) {
    with_slot(variable, accumulator, gradient, |v, a, g| {
        *a += g * g;
        *v -= rate * g / a.sqrt();
    });
}

/// The constants of [`adam`] at one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Adam {
    /// The learning rate.
    pub(crate) rate: f32,
    /// What is kept of the first moment at each step.
    pub(crate) beta1: f32,
    /// What is kept of the second moment at each step.
    pub(crate) beta2: f32,
    /// `beta1` to the power of the step, which counts from 1. (TensorFlow multiplies a variable by `beta1`
    /// after each step; another way to the power changes the update in its sixth digit.)
    pub(crate) beta1_power: f32,
    /// `beta2` to the power of the step, likewise.
    pub(crate) beta2_power: f32,
    /// What keeps the denominator from 0; outside the root ("epsilon hat").
    pub(crate) epsilon: f32,
}

/// `m += (g - m) * (1 - beta1); s += (g * g - s) * (1 - beta2); v -= alpha * m / (sqrt(s) + epsilon)`
/// with `alpha = rate * sqrt(1 - beta2_power) / (1 - beta1_power)` (TensorFlow `ApplyAdam`; Kingma and
/// Ba, <https://arxiv.org/abs/1412.6980>, before section 2.1).
pub(crate) fn adam(variable: &mut [f32], first: &mut [f32], second: &mut [f32], gradient: &[f32], by: Adam) {
    assert_eq!(variable.len(), first.len(), "a slot has the shape of its variable");
    assert_eq!(variable.len(), second.len(), "a slot has the shape of its variable");
    assert_eq!(variable.len(), gradient.len(), "a gradient has the shape of its variable");
    let alpha = by.rate * (1.0 - by.beta2_power).sqrt() / (1.0 - by.beta1_power);
    let rule = |variable: &mut [f32], first: &mut [f32], second: &mut [f32], gradient: &[f32]| {
        vectorised(|| {
            let slots = first.iter_mut().zip(second);
            for ((v, g), (m, s)) in variable.iter_mut().zip(gradient).zip(slots) {
                *m += (g - *m) * (1.0 - by.beta1);
                *s += (g * g - *s) * (1.0 - by.beta2);
                *v -= *m * alpha / (s.sqrt() + by.epsilon);
            }
        });
    };
    if variable.len() < PARALLEL_FROM {
        return rule(variable, first, second, gradient);
    }
    let slots = first.par_chunks_mut(CHUNK).zip(second.par_chunks_mut(CHUNK));
    let state = variable.par_chunks_mut(CHUNK).zip(slots);
    state.zip(gradient.par_chunks(CHUNK)).for_each(|((v, (m, s)), g)| rule(v, m, s, g));
}

/// The first part of Adam by some rows: both moments decay, in every row (TensorFlow
/// `AdamOptimizer._apply_sparse`).
pub(crate) fn adam_decay(first: &mut [f32], second: &mut [f32], by: Adam) {
    let scale = |x: &mut [f32], factor: f32| vectorised(|| x.iter_mut().for_each(|x| *x *= factor));
    for (moment, factor) in [(first, by.beta1), (second, by.beta2)] {
        if moment.len() < PARALLEL_FROM {
            scale(moment, factor);
        } else {
            moment.par_chunks_mut(CHUNK).for_each(|moment| scale(moment, factor));
        }
    }
}

/// The second part, for one row: what its gradient adds to the moments.
pub(crate) fn adam_add(first: &mut [f32], second: &mut [f32], gradient: &[f32], by: Adam) {
    with_slot(first, second, gradient, |m, s, g| {
        *m += g * (1.0 - by.beta1);
        *s += g * g * (1.0 - by.beta2);
    });
}

/// The last part: every row moves by its moments.
pub(crate) fn adam_move(variable: &mut [f32], first: &mut [f32], second: &[f32], by: Adam) {
    let alpha = by.rate * (1.0 - by.beta2_power).sqrt() / (1.0 - by.beta1_power);
    with_slot(variable, first, second, |v, m, s| *v -= *m * alpha / (s.sqrt() + by.epsilon));
}

/// Applies `rule` to each element of a variable, its slot and its gradient.
#[inline(always)]
fn with_slot(
    variable: &mut [f32],
    slot: &mut [f32],
    gradient: &[f32],
    rule: impl Fn(&mut f32, &mut f32, f32) + Copy + Sync,
) {
    assert_eq!(variable.len(), slot.len(), "a slot has the shape of its variable");
    assert_eq!(variable.len(), gradient.len(), "a gradient has the shape of its variable");
    let serial = |variable: &mut [f32], slot: &mut [f32], gradient: &[f32]| {
        vectorised(|| {
            let state = variable.iter_mut().zip(slot);
            state.zip(gradient).for_each(|((v, slot), g)| rule(v, slot, *g));
        });
    };
    if variable.len() < PARALLEL_FROM {
        return serial(variable, slot, gradient);
    }
    let state = variable.par_chunks_mut(CHUNK).zip(slot.par_chunks_mut(CHUNK));
    state.zip(gradient.par_chunks(CHUNK)).for_each(|((v, slot), g)| serial(v, slot, g));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A variable after three steps of `rule(variable, gradient)`.
    fn after_three(start: [f32; 2], gradient: f32, mut rule: impl FnMut(&mut [f32], &[f32])) -> [f32; 2] {
        let mut variable = start;
        (0..3).for_each(|_| rule(&mut variable, &[gradient; 2]));
        variable
    }

    fn assert_close(found: [f32; 2], wanted: [f32; 2]) {
        let far = found.iter().zip(wanted).any(|(found, wanted)| (found - wanted).abs() > 1e-6);
        assert!(!far, "{found:?} is not {wanted:?}");
    }

    #[test]
    fn three_steps_of_each_rule_give_tensorflows_values() {
        let three = |rule: &mut dyn FnMut(&mut [f32], &[f32])| after_three([1.0, 2.0], 0.1, rule);
        assert_close(three(&mut |v, g| gradient_descent(v, g, 0.5)), [0.85, 1.85]);
        for (nesterov, wanted) in [(false, [0.7195, 1.7195]), (true, [0.59755, 1.59755])] {
            let mut slot = [0.0; 2];
            let by = Momentum { rate: 0.5, momentum: 0.9, nesterov };
            assert_close(three(&mut |v, g| momentum(v, &mut slot, g, by)), wanted);
        }
        let mut slot = [0.1; 2];
        assert_close(three(&mut |v, g| adagrad(v, &mut slot, g, 0.5)), [0.5662317, 1.566232]);
        let (mut first, mut second) = ([0.0; 2], [0.0; 2]);
        let (mut beta1_power, mut beta2_power) = (0.9, 0.999);
        let adam_step = &mut |v: &mut [f32], g: &[f32]| {
            let by = Adam { rate: 0.5, beta1: 0.9, beta2: 0.999, beta1_power, beta2_power, epsilon: 1e-8 };
            adam(v, &mut first, &mut second, g, by);
            beta1_power *= by.beta1;
            beta2_power *= by.beta2;
        };
        assert_close(three(adam_step), [-0.4999914, 0.5000086]);
    }

    #[test]
    fn adagrad_gives_the_values_of_tensorflows_own_test() {
        for (start, gradient, wanted) in
            [([1.0, 2.0], 0.1, [-1.6026099, -0.6026099]), ([3.0, 4.0], 0.01, [2.7156792, 3.7156792])]
        {
            let mut slot = [0.1; 2];
            assert_close(after_three(start, gradient, |v, g| adagrad(v, &mut slot, g, 3.0)), wanted);
        }
    }
}
