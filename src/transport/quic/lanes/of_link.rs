//! The lanes of a link, in both directions.

use std::cell::{Cell, OnceCell, RefCell};

use quinn::{Connection, ConnectionError, VarInt, WriteError};
use tokio::runtime::Handle;

use super::super::super::wire::Outgoing;
use super::blocks;

/// The lanes of a link, in both directions.
#[derive(Default)]
pub(in super::super) struct LinkLanes {
    /// The ports of the peer's lanes.
    pub(super) ports: Vec<u16>,
    pub(super) outbound: OnceCell<Outbound>,
    pub(super) attempts: Cell<u8>,
    pub(super) is_opening: Cell<bool>,
    pub(super) inbound: RefCell<Inbound>,
}

/// The lanes that the peer has opened, or begun to.
#[derive(Default)]
pub(super) struct Inbound {
    /// The number of its latest attempt.
    pub(super) attempt: u8,
    /// By number.
    pub(super) lanes: Vec<Option<(Connection, Handle)>>,
}

/// Open lanes to a peer, each with the thread that drives it.
pub(in super::super) struct Outbound(pub(super) Vec<(Connection, Handle)>);

impl LinkLanes {
    /// No lanes yet, to a peer that has them at `ports`.
    pub(in super::super) fn to(ports: Vec<u16>) -> Self {
        Self { ports, ..Self::default() }
    }

    /// Closes all that are open.
    pub(in super::super) fn close(&self, code: VarInt, reason: &[u8]) {
        let outbound = self.outbound.get().into_iter().flat_map(|lanes| &lanes.0);
        let inbound = self.inbound.borrow();
        outbound
            .chain(inbound.lanes.iter().flatten())
            .for_each(|(lane, _)| lane.close(code, reason));
    }
}

impl Outbound {
    /// Writes an envelope, of that number.
    pub(in super::super) async fn write(
        &self,
        number: u64,
        frame: Outgoing,
    ) -> Result<(), WriteError> {
        let Self(lanes) = self;
        let parts = frame.len().div_ceil(blocks::BLOCK).min(lanes.len());
        // The next envelope begins with another lane: the end of this one may be on its way.
        let first = (number % lanes.len() as u64) as usize;
        let connections = lanes.iter().cycle().skip(first).take(parts);
        let connections = connections.map(|(connection, _)| connection.clone()).collect();
        let (_, thread) = &lanes[first];
        match thread.spawn(blocks::write(connections, number, frame)).await {
            Ok(written) => written,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_ended) => Err(ConnectionError::LocallyClosed.into()),
            },
        }
    }
}
