//! Each update rule by its definition, in `f64`, one element after the other.

use crate::graph::UpdateRule;
use crate::optimizer::*;

/// Takes the variable and its slots, `state`, through update number `t`, from 1.
pub(super) fn update(
    rule: &UpdateRule,
    rate: f64,
    t: i32,
    state: &mut [Vec<f64>],
    gradient: &[f64],
) {
    let is_lamb = rule.get::<LambRule>().is_some();
    let trust = if is_lamb { trust(rule, t, state, gradient) } else { 1.0 };
    for (i, g) in gradient.iter().enumerate() {
        let element: Vec<f64> = state.iter().map(|values| values[i]).collect();
        let updated = of_element(rule, rate * trust, f64::from(t), &element, *g);
        state.iter_mut().zip(updated).for_each(|(values, updated)| values[i] = updated);
    }
}

/// LAMB's ratio of the norms of the variable and of its direction: what a step of rate 1 takes
/// away.
fn trust(rule: &UpdateRule, t: i32, state: &[Vec<f64>], gradient: &[f64]) -> f64 {
    let norm = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
    let direction = |(i, g): (usize, &f64)| {
        let element: Vec<f64> = state.iter().map(|values| values[i]).collect();
        element[0] - of_element(rule, 1.0, f64::from(t), &element, *g)[0]
    };
    let direction: Vec<f64> = gradient.iter().enumerate().map(direction).collect();
    norm(&state[0]) / norm(&direction)
}

fn of_element(rule: &UpdateRule, lr: f64, t: f64, state: &[f64], g: f64) -> Vec<f64> {
    let (v, wide) = (state[0], f64::from);
    let shrunk = |x: f64, by: f64| x.signum() * (x.abs() - by).max(0.0);
    if rule.get::<GradientDescentRule>().is_some() {
        vec![v - lr * g]
    } else if let Some(&MomentumRule { momentum, use_nesterov }) = rule.get() {
        let m = wide(momentum) * state[1] + g;
        vec![v - lr * if use_nesterov { g + wide(momentum) * m } else { m }, m]
    } else if let Some(&AdagradRule { .. }) = rule.get() {
        let a = state[1] + g * g;
        vec![v - lr * g / a.sqrt(), a]
    } else if let Some(&AdagradDaRule { l1, l2, .. }) = rule.get() {
        let (sum, squared) = (state[1] + g, state[2] + g * g);
        vec![-lr * shrunk(sum, wide(l1) * t) / (wide(l2) * t * lr + squared.sqrt()), sum, squared]
    } else if let Some(&AdadeltaRule { rho, epsilon }) = rule.get() {
        let (rho, epsilon) = (wide(rho), wide(epsilon));
        let a = rho * state[1] + (1.0 - rho) * g * g;
        let d = ((state[2] + epsilon) / (a + epsilon)).sqrt() * g;
        vec![v - lr * d, a, rho * state[2] + (1.0 - rho) * d * d]
    } else if let Some(&RmsPropRule { decay, momentum, epsilon, centered }) = rule.get() {
        let decay = wide(decay);
        let s = decay * state[1] + (1.0 - decay) * g * g;
        let c = if centered { decay * state[2] + (1.0 - decay) * g } else { 0.0 };
        let m =
            wide(momentum) * state[state.len() - 1] + lr * g / (s - c * c + wide(epsilon)).sqrt();
        if centered { vec![v - m, s, c, m] } else { vec![v - m, s, m] }
    } else if let Some(&AdamRule { beta1, beta2, epsilon, .. }) = rule.get() {
        let [m, s, mean, root] = moments(beta1, beta2, t, state, g);
        // TensorFlow's ε is the paper's times this.
        let hat = (1.0 - wide(beta2).powf(t)).sqrt();
        vec![v - lr * mean / (root + wide(epsilon) / hat), m, s]
    } else if let Some(&AdamWRule { beta1, beta2, epsilon, weight_decay }) = rule.get() {
        let adam =
            of_element(&AdamRule { beta1, beta2, epsilon, lazy: false }.into(), lr, t, state, g);
        vec![adam[0] - lr * wide(weight_decay) * v, adam[1], adam[2]]
    } else if let Some(&LambRule { beta1, beta2, epsilon, weight_decay }) = rule.get() {
        let [m, s, mean, root] = moments(beta1, beta2, t, state, g);
        vec![v - lr * (mean / (root + wide(epsilon)) + wide(weight_decay) * v), m, s]
    } else if let Some(&FtrlRule { learning_rate_power, l1, l2, l2_shrinkage, beta, .. }) =
        rule.get()
    {
        let (a, n) = (state[1], state[1] + g * g);
        let power = |x: f64| x.powf(-wide(learning_rate_power));
        let z = state[2] + g + 2.0 * wide(l2_shrinkage) * v - (power(n) - power(a)) / lr * v;
        vec![-shrunk(z, wide(l1)) / (power(n) / lr + 2.0 * wide(l2) + wide(beta) / lr), n, z]
    } else if let Some(&ProximalGradientDescentRule { l1, l2 }) = rule.get() {
        vec![shrunk(v - lr * g, lr * wide(l1)) / (1.0 + lr * wide(l2))]
    } else if let Some(&ProximalAdagradRule { l1, l2, .. }) = rule.get() {
        let a = state[1] + g * g;
        let proximal = ProximalGradientDescentRule { l1, l2 }.into();
        vec![of_element(&proximal, lr / a.sqrt(), t, &state[..1], g)[0], a]
    } else {
        panic!("{rule:?} has no reference")
    }
}

/// Both moments, the mean without its bias, and the root of the mean square without its bias.
fn moments(beta1: f32, beta2: f32, t: f64, state: &[f64], g: f64) -> [f64; 4] {
    let (beta1, beta2) = (f64::from(beta1), f64::from(beta2));
    let (m, s) = (beta1 * state[1] + (1.0 - beta1) * g, beta2 * state[2] + (1.0 - beta2) * g * g);
    [m, s, m / (1.0 - beta1.powf(t)), (s / (1.0 - beta2.powf(t))).sqrt()]
}
