//! Each kernel by its definition, one element after the other: the reference for tests of the fast
//! versions.
//!
//! Functions and long sums are computed in `f64`, so that any difference is the fast version's
//! error.

pub(super) mod window;

use super::matmul::MatMul;
use crate::graph::Axes;
use crate::tensor::Shape;

/// `op(a) * op(b)`.
pub(super) fn matmul(a: &[f32], b: &[f32], dims: MatMul) -> Vec<f32> {
    matmul_wide(a, b, dims).iter().map(|x| *x as f32).collect()
}

/// As [`matmul`], not rounded.
pub(super) fn matmul_wide(a: &[f32], b: &[f32], dims: MatMul) -> Vec<f64> {
    let MatMul { m, k, n, transpose_a, transpose_b } = dims;
    let a = |i: usize, l: usize| f64::from(a[if transpose_a { l * m + i } else { i * k + l }]);
    let b = |l: usize, j: usize| f64::from(b[if transpose_b { j * k + l } else { l * n + j }]);
    let element = |i: usize, j: usize| (0..k).map(|l| a(i, l) * b(l, j)).sum::<f64>();
    (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| element(i, j)).collect()
}

/// `f` of each element.
pub(super) fn map<X: Copy, Y>(x: &[X], f: impl Fn(X) -> Y) -> Vec<Y> {
    x.iter().map(|x| f(*x)).collect()
}

/// For each element of a result of shape `out`, its position in an operand of shape `from` that
/// broadcasts to it.
pub(super) fn sources(from: Shape, out: Shape) -> Vec<usize> {
    let source = |mut at: usize| {
        let (mut position, mut stride) = (0, 1);
        for axis in (0..out.rank()).rev() {
            let index = at % out.dims()[axis];
            at /= out.dims()[axis];
            let Some(own) =
                (axis + from.rank()).checked_sub(out.rank()).map(|axis| from.dims()[axis])
            else {
                continue;
            };
            position += if own == 1 { 0 } else { index * stride };
            stride *= own;
        }
        position
    };
    (0..out.elements()).map(source).collect()
}

/// `f` of each element of a matrix and its column.
pub(super) fn map_columns(x: &[f32], columns: usize, f: impl Fn(f32, usize) -> f32) -> Vec<f32> {
    x.iter().enumerate().map(|(i, x)| f(*x, i % columns)).collect()
}

/// `f` of each element of a matrix and its row.
pub(super) fn map_rows(x: &[f32], columns: usize, f: impl Fn(f32, usize) -> f32) -> Vec<f32> {
    x.iter().enumerate().map(|(i, x)| f(*x, i / columns)).collect()
}

/// The sums of the columns.
pub(super) fn column_sums(x: &[f32], columns: usize) -> Vec<f32> {
    (0..columns).map(|c| sum(x.iter().skip(c).step_by(columns))).collect()
}

/// The sum.
pub(super) fn sum<'a>(x: impl IntoIterator<Item = &'a f32>) -> f32 {
    x.into_iter().map(|x| f64::from(*x)).sum::<f64>() as f32
}

/// The index of the first greatest element of each row.
pub(super) fn argmax(x: &[f32], columns: usize) -> Vec<i64> {
    let of_row = |row: &[f32]| {
        let greatest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        row.iter().position(|x| *x == greatest).expect("the greatest of a row is in it") as i64
    };
    x.chunks(columns).map(of_row).collect()
}

/// The logarithm of the softmax of each row.
pub(super) fn log_softmax(x: &[f32], classes: usize) -> Vec<f64> {
    let of_row = |row: &[f32]| {
        let greatest = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let log_sum = row.iter().map(|x| (f64::from(*x) - greatest).exp()).sum::<f64>().ln();
        row.iter().map(|x| f64::from(*x) - greatest - log_sum).collect::<Vec<_>>()
    };
    x.chunks(classes).flat_map(of_row).collect()
}

/// `((inputs[0] + inputs[1]) + ...) * scale`.
pub(super) fn add_n(inputs: &[&[f32]], scale: f32) -> Vec<f32> {
    let sum = |i: usize| inputs[1..].iter().fold(inputs[0][i], |sum, input| sum + input[i]);
    (0..inputs[0].len()).map(|i| sum(i) * scale).collect()
}

/// The place of each element of a tensor in the result of reducing some axes.
pub(super) fn places(shape: Shape, axes: Axes) -> Vec<usize> {
    let place = |mut element: usize| {
        let (mut place, mut stride) = (0, 1);
        for (axis, dim) in shape.dims().iter().enumerate().rev() {
            if !axes.contains(axis) {
                place += element % dim * stride;
                stride *= dim;
            }
            element /= dim;
        }
        place
    };
    (0..shape.elements()).map(place).collect()
}

/// `f` of the elements of each result.
pub(super) fn reduce(x: &[f64], shape: Shape, axes: Axes, f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let left = shape
        .dims()
        .iter()
        .enumerate()
        .filter(|(axis, _)| !axes.contains(*axis))
        .map(|(_, dim)| dim)
        .product();
    let mut taken = vec![Vec::new(); left];
    places(shape, axes).iter().zip(x).for_each(|(place, x)| taken[*place].push(*x));
    taken.iter().map(|x| f(x)).collect()
}

/// A dense value of dimensions `dims` of `f` of each combination of positions.
pub(super) fn by_position<T>(dims: &[usize], f: impl Fn(&[usize]) -> T) -> Vec<T> {
    let elements: usize = dims.iter().product();
    let positions = |mut i: usize| {
        let mut at = vec![0; dims.len()];
        for (at, dim) in at.iter_mut().zip(dims).rev() {
            (*at, i) = (i % dim, i / dim);
        }
        at
    };
    (0..elements).map(|i| f(&positions(i))).collect()
}

/// The place of the element at `at` in a dense value of dimensions `dims`.
pub(super) fn place(dims: &[usize], at: &[usize]) -> usize {
    assert_eq!(dims.len(), at.len());
    dims.iter().zip(at).fold(0, |place, (dim, at)| place * dim + at)
}
