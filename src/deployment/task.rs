//! One task of a cluster in this process: its server, its program, its end.

use std::cell::Cell;
use std::future::Future;
use std::num::NonZeroU32;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::busy_poll;
use super::network::Message;
use super::seated::{Seated, take_seat};
use super::stop::StopRequest;
use super::{DeploymentError, ExitCode, Seat};
use crate::clock::{Clock, WallClock};
use crate::cluster::TaskName;
use crate::live::Board;
use crate::runtime::{
    self, Code, Encoding, Error, FLUSH, FLUSH_FAILED, STOP_GRACE, Server, Traffic, program_panicked,
};
use crate::say::say;
use crate::tape::TapeWriter;
use crate::transport::{Quic, Refused};
use crate::units::Time;

/// [`FLUSH`] for messages to those that are not connected, and were not of late, where the task was
/// asked to stop: time to connect to one that is there.
const FLUSH_ABSENT: Duration = Duration::from_secs(1);

/// A task that is to run in this process.
#[derive(Debug)]
pub struct Member {
    /// Its place in the cluster.
    pub seat: Seat,
    /// The encoding of the values of steps on the network.
    pub encoding: Encoding,
    /// The number of the task's devices, on this machine's one processor.
    pub devices: NonZeroU32,
    /// How long the task polls for messages before it sleeps.
    pub busy_poll: Duration,
    /// The task's clock.
    pub clock: WallClock,
    /// Writes the order in which it receives messages, if that is asked for.
    pub tape: Option<TapeWriter>,
    /// Shows its traffic and what it waits for, if somebody is to see them.
    pub board: Option<Arc<Board>>,
    /// Counts what it sends to other tasks.
    pub sent: Rc<Cell<Traffic>>,
}

/// The end of a task: its result, its time, and its network traffic.
#[derive(Debug)]
pub struct TaskOutcome<T> {
    /// The value that the program returned. None if it was asked to stop and did not return in
    /// time.
    pub result: runtime::Result<Option<T>>,
    /// The exit code of the request to stop, of this task or of a parameter server, if there was
    /// one. None if the program has come to the end of its training all the same.
    pub stopped: Option<ExitCode>,
    /// The time at the end, on the task's clock.
    pub ended: Time,
    /// The data sent to other tasks.
    pub sent: Traffic,
    /// What its program still waited for beside the other tasks, such as a disk.
    pub waits: Vec<String>,
}

impl Member {
    /// A member of `seat` with one device, which sends values as they are and sleeps when it has
    /// nothing to do.
    pub fn new(seat: Seat) -> Self {
        let (devices, busy_poll) = (NonZeroU32::MIN, Duration::ZERO);
        let (encoding, clock) = (Encoding::Exact, WallClock::new());
        let (tape, board, sent) = (None, None, Rc::default());
        Self { seat, encoding, devices, busy_poll, clock, tape, board, sent }
    }
}

/// Runs `program` as one task of a cluster, to its end or until it is asked to stop. After such a
/// request it has some seconds to end by itself.
///
/// # Errors
/// If the task can't take part in the cluster.
pub fn run<T, F>(
    member: Member,
    stop: StopRequest,
    program: impl FnOnce(Rc<Server>) -> F,
) -> Result<TaskOutcome<T>, DeploymentError>
where
    T: 'static,
    F: Future<Output = runtime::Result<T>> + 'static,
{
    busy_poll::block_on(member.busy_poll, attend(member, stop, program))?
}

async fn attend<T, F>(
    mut member: Member,
    mut stop: StopRequest,
    program: impl FnOnce(Rc<Server>) -> F,
) -> Result<TaskOutcome<T>, DeploymentError>
where
    T: 'static,
    F: Future<Output = runtime::Result<T>> + 'static,
{
    let Seated { quic, server } = take_seat(&mut member).await?;
    if member.seat.is_dynamic && server.task().is_parameter_server() {
        actix_rt::spawn(pass_on_the_end(Rc::clone(&server)));
    }
    let mut running = actix_rt::spawn(program(Rc::clone(&server)));
    let breaks = pin!(server.breaks());
    let ends = select(breaks, &mut running);
    let (result, stopped) = match select(ends, &mut stop).await {
        Either::Left((Either::Left((broken, _)), _)) => (Err(broken), None),
        Either::Left((Either::Right((joined, _)), _)) => {
            (joined.unwrap_or_else(panicked).map(Some), None)
        }
        Either::Right((code, _)) => (drain(&server, running).await, Some(code)),
    };
    let result = result.map_err(|error| server.broken().unwrap_or(error));
    let result = match result {
        Err(error) if error.code == Code::Unanswered => Err(with_refused(error, &quic).await),
        result => result,
    };
    // A request that came at the very end has stopped nothing.
    let is_done = matches!(result, Ok(Some(_))) && server.training().is_done();
    let stopped = match is_done {
        true => None,
        false => stopped.or_else(|| server.stopping().map(|peer| ended_by(&peer, server.task()))),
    };
    let ended = member.clock.now();
    let waits = server.waits().iter().map(ToString::to_string).collect();
    let is_whole = matches!(result, Ok(Some(_))) && server.has_met_others();
    let flush = if is_whole { FLUSH } else { FLUSH_FAILED };
    let absent = if stopped.is_some() { flush.min(FLUSH_ABSENT) } else { flush };
    if !quic.shut_down_within(flush, absent).await {
        tracing::debug!("not all of the last messages are known to have arrived");
    }
    server.stop();
    Ok(TaskOutcome { result, stopped, ended, sent: member.sent.get(), waits })
}

