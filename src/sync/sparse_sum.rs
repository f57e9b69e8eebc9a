//! The sum of gradients of some rows, merged as TensorFlow's sparse accumulator merges them.

use std::cmp::Ordering;

/// The gradients in TensorFlow's `SparseConditionalAccumulator`, summed: rows with their numbers.
///
/// It merges lists of numbers as if they were sorted and each number came once. A number that comes
/// twice in one list stays twice, and each of the two can be summed with one of the next list; if a
/// list is not sorted, rows of one number can stay apart. The code that applies the result sums
/// such rows anyway.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SparseSum {
    indices: Vec<i64>,
    /// The number of gradients that had each row.
    counts: Vec<u32>,
    values: Vec<f32>,
    /// The number of elements in a row.
    width: usize,
}

/// A row of a merged list, by its place in the old list, in the new one or in both.
enum Row {
    Old(usize),
    New(usize),
    Both(usize, usize),
}

impl SparseSum {
    /// Begins the sum with one gradient: its `values` are rows of `width` elements, with the
    /// numbers `indices`.
    ///
    /// # Panics
    /// If the rows are not as many as the numbers.
    pub(crate) fn new(indices: &[i64], values: &[f32], width: usize) -> Self {
        assert_eq!(values.len(), indices.len() * width, "every number has a row");
        Self {
            indices: indices.to_vec(),
            counts: vec![1; indices.len()],
            values: values.to_vec(),
            width,
        }
    }

    /// Adds another gradient.
    ///
    /// # Panics
    /// If the rows are not as many as the numbers.
    pub(crate) fn add(&mut self, indices: &[i64], values: &[f32]) {
        assert_eq!(values.len(), indices.len() * self.width, "every number has a row");
        let rows = merged(&self.indices, indices);
        let mut sum =
            Self { indices: Vec::new(), counts: Vec::new(), values: Vec::new(), width: self.width };
        let at = |row: usize| row * self.width..(row + 1) * self.width;
        for row in rows {
            let (index, count) = match row {
                Row::Old(old) => (self.indices[old], self.counts[old]),
                Row::New(new) => (indices[new], 1),
                Row::Both(old, _) => (self.indices[old], self.counts[old] + 1),
            };
            sum.indices.push(index);
            sum.counts.push(count);
            match row {
                Row::Old(old) => sum.values.extend_from_slice(&self.values[at(old)]),
                Row::New(new) => sum.values.extend_from_slice(&values[at(new)]),
                Row::Both(old, new) => {
                    let pairs = self.values[at(old)].iter().zip(&values[at(new)]);
                    sum.values.extend(pairs.map(|(old, new)| old + new));
                }
            }
        }
        *self = sum;
    }

    /// Returns the numbers of the rows, and the sum of each row.
    pub(crate) fn into_sum(self) -> (Vec<i64>, Vec<f32>) {
        (self.indices, self.values)
    }

    /// Returns the numbers of the rows, and of each row the mean over the gradients that had it.
    pub(crate) fn into_mean(mut self) -> (Vec<i64>, Vec<f32>) {
        if self.width > 0 {
            for (row, count) in self.values.chunks_exact_mut(self.width).zip(&self.counts) {
                row.iter_mut().for_each(|value| *value /= *count as f32);
            }
        }
        (self.indices, self.values)
    }
}

