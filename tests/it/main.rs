//! What the system does as a whole; one file a behaviour.

mod errors;
mod fixture;
mod servers;
mod sessions;
