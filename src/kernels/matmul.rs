//! The product of two matrices.

use std::ops::Range;
use std::sync::atomic::{AtomicPtr, Ordering};

use gemm_common::Parallelism;

use super::gemm::{Gemm, Matrix};
use super::parallel::for_each;
use super::strided::{self, Axis, View};
use crate::tensor::{Shape, Tensor};

/// The size from which a product is spread over threads, in multiply-adds.
///
/// Measured: 53 us on one thread, 30 us on two that are awake; to wake one takes 20 to 50 us.
pub(super) const PARALLEL_FROM: usize = 1 << 22;
/// The number of columns of a product that one thread takes at a time; `gemm` itself spreads a
/// narrower product.
///
/// Measured on two threads that are awake, `[128, 512] x [512, 512]`: as fast as twice one thread.
const COLUMNS: usize = 128;
/// The most rows of a product with a transposed `a` that one thread takes at a time.
///
/// `gemm` copies such an `a` into another order, anew for each part of the columns. Measured on
/// `[784, 128] x [128, 512]`: 0.47 ms on two threads with parts of the rows, 0.55 without, 0.46 if
/// `gemm` spreads the product itself; `[512, 128] x [128, 512]`: 0.31, 0.35 and 0.32.
const ROWS: usize = 256;
/// The least rows of the product, and the least size of `b` each way, for which a transposed `b` is
/// copied into rows.
///
/// `gemm` copies it too, element by element. Measured on `[128, 512] x [512, 512]` with a
/// transposed `b`: 0.36 ms on two threads against 0.56 with `gemm`; `[16, 16] x [16, 16]`: 0.3 us
/// against 0.4.
const TURN_FROM: (usize, usize) = (8, 16);
/// The most rows of the product for which `a` is copied into columns instead of a transposed `b`
/// into rows, if `b` is [`SHORT_BY`] times as large each way: one thread copies `a`, all copy `b`.
///
/// Both give the same sums. Measured on two threads, with a transposed `b`:
/// `[64, 1024] x [1024, 3136]` 3.3 ms with `b` copied and 2.1 with `a`, `[128, 512] x [512, 512]`
/// 0.35 and 0.48.
const SHORT: usize = 128;
const SHORT_BY: usize = 16;

/// The shape of a product: `op(a)` is `[m, k]`, `op(b)` is `[k, n]`, the product `[m, n]`, all
/// row-major.
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

impl MatMul {
    /// Whether `b` is transposed and so much larger than `a` that it is used as it lies.
    fn is_short(&self) -> bool {
        let rows = TURN_FROM.0..=SHORT;
        self.transpose_b && rows.contains(&self.m) && self.m * SHORT_BY <= self.k.min(self.n)
    }
}

/// `out = op(a) * op(b)` (TensorFlow `MatMul`).
///
/// Order: `k` is cut into blocks by the shape and the machine's caches; within a block an element
/// of the product is a chain of fused multiply-adds, and blocks are added from the first to the
/// last. (Where `op(a)` and `op(b)` are both contiguous along `k` and the product is small, a block
/// has one chain a lane of the widest vectors.) Threads take parts of the product, never of `k`.
pub(crate) fn matmul(a: &[f32], b: &[f32], out: &mut [f32], dims: MatMul) {
    let MatMul { m, k, n, .. } = dims;
    let size =
        |rows: usize, columns: usize| rows.checked_mul(columns).expect("a matrix fits into memory");
    assert_eq!(a.len(), size(m, k), "the first operand of a product is [m, k]");
    assert_eq!(b.len(), size(k, n), "the second operand of a product is [k, n]");
    assert_eq!(out.len(), size(m, n), "a product is [m, n]");
    let turned;
    let (a, dims) = if dims.is_short() && !dims.transpose_a {
        turned = turn(a, m);
        (turned.slice(), MatMul { transpose_a: true, ..dims })
    } else {
        (a, dims)
    };
    let out = AtomicPtr::new(out.as_mut_ptr());
    let block = |rows, columns, parallelism| {
        // SAFETY: the lengths were asserted above, the rows and columns are within `m` and `n`, and
        // no two blocks have an element in common.
        #[expect(unsafe_code, reason = "the product is written through a pointer")]
        unsafe {
            product(a, b, &out, dims, Block { rows, columns, parallelism });
        }
    };
    if size(m, k).saturating_mul(n) < PARALLEL_FROM {
        return block(0..m, 0..n, Parallelism::None);
    }
    if n <= COLUMNS {
        return block(0..m, 0..n, Parallelism::Rayon(0));
    }
    let rows = if dims.transpose_a { m.div_ceil(m.div_ceil(ROWS)) } else { m };
    let (down, across) = (m.div_ceil(rows), n.div_ceil(COLUMNS));
    for_each(down * across, true, &|i| {
        let (row, column) = (i / across * rows, i % across * COLUMNS);
        block(row..m.min(row + rows), column..n.min(column + COLUMNS), Parallelism::None);
    });
}

/// A block of a product, and whether `gemm` spreads it over threads.
struct Block {
    rows: Range<usize>,
    columns: Range<usize>,
    parallelism: Parallelism,
}

/// Computes `block` of the product.
///
/// # Safety
/// `a`, `b` and the memory behind `out` must have the sizes in `dims`; the block must be within
/// them; nobody else may access this block of `out` meanwhile.
#[expect(unsafe_code, reason = "the product is written through a pointer")]
unsafe fn product(a: &[f32], b: &[f32], out: &AtomicPtr<f32>, dims: MatMul, block: Block) {
    let MatMul { m, k, n, transpose_a, transpose_b } = dims;
    let Block { rows, columns, parallelism } = block;
    let turned;
    let turns_b = transpose_b && m >= TURN_FROM.0 && k.min(n) >= TURN_FROM.1;
    let (b, b_row, b_column) = if turns_b && !dims.is_short() {
        turned = turn(&b[columns.start * k..columns.end * k], columns.len());
        (turned.slice().as_ptr(), columns.len(), 1)
    } else {
        let (row, column) = if transpose_b { (1, k) } else { (n, 1) };
        // `wrapping_add`: if `k` is 0 there is no such column of `b`, and it is not read.
        (b.as_ptr().wrapping_add(columns.start * column), row, column)
    };
    let (a_row, a_column) = if transpose_a { (1, m) } else { (k, 1) };
    let a = a.as_ptr().wrapping_add(rows.start * a_row);
    let out = out.load(Ordering::Relaxed).wrapping_add(rows.start * n + columns.start);
    let out = Matrix { start: out, row: n, column: 1 };
    let a = Matrix { start: a, row: a_row, column: a_column };
    let b = Matrix { start: b, row: b_row, column: b_column };
    // SAFETY: the steps keep every access within the sizes that the caller vouches for.
    unsafe { f32::gemm([rows.len(), k, columns.len()], out, a, b, parallelism) };
}

/// Transposes `x`, which has `rows` rows.
fn turn(x: &[f32], rows: usize) -> Tensor {
    let columns = x.len() / rows;
    let mut turned = Tensor::uninitialised::<f32>(Shape::from([columns, rows]));
    let axes = [Axis { len: columns, step: 1 }, Axis { len: rows, step: columns as isize }];
    strided::copy(x, &View::new(0, axes), turned.make_mut());
    turned
}
