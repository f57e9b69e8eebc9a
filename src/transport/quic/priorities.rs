//! The order of a connection's streams: that of the small envelopes first, then those of large
//! ones, each in its turn.

use quinn::{Connection, ConnectionError, SendStream};

/// The priority of the stream of the small envelopes.
const SMALL: i32 = 1;

/// Opens the stream of the small envelopes, to which those of large ones yield.
pub(super) async fn open_small(connection: &Connection) -> Result<SendStream, ConnectionError> {
    open(connection, SMALL).await
}

/// Opens a stream for large envelope `number`, which yields to those before it: what they have
/// written and not yet sent leaves first.
pub(super) async fn open_large(
    connection: &Connection,
    number: u64,
) -> Result<SendStream, ConnectionError> {
    // Every 2^31 envelopes one goes before its turn.
    open(connection, -((number % (1 << 31)) as i32)).await
}

async fn open(connection: &Connection, priority: i32) -> Result<SendStream, ConnectionError> {
    let stream = connection.open_uni().await?;
    let _closed_streams_fail_at_their_first_byte = stream.set_priority(priority);
    Ok(stream)
}
