//! `--metrics`: the server that tells the numbers of a run while it goes on.

use std::net::SocketAddr;
use std::sync::Arc;

use super::failure::Failure;
use crate::live::{Answer, Board, CONTENT_TYPE, HttpServer};

/// The path that Prometheus asks for.
const METRICS: &str = "/metrics";

/// A board, with the server that tells what it shows.
pub(super) struct Live {
    pub(super) board: Arc<Board>,
    _server: HttpServer,
}

impl Live {
    /// Tells metrics at the address `metrics`; none if there is none.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn start(metrics: Option<SocketAddr>) -> Result<Option<Self>, Failure> {
        let Some(address) = metrics else { return Ok(None) };
        let board = Board::new();
        let shown = Arc::clone(&board);
        let answers = move |path: &str| match path {
            METRICS => Answer::Text(CONTENT_TYPE, shown.metrics()),
            _ => Answer::NotFound,
        };
        let failed = Failure::system(format!("listen on {address}"));
        let server = HttpServer::start(address, answers).map_err(failed)?;
        eprintln!("metrics at http://{}{METRICS}", server.address());
        Ok(Some(Self { board, _server: server }))
    }
}
