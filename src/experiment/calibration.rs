//! Calibration: measures this machine by short runs, and fits the simulation's model of it to them.
//!
//! Messages, hand-overs and kernels are first measured by themselves. These are then the first
//! guess of a fit: short trainings are deployed on this machine, and the parameters are those by
//! which the simulation of the same trainings comes closest. The fit's residuals say how good the
//! model is here.

mod cluster;
mod fit;
mod guess;
mod laws;
mod machine;
mod messages;
mod noise;
mod runs;

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use super::ExperimentError;
use super::parallel::share;
use crate::deployment::{DeploymentError, ExitCode, StopRequest, cores, event_loop};

pub use cluster::{ClusterSpeed, MeasuredLink, TaskSpeed, calibrate_cluster};
pub use laws::{LawsError, StepLaw, laws_to_toml, step_laws};
pub use machine::Machine;
#[cfg(test)]
pub(super) use machine::tests::machine as a_machine;
pub(super) use machine::{cores_here, place_together};
use runs::Measured;

/// The greatest number of simulations of all runs.
const EVALUATIONS: usize = 800;

/// The median of `values`, which it sorts; of an even number of them, the upper one of the middle.
fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// A machine, with the quality of its model.
#[derive(Clone, Debug)]
pub struct CalibratedMachine {
    /// The machine.
    pub machine: Machine,
    /// The parameters as they were measured by themselves.
    pub guess: Machine,
    /// The trainings that it was fitted to.
    pub runs: Vec<CalibrationRun>,
}

/// A training that a machine was fitted to.
#[derive(Clone, Debug)]
pub struct CalibrationRun {
    /// What it is called.
    pub name: String,
    /// The median step, as measured \[s\].
    pub step: f64,
    /// The least and the greatest of several measurements of it \[s\].
    pub range: [f64; 2],
    /// The predicted median step over the measured one.
    pub ratio: f64,
}

/// Measures this machine. `program`, which must call [`crate::main`], is started for the tasks;
/// `says` is told what happens. Takes some minutes.
///
/// # Errors
/// If the system refuses, a task fails, or it is asked to `stop`.
pub fn calibrate(
    program: &Path,
    says: impl Fn(&str),
    stop: &mut StopRequest,
) -> Result<CalibratedMachine, ExperimentError> {
    says("messages, hand-overs and kernels");
    let mut guess = guess::machine()?;
    let runtime = event_loop()?;
    let measuring = runs::measure(program, guess.cores, |run| says(run), stop);
    let (measured, noise) = runtime.block_on(measuring)?;
    guess.noise = noise;
    says("the fit");
    let residuals = |machine: &Machine| residuals(&measured, machine);
    let mut asked = None;
    let found = fit::fit(&guess.guesses(), EVALUATIONS, |parameters| {
        asked = stop.asked();
        asked.is_none().then(|| residuals(&guess.with(parameters)))
    });
    let stopped = || DeploymentError::Stopped {
        run: "calibration".to_owned(),
        code: asked.unwrap_or(ExitCode::Interrupted),
    };
    let machine = guess.with(&found.ok_or_else(stopped)?);
    let run = |(run, residual): (&Measured, f64)| {
        let (step, range) = run.step();
        CalibrationRun { name: run.name.to_owned(), step, range, ratio: residual.exp() }
    };
    let runs = measured.iter().zip(residuals(&machine)).map(run).collect();
    Ok(CalibratedMachine { runs, machine, guess })
}

/// The residual of each run, on all cores.
fn residuals(runs: &[Measured], machine: &Machine) -> Vec<f64> {
    let residuals = Mutex::new(vec![0.0; runs.len()]);
    share(cores().get(), runs.iter().enumerate(), |(at, run)| {
        let residual = run.residual(machine);
        residuals.lock().expect("nothing panics while it holds this")[at] = residual;
        Some(())
    });
    residuals.into_inner().expect("nothing panics while it holds this")
}

impl CalibratedMachine {
    /// The mean and the greatest error of the predicted median steps \[%\].
    pub fn errors(&self) -> (f64, f64) {
        mean_and_greatest(self.runs.iter().map(|run| 100.0 * (run.ratio - 1.0).abs()))
    }

    /// By how much the measurements of one training lie apart, on average and at most \[% of the
    /// median\]: what the machine varies by, whatever its model.
    pub fn spread(&self) -> (f64, f64) {
        let spread = |run: &CalibrationRun| 100.0 * (run.range[1] - run.range[0]) / run.step;
        mean_and_greatest(self.runs.iter().map(spread))
    }

    /// The section `[calibration]` of a scenario, with the quality of the fit as comments.
    pub fn to_toml(&self) -> String {
        let ((mean, greatest), (spread, widest)) = (self.errors(), self.spread());
        let mut text = format!(
            "# measured by `trainyard calibrate`: {} cores\n\
             # residual of the median step: {mean:.1} % on average, {greatest:.1} % at most\n\
             # measurements of one step lie apart: {spread:.1} % on average, {widest:.1} % at \
             most\n",
            self.machine.cores
        );
        for CalibrationRun { name, step, range: [least, most], ratio } in &self.runs {
            append!(
                text,
                "#   {name}: {:.1} us measured ({:.1} to {:.1}), {:+.1} %\n",
                step * 1e6,
                least * 1e6,
                most * 1e6,
                100.0 * (ratio - 1.0)
            );
        }
        text + &self.machine.to_toml()
    }
}

fn mean_and_greatest(values: impl ExactSizeIterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    (values.clone().sum::<f64>() / count, values.fold(0.0, f64::max))
}

/// `seconds` in the largest unit that gives at least 1, in quotes, such as `"145.291278ms"`. A
/// scenario reads whole nanoseconds, so that nothing is lost. What a fit of noisy measurements puts
/// below 0 is written as 0.
fn time_text(seconds: f64) -> String {
    let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
    format!("\"{time:?}\"").replace('µ', "u")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_the_largest_unit_that_it_fills() {
        for (seconds, text) in [
            (0.0, "\"0ns\""),
            (500e-9, "\"500ns\""),
            (10e-6, "\"10us\""),
            (145_291.278e-6, "\"145.291278ms\""),
            (1.5, "\"1.5s\""),
            (100.0, "\"100s\""),
            (1.000_000_001, "\"1.000000001s\""),
            (-3e-6, "\"0ns\""),
        ] {
            assert_eq!(time_text(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn a_calibration_says_how_good_its_model_is_and_how_far_its_measurements_lie_apart() {
        let run = |name: &str, range, ratio| CalibrationRun {
            name: name.to_owned(),
            step: 100e-6,
            range,
            ratio,
        };
        let runs = vec![run("softmax", [90e-6, 110e-6], 1.1), run("wide", [95e-6, 105e-6], 0.7)];
        let machine = machine::tests::machine();
        let text = CalibratedMachine { guess: machine.clone(), machine, runs }.to_toml();
        for line in [
            "# residual of the median step: 20.0 % on average, 30.0 % at most",
            "# measurements of one step lie apart: 15.0 % on average, 20.0 % at most",
            "#   softmax: 100.0 us measured (90.0 to 110.0), +10.0 %",
        ] {
            assert!(text.lines().any(|it| it == line), "no `{line}` in\n{text}");
        }
    }
}
