//! `calibrate`: measures this machine, and writes the `[calibration]` of a scenario; or measures a
//! running cluster, or fits the laws of workers' step times to earlier results.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::args::CalibrateArgs;
use super::failure::Failure;
use super::stdout::stdout;
use crate::deployment::{Certificates, ExitCode, StopRequest, read_cluster};
use crate::experiment::ExperimentError;
use crate::experiment::calibration::{
    CalibratedMachine, calibrate, calibrate_cluster, laws_to_toml, step_laws,
};
use crate::say::say;

/// The mean error of a fit, or spread of its measurements, from which on predictions by it are not
/// to be trusted \[%\]: a busy machine has had some 40.
const USELESS: f64 = 60.0;

/// Runs the command.
pub(super) fn run(args: &CalibrateArgs) -> Result<ExitCode, Failure> {
    // Opened before the measurement, which takes a while; what is there stays until the end of it.
    let open = |path: &PathBuf| {
        let opened = OpenOptions::new().append(true).create(true).open(path);
        opened.map(drop).map_err(Failure::writing(path.display().to_string()))
    };
    args.out.as_ref().map(open).transpose()?;
    let text = match (&args.cluster, &args.from[..]) {
        (Some(cluster), _) => measure_cluster(args, cluster)?,
        (None, []) => measure(&mut StopRequest::listen(None)?)?.to_toml(),
        (None, folders) => {
            let laws = step_laws(folders, args.run.as_deref());
            laws_to_toml(&laws.map_err(ExperimentError::from)?)
        }
    };
    match &args.out {
        Some(path) => {
            fs::write(path, text).map_err(Failure::writing(path.display().to_string()))?;
        }
        None => write!(stdout(), "{text}").map_err(Failure::writing("the result"))?,
    }
    Ok(ExitCode::Done)
}

/// Measures the tasks of the cluster in `file` and the ways between them; the sections of a
/// scenario.
fn measure_cluster(args: &CalibrateArgs, file: &Path) -> Result<String, Failure> {
    let cluster = read_cluster(file)?;
    let folder = args.certs.as_deref().expect("--cluster requires --certs");
    let certificates = Certificates::new(folder, &args.run_name);
    let speed = calibrate_cluster(&cluster, &certificates, |what| say!("measuring: {what}"));
    Ok(speed?.to_toml())
}

/// Measures this machine, and tells on stderr what happens.
pub(super) fn measure(stop: &mut StopRequest) -> Result<CalibratedMachine, Failure> {
    let program = std::env::current_exe().map_err(Failure::system("find this program"))?;
    let calibration = calibrate(&program, |what| say!("measuring: {what}"), stop)?;
    let (mean, greatest) = calibration.errors();
    let (spread, _) = calibration.spread();
    say!(
        "the fit: an error of {mean:.1} % on average, of {greatest:.1} % at most; measurements of \
         one step lay {spread:.1} % apart"
    );
    if mean.max(spread) > USELESS {
        say!(
            "warning: something else took the machine meanwhile: don't predict by this; calibrate \
             again"
        );
    }
    Ok(calibration)
}
