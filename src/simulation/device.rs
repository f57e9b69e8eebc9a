//! The model of a device: the time that it takes for each piece of work.
//!
//! The time is a roofline cost (the longer of arithmetic and memory traffic), multiplied by a
//! straggler law, or a time drawn for the whole step. The model runs nothing itself.

use std::time::Duration;

use rand_pcg::Pcg64;

use super::law::{Law, LawError};
use crate::units::{BytesPerSecond, FlopsPerSecond};

/// The speed of a device, and how it varies.
#[derive(Clone, Debug, PartialEq)]
pub struct ComputeSpec {
    /// Rate of arithmetic \[floating point operations/s\].
    pub rate: FlopsPerSecond,
    /// Rate of memory traffic \[bytes/s\].
    pub memory: BytesPerSecond,
    /// The law of a factor on the time of each worker step, drawn once a step.
    pub straggler: Option<Law>,
    /// The law of the compute time of each worker step \[s\]; replaces the cost model for these.
    pub step_time: Option<Law>,
}

/// Errors of [`ComputeSpec::validate`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ComputeError {
    /// A rate is zero, negative or not finite.
    #[error("the device's {what} is {value}; give a finite rate above zero")]
    Rate {
        /// `rate` or `memory`.
        what: &'static str,
        /// The rate \[1/s\].
        value: f64,
    },
    /// A law's parameter is out of range.
    #[error("{what}: {source}")]
    Law {
        /// `straggler` or `step_time`.
        what: &'static str,
        /// The law's error.
        source: LawError,
    },
    /// Both laws are given, though a drawn step time leaves no cost for a factor to multiply.
    #[error(
        "both step_time and straggler are given; step_time already is the whole time of a step, so \
         drop one"
    )]
    TwoLaws,
}

impl ComputeSpec {
    /// Checks that every cost will be a finite, non-negative time.
    ///
    /// # Errors
    /// The first field that is out of range.
    pub fn validate(&self) -> Result<(), ComputeError> {
        for (what, value) in [("rate", self.rate.0), ("memory", self.memory.0)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(ComputeError::Rate { what, value });
            }
        }
        for (what, law) in [("straggler", &self.straggler), ("step_time", &self.step_time)] {
            if let Some(law) = law {
                law.validate().map_err(|source| ComputeError::Law { what, source })?;
            }
        }
        if self.straggler.is_some() && self.step_time.is_some() {
            Err(ComputeError::TwoLaws)
        } else {
            Ok(())
        }
    }
}

/// The speed of one device of a task, with the draws of its laws.
pub(crate) struct Device {
    spec: ComputeSpec,
    /// The task's factor on all times.
    slow: f64,
    /// A fault's factor on all times, 1 without a fault.
    slowdown: f64,
    draws: Pcg64,
    step: Option<StepDraws>,
}

/// The draws for the worker step that the device works on.
struct StepDraws {
    id: u64,
    /// The factor on the cost of the step's work.
    factor: f64,
    /// The drawn time of the step \[s\]; its first piece of work with a cost takes all of it.
    time: Option<f64>,
}

impl Device {
    /// A device that takes `slow` times as long as `spec` says; `draws` is its stream for the laws.
    pub(crate) fn new(spec: &ComputeSpec, slow: f64, draws: Pcg64) -> Self {
        assert!(spec.validate().is_ok(), "a device is built from a validated spec");
        assert!(slow.is_finite() && slow >= 0.0, "a task's slowness was validated, not {slow}");
        Self { spec: spec.clone(), slow, slowdown: 1.0, draws, step: None }
    }

    /// Sets a fault's factor on the time of all work that it is given from now on.
    pub(crate) fn set_slowdown(&mut self, factor: f64) {
        self.slowdown = factor;
    }

    /// Whether the time of a worker step is drawn, whatever its kernels cost.
    pub(crate) fn draws_step_times(&self) -> bool {
        self.spec.step_time.is_some()
    }

    /// The time that `flops` and `bytes` of worker step `step` take.
    ///
    /// A step other than the last one is a new step, with its own draws. `None` is for work outside
    /// of worker steps, such as a parameter server's; it has the cost model's time, without the
    /// laws.
    pub(crate) fn time(&mut self, step: Option<u64>, flops: u64, bytes: u64) -> Duration {
        let roofline = (flops as f64 / self.spec.rate.0).max(bytes as f64 / self.spec.memory.0);
        let seconds = match step {
            None => roofline,
            Some(id) => self.step_seconds(id, roofline),
        };
        Duration::from_nanos((seconds * (self.slow * self.slowdown) * 1e9).round() as u64)
    }

