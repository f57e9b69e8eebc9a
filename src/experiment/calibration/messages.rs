//! The cost of messages on this machine: two ends over QUIC on loopback, each on its own thread.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, UdpSocket};
use std::num::NonZeroU32;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::median;
use crate::clock::{Clock, WallClock};
use crate::cluster::{ClusterSpec, TaskName};
use crate::deployment::{DeploymentError, block_on};
use crate::experiment::parallel::joined;
use crate::tensor::{DType, Tensor};
use crate::transport::{
    Authority, Inbox, Loss, Messages, Payload, PeerId, Polling, Quic, QuicConfig, RunId, Transport,
};
use crate::units::Bytes;

/// The sizes of the tensors that are sent \[bytes\], each with the number of round trips.
const SIZES: [(usize, u32); 5] =
    [(0, 3000), (16 << 10, 1500), (128 << 10, 300), (1 << 20, 60), (4 << 20, 20)];

/// The measured round trips of one size: there with a tensor, back without.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip {
    /// The size of the tensor \[bytes\].
    pub(super) size: usize,
    /// The median time \[s\].
    pub(super) seconds: f64,
    /// The processor time of the end that sends the tensor \[s\].
    pub(super) sender: f64,
    /// The processor time of the end that receives it \[s\].
    pub(super) receiver: f64,
}

/// The same of what lanes carry, and of what tells them from the rest of a round trip.
const LARGE: [(usize, u32); 2] = [(0, 500), (16 << 20, 20)];

/// What the two ends send each other.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Note {
    /// Asks for the processor time of the other end.
    asks: bool,
    /// The processor time of this end \[ns\].
    used: u64,
    tensor: Option<Tensor>,
}

