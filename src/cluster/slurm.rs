//! SLURM's variables: the hosts of a job step, and the rank of this process.
//!
//! The first ranks are the parameter servers, the others the workers, as with TensorFlow's
//! `SlurmClusterResolver` (jobs by name). Ranks fill the hosts one after the other: SLURM's own
//! order, unless `srun --distribution` sets another, which is refused.

mod host_list;
#[cfg(test)]
mod tests;

use super::config_error::Problems;
use super::job_name::parse_index;
use super::task_config::{Paths, TaskConfig};
use super::validator::Validator;
use super::{ConfigErrors, ConfigProblem, MAX_TASKS};

use host_list::{expand_hosts, expand_tasks};

const RANK: &str = "SLURM_PROCID";
const TASKS: &str = "SLURM_NTASKS";
const HOSTS: &str = "SLURM_STEP_NODELIST";
const TASKS_PER_NODE: &str = "SLURM_STEP_TASKS_PER_NODE";
const JOB: &str = "SLURM_JOB_ID";
const HOST: &str = "SLURM_NODEID";
const PLACE: &str = "SLURM_LOCALID";

/// The ports from which those of jobs are, at most: systems assign others by themselves.
const PORTS: std::ops::Range<u32> = 10_000..30_000;

/// The values of the variables that `srun` sets; `None` for those that are not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slurm {
    /// `SLURM_PROCID`: the rank of this process.
    pub rank: Option<String>,
    /// `SLURM_NTASKS`: the number of ranks.
    pub tasks: Option<String>,
    /// `SLURM_STEP_NODELIST`, else `SLURM_JOB_NODELIST`: the hosts, as in `n[1-3,7],gpu04`.
    pub hosts: Option<String>,
    /// `SLURM_STEP_TASKS_PER_NODE`, else `SLURM_TASKS_PER_NODE`: ranks on each of them, as in
    /// `2(x3),1`.
    pub tasks_per_node: Option<String>,
    /// `SLURM_JOB_ID`: the job's number, from which the ports are derived.
    pub job: Option<String>,
    /// `SLURM_NODEID`: the number of this process's host.
    pub host: Option<String>,
    /// `SLURM_LOCALID`: the number of this process on its host.
    pub place: Option<String>,
    names: Names,
}

/// The names of the variables that have been read, of those that say the same.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Names {
    tasks: &'static str,
    hosts: &'static str,
    tasks_per_node: &'static str,
}

impl Default for Names {
    fn default() -> Self {
        Self { tasks: TASKS, hosts: HOSTS, tasks_per_node: TASKS_PER_NODE }
    }
}

impl Slurm {
    /// Reads the variables with `variable`; an empty one counts as not set.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let mut names = Names::default();
        let either = |name: &mut &'static str, of_step: &'static str, of_job: &'static str| {
            let (found, value) =
                [of_step, of_job].into_iter().find_map(|name| Some((name, value(name)?)))?;
            *name = found;
            Some(value)
        };
        Self {
            rank: value(RANK),
            tasks: either(&mut names.tasks, "SLURM_STEP_NUM_TASKS", TASKS),
            hosts: either(&mut names.hosts, HOSTS, "SLURM_JOB_NODELIST"),
            tasks_per_node: either(
                &mut names.tasks_per_node,
                TASKS_PER_NODE,
                "SLURM_TASKS_PER_NODE",
            ),
            job: value(JOB),
            host: value(HOST),
            place: value(PLACE),
            names,
        }
    }

    /// Whether `srun` started this process.
    pub fn is_there(&self) -> bool {
        self.rank.is_some()
    }

    /// The first port on each host: the same for all ranks of a job. Of up to 10 ranks a host, 2000
    /// consecutive jobs have others; of more, as many as there are ports for.
    fn port_base(&self, per_host: &[u32], problems: &mut Problems) -> u16 {
        let Some(job) = &self.job else { return PORTS.start as u16 };
        let job = number(JOB, Some(job), problems).unwrap_or(0);
        let most = per_host.iter().copied().max().unwrap_or(1).clamp(1, PORTS.len() as u32);
        let span = most.next_multiple_of(10);
        (PORTS.start + job % (PORTS.len() as u32 / span) * span) as u16
    }

    /// Checks that this process is where `rank` is, if each host has as many as `per_host` says and
    /// ranks fill them one after the other.
    fn check_place(&self, rank: u32, per_host: &[u32], problems: &mut Problems) {
        let (mut host, mut place) = (0, rank);
        while per_host.get(host as usize).is_some_and(|count| place >= *count) {
            place -= per_host[host as usize];
            host += 1;
        }
        for (name, found, expected) in [(HOST, &self.host, host), (PLACE, &self.place, place)] {
            let found = found.as_deref().and_then(|found| parse_index(found.trim()));
            if let Some(found) = found.filter(|found| *found != expected) {
                let problem = format!(
                    "is {found}, but {expected} of rank {rank} if ranks fill the hosts one after \
                     the other: start them with `srun --distribution=block`"
                );
                problems.add(name, ConfigProblem::Unfit(problem));
            }
        }
    }
}

