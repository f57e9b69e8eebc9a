//! The product of two matrices, the first of which is gathered, row by row, from its place in
//! memory.

use pulp::{Arch, Simd, WithSimd};

/// The number of columns of a product that are computed at a time.
pub(super) const PANEL: usize = 32;

/// A stretch of a row of the gathered matrix: `len` elements from `start`, counted from the row's
/// beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: usize,
    pub(super) len: usize,
}

/// The beginning of a row in the gathered matrix and in the product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) a: usize,
    pub(super) out: usize,
}

/// A product of at most [`PANEL`] columns: `out[row, c]` is the sum over `k` of
/// `a[row, k] * b[k, c]`.
///
/// Order: one chain of fused multiply-adds, from the first `k` to the last.
pub(super) struct Panel<'a> {
    /// The elements that the rows are gathered from.
    pub(super) a: &'a [f32],
    /// The distance between the elements of a run.
    pub(super) step: usize,
    /// The elements of a row: these runs of it.
    pub(super) runs: &'a [Run],
    /// Rows of [`PANEL`] elements, `b_stride` apart; of each the first `columns` count.
    pub(super) b: &'a [f32],
    pub(super) b_stride: usize,
    pub(super) columns: usize,
}

/// Appends `run` to `runs`, or extends the last one if `run` continues it by the same `step`.
pub(super) fn append(runs: &mut Vec<Run>, run: Run, step: usize) {
    match runs.last_mut() {
        Some(last) if last.start + last.len * step == run.start => last.len += run.len,
        _ => runs.push(run),
    }
}

impl Panel<'_> {
    /// Writes the product's `rows` to `out`, or adds them to what is there.
    pub(super) fn write(&self, rows: &[Row], out: &mut [f32], adds: bool) {
        let depth: usize = self.runs.iter().map(|run| run.len).sum();
        assert!(self.columns <= PANEL, "a panel has its width");
        assert!(
            depth == 0 || (depth - 1) * self.b_stride + PANEL <= self.b.len(),
            "`b` has a row for each `k`"
        );
        let last = |run: &Run| run.start + run.len.saturating_sub(1) * self.step;
        let reach = self.runs.iter().map(last).max().unwrap_or(0);
        let is_within =
            |row: &Row| row.a + reach < self.a.len() && row.out + self.columns <= out.len();
        assert!(rows.iter().all(is_within), "rows are where `a` and the product have them");
        Arch::new().dispatch(Write { panel: self, rows, out, adds });
    }
}

/// [`Panel::write`], whose lengths have been checked.
struct Write<'a> {
    panel: &'a Panel<'a>,
    rows: &'a [Row],
    out: &'a mut [f32],
    adds: bool,
}

/// From here on loops are not closures: those would be compiled without the wide instructions.
impl WithSimd for Write<'_> {
    type Output = ();

    /// Takes as many rows and vectors of a panel at a time as fit the registers, of which AVX-512
    /// has 32 and other sets have 16: all sums, the vectors of `b`, and an element of `a`.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F32_LANES {
            16 => self.tiles::<S, 12, 2>(simd),
            8 => self.tiles::<S, 6, 2>(simd),
            4 => self.tiles::<S, 2, 4>(simd),
            _ => self.tiles::<S, 1, 8>(simd),
        }
    }
}

