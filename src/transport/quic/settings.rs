//! The settings of connections, chosen with `benches/transport.rs`.

use std::sync::Arc;
use std::time::Duration;

use quinn::congestion::CubicConfig;
use quinn::{IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};

use super::socket::SocketBuffers;

/// The receive window of a stream and of a connection \[bytes\]: 10 Gbit/s times 10 ms.
const STREAM_WINDOW: u32 = 12 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;
/// The receive window of a connection over loopback \[bytes\]: a larger one carries no more, and its
/// bytes leave the processor's caches before they are read.
const LOOPBACK_WINDOW: usize = 4 << 20;
/// The largest packets that are tried \[bytes\]: a jumbo frame without its headers.
const MTU: u16 = 8_952;
/// The largest packets that are tried over loopback \[bytes\]: the fewer, the less a byte costs,
/// where the window has room for [`PACKETS`] of them at least, so that neither end waits for the
/// other.
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

/// The settings of a connection that is lost when its peer is silent for `silence`: see
/// [`silence`](super::silence), which counts that. QUIC's own timer for idle connections is there
/// for a peer that has forgotten the connection. A connection over loopback has sockets with
/// buffers as large as `loopback` at either end.
pub(super) fn transport(
    loopback: Option<SocketBuffers>,
    silence: Duration,
) -> Arc<TransportConfig> {
    let mut settings = TransportConfig::default();
    let (mtu, window) = loopback.map_or((MTU, CONNECTION_WINDOW), over_loopback);
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(mtu);
    let mut cubic = CubicConfig::default();
    cubic.initial_window(INITIAL_WINDOW);
    let idle = IdleTimeout::try_from(silence * 2).unwrap_or_else(|_| VarInt::MAX.into());
    settings
        .max_idle_timeout(Some(idle))
        .keep_alive_interval(Some(silence.mul_f64(0.2)))
        .mtu_discovery_config(Some(discovery))
        .congestion_controller_factory(Arc::new(cubic))
        .initial_rtt(INITIAL_RTT)
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(window))
        .send_window(SEND_WINDOW)
        .send_fairness(false)
        .max_concurrent_uni_streams(VarInt::from_u32(STREAMS))
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None);
    Arc::new(settings)
}

/// The largest packets over loopback, and the receive window, which the socket's buffer has room
/// for: nothing is faster there than the sender, and what the buffer has no room for is lost.
fn over_loopback(buffers: SocketBuffers) -> (u16, u32) {
    let window = (2 * buffers.receive).min(LOOPBACK_WINDOW);
    let (least, most) = LOOPBACK_MTU;
    let mtu = (window / PACKETS).clamp(least.into(), most.into());
    (mtu as u16, window as u32)
}
