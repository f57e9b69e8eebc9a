//! When a gradient counts and when it is applied: pure state machines that return effects.
//!
//! Two of them act together. The [`Coordinator`], one for each training, beside the global step,
//! decides when a worker's step counts and when the worker goes on. An [`Accumulator`], one for
//! each variable of a synchronous training, beside that variable, collects the gradients of a round
//! until the round's update can be applied; it is the barrier. Neither knows of actors, messages or
//! time: the runtime tells them what came in and carries out what they answer.
//!
//! Beside them are what TensorFlow's own synchronous training is made of, for programs that use it
//! themselves: [`FifoQueue`], [`ConditionalAccumulator`] and, for gradients of some rows,
//! [`SparseSum`].
//!
//! A *worker* here is its replica index, from 0. A *round* is one update of a synchronous training,
//! and rounds are consecutive from 0; the version of a variable is the number of rounds applied to
//! it.

mod accumulator;
mod bounded_staleness;
mod conditional_accumulator;
mod coordinator;
mod fence;
mod fifo_queue;
mod mode;
mod rounds;
mod sparse_sum;

pub use accumulator::{Accumulator, Offer, Place, Round};
pub use conditional_accumulator::ConditionalAccumulator;
pub use coordinator::{Coordinator, Effect};
pub use fifo_queue::{Answer, FifoQueue};
pub use mode::Mode;
pub use sparse_sum::SparseSum;

#[cfg(test)]
mod tests;
