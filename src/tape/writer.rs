//! The writer of a tape: stands between a task's transport and its actors, and writes what passes.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};

use super::TapeError;
use super::entry::{self, Event};
use super::file::{Header, TAPE, beginning, frame};
use super::name::Masters;
use super::tapes::{EXTENSION, files};
use crate::clock::Clock;
use crate::cluster::TaskName;
use crate::runtime::{Gate, PeerMessage, Processor, Server, messages_sent};
use crate::transport::{Inbox, Loss, Messages, PeerId, Peers, Transport};
use crate::units::Time;

/// A task counts as idle after this many rounds of all others' turns with nothing to do: its
/// program may need some turns until it sends something.
const QUIET: u32 = 3;

/// Writes the tape of a task.
#[derive(Clone)]
pub struct TapeWriter(Rc<Inner>);

struct Inner {
    clock: Rc<dyn Clock>,
    tasks: Vec<TaskName>,
    path: PathBuf,
    state: RefCell<State>,
    /// The task's actors, once they listen.
    inbox: RefCell<Option<Rc<dyn Inbox<PeerMessage>>>>,
    /// Says whether they are idle; weak, since it holds the transport that holds this.
    server: RefCell<Weak<Server>>,
    /// What has arrived and has yet to be handed over.
    arrived: RefCell<VecDeque<Arrival>>,
    is_handing_over: Cell<bool>,
}

/// Something that has reached a task from outside. A peer's number is its number in the tape.
enum Arrival {
    Envelope { from: PeerId, number: Option<u32>, messages: Messages<PeerMessage> },
    Loss { peer: PeerId, number: Option<u32>, loss: Loss },
    Computed { device: u32, done: Box<dyn FnOnce()> },
}

struct State {
    /// None once it could not be written to.
    file: Option<File>,
    /// The length of the file \[bytes\].
    length: u64,
    /// Why it could not be.
    failure: Option<io::Error>,
    masters: Masters,
    /// The time of the last entry.
    last: Time,
    /// Empty between uses, kept for their storage.
    payload: Vec<u8>,
    frame: Vec<u8>,
}

impl TapeWriter {
    /// Begins a tape in `folder`, for this life of the task of `header`.
    ///
    /// # Errors
    /// If it can't be written.
    pub(crate) fn create(
        folder: &Path,
        header: &Header,
        clock: Rc<dyn Clock>,
    ) -> Result<Self, TapeError> {
        let failed = |path: &Path| TapeError::system(format!("write {}", path.display()));
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let (path, mut file) = new_file(folder, &header.task).map_err(failed(folder))?;
        let begun = beginning(header);
        file.write_all(&begun).map_err(failed(&path))?;
        let (file, length) = (Some(file), begun.len() as u64);
        let (masters, last) = (Masters::default(), Time::ZERO);
        let (payload, frame) = (Vec::new(), Vec::new());
        let state = State { file, length, failure: None, masters, last, payload, frame };
        let state = RefCell::new(state);
        Ok(Self(Rc::new(Inner {
            clock,
            tasks: header.tasks.clone(),
            path,
            state,
            inbox: RefCell::default(),
            server: RefCell::default(),
            arrived: RefCell::default(),
            is_handing_over: Cell::new(false),
        })))
    }

    /// Checks that `folder` has no tapes yet.
    ///
    /// # Errors
    /// If it has, or can't be read.
    pub(crate) fn check_is_new(folder: &Path) -> Result<(), TapeError> {
        let there = if folder.exists() { files(folder)? } else { Vec::new() };
        match there.is_empty() {
            true => Ok(()),
            false => Err(TapeError::Taken { folder: folder.display().to_string() }),
        }
    }

    /// `transport`, with what it delivers written to the tape first.
    pub(crate) fn over(
        &self,
        transport: Rc<dyn Transport<PeerMessage>>,
    ) -> Rc<dyn Transport<PeerMessage>> {
        Rc::new(Recorded { writer: self.clone(), transport })
    }

