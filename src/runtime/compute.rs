//! The device of a task: what runs kernels, and says when they are done.

use std::sync::{Arc, Mutex};

use crate::kernels::Cost;

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
/// would have woken; large ones spread over rayon's threads by themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processor;

impl ComputeModel for Processor {
    fn launch(&self, work: Work) {
        (work.run)();
        (work.done)();
    }
}
