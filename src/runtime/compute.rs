//! The device of a task: runs kernels, and reports when they are done.

use std::any::Any;
use std::num::NonZeroU32;
use std::rc::Rc;

use crate::cluster::LocalDevice;
use crate::kernels::{self, Cost, Costs, Numerics};
use crate::units::Bytes;

use crate::runtime::actors::Actors;
use crate::runtime::messages::Origin;

/// A piece of work for a device.
pub struct Work {
    /// The worker step that it is part of; `None` for work outside of training steps, such as an
    /// initialisation's, an evaluation's or a parameter server's.
    pub step: Option<WorkerStep>,
    /// The cost of the work.
    pub cost: Costs,
    /// The arithmetic itself.
    pub calculation: Box<dyn Calculation>,
    /// The actors that are told once the calculation has run and the device is done.
    pub asker: Asker,
}

shown!(Work);

/// A training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerStep {
    /// The id of the master that takes the step.
    pub master: u64,
    /// The step, by its training and its number there.
    pub origin: Origin,
}

/// Arithmetic with all that it reads and writes.
pub trait Calculation: Send {
    /// Runs the arithmetic, on any thread.
    fn run(&mut self);

    /// Hands on the result, on the thread that launched the work.
    fn done(self: Box<Self>, asker: &Asker);
}

/// The actors that asked for a piece of work.
#[derive(Clone)]
pub struct Asker(pub(crate) Rc<Actors>);

shown!(Asker);

impl Asker {
    /// Ends the task: its calculation has panicked.
    pub(crate) fn has_panicked(&self, panic: &(dyn Any + Send)) {
        self.0.panics.note("a kernel", panic);
    }
}

#[cfg(test)]
impl Asker {
    /// Actors that do not run.
    pub(crate) fn nobody() -> Self {
        Self(Rc::new(Actors::nobody()))
    }
}

/// Runs work and decides how long it takes: its real time, or the time that a model gives.
///
/// Why no method has a body here: a device around another would silently lose what it does not
/// pass on.
pub trait ComputeModel {
    /// Starts `work`; the device runs one piece after the other.
    fn launch(&self, work: Work);

    /// Copies `size` from the memory of one device of the task to that of another, of which this is
    /// one and has memory of its own; then is `then` done.
    fn copy(
        &self,
        between: (LocalDevice, LocalDevice),
        size: Bytes,
        then: Box<dyn Calculation>,
        asker: Asker,
    );

    /// The size of the device's memory, if it is limited.
    fn memory(&self) -> Option<Bytes>;

    /// Spreads kernels over so many of the machine's cores; `None` leaves that to the machine.
    fn use_cores(&self, cores: Option<NonZeroU32>);

    /// Stops the work of `step`, which nobody waits for any more. Its calculation sees for itself
    /// that it is given up.
    fn stop(&self, step: WorkerStep);

    /// The message thread of the task carries out `count` operations, beside their kernels.
    fn operate(&self, count: usize);

    /// Whether the kernels of a training step wait until everything has arrived that the step
    /// fetches from other devices: the model gives one time for all of them.
    fn takes_steps_whole(&self) -> bool;

    /// Whether the device computes numbers at all.
    fn numerics(&self) -> Numerics;
}

/// The work that keeps a message thread from its messages for too long: some 80 µs, at 100 GFLOP/s
/// and 10 GB/s.
const LARGE_WORK: u64 = 800_000;
/// The number of operations in the time of a byte, at these rates.
const FLOPS_PER_BYTE: u64 = 10;

/// Whether work of this cost is handed to the cores, in either world, so that the task's message
/// thread goes on. Less work is done before another thread would have woken; work without a bound
/// could keep the thread until the task counts as lost.
pub(crate) fn leaves_message_thread(cost: Cost) -> bool {
    let work = (cost.flops / FLOPS_PER_BYTE).saturating_add(cost.bytes);
    cost.is_unbounded || work >= LARGE_WORK || kernels::may_spread(cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_leaves_the_message_thread_by_its_arithmetic_and_its_memory_traffic_together() {
        let leaves = |flops, bytes| leaves_message_thread(Cost::work(flops, bytes));
        assert!(leaves(8_000_000, 0) && leaves(0, 800_000) && leaves(4_000_000, 400_000));
        assert!(!leaves(7_999_999, 0) && !leaves(0, 799_999) && !leaves(4_000_000, 399_999));
        assert!(leaves(usize::MAX, usize::MAX));
        assert!(leaves_message_thread(Cost::default().unbounded()));
    }
}