    /// Waits for the actors of `server`, the task's, before it hands them anything.
    pub(crate) fn wait_for(&self, server: &Rc<Server>) {
        self.0.server.replace(Rc::downgrade(server));
    }

    /// A device of the task, whose large kernels end in turn with what the task receives.
    pub(crate) fn gated(&self, device: u32) -> Processor {
        Processor::gated(device, Rc::new(self.clone()))
    }

    /// Writes that the task has ended, with the digest of its weights or an error.
    pub(crate) fn end(&self, weights: Option<u64>, error: Option<String>) {
        self.write(&Event::Ended { weights, error });
    }

    /// Which tape has no end, and why, if it could not be written.
    pub(crate) fn cut(&self) -> Option<String> {
        let state = self.0.state.borrow();
        let (error, tape) = (state.failure.as_ref()?, self.0.path.display());
        Some(format!("the tape {tape} has no end, and can't be replayed: {error}"))
    }

    /// The number of a task in the tape.
    fn number(&self, name: &TaskName) -> Option<u32> {
        self.0.tasks.iter().position(|task| task == name).map(|number| number as u32)
    }

    fn received(&self, from: u32, messages: &[PeerMessage]) {
        let mut state = self.0.state.borrow_mut();
        let named = |message: &PeerMessage| {
            let name = state.masters.name(from, message);
            state.masters.meet(from, message);
            name
        };
        let messages = messages.iter().map(named).collect();
        drop(state);
        self.write(&Event::Received { from, messages });
    }

    /// Takes what has reached the task. The actors get it once they have dealt with all before it:
    /// else what comes of two envelopes would depend on how near they were.
    fn arrive(&self, arrival: Arrival) {
        self.0.arrived.borrow_mut().push_back(arrival);
        if !self.0.is_handing_over.replace(true) {
            tokio::task::spawn_local(self.clone().hand_over_all());
        }
    }

    async fn hand_over_all(self) {
        loop {
            self.settle().await;
            let inbox = self.0.inbox.borrow().clone();
            let next = self.0.arrived.borrow_mut().pop_front();
            let Some(arrival) = next else { break };
            self.hand_over(arrival, inbox.as_deref());
        }
        self.0.is_handing_over.set(false);
    }

    /// Waits until neither the actors nor the program of the task have anything to do.
    async fn settle(&self) {
        let (mut quiet, mut before) = (0, messages_sent());
        while quiet < QUIET {
            tokio::task::yield_now().await;
            let (now, server) = (messages_sent(), self.0.server.borrow().upgrade());
            let is_idle = now == before && server.is_none_or(|server| server.is_idle());
            quiet = if is_idle { quiet + 1 } else { 0 };
            before = now;
        }
    }

    /// Writes down what has arrived, then hands it to the actors.
    fn hand_over(&self, arrival: Arrival, inbox: Option<&dyn Inbox<PeerMessage>>) {
        match arrival {
            Arrival::Envelope { from, number, messages } => {
                number.into_iter().for_each(|number| self.received(number, &messages));
                if let Some(inbox) = inbox {
                    inbox.deliver(from, messages);
                }
            }
            Arrival::Loss { peer, number, loss } => {
                let event = number.map(|peer| Event::Lost { peer, loss });
                event.iter().for_each(|event| self.write(event));
                if let Some(inbox) = inbox {
                    inbox.lost(peer, loss);
                }
            }
            Arrival::Computed { device, done } => {
                self.write(&Event::Computed { device });
                done();
            }
        }
    }

