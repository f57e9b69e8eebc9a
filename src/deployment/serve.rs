//! A task without a program: it serves the sessions of clients until it is asked to stop.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::seated::{Seated, take_seat};
use super::stop::StopRequest;
use super::{DeploymentError, ExitCode, Member, busy_poll};
use crate::runtime::Error;

/// The time limit for telling clients that the server stops.
const FLUSH: Duration = Duration::from_secs(2);

/// Serves as `member` until it is asked to stop. Clients' sessions outlive their connections by
/// `limit`. Calls `ready` once it listens.
///
/// # Errors
/// If the task can't take part in the cluster. The inner error is that of a server that can't go
/// on.
pub fn serve(
    member: Member,
    limit: Duration,
    stop: StopRequest,
    ready: impl FnOnce(),
) -> Result<Result<ExitCode, Error>, DeploymentError> {
    busy_poll::block_on(member.busy_poll, attend(member, limit, stop, ready))?
}

async fn attend(
    mut member: Member,
    limit: Duration,
    mut stop: StopRequest,
    ready: impl FnOnce(),
) -> Result<Result<ExitCode, Error>, DeploymentError> {
    let Seated { quic, server } = take_seat(&mut member).await?;
    server.serve_sessions(limit);
    ready();
    let ended = match select(pin!(server.breaks()), &mut stop).await {
        Either::Left((broken, _)) => Err(broken),
        Either::Right((code, _)) => Ok(code),
    };
    server.stop();
    tokio::task::yield_now().await; // its actors tell the clients
    if !quic.shut_down(FLUSH).await {
        tracing::debug!("not all of the last messages are known to have arrived");
    }
    Ok(ended)
}
