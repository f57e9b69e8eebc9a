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
mod runs;

use std::fmt::Write as _;
use std::path::Path;

use super::ExperimentError;
use crate::deployment::{DeploymentError, StopRequest};

pub use cluster::{ClusterSpeed, TaskSpeed, Way, calibrate_cluster};
pub use laws::{LawsError, StepLaw, laws_to_toml, step_laws};
pub use machine::Machine;
pub(super) use machine::place_together;
use runs::Measured;

/// The greatest number of simulations of all runs.
const EVALUATIONS: usize = 1500;

/// A machine, with the quality of its model.
#[derive(Clone, Debug)]
pub struct CalibratedMachine {
    /// The machine.
    pub machine: Machine,
    /// The parameters as they were measured by themselves.
    pub guess: Machine,
    /// For each run: its name, the measured median step \[s\], and the predicted over the measured
    /// one.
    pub runs: Vec<(String, f64, f64)>,
}

/// Measures this machine. `program`, which must call [`crate::main`], is started for the tasks;
/// `says` is told what happens. Takes less than a minute.
///
/// # Errors
/// If the system refuses, or a task fails.
pub fn calibrate(
    program: &Path,
    says: impl Fn(&str),
    stop: &mut StopRequest,
) -> Result<CalibratedMachine, ExperimentError> {
    says("messages, hand-overs and kernels");
    let guess = guess::machine()?;
    let failed = DeploymentError::system("run an event loop");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let measured = runtime.block_on(runs::measure(program, |run| says(run), stop))?;
    says("the fit");
    let residuals = |machine: &Machine| residuals(&measured, machine);
    let found =
        fit::fit(&guess.parameters(), EVALUATIONS, |parameters| residuals(&guess.with(parameters)));
    let machine = guess.with(&found);
    let runs = measured.iter().zip(residuals(&machine));
    let runs = runs.map(|(run, residual)| (run.name.to_owned(), run.step, residual.exp()));
    Ok(CalibratedMachine { runs: runs.collect(), machine, guess })
}

/// The residual of each run, on all cores.
fn residuals(runs: &[Measured], machine: &Machine) -> Vec<f64> {
    let half = runs.len().div_ceil(2);
    std::thread::scope(|scope| {
        let threads: Vec<_> = runs
            .chunks(half.max(1))
            .map(|runs| {
                scope.spawn(move || {
                    runs.iter().map(|run| run.residual(machine)).collect::<Vec<f64>>()
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<f64>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(join).collect()
    })
}

impl CalibratedMachine {
    /// The mean and the greatest error of the predicted median steps \[%\].
    pub fn errors(&self) -> (f64, f64) {
        let errors = self.runs.iter().map(|(_, _, ratio)| 100.0 * (ratio - 1.0).abs());
        let greatest = errors.clone().fold(0.0, f64::max);
        (errors.sum::<f64>() / self.runs.len().max(1) as f64, greatest)
    }

    /// The section `[calibration]` of a scenario, with the quality of the fit as comments.
    pub fn to_toml(&self) -> String {
        let (mean, greatest) = self.errors();
        let mut text = format!(
            "# measured by `trainyard calibrate`: {} cores\n\
             # residual of the median step: {mean:.1} % on average, {greatest:.1} % at most\n",
            self.machine.cores
        );
        for (name, step, ratio) in &self.runs {
            let _writing_to_a_string_never_fails = writeln!(
                text,
                "#   {name}: {:.1} us measured, {:+.1} %",
                step * 1e6,
                100.0 * (ratio - 1.0)
            );
        }
        text + &self.machine.to_toml()
    }
}
