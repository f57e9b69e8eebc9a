//! The events that a task sends to the launcher that started it, as lines of JSON.
//!
//! A launched task has its listening socket as stdin, and one end of a pair of sockets as stdout.
//! The launcher has sent the task's certificate and key on it, which are never in a file. A line
//! with an event begins with a sign that no text has; all other lines are output of the user's
//! program. When the launcher closes its end, as it does when it dies, the task is asked to stop.

mod packed;
mod teller;

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cluster::TaskName;
use crate::deployment::DeploymentError;
use crate::live::{Board, Snapshot};
use crate::runtime::{Error, Traffic};
use crate::training::{Fact, SharedRecording};
use crate::transport::Identity;

use teller::Teller;

/// The "record separator" of ASCII; JSON never contains it unescaped.
const SIGN: u8 = 0x1e;
/// The time limit of the identity, which is there before the task starts.
const PATIENCE: Duration = Duration::from_secs(5);
/// The greatest length of an identity's texts \[bytes\].
const MAX_IDENTITY: u64 = 1 << 16;
/// The time between two tellings of the task's numbers.
const SHOW_EVERY: Duration = Duration::from_millis(500);
/// The time between two tellings of what the task has recorded.
pub(super) const RECORD_EVERY: Duration = Duration::from_millis(100);
/// The time between two signs of life.
pub(crate) const BEAT_EVERY: Duration = Duration::from_secs(1);

/// An event of a task.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    /// The task has started, and its clock shows `now` \[ns\] at the machine's date `date` \[ns\].
    Hello { now: u64, date: u64 },
    /// The task's actors run.
    Alive,
    /// The task's numbers so far, if the launcher shows them.
    Shown(Box<Snapshot>),
    /// What the task has recorded since it last told, and what it has sent since it started.
    Recorded {
        #[serde(with = "packed")]
        facts: Vec<Fact>,
        sent: Traffic,
    },
    /// The task has told all, and ends `now` \[ns\]; `error` is that of its program, if it failed.
    Ended { now: u64, error: Option<Error> },
}

/// The connection to the launcher. It may stand still, as after Ctrl-Z: what is told now and then
/// waits then until it has read what it was told before, and the task goes on.
#[derive(Clone)]
pub(crate) struct Control {
    stream: Rc<UnixStream>,
    teller: Teller,
}

impl Control {
    /// The listening socket and the connection to the launcher, taken from stdin and stdout, and
    /// the identity that came on it.
    ///
    /// # Errors
    /// If this process was not started by `launch`.
    pub(crate) fn take() -> Result<(UdpSocket, Identity, Self), DeploymentError> {
        let failed =
            || DeploymentError::system("talk to the launcher; --launched is for `launch` alone");
        let socket = UdpSocket::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed())?);
        socket.local_addr().map_err(failed())?;
        let stream = UnixStream::from(io::stdout().as_fd().try_clone_to_owned().map_err(failed())?);
        stream.peer_addr().map_err(failed())?;
        let texts = received(&stream).map_err(failed())?;
        let identity = Identity::of_texts(texts, Path::new("the launcher's certificate"))?;
        Ok((socket, identity, Self::over(stream).map_err(failed())?))
    }

    fn over(stream: UnixStream) -> io::Result<Self> {
        let teller = Teller::start(stream.try_clone()?)?;
        Ok(Self { stream: Rc::new(stream), teller })
    }

    /// Gives signs of life for as long as the actors' thread, on which this runs, is not stuck.
    pub(crate) async fn beat(self) {
        loop {
            tokio::time::sleep(BEAT_EVERY).await;
            if !self.teller.is_behind() {
                self.tell(&Event::Alive);
            }
        }
    }

    /// Tells the launcher now and then what `board` shows of `task`.
    pub(crate) async fn show(self, board: Arc<Board>, task: TaskName) {
        loop {
            tokio::time::sleep(SHOW_EVERY).await;
            if !self.teller.is_behind() {
                self.show_once(&board, &task);
            }
        }
    }

    /// Tells the launcher what `board` shows of `task`.
    pub(crate) fn show_once(&self, board: &Board, task: &TaskName) {
        if let Some(snapshot) = board.snapshot(task) {
            self.tell(&Event::Shown(Box::new(snapshot)));
        }
    }

    /// Tells the launcher now and then what the task has `sent`, and what is new in `recording`.
    /// The task forgets the steps that it has told. While the launcher does not read, nothing is
    /// told and nothing is forgotten.
    pub(crate) async fn record(self, recording: SharedRecording, sent: Rc<Cell<Traffic>>) {
        let mut told = Traffic::default();
        loop {
            tokio::time::sleep(RECORD_EVERY).await;
            if self.teller.is_behind() {
                continue;
            }
            let (facts, sent) = (recording.take_unsent(), sent.get());
            if !facts.is_empty() || sent != told {
                self.tell(&Event::Recorded { facts, sent });
                told = sent;
            }
        }
    }

    /// Another handle to the stream, on which the launcher's end can be noticed.
    pub(crate) fn stream(&self) -> Result<UnixStream, DeploymentError> {
        self.stream.try_clone().map_err(DeploymentError::system("talk to the launcher"))
    }

    /// Sends `event` to the launcher, without waiting until it is there.
    pub(crate) fn tell(&self, event: &Event) {
        match line(event) {
            Ok(line) => self.teller.write(line),
            Err(error) => tracing::debug!(%error, "the launcher is not told all"),
        }
    }

    /// Sends `event` to the launcher, and waits until that and all before are there.
    pub(crate) fn tell_and_wait(&self, event: &Event) {
        self.tell(event);
        self.teller.flush();
    }
}

