//! A program that is no task, with sessions on servers in other processes.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use super::busy_poll;
use super::network::{Message, Network};
use super::renewal::Renewal;
use super::{Certificates, DeploymentError, ExitCode};
use crate::clock::WallClock;
use crate::cluster::{ClusterSpec, TaskName};
use crate::graph::Graph;
use crate::runtime::{self, ClientEnd, Code, Error, Patience, ServerTarget, SessionOptions};
use crate::training::Session;
use crate::transport::{Identity, Quic, QuicConfig, QuicError, RunId};

/// The time limit for telling the servers that the client goes.
const FLUSH: Duration = Duration::from_secs(2);

/// A program that is no task of a cluster, and runs its graphs on servers in other processes:
/// [`Server::quic`](runtime::Server::quic), or `trainyard serve`.
///
/// It may have sessions on several servers of a cluster at once, and several on one. Its steps are
/// planned and run by the master of the server that a session is on. If a connection is lost, what
/// was under way is asked for again when it is back, and nothing is done twice. A server ends the
/// sessions of a client that stays away.
///
/// A client proves its name, `client:N`: two processes need two certificates.
#[derive(Clone)]
pub struct Client {
    end: Rc<ClientEnd>,
    quic: Rc<Quic<Message>>,
}

shown!(Client);

/// Runs `program`, which is no task, with all that it needs of an event loop, on this thread.
///
/// # Errors
/// The program's; if the process may open no more files.
pub fn run_client<T, E: From<DeploymentError>>(
    program: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    busy_poll::block_on(Duration::ZERO, program)?
}

impl Client {
    /// The client that `certificates` name. It runs on the actix system that it is made in.
    ///
    /// # Errors
    /// If its certificate can't be read, or no socket can be had.
    pub async fn new(certificates: &Certificates) -> Result<Self, DeploymentError> {
        let name = certificates.client();
        let identity = Identity::load(certificates.folder(), name)?;
        let quic = bind(name, certificates.run(), identity).await?;
        let renewal = Renewal::new(certificates.folder(), name);
        actix_rt::spawn(renewal.watch(Rc::downgrade(&quic)));
        let network = Network::new(
            Rc::clone(&quic),
            ClusterSpec::default(),
            ClusterSpec::default(),
            Rc::default(),
        );
        let clock = Rc::new(WallClock::new());
        let end = ClientEnd::new(network.transport(), clock, Patience::default());
        Ok(Self { end, quic })
    }

    /// The server at `url`, `quic://host:port/job:ps/task:0`: it has to prove that name.
    ///
    /// # Errors
    /// If `url` is none, or this client knows the task at another address.
    pub fn target(&self, url: &str) -> Result<ServerTarget, DeploymentError> {
        let wrong = |mistakes: String| DeploymentError::Cluster {
            origin: format!("the target `{url}`"),
            mistakes,
        };
        let (address, task) = parse(url).map_err(&wrong)?;
        if self.quic.know(&task, &address).is_none() {
            let message = format!(
                "this client knows {task} at another address; a client of another cluster is \
                 another one, with another certificate"
            );
            return Err(wrong(message));
        }
        Ok(self.end.target(&task).expect("it has just been made known"))
    }

    /// Tells all servers that this client goes, which ends its sessions. A client that is dropped
    /// without this leaves them until the servers notice.
    pub async fn close(self) {
        let Self { end, quic } = self;
        end.stop();
        tokio::task::yield_now().await; // the ends of its sessions send what they have to say
        if !quic.shut_down(FLUSH).await {
            tracing::debug!("not all servers are known to have noticed");
        }
    }
}

impl Session {
    /// A session of `graph` on the server at `url`, `quic://host:port/job:ps/task:0`, from a
    /// program that is no task of its cluster. For several sessions, use a [`Client`].
    ///
    /// # Errors
    /// If the certificate can't be read or is refused, the server can't be reached, or it takes no
    /// sessions of clients.
    pub async fn connect(
        url: &str,
        graph: &Graph,
        certificates: &Certificates,
    ) -> runtime::Result<Self> {
        let failed = |error: DeploymentError| {
            let is_refused = error.exit_code() == ExitCode::CertificateRefused;
            let code = if is_refused { Code::Unauthenticated } else { Code::InvalidArgument };
            Error::new(code, error.to_string())
        };
        let client = Client::new(certificates).await.map_err(failed)?;
        let target = client.target(url).map_err(failed)?;
        Self::with_options(&target, graph, SessionOptions::default()).await
    }
}

/// The address and the task of `quic://host:port/job:ps/task:0`.
fn parse(url: &str) -> Result<(String, TaskName), String> {
    let needed = || "write `quic://host:port/job:NAME/task:N`".to_owned();
    let (address, task) =
        url.strip_prefix("quic://").and_then(|rest| rest.split_once("/job:")).ok_or_else(needed)?;
    let (job, index) = task.split_once("/task:").ok_or_else(needed)?;
    let task: TaskName =
        format!("{job}:{index}").parse().map_err(|error| format!("{error}; {}", needed()))?;
    let cluster = ClusterSpec::sparse([(task.job(), [(task.index(), address.to_owned())])]);
    cluster.map_err(|error| error.to_string())?;
    Ok((address.to_owned(), task))
}

/// An end of the network for `name`, a client or an asker, to which nobody connects.
pub(super) async fn bind(
    name: &TaskName,
    run: &RunId,
    identity: Identity,
) -> Result<Rc<Quic<Message>>, DeploymentError> {
    // Its own address only has to be valid.
    let own = [(name.index(), "client.invalid:1".to_owned())];
    let cluster = ClusterSpec::sparse([(name.job(), own)]).expect("it is one task");
    let bind = |listen: SocketAddr| {
        let config = QuicConfig::new(cluster.clone(), name.clone(), run.clone(), identity.clone());
        Quic::<Message>::bind(QuicConfig { listen: Some(listen), ..config })
    };
    match bind((Ipv6Addr::UNSPECIFIED, 0).into()).await {
        // A machine without IPv6.
        Err(QuicError::Bind { .. }) => Ok(bind((Ipv4Addr::UNSPECIFIED, 0).into()).await?),
        bound => Ok(bound?),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_target_is_an_address_and_a_task() {
        let (address, task) = parse("quic://[::1]:2222/job:ps/task:3").unwrap();
        assert_eq!((address.as_str(), task.to_string().as_str()), ("[::1]:2222", "ps:3"));
        for (url, says) in [
            ("grpc://a:1/job:ps/task:0", "write `quic://"),
            ("quic://a:1", "write `quic://"),
            ("quic://a:1/job:ps/task:x", "write `quic://"),
            ("quic://a/job:ps/task:0", "no port"),
        ] {
            let mistakes = parse(url).unwrap_err();
            assert!(mistakes.contains(says), "{url}: {mistakes}");
        }
    }
}
