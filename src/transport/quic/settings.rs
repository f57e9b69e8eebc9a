//! The settings of connections, chosen with `benches/transport` and `benches/peer`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::congestion::CubicConfig;
use quinn::{IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};

use super::super::BEATS;
use super::socket::{MTU, SocketBuffers};

/// The receive window of a stream and of a connection \[bytes\]: 10 Gbit/s times 10 ms.
const STREAM_WINDOW: u32 = 12 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;
/// The greatest receive window of a connection over loopback \[bytes\]: a larger one carries no
/// more, and its bytes leave the processor's caches before they are read.
const LOOPBACK_WINDOW: usize = 4 << 20;
/// The least receive window of a stream over loopback \[bytes\]: less would slow a large envelope.
const LOOPBACK_STREAM_WINDOW: u32 = 1 << 20;
/// The least and the largest packets that are tried over loopback \[bytes\]. Larger ones cost less
/// a byte; but a window should hold [`PACKETS`] of them, or each end waits for the other.
const LOOPBACK_MTU: (u16, u16) = (16_000, 65_400);
const PACKETS: usize = 26;
/// The send window \[bytes\].
const SEND_WINDOW: u64 = 32 << 20;
/// The initial congestion window \[bytes\].
const INITIAL_WINDOW: u64 = 4 << 20;
/// The number of streams of large envelopes that a peer may have open.
const STREAMS: u32 = 256;
/// The initial estimate of the round trip. It decides how soon a first packet is resent if the peer
/// did not listen yet.
const INITIAL_RTT: Duration = Duration::from_millis(25);
/// The time limit of the first attempt's TLS handshake. It doubles with each attempt, up to the
/// limit of silence. Short attempts come first, because a lost first packet is resent at growing
/// intervals: a new attempt reaches a newly started task sooner.
pub(super) const FIRST_PATIENCE: Duration = Duration::from_secs(1);

/// Whether `address` is on this machine.
pub(super) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// The settings of a connection that is lost when its peer is silent for `silence`: see
/// [`silence`](super::silence), which counts that. QUIC's own timer for idle connections is there
/// for a peer that has forgotten the connection. `loopback` is given if the peer is on this
/// machine: the buffers of this task's socket. The peer's are assumed to be as large.
pub(super) fn transport(
    loopback: Option<SocketBuffers>,
    silence: Duration,
) -> Arc<TransportConfig> {
    let mut settings = TransportConfig::default();
    let mut discovery = MtuDiscoveryConfig::default();
    let (stream, connection) = match loopback {
        Some(buffers) => {
            let (mtu, window) = over_loopback(buffers);
            discovery.upper_bound(mtu);
            if cfg!(target_os = "linux") {
                // Its loopback takes the largest packets, so two probes find them. More would cost:
                // quinn decodes the padding of a probe byte by byte.
                discovery.minimum_change(mtu / 4);
            }
            // A large envelope and the end of the one before leave a quarter of a large window to
            // small ones.
            ((window / 8 * 3).max(LOOPBACK_STREAM_WINDOW), window)
        }
        None => {
            discovery.upper_bound(MTU);
            (STREAM_WINDOW, CONNECTION_WINDOW)
        }
    };
    let mut cubic = CubicConfig::default();
    cubic.initial_window(INITIAL_WINDOW);
    let idle = IdleTimeout::try_from(silence * 2).unwrap_or_else(|_| VarInt::MAX.into());
    settings
        .max_idle_timeout(Some(idle))
        .keep_alive_interval(Some(silence / BEATS))
        .mtu_discovery_config(Some(discovery))
        .congestion_controller_factory(Arc::new(cubic))
        .initial_rtt(INITIAL_RTT)
        .stream_receive_window(VarInt::from_u32(stream))
        .receive_window(VarInt::from_u32(connection))
        .send_window(SEND_WINDOW)
        .send_fairness(false)
        .max_concurrent_uni_streams(VarInt::from_u32(STREAMS))
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None);
    Arc::new(settings)
}

/// The largest packets over loopback, and the receive window of a connection: what its sender may
/// have under way, of which the buffer would lose what it has no room for.
fn over_loopback(buffers: SocketBuffers) -> (u16, u32) {
    let window = buffers.room().min(LOOPBACK_WINDOW);
    let (least, most) = LOOPBACK_MTU;
    let mtu = (window / PACKETS).clamp(least.into(), most.into());
    (mtu as u16, window as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_over_loopback_are_as_large_as_the_buffer_has_room_for_many() {
        let of = |receive| over_loopback(SocketBuffers { receive, send: receive });
        let (least, most) = LOOPBACK_MTU;
        assert_eq!(of(SocketBuffers::WANTED), (most, LOOPBACK_WINDOW as u32));
        let usual = of(212_992); // what Linux grants by itself
        assert!(usual.0 >= least && usual.0 < most && usual.1 >= 212_992, "{usual:?}");
        assert_eq!(of(50_000).0, least);
    }
}
