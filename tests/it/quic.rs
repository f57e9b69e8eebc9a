//! The transports, and who may use them.

mod clients;
mod hostile_packets;
mod large_kernels;
pub(crate) mod over_quic;
mod own_operation;
mod quic_losses;
pub(crate) mod transport_contract;
pub(crate) mod untrusted;
