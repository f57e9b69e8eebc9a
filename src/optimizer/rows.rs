//! An update of some rows of a variable: duplicates are summed first, and no other row is read or written.
//!
//! The numbers are those of the dense update with zeros elsewhere, to the last bit, wherever the rule
//! leaves a row whose gradient is zero as it is. That is not so with momentum, whose accumulator goes
//! on moving the rows that it has, and not with Adam, which TensorFlow computes densely here too.

use super::update::{Delta, Update, adam_step};
use crate::graph::UpdateRule;
use crate::kernels;
use crate::kernels::indexed::positions;
use crate::tensor::{Shape, Tensor};

/// The mean of slices: one row for each id that occurs.
pub(super) struct Rows {
    /// Ascending.
    positions: Vec<usize>,
    rows: Vec<f32>,
    /// The elements of a row.
    width: usize,
}

impl Rows {
    /// The mean of `gradients`, where all are slices, of a variable of shape `shape`: each one's
    /// duplicates are summed in their order, then the sums in the order of the gradients. Every gradient
    /// counts, also for a row that it has not. (TensorFlow's `SparseConditionalAccumulator` divides each row by
    /// the number of gradients that have it, so that its mean differs from that of the dense gradients.)
    pub(super) fn mean_of(gradients: &[Delta], shape: Shape) -> Option<Self> {
        let (table, width) = (*shape.dims().first()?, shape.dims()[1..].iter().product());
        let mut found = Vec::with_capacity(gradients.len());
        for gradient in gradients {
            let Delta::Slices { rows, ids } = gradient else { return None };
            let ids = positions(ids, table).expect("ids are checked when a gradient comes");
            found.push((rows, ids));
        }
        let mut positions: Vec<usize> = found.iter().flat_map(|(_, ids)| ids).copied().collect();
        positions.sort_unstable();
        positions.dedup();
        let sums: Vec<Vec<f32>> = found.iter().map(|(rows, ids)| summed(rows, ids, &positions, width)).collect();
        let rows = match sums.as_slice() {
            [] => return None,
            [_] => sums.into_iter().next().expect("there is one"),
            several => {
                let slices: Vec<&[f32]> = several.iter().map(Vec::as_slice).collect();
                let mut mean = vec![0.0; positions.len() * width];
                kernels::elementwise::add_n(&slices, 1.0 / slices.len() as f32, &mut mean);
                mean
            }
        };
        Some(Self { positions, rows, width })
    }

    /// Writes each row to its place in the whole.
    pub(super) fn write_to(&self, whole: &mut [f32]) {
        self.each(|at, row| whole[at].copy_from_slice(row));
    }

    /// Calls `rule` with where each row is, in elements, and the row.
    fn each(&self, mut rule: impl FnMut(std::ops::Range<usize>, &[f32])) {
        if self.width > 0 {
            for (position, row) in self.positions.iter().zip(self.rows.chunks_exact(self.width)) {
                rule(position * self.width..(position + 1) * self.width, row);
            }
        }
    }
}

/// For each of `positions`, which are ascending, the sum of the rows whose id it is.
fn summed(rows: &Tensor, ids: &[usize], positions: &[usize], width: usize) -> Vec<f32> {
    let place = |id: &usize| positions.binary_search(id).expect("every id is among the positions");
    let places: Vec<usize> = ids.iter().map(place).collect();
    let mut sums = vec![0.0; positions.len() * width];
    kernels::sparse::segment_sum(rows.slice(), &places, width, &mut sums);
    sums
}

/// Applies `update` by these rows alone, in place where nobody else holds the values.
pub(super) fn apply_to_rows(update: &mut Update, rows: &Rows) {
    let rate = update.learning_rate;
    let (variable, slots) = update.values.split_first_mut().expect("an update is of a variable");
    let variable = variable.make_mut::<f32>();
    match (update.rule, slots) {
        (UpdateRule::GradientDescent, []) => {
            rows.each(|at, row| kernels::update::gradient_descent(&mut variable[at], row, rate));
        }
        (UpdateRule::Momentum { momentum, use_nesterov }, [accumulator]) => {
            let by = kernels::update::Momentum { rate, momentum, nesterov: use_nesterov };
            let accumulator = accumulator.make_mut::<f32>();
            rows.each(|at, row| {
                kernels::update::momentum(&mut variable[at.clone()], &mut accumulator[at], row, by);
            });
        }
        (UpdateRule::Adagrad { .. }, [accumulator]) => {
            let accumulator = accumulator.make_mut::<f32>();
            rows.each(|at, row| {
                kernels::update::adagrad(&mut variable[at.clone()], &mut accumulator[at], row, rate);
            });
        }
        (UpdateRule::Adam { beta1, beta2, epsilon }, [first, second, beta1_power, beta2_power]) => {
            let by = adam_step(rate, (beta1, beta2, epsilon), beta1_power, beta2_power);
            let (first, second) = (first.make_mut::<f32>(), second.make_mut::<f32>());
            kernels::update::adam_decay(first, second, by);
            rows.each(|at, row| kernels::update::adam_add(&mut first[at.clone()], &mut second[at], row, by));
            kernels::update::adam_move(variable, first, second, by);
        }
        (rule, slots) => panic!("{rule:?} does not keep {} slots", slots.len()),
    }
}
