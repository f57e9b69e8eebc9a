//! What a user holds: sessions, hooks, data sets and their batches.

pub mod data;
mod session;

pub use session::{Fetched, Run, Session};
