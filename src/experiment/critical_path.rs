//! What a run's time was spent on: from a simulation's critical paths, or from the waits that a
//! deployed run's workers have noted.

use std::collections::BTreeMap;

use crate::cluster::TaskName;
use crate::report::{CriticalPath, PathPart, TimeCause};
use crate::simulation::{self, Cluster, SpanKind};
use crate::training::StepStats;
use crate::units::Time;

/// The time of a run, and whom its steps can wait for.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    /// When its first step began \[s\].
    pub(super) start: f64,
    /// When it ended \[s\].
    pub(super) seconds: f64,
    /// Whether workers don't wait for each other: then each has its own part in the run's speed,
    /// and counts by the number of its steps. Else a step lasts as long as all of them wait.
    pub(super) workers_are_free: bool,
}

/// The critical path of a simulated run of `steps` in `cluster`. None if no gradient was applied.
pub(super) fn simulated(
    path: &simulation::CriticalPathShares,
    cluster: &Cluster,
    steps: impl Iterator<Item = StepStats> + Clone,
    run: Extent,
) -> Option<CriticalPath> {
    if path.steps == 0 {
        return None;
    }
    let stretches = Stretches::of(steps, run);
    let mut causes = BTreeMap::new();
    let mut parts = Vec::new();
    let mut links: BTreeMap<String, f64> = BTreeMap::new();
    for ((task, part), share) in shares(path, run.workers_are_free) {
        let (cause, name) = named(task, *part);
        let seconds = share * stretches.stepping;
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

/// The share of each part of a task, of a run whose workers wait for each other or don't.
fn shares(
    path: &simulation::CriticalPathShares,
    workers_are_free: bool,
) -> &BTreeMap<(TaskName, SpanKind), f64> {
    if workers_are_free { &path.shares_of_free_workers } else { &path.shares }
}

/// The stretches of a run \[s\].
struct Stretches {
    /// Before the first step.
    start: f64,
    /// While at least one applied step was under way.
    stepping: f64,
    /// From then until the last step ended, whose gradient came too late.
    late: f64,
    /// The rest.
    idle: f64,
}

impl Stretches {
    fn of(steps: impl Iterator<Item = StepStats> + Clone, run: Extent) -> Self {
        let Extent { start, seconds, .. } = run;
        let rest = (seconds - start).max(0.0);
        let applied = steps.clone().filter(|step| step.applied);
        let stepping = time_in_steps(applied.clone()).min(rest);
        let end = |steps: &mut dyn Iterator<Item = StepStats>| steps.map(|step| step.ended).max();
        let (last, end) = (end(&mut applied.clone()), end(&mut steps.clone()));
        let late = last.zip(end).map_or(0.0, |(last, end)| end.since(last).as_secs_f64());
        let late = late.min(rest - stepping);
        Self { start, stepping, late, idle: rest - stepping - late }
    }

    /// The path of the run whose steps have these `causes` and `parts`.
    fn add_to(&self, mut causes: BTreeMap<TimeCause, f64>, parts: Vec<PathPart>) -> CriticalPath {
        causes.insert(TimeCause::Start, self.start);
        causes.insert(TimeCause::LateSteps, self.late);
        *causes.entry(TimeCause::Other).or_default() += self.idle;
        causes.retain(|_, seconds| *seconds > 0.0);
        CriticalPath::new(causes, parts)
    }
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
pub(super) fn waited(
    path: &simulation::CriticalPathShares,
    workers_are_free: bool,
) -> Vec<(String, f64)> {
    let mut named_shares: BTreeMap<String, f64> = BTreeMap::new();
    for ((task, part), share) in shares(path, workers_are_free) {
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
    run: Extent,
) -> Option<CriticalPath> {
    let stretches = Stretches::of(steps.clone(), run);
    let steps = steps.filter(|step| step.applied && step.ended > step.started);
    let mut of_workers: BTreeMap<Option<TaskName>, (f64, [f64; 3])> = BTreeMap::new();
    for step in steps {
        let phases = step.phases().map(|phase| phase.as_secs_f64());
        let worker = run.workers_are_free.then_some(step.worker);
        let (number, all) = of_workers.entry(worker).or_default();
        *number += 1.0;
        all.iter_mut().zip(phases).for_each(|(all, phase)| *all += phase);
    }
    let number: f64 = of_workers.values().map(|(number, _)| number).sum();
    let mut causes = BTreeMap::new();
    for (of_worker, phases) in of_workers.values() {
        let weight = of_worker / number / phases.iter().sum::<f64>();
        for (cause, phase) in PHASES.into_iter().zip(phases) {
            *causes.entry(cause).or_default() += weight * phase * stretches.stepping;
        }
    }
    (number > 0.0).then(|| stretches.add_to(causes, Vec::new()))
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
        SpanKind::Sleep => (TimeCause::Other, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Extent = Extent { start: 0.0, seconds: 10.0, workers_are_free: true };

    /// A step of `worker` that computes for so many of its seconds; times in seconds.
    fn step(worker: u32, from: u64, until: u64, computing: u64) -> StepStats {
        let at = |seconds: u64| Time(seconds * 1_000_000_000);
        let computed = Some((at(from), at(from + computing)));
        let times = (at(from), at(until));
        StepStats { computed, ..StepStats::applied(worker, (from, from), times) }
    }

    #[test]
    fn a_deployed_worker_counts_by_its_steps_where_none_waits_for_another() {
        let fast = (0..9).map(|number| step(0, number, number + 1, 0));
        let steps = fast.chain([step(1, 0, 10, 10)]);
        let of = |run: Extent| deployed(steps.clone(), run).unwrap();
        let waits = Extent { workers_are_free: false, ..FREE };
        let computing = |run: Extent| of(run).share(TimeCause::Compute);
        assert!((computing(FREE) - 0.1).abs() < 1e-9, "{:?}", of(FREE));
        assert!((computing(waits) - 10.0 / 19.0).abs() < 1e-9, "{:?}", of(waits));
    }

    #[test]
    fn what_is_under_way_after_the_last_applied_gradient_is_a_late_workers_last_step() {
        let vain = StepStats { applied: false, ..step(1, 2, 9, 7) };
        let path = deployed([step(0, 1, 4, 3), vain].into_iter(), Extent { start: 1.0, ..FREE });
        let expected = [
            (TimeCause::Start, 1.0),
            (TimeCause::Compute, 3.0),
            (TimeCause::LateSteps, 5.0),
            (TimeCause::Other, 1.0),
        ];
        assert_eq!(path.unwrap().causes, BTreeMap::from(expected));
    }
}
