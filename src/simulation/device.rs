//! The model of a device: the time that it takes for each piece of work.
//!
//! The time is a roofline cost (the longer of arithmetic and memory traffic), multiplied by a
//! straggler law, or a time drawn for the whole step. The model runs nothing itself.

mod spec;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use super::law::Law;
use crate::cluster::DeviceName;
use crate::kernels::Costs;
use crate::random;
use crate::runtime::{Origin, WorkerStep};
use crate::units::seconds;

pub use spec::{ComputeSpec, ComputeSpecError};

/// One device of a task, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeviceOf {
    pub(super) task: usize,
    pub(super) device: usize,
}

/// The speed of one device of a task, with the draws of its laws.
pub(crate) struct Device {
    name: DeviceName,
    seed: u64,
    spec: ComputeSpec,
    /// The task's factor on all times.
    slow: f64,
    /// The worker steps of late, the last at the end; at most [`STEPS_KEPT`].
    steps: VecDeque<StepDraws>,
    /// The number of pieces of work that a parameter server was given.
    pieces: u64,
    /// The usual draw of the law that is drawn from; 1 without one.
    usual: f64,
}

/// The time of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) whole: Duration,
    /// The part of it by which the work takes longer than usual by its law, or than on a task that
    /// is not slow.
    pub(crate) straggling: Duration,
}

/// More steps than can be under way on a device at one time.
const STEPS_KEPT: usize = 256;

/// The draws for one worker step.
struct StepDraws {
    master: u64,
    origin: Origin,
    /// The factor on the cost of the step's work.
    factor: f64,
    /// The drawn time of the step \[s\]; its first piece of work with a cost takes all of it.
    time: Option<f64>,
}

impl Device {
    /// A device that takes `slow` times as long as `spec` says; `seed` is that of all draws.
    pub(crate) fn new(name: DeviceName, spec: &ComputeSpec, slow: f64, seed: u64) -> Self {
        assert!(spec.validate().is_ok(), "a device is built from a validated spec");
        assert!(slow.is_finite() && slow >= 0.0, "a task's slowness was validated, not {slow}");
        let usual = spec.straggler.as_ref().or(spec.step_time.as_ref()).map_or(1.0, Law::usual);
        let (spec, steps) = (spec.clone(), VecDeque::new());
        Self { name, seed, spec, slow, steps, pieces: 0, usual }
    }

    /// Whether the time of a piece of work is drawn, whatever its kernels cost.
    pub(crate) fn draws_times(&self) -> bool {
        self.spec.step_time.is_some()
    }

    /// The time that work of cost `costs` takes while no fault slows its task.
    ///
    /// The laws are of the worker steps; on a parameter server, which has no steps of its own, of
    /// each piece of work. Work outside of worker steps has the cost model's time.
    pub(crate) fn time(&mut self, step: Option<WorkerStep>, costs: &Costs) -> Span {
        let roofline = self.spec.seconds(costs);
        let (seconds, drawn) = match step {
            _ if self.is_server() => self.piece_seconds(roofline),
            None => (roofline, self.usual),
            Some(step) => self.step_seconds(step, roofline),
        };
        let whole = Duration::from_nanos((seconds * self.slow * 1e9).round() as u64);
        let factor = self.slow * drawn / self.usual;
        let straggling =
            if factor > 1.0 { whole.mul_f64(1.0 - 1.0 / factor) } else { Duration::ZERO };
        Span { whole, straggling }
    }

    /// The time that memory traffic of so many `bytes` takes while no fault slows its task.
    pub(crate) fn copy_time(&self, bytes: u64) -> Duration {
        seconds(bytes as f64 / self.spec.memory.0 * self.slow)
    }

    /// The time that it takes to stop a step that is given up.
    pub(crate) fn stop_cost(&self) -> Duration {
        self.spec.stop_cost
    }

    /// Whether a drawn time stands for all the work of a step.
    pub(crate) fn takes_steps_whole(&self) -> bool {
        self.spec.step_time.is_some() && !self.is_server()
    }

    fn is_server(&self) -> bool {
        self.name.task().is_parameter_server()
    }

    /// The time of a parameter server's piece of work, whose cost is `roofline`, both in seconds;
    /// and what its law has drawn.
    fn piece_seconds(&mut self, roofline: f64) -> (f64, f64) {
        if roofline == 0.0 {
            return (0.0, self.usual);
        }
        self.pieces += 1;
        let (factor, time) = self.draw(&[&self.pieces.to_string()]);
        time.map_or((roofline * factor, factor), |time| (time, time))
    }

    /// The time of a piece of work of `step`, whose cost is `roofline`, both in seconds; and what
    /// the law has drawn for the step.
    fn step_seconds(&mut self, step: WorkerStep, roofline: f64) -> (f64, f64) {
        let WorkerStep { master, origin } = step;
        let is_step = |known: &StepDraws| (known.master, known.origin) == (master, origin);
        let index = match self.steps.iter().rposition(is_step) {
            Some(index) => index,
            None => {
                let numbers = [master, origin.training, origin.number].map(|n| n.to_string());
                let (factor, time) = self.draw(&numbers.each_ref().map(String::as_str));
                if self.steps.len() == STEPS_KEPT {
                    self.steps.pop_front();
                }
                self.steps.push_back(StepDraws { master, origin, factor, time });
                self.steps.len() - 1
            }
        };
        let draws = &mut self.steps[index];
        if self.spec.step_time.is_none() {
            (roofline * draws.factor, draws.factor)
        } else if roofline > 0.0 {
            let time = draws.time.take().unwrap_or(0.0);
            (time, time)
        } else {
            (0.0, self.usual)
        }
    }

    /// Draws the factor and the time \[s\] of the work with these numbers, from a stream of its
    /// own: work that is interleaved with other work, or taken again, draws the same.
    fn draw(&self, numbers: &[&str]) -> (f64, Option<f64>) {
        let ComputeSpec { straggler, step_time, .. } = &self.spec;
        if straggler.is_none() && step_time.is_none() {
            return (1.0, None);
        }
        let name = self.name.to_string();
        let purpose = [&[name.as_str(), "straggler"], numbers].concat();
        let mut draws = random::stream(self.seed, &purpose);
        let mut sample = |law: &Law| law.sample(&mut draws);
        (straggler.as_ref().map_or(1.0, &mut sample), step_time.as_ref().map(&mut sample))
    }
}
