//! What follows a copy between the memories of a task's devices.

use crate::transport::PeerId;

use crate::runtime::messages::{PeerMessage, WorkerMessage};

/// A message whose values have been copied.
#[derive(Debug)]
pub(crate) enum Copied {
    /// They are in the memory of the device that takes them.
    Here(PeerId, WorkerMessage),
    /// They are in the memory of the host, and go to an actor of another task or of this one.
    Out(PeerId, PeerMessage),
}
