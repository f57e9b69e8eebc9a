//! Requests to stop a process: SIGINT, SIGTERM, SIGHUP, or the end of its launcher.
//!
//! A thread of its own listens, so that a busy program is stopped as well. The first request is
//! passed on, for an end in good order. The second request, or the time limit for that end, ends
//! the process at once.

use std::future::Future;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::{ExitCode, folder};
use crate::deployment::DeploymentError;

/// The time after a request at which the process is ended, if it still runs.
const LIMIT: Duration = Duration::from_secs(20);

type Requests = mpsc::UnboundedSender<ExitCode>;

/// The first request to stop, as a future of the exit code that it asks for. `None` after the
/// request, or if there will be none.
#[derive(Debug)]
pub struct StopRequest(Option<oneshot::Receiver<ExitCode>>);

impl StopRequest {
    /// A request that never comes.
    pub fn never() -> Self {
        Self(None)
    }

    /// The request that comes `through` a channel.
    #[cfg(test)]
    pub(super) fn through(channel: oneshot::Receiver<ExitCode>) -> Self {
        Self(Some(channel))
    }

    /// Listens for the signals SIGINT, SIGTERM and SIGHUP. The second one ends the process at once.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn on_signals() -> Result<Self, DeploymentError> {
        Self::listen(None)
    }

    /// The exit code of the request, if it has come: for work that waits for nothing.
    pub(crate) fn asked(&mut self) -> Option<ExitCode> {
        let code = self.0.as_mut()?.try_recv().ok()?;
        self.0 = None;
        Some(code)
    }

    /// Calls `act` with the exit code of the request, on a thread of its own, once that has come.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn then(
        self,
        act: impl FnOnce(ExitCode) + Send + 'static,
    ) -> Result<(), DeploymentError> {
        let wait = || {
            if let Some(Ok(code)) = self.0.map(oneshot::Receiver::blocking_recv) {
                act(code);
            }
        };
        let started = thread::Builder::new().name("stopped".into()).spawn(wait);
        started.map(drop).map_err(DeploymentError::system("listen for signals"))
    }

    /// Begins to listen for requests to stop: for signals and, with `launcher`, for the end of that
    /// stream.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn listen(launcher: Option<UnixStream>) -> Result<Self, DeploymentError> {
        let failed = || DeploymentError::system("listen for signals");
        let (first, stop) = oneshot::channel();
        let (requests, mut requested) = mpsc::unbounded_channel();
        let runtime =
            runtime::Builder::new_current_thread().enable_all().build().map_err(failed())?;
        {
            let _inside = runtime.enter();
            let hangup = (SignalKind::hangup(), ExitCode::Terminated);
            for (kind, code) in [
                (SignalKind::interrupt(), ExitCode::Interrupted),
                (SignalKind::terminate(), ExitCode::Terminated),
            ]
            .into_iter()
            .chain(ends_with_its_terminal().then_some(hangup))
            {
                let (mut signals, requests) = (signal(kind).map_err(failed())?, requests.clone());
                runtime.spawn(async move {
                    while signals.recv().await.is_some() && requests.send(code).is_ok() {}
                });
            }
        }
        if let Some(launcher) = launcher {
            thread::Builder::new()
                .name("launcher".into())
                .spawn(|| until_gone(launcher, requests))
                .map_err(failed())?;
        }
        let guard = async move {
            let Some(code) = requested.recv().await else { return };
            if first.send(code).is_err() {
                tracing::debug!("asked to stop at the very end");
            }
            let code = timeout(LIMIT, requested.recv()).await.ok().flatten().unwrap_or(code);
            folder::remove_all();
            std::process::exit(code as i32);
        };
        thread::Builder::new()
            .name("signals".into())
            .spawn(move || runtime.block_on(guard))
            .map_err(failed())?;
        Ok(Self(Some(stop)))
    }
}

/// Whether SIGHUP, which comes as a terminal closes, is one that would end this process: `nohup`
/// has it ignored, and a process that listens would not ignore it any more. False where the system
/// does not tell, which leaves the signal as it is.
fn ends_with_its_terminal() -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 == 0) // SIGHUP is the first signal
}

/// Waits until the launcher has closed its end; its death closes it, too.
fn until_gone(mut launcher: UnixStream, requests: Requests) {
    let mut said = [0; 64];
    loop {
        match launcher.read(&mut said) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    if requests.send(ExitCode::Terminated).is_err() {
        tracing::debug!("the launcher went at the very end");
    }
}

impl Future for StopRequest {
    type Output = ExitCode;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ExitCode> {
        let Some(request) = &mut self.0 else { return Poll::Pending };
        let Poll::Ready(asked) = Pin::new(request).poll(context) else { return Poll::Pending };
        self.0 = None;
        asked.map_or(Poll::Pending, Poll::Ready) // where nobody will ask any more, it waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_heard_once_by_work_that_waits_for_nothing() {
        let (first, request) = oneshot::channel();
        let mut stop = StopRequest::through(request);
        assert_eq!(stop.asked(), None);
        first.send(ExitCode::Interrupted).unwrap();
        assert_eq!((stop.asked(), stop.asked()), (Some(ExitCode::Interrupted), None));
        assert_eq!(StopRequest::never().asked(), None);
    }
}
