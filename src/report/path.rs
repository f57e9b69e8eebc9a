//! The critical path of a run: what its time was spent on, by cause and by part of a task.
//!
//! In a simulation it is known whom each worker waited for at each time: the chain of causes that
//! ended last. The run's path is the mean of its workers' paths. A deployed worker only knows its
//! own waits: for its parameters, and for its update.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Run, TaskUsage};
use crate::cluster::TaskName;

/// A cause of a run's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TimeCause {
    /// The time before the first training step.
    Start,
    /// Kernels of workers, as long as they take without straggling.
    Compute,
    /// The time by which kernels took longer than on average: a law drew it, the task is slow, a
    /// fault slowed it, or noise interrupted it.
    Stragglers,
    /// Network cards of parameter servers.
    ServerCard,
    /// Message threads and kernels of parameter servers.
    ServerProcessor,
    /// Network cards of workers.
    WorkerCard,
    /// Message threads of workers.
    WorkerMessages,
    /// Uplinks of racks, loopbacks, links of two tasks.
    Links,
    /// Several network cards or links at once: one kind of them alone, made faster, would wait for
    /// the others.
    Bandwidth,
    /// The latency of messages with parameters, gradients or other numbers.
    Latency,
    /// The latency of all other messages: orders, votes, acknowledgements.
    Coordination,
    /// What faults delay: the news of a lost task, messages that are held back, a task that stands
    /// still; in a deployed run also the way back after a loss.
    Faults,
    /// The last steps of workers that were late: what was under way after the last gradient was
    /// applied.
    LateSteps,
    /// Sleeps, and what is done between two steps: evaluations, checkpoints, in a simulation also
    /// the way back from a crash.
    Other,
    /// Any wait for parameters before and between the kernels, in a deployed run.
    Parameters,
    /// Any wait after the kernels until the step is done, in a deployed run.
    Update,
}

/// What the time of a run was spent on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CriticalPath {
    /// The seconds of each cause, which add up to the run's. A cause without any is left out.
    pub causes: BTreeMap<TimeCause, f64>,
    /// The parts of tasks that took most of it, the first the most. None of a deployed run.
    pub parts: Vec<PathPart>,
    /// Whether a slow worker costs the others no time, so that stragglers limit the run as all
    /// kernels do.
    #[serde(skip)]
    pub workers_are_free: bool,
    /// What the run has that holds its steps up.
    #[serde(skip)]
    pub pauses: Pauses,
}

/// What a run has that holds its steps up, as far as something can be done about it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Pauses {
    /// Looks at the test split before its end.
    pub looks: bool,
    /// The key of the scenario that says how often it writes checkpoints; none if it writes none.
    pub checkpoints: Option<&'static str>,
    /// Faults that happened.
    pub faults: bool,
    /// Whether its mode takes backup workers.
    pub takes_backups: bool,
}

/// A part of a task on the critical path.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PathPart {
    /// The part, in words: `ps:3's network card (sending)`.
    pub name: String,
    /// The cause that it belongs to.
    pub cause: TimeCause,
    /// Its time \[s\].
    pub seconds: f64,
}

/// What took most of a path's time.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Bottleneck {
    /// The cause; [`TimeCause::Latency`] stands for that of coordination, too,
    /// [`TimeCause::Compute`] for stragglers where a slow worker costs the others no time, and
    /// [`TimeCause::Bandwidth`] for all cards and links where most of them are full together.
    pub cause: TimeCause,
    /// Its share of the time.
    pub share: f64,
    /// The one part that took more than half of that, in words, with its own share of the time.
    pub part: Option<(String, f64)>,
}

/// The causes that are cards or links of one kind.
const SINGLE_LINKS: [TimeCause; 3] =
    [TimeCause::ServerCard, TimeCause::WorkerCard, TimeCause::Links];

/// The most parts of a path that are listed.
const MOST_PARTS: usize = 20;

impl CriticalPath {
    /// The path with these times.
    pub fn new(causes: BTreeMap<TimeCause, f64>, mut parts: Vec<PathPart>) -> Self {
        parts.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        parts.truncate(MOST_PARTS);
        Self { causes, parts, workers_are_free: false, pauses: Pauses::default() }
    }

    /// The time of all of it \[s\].
    pub fn seconds(&self) -> f64 {
        self.causes.values().sum()
    }

    /// The share of a cause.
    pub fn share(&self, cause: TimeCause) -> f64 {
        self.causes.get(&cause).map_or(0.0, |seconds| seconds / self.seconds())
    }

