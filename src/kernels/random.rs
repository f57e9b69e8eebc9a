//! Random values that depend on a key and on their own position alone.
//!
//! The tensor is cut into blocks of fixed size, each drawn from a stream of its own; so threads,
//! devices and earlier draws don't matter. (TensorFlow's values depend on all of these.)

use rand::RngExt;
use rand_distr::StandardNormal;
use rand_pcg::Pcg64;

use super::parallel::{PARALLEL_FROM, for_pieces};
use crate::random::stream;

/// The number of values of a stream.
const BLOCK: usize = 4096;

/// The seed of one operation's values, as TensorFlow's `seed` and `seed2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The seed of the whole run.
    pub(crate) seed: u64,
    /// The number that distinguishes this operation and, where it matters, this step from others.
    pub(crate) operation: u64,
    /// The number of values of the operation before these.
    pub(crate) offset: usize,
}

impl Key {
    /// The key of the same operation where a counter is at `count`.
    pub(crate) fn at(self, count: i64) -> Self {
        let (operation, count) = (self.operation.to_string(), count.to_string());
        let operation = stream(self.seed, &["random count", &operation, &count]).random();
        Self { operation, ..self }
    }
}

/// Uniform over `low <= x < high` (TensorFlow `RandomUniform`); all `low` where that is empty.
pub(crate) fn uniform(key: Key, low: f32, high: f32, out: &mut [f32]) {
    draw(key, out, |stream| {
        let value = low + (high - low) * stream.random::<f32>();
        if value < high { value } else { high.next_down().max(low) }
    });
}

/// Normal with this mean and standard deviation (TensorFlow `RandomNormal`).
pub(crate) fn normal(key: Key, mean: f32, deviation: f32, out: &mut [f32]) {
    draw(key, out, |stream| mean + deviation * stream.sample::<f32, _>(StandardNormal));
}

/// Normal, but values further than two standard deviations from the mean are drawn again
/// (TensorFlow `TruncatedNormal`).
pub(crate) fn truncated_normal(key: Key, mean: f32, deviation: f32, out: &mut [f32]) {
    draw(key, out, |stream| {
        loop {
            let value: f32 = stream.sample(StandardNormal);
            if value.abs() < 2.0 {
                return mean + deviation * value;
            }
        }
    });
}

fn draw(key: Key, out: &mut [f32], value: impl Fn(&mut Pcg64) -> f32 + Sync) {
    let operation = key.operation.to_string();
    let block = |i: usize, skipped: usize, out: &mut [f32]| {
        let mut stream = stream(key.seed, &["random operation", &operation, &i.to_string()]);
        (0..skipped).for_each(|_| {
            value(&mut stream);
        });
        out.iter_mut().for_each(|out| *out = value(&mut stream));
    };
    let (first, skipped) = (key.offset / BLOCK, key.offset % BLOCK);
    let (begun, out) = out.split_at_mut(out.len().min((BLOCK - skipped) % BLOCK));
    if !begun.is_empty() {
        block(first, skipped, begun);
    }
    let first = first + usize::from(skipped > 0);
    let spread = out.len() >= PARALLEL_FROM;
    for_pieces(out, BLOCK, spread, &|i, out| block(first + i, 0, out));
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { seed: 7, operation: 1, offset: 0 };
    const MANY: usize = PARALLEL_FROM + 5000;

    fn drawn(len: usize, draw: impl Fn(&mut [f32])) -> Vec<f32> {
        let mut out = vec![f32::NAN; len];
        draw(&mut out);
        out
    }

    /// The mean and the standard deviation.
    fn moments(x: &[f32]) -> (f64, f64) {
        let mean = x.iter().map(|x| f64::from(*x)).sum::<f64>() / x.len() as f64;
        let variance =
            x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / x.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn a_value_depends_on_key_and_position_and_not_on_the_length() {
        let long = drawn(MANY, |out| normal(KEY, 0.0, 1.0, out));
        for len in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK] {
            assert_eq!(drawn(len, |out| normal(KEY, 0.0, 1.0, out)), long[..len]);
        }
        for other in [Key { seed: 8, ..KEY }, Key { operation: 2, ..KEY }] {
            assert_ne!(drawn(1, |out| normal(other, 0.0, 1.0, out)), long[..1]);
        }
    }

    #[test]
    fn each_count_has_values_of_its_own_and_always_the_same() {
        let at = |key: Key, count| drawn(50, |out| uniform(key.at(count), 0.0, 1.0, out));
        assert_eq!(at(KEY, 3), at(KEY, 3));
        assert_ne!(at(KEY, 3), at(KEY, 4));
        assert_ne!(at(KEY, 3), at(Key { operation: 2, ..KEY }, 3));
        assert_ne!(at(KEY, 0), drawn(50, |out| uniform(KEY, 0.0, 1.0, out)));
    }

    #[test]
    fn values_from_an_offset_are_those_that_the_whole_has_there() {
        let whole = drawn(MANY, |out| truncated_normal(KEY, 0.0, 1.0, out));
        for offset in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7] {
            for len in [0, 1, BLOCK - 1, BLOCK, 2 * BLOCK + 5, MANY - offset] {
                let key = Key { offset, ..KEY };
                let part = drawn(len, |out| truncated_normal(key, 0.0, 1.0, out));
                assert!(part == whole[offset..offset + len], "{len} from {offset}");
            }
        }
    }

    #[test]
    fn uniform_values_fill_their_interval_and_leave_out_its_end() {
        let x = drawn(MANY, |out| uniform(KEY, -1.0, 3.0, out));
        assert!(x.iter().all(|x| (-1.0..3.0).contains(x)));
        let (mean, deviation) = moments(&x);
        assert!(
            (mean - 1.0).abs() < 0.01 && (deviation - 4.0 / 12f64.sqrt()).abs() < 0.01,
            "{mean} {deviation}"
        );
        let narrow = drawn(1000, |out| uniform(KEY, 1.0, 1f32.next_up(), out));
        assert!(narrow.iter().all(|x| *x == 1.0));
        assert_eq!(drawn(2, |out| uniform(KEY, 1.0, 1.0, out)), [1.0, 1.0]);
    }

    #[test]
    fn normal_values_have_the_mean_and_deviation_asked_for() {
        let (mean, deviation) = moments(&drawn(MANY, |out| normal(KEY, 2.0, 0.5, out)));
        assert!(
            (mean - 2.0).abs() < 0.005 && (deviation - 0.5).abs() < 0.005,
            "{mean} {deviation}"
        );
    }

    #[test]
    fn truncated_values_stay_within_two_deviations() {
        let x = drawn(MANY, |out| truncated_normal(KEY, 2.0, 0.5, out));
        assert!(x.iter().all(|x| (1.0..=3.0).contains(x)));
        let (mean, deviation) = moments(&x);
        // The deviation of a standard normal cut at 2 is 0.8796.
        assert!(
            (mean - 2.0).abs() < 0.005 && (deviation - 0.5 * 0.8796).abs() < 0.005,
            "{mean} {deviation}"
        );
    }
}