impl TaskConfig {
    /// Reads SLURM's variables, and finds the mistakes in the addresses that follow.
    ///
    /// # Errors
    /// Every variable that is missing or wrong, and ranks that don't fit the hosts.
    pub(super) fn read_slurm(
        slurm: &Slurm,
        ps: u32,
        port_base: Option<u16>,
    ) -> Result<(Self, Problems), ConfigErrors> {
        let mut problems = Problems::default();
        let rank = number(RANK, slurm.rank.as_deref(), &mut problems);
        let tasks = number(slurm.names.tasks, slurm.tasks.as_deref(), &mut problems);
        let hosts = read(slurm.names.hosts, slurm.hosts.as_deref(), expand_hosts, &mut problems);
        let per_host = match (&slurm.tasks_per_node, &hosts, tasks) {
            // With as many hosts as ranks, there is one rank a host.
            (None, Some(hosts), Some(tasks)) if hosts.len() == tasks as usize => {
                Some(vec![1; hosts.len()])
            }
            (text, ..) => {
                let name = slurm.names.tasks_per_node;
                read(name, text.as_deref(), expand_tasks, &mut problems)
            }
        };
        let (Some(rank), Some(tasks), Some(hosts), Some(per_host)) = (rank, tasks, hosts, per_host)
        else {
            problems.finish()?;
            unreachable!("a missing variable is a problem");
        };
        let base = port_base.unwrap_or_else(|| slurm.port_base(&per_host, &mut problems));
        check((rank, tasks, ps), &hosts, &per_host, &slurm.names, &mut problems);
        slurm.check_place(rank, &per_host, &mut problems);
        check_ports(base, &per_host, slurm.names.tasks_per_node, &mut problems);
        problems.finish()?;

        let mut problems = Problems::default();
        let mut validator = Validator::new(&mut problems);
        validator.job("--ps".to_owned(), "ps");
        validator.job(slurm.names.tasks.to_owned(), "worker");
        let addresses = hosts.iter().zip(&per_host).flat_map(|(host, count)| {
            (0..*count).map(move |local| format!("{host}:{}", u32::from(base) + local))
        });
        for (rank, address) in (0..).zip(addresses) {
            let (job, index) = role(rank, ps);
            validator.task(format!("rank {rank}"), job, index, &address);
        }
        let (job, index) = role(rank, ps);
        let config = Self {
            cluster: validator.finish(),
            task_type: Some(job.to_owned()),
            task_index: Some(index),
            paths: Paths { cluster: slurm.names.hosts, task_type: RANK, task_index: RANK },
            ..Self::default()
        };
        Ok((config, problems))
    }
}

/// The job and the index of the task of `rank`.
fn role(rank: u32, ps: u32) -> (&'static str, u32) {
    if rank < ps { ("ps", rank) } else { ("worker", rank - ps) }
}

/// Checks that the numbers are consistent.
fn check(
    (rank, tasks, ps): (u32, u32, u32),
    hosts: &[String],
    per_host: &[u32],
    names: &Names,
    problems: &mut Problems,
) {
    let listed: u64 = per_host.iter().map(|count| u64::from(*count)).sum();
    if per_host.len() != hosts.len() {
        let problem =
            format!("is for {} hosts, but {} has {}", per_host.len(), names.hosts, hosts.len());
        problems.add(names.tasks_per_node, ConfigProblem::Unfit(problem));
    } else if listed != u64::from(tasks) {
        let problem = format!("is for {listed} ranks, but {} is {tasks}", names.tasks);
        problems.add(names.tasks_per_node, ConfigProblem::Unfit(problem));
    }
    if rank >= tasks {
        problems
            .add(RANK, ConfigProblem::Unfit(format!("is {rank}, but {} is {tasks}", names.tasks)));
    }
    if tasks > MAX_TASKS {
        problems.add(names.tasks, ConfigProblem::TooManyTasks(tasks.into()));
    }
    if ps >= tasks {
        let problem = format!(
            "is {tasks}: with {ps} parameter servers no rank is left for a worker; ask for more"
        );
        problems.add(names.tasks, ConfigProblem::Unfit(problem));
    }
}

/// Checks that each host has ports for its ranks, from `base` on.
fn check_ports(base: u16, per_host: &[u32], name: &str, problems: &mut Problems) {
    let ports = u32::from(u16::MAX - base) + 1;
    if let Some(most) = per_host.iter().max().filter(|most| **most > ports) {
        let problem = format!(
            "has {most} ranks on one host, which needs a port for each, and from {base} on has \
             {ports}; start fewer there, or name a lower `--port-base`"
        );
        problems.add(name, ConfigProblem::Unfit(problem));
    }
}

fn number(name: &str, text: Option<&str>, problems: &mut Problems) -> Option<u32> {
    let parse = |text: &str| {
        let wrong = || ConfigProblem::Type {
            expected: "a whole number from 0",
            found: format!("the text {text:?}"),
        };
        parse_index(text.trim()).ok_or_else(wrong)
    };
    read(name, text, parse, problems)
}

fn read<T>(
    name: &str,
    text: Option<&str>,
    parse: impl FnOnce(&str) -> Result<T, ConfigProblem>,
    problems: &mut Problems,
) -> Option<T> {
    let parsed = text.ok_or(ConfigProblem::NotSet).and_then(parse);
    parsed.map_err(|problem| problems.add(name, problem)).ok()
}
