//! One update of one variable: the mean of a round's gradients, then the rule.

use smallvec::SmallVec;

use super::rows::{Rows, apply_to_rows};
use crate::graph::UpdateRule;
use crate::kernels::{self, Cost};
use crate::tensor::{Shape, Tensor};

/// All that an update of one variable needs.
#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) rule: UpdateRule,
    pub(crate) learning_rate: f32,
    /// The variable's value, then its slots', in the order of the rule.
    pub(crate) values: SmallVec<[Tensor; 5]>,
    /// The gradients whose mean is applied, by worker index, so that their sum has one order.
    pub(crate) gradients: Deltas,
}

/// The gradients of an update: one, or those of a round.
pub(crate) type Deltas = SmallVec<[Delta; 1]>;

/// A gradient as a value.
#[derive(Clone, Debug)]
pub(crate) enum Delta {
    /// Of every element.
    Dense(Tensor),
    /// Of the rows with these ids, which may repeat; the others' is zero.
    Slices { rows: Tensor, ids: Tensor },
}

/// What a round's gradients come to.
enum Mean {
    Nothing,
    Dense(Tensor),
    Rows(Rows),
}

impl Update {
    /// What the update costs a device. Slices cost as much as their rows, as if no id came twice.
    pub(crate) fn cost(&self) -> Cost {
        let given: Option<usize> = self.gradients.iter().map(Delta::sliced).sum();
        let elements = self.values[0].shape().elements();
        let summed = match (given, self.gradients.len()) {
            (_, 0) => return Cost::default(),
            (Some(given), 1) => Cost::add_n(1, given),
            (Some(given), _) => Cost::add_n(1, given) + Cost::add_n(1, given),
            (None, 1) => Cost::default(),
            (None, several) => Cost::add_n(several, elements),
        };
        let touched = given.map_or(elements, |given| given.min(elements));
        summed
            + match self.rule {
                UpdateRule::GradientDescent => Cost::gradient_descent(touched),
                UpdateRule::Momentum { use_nesterov, .. } => Cost::momentum(touched, use_nesterov),
                UpdateRule::Adagrad { .. } => Cost::adagrad(touched),
                // Its moments decay in every row, and so every row moves.
                UpdateRule::Adam { .. } => Cost::adam(elements),
            }
    }

    fn mean(&self) -> Mean {
        let shape = self.values[0].shape();
        if let Some(rows) = Rows::mean_of(&self.gradients, shape) {
            return Mean::Rows(rows);
        }
        match self.gradients.as_slice() {
            [] => Mean::Nothing,
            [Delta::Dense(one)] => Mean::Dense(one.clone()),
            several => Mean::Dense(mean_of(&several.iter().map(|delta| delta.dense(shape)).collect::<Vec<_>>())),
        }
    }
}

impl Delta {
    /// How many elements the slices have; none where the gradient is dense.
    fn sliced(&self) -> Option<usize> {
        match self {
            Self::Dense(_) => None,
            Self::Slices { rows, .. } => Some(rows.shape().elements()),
        }
    }

    /// All elements, of a variable of shape `shape`.
    fn dense(&self, shape: Shape) -> Tensor {
        match self {
            Self::Dense(gradient) => gradient.clone(),
            Self::Slices { .. } => {
                let mut dense = Tensor::zeros(crate::tensor::DType::F32, shape);
                if let Some(rows) = Rows::mean_of(std::slice::from_ref(self), shape) {
                    rows.write_to(dense.make_mut());
                }
                dense
            }
        }
    }
}

/// Applies `update` to its values, in place where nobody else holds them. Does nothing to hollow ones.
pub(crate) fn apply(update: &mut Update) {
    if update.values.iter().any(Tensor::is_hollow) {
        return;
    }
    match update.mean() {
        Mean::Nothing => {}
        Mean::Rows(rows) => apply_to_rows(update, &rows),
        Mean::Dense(gradient) => apply_to_all(update, gradient.slice()),
    }
}

fn apply_to_all(update: &mut Update, gradient: &[f32]) {
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
            let by = adam_step(rate, (beta1, beta2, epsilon), beta1_power, beta2_power);
            kernels::update::adam(variable, first.make_mut(), second.make_mut(), gradient, by);
        }
        (rule, slots) => panic!("{rule:?} does not keep {} slots", slots.len()),
    }
}

/// Adam's constants at this step, whose powers of β go on to the next.
pub(super) fn adam_step(
    rate: f32,
    (beta1, beta2, epsilon): (f32, f32, f32),
    beta1_power: &mut Tensor,
    beta2_power: &mut Tensor,
) -> kernels::update::Adam {
    let powers = (beta1_power.make_mut::<f32>(), beta2_power.make_mut::<f32>());
    let (beta1_power, beta2_power) = (powers.0[0], powers.1[0]);
    powers.0[0] *= beta1;
    powers.1[0] *= beta2;
    kernels::update::Adam { rate, beta1, beta2, epsilon, beta1_power, beta2_power }
}

fn mean_of(gradients: &[Tensor]) -> Tensor {
    let slices: Vec<&[f32]> = gradients.iter().map(Tensor::slice).collect();
    let mut mean = Tensor::uninitialised::<f32>(gradients[0].shape());
    kernels::elementwise::add_n(&slices, 1.0 / gradients.len() as f32, mean.make_mut());
    mean
}
