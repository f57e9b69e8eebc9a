//! Products of matrices of f32 or f64, one or many.

use gemm_common::Parallelism;

use super::gemm::{Gemm, Matrix};
use super::matmul::{self, MatMul, matmul};
use super::number::Float;
use super::parallel::for_pieces;

/// An element type whose matrices can be multiplied.
pub(crate) trait Factor: Float {
    /// `out = op(a) * op(b)`: one product, as [`matmul()`] says.
    fn product(a: &[Self], b: &[Self], out: &mut [Self], dims: MatMul);
}

impl Factor for f32 {
    fn product(a: &[Self], b: &[Self], out: &mut [Self], dims: MatMul) {
        matmul(a, b, out, dims);
    }
}

impl Factor for f64 {
    fn product(a: &[Self], b: &[Self], out: &mut [Self], dims: MatMul) {
        let MatMul { m, k, n, transpose_a, transpose_b } = dims;
        assert_eq!(
            (a.len(), b.len(), out.len()),
            (m * k, k * n, m * n),
            "the factors and the product have their sizes"
        );
        let (a_row, a_column) = if transpose_a { (1, m) } else { (k, 1) };
        let (b_row, b_column) = if transpose_b { (1, k) } else { (n, 1) };
        let parallel = m * k * n >= matmul::PARALLEL_FROM;
        let parallelism = if parallel { Parallelism::Rayon(0) } else { Parallelism::None };
        let out = Matrix { start: out.as_mut_ptr(), row: n, column: 1 };
        let a = Matrix { start: a.as_ptr(), row: a_row, column: a_column };
        let b = Matrix { start: b.as_ptr(), row: b_row, column: b_column };
        // SAFETY: the lengths were asserted above, and the steps keep every access within them.
        #[expect(unsafe_code, reason = "the product is written through a pointer")]
        unsafe {
            Self::gemm([m, k, n], out, a, b, parallelism);
        }
    }
}

/// `out[i] = op(a[pairs[i].0]) * op(b[pairs[i].1])`, of matrices that lie one behind the other
/// (TensorFlow `BatchMatMulV2`). Each product is that of [`Factor::product`].
pub(crate) fn batch_matmul<T: Factor>(
    a: &[T],
    b: &[T],
    out: &mut [T],
    dims: MatMul,
    pairs: &[(usize, usize)],
) {
    let MatMul { m, k, n, .. } = dims;
    assert_eq!(out.len(), pairs.len() * m * n, "there is one product a pair");
    if out.is_empty() {
        return;
    }
    let volume = m * k * n;
    let spread = volume < matmul::PARALLEL_FROM && volume * pairs.len() >= matmul::PARALLEL_FROM;
    for_pieces(out, m * n, spread, &|pair, out| {
        let (i, j) = pairs[pair];
        T::product(&a[i * m * k..][..m * k], &b[j * k * n..][..k * n], out, dims);
    });
}
