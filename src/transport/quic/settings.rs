//! The settings of connections, chosen with `benches/transport.rs`.

use std::sync::Arc;
use std::time::Duration;

use quinn::congestion::CubicConfig;
use quinn::{IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};

use super::socket::{LOOPBACK_MTU, MTU};

/// The receive window of a stream and of a connection \[bytes\]: 10 Gbit/s times 10 ms.
const STREAM_WINDOW: u32 = 12 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;
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
/// for a peer that has forgotten the connection.
pub(super) fn transport(is_loopback: bool, silence: Duration) -> Arc<TransportConfig> {
    let mut settings = TransportConfig::default();
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(if is_loopback { LOOPBACK_MTU } else { MTU });
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
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .send_window(SEND_WINDOW)
        .send_fairness(false)
        .max_concurrent_uni_streams(VarInt::from_u32(STREAMS))
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None);
    Arc::new(settings)
}
