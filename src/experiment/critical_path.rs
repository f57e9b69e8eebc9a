//! What a run's time was spent on: from a simulation's critical paths, or from the waits that a
//! deployed run's workers have noted.

use std::collections::BTreeMap;

use crate::cluster::TaskName;
use crate::report::{CriticalPath, PathPart, TimeCause};
use crate::simulation::{self, Cluster, SpanKind};
use crate::training::StepStats;
use crate::units::Time;

/// The critical path of a simulated run of `steps` in `cluster`. Its first step began at `start`,
/// and it ended after `seconds`, both in seconds. None if no gradient was applied.
pub(super) fn simulated(
    path: &simulation::CriticalPathShares,
    cluster: &Cluster,
    steps: impl Iterator<Item = StepStats>,
    start: f64,
    seconds: f64,
) -> Option<CriticalPath> {
    if path.steps == 0 {
        return None;
    }
    let stepping = time_in_steps(steps.filter(|step| step.applied)).min(seconds - start);
    let mut causes = BTreeMap::new();
    let mut parts = Vec::new();
    let mut links: BTreeMap<String, f64> = BTreeMap::new();
    for ((task, part), share) in &path.shares {
        let (cause, name) = named(task, *part);
        let seconds = share * stepping;
        *causes.entry(cause).or_default() += seconds;
        parts.extend(name.map(|name| PathPart::new(name, cause, seconds)));
        if let Some(link) = own_link(task, *part, cluster) {
            *links.entry(link).or_default() += seconds;
        }
    }
    let links = links.into_iter();
    parts.extend(links.map(|(name, seconds)| PathPart::new(name, TimeCause::Links, seconds)));
    Some(with_start(causes, parts, start, seconds - start - stepping))
}

/// The time in which at least one of `steps` was under way \[s\].
fn time_in_steps(steps: impl Iterator<Item = StepStats>) -> f64 {
    let mut spans: Vec<(Time, Time)> = steps.map(|step| (step.started, step.ended)).collect();
    spans.sort_unstable();
    let (mut all, mut until) = (0.0, Time::ZERO);
    for (started, ended) in spans {
        all += ended.since(started.max(until)).as_secs_f64();
        until = until.max(ended);
    }
    all
}

/// The parts of tasks that a simulation's steps waited for so far, in words, each with its share of
/// their time; the greatest first.
pub(super) fn waited(path: &simulation::CriticalPathShares) -> Vec<(String, f64)> {
    let mut shares: BTreeMap<String, f64> = BTreeMap::new();
    for ((task, part), share) in &path.shares {
        let (cause, name) = named(task, *part);
        *shares.entry(name.unwrap_or_else(|| cause.name().to_owned())).or_default() += share;
    }
    let mut shares = Vec::from_iter(shares);
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

/// What the mean applied step of a simulation waited for: each cause with its time \[s\], the
/// greatest first.
pub(super) fn of_a_step(
    path: &simulation::CriticalPathShares,
    steps: impl Iterator<Item = StepStats>,
) -> Vec<(TimeCause, f64)> {
    let applied = steps.filter(|step| step.applied);
    let (count, all) = applied.fold((0.0, 0.0), |(count, all), step| {
        (count + 1.0, all + step.ended.since(step.started).as_secs_f64())
    });
    let mean = all / f64::max(count, 1.0);
    let mut causes: BTreeMap<TimeCause, f64> = BTreeMap::new();
    for ((task, part), share) in &path.shares {
        *causes.entry(named(task, *part).0).or_default() += share * mean;
    }
    let mut causes = Vec::from_iter(causes);
    causes.sort_by(|a, b| b.1.total_cmp(&a.1));
    causes
}

/// What a step's time is spent on, as [`StepStats::phases`] has it.
const PHASES: [TimeCause; 3] = [TimeCause::Parameters, TimeCause::Compute, TimeCause::Update];

/// The same as [`simulated`] for a deployed run, over the time of all steps whose gradients were
/// applied.
pub(super) fn deployed(
    steps: impl Iterator<Item = StepStats> + Clone,
    start: f64,
    seconds: f64,
) -> Option<CriticalPath> {
    let steps = steps.filter(|step| step.applied && step.ended > step.started);
    let length = |step: &StepStats| step.ended.since(step.started).as_secs_f64();
    let whole: f64 = steps.clone().map(|step| length(&step)).sum();
    let stepping = time_in_steps(steps.clone()).min(seconds - start);
    let mut causes = BTreeMap::new();
    for step in steps {
        for (cause, phase) in PHASES.into_iter().zip(step.phases()) {
            *causes.entry(cause).or_default() += phase.as_secs_f64() / whole * stepping;
        }
    }
    (whole > 0.0).then(|| with_start(causes, Vec::new(), start, seconds - start - stepping))
}

/// The path of a run that began its first step at `start`, and in which no step was under way for
/// `idle` thereafter, both in seconds.
fn with_start(
    mut causes: BTreeMap<TimeCause, f64>,
    parts: Vec<PathPart>,
    start: f64,
    idle: f64,
) -> CriticalPath {
    causes.insert(TimeCause::Start, start);
    *causes.entry(TimeCause::Other).or_default() += idle.max(0.0);
    causes.retain(|_, seconds| *seconds > 0.0);
    CriticalPath::new(causes, parts)
}

/// The name of the link over which `task` waited in `part`: one that it has with a single other
/// task, where no other kind of link than those of two tasks is in `cluster`.
fn own_link(task: &TaskName, part: SpanKind, cluster: &Cluster) -> Option<String> {
    let (hardware, network) = (&cluster.hardware, &cluster.hardware.network);
    let has_others =
        network.racks.is_some() || hardware.hosts.is_some() || !hardware.gpus.is_empty();
    if part != SpanKind::Link || has_others {
        return None;
    }
    let tasks: Vec<TaskName> = cluster.spec.tasks().collect();
    let own = network.links.iter().filter(|(_, own)| own.bandwidth.is_some());
    let mut peers = own.filter_map(|((from, to), _)| {
        let is_its = tasks.get(*to) == Some(task);
        tasks.get(*from).filter(|_| is_its)
    });
    let peer = peers.next().filter(|_| peers.next().is_none())?;
    let [one, other] = if task < peer { [task, peer] } else { [peer, task] };
    Some(format!("the link of {one} and {other}"))
}

/// The cause that a part of `task` belongs to, and the part's name if it is one to name.
fn named(task: &TaskName, part: SpanKind) -> (TimeCause, Option<String>) {
    let is_server = task.is_parameter_server();
    let of = |server, worker| if is_server { server } else { worker };
    match part {
        SpanKind::Kernels => {
            (of(TimeCause::ServerProcessor, TimeCause::Compute), Some(format!("{task}'s kernels")))
        }
        SpanKind::Straggling => (TimeCause::Stragglers, Some(format!("{task}'s straggling"))),
        SpanKind::MessageThread => (
            of(TimeCause::ServerProcessor, TimeCause::WorkerMessages),
            Some(format!("{task}'s message thread")),
        ),
        SpanKind::CardOut => (
            of(TimeCause::ServerCard, TimeCause::WorkerCard),
            Some(format!("{task}'s network card (sending)")),
        ),
        SpanKind::CardIn => (
            of(TimeCause::ServerCard, TimeCause::WorkerCard),
            Some(format!("{task}'s network card (receiving)")),
        ),
        SpanKind::Link => (TimeCause::Links, None),
        SpanKind::Latency => (TimeCause::Latency, None),
        SpanKind::Coordination => (TimeCause::Coordination, None),
        SpanKind::Other => (TimeCause::Other, None),
    }
}
