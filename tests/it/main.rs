//! What the system does as a whole; a folder a subject, a file a behaviour.

mod cli;
mod docs;
mod experiment;
mod faults;
mod fuzz;
mod graph;
mod modes;
mod quic;
mod session;
mod support;
mod validation;