/// Sends a task its `identity`, on the launcher's end of the connection to it.
pub(crate) fn hand_over(identity: Identity, mut stream: &UnixStream) -> io::Result<()> {
    let mut line = serde_json::to_vec(&identity.into_texts())?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// The texts of the identity that the launcher has sent.
fn received(stream: &UnixStream) -> io::Result<[String; 3]> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = Vec::new();
    BufReader::new(stream.take(MAX_IDENTITY)).read_until(b'\n', &mut line)?;
    stream.set_read_timeout(None)?;
    Ok(serde_json::from_slice(&line)?)
}

/// Whether an event begins in `text`, which may not be a whole line.
pub(crate) fn has_event(text: &[u8]) -> bool {
    text.contains(&SIGN)
}

/// The event in the line `text`; `Err` with the line if the program printed it.
pub(crate) fn parse(text: &[u8]) -> Result<Event, &[u8]> {
    let at = text.iter().position(|byte| *byte == SIGN).ok_or(text)?;
    serde_json::from_slice(&text[at + 1..]).map_err(|_| text)
}

fn line(event: &Event) -> io::Result<Vec<u8>> {
    let mut line = vec![b'\n', SIGN]; // what the program printed may lack the end of its line
    serde_json::to_writer(&mut line, event)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Code;
    use crate::training::{Beginning, BegunAnew, Ending, Evaluation, StepStats};
    use crate::units::Time;

    #[test]
    fn a_launched_task_gets_its_identity_on_its_connection() {
        let task = TaskName::new("ps", 0);
        let identity = crate::transport::Authority::new("run").unwrap().issue(&task, &[]).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        hand_over(identity.clone(), &ours).unwrap();
        assert_eq!(received(&theirs).unwrap(), identity.into_texts());
        drop(ours);
        assert!(received(&theirs).is_err(), "there is nothing more");
    }

    #[test]
    fn a_launcher_that_does_not_read_holds_up_no_task_and_reads_all_later() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let control = Control::over(theirs).unwrap();
        let events = 50_000; // more than the system keeps for one that does not read
        for now in 0..events {
            control.tell(&Event::Hello { now, date: 0 });
        }
        assert!(control.teller.is_behind());
        let reads = std::thread::spawn(move || {
            let lines = BufReader::new(ours).split(b'\n').map(Result::unwrap);
            let told = lines.filter(|line| !line.is_empty()).map(|line| match parse(&line) {
                Ok(Event::Hello { now, .. }) => now,
                other => panic!("{other:?}"),
            });
            told.eq(0..events)
        });
        control.teller.flush();
        assert!(!control.teller.is_behind());
        drop(control);
        assert!(reads.join().unwrap(), "all, in order");
    }

    #[test]
    fn an_event_is_told_from_what_the_program_prints() {
        let error = Some(Error::new(Code::VariablesLost, "`w`").on(&TaskName::new("ps", 0)));
        let written = line(&Event::Ended { now: 3, error: error.clone() }).unwrap();
        let lines: Vec<&[u8]> =
            written.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        let heard = parse(lines[0]);
        assert!(matches!(heard, Ok(Event::Ended { now: 3, error: heard }) if heard == error));
        assert!(parse(b"loss 0.3").is_err());
        assert!(parse(b"\x1e{}").is_err());
    }

    #[test]
    fn facts_arrive_as_they_were() {
        let (worker, at) = (TaskName::new("worker", 1), Time(30));
        let step = StepStats {
            computed: Some((Time(12), Time(15))),
            loss: Some(f32::NEG_INFINITY),
            ..StepStats::applied(1, (1, 2), (Time(10), Time(20)))
        };
        let facts = [
            Fact::Began(Beginning { parameters: 650, graph: vec![1, 2] }),
            Fact::Step(step),
            Fact::BegunAnew(BegunAnew { worker, count: 1, went_back: true }),
            Fact::Evaluated(Evaluation { global_step: 2, at, loss: f32::INFINITY, accuracy: 0.1 }),
            Fact::Ended(Ending { weights_digest: Some(u64::MAX) }),
        ];
        let sent = Traffic { total: 7, steps: 3 };
        let written = line(&Event::Recorded { facts: facts.to_vec(), sent }).unwrap();
        let Ok(Event::Recorded { facts: heard, .. }) = parse(&written) else {
            panic!("it is an event");
        };
        assert_eq!(heard, facts);
    }
}
