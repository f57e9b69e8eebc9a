//! One update of one variable: the mean of a round's gradients, then the rule.

use crate::graph::UpdateRule;
use crate::kernels::{self, Cost};
use crate::tensor::Tensor;

/// All that an update of one variable needs.
#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) rule: UpdateRule,
    pub(crate) learning_rate: f32,
    /// The variable's value, then its slots', in the order of the rule.
    pub(crate) values: Vec<Tensor>,
    /// The gradients whose mean is applied, by worker index, so that their sum has one order.
    pub(crate) gradients: Vec<Tensor>,
}

impl Update {
    /// What the update costs a device.
    pub(crate) fn cost(&self) -> Cost {
        let elements = self.values[0].shape().elements();
        let rule = match self.rule {
            UpdateRule::GradientDescent => Cost::gradient_descent(elements),
            UpdateRule::Momentum { use_nesterov, .. } => Cost::momentum(elements, use_nesterov),
            UpdateRule::Adagrad { .. } => Cost::adagrad(elements),
            UpdateRule::Adam { .. } => Cost::adam(elements),
        };
        match self.gradients.len() {
            0 => Cost::default(),
            1 => rule,
            several => Cost::add_n(several, elements) + rule,
        }
    }
}

/// Applies `update` to its values, in place where nobody else holds them. Does nothing to hollow ones.
pub(crate) fn apply(update: &mut Update) {
    if update.values.iter().any(Tensor::is_hollow) {
        return;
    }
    let mean;
    let gradient = match update.gradients.as_slice() {
        [] => return,
        [one] => one.slice::<f32>(),
        several => {
            mean = mean_of(several);
            mean.slice::<f32>()
        }
    };
    let rate = update.learning_rate;
    let (variable, slots) = update.values.split_first_mut().expect("an update is of a variable");
    let variable = variable.make_mut::<f32>();
    match (update.rule, slots) {
        (UpdateRule::GradientDescent, []) => kernels::update::gradient_descent(variable, gradient, rate),
        (UpdateRule::Momentum { momentum, use_nesterov }, [accumulator]) => {
            let by = kernels::update::Momentum { rate, momentum, nesterov: use_nesterov };
            kernels::update::momentum(variable, accumulator.make_mut(), gradient, by);
        }
        (UpdateRule::Adagrad { .. }, [accumulator]) => {
            kernels::update::adagrad(variable, accumulator.make_mut(), gradient, rate);
        }
        (UpdateRule::Adam { beta1, beta2, epsilon }, [first, second, beta1_power, beta2_power]) => {
            let powers = (beta1_power.make_mut::<f32>(), beta2_power.make_mut::<f32>());
            let by = kernels::update::Adam {
                rate,
                beta1,
                beta2,
                epsilon,
                beta1_power: powers.0[0],
                beta2_power: powers.1[0],
            };
            kernels::update::adam(variable, first.make_mut(), second.make_mut(), gradient, by);
            powers.0[0] *= beta1;
            powers.1[0] *= beta2;
        }
        (rule, slots) => panic!("{rule:?} does not keep {} slots", slots.len()),
    }
}

fn mean_of(gradients: &[Tensor]) -> Tensor {
    let slices: Vec<&[f32]> = gradients.iter().map(Tensor::slice).collect();
    let mut mean = Tensor::uninitialised::<f32>(gradients[0].shape());
    kernels::elementwise::add_n(&slices, 1.0 / gradients.len() as f32, mean.make_mut());
    mean
}