/// Has the program end by itself within the time limit. It is no error if the program does not
/// finish, nor what comes of it that it was interrupted.
async fn drain<T>(
    server: &Server,
    running: JoinHandle<runtime::Result<T>>,
) -> runtime::Result<Option<T>> {
    let task = server.task();
    say!("asked to stop: {task} ends its training");
    server.request_stop();
    match timeout(STOP_GRACE, running).await {
        Ok(Ok(Err(error))) if !error.code.may_be_of_a_stop() => return Err(error),
        Ok(Ok(Err(error))) => say!("{error}"),
        Ok(Ok(Ok(value))) => return Ok(Some(value)),
        Ok(Err(error)) => return panicked(error),
        Err(_) => {
            let waits: String = server.waits().iter().map(|wait| format!("; {wait}")).collect();
            say!("{task} did not end in {} s{waits}", STOP_GRACE.as_secs());
        }
    }
    Ok(None)
}

/// The `error` of a task that nobody has answered, with why another that came was refused, if one
/// was. The code is that of the refusal if that was a task of the cluster, or came from the address
/// of one: nobody else is to change how a task ends.
async fn with_refused(error: Error, quic: &Quic<Message>) -> Error {
    let (why, code) = match (quic.other_run(), quic.untrusted().await) {
        (Some(why), _) => (why, Refused::Run.into()),
        (None, Some((why, true))) => (why, Refused::Certificate.into()),
        (None, Some((why, false))) => (why, error.code),
        (None, None) => return error,
    };
    Error { code, message: format!("{}; {why}", error.message), ..error }
}

/// The exit code of a task whose training has ended because `peer` was asked to stop.
fn ended_by(peer: &TaskName, task: &TaskName) -> ExitCode {
    say!("{peer} was asked to stop, so {task} has ended; start both again to go on");
    ExitCode::PeersLost
}

/// Passes the end of the training on to tasks that the chief may not know.
async fn pass_on_the_end(server: Rc<Server>) {
    server.training().ended().await;
    server.pass_on_the_end();
}

/// The error of a program that panicked.
fn panicked<T>(error: tokio::task::JoinError) -> runtime::Result<T> {
    let panic = error.try_into_panic().expect("nobody cancels a task's program");
    Err(program_panicked(&*panic))
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::cluster::{ClusterSpec, RunConfig};
    use crate::runtime::ParameterServerMessage;
    use crate::sync::Leaving;
    use crate::transport::RunId;

    /// The request to stop of a task that is asked while it trains, and leaves as `why` says.
    fn stopped_of_a_task_that_leaves(why: Leaving) -> Option<ExitCode> {
        let config = RunConfig::from_tf_config(None).unwrap();
        let cluster = ClusterSpec::simulated([("worker", 1)]).unwrap();
        let seat = Seat::new(&config, cluster, None, RunId::new("asked")).unwrap();
        let (ask, asked) = oneshot::channel();
        let program = move |server: Rc<Server>| async move {
            ask.send(ExitCode::Terminated).unwrap();
            while !server.training().is_stop_requested() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let training = server.training().number();
            server.broadcast(&ParameterServerMessage::Leave { worker: 0, why, training });
            Ok(())
        };
        let ended = run(Member::new(seat), StopRequest::through(asked), program).unwrap();
        assert_eq!(ended.result, Ok(Some(())));
        ended.stopped
    }

    #[test]
    fn a_request_that_comes_at_the_very_end_stops_nothing() {
        let stopped = stopped_of_a_task_that_leaves;
        assert_eq!(stopped(Leaving::Stopped), Some(ExitCode::Terminated));
        assert_eq!(stopped(Leaving::Done), None);
    }
}
