//! The device of a task: runs kernels, and reports when they are done.

use std::rc::Rc;

use crate::kernels::{self, Cost, Numerics};

use crate::runtime::link::Actors;
use crate::runtime::messages::StepId;

/// A piece of work for a device.
pub struct Work {
    /// The step it is part of; `None` for a parameter server's work, which belongs to no one step.
    pub step: Option<StepId>,
    /// The cost of the work.
    pub cost: Cost,
    /// The arithmetic itself.
    pub calculation: Box<dyn Calculation>,
    /// The actors that are told once the calculation has run and the device is done.
    pub asker: Asker,
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

/// Runs work and decides how long it takes: its real time, or the time that a model gives.
pub trait ComputeModel {
    /// Starts `work`; the device runs one piece after the other.
    fn launch(&self, work: Work);

    /// Whether the device computes numbers at all.
    fn numerics(&self) -> Numerics {
        Numerics::Real
    }
}

/// The devices of a task, `/device:CPU:0` and on: at least one. Each does its own work, at the same
/// time as the others.
pub(crate) type Devices = Rc<[Rc<dyn ComputeModel>]>;

/// The processor of this machine: work takes its real time.
///
/// Work runs on the thread that launches it, where a small kernel is done before another thread
/// would have woken. If a kernel is large enough to spread over rayon's threads, the whole work
/// runs on one of them, so that the others wake once for all its kernels, and not for each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processor;

impl ComputeModel for Processor {
    fn launch(&self, work: Work) {
        let Work { cost, mut calculation, asker, .. } = work;
        run(&mut *calculation, cost);
        calculation.done(&asker);
    }
}

fn run(calculation: &mut dyn Calculation, cost: Cost) {
    if kernels::may_spread(cost) {
        rayon::scope(|_| calculation.run());
    } else {
        calculation.run();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes which of rayon's threads runs it.
    struct Probe(Option<usize>);

    impl Calculation for Probe {
        fn run(&mut self) {
            self.0 = rayon::current_thread_index();
        }

        fn done(self: Box<Self>, _: &Asker) {}
    }

    /// Whether the processor runs work of this cost on one of rayon's threads.
    fn is_on_the_pool(cost: Cost) -> bool {
        let mut probe = Probe(None);
        run(&mut probe, cost);
        probe.0.is_some()
    }

    #[test]
    fn only_work_that_may_spread_leaves_the_thread_that_launched_it() {
        assert!(!is_on_the_pool(Cost { flops: 1 << 22, bytes: 1 << 20 }));
        assert!(is_on_the_pool(Cost { flops: 1 << 23, bytes: 0 }));
        assert!(is_on_the_pool(Cost { flops: 0, bytes: 1 << 21 }));
    }
}
