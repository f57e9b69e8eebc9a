//! What the system does as a whole; a folder a subject, a file a behaviour.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "what a test does by itself takes real time, and is printed"
)]

use mimalloc::MiMalloc;

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

/// That of the program: a simulation allocates much.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
