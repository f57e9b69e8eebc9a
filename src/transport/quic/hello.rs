//! What two tasks say to each other before anything else, and why one refuses the other.

use std::time::Duration;

use quinn::{Connection, ConnectionError, RecvStream, SendStream, VarInt};
use serde::{Deserialize, Serialize};

use super::super::wire::{FrameDecoder, Kind, Outgoing, VERSION, WireError, WireLimits};
use super::RunId;
use crate::cluster::TaskName;

/// The most bytes that an introduction takes.
const MAX_HELLO: usize = 4 << 10;
/// A stream that is read and written before those of large envelopes.
const CONTROL_PRIORITY: i32 = 1;

/// Why a connection is closed, as the other end is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Close {
    /// The task stops.
    Stopped,
    /// Who speaks is not who may.
    Refused,
    /// What was said can't be understood.
    Garbage,
    /// The way between the two tasks has broken, be it on another connection.
    Lost,
}

impl Close {
    pub(super) fn code(self) -> VarInt {
        VarInt::from_u32(match self {
            Self::Stopped => 0,
            Self::Refused => 1,
            Self::Garbage => 2,
            Self::Lost => 3,
        })
    }
}

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) version: u32,
    pub(super) run: String,
    pub(super) task: TaskName,
    /// Differs between two lives of a task.
    pub(super) incarnation: u64,
    /// How often the way between the two tasks has broken, as far as the speaker knows.
    pub(super) epoch: u64,
}

/// Why there is no connection to a peer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("it is of the run `{theirs}`, this task of `{ours}`")]
    Run { theirs: String, ours: RunId },
    #[error("it speaks version {theirs} of the protocol, this task {VERSION}")]
    Version { theirs: u32 },
    #[error("its certificate is not that of {0}, which it says that it is")]
    Name(TaskName),
    #[error("a later life of {0} is known here")]
    Outlived(TaskName),
    #[error("it says nothing")]
    Silent,
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("{}", explained(.0))]
    Connection(#[from] ConnectionError),
    #[error(transparent)]
    Read(#[from] quinn::ReadError),
    #[error(transparent)]
    Write(#[from] quinn::WriteError),
    #[error(transparent)]
    Connect(#[from] quinn::ConnectError),
    #[error("its address can't be found: {0}")]
    Address(#[from] std::io::Error),
    #[error("its host has no address")]
    NoAddress,
}

impl Refusal {
    /// How the other end is told.
    pub(super) fn close(&self) -> Close {
        match self {
            Self::Wire(_) => Close::Garbage,
            _ => Close::Refused,
        }
    }
}

/// Why a connection has ended, in words that say what to do where TLS ended it.
fn explained(error: &ConnectionError) -> String {
    /// Where QUIC's numbers for TLS alerts begin (RFC 9001, 4.8).
    const ALERTS: u64 = 0x100;
    let (who, code) = match error {
        ConnectionError::TransportError(error) => ("its", u64::from(error.code)),
        ConnectionError::ConnectionClosed(closed) => ("this task's", u64::from(closed.error_code)),
        _ => return error.to_string(),
    };
    match code.checked_sub(ALERTS) {
        Some(116) => format!("{who} certificate is missing: {error}"),
        Some(42..=51) => {
            format!("{who} certificate is not one of this run, or has expired: {error}")
        }
        Some(120) => format!(
            "the two speak different versions of the protocol, of which this is {VERSION}: {error}"
        ),
        _ => error.to_string(),
    }
}

/// Opens the stream that all small envelopes go through, and introduces the task.
pub(super) async fn introduce(
    connection: &Connection,
    hello: &Hello,
) -> Result<SendStream, Refusal> {
    let mut control = connection.open_uni().await?;
    let _closed_streams_fail_below = control.set_priority(CONTROL_PRIORITY);
    control.write_chunk(Outgoing::plain(Kind::Hello, hello)?.head.into()).await?;
    Ok(control)
}

/// What the other end says first, on the stream that its small envelopes will come through.
pub(super) async fn listen(
    connection: &Connection,
    patience: Duration,
) -> Result<(Hello, RecvStream), Refusal> {
    tokio::time::timeout(patience, hear(connection)).await.map_err(|_| Refusal::Silent)?
}

async fn hear(connection: &Connection) -> Result<(Hello, RecvStream), Refusal> {
    let mut control = connection.accept_uni().await?;
    let mut decoder = FrameDecoder::new(WireLimits { control: MAX_HELLO, tensor: 0, envelope: 0 });
    // A frame's length is known once its header is, so that nothing beyond the introduction is
    // read.
    let mut wanted = super::super::wire::FRAME_HEADER;
    loop {
        let chunk = control.read_chunk(wanted, true).await?.ok_or(Refusal::Silent)?;
        if let Some(frame) = decoder.push(&mut &chunk.bytes[..])? {
            if frame.kind != Kind::Hello {
                return Err(WireError::OutOfPlace(format!("{:?}", frame.kind)).into());
            }
            return Ok((frame.plain()?, control));
        }
        wanted = decoder.missing();
    }
}

impl Hello {
    /// Whether whoever says this may talk to a task of `run`.
    pub(super) fn check(&self, run: &RunId) -> Result<(), Refusal> {
        if self.version != VERSION {
            return Err(Refusal::Version { theirs: self.version });
        }
        if self.run != run.to_string() {
            return Err(Refusal::Run { theirs: self.run.clone(), ours: run.clone() });
        }
        Ok(())
    }
}
