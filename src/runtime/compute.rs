//! The device of a task: what runs kernels, and says when they are done.

use std::rc::Rc;

use crate::kernels::{self, Cost, Numerics};

use crate::runtime::link::Actors;
use crate::runtime::messages::StepId;

/// A piece of work for a device.
pub struct Work {
    /// The step it is part of; none for work of a parameter server, which belongs to no one step.
    pub step: Option<StepId>,
    /// What it costs.
    pub cost: Cost,
    /// The arithmetic itself.
    pub calculation: Box<dyn Calculation>,
    /// Who is told once the device is done, after the calculation has run.
    pub asker: Asker,
}

/// Arithmetic with all that it reads and writes.
pub trait Calculation: Send {
    /// Does it, on any thread.
    fn run(&mut self);

    /// Hands on what came of it, on the thread that launched it.
    fn done(self: Box<Self>, asker: &Asker);
}

/// The actors that a piece of work is of.
#[derive(Clone)]
pub struct Asker(pub(crate) Rc<Actors>);

/// Runs work and decides how long it takes: as long as it does, or as long as a model says.
pub trait ComputeModel {
    /// Starts `work`; the device does one piece after the other.
    fn launch(&self, work: Work);

    /// Whether numbers are computed on it at all.
    fn numerics(&self) -> Numerics {
        Numerics::Real
    }
}

/// The devices of a task, `/device:CPU:0` and on: at least one. Each does its own work, at the same
/// time as the others.
pub(crate) type Devices = Rc<[Rc<dyn ComputeModel>]>;

/// The processor of this machine: work takes as long as it takes.
///
/// It runs on the thread that launches it, where a small kernel is done before another thread
/// would have woken. Work with a kernel large enough to spread over rayon's threads is run by one
/// of them, so that the others wake once for all its kernels, and not for each.
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
