//! The transports, and who may use them.

mod over_quic;
mod quic_losses;
pub(crate) mod transport_contract;
mod untrusted;
