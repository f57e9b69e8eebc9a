//! The processes of a cluster: started with their sockets, certificates, roles and logs.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::Stdio;

use serde_json::json;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use super::faults::restarts;
use super::folder::Folder;
use super::relay::Relay;
use super::{Launch, VARIABLES};
use crate::cluster::{ClusterSpec, TaskName};
use crate::deployment::DeploymentError;
use crate::deployment::control::hand_over;
use crate::deployment::machine::cores;
use crate::transport::{Authority, CLIENT, Identity};

/// The processes of a cluster.
pub(super) struct Cluster {
    pub(super) members: Vec<Member>,
    /// The folder of a certificate for asking them for their status, if that is told of.
    pub(super) asker: Option<Folder>,
    pub(super) starter: Starter,
    /// Carries what the tasks send each other, if a fault is to disturb that.
    pub(super) relay: Option<Relay>,
}

/// What it takes to start a process of a cluster.
pub(super) struct Starter {
    /// By task: the cluster as the task is to know it.
    specs: Vec<ClusterSpec>,
    /// By task: its listening socket, as long as a process may have to be started with it.
    sockets: Vec<Option<UdpSocket>>,
    /// By task: its certificate and key. A process that is started again has the same, since only
    /// so can it tell peers that their connections are to its earlier life.
    identities: Vec<Identity>,
}

/// One process. It is killed when this value is dropped.
pub(super) struct Member {
    pub(super) task: TaskName,
    pub(super) child: Child,
    /// The connection on which it sends its events. Closing it asks the process to stop.
    pub(super) way: UnixStream,
}

/// Starts a process for each task.
///
/// # Errors
/// If the system refuses; the processes that were started are then stopped.
pub(super) fn start(order: &Launch) -> Result<Cluster, DeploymentError> {
    let authority = Authority::new(&order.run)?;
    let mut sockets = Vec::with_capacity(order.tasks.len());
    for _ in &order.tasks {
        sockets.push(
            UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
                .map_err(DeploymentError::system("open a socket"))?,
        );
    }
    let address =
        |socket: &UdpSocket| socket.local_addr().map_err(DeploymentError::system("open a socket"));
    let addresses = sockets.iter().map(address).collect::<Result<Vec<_>, _>>()?;
    let asker = order.status_of.as_ref().map(|_| asker(&authority)).transpose()?;
    let is_disturbed = order.faults.iter().any(|fault| !fault.kind.ways().is_empty());
    let relay = is_disturbed.then(|| Relay::new(&addresses)).transpose()?;
    let seen_by = |index| relay.as_ref().map_or(&*addresses, |relay| relay.seen_by(index));
    let specs = (0..order.tasks.len()).map(|index| cluster(&order.tasks, seen_by(index))).collect();
    let sockets = sockets.into_iter().map(Some).collect();
    let hosts = [Ipv4Addr::LOCALHOST.to_string()];
    let issue = |task| authority.issue(task, &hosts);
    let identities = order.tasks.iter().map(issue).collect::<Result<_, _>>()?;
    let mut starter = Starter { specs, sockets, identities };
    let mut members = Vec::with_capacity(order.tasks.len());
    for (index, task) in order.tasks.iter().enumerate() {
        let log = order.log(task);
        File::create(&log).map_err(DeploymentError::writing(log.display().to_string()))?;
        members.push(starter.start_again(order, index)?);
    }
    for (task, socket) in order.tasks.iter().zip(&mut starter.sockets) {
        let is_faulted = || order.faults.iter().any(|fault| restarts(&fault.kind, task));
        if order.max_restarts == 0 && !is_faulted() {
            *socket = None;
        }
    }
    Ok(Cluster { members, asker, starter, relay })
}

impl Starter {
    /// The address of the task `index`.
    pub(super) fn address(&self, index: usize, task: &TaskName) -> Option<&str> {
        self.specs[index].task_address(task).ok()
    }

    /// Starts the process of the task `index`, on the socket that it had before.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn start_again(
        &self,
        order: &Launch,
        index: usize,
    ) -> Result<Member, DeploymentError> {
        let task = &order.tasks[index];
        let socket = self.sockets[index].as_ref().expect("its socket is kept for a restart");
        let socket = socket.try_clone().map_err(DeploymentError::system("share a socket"))?;
        let identity = self.identities[index].clone();
        spawn(order, (task, &self.specs[index]), socket, identity)
    }
}

/// A folder with a certificate and its key, with which the user may ask tasks for their `status`.
/// The keys of tasks are in no file, where they would outlive a launcher that is killed. This one
/// may, until the next launch: it is of no use once the run is over.
fn asker(authority: &Authority) -> Result<Folder, DeploymentError> {
    let purpose = "trainyard-status";
    let asker = Folder::private(purpose)?;
    asker.remove_left_behind(purpose);
    let client = TaskName::new(CLIENT, 0);
    authority.issue(&client, &[])?.save(asker.path(), &client)?;
    Ok(asker)
}

/// The cluster of `tasks` at `addresses`.
fn cluster(tasks: &[TaskName], addresses: &[SocketAddr]) -> ClusterSpec {
    let mut jobs: Vec<(&str, Vec<(u32, String)>)> = Vec::new();
    for (task, address) in tasks.iter().zip(addresses) {
        let place = (task.index(), address.to_string());
        match jobs.iter_mut().find(|(job, _)| *job == task.job()) {
            Some((_, tasks)) => tasks.push(place),
            None => jobs.push((task.job(), vec![place])),
        }
    }
    ClusterSpec::sparse(jobs).expect("tasks of a cluster at addresses of their own are a cluster")
}

fn spawn(
    order: &Launch,
    (task, spec): (&TaskName, &ClusterSpec),
    socket: UdpSocket,
    identity: Identity,
) -> Result<Member, DeploymentError> {
    let failed = || DeploymentError::system(format!("start {task}"));
    let log = order.log(task);
    // The launcher and the process both write to it.
    let created = OpenOptions::new().append(true).open(&log);
    let log_file = created.map_err(DeploymentError::writing(log.display().to_string()))?;
    let (ours, theirs) = StdUnixStream::pair().map_err(failed())?;
    hand_over(identity, &ours).map_err(failed())?;
    ours.set_nonblocking(true).map_err(failed())?;
    let way = UnixStream::from_std(ours).map_err(failed())?;
    let role = json!({
        "cluster": spec.as_dict(),
        "task": {"type": task.job(), "index": task.index()},
    });
    let mut command = Command::new(&order.program);
    command.args(&order.arguments).arg("--launched");
    if order.board.is_some() {
        command.arg("--shown");
    }
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_variable_of_flag(name)) {
        command.env_remove(name); // they were for the launcher
    }
    command.args(order.tuning.arguments());
    if !order.program_arguments.is_empty() {
        command.arg("--").args(&order.program_arguments);
    }
    command
        .env("TF_CONFIG", role.to_string())
        .stdin(OwnedFd::from(socket))
        .stdout(OwnedFd::from(theirs));
    command.stderr(Stdio::from(log_file)).process_group(0).kill_on_drop(true);
    if std::env::var_os("RAYON_NUM_THREADS").is_none() {
        command.env("RAYON_NUM_THREADS", threads(order.tasks.len()).to_string());
    }
    let child = command.spawn().map_err(failed())?;
    Ok(Member { task: task.clone(), child, way })
}

fn is_variable_of_flag(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(VARIABLES.as_bytes())
}

/// The number of threads for each of `tasks` processes, so that together they have no more than
/// there are cores.
fn threads(tasks: usize) -> usize {
    (cores().get() / tasks.max(1)).max(1)
}
