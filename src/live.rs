//! What a run shows while it goes on: the numbers of its tasks, for Prometheus and on a page.
//!
//! [`Board`] has the numbers of all tasks that this process knows of. A run writes to it and never
//! reads from it, so that nobody who looks changes the run.

mod board;
mod course;
mod dashboard;
mod http;
mod meter;
mod metrics;
mod snapshot;
mod traffic;

pub use board::{About, Board};
pub(crate) use board::{Boards, Seen};
pub(crate) use dashboard::dashboard;
pub(crate) use http::{Answer, HttpServer, at as http_address};
pub(crate) use meter::Meter;
pub(crate) use metrics::CONTENT_TYPE;
pub(crate) use snapshot::{Snapshot, TaskActivity};
