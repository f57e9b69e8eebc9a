//! What a run's time was spent on: from a simulation's critical paths, or from the waits that a
//! deployed run's workers have noted.

mod deployed;

use std::collections::BTreeMap;

use crate::cluster::TaskName;
use crate::report::{CriticalPath, PathPart, TimeCause};
use crate::simulation::{self, Cluster, SpanKind, StepEnd};
use crate::training::StepStats;

pub(super) use self::deployed::deployed;

/// The time of a run, and whom its steps can wait for.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    /// When its first step began \[s\].
    pub(super) start: f64,
    /// When it ended \[s\].
    pub(super) seconds: f64,
    /// Whether workers don't wait for each other: then each has its own part in the run's speed.
    pub(super) workers_are_free: bool,
}

/// The critical path of a simulated run of `steps` in `cluster`. None if no gradient was applied.
pub(super) fn simulated(
    path: &simulation::CriticalPathShares,
    cluster: &Cluster,
    steps: impl Iterator<Item = StepStats> + Clone,
    run: Extent,
) -> Option<CriticalPath> {
    if path.laps == 0 {
        return None;
    }
    let stretches = Stretches::of(steps, run);
    let mut causes = BTreeMap::new();
    let mut parts = Vec::new();
    let mut links: BTreeMap<String, f64> = BTreeMap::new();
    for ((task, part), share) in &path.shares {
        let (cause, name) = named(task, *part);
        let seconds = share * stretches.training;
        *causes.entry(cause).or_default() += seconds;
        parts.extend(name.map(|name| PathPart::new(name, cause, seconds)));
        if let Some(link) = own_link(task, *part, cluster) {
            *links.entry(link).or_default() += seconds;
        }
    }
    let links = links.into_iter();
    parts.extend(links.map(|(name, seconds)| PathPart::new(name, TimeCause::Links, seconds)));
    Some(stretches.add_to(causes, parts))
}

/// The stretches of a run \[s\].
struct Stretches {
    /// Before the first step.
    start: f64,
    /// From then until the last gradient was applied.
    training: f64,
    /// From then until the last step ended, whose gradient came too late.
    late: f64,
    /// The rest.
    idle: f64,
}

impl Stretches {
    fn of(steps: impl Iterator<Item = StepStats>, run: Extent) -> Self {
        let Extent { start, seconds, .. } = run;
        let rest = (seconds - start).max(0.0);
        let (mut applied, mut end) = (start, start);
        for step in steps {
            let ended = step.ended.as_secs_f64();
            end = end.max(ended);
            if step.applied {
                applied = applied.max(ended);
            }
        }
        let training = (applied - start).min(rest);
        let late = (end - applied).min(rest - training);
        Self { start, training, late, idle: rest - training - late }
    }

    /// The path of the run whose laps have these `causes` and `parts`.
    fn add_to(&self, mut causes: BTreeMap<TimeCause, f64>, parts: Vec<PathPart>) -> CriticalPath {
        causes.insert(TimeCause::Start, self.start);
        causes.insert(TimeCause::LateSteps, self.late);
        *causes.entry(TimeCause::Other).or_default() += self.idle;
        causes.retain(|_, seconds| *seconds > 0.0);
        CriticalPath::new(causes, parts)
    }
}

/// How `step` ended, as the laps of its worker count it.
pub(super) fn how_ended(step: &StepStats) -> StepEnd {
    match step {
        StepStats { is_local: true, .. } => StepEnd::Local,
        StepStats { applied: true, .. } => StepEnd::Applied,
        StepStats { is_stopped: false, computed: None, .. } => StepEnd::GivenUp,
        _ => StepEnd::Dropped,
    }
}

/// The parts of tasks that a simulation's steps waited for so far, in words, each with its share of
/// their time; the greatest first.
pub(super) fn waited(path: &simulation::CriticalPathShares) -> Vec<(String, f64)> {
    let mut named_shares: BTreeMap<String, f64> = BTreeMap::new();
    for ((task, part), share) in &path.shares {
        let (cause, name) = named(task, *part);
        *named_shares.entry(name.unwrap_or_else(|| cause.name().to_owned())).or_default() += share;
    }
    let mut ranked = Vec::from_iter(named_shares);
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranked
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
    let in_steps = || path.shares.iter().filter(|((_, part), _)| *part != SpanKind::Pause);
    let all: f64 = in_steps().map(|(_, share)| share).sum();
    let mut causes: BTreeMap<TimeCause, f64> = BTreeMap::new();
    for ((task, part), share) in in_steps() {
        *causes.entry(named(task, *part).0).or_default() += share / all * mean;
    }
    let mut causes = Vec::from_iter(causes);
    causes.sort_by(|a, b| b.1.total_cmp(&a.1));
    causes
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
        SpanKind::CardsAndLinks => (TimeCause::Bandwidth, None),
        SpanKind::Latency => (TimeCause::Latency, None),
        SpanKind::Coordination => (TimeCause::Coordination, None),
        SpanKind::Fault => (TimeCause::Faults, None),
        SpanKind::Sleep | SpanKind::Pause => (TimeCause::Other, None),
    }
}
