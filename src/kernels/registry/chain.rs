//! Chains of elementwise operations, run as one: block by block, so that intermediate results never
//! leave the first-level cache, and in place if nobody else holds the input.

use super::super::broadcast::Operand;
use super::super::number::Float;
use super::super::parallel::for_chunks;
use super::super::rows;
use super::Known;
use super::elementwise::{arithmetic, unary, unary_grad};
use crate::graph::{Op, Unary};
use crate::tensor::{DType, Shape, Tensor};

/// The number of elements that go through a chain at a time, or as many rows as they hold: two such
/// blocks of f32 fit a first-level cache.
const BLOCK: usize = 1 << 11;

/// An operation of a chain.
pub(crate) struct Link<'a> {
    /// The operation on each element.
    pub(crate) op: &'a Op,
    /// The index of the input that comes through the chain.
    pub(crate) at: usize,
    /// The other input, if it has one.
    pub(crate) other: Option<&'a Tensor>,
}

/// Whether `op` can be a link of a chain, if its inputs' types fit ([`follows`]).
///
/// Sine and cosine can't: their kernels look at all elements before they choose how to compute
/// them.
pub(crate) fn is_link(op: &Op) -> bool {
    match op {
        Op::Unary(op) | Op::UnaryGrad(op) => !matches!(op, Unary::Sin | Unary::Cos),
        Op::Binary(_) | Op::BiasAdd => true,
        _ => false,
    }
}

/// Whether `op` computes `output` from its input `at` element by element, while each other input is
/// as large or the same for all elements.
pub(crate) fn follows(op: &Op, at: usize, inputs: &[Known], output: Known) -> bool {
    let (dtype, shape) = output;
    let fits = |(i, (other, of)): (usize, &Known)| match op {
        _ if i == at => (*other, *of) == output,
        Op::BiasAdd => at == 0 && of.elements() <= BLOCK,
        _ => *other == dtype && (*of == shape || of.rank() == 0),
    };
    is_link(op) && dtype.is_float() && dtype != DType::BF16 && inputs.iter().enumerate().all(fits)
}

/// The result of the chain `links` for the input `x`, whose buffer is reused if nobody else holds
/// it.
///
/// It is bit for bit the result of the operations one by one.
pub(crate) fn run(x: Tensor, links: &[Link<'_>]) -> Tensor {
    match x.dtype() {
        DType::F32 => run_as::<f32>(x, links),
        _ => run_as::<f64>(x, links),
    }
}

fn run_as<T: Float>(mut x: Tensor, links: &[Link<'_>]) -> Tensor {
    let columns = links.iter().find(|link| matches!(link.op, Op::BiasAdd)).map_or(1, Link::columns);
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
fn run_chunk<T: Float>(
    links: &[Link<'_>],
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

fn run_block<T: Float>(
    links: &[Link<'_>],
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

impl Link<'_> {
    /// The number of columns of a bias.
    fn columns(&self) -> usize {
        self.other.map_or(1, |bias| bias.shape().elements()).max(1)
    }

    /// The result for the elements `x`, the first of which is element `start` of all.
    fn apply<T: Float>(&self, start: usize, x: &[T], out: &mut [T]) {
        let shape = Shape::from([x.len()]);
        match (self.op, self.other_at::<T>(start, shape)) {
            (Op::Unary(op), None) => unary(*op, x, out),
            (Op::UnaryGrad(op), Some((seen, _))) if self.at == 0 => unary_grad(*op, x, seen, out),
            (Op::UnaryGrad(op), Some((dy, _))) => unary_grad(*op, dy, x, out),
            (Op::BiasAdd, Some((bias, _))) => rows::bias_add(x, bias, out),
            (Op::Binary(op), Some(b)) if self.at == 0 => arithmetic(*op, (x, shape), b, out, shape),
            (Op::Binary(op), Some(a)) => arithmetic(*op, a, (x, shape), out, shape),
            (op, _) => panic!("{} is no link of a chain", op.kind()),
        }
    }

    /// The values of its other input for `shape` elements from element `start` on.
    fn other_at<T: Float>(&self, start: usize, shape: Shape) -> Option<Operand<'_, T>> {
        let other = self.other?;
        let is_for_all = other.shape().rank() == 0 || matches!(self.op, Op::BiasAdd);
        let of_elements = || (&other.slice::<T>()[start..][..shape.elements()], shape);
        Some(if is_for_all { (other.slice(), other.shape()) } else { of_elements() })
    }
}
