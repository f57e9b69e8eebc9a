//! The product of two matrices.

use std::ops::Range;
use std::sync::atomic::{AtomicPtr, Ordering};

use gemm::Parallelism;
use rayon::prelude::*;

/// The size from which a product is spread over threads, in multiply-adds.
///
/// Measured: 53 us on one thread, 30 us on two that are awake; to wake one takes 20 to 50 us.
pub(super) const PARALLEL_FROM: usize = 1 << 22;
/// How many columns of a product one thread takes at a time; a narrower product is left to `gemm` to spread.
///
/// Measured on two threads that are awake, `[128, 512] x [512, 512]`: 0.21 ms where `gemm` takes 0.25, and
/// 0.29 where it takes 0.47 for a transposed `b`, all of which it packs on one thread first. With a
/// transposed `a` it is a tenth slower.
const COLUMNS: usize = 128;

/// The shape of a product: `op(a)` is `[m, k]`, `op(b)` is `[k, n]`, the product `[m, n]`, all row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatMul {
    /// The rows of `op(a)` and of the product.
    pub(crate) m: usize,
    /// The columns of `op(a)`, the rows of `op(b)`.
    pub(crate) k: usize,
    /// The columns of `op(b)` and of the product.
    pub(crate) n: usize,
    /// Whether `a` is stored as `[k, m]` and `op` transposes it.
    pub(crate) transpose_a: bool,
    /// Whether `b` is stored as `[n, k]` and `op` transposes it.
    pub(crate) transpose_b: bool,
}

/// `out = op(a) * op(b)` (TensorFlow `MatMul`).
///
/// Order: `k` is cut into blocks by the shape and the machine's caches; within a block an element of
/// the product is a chain of fused multiply-adds, and blocks are added from the first to the last. (Where
/// `op(a)` and `op(b)` are both contiguous along `k` and the product is small, a block has one chain a
/// lane of the widest vectors.) Threads take parts of the product, never of `k`.
pub(crate) fn matmul(a: &[f32], b: &[f32], out: &mut [f32], dims: MatMul) {
    let MatMul { m, k, n, .. } = dims;
    let size = |rows: usize, columns: usize| rows.checked_mul(columns).expect("a matrix fits into memory");
    assert_eq!(a.len(), size(m, k), "the first operand of a product is [m, k]");
    assert_eq!(b.len(), size(k, n), "the second operand of a product is [k, n]");
    assert_eq!(out.len(), size(m, n), "a product is [m, n]");
    let out = AtomicPtr::new(out.as_mut_ptr());
    let parallel = size(m, k).saturating_mul(n) >= PARALLEL_FROM;
    if parallel && n > COLUMNS {
        return (0..n.div_ceil(COLUMNS)).into_par_iter().for_each(|i| {
            let columns = i * COLUMNS..n.min((i + 1) * COLUMNS);
            // SAFETY: the lengths were asserted above, the columns are within `n`, and no two threads
            // have a column in common.
            #[expect(unsafe_code, reason = "the product is written through a pointer")]
            unsafe {
                product_columns(a, b, &out, dims, columns, Parallelism::None);
            }
        });
    }
    let parallelism = if parallel { Parallelism::Rayon(0) } else { Parallelism::None };
    // SAFETY: the lengths were asserted above, and nobody else writes.
    #[expect(unsafe_code, reason = "the product is written through a pointer")]
    unsafe {
        product_columns(a, b, &out, dims, 0..n, parallelism);
    }
}

/// Computes `columns` of the product.
///
/// # Safety
/// `a`, `b` and what `out` points to must have the sizes that `dims` states; `columns` must be within
/// them; nobody else may access these columns of `out` meanwhile.
#[expect(unsafe_code, reason = "the product is written through a pointer")]
unsafe fn product_columns(
    a: &[f32],
    b: &[f32],
    out: &AtomicPtr<f32>,
    dims: MatMul,
    columns: Range<usize>,
    parallelism: Parallelism,
) {
    let MatMul { m, k, n, transpose_a, transpose_b } = dims;
    let (a_row, a_column) = if transpose_a { (1, m) } else { (k, 1) };
    let (b_row, b_column) = if transpose_b { (1, k) } else { (n, 1) };
    // `wrapping_add`: where `k` is 0 there is no such column of `b`, nor is it read.
    let b = b.as_ptr().wrapping_add(columns.start * b_column);
    let out = out.load(Ordering::Relaxed).wrapping_add(columns.start);
    // SAFETY: the strides keep every access within the sizes that the caller vouches for; `out` is
    // written without being read, as `read_dst` is false.
    unsafe {
        gemm::gemm(
            m,
            columns.len(),
            k,
            out,
            1,
            n as isize,
            false,
            a.as_ptr(),
            a_column as isize,
            a_row as isize,
            b,
            b_column as isize,
            b_row as isize,
            0.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}
