//! The device of a task: what runs kernels, and says when they are done.

use std::sync::{Arc, Mutex};

use crate::kernels::{self, Cost, Numerics};

use super::messages::StepId;

/// A piece of work for a device.
pub struct Work {
    /// The step it is part of; none for work of a parameter server, which belongs to no one step.
    pub step: Option<StepId>,
    /// What it costs.
    pub cost: Cost,
    /// The arithmetic itself.
    pub run: Box<dyn FnOnce() + Send>,
    /// To be called once the device is done, after `run`, on the thread that launched the work.
    pub done: Box<dyn FnOnce()>,
}

/// Runs work and decides how long it takes: as long as it does, or as long as a model says.
pub trait ComputeModel {
    /// Starts `work`; the device does one piece after the other.
    fn launch(&self, work: Work);

    /// Whether numbers are computed on it at all.
    fn numerics(&self) -> Numerics {
        Numerics::Real
    }
}

impl Work {
    /// Work that computes a value and hands it on.
    pub(crate) fn new<T: Send + 'static>(
        step: Option<StepId>,
        cost: Cost,
        run: impl FnOnce() -> T + Send + 'static,
        done: impl FnOnce(T) + 'static,
    ) -> Self {
        let result = Arc::new(Mutex::new(None));
        let written = Arc::clone(&result);
        let run = Box::new(move || *written.lock().expect("work is run once") = Some(run()));
        let take = move || result.lock().expect("work is run once").take();
        Self { step, cost, run, done: Box::new(move || done(take().expect("work is done after it was run"))) }
    }
}

/// The processor of this machine: work takes as long as it takes.
///
/// It runs on the thread that launches it, where a small kernel is done before another thread
/// would have woken. Work with a kernel large enough to spread over rayon's threads is run by one of
/// them, so that the others wake once for all its kernels, and not for each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processor;

impl ComputeModel for Processor {
    fn launch(&self, work: Work) {
        if kernels::may_spread(work.cost) {
            rayon::scope(|_| (work.run)());
        } else {
            (work.run)();
        }
        (work.done)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the processor runs work of this cost on one of rayon's threads.
    fn is_on_the_pool(cost: Cost) -> bool {
        let (sender, receiver) = std::sync::mpsc::channel();
        let run = rayon::current_thread_index;
        Processor.launch(Work::new(None, cost, run, move |thread| sender.send(thread).expect("it is received")));
        receiver.recv().expect("the work is done").is_some()
    }

    #[test]
    fn only_work_that_may_spread_leaves_the_thread_that_launched_it() {
        assert!(!is_on_the_pool(Cost { flops: 1 << 22, bytes: 1 << 20 }));
        assert!(is_on_the_pool(Cost { flops: 1 << 23, bytes: 0 }));
        assert!(is_on_the_pool(Cost { flops: 0, bytes: 1 << 21 }));
    }
}
