//! What the system does as a whole; one file a behaviour.

mod fixture;
mod sessions;
