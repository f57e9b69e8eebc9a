//! Listens to one process of a cluster: its events, the output of its program, its end.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::deployment::ExitCode;
use crate::deployment::control::{self, Event};
use crate::deployment::launch::faults::kill_group;
use crate::deployment::launch::members::Member;

/// How long the output of a process is still read once it is gone.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The length at which an unfinished line goes to the log \[bytes\]: a program may print for days
/// without ending a line, as a progress bar does.
const LONGEST_TEXT: usize = 64 << 10;
/// The same of a line with an event, which has all that was recorded since the last one.
const LONGEST_EVENT: usize = 1 << 30;

/// News of a process, with its index.
pub(super) enum News {
    Told(usize, Event),
    /// It is gone, and all its events have been received.
    Exited(usize, Exit),
}

/// The signals of a process that ends by its own defect: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE
/// and SIGSEGV. Started again it would end so again.
const OF_A_DEFECT: [i32; 6] = [4, 5, 6, 7, 8, 11];

const SIGTERM: i32 = 15;

/// The exit codes of a process that has done what it was asked to.
const IN_GOOD_ORDER: [i32; 3] =
    [ExitCode::Done as i32, ExitCode::Interrupted as i32, ExitCode::Terminated as i32];

/// How a process ended.
pub(super) enum Exit {
    Code(i32),
    Signal(i32),
    /// It was killed after it had given no sign of life for so long.
    Silent(Duration),
    /// It was killed because it still ran so long after it was asked to stop.
    Overdue(Duration),
    /// The chief, in a later life, has found the training ended, and no life has reported it.
    Unreported,
    /// The chief has ended well, and has told of no training, which others wait for.
    Idle,
    Unknown(io::Error),
}

impl Exit {
    /// Whether it ended because it lost another task.
    pub(super) fn is_loss_of_another(&self) -> bool {
        matches!(self, Self::Code(code) if *code == ExitCode::PeersLost as i32)
    }

    /// Whether a process may end so, and is to be started again, since it or another was asked to
    /// stop: by its exit code, or by SIGTERM, which ends one that does not listen yet.
    pub(super) fn ends_by_a_request(&self) -> bool {
        match self {
            Self::Code(code) => ExitCode::asks_for_restart(*code),
            Self::Signal(signal) => *signal == SIGTERM,
            _ => false,
        }
    }

    /// Whether it may have ended because all others had.
    pub(super) fn has_missed_the_end(&self) -> bool {
        let is_unanswered =
            matches!(self, Self::Code(code) if *code == ExitCode::Unanswered as i32);
        is_unanswered || self.is_loss_of_another()
    }

    /// Whether a process may end so because it, or another, was asked to stop.
    pub(super) fn is_of_a_stop(&self) -> bool {
        let is_in_order = matches!(self, Self::Code(code) if IN_GOOD_ORDER.contains(code));
        is_in_order || self.has_missed_the_end()
    }

    /// The exit code of the whole cluster.
    pub(super) fn meaning(&self) -> ExitCode {
        match self {
            Self::Signal(signal) if OF_A_DEFECT.contains(signal) => ExitCode::Internal,
            Self::Signal(_) | Self::Silent(_) | Self::Overdue(_) | Self::Unreported => {
                ExitCode::PeersLost
            }
            Self::Idle => ExitCode::Usage,
            Self::Code(code) => match ExitCode::of(*code) {
                Some(ExitCode::Interrupted | ExitCode::Terminated) => ExitCode::PeersLost,
                Some(known) if known.is_of_tasks() => known,
                _ => ExitCode::Internal,
            },
            Self::Unknown(_) => ExitCode::Internal,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "it ended with exit code {code}"),
            Self::Signal(signal) => write!(f, "it was killed by signal {signal}"),
            Self::Silent(silence) => write!(
                f,
                "it was killed after it had given no sign of life for {silence:.0?}: it stood still"
            ),
            Self::Overdue(time) => {
                write!(f, "it still ran {time:.0?} after it was asked to stop, and was killed")
            }
            Self::Unreported => f.write_str(
                "it was lost after its last checkpoint, before it had reported the training; the \
                 same command reports it",
            ),
            Self::Idle => f.write_str(
                "the chief's program has ended, and told of no training, which the others wait \
                 for: open a `MonitoredSession` there",
            ),
            Self::Unknown(error) => write!(f, "it can't be waited for: {error}"),
        }
    }
}

impl From<io::Result<ExitStatus>> for Exit {
    fn from(status: io::Result<ExitStatus>) -> Self {
        match status {
            Ok(status) => match status.code() {
                Some(code) => Self::Code(code),
                None => Self::Signal(status.signal().unwrap_or(0)),
            },
            Err(error) => Self::Unknown(error),
        }
    }
}

/// The process that news come from, and the channel that they go to.
pub(super) struct NewsSender {
    pub(super) index: usize,
    pub(super) sender: mpsc::UnboundedSender<News>,
}

impl NewsSender {
    fn send(&self, news: News) {
        if self.sender.send(news).is_err() {
            tracing::debug!("nobody follows the tasks any more");
        }
    }
}

