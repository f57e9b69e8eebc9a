//! Processes of this machine: which one has written a file, whether it still runs; and this one's
//! limits of files: how many it may open, how long they may be, and how to tell that it may open no
//! more.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::process::{Resource, Signal, getrlimit};
use serde::{Deserialize, Serialize};
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

/// The place of a process's state and of the clock tick in which it began, among what Linux says of
/// it after its name (`proc_pid_stat(5)`, from its field 3 on).
const STATE: usize = 0;
const BEGUN: usize = 19;

/// A process, as it notes itself in a file that others read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    machine: String,
    realm: String,
    id: u32,
    /// When it began, in clock ticks since the boot: a number is given out again. None where the
    /// system does not tell.
    begun: Option<u64>,
}

/// Begins a realm where the system does not tell its boot: such realms can't be told apart.
const NO_BOOT: char = '.';

/// The number of files that this process may have open, sockets among them; none without a limit.
pub(crate) fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Has a write that would make a file longer than the process may (`ulimit -f`) fail from now on,
/// as on a full disk. By default its signal, SIGXFSZ, ends the process.
///
/// # Errors
/// If the system refuses.
pub(crate) fn survive_long_files() -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let _inside = runtime.enter();
    // That somebody has listened is what counts: the default does not come back.
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
}

/// Whether the system has refused to open a file or a socket since this process, or all together,
/// have too many open (`EMFILE`, `ENFILE`).
pub(crate) fn lacks_files(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(24 | 23))
}

/// What to do if a process [`lacks_files`].
pub(crate) const MORE_FILES: &str = "raise the limit of open files, `ulimit -n`";

/// `; ` and [`MORE_FILES`] if `error` [`lacks_files`], else nothing.
pub(crate) fn more_files(error: &io::Error) -> &'static str {
    if lacks_files(error) { "; raise the limit of open files, `ulimit -n`" } else { "" }
}

impl Process {
    /// This process.
    pub(crate) fn own() -> Self {
        let id = std::process::id();
        Self { machine: machine(), realm: realm(), id, begun: begun(id) }
    }

    /// Whether it runs. None where that can't be seen from here: it is of another machine or
    /// container, or of an earlier boot, or the system does not tell.
    pub(crate) fn runs(&self) -> Option<bool> {
        let known =
            self.begun.filter(|_| self.realm == realm() && !self.realm.starts_with(NO_BOOT))?;
        match begun(self.id) {
            Some(begun) => Some(begun == known),
            // The system may hide the processes of others; it then hides the first one, too.
            None => begun(1).map(|_| false),
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // They come from a file: no signs that a terminal obeys.
        write!(f, "process {} on {}", self.id, self.machine.escape_debug())
    }
}

/// The realm in which the number of this process means something: a boot of the system, and a
/// namespace of processes. Hosts and containers can share a folder.
pub(crate) fn realm() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |own| own.ino());
    let boot: String = boot.chars().take(8).collect();
    format!("{boot}.{namespace}")
}

/// The name of this machine, for people.
fn machine() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "a machine without a name".to_owned(),
        name => name.to_owned(),
    }
}

/// When the process `id` began \[clock ticks since the boot\]; none if it does not run, or the
/// system does not tell.
fn begun(id: u32) -> Option<u64> {
    let told = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, after_name) = told.rsplit_once(')')?; // a name may have spaces and brackets
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let is_over = ["Z", "X"].contains(fields.get(STATE)?);
    fields.get(BEGUN)?.parse().ok().filter(|_| !is_over)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_runs_until_its_end_and_one_of_another_machine_may() {
        let own = Process::own();
        assert_eq!(own.runs(), Some(true));
        let after_it = Process { begun: own.begun.map(|tick| tick + 1), ..own.clone() };
        assert_eq!(after_it.runs(), Some(false), "its number was given out again");
        assert_eq!(Process { realm: "of another".to_owned(), ..own.clone() }.runs(), None);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let other = Process { id: child.id(), begun: begun(child.id()), ..own };
        assert_eq!(other.runs(), Some(true));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(other.runs(), Some(false));
    }
}