    /// The causes with their shares, the greatest first.
    pub(super) fn ranked(&self) -> Vec<(TimeCause, f64)> {
        let mut all: Vec<(TimeCause, f64)> =
            self.causes.keys().map(|cause| (*cause, self.share(*cause))).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }

    /// What took most of the time. None of an empty path.
    pub fn bottleneck(&self) -> Option<Bottleneck> {
        let mut shares = BTreeMap::new();
        for cause in self.causes.keys() {
            *shares.entry(self.remedied_as(*cause)).or_insert(0.0) += self.share(*cause);
        }
        let (cause, share) = shares.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Bottleneck { cause, share, part: self.one_part(cause, share) })
    }

    /// The cause that stands for `cause`, too, as both have one remedy: all latency is one
    /// network's, a straggler that nobody waits for is only a longer kernel, and cards that are
    /// mostly full together are made faster together.
    fn remedied_as(&self, cause: TimeCause) -> TimeCause {
        match cause {
            TimeCause::Coordination => TimeCause::Latency,
            TimeCause::Stragglers if self.workers_are_free => TimeCause::Compute,
            cause if SINGLE_LINKS.contains(&cause) && self.links_are_one() => TimeCause::Bandwidth,
            _ => cause,
        }
    }

    /// Whether cards and links are full together for longer than any kind of them alone.
    fn links_are_one(&self) -> bool {
        let most = SINGLE_LINKS.into_iter().map(|cause| self.share(cause)).fold(0.0, f64::max);
        self.share(TimeCause::Bandwidth) > most
    }

    /// What faster cards and links of all kinds would save, where `cause` is one kind of them, and
    /// others are soon as full.
    fn with_all_links(&self, cause: TimeCause) -> Option<String> {
        let is_more = SINGLE_LINKS.contains(&cause) && self.share(TimeCause::Bandwidth) > 0.05;
        let all = SINGLE_LINKS.into_iter().chain([TimeCause::Bandwidth]);
        let share: f64 = all.map(|cause| self.share(cause)).sum();
        is_more.then(|| format!(" ({:.0} % with all cards and links)", 50.0 * share))
    }

    /// The path without the time of `causes`.
    #[must_use]
    pub fn without(mut self, causes: &[TimeCause]) -> Self {
        self.causes.retain(|cause, _| !causes.contains(cause));
        self
    }

    /// The one part that takes more than half of the `share` of `cause`, with its own share. Of
    /// kernels none is named: a step waits for one worker, though all compute alike.
    fn one_part(&self, cause: TimeCause, share: f64) -> Option<(String, f64)> {
        let part = self.parts.iter().find(|part| part.cause == cause)?;
        let own = part.seconds / self.seconds();
        let is_most = cause != TimeCause::Compute && 2.0 * own > share;
        is_most.then(|| (part.short_name(), own))
    }
}

impl PathPart {
    /// A part of a path.
    pub fn new(name: String, cause: TimeCause, seconds: f64) -> Self {
        Self { name, cause, seconds }
    }

    /// Its name beside that of its cause: `ps:3's, sending` of network cards.
    fn short_name(&self) -> String {
        let card = self.name.strip_suffix(')').and_then(|name| name.split_once(" network card ("));
        card.map_or_else(|| self.name.clone(), |(whose, way)| format!("{whose}, {way}"))
    }
}

impl Run {
    /// What limits the run, and what to do about it: the cause that took most of its time. None
    /// where no step was taken.
    pub fn limit(&self) -> Option<String> {
        let path = self.critical_path.as_ref()?;
        let Bottleneck { cause, share, part } = path.bottleneck()?;
        // The list of causes has the two apart.
        let with = match cause {
            _ if path.share(cause) == share => "",
            TimeCause::Latency => " and that of coordination together",
            TimeCause::Bandwidth => " or alone",
            _ => " and stragglers together",
        };
        // On a faster processor stragglers lose less time, too.
        let quickened = match cause {
            TimeCause::Compute => path.share(cause) + path.share(TimeCause::Stragglers),
            _ => share,
        };
        let [percent, quickened] = [share, quickened].map(|share| 100.0 * share);
        let stragglers =
            (quickened - percent > 0.5).then(|| format!(" ({quickened:.0} % with stragglers)"));
        let part = part.map(|(name, own)| format!(" ({:.0} % {name})", 100.0 * own));
        let name = match cause {
            TimeCause::Other => path.pauses.name(),
            cause => cause.name().to_owned(),
        };
        Some(format!(
            "limited by {name}{with}, {percent:.0} % of the time{}; at twice the speed, the run \
             would be about {:.0} % shorter{}: {}",
            part.or(stragglers).unwrap_or_default(),
            quickened / 2.0,
            path.with_all_links(cause).unwrap_or_default(),
            self.advice(cause, path.pauses)
        ))
    }

