//! What the system does as a whole; one file a behaviour.

mod errors;
mod fixture;
mod gradients;
mod optimizers;
mod peer_to_peer;
mod servers;
mod sessions;
