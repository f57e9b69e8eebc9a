//! Each update rule as its definition says, in `f64`, one element after the other.

use crate::graph::UpdateRule;

/// Takes the variable and its slots, `state`, through update number `t`, from 1.
pub(super) fn update(
    rule: UpdateRule,
    rate: f64,
    t: i32,
    state: &mut [Vec<f64>],
    gradient: &[f64],
) {
    let trust = match rule {
        UpdateRule::Lamb { .. } => trust(rule, t, state, gradient),
        _ => 1.0,
    };
    for (i, g) in gradient.iter().enumerate() {
        let element: Vec<f64> = state.iter().map(|values| values[i]).collect();
        let updated = of_element(rule, rate * trust, f64::from(t), &element, *g);
        state.iter_mut().zip(updated).for_each(|(values, updated)| values[i] = updated);
    }
}

/// LAMB's ratio of the norms of the variable and of its direction, which is what a step of rate 1
/// takes away.
fn trust(rule: UpdateRule, t: i32, state: &[Vec<f64>], gradient: &[f64]) -> f64 {
    let norm = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
    let direction = |(i, g): (usize, &f64)| {
        let element: Vec<f64> = state.iter().map(|values| values[i]).collect();
        element[0] - of_element(rule, 1.0, f64::from(t), &element, *g)[0]
    };
    let direction: Vec<f64> = gradient.iter().enumerate().map(direction).collect();
    norm(&state[0]) / norm(&direction)
}

fn of_element(rule: UpdateRule, lr: f64, t: f64, state: &[f64], g: f64) -> Vec<f64> {
    let (v, wide) = (state[0], f64::from);
    let shrunk = |x: f64, by: f64| x.signum() * (x.abs() - by).max(0.0);
    match rule {
        UpdateRule::GradientDescent => vec![v - lr * g],
        UpdateRule::Momentum { momentum, use_nesterov } => {
            let m = wide(momentum) * state[1] + g;
            vec![v - lr * if use_nesterov { g + wide(momentum) * m } else { m }, m]
        }
        UpdateRule::Adagrad { .. } => {
            let a = state[1] + g * g;
            vec![v - lr * g / a.sqrt(), a]
        }
        UpdateRule::AdagradDa { l1, l2, .. } => {
            let (sum, squared) = (state[1] + g, state[2] + g * g);
            vec![
                -lr * shrunk(sum, wide(l1) * t) / (wide(l2) * t * lr + squared.sqrt()),
                sum,
                squared,
            ]
        }
        UpdateRule::Adadelta { rho, epsilon } => {
            let (rho, epsilon) = (wide(rho), wide(epsilon));
            let a = rho * state[1] + (1.0 - rho) * g * g;
            let d = ((state[2] + epsilon) / (a + epsilon)).sqrt() * g;
            vec![v - lr * d, a, rho * state[2] + (1.0 - rho) * d * d]
        }
        UpdateRule::RmsProp { decay, momentum, epsilon, centered } => {
            let decay = wide(decay);
            let s = decay * state[1] + (1.0 - decay) * g * g;
            let c = if centered { decay * state[2] + (1.0 - decay) * g } else { 0.0 };
            let m = wide(momentum) * state[state.len() - 1]
                + lr * g / (s - c * c + wide(epsilon)).sqrt();
            if centered { vec![v - m, s, c, m] } else { vec![v - m, s, m] }
        }
        UpdateRule::Adam { beta1, beta2, epsilon }
        | UpdateRule::LazyAdam { beta1, beta2, epsilon } => {
            let [m, s, mean, root] = moments(beta1, beta2, t, state, g);
            // The ε of TensorFlow's form is that of the paper times this.
            let hat = (1.0 - wide(beta2).powf(t)).sqrt();
            vec![v - lr * mean / (root + wide(epsilon) / hat), m, s]
        }
        UpdateRule::AdamW { beta1, beta2, epsilon, weight_decay } => {
            let adam = of_element(UpdateRule::Adam { beta1, beta2, epsilon }, lr, t, state, g);
            vec![adam[0] - lr * wide(weight_decay) * v, adam[1], adam[2]]
        }
        UpdateRule::Lamb { beta1, beta2, epsilon, weight_decay } => {
            let [m, s, mean, root] = moments(beta1, beta2, t, state, g);
            vec![v - lr * (mean / (root + wide(epsilon)) + wide(weight_decay) * v), m, s]
        }
        UpdateRule::Ftrl { learning_rate_power, l1, l2, l2_shrinkage, beta, .. } => {
            let (a, n) = (state[1], state[1] + g * g);
            let power = |x: f64| x.powf(-wide(learning_rate_power));
            let z = state[2] + g + 2.0 * wide(l2_shrinkage) * v - (power(n) - power(a)) / lr * v;
            vec![-shrunk(z, wide(l1)) / (power(n) / lr + 2.0 * wide(l2) + wide(beta) / lr), n, z]
        }
        UpdateRule::ProximalGradientDescent { l1, l2 } => {
            vec![shrunk(v - lr * g, lr * wide(l1)) / (1.0 + lr * wide(l2))]
        }
        UpdateRule::ProximalAdagrad { l1, l2, .. } => {
            let a = state[1] + g * g;
            let proximal = UpdateRule::ProximalGradientDescent { l1, l2 };
            vec![of_element(proximal, lr / a.sqrt(), t, &state[..1], g)[0], a]
        }
    }
}

/// Both moments, the mean without its bias, and the root of the mean square without its bias.
fn moments(beta1: f32, beta2: f32, t: f64, state: &[f64], g: f64) -> [f64; 4] {
    let (beta1, beta2) = (f64::from(beta1), f64::from(beta2));
    let (m, s) = (beta1 * state[1] + (1.0 - beta1) * g, beta2 * state[2] + (1.0 - beta2) * g * g);
    [m, s, m / (1.0 - beta1.powf(t)), (s / (1.0 - beta2.powf(t))).sqrt()]
}
