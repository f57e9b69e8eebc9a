//! Makes a server that tasks in other processes reach, in one call.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::DeploymentError;
use super::network::Network;
use super::renewal::Renewal;
use crate::clock::WallClock;
use crate::cluster::{ClusterSpec, TaskName};
use crate::runtime::{ComputeModel, Patience, Processor, Server, ServerDef, ServerWorld};
use crate::transport::{CLIENT, Identity, Quic, QuicConfig, RunId};

/// The proof of identity between a task and its peers: a folder of certificates, as `trainyard
/// certs issue` writes it, and the name of their training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    folder: PathBuf,
    run: RunId,
    client: TaskName,
}

impl Certificates {
    /// The certificates in `folder`, for the training called `run` (as in `trainyard task
    /// --run-name`): tasks of different trainings do not talk.
    pub fn new(folder: impl AsRef<Path>, run: &str) -> Self {
        let (folder, client) = (folder.as_ref().to_owned(), TaskName::new(CLIENT, 0));
        Self { folder, run: RunId::new(run), client }
    }

    /// The same, for `client:N`: which certificate a program takes that is no task. Without this,
    /// that of `client:0`.
    #[must_use]
    pub fn of_client(self, number: u32) -> Self {
        Self { client: TaskName::new(CLIENT, number), ..self }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn run(&self) -> &RunId {
        &self.run
    }

    pub(super) fn client(&self) -> &TaskName {
        &self.client
    }
}

impl Server {
    /// A started server of task `index` of `job`. It listens at its address in `cluster` and
    /// reaches the others over QUIC, whether they are servers such as this one or `trainyard
    /// task`s.
    ///
    /// # Errors
    /// If the cluster has no such task, or no address of it; if its certificate can't be read; or
    /// if it can't listen on its address.
    pub async fn quic(
        cluster: &ClusterSpec,
        job: &str,
        index: u32,
        certificates: &Certificates,
    ) -> Result<Rc<Self>, DeploymentError> {
        let task = TaskName::new(job, index);
        let identity = Identity::load(&certificates.folder, &task)?;
        let run = certificates.run.clone();
        let config = QuicConfig::new(cluster.clone(), task.clone(), run, identity);
        let quic = Quic::bind(config).await?;
        let renewal = Renewal::new(&certificates.folder, &task);
        actix_rt::spawn(renewal.watch(Rc::downgrade(&quic)));
        let network = Network::new(quic, cluster.clone(), cluster.clone(), Rc::default());
        let devices = [Rc::new(Processor::default()) as Rc<dyn ComputeModel>];
        let world = ServerWorld {
            transport: network.transport(),
            clock: Rc::new(WallClock::new()),
            devices: devices.into(),
        };
        let server = Rc::new(Self::new(ServerDef { cluster: cluster.clone(), task }, world));
        server.serve_sessions(Patience::default().recovery);
        server.start().expect("a new server can be started");
        network.attach(&server);
        Ok(server)
    }
}
