//! `--metrics` and `--dashboard`: the servers that show a run while it goes on.

use std::net::SocketAddr;
use std::sync::Arc;

use super::failure::Failure;
use crate::live::{Answer, Boards, CONTENT_TYPE, HttpServer, dashboard};
use crate::say::say;

/// The path that Prometheus asks for.
const METRICS: &str = "/metrics";

/// The boards of a command's runs, and the servers that show them until this is dropped.
pub(super) struct Live {
    pub(super) boards: Arc<Boards>,
    _servers: Vec<HttpServer>,
}

impl Live {
    /// Tells `metrics` and shows a `dashboard`, each at its address; none if there is neither.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn start(
        metrics: Option<SocketAddr>,
        dashboard: Option<SocketAddr>,
    ) -> Result<Option<Self>, Failure> {
        let (boards, mut servers) = (Arc::new(Boards::default()), Vec::new());
        if let Some(address) = metrics {
            let shown = Arc::clone(&boards);
            let server = serve("metrics", address, move |path| told(&shown, path))?;
            say!("metrics at http://{}{METRICS}", server.address());
            servers.push(server);
        }
        if let Some(address) = dashboard {
            let shown = Arc::clone(&boards);
            let server = serve("dashboard", address, move |path| match told(&shown, path) {
                Answer::NotFound => self::dashboard(&shown, path),
                found => found,
            })?;
            say!("dashboard at http://{}/", server.address());
            servers.push(server);
        }
        Ok((!servers.is_empty()).then_some(Self { boards, _servers: servers }))
    }
}

fn told(boards: &Boards, path: &str) -> Answer {
    match path {
        METRICS => Answer::Text(CONTENT_TYPE, boards.metrics()),
        _ => Answer::NotFound,
    }
}

/// Answers at `address`, which `flag` asks for.
fn serve(
    flag: &'static str,
    address: SocketAddr,
    answers: impl Fn(&str) -> Answer + Send + Sync + 'static,
) -> Result<HttpServer, Failure> {
    let failed = |error| Failure::Listen { flag, address, error };
    HttpServer::start(address, answers).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::deployment::ExitCode;

    #[test]
    fn a_port_that_is_in_use_is_a_mistake_of_usage_that_names_the_flag() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let flags = [("metrics", Some(address), None), ("dashboard", None, Some(address))];
        for (flag, metrics, dashboard) in flags {
            let failure = Live::start(metrics, dashboard).err().unwrap();
            let (text, next) = (failure.to_string(), address.port().checked_add(1).unwrap_or(6007));
            assert!(text.ends_with(&format!("; name another: --{flag}={next}")), "{text}");
            assert_eq!(failure.report(), ExitCode::Usage);
        }
    }

    #[test]
    fn an_address_that_this_machine_does_not_have_is_what_is_to_be_changed_and_not_the_port() {
        let elsewhere: SocketAddr = "192.0.2.1:9100".parse().unwrap(); // nobody's (RFC 5737)
        let text = Live::start(Some(elsewhere), None).err().unwrap().to_string();
        assert!(text.contains("this machine does not have that address"), "{text}");
        assert!(
            text.contains("--metrics=0.0.0.0:9100 for all") && !text.contains("9101"),
            "{text}"
        );
    }
}