    /// The time of a piece of work of step `id`, whose cost is `roofline`; both in seconds.
    fn step_seconds(&mut self, id: u64, roofline: f64) -> f64 {
        let draws = &mut self.draws;
        let step = match &mut self.step {
            Some(step) if step.id == id => step,
            other => other.insert(StepDraws {
                id,
                factor: self.spec.straggler.as_ref().map_or(1.0, |law| law.sample(draws)),
                time: self.spec.step_time.as_ref().map(|law| law.sample(draws)),
            }),
        };
        if self.spec.step_time.is_none() {
            roofline * step.factor
        } else if roofline > 0.0 {
            step.time.take().unwrap_or(0.0)
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    const SPEC: ComputeSpec = ComputeSpec {
        rate: FlopsPerSecond(1e9),
        memory: BytesPerSecond(1e8),
        straggler: None,
        step_time: None,
    };
    const COIN: [f64; 2] = [1.0, 3.0];

    fn device(spec: ComputeSpec, slow: f64) -> Device {
        Device::new(&spec, slow, random::stream(3, &["worker:0", "straggler"]))
    }

    /// The time of a piece of work \[ns\].
    fn time(device: &mut Device, step: Option<u64>, flops: u64, bytes: u64) -> u64 {
        device.time(step, flops, bytes).as_nanos() as u64
    }

    #[test]
    fn a_piece_takes_the_longer_of_its_arithmetic_and_its_memory_traffic() {
        let mut device = device(SPEC, 1.0);
        assert_eq!(time(&mut device, None, 1_000, 50), 1_000);
        assert_eq!(time(&mut device, None, 1_000, 200), 2_000);
        assert_eq!(time(&mut device, None, 0, 0), 0);
    }

    #[test]
    fn a_slow_task_takes_its_factor_longer() {
        assert_eq!(time(&mut device(SPEC, 2.5), Some(0), 1_000, 0), 2_500);
        let stepped = ComputeSpec { step_time: Some(Law::Constant { value: 1e-6 }), ..SPEC };
        assert_eq!(time(&mut device(stepped, 2.5), Some(0), 1, 0), 2_500);
    }

    #[test]
    fn a_straggler_factor_is_drawn_once_a_step_and_spares_work_outside_of_steps() {
        let straggler = Law::Empirical { values: COIN.to_vec() };
        let mut device = device(ComputeSpec { straggler: Some(straggler.clone()), ..SPEC }, 1.0);
        let mut draws = random::stream(3, &["worker:0", "straggler"]);
        let mut seen = [0; 2];
        for step in 0..64 {
            let factor = straggler.sample(&mut draws);
            seen[usize::from(factor == COIN[1])] += 1;
            assert_eq!(time(&mut device, Some(step), 1_000, 0), (1_000.0 * factor) as u64);
            assert_eq!(time(&mut device, None, 1_000, 0), 1_000);
            assert_eq!(time(&mut device, Some(step), 100, 0), (100.0 * factor) as u64);
        }
        assert!(seen.iter().all(|count| *count > 10), "both sides of the coin come up: {seen:?}");
    }

    #[test]
    fn a_drawn_step_time_is_taken_whole_by_the_steps_first_piece_that_costs() {
        let step_time = Some(Law::Constant { value: 0.1 });
        let mut device = device(ComputeSpec { step_time, ..SPEC }, 1.0);
        for step in [4, 5] {
            assert_eq!(time(&mut device, Some(step), 0, 0), 0);
            assert_eq!(time(&mut device, None, 1_000, 0), 1_000);
            assert_eq!(time(&mut device, Some(step), 7, 7), 100_000_000);
            assert_eq!(time(&mut device, Some(step), 1_000_000, 0), 0);
        }
    }

    #[test]
    fn a_spec_that_gives_no_finite_time_is_refused() {
        let refused = [
            ComputeSpec { rate: FlopsPerSecond(0.0), ..SPEC },
            ComputeSpec { memory: BytesPerSecond(f64::INFINITY), ..SPEC },
            ComputeSpec { straggler: Some(Law::Constant { value: -1.0 }), ..SPEC },
            ComputeSpec { step_time: Some(Law::Empirical { values: vec![] }), ..SPEC },
            ComputeSpec {
                straggler: Some(Law::Constant { value: 1.0 }),
                step_time: Some(Law::Constant { value: 1.0 }),
                ..SPEC
            },
        ];
        for (spec, word) in refused.iter().zip(["rate", "memory", "straggler", "step_time", "both"])
        {
            let error = spec.validate().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        assert_eq!(SPEC.validate(), Ok(()));
    }
}