/// Merges two lists' rows by their numbers, as if each list were sorted.
fn merged(old: &[i64], new: &[i64]) -> Vec<Row> {
    let (mut i, mut j) = (0, 0);
    let mut rows = Vec::with_capacity(old.len() + new.len());
    while i < old.len() && j < new.len() {
        match old[i].cmp(&new[j]) {
            Ordering::Less => rows.push(Row::Old(i)),
            Ordering::Equal => rows.push(Row::Both(i, j)),
            Ordering::Greater => rows.push(Row::New(j)),
        }
        let order = old[i].cmp(&new[j]);
        i += usize::from(order.is_le());
        j += usize::from(order.is_ge());
    }
    rows.extend((i..old.len()).map(Row::Old));
    rows.extend((j..new.len()).map(Row::New));
    rows
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn sum(gradients: &[(&[i64], &[f32])], width: usize) -> SparseSum {
        let (first, others) = gradients.split_first().unwrap();
        let mut sum = SparseSum::new(first.0, first.1, width);
        others.iter().for_each(|(indices, values)| sum.add(indices, values));
        sum
    }

    /// From TensorFlow's `sparse_conditional_accumulator_test`.
    #[test]
    fn the_mean_of_a_row_is_over_the_gradients_that_have_it() {
        let both = sum(&[(&[0, 1], &[1.0, 0.0, 0.0, 2.0]), (&[0, 2], &[0.0, 1.0, 3.0, 0.0])], 2);
        assert_eq!(both.clone().into_mean(), (vec![0, 1, 2], vec![0.5, 0.5, 0.0, 2.0, 3.0, 0.0]));
        assert_eq!(both.into_sum(), (vec![0, 1, 2], vec![1.0, 1.0, 0.0, 2.0, 3.0, 0.0]));
        let apart = sum(&[(&[1], &[1.0]), (&[0], &[4.0])], 1);
        assert_eq!(apart.into_mean(), (vec![0, 1], vec![4.0, 1.0]), "and not 2 and 0.5");
    }

    #[test]
    fn duplicates_stay_and_pair_up_and_rows_out_of_order_stay_apart_as_in_tensorflow() {
        let twice = sum(&[(&[1, 1], &[1.0, 2.0]), (&[1, 1], &[10.0, 20.0])], 1);
        assert_eq!(twice.into_mean(), (vec![1, 1], vec![5.5, 11.0]));
        let unsorted = sum(&[(&[2, 0], &[1.0, 2.0]), (&[0, 2], &[10.0, 20.0])], 1);
        assert_eq!(unsorted.into_mean(), (vec![0, 2, 0], vec![10.0, 10.5, 2.0]));
    }

    #[test]
    fn of_sorted_lists_the_sum_is_that_of_the_dense_gradients_and_each_mean_is_over_its_count() {
        let lists: Vec<(Vec<i64>, Vec<f32>)> = (0..9u64)
            .map(|k| {
                let indices: Vec<i64> = (0..40)
                    .filter(|i| (i * i + 3 * k).is_multiple_of(k % 4 + 2))
                    .map(|i| i as i64)
                    .collect();
                let values =
                    indices.iter().flat_map(|i| [*i as f32 + k as f32, k as f32 - 3.0]).collect();
                (indices, values)
            })
            .collect();
        let mut dense: BTreeMap<i64, (f32, [f32; 2])> = BTreeMap::new();
        for (indices, values) in &lists {
            for (index, row) in indices.iter().zip(values.chunks(2)) {
                let (count, sum) = dense.entry(*index).or_default();
                (*count, *sum) = (*count + 1.0, [sum[0] + row[0], sum[1] + row[1]]);
            }
        }
        let lists: Vec<(&[i64], &[f32])> =
            lists.iter().map(|(indices, values)| (&**indices, &**values)).collect();
        let (indices, values) = sum(&lists, 2).into_mean();
        assert_eq!(indices, dense.keys().copied().collect::<Vec<_>>());
        let means: Vec<f32> =
            dense.values().flat_map(|(count, sum)| sum.map(|sum| sum / count)).collect();
        assert_eq!(values, means);
    }

    #[test]
    fn gradients_without_rows_or_with_rows_of_nothing_are_sums_too() {
        assert_eq!(
            sum(&[(&[], &[]), (&[3], &[1.0, 2.0])], 2).into_mean(),
            (vec![3], vec![1.0, 2.0])
        );
        assert_eq!(sum(&[(&[1, 2], &[]), (&[2], &[])], 0).into_mean(), (vec![1, 2], vec![]));
    }
}
