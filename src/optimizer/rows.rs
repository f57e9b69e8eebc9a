//! An update of some rows of a variable: duplicates are summed first, and no other row is read or
//! written.
//!
//! The numbers equal those of the dense update with zeros elsewhere, to the last bit, if the rule
//! leaves a row with zero gradient as it is. Three kinds of rules do not: momentum, whose
//! accumulator goes on moving its rows; means that decay; and norms that shrink the variable. With
//! them rows that are not listed keep their values, as in TensorFlow. Adam, which TensorFlow
//! computes densely here too, and the rules built on it, except lazy Adam, move every row.

use super::update::Delta;
use crate::graph::RowsAt;
use crate::kernels;
use crate::kernels::indexed::positions;
use crate::tensor::{DType, Shape, Tensor};

/// The mean of slices: one row for each id that occurs.
pub(super) struct Rows {
    /// The ids, ascending.
    positions: Vec<usize>,
    rows: Vec<f32>,
    /// The number of elements in a row.
    width: usize,
}

impl Rows {
    /// The mean of `gradients` of a variable of shape `shape`, if all are slices: each one's
    /// duplicates are summed in their order, then the sums in the order of the gradients. Every
    /// gradient counts for every row, also for rows that it lacks. (TensorFlow's
    /// `SparseConditionalAccumulator` divides each row by the number of gradients that have it, so
    /// that its mean differs from that of the dense gradients.)
    pub(super) fn mean_of(gradients: &[Delta], shape: Shape) -> Option<Self> {
        let (table, width) = (*shape.dims().first()?, shape.dims()[1..].iter().product());
        let mut found = Vec::new();
        for gradient in gradients {
            let Delta::Slices { rows, ids } = gradient else { return None };
            let ids = positions(ids, table).expect("ids are checked when a gradient comes");
            found.push((rows, ids));
        }
        let mut positions: Vec<usize> = found.iter().flat_map(|(_, ids)| ids).copied().collect();
        positions.sort_unstable();
        positions.dedup();
        let sums: Vec<Vec<f32>> =
            found.iter().map(|(rows, ids)| summed(rows, ids, &positions, width)).collect();
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

    /// The dense gradient of shape `shape`, with zeros in all other rows.
    pub(super) fn dense(&self, shape: Shape) -> Tensor {
        let mut dense = Tensor::zeros(DType::F32, shape);
        let whole = dense.make_mut::<f32>();
        let RowsAt { positions, width } = self.at();
        for (position, row) in positions.iter().zip(self.rows.chunks_exact(width)) {
            whole[position * width..][..width].copy_from_slice(row);
        }
        dense
    }

    /// Corrects the rows for the variable's change from `read` to `now`.
    pub(super) fn compensate(&mut self, now: &[f32], read: &[f32], lambda: f32) {
        let width = self.width.max(1);
        for (position, row) in self.positions.iter().zip(self.rows.chunks_exact_mut(width)) {
            let at = position * width..(position + 1) * width;
            kernels::update::compensate(row, &now[at.clone()], &read[at], lambda);
        }
    }

    /// The positions of the rows. The width is at least 1: rows without elements have no values to
    /// cut.
    pub(super) fn at(&self) -> RowsAt<'_> {
        RowsAt { positions: &self.positions, width: self.width.max(1) }
    }

    /// All rows, one after the other.
    pub(super) fn values(&self) -> &[f32] {
        &self.rows
    }
}