impl Payload for Note {
    fn wire_size(&self) -> Bytes {
        Bytes(self.tensor.as_ref().map_or(0, |tensor| tensor.byte_len() as u64))
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Sends an answer to every note, without its tensor.
struct Echo(RefCell<Option<Rc<Quic<Note>>>>);

impl Inbox<Note> for Echo {
    fn deliver(&self, from: PeerId, notes: Messages<Note>) {
        let used = if notes.iter().any(|note| note.asks) { processor_time() } else { 0 };
        if let Some(end) = &*self.0.borrow() {
            end.send(from, vec![Note { asks: false, used, tensor: None }]);
        }
    }

    fn lost(&self, _: PeerId, _: Loss) {}

    fn broken(&self, panic: &(dyn Any + Send)) {
        tracing::error!(?panic, "the transport of the answering end has panicked");
    }
}

/// Keeps the last answer, and wakes the one that waits for it.
#[derive(Default)]
struct Answers {
    count: Cell<u64>,
    used: Cell<u64>,
    more: tokio::sync::Notify,
}

impl Answers {
    /// Has whoever waits go on, and say that the other end is lost.
    fn give_up(&self) {
        self.count.set(u64::MAX);
        self.more.notify_one();
    }
}

impl Inbox<Note> for Answers {
    fn deliver(&self, _: PeerId, notes: Messages<Note>) {
        self.count.set(self.count.get() + notes.len() as u64);
        self.used.set(notes.last().map_or(0, |note| note.used));
        self.more.notify_one();
    }

    fn lost(&self, _: PeerId, _: Loss) {
        self.give_up();
    }

    fn broken(&self, _: &(dyn Any + Send)) {
        self.give_up();
    }
}

/// The speed of so many lanes with a large tensor, as a multiple of a message thread's.
///
/// # Errors
/// As [`round_trips`].
pub(super) fn speed_up_of_lanes(threads: NonZeroU32) -> Result<f64, DeploymentError> {
    let carrying = |lanes: usize| -> Result<f64, DeploymentError> {
        let trips = trips(Polling::PATIENCE, lanes, &LARGE)?;
        Ok((trips[1].seconds - trips[0].seconds).max(1e-6))
    };
    Ok((carrying(0)? / carrying(threads.get() as usize)?).clamp(0.1, 100.0))
}

/// Round trips of all sizes; the ends poll for messages as deployed tasks do, or sleep.
///
/// # Errors
/// If the system refuses sockets or threads, or the ends lose each other.
pub(super) fn round_trips(polls: bool) -> Result<Vec<RoundTrip>, DeploymentError> {
    let fewer = SIZES.map(|(size, count)| (size, count / 4));
    match polls {
        true => trips(Polling::PATIENCE, 0, &SIZES),
        false => trips(Duration::ZERO, 0, &fewer),
    }
}

/// Round trips of `sizes` between ends that have so many lanes and poll for `patience`.
fn trips(
    patience: Duration,
    lanes: usize,
    sizes: &[(usize, u32)],
) -> Result<Vec<RoundTrip>, DeploymentError> {
    let (one, other) = ends(lanes)?;
    let sizes = sizes.to_vec();
    let (stop, stopped) = oneshot::channel::<()>();
    let answering = on_a_thread("answering", patience, async move || {
        let end = Quic::<Note>::bind(other).await?;
        let echo = Rc::new(Echo(RefCell::new(Some(Rc::clone(&end)))));
        end.listen(Rc::clone(&echo) as Rc<dyn Inbox<Note>>);
        let _asked_or_given_up = stopped.await;
        echo.0.take();
        end.shut_down(Duration::from_secs(1)).await;
        Ok(())
    })?;
    let asking = on_a_thread("asking", patience, async move || {
        let end = Quic::<Note>::bind(one).await?;
        let answers = Rc::new(Answers::default());
        end.listen(Rc::clone(&answers) as Rc<dyn Inbox<Note>>);
        let mut trips = Vec::new();
        for (size, count) in sizes {
            let tensor = (size > 0).then(|| Tensor::zeros(DType::F32, [size / 4]));
            trips.push(measure(&end, &answers, tensor, count).await?);
        }
        end.shut_down(Duration::from_secs(1)).await;
        Ok(trips)
    })?;
    let trips = joined(asking.join());
    drop(stop);
    joined(answering.join())?;
    trips
}

/// `count` round trips with `tensor`, after some that warm up.
async fn measure(
    end: &Rc<Quic<Note>>,
    answers: &Answers,
    tensor: Option<Tensor>,
    count: u32,
) -> Result<RoundTrip, DeploymentError> {
    let size = tensor.as_ref().map_or(0, Tensor::byte_len);
    let trip = async |asks: bool| {
        let before = answers.count.get();
        let tensor = if asks { None } else { tensor.clone() };
        end.send(PeerId(0), vec![Note { asks, used: 0, tensor }]);
        while answers.count.get() == before {
            answers.more.notified().await;
        }
        if answers.count.get() == u64::MAX {
            return Err(lost());
        }
        Ok(answers.used.get())
    };
    for _ in 0..count / 10 + 3 {
        trip(false).await?;
    }
    let clock = WallClock::new();
    let (began, other_began) = (processor_time(), trip(true).await?);
    let mut times = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let before = clock.now();
        trip(false).await?;
        times.push(clock.now().since(before).as_secs_f64());
    }
    let (ended, other_ended) = (processor_time(), trip(true).await?);
    let each = |began: u64, ended: u64| (ended - began) as f64 * 1e-9 / f64::from(count);
    Ok(RoundTrip {
        size,
        seconds: median(&mut times).expect("there are round trips of each size"),
        sender: each(began, ended),
        receiver: each(other_began, other_ended),
    })
}

/// The configurations of two ends with so many lanes: a parameter server's, and a worker's.
fn ends(lanes: usize) -> Result<(QuicConfig, QuicConfig), DeploymentError> {
    let bind = || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let bound = socket.and_then(|socket| Ok((socket.local_addr()?.to_string(), socket)));
        bound.map_err(DeploymentError::system("open a socket"))
    };
    let ((ps, of_ps), (worker, of_worker)) = (bind()?, bind()?);
    let cluster = ClusterSpec::dense([("ps", [ps]), ("worker", [worker])])
        .expect("two tasks at addresses of their own are a cluster");
    let authority = Authority::new("calibration")?;
    let config = |job: &str, socket| {
        let task = TaskName::new(job, 0);
        let identity = authority.issue(&task, &[Ipv4Addr::LOCALHOST.to_string()])?;
        let run = RunId::new("calibration");
        let config = QuicConfig::new(cluster.clone(), task, run, identity);
        Ok::<_, DeploymentError>(QuicConfig { socket: Some(socket), lanes, ..config })
    };
    Ok((config("worker", of_worker)?, config("ps", of_ps)?))
}

type Ended<T> = thread::JoinHandle<Result<T, DeploymentError>>;

/// Runs `program` on a thread of its own, as a deployed task is run.
fn on_a_thread<T, F>(
    name: &str,
    patience: Duration,
    program: impl FnOnce() -> F + Send + 'static,
) -> Result<Ended<T>, DeploymentError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, DeploymentError>>,
{
    let run = move || block_on(patience, program())?;
    let named = thread::Builder::new().name(name.to_owned());
    named.spawn(run).map_err(DeploymentError::system("start a thread"))
}

fn lost() -> DeploymentError {
    let error = std::io::Error::new(std::io::ErrorKind::TimedOut, "the two ends lost each other");
    DeploymentError::system("send messages over loopback")(error)
}

/// The time that this thread has run on a core \[ns\]; 0 where the system does not say.
fn processor_time() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    told.split(' ').next().and_then(|time| time.parse().ok()).unwrap_or(0)
}
