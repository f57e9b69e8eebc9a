//! One update of one variable: its rule, its values, and the mean of a round's gradients.

use smallvec::SmallVec;

use super::rows::Rows;
use crate::graph::UpdateRule;
use crate::kernels::{self, Cost};
use crate::tensor::{DType, Shape, Tensor};

/// The inputs of an update of one variable.
#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) rule: UpdateRule,
    pub(crate) learning_rate: f32,
    /// The variable's value, then its slots' values, in the order of the rule.
    pub(crate) values: SmallVec<[Tensor; 5]>,
    /// The gradients whose mean is applied, by worker index, so that their sum has one order.
    pub(crate) gradients: Deltas,
    /// The correction of their mean for staleness.
    pub(crate) compensation: Option<Compensation>,
}

/// The change since a gradient was computed (Zheng et al. 2017, DC-ASGD).
#[derive(Debug)]
pub(crate) struct Compensation {
    /// The variable's value that the gradient was computed from.
    pub(crate) read: Tensor,
    /// The weight of the change.
    pub(crate) lambda: f32,
}

/// The gradients of an update: one, or those of a round.
pub(crate) type Deltas = SmallVec<[Delta; 1]>;

/// A gradient as a value.
#[derive(Clone, Debug)]
pub(crate) enum Delta {
    /// A gradient of every element.
    Dense(Tensor),
    /// A gradient of the rows with these ids, which may repeat; the other rows' gradient is zero.
    Slices { rows: Tensor, ids: Tensor },
}

/// The mean of a round's gradients.
pub(super) enum Mean {
    Nothing,
    Dense(Tensor),
    Rows(Rows),
}

impl Update {
    /// The update's cost on a device. Slices cost as much as their rows, as if no id came twice.
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
        let touched = match given {
            Some(given) if !self.rule.moves_every_row() => given.min(elements),
            _ => elements,
        };
        let compensated = match &self.compensation {
            Some(_) => Cost::compensate(given.map_or(elements, |given| given.min(elements))),
            None => Cost::default(),
        };
        summed + compensated + Cost::update(&self.rule, touched)
    }

    /// The gradient that the rule applies.
    pub(super) fn mean(&self) -> Mean {
        let shape = self.values[0].shape();
        let Some(mut rows) = Rows::mean_of(&self.gradients, shape) else {
            return self.dense_mean(shape);
        };
        if let Some(Compensation { read, lambda }) = &self.compensation {
            rows.compensate(self.values[0].slice(), read.slice(), *lambda);
        }
        if self.rule.moves_every_row() { Mean::Dense(rows.dense(shape)) } else { Mean::Rows(rows) }
    }

    fn dense_mean(&self, shape: Shape) -> Mean {
        let mut mean = match self.gradients.as_slice() {
            [] => return Mean::Nothing,
            [Delta::Dense(one)] => one.clone(),
            several => mean_of(&several.iter().map(|delta| delta.dense(shape)).collect::<Vec<_>>()),
        };
        if let Some(Compensation { read, lambda }) = &self.compensation {
            kernels::update::compensate(
                mean.make_mut(),
                self.values[0].slice(),
                read.slice(),
                *lambda,
            );
        }
        Mean::Dense(mean)
    }
}

impl Delta {
    /// The number of elements of the slices; `None` if the gradient is dense.
    fn sliced(&self) -> Option<usize> {
        match self {
            Self::Dense(_) => None,
            Self::Slices { rows, .. } => Some(rows.shape().elements()),
        }
    }

    /// The dense gradient, of a variable of shape `shape`.
    fn dense(&self, shape: Shape) -> Tensor {
        match self {
            Self::Dense(gradient) => gradient.clone(),
            Self::Slices { .. } => {
                let rows = Rows::mean_of(std::slice::from_ref(self), shape);
                rows.map_or_else(|| Tensor::zeros(DType::F32, shape), |rows| rows.dense(shape))
            }
        }
    }
}

fn mean_of(gradients: &[Tensor]) -> Tensor {
    let slices: Vec<&[f32]> = gradients.iter().map(Tensor::slice).collect();
    let mut mean = Tensor::uninitialised::<f32>(gradients[0].shape());
    kernels::elementwise::add_n(&slices, 1.0 / gradients.len() as f32, mean.make_mut());
    mean
}
