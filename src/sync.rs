//! Coordination of a training: who takes part, when a gradient counts, when a worker goes on.
//!
//! Everything here is a pure state machine that returns effects and knows nothing of actors,
//! messages or time. The runtime tells it what came in and carries out the effects.
//!
//! - `Membership` is who takes part, and the `Epoch`; each task has one.
//! - A [`Mode`] is how workers are coordinated: one file in `modes`, with its decisions at the
//!   worker, at a shard and at the task of the global step (`Protocol`).
//! - The `Coordinator`, one for each training, beside the global step, decides when a worker's
//!   step counts and when the worker goes on.
//! - A [`View`] is who takes part in rounds. It is decided beside the global step, and each task
//!   keeps what it was told (its `Participation`).
//! - An `Accumulator`, one for each variable of a synchronous training, beside that variable,
//!   collects the gradients of a round until the round's update can be applied; it is the barrier.
//!
//! `QueueState`, `AccumulatorState` and, for gradients of some rows, `SparseSum` are the parts of
//! TensorFlow's own synchronous training, for programs that use them directly.
//!
//! A *worker* here is its replica index, from 0. A *round* is one update of a synchronous training,
//! and rounds are consecutive from 0 in each epoch.

mod accumulator;
mod conditional_accumulator;
mod contributors;
mod coordinator;
mod counting;
mod departed;
mod effect;
mod fence;
mod fifo_queue;
mod gradients;
mod members;
mod membership;
mod modes;
mod participation;
mod policy;
mod protocol;
mod rounds;
mod sparse_sum;
mod version;
mod view;

pub(crate) use accumulator::{Accumulator, Offer};
pub(crate) use conditional_accumulator::AccumulatorState;
pub(crate) use contributors::Contributors;
pub(crate) use coordinator::Coordinator;
pub(crate) use counting::{Counted, Ended};
pub use departed::{Departed, Leaving};
pub(crate) use effect::Effect;
pub(crate) use fifo_queue::{Answer, QueueState};
pub(crate) use gradients::{Arrived, Contribution, Correction, RoundPosition, Treatment, Verdict};
pub(crate) use membership::{Joined, Membership};
pub use modes::Mode;
pub(crate) use participation::{Decider, Participation};
pub use protocol::{Copies, Exchange};
pub(crate) use sparse_sum::SparseSum;
pub use version::{Epoch, Version};
pub(crate) use view::Views;
pub use view::{Fate, Progress, Return, View};

#[cfg(test)]
mod tests;
