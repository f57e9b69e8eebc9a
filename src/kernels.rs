//! The arithmetic of tensors: every operation, from slices to slices.
//!
//! A kernel reads slices and writes every element of its result slices, which may hold anything
//! before. It knows no graph, no device and no clock. Lengths that do not fit are bugs of the
//! caller and assertions here; errors that a user's data can cause are typed.
//!
//! **The same bits on any thread count.** Work is cut into chunks whose size depends on the
//! operands alone, never on the number of threads. Float sums have a fixed order, which each kernel
//! states, and the results of chunks are combined by index. Below a measured size a kernel runs on
//! the calling thread, above it on the rayon pool it is called from.
//!
//! Loops are plain and compiled once for each instruction set (`pulp` picks at run time); no
//! reordering and no fused multiply-add is left to the compiler, so all sets give the same bits.
//! The exception is `matmul`, whose blocking depends on the machine's caches.

pub(crate) mod batch_matmul;
pub(crate) mod broadcast;
pub(crate) mod convert;
pub(crate) mod cost;
mod costs;
mod dispatch;
pub(crate) mod dropout;
pub(crate) mod elementwise;
pub(crate) mod functions;
mod gemm;
pub(crate) mod indexed;
pub(crate) mod learning_rate;
mod math;
pub(crate) mod matmul;
pub(crate) mod norm;
pub(crate) mod number;
mod numerics;
pub(crate) mod order;
pub(crate) mod pad;
pub(crate) mod parallel;
pub(crate) mod quantize;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod reduce_grad;
#[cfg(test)]
mod reference;
pub(crate) mod rows;
pub(crate) mod scan;
pub(crate) mod softmax;
pub(crate) mod sparse;
pub(crate) mod strided;
#[cfg(test)]
mod tests;
pub(crate) mod update;
pub(crate) mod window;

pub use crate::graph::KernelKind;
pub use cost::Cost;
pub(crate) use cost::may_spread;
pub use costs::Costs;
pub(crate) use dispatch::{by_float, by_number, by_position, by_word, filled_in, written};
pub(crate) use elementwise::add_values;
pub use indexed::IndexOutOfRange;
pub(crate) use indexed::gather_rows;
pub use numerics::Numerics;
#[cfg(test)]
pub(crate) use parallel::PARALLEL_FROM;
pub(crate) use parallel::instructions;
pub(crate) use sparse::NoSuchRow;
pub use update::ElementUpdate;
