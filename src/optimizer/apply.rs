//! From an update rule to its kernel, over a whole variable or some of its rows.

use super::rows::Rows;
use super::update::{Mean, Update};
use crate::graph::UpdateRule;
use crate::kernels::update::{
    self, Adadelta, Adagrad, AdagradDa, Adam, AdamW, CenteredRmsProp, Ftrl, GradientDescent, Lamb,
    Momentum, ProximalAdagrad, ProximalGradientDescent, RmsProp, Rule,
};
use crate::tensor::Tensor;

/// Applies `update` to its values, in place where nobody else holds them. Does nothing to hollow
/// ones.
pub(crate) fn apply(update: &mut Update) {
    let read = update.compensation.as_ref().map(|compensation| &compensation.read);
    if update.values.iter().chain(read).any(Tensor::is_hollow) {
        return;
    }
    let mean = update.mean();
    let by = match &mean {
        Mean::Nothing => return,
        Mean::Dense(gradient) => By::All(gradient.slice()),
        Mean::Rows(rows) => By::Rows(rows),
    };
    let (rate, values) = (update.learning_rate, update.values.as_mut_slice());
    match update.rule {
        UpdateRule::GradientDescent => by.rule(GradientDescent { rate }, values),
        UpdateRule::Momentum { momentum, use_nesterov: nesterov } => {
            by.rule(Momentum { rate, momentum, nesterov }, values);
        }
        UpdateRule::Adagrad { .. } => by.rule(Adagrad { rate }, values),
        UpdateRule::AdagradDa { l1, l2, .. } => {
            let update = next_update(values);
            by.rule(AdagradDa { rate, l1, l2, update }, values);
        }
        UpdateRule::Adadelta { rho, epsilon } => by.rule(Adadelta { rate, rho, epsilon }, values),
        UpdateRule::RmsProp { decay, momentum, epsilon, centered: false } => {
            by.rule(RmsProp { rate, decay, momentum, epsilon }, values);
        }
        UpdateRule::RmsProp { decay, momentum, epsilon, centered: true } => {
            by.rule(CenteredRmsProp(RmsProp { rate, decay, momentum, epsilon }), values);
        }
        UpdateRule::Adam { beta1, beta2, epsilon }
        | UpdateRule::LazyAdam { beta1, beta2, epsilon } => {
            by.rule(adam(rate, [beta1, beta2, epsilon], values), values);
        }
        UpdateRule::AdamW { beta1, beta2, epsilon, weight_decay } => {
            by.rule(
                AdamW { adam: adam(rate, [beta1, beta2, epsilon], values), weight_decay },
                values,
            );
        }
        UpdateRule::Lamb { beta1, beta2, epsilon, weight_decay } => {
            let lamb = Lamb { adam: adam(rate, [beta1, beta2, epsilon], values), weight_decay };
            by.each(values, |state, gradient| update::lamb(state, gradient, lamb));
        }
        // It divides by the rate, which may come down to 0.
        UpdateRule::Ftrl { .. } if rate == 0.0 => {}
        UpdateRule::Ftrl { learning_rate_power: power, l1, l2, l2_shrinkage, beta, .. } => {
            by.rule(Ftrl { rate, power, l1, l2, l2_shrinkage, beta }, values);
        }
        UpdateRule::ProximalGradientDescent { l1, l2 } => {
            by.rule(ProximalGradientDescent { rate, l1, l2 }, values)
        }
        UpdateRule::ProximalAdagrad { l1, l2, .. } => {
            by.rule(ProximalAdagrad(ProximalGradientDescent { rate, l1, l2 }), values);
        }
    }
}

/// What a rule is applied by: a gradient of every element, or of some rows.
enum By<'a> {
    All(&'a [f32]),
    Rows(&'a Rows),
}

impl By<'_> {
    fn rule<const N: usize>(&self, rule: impl Rule<N>, values: &mut [Tensor]) {
        self.each(values, |state, gradient| update::apply(rule, state, gradient));
    }

    /// Calls `update` with the variable, its slots and the gradient: whole, or for each row.
    fn each<const N: usize>(
        &self,
        values: &mut [Tensor],
        mut update: impl FnMut([&mut [f32]; N], &[f32]),
    ) {
        let values =
            values.first_chunk_mut::<N>().expect("a graph binds as many slots as its rule has");
        let mut state = values.each_mut().map(Tensor::make_mut::<f32>);
        match self {
            By::All(gradient) => update(state, gradient),
            By::Rows(rows) => rows.each(|at, row| {
                update(state.each_mut().map(|values| &mut values[at.clone()]), row)
            }),
        }
    }
}

/// Counts an update of dual averaging, from 1.
fn next_update(values: &mut [Tensor]) -> f32 {
    let updates = &mut values[3].make_mut::<i64>()[0];
    *updates += 1;
    *updates as f32
}

/// Adam's constants at this step, whose powers of β go on to the next.
fn adam(rate: f32, [beta1, beta2, epsilon]: [f32; 3], values: &mut [Tensor]) -> Adam {
    let mut next = |slot: usize, beta: f32| {
        let power = &mut values[slot].make_mut::<f32>()[0];
        std::mem::replace(power, *power * beta)
    };
    Adam { rate, beta1, beta2, epsilon, beta1_power: next(3, beta1), beta2_power: next(4, beta2) }
}
