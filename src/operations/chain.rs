//! Chains of elementwise operations, run as one: block by block, so that intermediate results never
//! leave the first-level cache, and in place if nobody else holds the input.

use crate::graph::{Elementwise, Known, Op};
use crate::kernels::broadcast::Operand;
use crate::kernels::number::Float;
use crate::kernels::parallel::for_chunks;
use crate::tensor::{DType, Shape, Tensor};

/// The number of elements that go through a chain at a time, or as many rows as they hold: two such
/// blocks of f32 fit a first-level cache.
const BLOCK: usize = 1 << 11;

/// An operation of a chain.
pub(crate) struct ChainOp<'a> {
    /// The operation on each element.
    pub(crate) op: &'a Op,
    /// The index of the input that comes through the chain.
    pub(crate) at: usize,
    /// The other input, if it has one.
    pub(crate) other: Option<&'a Tensor>,
}

/// A type of numbers that chains compute with.
trait Chained: Float {
    /// Computes `out` from `x`, elements of input `at`, and those of the other input.
    fn apply(
        op: &dyn Elementwise,
        at: usize,
        x: &[Self],
        other: Option<Operand<'_, Self>>,
        out: &mut [Self],
    );
}

macro_rules! chained {
    ($($number:ident by $method:ident),*) => {$(
        impl Chained for $number {
            fn apply(
                op: &dyn Elementwise,
                at: usize,
                x: &[Self],
                other: Option<Operand<'_, Self>>,
                out: &mut [Self],
            ) {
                op.$method(at, x, other, out);
            }
        }
    )*};
}
chained!(f32 by of_f32, f64 by of_f64);

/// Makes `$op` a link of chains: its method `chained` computes as [`Elementwise`] says, with either
/// type of floats. Other methods of the trait may follow.
macro_rules! elementwise {
    ($op:ty $(, $($others:tt)*)?) => {
        impl $crate::graph::Elementwise for $op {
            $($($others)*)?

            fn of_f32(
                &self,
                at: usize,
                x: &[f32],
                other: Option<$crate::kernels::broadcast::Operand<'_, f32>>,
                out: &mut [f32],
            ) {
                self.chained(at, x, other, out);
            }

            fn of_f64(
                &self,
                at: usize,
                x: &[f64],
                other: Option<$crate::kernels::broadcast::Operand<'_, f64>>,
                out: &mut [f64],
            ) {
                self.chained(at, x, other, out);
            }
        }
    };
}
pub(super) use elementwise;

/// Whether `op` computes `output` from its input `at` element by element, while each other input is
/// as large or the same for all elements.
pub(crate) fn follows(op: &Op, at: usize, inputs: &[Known], output: Known) -> bool {
    let (Some(link), (dtype, shape)) = (op.elementwise(), output) else { return false };
    let fits = |(i, (other, of)): (usize, &Known)| match link.is_by_column() {
        _ if i == at => (*other, *of) == output,
        true => at == 0 && of.elements() <= BLOCK,
        false => *other == dtype && (*of == shape || of.rank() == 0),
    };
    dtype.is_real() && inputs.iter().enumerate().all(fits)
}

/// The result of the chain `links` for the input `x`, whose buffer is reused if nobody else holds
/// it.
///
/// It is bit for bit the result of the operations one by one.
pub(crate) fn run(x: Tensor, links: &[ChainOp<'_>]) -> Tensor {
    match x.dtype() {
        DType::F32 => run_as::<f32>(x, links),
        _ => run_as::<f64>(x, links),
    }
}

fn run_as<T: Chained>(mut x: Tensor, links: &[ChainOp<'_>]) -> Tensor {
    let columns = links.iter().find(|link| link.is_by_column()).map_or(1, ChainOp::columns);
    let unit = BLOCK / columns * columns;
    if x.is_shared() {
        let mut out = Tensor::uninitialised::<T>(x.shape());
        let x = x.slice::<T>();
        for_chunks(out.make_mut(), unit, |start, out| {
            run_chunk(links, unit, start, Some(&x[start..]), out)
        });
        return out;
    }
    for_chunks(x.make_mut(), unit, |start, x: &mut [T]| run_chunk(links, unit, start, None, x));
    x
}

/// A chunk of the result that begins at element `start`, out of `from` or of what is in `out`
/// already.
fn run_chunk<T: Chained>(
    links: &[ChainOp<'_>],
    unit: usize,
    start: usize,
    from: Option<&[T]>,
    out: &mut [T],
) {
    let mut blocks = [[T::ZERO; BLOCK]; 2];
    for (i, out) in out.chunks_mut(unit).enumerate() {
        let from = from.map(|from| &from[i * unit..][..out.len()]);
        run_block(links, start + i * unit, from, &mut blocks, out);
    }
}

fn run_block<T: Chained>(
    links: &[ChainOp<'_>],
    start: usize,
    from: Option<&[T]>,
    blocks: &mut [[T; BLOCK]; 2],
    out: &mut [T],
) {
    let [mut seen, mut next] = blocks.each_mut().map(|block| &mut block[..out.len()]);
    let (last, before) = links.split_last().expect("a chain has a link");
    let Some((first, between)) = before.split_first() else {
        match from {
            Some(from) => last.apply(start, from, out),
            None => {
                seen.copy_from_slice(out);
                last.apply(start, seen, out);
            }
        }
        return;
    };
    first.apply(start, from.unwrap_or(out), seen);
    for link in between {
        link.apply(start, seen, next);
        (seen, next) = (next, seen);
    }
    last.apply(start, seen, out);
}

impl ChainOp<'_> {
    fn elementwise(&self) -> &dyn Elementwise {
        self.op.elementwise().expect("the operations of a chain are elementwise")
    }

    fn is_by_column(&self) -> bool {
        self.elementwise().is_by_column()
    }

    /// The number of columns of a bias.
    fn columns(&self) -> usize {
        self.other.map_or(1, |bias| bias.shape().elements()).max(1)
    }

    /// The result for the elements `x`, the first of which is element `start` of all.
    fn apply<T: Chained>(&self, start: usize, x: &[T], out: &mut [T]) {
        let other = self.other_at::<T>(start, Shape::from([x.len()]));
        T::apply(self.elementwise(), self.at, x, other, out);
    }

    /// The values of its other input for `shape` elements from element `start` on.
    fn other_at<T: Chained>(&self, start: usize, shape: Shape) -> Option<Operand<'_, T>> {
        let other = self.other?;
        let is_for_all = other.shape().rank() == 0 || self.is_by_column();
        let of_elements = || (&other.slice::<T>()[start..][..shape.elements()], shape);
        Some(if is_for_all { (other.slice(), other.shape()) } else { of_elements() })
    }
}