impl Write<'_> {
    #[inline(always)]
    fn tiles<S: Simd, const ROWS: usize, const VECTORS: usize>(mut self, simd: S) {
        let (tiles, rest) = self.rows.as_chunks::<ROWS>();
        for rows in tiles {
            self.tile::<S, ROWS, VECTORS>(simd, rows);
        }
        let (tiles, rest) = rest.as_chunks::<4>();
        for rows in tiles {
            self.tile::<S, 4, VECTORS>(simd, rows);
        }
        for row in rest {
            self.tile::<S, 1, VECTORS>(simd, &[*row]);
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const ROWS: usize, const VECTORS: usize>(
        &mut self,
        simd: S,
        rows: &[Row; ROWS],
    ) {
        assert_eq!(PANEL % (VECTORS * S::F32_LANES), 0, "so many vectors divide a panel");
        let mut sums = [[0.0; PANEL]; ROWS];
        for from in (0..PANEL).step_by(VECTORS * S::F32_LANES) {
            // SAFETY: `Panel::write` has checked every row, run and row of `b`, and what is left of
            // a panel at `from` is as wide as the vectors.
            #[expect(unsafe_code, reason = "the loop of a convolution, its bounds checked once")]
            unsafe {
                add_up::<S, ROWS, VECTORS>(simd, self.panel, rows, from, &mut sums);
            }
        }
        for i in 0..ROWS {
            let out = &mut self.out[rows[i].out..][..self.panel.columns];
            // Why not one case: a copy of any length is a call, which is a fifth of the work where
            // sums are of 25 products.
            match out.first_chunk_mut::<PANEL>() {
                Some(whole) => put(whole, &sums[i], self.adds),
                None => put(out, &sums[i], self.adds),
            }
        }
    }
}

/// Writes as many of `sums` to `out` as it has room for, or `adds` them.
#[inline(always)]
fn put(out: &mut [f32], sums: &[f32; PANEL], adds: bool) {
    if adds {
        for (out, sum) in out.iter_mut().zip(sums) {
            *out += sum;
        }
    } else {
        out.copy_from_slice(&sums[..out.len()]);
    }
}

/// Sets `VECTORS` vectors of the `stored` sums of `rows`, from the column `from` on. Sums are in
/// registers until they are done.
///
/// # Safety
/// `panel.a` must hold every element of every run of the rows, and `panel.b` as many rows
/// as the runs are long together, each of at least `from + VECTORS * S::F32_LANES` elements, which
/// must be no more than [`PANEL`].
#[inline(always)]
#[expect(
    unsafe_code,
    reason = "the loop is all there is to a convolution, and its bounds are checked once"
)]
#[expect(
    clippy::needless_range_loop,
    reason = "an iterator's own functions would be compiled without wide vectors"
)]
unsafe fn add_up<S: Simd, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    panel: &Panel<'_>,
    rows: &[Row; ROWS],
    from: usize,
    stored: &mut [[f32; PANEL]; ROWS],
) {
    let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
    let mut b = panel.b.as_ptr().wrapping_add(from);
    for run in panel.runs {
        let mut a = [panel.a.as_ptr(); ROWS];
        for i in 0..ROWS {
            a[i] = a[i].wrapping_add(rows[i].a + run.start);
        }
        let mut at = 0;
        for _ in 0..run.len {
            // SAFETY: the caller vouches for the elements of the run and for a row of `b` for each.
            unsafe {
                let mut of_b = [simd.splat_f32s(0.0); VECTORS];
                for v in 0..VECTORS {
                    of_b[v] = b.add(v * S::F32_LANES).cast::<S::f32s>().read_unaligned();
                }
                for i in 0..ROWS {
                    let of_a = simd.splat_f32s(*a[i].add(at));
                    for v in 0..VECTORS {
                        sums[i][v] = simd.mul_add_f32s(of_a, of_b[v], sums[i][v]);
                    }
                }
            }
            b = b.wrapping_add(panel.b_stride);
            at += panel.step;
        }
    }
    // By constant indices, so that the sums need no place in memory before: one that is read
    // elsewhere by an index that varies would be written to at each step of the loop.
    for i in 0..ROWS {
        for v in 0..VECTORS {
            // SAFETY: a row has room for so many vectors from `from` on.
            unsafe {
                stored[i]
                    .as_mut_ptr()
                    .add(from + v * S::F32_LANES)
                    .cast::<S::f32s>()
                    .write_unaligned(sums[i][v])
            };
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use pulp::x86::{V3, V4};

    use super::*;

    /// This processor's instruction sets, the widest last.
    fn instruction_sets() -> Vec<Arch> {
        let wider = [V3::try_new().map(Arch::V3), V4::try_new().map(Arch::V4)];
        [Some(Arch::Scalar)].into_iter().chain(wider).flatten().collect()
    }

    #[test]
    fn kernels_use_the_widest_instructions_of_the_processor() {
        let widest = *instruction_sets().last().unwrap();
        assert_eq!(format!("{:?}", Arch::new()), format!("{widest:?}"));
    }

    #[test]
    fn a_panel_has_the_same_bits_by_every_instruction_set() {
        const DEPTH: usize = 13;
        let element = |i: usize| (i as f32 * 0.37).sin();
        let a: Vec<f32> = (0..40 * DEPTH).map(element).collect();
        let b: Vec<f32> = (7..7 + DEPTH * PANEL).map(element).collect();
        let runs = [Run { start: 0, len: 5 }, Run { start: 20, len: DEPTH - 5 }];
        // Of every number of rows in a tile, and some left over.
        for (count, columns) in [(1, PANEL), (5, 10), (14, PANEL), (31, 1)] {
            let panel = Panel { a: &a, step: 1, runs: &runs, b: &b, b_stride: PANEL, columns };
            let rows: Vec<Row> =
                (0..count).map(|row| Row { a: row * DEPTH, out: row * columns }).collect();
            let product = |arch: Arch| {
                let mut out = vec![0.5; count * columns];
                arch.dispatch(Write { panel: &panel, rows: &rows, out: &mut out, adds: true });
                out
            };
            let expected = product(Arch::Scalar);
            for arch in instruction_sets() {
                assert_eq!(product(arch), expected, "{count} rows by {arch:?}");
            }
        }
    }
}
