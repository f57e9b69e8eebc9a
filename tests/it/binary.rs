//! The program `trainyard` as tests run it, and the files that they give it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// What the program said.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn trainyard(args: &[&str]) -> Said {
    let output = Command::new(env!("CARGO_BIN_EXE_trainyard")).args(args).env("RUST_BACKTRACE", "0").output();
    let Output { status, stdout, stderr } = output.unwrap();
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
