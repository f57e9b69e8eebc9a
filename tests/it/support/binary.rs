//! The program `trainyard` as tests run it, and the files that they give it.

use std::fs;
use std::io::Read;
use std::net::UdpSocket;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

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
    let temporary = temporary();
    command.args(args).current_dir(folder).env("RUST_BACKTRACE", "0");
    command.env("TMPDIR", temporary.path());
    command.env_remove("TF_CONFIG").env_remove("SLURM_PROCID").envs(variables.iter().copied());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: status.code().expect("it was not killed"), out: text(stdout), err: text(stderr) }
}

/// A folder for the temporary files of a program, such as the logs of a launch that failed, which
/// stay for the user.
pub(crate) fn temporary() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A process that is killed when it is dropped.
pub(crate) struct OwnChild(Child);

impl OwnChild {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }
}

impl Deref for OwnChild {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for OwnChild {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for OwnChild {
    fn drop(&mut self) {
        if self.try_wait().is_ok_and(|status| status.is_none()) {
            self.kill().unwrap();
            self.wait().unwrap();
        }
    }
}

/// A process under way; neither it nor its temporary files outlive its test.
pub(crate) struct Running {
    child: OwnChild,
    limit: Duration,
    _temporary: TempDir,
}

impl Running {
    /// Starts what takes no longer than `limit`, unless it hangs.
    pub(crate) fn start(command: &mut Command, limit: Duration) -> Self {
        let temporary = temporary();
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("TMPDIR", temporary.path());
        Self { child: OwnChild::spawn(command), limit, _temporary: temporary }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The first line of its stderr, from now on, that has `part`; what is before is lost.
    pub(crate) fn line_with(&mut self, part: &str) -> String {
        let err = self.child.stderr.as_mut().unwrap();
        let (mut line, mut byte) = (Vec::new(), [0]);
        loop {
            assert_eq!(err.read(&mut byte).unwrap(), 1, "it ended without `{part}`");
            if byte != *b"\n" {
                line.extend(byte);
                continue;
            }
            let text = String::from_utf8(std::mem::take(&mut line)).unwrap();
            if text.contains(part) {
                return text;
            }
        }
    }

    /// Sends it the signal `name`.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Waits for its end; it fails the test where that does not come.
    pub(crate) fn end(mut self) -> Said {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < self.limit, "it hangs");
            std::thread::sleep(Duration::from_millis(20));
        };
        let read = |from: &mut dyn Read| {
            let mut text = String::new();
            from.read_to_string(&mut text).unwrap();
            text
        };
        let out = read(self.child.stdout.as_mut().unwrap());
        let err = read(self.child.stderr.as_mut().unwrap());
        Said { code: status.code().expect("it was not killed"), out, err }
    }
}

/// An address that nobody listens on.
pub(crate) fn free_address() -> String {
    let [address] = free_addresses();
    address
}

/// Addresses that nobody listens on, each another one.
pub(crate) fn free_addresses<const N: usize>() -> [String; N] {
    let sockets: [UdpSocket; N] = std::array::from_fn(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    sockets.map(|socket| socket.local_addr().unwrap().to_string())
}

/// Waits until an event file in `folder` has the loss of a step.
pub(crate) fn wait_for_a_loss(folder: &Path) {
    let began = Instant::now();
    let has_loss = |file: fs::DirEntry| {
        let events = fs::read(file.path()).unwrap();
        events.windows(12).any(|tag| tag == b"loss/worker:")
    };
    while !fs::read_dir(folder).into_iter().flatten().flatten().any(has_loss) {
        assert!(began.elapsed() < Duration::from_secs(60), "no loss is written");
        std::thread::sleep(Duration::from_millis(20));
    }
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
