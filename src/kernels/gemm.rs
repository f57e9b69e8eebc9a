//! The products of matrices of f32 and f64, computed by the `gemm` crates.
//!
//! The crate `gemm` itself is left out: it chooses among five types in each call, and compiling its
//! complex numbers takes longer than compiling the two types that we use.

use gemm_common::Parallelism;

/// The matrix that begins at `start`, with the distances from one row and one column to the next,
/// in elements.
#[derive(Clone, Copy)]
pub(super) struct Matrix<T> {
    pub(super) start: T,
    pub(super) row: usize,
    pub(super) column: usize,
}

/// A type of elements that `gemm` multiplies.
pub(super) trait Gemm: Sized {
    /// `out = a * b`, where `out` is `[m, n]`, `a` is `[m, k]` and `b` is `[k, n]`; the old values
    /// of `out` are not read. `out` has its columns side by side.
    ///
    /// # Safety
    /// The elements named by the pointers, shapes and steps must exist, and nobody else may access
    /// the elements of `out` meanwhile.
    #[expect(unsafe_code, reason = "gemm takes pointers")]
    unsafe fn gemm(
        shape: [usize; 3],
        out: Matrix<*mut Self>,
        a: Matrix<*const Self>,
        b: Matrix<*const Self>,
        parallelism: Parallelism,
    );
}

macro_rules! gemm {
    ($element:ty, $gemm:path) => {
        impl Gemm for $element {
            #[expect(unsafe_code, reason = "gemm takes pointers")]
            unsafe fn gemm(
                [m, k, n]: [usize; 3],
                out: Matrix<*mut Self>,
                a: Matrix<*const Self>,
                b: Matrix<*const Self>,
                parallelism: Parallelism,
            ) {
                // The inner loops go down a column of the product: one of rows is that of the
                // factors exchanged, each with rows for columns. Where both factors already lie
                // as those loops read them, writing across the rows of the product costs less
                // than copying the factors.
                let lie_right = a.row == 1 && b.row == 1;
                let ([m, n], out_steps, a, b) = if out.row > out.column && !lie_right {
                    ([n, m], [out.row, out.column], turned(b), turned(a))
                } else {
                    ([m, n], [out.column, out.row], a, b)
                };
                let [out_column, out_row] = out_steps.map(|step| step as isize);
                let [a_column, a_row] = [a.column, a.row].map(|step| step as isize);
                let [b_column, b_row] = [b.column, b.row].map(|step| step as isize);
                // SAFETY: as the caller vouches; `out` is written without being read, as
                // `read_dst` is false.
                unsafe {
                    $gemm()(
                        m,
                        n,
                        k,
                        out.start,
                        out_column,
                        out_row,
                        false,
                        a.start,
                        a_column,
                        a_row,
                        b.start,
                        b_column,
                        b_row,
                        0.0,
                        1.0,
                        false,
                        false,
                        false,
                        parallelism,
                    );
                }
            }
        }
    };
}

gemm!(f32, gemm_f32::gemm::f32::get_gemm_fn);
gemm!(f64, gemm_f64::gemm::f64::get_gemm_fn);

/// The matrix with rows and columns exchanged.
fn turned<T>(matrix: Matrix<T>) -> Matrix<T> {
    Matrix { row: matrix.column, column: matrix.row, ..matrix }
}
