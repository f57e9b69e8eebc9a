//! Tasks that are asked to stop, the processes that end in good order, and when they start again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::effects::{FaultEffect, FaultEvent};
use super::{FaultInjector, schedule};
use crate::runtime::STOP_GRACE;
use crate::simulation::connections::Connections;
use crate::transport::Loss;
use crate::units::Time;

/// The last request to stop that a task was given.
#[derive(Clone, Copy)]
struct Request {
    restart_after: Option<Duration>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The task hears of it once it is not frozen.
    Postponed,
    /// The life that was asked has yet to end.
    UnderWay,
    Over,
}

/// A task that has ended because a parameter server was asked to stop, and starts again once that
/// one has ended, too.
struct Waiting {
    task: usize,
    asked: usize,
    restart_after: Duration,
}

/// The requests to stop of a run, and the processes that end by them.
pub(super) struct Stops {
    /// By task.
    requests: Vec<Option<Request>>,
    /// The tasks whose program has ended and whose last messages are on their way, each with the
    /// task whose request has ended it, if one has.
    leaving: BTreeMap<usize, Option<usize>>,
    waiting: Vec<Waiting>,
}

/// A task whose program has ended, and whose process is to.
#[derive(Clone, Copy)]
pub(in crate::simulation) struct Leaver {
    pub(in crate::simulation) task: usize,
    /// The task whose request to stop has ended it, if one has.
    pub(in crate::simulation) asked: Option<usize>,
    /// The time limit for its last messages.
    pub(in crate::simulation) limit: Duration,
}

impl Stops {
    pub(super) fn new(tasks: usize) -> Self {
        Self { requests: vec![None; tasks], leaving: BTreeMap::new(), waiting: Vec::new() }
    }

    fn is_under_way(&self, task: usize) -> bool {
        self.stage(task) == Stage::UnderWay
    }

    fn stage(&self, task: usize) -> Stage {
        self.requests[task].map_or(Stage::Over, |request| request.stage)
    }

    /// The pause before `task` starts again after a crash: that of its request to stop, if that has
    /// not ended it yet, else `crash`.
    pub(super) fn restart_of_crashed(
        &self,
        task: usize,
        crash: Option<Duration>,
    ) -> Option<Duration> {
        if self.stage(task) == Stage::Over { crash } else { self.restart_after(task) }
    }

    fn restart_after(&self, asked: usize) -> Option<Duration> {
        self.requests[asked]?.restart_after
    }

    /// Ends the request to stop of `task`, if there is one. Returns the starts of the tasks that it
    /// has ended.
    pub(super) fn end(&mut self, now: Time, task: usize) -> Vec<FaultEffect> {
        self.leaving.remove(&task);
        if let Some(request) = &mut self.requests[task] {
            request.stage = Stage::Over;
        }
        let released = self.waiting.extract_if(.., |one| one.asked == task);
        let start = |Waiting { task, restart_after, .. }| {
            schedule(now, restart_after, FaultEvent::Restart { task })
        };
        released.map(start).collect()
    }
}

impl FaultInjector {
    /// Asks the life `incarnation` of `task` to stop, once it is not frozen. A life that was asked
    /// before dies at once, as in a crash.
    pub(super) fn ask_to_stop(
        &mut self,
        now: Time,
        (task, incarnation): (usize, u32),
        restart_after: Option<Duration>,
        connections: &mut Connections,
    ) -> Vec<FaultEffect> {
        if !connections.is_alive(task, incarnation) || self.has_returned[task] {
            return Vec::new();
        }
        let (is_second, is_frozen) = (self.stops.is_under_way(task), connections.is_frozen(task));
        let stage = if is_frozen && !is_second { Stage::Postponed } else { Stage::UnderWay };
        self.stops.requests[task] = Some(Request { restart_after, stage });
        if is_frozen {
            let event = FaultEvent::AskToStop { task, incarnation, restart_after };
            return vec![FaultEffect::Postpone { task, event }];
        }
        if is_second {
            return self.crash(now, task, restart_after, connections);
        }
        vec![FaultEffect::AskToStop { task }, end_of_grace(now, task, STOP_GRACE, connections)]
    }