/// The sum, for each of the ascending `positions`, of the rows with that id.
fn summed(rows: &Tensor, ids: &[usize], positions: &[usize], width: usize) -> Vec<f32> {
    let place = |id: &usize| positions.binary_search(id).expect("every id is among the positions");
    let places: Vec<usize> = ids.iter().map(place).collect();
    let mut sums = vec![0.0; positions.len() * width];
    kernels::sparse::segment_sum(rows.slice(), &places, width, &mut sums);
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::UpdateRule;
    use crate::kernels::Cost;
    use crate::optimizer::rules::{AdagradRule, AdamRule, GradientDescentRule};
    use crate::optimizer::{Update, apply};

    /// A worker's rows of a table of 7 rows of `width`, with ids that repeat.
    fn slices(worker: usize, width: usize) -> Delta {
        let ids: Vec<i64> = (0..5).map(|i| ((i * i + 2 * worker) % 6) as i64).collect();
        let rows: Vec<f32> =
            (0..5 * width).map(|i| ((i * 31 + worker * 17) % 13) as f32 * 0.137 - 0.7).collect();
        Delta::Slices {
            rows: Tensor::new([5, width], &rows).unwrap(),
            ids: Tensor::new([5], &ids).unwrap(),
        }
    }

    /// The same gradient, dense: each row added to its place.
    fn dense(delta: &Delta, width: usize) -> Delta {
        let Delta::Slices { rows, ids } = delta else { panic!("these are slices") };
        let mut whole = vec![0f32; 7 * width];
        for (row, id) in ids.slice::<i64>().iter().enumerate() {
            (0..width).for_each(|c| {
                whole[*id as usize * width + c] += rows.slice::<f32>()[row * width + c]
            });
        }
        Delta::Dense(Tensor::new([7, width], &whole).unwrap())
    }

    fn update(rule: UpdateRule, width: usize, gradients: Vec<Delta>) -> Update {
        let values: Vec<f32> = (0..7 * width).map(|i| (i % 11) as f32 * 0.3 - 1.0).collect();
        let slots = (0..rule.slots().len()).map(|_| Tensor::full([7, width], 0.1f32));
        let values =
            std::iter::once(Tensor::new([7, width], &values).unwrap()).chain(slots).collect();
        Update { rule, learning_rate: 0.3, values, gradients: gradients.into(), compensation: None }
    }

    fn rules() -> [UpdateRule; 2] {
        [GradientDescentRule.into(), AdagradRule::default().into()]
    }

    #[test]
    fn the_mean_of_slices_is_that_of_the_dense_gradients_to_the_last_bit_also_where_they_are_mixed()
    {
        for width in [1, 3, 16, 33] {
            for (rule, workers) in rules()
                .into_iter()
                .flat_map(|rule| (1..4).map(move |workers| (rule.clone(), workers)))
            {
                let sparse: Vec<Delta> = (0..workers).map(|worker| slices(worker, width)).collect();
                let whole: Vec<Delta> = sparse.iter().map(|delta| dense(delta, width)).collect();
                let mixed = [&sparse[..1], &whole[1..]].concat();
                let [by_rows, by_all, by_both] = [sparse, whole, mixed].map(|gradients| {
                    let mut update = update(rule.clone(), width, gradients);
                    apply(&mut update);
                    update.values
                });
                assert!(
                    by_rows == by_all && by_both == by_all,
                    "{rule:?}, {workers} of width {width}"
                );
            }
        }
    }

    #[test]
    fn rows_are_updated_in_place() {
        let mut update = update(GradientDescentRule.into(), 4, vec![slices(0, 4)]);
        let before = update.values[0].bytes().as_ptr();
        apply(&mut update);
        assert_eq!(update.values[0].bytes().as_ptr(), before);
    }

    #[test]
    fn an_update_of_rows_costs_what_they_are_and_not_what_the_table_is_except_with_adam() {
        let cost = |rule: &UpdateRule, rows: usize| {
            let of_rows = update(rule.clone(), 4, vec![slices(0, 4)]);
            Update { values: vec![Tensor::zeros(DType::F32, [rows, 4])].into(), ..of_rows }.cost()
        };
        for rule in rules() {
            assert_eq!(cost(&rule, 7), cost(&rule, 7000), "{rule:?}");
        }
        let adam = AdamRule::default().into();
        assert!(cost(&adam, 7000).bytes > 100 * cost(&adam, 7).bytes);
        let [descent, _] = rules();
        assert_eq!(cost(&descent, 7), Cost::add_n(1, 20) + Cost::update(&descent, 20));
    }
}
