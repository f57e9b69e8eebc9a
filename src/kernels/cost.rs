//! The cost of a kernel, from the sizes of its operands alone.
//!
//! Every element that a kernel reads or writes counts once, whatever the caches do. An addition, a
//! multiplication, a comparison, a division and a root count as one operation each; a fused
//! multiply-add as two; a function as many as its polynomial has.

use super::matmul::{self, MatMul};
use super::parallel;

pub use crate::graph::Cost;

/// The number of operations of an exponential or a logarithm.
pub(crate) const EXP: usize = 20;
/// The number of operations of a sigmoid or a hyperbolic tangent.
pub(crate) const TANH: usize = 32;
/// The number of operations of one random value.
const DRAW: usize = 20;

impl Cost {
    /// `flops` operations on `floats` elements of 4 bytes, read and written together.
    fn of(flops: usize, floats: usize) -> Self {
        Self::work(flops, 4 * floats)
    }

    /// `products` products as [`matmul`](super::matmul::matmul): 2mkn flops each; `bytes` are those
    /// of all operands.
    pub(crate) fn matmul(dims: MatMul, products: usize, bytes: usize) -> Self {
        let MatMul { m, k, n, .. } = dims;
        Self::work(2 * products * m * k * n, bytes)
    }

    /// The kernels of `random`: 20 flops and 4 bytes an element.
    pub(crate) fn random(elements: usize) -> Self {
        Self::of(elements * DRAW, elements)
    }

    /// `add_n` of f32: a flop an element of each input (the last is the scale's), 4(inputs + 1)
    /// bytes an element.
    pub(crate) fn add_n(inputs: usize, elements: usize) -> Self {
        Self::of(elements * inputs, elements * (inputs + 1))
    }

    /// The kernels of `window`: two flops for each element of each window, one for a pool's; 4
    /// bytes for each element of the operands and the result, of which each counts once however
    /// many windows cover it.
    pub(crate) fn windows(flops: usize, floats: usize) -> Self {
        Self::of(flops, floats)
    }
}

/// Whether kernels that cost this much together can include one that spreads over threads.
pub(crate) fn may_spread(cost: Cost) -> bool {
    const FLOPS: u64 = 2 * matmul::PARALLEL_FROM as u64;
    const BYTES: u64 = (2 * size_of::<f32>() * parallel::PARALLEL_FROM) as u64;
    cost.flops >= FLOPS || cost.bytes >= BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_product_is_twice_its_volume_and_each_matrix_once() {
        let dims = MatMul { m: 32, k: 64, n: 10, transpose_a: false, transpose_b: true };
        let bytes = 4 * (32 * 64 + 64 * 10 + 32 * 10);
        assert_eq!(Cost::matmul(dims, 3, 3 * bytes), Cost::work(3 * 2 * 32 * 64 * 10, 3 * bytes));
    }

    #[test]
    fn costs_add_up() {
        let costs = [Cost::work(6, 36), Cost::moved(8)];
        assert_eq!(costs.into_iter().sum::<Cost>(), Cost::work(6, 36 + 8));
    }
}