    /// The task whose request to stop ends `task`, as its program returns now: its own, or that of
    /// a parameter server which has told it that it is `stopping`.
    pub(in crate::simulation) fn ended_by(
        &self,
        task: usize,
        stopping: Option<usize>,
    ) -> Option<usize> {
        let own = Some(task).filter(|task| self.stops.is_under_way(*task));
        own.or_else(|| stopping.filter(|peer| self.stops.requests[*peer].is_some()))
    }

    /// Whether the tasks that end by the request to stop of `asked` start again.
    pub(in crate::simulation) fn restarts_stopped(&self, asked: usize) -> bool {
        self.stops.restart_after(asked).is_some()
    }

    /// The process of `leaver` ends once its last messages have arrived, or at their limit.
    pub(in crate::simulation) fn leave(
        &mut self,
        now: Time,
        leaver: Leaver,
        connections: &Connections,
    ) -> FaultEffect {
        let Leaver { task, asked, limit } = leaver;
        self.stops.leaving.insert(task, asked);
        end_of_grace(now, task, limit, connections)
    }

    /// The first task that leaves and of which `have_arrived` all messages.
    #[inline]
    pub(in crate::simulation) fn next_to_end(
        &self,
        have_arrived: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        self.stops.leaving.keys().copied().find(|task| have_arrived(*task))
    }

    /// The time limit of `task`, for its end or for its last messages, has passed.
    pub(super) fn end_grace(
        &mut self,
        now: Time,
        task: usize,
        incarnation: u32,
        connections: &mut Connections,
    ) -> Vec<FaultEffect> {
        if !connections.is_alive(task, incarnation) {
            return Vec::new();
        }
        if connections.is_frozen(task) {
            let event = FaultEvent::EndOfGrace { task, incarnation };
            return vec![FaultEffect::Postpone { task, event }];
        }
        self.end_in_good_order(now, task, connections)
    }

    /// Ends the process of `task`, whose program has ended, or which was asked to stop. It tells
    /// its peers.
    pub(in crate::simulation) fn end_in_good_order(
        &mut self,
        now: Time,
        task: usize,
        connections: &mut Connections,
    ) -> Vec<FaultEffect> {
        let asked = self.stops.leaving.get(&task).copied().unwrap_or(Some(task));
        let other = asked.filter(|asked| *asked != task && self.stops.is_under_way(*asked));
        let after = asked.and_then(|asked| self.stops.restart_after(asked));
        if let (Some(asked), Some(restart_after)) = (other, after) {
            self.stops.waiting.push(Waiting { task, asked, restart_after });
        }
        let mut effects = self.fall_silent(now, task, connections);
        let watchers = effects.iter().filter_map(|effect| match effect {
            FaultEffect::Watch { observer, .. } => Some(*observer),
            _ => None,
        });
        let told: Vec<_> = watchers.map(|observer| say_bye(observer, task)).collect();
        if !self.are_expected {
            effects.clear(); // nothing keeps the word from them
        }
        effects.extend(told);
        let own = after.filter(|_| other.is_none());
        effects.extend(own.map(|after| schedule(now, after, FaultEvent::Restart { task })));
        effects.push(FaultEffect::Kill { task, restarts: after.is_some() });
        effects
    }
}

fn end_of_grace(now: Time, task: usize, limit: Duration, connections: &Connections) -> FaultEffect {
    let incarnation = connections.incarnation(task);
    schedule(now, limit, FaultEvent::EndOfGrace { task, incarnation })
}

/// The process of `peer`, which has ended in good order, says so to `observer`.
pub(super) fn say_bye(observer: usize, peer: usize) -> FaultEffect {
    FaultEffect::Tell { observer, peer, event: FaultEvent::PeerLeft { observer, peer } }
}

/// `observer` hears that the process of `peer` has ended in good order. It does not where the way
/// is cut, or where it has noticed the end by itself.
pub(super) fn peer_left(
    observer: usize,
    peer: usize,
    connections: &mut Connections,
) -> Vec<FaultEffect> {
    if connections.is_frozen(observer) {
        let event = FaultEvent::PeerLeft { observer, peer };
        return vec![FaultEffect::Postpone { task: observer, event }];
    }
    if connections.is_cut(peer, observer) || !connections.can_notice_death(observer, peer) {
        return Vec::new();
    }
    connections.give_up(observer, peer);
    // Where its next life is up already, that is not the one that has stopped.
    let loss = if connections.is_up(peer) { Loss::Restarted } else { Loss::Stopped };
    vec![FaultEffect::TellLost { observer, peer, loss }]
}
