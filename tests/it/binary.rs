//! The program `trainyard` as tests run it, and the files that they give it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What the program said.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn trainyard(args: &[&str]) -> Said {
    trainyard_in(Path::new("."), args, &[])
}

/// As [`trainyard`], in a folder, and with those of the variables that give a task its role alone.
pub(crate) fn trainyard_in(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    command.args(args).current_dir(folder).env("RUST_BACKTRACE", "0");
    command.env_remove("TF_CONFIG").env_remove("SLURM_PROCID").envs(variables.iter().copied());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: status.code().expect("it was not killed"), out: text(stdout), err: text(stderr) }
}

/// An empty folder for the test called `test`.
pub(crate) fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The path of a file with `text`.
pub(crate) fn scenario(test: &str, text: &str) -> String {
    let path = folder(test).join("scenario.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}
