//! `calibrate`: measures this machine, and writes the `[calibration]` of a scenario; or measures a
//! running cluster, or fits the laws of workers' step times to earlier results.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::args::CalibrateArgs;
use super::failure::Failure;
use super::stdout::raw_stdout;
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
pub(super) fn run(args: &CalibrateArgs, quiet: bool) -> Result<ExitCode, Failure> {
    // Before the measurement, which takes a while; what is there stays until the end of it.
    let check =
        |path: &PathBuf| check_place(path).map_err(Failure::writing(path.display().to_string()));
    args.out.as_ref().map(check).transpose()?;
    let text = match (&args.cluster, &args.from[..]) {
        (Some(cluster), _) => measure_cluster(args, cluster, quiet)?,
        (None, []) => measure(&mut StopRequest::listen(None)?, quiet)?.to_toml(),
        (None, folders) => {
            let laws = step_laws(folders, args.run.as_deref());
            laws_to_toml(&laws.map_err(ExperimentError::from)?)
        }
    };
    match &args.out {
        Some(path) => {
            let written = write_whole(path, text.as_bytes());
            written.map_err(Failure::writing(path.display().to_string()))?;
        }
        None => write!(raw_stdout(), "{text}").map_err(Failure::writing("the result"))?,
    }
    Ok(ExitCode::Done)
}

/// Checks that the file `path` can be written, and leaves it as it is: there, or not.
fn check_place(path: &Path) -> io::Result<()> {
    match OpenOptions::new().append(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            File::create_new(path)?;
            fs::remove_file(path)
        }
        opened => opened.map(drop),
    }
}

/// Writes the file `path` beside the one that is there, and then takes its place: where there is no
/// room, that stays as it was. What is no file, such as a pipe or a link, is written to as it is.
fn write_whole(path: &Path, text: &[u8]) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) {
        return fs::write(path, text);
    }
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let file = match File::create(&new) {
        // The file may be written, and its folder not.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return fs::write(path, text);
        }
        file => file,
    };
    let written = file.and_then(|mut file| file.write_all(text));
    written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| {
        fs::remove_file(&new).ok(); // the first error counts
    })
}

/// Measures the tasks of the cluster in `file` and the ways between them; the sections of a
/// scenario.
fn measure_cluster(args: &CalibrateArgs, file: &Path, quiet: bool) -> Result<String, Failure> {
    let cluster = read_cluster(file)?;
    let folder = args.certs.as_deref().expect("--cluster requires --certs");
    let certificates = Certificates::new(folder, &args.run_name);
    let speed = calibrate_cluster(&cluster, &certificates, |what| tell(what, quiet));
    Ok(speed?.to_toml())
}

/// Says on stderr what is measured now, unless it is to be `quiet`.
fn tell(what: &str, quiet: bool) {
    if !quiet {
        say!("measuring: {what}");
    }
}

/// Measures this machine, and tells on stderr what happens, unless it is to be `quiet`.
pub(super) fn measure(stop: &mut StopRequest, quiet: bool) -> Result<CalibratedMachine, Failure> {
    let program = std::env::current_exe().map_err(Failure::system("find this program"))?;
    let calibration = calibrate(&program, |what| tell(what, quiet), stop)?;
    if quiet {
        return Ok(calibration);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_checked_without_a_trace_and_written_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine.toml");
        check_place(&path).unwrap();
        assert!(!path.exists(), "nothing is written yet");
        for text in ["a calibration", "another"] {
            write_whole(&path, text.as_bytes()).unwrap();
            check_place(&path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "and nothing beside it");
        assert!(check_place(folder.path()).is_err(), "a folder is no file");
        assert!(check_place(&folder.path().join("nowhere/machine.toml")).is_err());
    }
}
