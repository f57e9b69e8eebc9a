//! What a task is to do: its run, its role, its cluster, and what it proves with who it is.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;

use crate::cli::args::TaskArgs;
use crate::cli::failure::Failure;
use crate::cli::role;
use crate::cluster::{ClusterSpec, RunConfig, TaskName};
use crate::experiment::{ExperimentError, Trial};
use crate::transport::{Authority, Identity, QuicConfig, RunId};

/// One task's part in a run.
pub(super) struct Plan {
    /// Its cluster has all tasks, be their addresses known or not.
    pub(super) trial: Trial,
    pub(super) task: TaskName,
    /// Whether it is told of some tasks only.
    pub(super) is_dynamic: bool,
    /// A socket to listen on, where one was handed over.
    pub(super) socket: Option<UdpSocket>,
    /// The tasks whose addresses are known.
    pub(super) known: ClusterSpec,
    /// Whether there is no cluster but this task.
    is_alone: bool,
    chief: Option<TaskName>,
    run_id: RunId,
    identity: Identity,
}

impl Plan {
    /// What `args` and the environment ask for; none for an evaluator, which trains nothing.
    ///
    /// # Errors
    /// Every mistake in the cluster and the role; what is missing.
    pub(super) fn new(args: &TaskArgs) -> Result<Option<Self>, Failure> {
        let experiment = args.scenario.experiment()?;
        let scenario = &experiment.scenarios()?[0].1;
        let config = role::require(&args.role, scenario)?;
        role::warn(&config);
        let task = config.task().clone();
        if task.job() == "evaluator" {
            return Ok(None);
        }
        let mut trial = only(experiment.trials()?)?;
        trial.cluster.spec = roster(&config, trial.cluster.spec)?;
        let known = if config.cluster_spec().is_empty() {
            alone(&task)
        } else {
            config.cluster_spec().clone()
        };
        let identity = identity(args.certs.as_deref(), &task, config.cluster_spec().is_empty())?;
        let chief = trial.cluster.spec.tasks().find(|task| task.job() != "ps");
        Ok(Some(Self {
            chief,
            identity,
            run_id: RunId::new(args.run_name.clone().unwrap_or_else(|| trial.scenario.clone())),
            is_alone: config.cluster_spec().is_empty(),
            is_dynamic: config.is_dynamic(),
            socket: None,
            trial,
            task,
            known,
        }))
    }

    /// Whether the task leads the training and reports it.
    pub(super) fn is_chief(&self) -> bool {
        self.chief.as_ref() == Some(&self.task)
    }

    /// What the transport needs. The socket can be had once.
    pub(super) fn network(&mut self) -> QuicConfig {
        let identity = self.identity.clone();
        let config =
            QuicConfig::new(self.known.clone(), self.task.clone(), self.run_id.clone(), identity);
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listen = self.is_alone.then_some(anywhere);
        QuicConfig { socket: self.socket.take(), listen, ..config }
    }
}

/// What `task` proves with who it is; where it `is_alone`, nobody asks.
fn identity(folder: Option<&Path>, task: &TaskName, is_alone: bool) -> Result<Identity, Failure> {
    match folder {
        Some(folder) => Ok(Identity::load(folder, task)?),
        None if is_alone => Ok(Authority::new("alone")?.issue(task, &[])?),
        None => {
            let mistakes = format!(
                "every task proves who it is: give --certs DIR with the certificate of {task}; \
                 `trainyard certs new DIR` and `trainyard certs issue DIR --task {task}` make it"
            );
            Err(Failure::Cluster { origin: "the flags".to_owned(), mistakes })
        }
    }
}

/// The only one of `trials`.
fn only(mut trials: Vec<Trial>) -> Result<Trial, Failure> {
    match trials.len() {
        1 => Ok(trials.remove(0)),
        _ => {
            let runs = trials.into_iter().map(|trial| trial.name).collect();
            Err(ExperimentError::SeveralRuns { runs }.into())
        }
    }
}

/// All tasks of the training: those of the configuration or, where this task is told of some only,
/// as many as the scenario says.
fn roster(config: &RunConfig, of_scenario: ClusterSpec) -> Result<ClusterSpec, Failure> {
    let task = config.task();
    if !config.is_dynamic() {
        return Ok(if config.cluster_spec().is_empty() {
            alone(task)
        } else {
            config.cluster_spec().clone()
        });
    }
    let strangers: Vec<TaskName> =
        config.cluster_spec().tasks().filter(|known| !of_scenario.contains(known)).collect();
    if of_scenario.contains(task) && strangers.is_empty() {
        return Ok(of_scenario);
    }
    let strangers: Vec<String> = strangers.iter().map(ToString::to_string).collect();
    let mistakes = format!(
        "tasks come and go in it, so that how many there are is the scenario's to say, and {} is \
         not among those; set it with --set cluster.worker=N",
        if strangers.is_empty() { task.to_string() } else { strangers.join(", ") }
    );
    Err(Failure::Cluster { origin: "the cluster".to_owned(), mistakes })
}

/// A cluster of this task alone, which nobody else has to find.
fn alone(task: &TaskName) -> ClusterSpec {
    ClusterSpec::dense([(task.job(), ["127.0.0.1:2222"])])
        .expect("one task at one address is a cluster")
}