    /// What makes `cause` less in this run: more servers don't where one has most of the bytes.
    fn advice(&self, cause: TimeCause, pauses: Pauses) -> String {
        match (cause, self.crowded_server()) {
            (TimeCause::ServerCard, Some(server)) => format!(
                "{server} has most of the bytes; cut its variables into parts \
                 (`program.partitioner`), or take faster network cards or compression"
            ),
            (TimeCause::Faults, _) if pauses.takes_backups => {
                cause.advice().to_owned() + ", or backup workers, so that no round waits for it"
            }
            (TimeCause::Other, _) => pauses.advice(),
            _ => cause.advice().to_owned(),
        }
    }

    /// The parameter server whose network card is busy for twice as long as those of the others on
    /// average, if there is one.
    fn crowded_server(&self) -> Option<&TaskName> {
        let busy = |usage: &TaskUsage| usage.card_out.max(usage.card_in);
        let servers = self.usage.iter().filter(|(task, _)| task.is_parameter_server());
        let (count, all) =
            servers.clone().fold((0.0, 0.0), |(count, all), it| (count + 1.0, all + busy(it.1)));
        let (server, most) = servers
            .map(|(task, usage)| (task, busy(usage)))
            .max_by(|a, b| a.1.total_cmp(&b.1).then_with(|| b.0.cmp(a.0)))?;
        (count > 1.0 && most * (count - 1.0) > 2.0 * (all - most)).then_some(server)
    }
}

impl Pauses {
    /// What the time beside the steps was spent on, in words.
    fn name(self) -> String {
        let checkpoints = self.checkpoints.map(|_| "checkpoints");
        let way_back = self.faults.then_some("the way back from faults");
        let middle = [Some("evaluations"), checkpoints, way_back].into_iter().flatten();
        format!("{} and sleeps", middle.collect::<Vec<_>>().join(", "))
    }

    /// What makes it less.
    fn advice(self) -> String {
        let looks = "fewer evaluations (`stop.evaluate_every`, `stop.evaluate_every_samples`)";
        let checkpoints = self.checkpoints.map(|key| format!("fewer checkpoints (`{key}`)"));
        let own = if self.faults { "look at its faults and timers" } else { "look at its timers" };
        let parts = [self.looks.then(|| looks.to_owned()), checkpoints, Some(own.to_owned())];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; or ")
    }
}

impl TimeCause {
    /// Its name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "the start, before the first step",
            Self::Compute => "the workers' kernels",
            Self::Stragglers => "stragglers",
            Self::ServerCard => "the parameter servers' network cards",
            Self::ServerProcessor => "the parameter servers' processors",
            Self::WorkerCard => "the workers' network cards",
            Self::WorkerMessages => "the workers' message threads",
            Self::Links => "links between network cards",
            Self::Bandwidth => "network cards and links that are full together",
            Self::Latency => "the network's latency",
            Self::Coordination => "coordination: the latency of orders, votes and answers",
            Self::Faults => "faults",
            Self::LateSteps => "late workers' last steps",
            Self::Other => "evaluations, checkpoints and sleeps",
            Self::Parameters => "waiting for parameters",
            Self::Update => "waiting for updates",
        }
    }

    /// What makes it less.
    fn advice(self) -> &'static str {
        match self {
            Self::Start => "train for longer, and it matters less",
            Self::Compute => "faster processors, or more workers with smaller batches",
            Self::Stragglers => "backup workers, an asynchronous mode, or equal machines",
            Self::ServerCard => "more parameter servers, faster network cards, or compression",
            Self::ServerProcessor => "more parameter servers, or fewer and larger variables",
            Self::WorkerCard => "faster network cards of workers, or compression",
            Self::WorkerMessages => "fewer parameter servers, or fewer and larger variables",
            Self::Links => "faster links, or tasks that talk in one rack",
            Self::Bandwidth => {
                "faster network cards of all tasks, or compression; those of one job alone would \
                 save less"
            }
            Self::Latency => "a network with less latency, larger batches, or local steps",
            Self::Coordination => "a network with less latency, larger batches, or local steps",
            Self::Faults => "a shorter `network.silence`, by which a lost task is noticed sooner",
            Self::LateSteps => "train for longer, and they matter less",
            Self::Other => "look at its timers",
            Self::Parameters | Self::Update => {
                "`launch --compare` or `sim` says which part of the cluster is waited for"
            }
        }
    }
}
