//! `[cluster]`: the jobs and their tasks.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::Tasks;
use super::error::{ScenarioError, most_like};
use super::mistakes::Mistakes;
use super::synonyms;
use crate::cluster::{Endpoint, TaskName, parse_address};

/// The most tasks of a cluster: what each of more keeps of the others would be terabytes.
const MOST_TASKS: u64 = 100_000;

/// The cluster, with the mistakes in it; it `reduces` if it trains by all-reduce. Fails at once if
/// it has more tasks than any run can have: the rest of the scenario is made for each of them.
pub(super) fn cluster_of_size(
    file: Option<BTreeMap<String, Tasks>>,
    reduces: bool,
    origin: &str,
    text: Option<&str>,
) -> Result<(BTreeMap<String, Tasks>, Mistakes), ScenarioError> {
    let mut found = Mistakes::default();
    let cluster = cluster(file, reduces, &mut found);
    let total: u64 = cluster.values().map(|tasks| u64::from(tasks.count())).sum();
    if total <= MOST_TASKS {
        return Ok((cluster, found));
    }
    found.note("cluster", format!("{total} tasks are more than {MOST_TASKS}, the most of a run"));
    found.settle(origin, text).map(|()| (cluster, Mistakes::default()))
}

/// The cluster that is typed, or the default one, which has no parameter server if it `reduces`.
fn cluster(
    file: Option<BTreeMap<String, Tasks>>,
    reduces: bool,
    found: &mut Mistakes,
) -> BTreeMap<String, Tasks> {
    let Some(file) = file else {
        let servers = (!reduces).then(|| ("ps".to_owned(), Tasks::Count(1)));
        return servers.into_iter().chain([("worker".to_owned(), Tasks::Count(2))]).collect();
    };
    let has_workers = file.keys().any(|job| TaskName::new(job.as_str(), 0).is_of_workers());
    if !has_workers {
        let meant = most_like("worker", file.keys().map(String::as_str));
        let meant = meant.map(|job| format!("; is `{job}` meant to be it?")).unwrap_or_default();
        found.note("cluster", format!("no `worker` job, so nobody trains{meant}"));
    }
    let (mut cluster, mut first_at) = (BTreeMap::new(), BTreeMap::new());
    for (job, tasks) in file {
        let named = job.starts_with(|c: char| c.is_ascii_alphabetic());
        let named = named && job.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let path = if named { format!("cluster.{job}") } else { format!("cluster.\"{job}\"") };
        found.unless(named, &path, || {
            "a job's name is letters, digits and `_`, and begins with a letter".to_owned()
        });
        if let Some(meant) = mistaken_job(&job).filter(|meant| has_workers || *meant != "worker") {
            let duty = match meant {
                "ps" => "hold variables",
                "evaluator" => "evaluate",
                _ => "train",
            };
            found
                .note(&path, format!("the tasks of `{job}` would not {duty}; is `{meant}` meant?"));
        }
        found.unless(tasks.count() >= 1, &path, || {
            let instead = match job == "ps" {
                true if reduces => return NO_SERVERS.to_owned(),
                true => ", or train by `program.all_reduce`",
                false => "",
            };
            format!("a job has at least 1 task; remove it, or give it one{instead}")
        });
        if let Tasks::Addresses(addresses) = &tasks {
            check_addresses(&path, &job, addresses, &mut first_at, found);
        }
        cluster.insert(job, tasks);
    }
    check_chief(&cluster, found);
    cluster
}

/// Checks that there is at most one chief, under one of its two names.
fn check_chief(cluster: &BTreeMap<String, Tasks>, found: &mut Mistakes) {
    let count = |job: &str| cluster.get(job).map_or(0, Tasks::count);
    for job in ["chief", "master"] {
        found.unless(count(job) <= 1, format!("cluster.{job}"), || {
            format!("there can be one {job}, not {}; make the others workers", count(job))
        });
    }
    found.unless(count("chief") == 0 || count("master") == 0, "cluster.master", || {
        "`chief` and `master` are two names of one job; keep `chief`".to_owned()
    });
}

/// What is said of a job `ps` without tasks in a training by all-reduce.
const NO_SERVERS: &str = "an all-reduce has no parameter servers; remove the key, by \
                          `--unset cluster.ps`";

/// Checks the `addresses` of the job at `path`: each is a `host:port` that no other task has.
/// `first_at` has the tasks that are at an address already.
fn check_addresses(
    path: &str,
    job: &str,
    addresses: &[String],
    first_at: &mut BTreeMap<Endpoint, String>,
    found: &mut Mistakes,
) {
    for (index, address) in addresses.iter().enumerate() {
        let path = format!("{path}[{index}]");
        found.unless(is_host_and_port(address), &path, || {
            format!("`{address}` is no `host:port`; write, for example, `10.0.0.1:2222`")
        });
        let Ok(endpoint) = parse_address(address) else { continue };
        let task = format!("{job}:{index}");
        match first_at.entry(endpoint) {
            Entry::Vacant(free) => drop(free.insert(task)),
            Entry::Occupied(first) => found.note(
                path,
                format!(
                    "`{address}` is the address of {} already; give {task} another",
                    first.get()
                ),
            ),
        }
    }
}

/// The job that is meant by `job`, if that is most likely a slip of the pen.
fn mistaken_job(job: &str) -> Option<&'static str> {
    const JOBS: [&str; 5] = ["ps", "worker", "chief", "master", "evaluator"];
    if JOBS.contains(&job) {
        return None;
    }
    let in_lower_case = job.to_lowercase();
    let spelt = JOBS.into_iter().find(|known| *known == in_lower_case);
    let spelt = spelt.or_else(|| most_like(&in_lower_case, JOBS));
    spelt.or_else(|| synonyms::meant(job, &JOBS).filter(|meant| JOBS.contains(meant)))
}

fn is_host_and_port(address: &str) -> bool {
    let parts = address.rsplit_once(':');
    parts.is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}
