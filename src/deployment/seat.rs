//! A process's place in a cluster: its task, the tasks that it knows, and its certificate.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use super::renewal::Renewal;
use super::{Certificates, DeploymentError};
use crate::cluster::{ClusterSpec, RunConfig, TaskName};
use crate::transport::{Authority, Identity, QuicConfig, RunId, lanes_of};

/// A process's place in a cluster.
#[derive(Debug)]
pub struct Seat {
    /// All tasks of the training, even those whose addresses are not known.
    pub(super) cluster: ClusterSpec,
    /// The tasks whose addresses are known.
    pub(super) known: ClusterSpec,
    pub(super) task: TaskName,
    /// Whether its configuration lists only some of the tasks.
    pub(super) is_dynamic: bool,
    /// The listening socket, if the process was given one.
    pub(crate) socket: Option<UdpSocket>,
    /// The time after which a silent peer is lost, if it is not the transport's own.
    pub(crate) silence: Option<Duration>,
    /// The number of threads that encrypt large tensors, if its user has said so.
    pub(crate) lanes: Option<usize>,
    /// The task whose master the program's sessions connect to, if it is another's.
    pub(super) master: Option<TaskName>,
    /// Whether the cluster has no other task.
    is_alone: bool,
    run: RunId,
    identity: Identity,
    /// Watches the folder of the certificate, if it has one.
    pub(super) renewal: Option<Renewal>,
}

/// The certificate by which a process proves its task's name.
#[derive(Debug)]
pub enum Proof<'a> {
    /// The certificate in a folder, which may be renewed there.
    Folder(&'a Path),
    /// A certificate from the launcher.
    Given(Identity),
}

impl Proof<'_> {
    fn renewal(&self, task: &TaskName) -> Option<Renewal> {
        match self {
            Self::Folder(folder) => Some(Renewal::new(folder, task)),
            Self::Given(_) => None,
        }
    }
}

impl Seat {
    /// The place that `config` gives a process in the training `run`, where it proves its name with
    /// `proof`. `of_scenario` are the tasks that the scenario counts; a process whose
    /// configuration lists only some tasks learns of the others from it.
    ///
    /// # Errors
    /// If there is no certificate, or the scenario does not have the task.
    pub fn new(
        config: &RunConfig,
        of_scenario: ClusterSpec,
        proof: Option<Proof<'_>>,
        run: RunId,
    ) -> Result<Self, DeploymentError> {
        let task = config.task().clone();
        let is_alone = config.peers().is_empty();
        let known = known(config);
        Ok(Self {
            cluster: roster(config, of_scenario.clone())?.with_replicas_of(&of_scenario),
            master: session_master(config)?,
            renewal: proof.as_ref().and_then(|proof| proof.renewal(&task)),
            identity: identity(proof, &task, is_alone)?,
            run,
            is_dynamic: config.is_dynamic(),
            socket: None,
            silence: None,
            lanes: None,
            is_alone,
            task,
            known,
        })
    }

    /// The place of a server that is `task` of `cluster`, all of whose addresses are known.
    ///
    /// # Errors
    /// If its certificate can't be read.
    pub(super) fn of_server(
        cluster: &ClusterSpec,
        task: TaskName,
        certificates: &Certificates,
    ) -> Result<Self, DeploymentError> {
        let folder = certificates.folder();
        Ok(Self {
            identity: Identity::load(folder, &task)?,
            renewal: Some(Renewal::new(folder, &task)),
            cluster: cluster.clone(),
            known: cluster.clone(),
            run: certificates.run().clone(),
            is_dynamic: false,
            socket: None,
            silence: None,
            lanes: Some(0),
            master: None,
            is_alone: false,
            task,
        })
    }

    /// The task's name.
    pub fn task(&self) -> &TaskName {
        &self.task
    }

    /// All tasks of the training.
    pub fn cluster(&self) -> &ClusterSpec {
        &self.cluster
    }

    /// The task's address, `host:port`, if it is known.
    pub(crate) fn address(&self) -> Option<&str> {
        self.known.task_address(&self.task).ok()
    }

