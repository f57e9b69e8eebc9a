//! Lanes: further connections to a peer, over which the bytes of large envelopes are spread, so
//! that more than one core encrypts them.
//!
//! A connection is encrypted by one core, and that of a link by the actors' thread. A lane has a
//! thread of its own at both ends, which encrypts, decrypts and copies what it carries. Each lane
//! goes one way: who has large envelopes to send opens lanes to the ports that its peer has told
//! in its introduction. Until they are open, and where a network lets none through, large envelopes
//! go over the link.

mod arriving;
mod blocks;
pub(super) mod of_link;
mod opening;
#[cfg(test)]
mod tests;
pub(super) mod threads;

use std::rc::Rc;

use super::super::Payload;
use super::node::Node;
use super::peer::Peer;
use super::peer_connection::PeerConnection;
use of_link::Outbound;

pub(super) use arriving::attend;

/// The least length of an envelope that is spread over lanes \[bytes\]: a shorter one is soon
/// encrypted, and would wake threads.
pub(crate) const SPREAD_ENVELOPE: usize = 512 << 10;
/// The most lanes to all peers together, beyond one to each.
const MOST: usize = 64;
/// How often it is tried to open the lanes of a link.
const ATTEMPTS: u8 = 3;

/// The threads of kernels below which a task has no lanes: its cores have enough to do.
const LEAST_THREADS: usize = 3;
/// The most lanes of a task by default: more gain little, and take the cores from the kernels.
const MOST_BY_DEFAULT: usize = 4;

/// The number of lanes of a task whose kernels have so many threads, unless its user says another.
pub(crate) fn lanes_of(threads: usize) -> usize {
    if threads < LEAST_THREADS { 0 } else { threads.min(MOST_BY_DEFAULT) }
}

/// The lanes of `link` for an envelope of `length`, if that is long enough and they are open. The
/// first one that is long enough has them opened.
pub(super) fn lanes_for<'a, M: Payload>(
    node: &Rc<Node<M>>,
    peer: &Rc<Peer<M>>,
    link: &'a Rc<PeerConnection>,
    length: usize,
) -> Option<&'a Outbound> {
    if length < SPREAD_ENVELOPE {
        return None;
    }
    let lanes = link.lanes.outbound.get();
    if lanes.is_none() {
        opening::begin(node, peer, link);
    }
    lanes
}