    /// Writes an entry by one call of the system, so that it is whole even if the process is killed
    /// right after.
    fn write(&self, event: &Event) {
        let State { file, length, failure, last, payload, frame: framed, .. } =
            &mut *self.0.state.borrow_mut();
        let Some(open) = file else { return };
        let now = self.0.clock.now();
        payload.clear();
        framed.clear();
        entry::encode(now.0 - last.0, event, payload);
        frame(payload, framed);
        *last = now;
        *length += framed.len() as u64;
        let written = match *length > TAPE {
            true => {
                Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is as long as a tape can be"))
            }
            false => open.write_all(framed),
        };
        if let Err(error) = written {
            let tape = self.0.path.display();
            tracing::error!(%tape, %error, "the tape ends here: it can't be written");
            (*file, *failure) = (None, Some(error));
        }
    }
}

impl fmt::Debug for TapeWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the tape writer of {}", self.0.path.display())
    }
}

/// A file for the next life of `task`, and its path.
fn new_file(folder: &Path, task: &TaskName) -> io::Result<(PathBuf, File)> {
    for life in 0.. {
        let name = format!("{}-{}.{life}.{EXTENSION}", task.job(), task.index());
        let path = folder.join(name);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (path, file)),
        }
    }
    unreachable!("a task has fewer lives than there are numbers")
}

/// A transport whose deliveries are recorded.
struct Recorded {
    writer: TapeWriter,
    transport: Rc<dyn Transport<PeerMessage>>,
}

impl Transport<PeerMessage> for Recorded {
    fn peers(&self) -> &dyn Peers {
        self.transport.peers()
    }

    fn send(&self, to: PeerId, messages: Messages<PeerMessage>) {
        self.transport.send(to, messages);
    }

    fn listen(&self, inbox: Rc<dyn Inbox<PeerMessage>>) {
        self.writer.0.inbox.replace(Some(inbox));
        let (writer, transport) = (self.writer.clone(), Rc::downgrade(&self.transport));
        self.transport.listen(Rc::new(RecordedInbox { writer, transport }));
    }

    fn close(&self) {
        self.transport.close();
    }
}

/// Writes each message that arrives to the tape, and hands it to the task's actors.
struct RecordedInbox {
    writer: TapeWriter,
    transport: Weak<dyn Transport<PeerMessage>>,
}

impl RecordedInbox {
    /// The number of a peer in the tape; none of one that is no task of the cluster, such as a
    /// client that asks for the task's status.
    fn number(&self, peer: PeerId) -> Option<u32> {
        self.writer.number(&self.transport.upgrade()?.peers().name(peer))
    }
}

impl Inbox<PeerMessage> for RecordedInbox {
    fn deliver(&self, from: PeerId, messages: Messages<PeerMessage>) {
        self.writer.arrive(Arrival::Envelope { from, number: self.number(from), messages });
    }

    fn lost(&self, peer: PeerId, loss: Loss) {
        self.writer.arrive(Arrival::Loss { peer, number: self.number(peer), loss });
    }

    fn broken(&self, panic: &(dyn Any + Send)) {
        let inbox = self.writer.0.inbox.borrow().clone();
        inbox.iter().for_each(|inbox| inbox.broken(panic));
    }
}

impl Gate for TapeWriter {
    fn pass(&self, device: u32, done: Box<dyn FnOnce()>) {
        self.arrive(Arrival::Computed { device, done });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::WallClock;

    #[test]
    fn a_tape_that_would_be_too_long_to_be_read_ends_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let task = TaskName::new("ps", 0);
        let header = Header {
            scenario: String::new(),
            run: String::new(),
            how: String::new(),
            seed: 0,
            program: 0,
            tasks: vec![task.clone()],
            task,
            began: 0,
        };
        let clock = Rc::new(WallClock::new());
        let writer = TapeWriter::create(folder.path(), &header, clock).unwrap();
        writer.end(None, None);
        assert_eq!(writer.cut(), None);
        writer.0.state.borrow_mut().length = TAPE;
        writer.end(None, None);
        let cut = writer.cut().unwrap();
        assert!(cut.contains("as long as a tape can be"), "{cut}");
    }
}