    /// Whether the task leads the training and reports it.
    pub fn is_chief(&self) -> bool {
        self.cluster.chief().as_ref() == Some(&self.task)
    }

    /// The configuration of the transport. It takes the socket, so it can be called once.
    pub(super) fn network(&mut self) -> QuicConfig {
        let (run, identity) = (self.run.clone(), self.identity.clone());
        let config = QuicConfig::new(self.known.clone(), self.task.clone(), run, identity);
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listen = self.is_alone.then_some(anywhere);
        let silence = self.silence.unwrap_or(config.silence);
        let roster = self.cluster.clone();
        let lanes = match self.is_alone {
            true => 0,
            false => self.lanes.unwrap_or_else(|| lanes_of(rayon::current_num_threads())),
        };
        QuicConfig { roster, socket: self.socket.take(), listen, silence, lanes, ..config }
    }
}

/// The task at the address of the configuration's session master, if that is another's.
///
/// # Errors
/// If no task whose address is known has that address.
pub(crate) fn session_master(config: &RunConfig) -> Result<Option<TaskName>, DeploymentError> {
    let (target, known) = (config.master(), known(config));
    if target.is_empty() {
        return Ok(None);
    }
    let address = target.split_once("://").map_or(target, |(_, address)| address);
    let address = address.split_once('/').map_or(address, |(address, _)| address);
    let mut tasks = known.tasks();
    let found = tasks.find(|task| known.task_address(task).is_ok_and(|its| its == address));
    let strange = || DeploymentError::Cluster {
        origin: format!("the session master `{target}`"),
        mistakes:
            "no task of this cluster has that address; sessions on another cluster's servers \
                   are those of a `Client`"
                .to_owned(),
    };
    let task = found.ok_or_else(strange)?;
    Ok(Some(task).filter(|task| task != config.task()))
}

/// The identity that `task` proves its name with. If it `is_alone`, it may make one itself.
fn identity(
    proof: Option<Proof<'_>>,
    task: &TaskName,
    is_alone: bool,
) -> Result<Identity, DeploymentError> {
    match proof {
        Some(Proof::Folder(folder)) => Ok(Identity::load(folder, task)?),
        Some(Proof::Given(identity)) => Ok(identity),
        None if is_alone => Ok(Authority::new("alone")?.issue(task, &[])?),
        None => {
            let mistakes = format!(
                "every task proves who it is: give --certs DIR with the certificate of {task}; \
                 `trainyard certs new DIR` and `trainyard certs issue DIR --task {task}` make it"
            );
            Err(DeploymentError::Cluster { origin: "the flags".to_owned(), mistakes })
        }
    }
}

/// All tasks of the training: those of the configuration or, if it lists only some, as many as the
/// scenario says.
fn roster(config: &RunConfig, of_scenario: ClusterSpec) -> Result<ClusterSpec, DeploymentError> {
    let task = config.task();
    if !config.is_dynamic() {
        let listed = config.peers();
        return Ok(if listed.is_empty() { alone(task) } else { listed.clone() });
    }
    let strangers: Vec<TaskName> =
        config.peers().tasks().filter(|known| !of_scenario.contains(known)).collect();
    if of_scenario.contains(task) && strangers.is_empty() {
        return Ok(of_scenario);
    }
    let strangers: Vec<String> = strangers.iter().map(ToString::to_string).collect();
    let mistakes = format!(
        "tasks come and go in it, so that how many there are is the scenario's to say, and {} is \
         not among those; set it with --set cluster.worker=N",
        if strangers.is_empty() { task.to_string() } else { strangers.join(", ") }
    );
    Err(DeploymentError::Cluster { origin: "the cluster".to_owned(), mistakes })
}

/// The tasks whose addresses `config` knows.
fn known(config: &RunConfig) -> ClusterSpec {
    match config.peers().is_empty() {
        true => alone(config.task()),
        false => config.peers().clone(),
    }
}

/// A cluster of this task alone, which no other task has to find.
fn alone(task: &TaskName) -> ClusterSpec {
    ClusterSpec::dense([(task.job(), ["127.0.0.1:2222"])])
        .expect("one task at one address is a cluster")
}