/// Listens to a process. Dropping the first returned value asks the process to stop; dropping the
/// second kills it.
pub(super) fn listen(
    news: NewsSender,
    member: Member,
    log: &Path,
) -> (OwnedWriteHalf, oneshot::Sender<()>) {
    let Member { task, child, way } = member;
    let (read, write) = way.into_split();
    let log = OpenOptions::new().append(true).open(log);
    let log = log
        .inspect_err(|error| tracing::warn!(%task, %error, "what the program prints is lost"))
        .ok();
    let (kill, killed) = oneshot::channel();
    tokio::spawn(async move {
        let mut hearing = tokio::spawn(hear(
            read,
            log,
            NewsSender { index: news.index, sender: news.sender.clone() },
        ));
        let exit = wait(child, killed).await;
        // All output of the exited process has arrived. A child that inherited its stdout may keep
        // it open for long, so the wait is limited.
        match timeout(LAST_WORDS, &mut hearing).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%task, %error, "not all that the task told was heard"),
            Err(_) => {
                tracing::warn!(%task, "it has ended, but not all processes that it started");
                hearing.abort();
            }
        }
        news.send(News::Exited(news.index, exit));
    });
    (write, kill)
}

/// Waits for the process's end; kills it when `killed` resolves or its sender is dropped.
async fn wait(mut child: Child, killed: oneshot::Receiver<()>) -> Exit {
    let exited = match select(pin!(child.wait()), killed).await {
        Either::Left((status, _)) => Some(status),
        Either::Right(_) => None,
    };
    match exited {
        Some(status) => status.into(),
        None => {
            // Those that it has started, too, as long as its number can't be another's.
            child.id().into_iter().for_each(kill_group);
            child.kill().await.map_or_else(Exit::Unknown, |()| Exit::Signal(9))
        }
    }
}

/// Reads the process's lines until it has closed its end.
async fn hear(way: OwnedReadHalf, mut log: Option<File>, news: NewsSender) {
    let (mut line, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        let read = match way.readable().await.and_then(|()| way.try_read(&mut chunk)) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => break tracing::debug!(%error, "a task can't be heard any more"),
        };
        for piece in chunk[..read].split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if line.ends_with(b"\n") || is_too_long(&line) {
                take(&line, log.as_mut(), &news);
                line.clear();
            }
        }
    }
    take(&line, log.as_mut(), &news);
}

/// Whether `line`, which goes on, is not to be kept any longer.
fn is_too_long(line: &[u8]) -> bool {
    let is_event = line.len() >= LONGEST_TEXT && control::has_event(line);
    line.len() >= if is_event { LONGEST_EVENT } else { LONGEST_TEXT }
}

fn take(line: &[u8], log: Option<&mut File>, news: &NewsSender) {
    match control::parse(line) {
        Ok(event) => news.send(News::Told(news.index, event)),
        Err(printed) if printed.trim_ascii().is_empty() => {}
        Err(printed) => {
            if let Some(Err(error)) = log.map(|log| log.write_all(printed)) {
                tracing::warn!(%error, "what the program printed is lost");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream as StdUnixStream;
    use std::path::PathBuf;

    use tokio::net::UnixStream;
    use tokio::process::Command;

    use super::*;
    use crate::cluster::TaskName;

    const LIMIT: Duration = Duration::from_secs(20);

    fn on_tokio(test: impl Future<Output = ()>) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap().block_on(test);
    }

    /// An empty log of one test.
    fn log(test: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("trainyard-{}-{test}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        path
    }

    #[test]
    fn a_task_is_gone_though_a_process_that_it_has_started_still_has_its_output() {
        on_tokio(async {
            let (ours, theirs) = StdUnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let way = UnixStream::from_std(ours).unwrap();
            let mut command = Command::new("sh");
            command
                .args(["-c", "sleep 40 & echo last words; exit 3"])
                .stdout(OwnedFd::from(theirs));
            let child = command.spawn().unwrap();
            drop(command); // with its end of the connection
            let (sender, mut news) = mpsc::unbounded_channel();
            let (log, task) = (log("left_behind"), TaskName::new("ps", 0));
            let member = Member { task, child, way };
            let (_way, _kill) = listen(NewsSender { index: 0, sender }, member, &log);
            let exit = timeout(LIMIT, news.recv()).await.expect("it hangs");
            assert!(matches!(exit, Some(News::Exited(0, Exit::Code(3)))));
            assert_eq!(std::fs::read_to_string(&log).unwrap(), "last words\n");
            std::fs::remove_file(log).unwrap();
        });
    }

    #[test]
    fn a_line_that_does_not_end_goes_to_the_log_piece_by_piece() {
        on_tokio(async {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let (sender, _news) = mpsc::unbounded_channel();
            let log = log("no_newline");
            let file = OpenOptions::new().append(true).open(&log).unwrap();
            let (read, _write) = ours.into_split();
            tokio::spawn(hear(read, Some(file), NewsSender { index: 0, sender }));
            let printed = b"50 %\r".repeat(LONGEST_TEXT / 4);
            tokio::io::AsyncWriteExt::write_all(&mut theirs, &printed).await.unwrap();
            let is_written = async {
                while std::fs::metadata(&log).unwrap().len() < LONGEST_TEXT as u64 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            timeout(LIMIT, is_written).await.expect("it is kept in memory");
            std::fs::remove_file(log).unwrap();
        });
    }

    #[test]
    fn an_event_may_be_longer_than_what_a_program_prints() {
        let text = vec![b'.'; LONGEST_TEXT];
        assert!(is_too_long(&text) && !is_too_long(&text[1..]));
        assert!(!is_too_long(&[b"\n\x1e", &text[..]].concat()));
    }
}
